"""transformers' Trainer and generate, and accelerate, with a fitted model: as with a plain one."""

import copy
import inspect
import re
import types
import warnings

import pytest
import torch
from torch import nn

import remat
from remat import steps
from remat.model import forward_of
from remat.model import Example, plain_forward

transformers = pytest.importorskip("transformers")
WORDS, LENGTH = 60, 24


@pytest.fixture(autouse=True)
def of_no_other_test():
    """accelerate keeps one state for a process."""
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


def llama(**more):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, **more))


def gpt2():
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=WORDS, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=0))


def bert():
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_labels=3,
        max_position_embeddings=64, pad_token_id=0))


def mistral(window):
    torch.manual_seed(0)
    return transformers.MistralForCausalLM(transformers.MistralConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        sliding_window=window, max_position_embeddings=64, pad_token_id=0))


def sentences(count=16, lengths=(LENGTH,), seed=0):
    """Rows of a data set, of several lengths in turns."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for i in range(count):
        ids = torch.randint(3, WORDS, (lengths[i % len(lengths)],), generator=generator)
        rows.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()})
    return rows


def padded(rows):
    """A batch of the longest row's length."""
    longest = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": 0, "attention_mask": 0, "labels": -100}
    return {name: torch.stack([nn.functional.pad(row[name], (0, longest - len(row[name])), value=value) for row in rows])
            for name, value in fill.items()}


def train(model, folder, rows, callbacks=(), steps=3, resume=None, **more):
    """Losses and weights after some steps of Trainer."""
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=4, learning_rate=0.1, optim="sgd",
        logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, seed=1, **{"save_strategy": "no", **more})
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:4],
                                   data_collator=padded, callbacks=list(callbacks))
    trainer.train(resume_from_checkpoint=resume)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return trainer, losses, [p.detach().clone() for p in model.parameters()]


def close(found, expected, near=1e-6):
    for a, b in zip(found, expected):
        assert torch.allclose(a, b, rtol=near, atol=near), float((a - b).abs().max())


def half_a_loss(self, input_ids=None, attention_mask=None, labels=None, **more):
    result = type(self).forward(self, input_ids, attention_mask, labels=labels, **more)
    result.loss = result.loss / 2
    return result


@pytest.mark.core
@pytest.mark.parametrize("case", ["plain", "accumulation", "bf16", "patched", "lengths", "smoothing", "checkpointing", "frozen"])
def test_trainer(case, tmp_path, server, capfd):
    """A short plain run and a fitted one give one model. Frozen: checkpointing then makes what the embedding gives require gradients."""
    more = {"accumulation": {"gradient_accumulation_steps": 2}, "bf16": {"bf16": True}, "patched": {"bf16": True}, "smoothing": {"label_smoothing_factor": 0.1},
            "checkpointing": {"gradient_checkpointing": True}, "frozen": {"gradient_checkpointing": True}}.get(case, {})
    rows = sentences(24, (LENGTH, LENGTH - 4, 9)[:3 if case == "lengths" else 1])
    models = llama(), llama()
    for model in models if case == "frozen" else ():
        model.get_input_embeddings().weight.requires_grad_(False)
    for model in models if case == "patched" else ():
        model.forward = types.MethodType(half_a_loss, model)
    expected = train(models[0], tmp_path, rows, **more)
    callback = remat.TrainerCallback(budget="80%", server=server)
    found = train(models[1], tmp_path, rows, [callback], **more)
    said = capfd.readouterr().err
    assert re.search(r"remat: LlamaForCausalLM trains within 80%: a step takes \d+ bytes at most", said) and "more time predicted" in said
    assert ("gradient checkpointing is off" in said) == (case in ("checkpointing", "frozen"))
    fitted = callback.forward.fitted
    assert not fitted.backend.breaks
    assert fitted.pieces and fitted.measured_peak <= 1.02 * fitted.budget
    assert len(found[1]) == 3 and found[1] == pytest.approx(expected[1], rel=2e-2 if "bf16" in more else 1e-6)
    close(found[2], expected[2], 3e-2 if "bf16" in more else 1e-5)


def test_evaluation_checkpoint_and_resume(tmp_path, server):
    rows, kept = sentences(24), {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2}
    expected = train(llama(), tmp_path / "plain", rows, steps=4, **kept)
    callback = remat.TrainerCallback("80%", server=server)
    trainer, _, _ = train(llama(), tmp_path / "fitted", rows, [callback], steps=4, **kept)
    trainer.save_model(tmp_path / "saved")
    saved = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "saved")
    close(list(saved.parameters()), expected[2], 1e-5)
    again = train(llama(), tmp_path / "fitted", rows, [remat.TrainerCallback("80%", server=server)], steps=4,
                  resume=str(tmp_path / "fitted" / "checkpoint-2"), **kept)
    close(again[2], expected[2], 1e-5)
    evaluated = [[entry["eval_loss"] for entry in each.state.log_history if "eval_loss" in entry] for each in (trainer, expected[0])]
    assert evaluated[0] == pytest.approx(evaluated[1], rel=1e-5) and len(evaluated[0]) == 2


def test_a_larger_batch_than_the_first(tmp_path, server, capfd):
    """A percentage is then of that one, which is said."""
    rows = sentences(4, (6,)) + sentences(8, (LENGTH,))
    arguments = {"train_sampling_strategy": "sequential"} if "train_sampling_strategy" in inspect.signature(
        transformers.TrainingArguments).parameters else {}
    expected = train(llama(), tmp_path, rows, **arguments)
    found = train(llama(), tmp_path, rows, [remat.TrainerCallback("70%", server=server)], **arguments)
    assert 1 <= capfd.readouterr().err.count("trains within 70%") <= 2
    close(found[2], expected[2], 1e-5)


def test_a_callback_that_comes_late(tmp_path, server):
    accelerate = pytest.importorskip("accelerate")
    model = accelerate.Accelerator(cpu=True, mixed_precision="bf16").prepare(llama())
    with pytest.raises(remat.CaptureError, match="callbacks="):
        remat.TrainerCallback("80%", server=server).on_train_begin(None, None, None, model)
    with pytest.raises(remat.CaptureError, match="torch_compile"):
        train(llama(), tmp_path, sentences(8, (LENGTH,)), [remat.TrainerCallback("80%", server=server)], torch_compile=True)


@pytest.mark.core
@pytest.mark.parametrize("make", [llama, gpt2])
def test_generate(make, server):
    """The same text, with a mask and without, by beams, before and after a step."""
    model, row = make(), sentences(4)
    plain, batch = copy.deepcopy(model), padded(row)
    remat.fit(model, batch, "80%", server=server)
    ids, mask = batch["input_ids"][:, :8], batch["attention_mask"][:, :8].clone()
    mask[:2, :3] = 0
    for _ in range(2):
        for how in ({}, {"attention_mask": mask}, {"num_beams": 3}, {"num_beams": 2, "attention_mask": mask}):
            texts = [each.eval().generate(ids, max_new_tokens=6, do_sample=False, **how) for each in (model, plain)]
            assert torch.equal(*texts), how
        for each in (model, plain):
            each.train()
            each.zero_grad()
            torch.manual_seed(0)
            each(**batch).loss.backward()
        close([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
        torch.optim.SGD(plain.parameters(), 0.1).step()
        model.load_state_dict(plain.state_dict())


@pytest.mark.core
def test_a_model_that_accelerate_has_wrapped_is_refused(server):
    accelerate = pytest.importorskip("accelerate")
    prepared = accelerate.Accelerator(cpu=True, mixed_precision="bf16").prepare(llama())
    with pytest.raises(remat.CaptureError, match="unwrap_model"):
        remat.fit(prepared, padded(sentences(4)), "90%", server=server)


@pytest.mark.core
@pytest.mark.parametrize("keep", [False, True])
def test_accelerate(keep, server):
    """Fitted, prepared, trained and unwrapped, in both forms."""
    accelerate = pytest.importorskip("accelerate")
    batch, found = padded(sentences(4)), []
    for fitted in (True, False):
        model = llama()
        accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
        if fitted:
            with accelerator.autocast():
                remat.fit(model, batch, "90%", server=server)
        prepared = accelerator.prepare(model)
        steps = []
        for _ in range(2):
            prepared.zero_grad()
            loss = prepared(**batch).loss
            assert loss.dtype == torch.float32
            accelerator.backward(loss)
            steps += [loss.detach(), *(p.grad for p in prepared.parameters())]
            torch.optim.SGD(prepared.parameters(), 0.1).step()
        own = accelerator.unwrap_model(prepared, keep_fp32_wrapper=keep)
        assert own is model and list(inspect.signature(own.forward).parameters)[:2] == ["input_ids", "attention_mask"]
        assert (forward_of(own) is not None) == fitted
        own.zero_grad()
        own(**batch).loss.backward()
        found.append([*steps, *(p.grad for p in own.parameters())])
        if keep and fitted:
            with pytest.raises(remat.CaptureError, match="keep_fp32_wrapper"):
                remat.remove(own)
        if not keep and fitted:
            assert isinstance(own.forward, types.MethodType)
            twin = copy.deepcopy(own)
            twin(**batch).loss.backward()
            assert forward_of(twin) is not forward_of(own)
            assert remat.remove(own) is own and "forward" not in vars(own)
    for a, b in zip(*found):
        assert torch.allclose(a.float(), b.float(), rtol=3e-2, atol=3e-2 * float(b.abs().max()))


class Adapter(nn.Module):
    """As PEFT puts one around a layer."""

    def __init__(self, layer):
        super().__init__()
        self.base_layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, 4, bias=False), nn.Linear(4, layer.out_features, bias=False)
        torch.manual_seed(layer.in_features)
        nn.init.normal_(self.up.weight, std=0.1)

    def forward(self, x):
        return self.base_layer(x) + self.up(self.down(x))


def adapted(model):
    model.requires_grad_(False)
    torch.manual_seed(3)
    for layer in model.model.layers:
        layer.self_attn.q_proj, layer.self_attn.v_proj = Adapter(layer.self_attn.q_proj), Adapter(layer.self_attn.v_proj)
    return model


@pytest.mark.parametrize("when", ["before", "after"])
def test_adapters(when, server):
    model, plain, batch = llama(), adapted(llama()), padded(sentences(4))
    if when == "before":
        adapted(model)
    remat.fit(model, batch, "85%", server=server)
    if when == "after":
        adapted(model)
    for _ in range(2):
        for each in (model, plain):
            each.zero_grad()
            each(**batch).loss.backward()
            torch.optim.SGD([p for p in each.parameters() if p.requires_grad], 0.1).step()
        assert [p.grad is None for p in model.parameters()] == [p.grad is None for p in plain.parameters()]
        close(*([p.grad for p in each.parameters() if p.grad is not None] for each in (model, plain)))


@pytest.mark.core
def test_what_a_forward_is_called_with_passes_through(server):
    """output_hidden_states, return_dict, num_items_in_batch."""
    model, batch = llama(), padded(sentences(4))
    plain = copy.deepcopy(model)
    remat.fit(model, batch, "90%", server=server)
    for more in ({"output_hidden_states": True}, {"return_dict": False}, {"num_items_in_batch": torch.tensor(40)}):
        results = []
        for each in (model, plain):
            each.zero_grad()
            result = each(**batch, **more)
            (result[0] if isinstance(result, tuple) else result.loss).backward()
            hidden = () if isinstance(result, tuple) or result.get("hidden_states") is None else result.hidden_states
            results.append([result[0].detach(), *(h.detach() for h in hidden), *(p.grad for p in each.parameters())])
        close(*results)
        assert len(results[0]) == len(results[1]) and ("output_hidden_states" not in more or len(results[0]) >= 4 + len(list(plain.parameters())))


def test_hooks_of_a_first_call_stay(server):
    """transformers installs hooks in a model's first call; fit does not install them again in each of its steps."""
    model, batch = llama(), padded(sentences(4))
    model.config.output_hidden_states = True
    remat.fit(model, batch, "90%", server=server)
    plain = llama()
    plain.config.output_hidden_states = True
    plain(**batch)
    hooks = [[len(module._forward_hooks) for module in each.modules()] for each in (model, plain)]
    assert hooks[0] == hooks[1]
    assert len(model(**batch).hidden_states) == len(plain(**batch).hidden_states)


def test_a_forward_that_breaks_into_graphs(server):
    """Whisper's encoder draws a number for each layer, and looks at it."""
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=WORDS, num_mel_bins=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=128, decoder_ffn_dim=128, d_model=32, max_source_positions=100, max_target_positions=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, dropout=0.0)).train()
    plain, batch = copy.deepcopy(model), {"input_features": torch.randn(4, 16, 200), "labels": torch.randint(3, WORDS, (4, 48))}
    whole = steps.peak(plain_forward(plain), Example(plain, batch), None, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the break is said
        remat.fit(model, batch, "60%", server=server)
    backend = model.forward.backend
    assert any("modeling_whisper.py" in reason for reason in backend.breaks) and len(backend.calls) > len(backend.frames())
    assert model.forward.measured_peak <= 0.6 * whole
    for seed in range(2):
        for each in (model, plain):
            torch.manual_seed(seed)
            each.zero_grad()
            each(**batch).loss.backward()
            torch.optim.SGD(each.parameters(), 0.1).step()
        close([p.grad for p in model.parameters() if p.grad is not None], [p.grad for p in plain.parameters() if p.grad is not None])


@pytest.mark.parametrize("make, masked, gone", [
    (gpt2, None, True), (bert, None, True), pytest.param(lambda: mistral(64), None, True, marks=pytest.mark.core),
    pytest.param(lambda: mistral(8), None, False, marks=pytest.mark.core), (gpt2, 5, False)])
def test_masks_that_a_plain_step_has_not(make, masked, gone, server):
    """Attention is told is_causal, or nothing, where it is in a plain step: the same bits, and no mask among its inputs."""
    model = make()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    ids = torch.randint(3, WORDS, (4, LENGTH))
    batch = {"input_ids": ids, "labels": ids if make is not bert else torch.randint(3, (4,))}
    if masked:
        batch["attention_mask"] = torch.ones_like(ids)
        batch["attention_mask"][1, -masked:] = 0
    plain = copy.deepcopy(model)
    remat.fit(model, batch, "80%", loss=lambda out: out["loss"], server=server)
    kernels = [node for node in model.forward.profile["nodes"] if "scaled_dot_product" in node["op"] and "backward" not in node["op"]]
    assert kernels and all((len(node["inputs"]) == 3) == gone for node in kernels), kernels
    for length in (LENGTH, LENGTH - 9, LENGTH - 16, LENGTH - 13):  # the third is compiled from a graph of any size
        cut = {name: value[:, :length] if name != "labels" or make is not bert else value for name, value in batch.items()}
        found = [(float(each(**cut).loss), torch.autograd.grad(each(**cut).loss, list(each.parameters()), allow_unused=True))
                 for each in (model, plain)]
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
        for got, expected in zip(found[0][1], found[1][1]):
            assert (got is None) == (expected is None)
            assert got is None or (torch.equal(got, expected) if gone else torch.allclose(got, expected, rtol=1e-3, atol=1e-6))
