"""Small models of transformers under remat.fit, beside transformers' own gradient checkpointing.

    python3 examples/hugging.py [names [budgets]]       such as bert,llama 60,45,ck (percent of the plain step; ck: the peak of
                                                        checkpointing); what it found is in hugging.txt

Sizes are for one thread of a CPU. Times are those in which the thread ran, medians of five steps; peaks are of the allocator.
"""

import copy
import functools
import pathlib
import statistics
import sys
import time
import warnings

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import remat  # noqa: E402
from remat import steps  # noqa: E402
from remat.model import Example, plain_forward  # noqa: E402

SIZES = {"vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
FEW = {**SIZES, "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": 0}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}


def words():
    ids = torch.randint(3, 512, (4, 128))
    return {"input_ids": ids, "labels": ids}


def translated():
    batch = words()
    return {**batch, "labels": batch["labels"][:, :64].contiguous()}


def images():
    return {"pixel_values": torch.randn(4, 3, 96, 96), "labels": torch.randint(0, 2, (4,))}


def of(kind, config, batch=words, **sizes):
    return lambda: (getattr(transformers, kind)(getattr(transformers, config)(**sizes)), batch())


NETWORKS = {
    "bert": of("BertForMaskedLM", "BertConfig", **SIZES, intermediate_size=256),
    "llama": of("LlamaForCausalLM", "LlamaConfig", **SIZES, intermediate_size=256, num_key_value_heads=2, pad_token_id=0),
    "t5": of("T5ForConditionalGeneration", "T5Config", translated, vocab_size=512, d_model=128, d_kv=32, d_ff=256, num_layers=3,
             num_heads=4, decoder_start_token_id=0),
    "gpt2": of("GPT2LMHeadModel", "GPT2Config", vocab_size=512, n_positions=128, n_embd=128, n_layer=4, n_head=4, bos_token_id=1,
               eos_token_id=2),
    "qwen3": of("Qwen3ForCausalLM", "Qwen3Config", **SIZES, intermediate_size=256, num_key_value_heads=2, head_dim=32,
                pad_token_id=0),
    "vit": of("ViTForImageClassification", "ViTConfig", images, hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
              intermediate_size=256, image_size=96, patch_size=8),
    "mixtral": of("MixtralForCausalLM", "MixtralConfig", **FEW, intermediate_size=128, num_local_experts=4),
    "qwen3 moe": of("Qwen3MoeForCausalLM", "Qwen3MoeConfig", **FEW, **EXPERTS, intermediate_size=256, head_dim=32)}


def run(model, batch):
    model.zero_grad(set_to_none=True)
    model(**batch).loss.backward()


def seconds(step, count=5):
    taken = []
    for _ in range(count + 1):
        begin = time.thread_time()
        step()
        taken.append(time.thread_time() - begin)
    return statistics.median(taken[1:])


def loss(result):
    return result["loss"]


def peak(model, batch):
    example = Example(model, batch)
    example.settle()
    return steps.peak(plain_forward(model), example, loss, True, held=True)


def learned(model, plain, batch):
    """How far weights are apart after five steps, beside the largest of each tensor."""
    optimizers = [torch.optim.SGD(each.parameters(), 0.05) for each in (model, plain)]
    for seed in range(5):
        for each, optimizer in zip((model, plain), optimizers):
            torch.manual_seed(seed)
            run(each, batch)
            optimizer.step()
    return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-9)) for a, b in zip(model.parameters(), plain.parameters()))


def table(name, budgets):
    torch.manual_seed(0)
    plain, batch = NETWORKS[name]()
    plain.train()
    whole, alone = peak(plain, batch), seconds(functools.partial(run, plain, batch))
    checkpointed = copy.deepcopy(plain)
    checkpointed.gradient_checkpointing_enable()
    least, slower = peak(checkpointed, batch), seconds(functools.partial(run, checkpointed, batch))
    print(f"{name}: plain {whole} bytes, {1e3 * alone:.0f} ms; checkpointing {least / whole:.2f} of the bytes in {slower / alone:.2f} "
          "of the time", flush=True)
    for budget in budgets:
        amount = least if budget == "ck" else int(float(budget) / 100 * whole)
        torch._dynamo.reset()
        fitted, begin = copy.deepcopy(plain), time.process_time()
        try:
            remat.fit(fitted, batch, amount, loss=loss)
        except remat.BudgetError as error:
            print(f"  {budget:>3}: {error}", flush=True)
            continue
        took = time.process_time() - begin
        step = seconds(functools.partial(run, fitted, batch))
        print(f"  {budget:>3}: peak {fitted.forward.measured_peak / amount:.3f} of the budget, {step / alone:.2f} of the time, fit "
              f"{took:.0f} s, weights apart {learned(fitted, copy.deepcopy(plain), batch):.0e}", flush=True)


def main(names=",".join(NETWORKS), budgets="60,45,ck"):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    for name in names.split(","):
        table(name, budgets.split(","))


if __name__ == "__main__":
    main(*sys.argv[1:])
