"""Small models of transformers under remat.fit, beside transformers' own gradient checkpointing.

    python3 examples/hugging.py [names [budgets [link]]]    such as bert,llama 60,45,ck (percent of the plain step; ck: the peak
                                                            of checkpointing) measured (with values that leave for the host,
                                                            too); what it found is in hugging.txt

On a GPU sizes that keep it busy, in bfloat16; else sizes for one thread of a CPU. Times are medians of five steps, on a CPU those
in which the thread ran; peaks are of the allocator, on a CPU also of counted.c, which knows nothing of torch.
"""

import copy
import ctypes
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import remat  # noqa: E402
from remat import steps  # noqa: E402
from remat.model import Example, device_of, plain_forward  # noqa: E402
from remat.operations import clock  # noqa: E402

SIZES = {"vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
FEW = {**SIZES, "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": 0}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}


def words(batch=4, length=128):
    ids = torch.randint(3, 512, (batch, length))
    return {"input_ids": ids, "labels": ids}


def translated(batch=4, length=128):
    given = words(batch, length)
    return {**given, "labels": given["labels"][:, :length // 2].contiguous()}


def images(batch=4, pixels=96):
    return {"pixel_values": torch.randn(batch, 3, pixels, pixels), "labels": torch.randint(0, 2, (batch,))}


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

WIDE = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16}
LARGE = {  # for a GPU
    "bert": of("BertForMaskedLM", "BertConfig", lambda: words(16, 512), **WIDE, intermediate_size=4096),
    "llama": of("LlamaForCausalLM", "LlamaConfig", lambda: words(4, 2048), hidden_size=2048, num_hidden_layers=8,
                num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192, vocab_size=32000, pad_token_id=0),
    "t5": of("T5ForConditionalGeneration", "T5Config", lambda: translated(16, 512), vocab_size=32128, d_model=768, d_kv=64,
             d_ff=3072, num_layers=6, num_heads=12, decoder_start_token_id=0),
    "gpt2": of("GPT2LMHeadModel", "GPT2Config", lambda: words(8, 1024), n_positions=1024, n_embd=1024, n_layer=12, n_head=16),
    "qwen3": of("Qwen3ForCausalLM", "Qwen3Config", lambda: words(4, 2048), **WIDE, num_key_value_heads=8, head_dim=128,
                intermediate_size=3072, vocab_size=32000, pad_token_id=0),
    "vit": of("ViTForImageClassification", "ViTConfig", lambda: images(64, 224), **WIDE, intermediate_size=4096),
    "mixtral": of("MixtralForCausalLM", "MixtralConfig", lambda: words(4, 1024), hidden_size=1024, num_hidden_layers=4,
                  num_attention_heads=16, num_key_value_heads=8, intermediate_size=2048, num_local_experts=8, vocab_size=32000,
                  pad_token_id=0)}


def made(name):
    """A model to train, with a batch, where it runs."""
    if not torch.cuda.is_available():
        model, batch = NETWORKS[name]()
        return model.train(), batch
    with torch.device("cuda"):
        model, batch = LARGE[name]()
    return model.train().to(torch.bfloat16), {
        key: value.to(torch.bfloat16) if value.is_floating_point() else value for key, value in batch.items()}


def run(model, batch):
    model.zero_grad(set_to_none=True)
    model(**batch).loss.backward()


def seconds(model, batch, count=5):
    taken = []
    for _ in range(count + 1):
        begin = clock(device_of(model, batch))
        run(model, batch)
        taken.append(clock(device_of(model, batch)) - begin)
    model.zero_grad(set_to_none=True)
    return statistics.median(taken[1:])


def loss(result):
    return result["loss"]


def peak(model, batch):
    example = Example(model, batch)
    example.settle()
    return steps.peak(plain_forward(model), example, loss, True)


def counted(model, batch):
    """Bytes of a step by counted.c: what there is more at its peak than before it, and the batch."""
    library = ctypes.CDLL(None)
    library.counted_level.restype = library.counted_peak.restype = ctypes.c_size_t
    run(model, batch)
    model.zero_grad(set_to_none=True)
    gc.collect()
    library.counted_begin()
    before = library.counted_level()
    run(model, batch)
    taken = library.counted_peak() - before
    model.zero_grad(set_to_none=True)
    return taken + sum(value.numel() * value.element_size() for value in batch.values())


def beneath_a_counter():
    """Starts again, in this process, with counted.c where the allocator is."""
    if torch.cuda.is_available() or "counted" in os.environ.get("LD_PRELOAD", ""):
        return
    library = pathlib.Path(tempfile.mkdtemp()) / "counted.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, pathlib.Path(__file__).with_name("counted.c")], check=True)
    os.environ["LD_PRELOAD"] = str(library)
    os.execv(sys.executable, [sys.executable, *sys.argv])


def learned(model, plain, batch):
    """How far weights are apart after five steps, beside the largest of each tensor."""
    optimizers = [torch.optim.SGD(each.parameters(), 0.05) for each in (model, plain)]
    for seed in range(5):
        for each, optimizer in zip((model, plain), optimizers):
            torch.manual_seed(seed)
            run(each, batch)
            optimizer.step()
    return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-9)) for a, b in zip(model.parameters(), plain.parameters()))


def table(name, budgets, link):
    torch.manual_seed(0)
    plain, batch = made(name)
    whole, alone = peak(plain, batch), seconds(plain, batch)
    checkpointed = copy.deepcopy(plain)
    checkpointed.gradient_checkpointing_enable()
    least, slower = peak(checkpointed, batch), seconds(checkpointed, batch)
    print(f"{name}: plain {whole} bytes, {1e3 * alone:.0f} ms; checkpointing {least / whole:.2f} of the bytes in {slower / alone:.2f} "
          "of the time", flush=True)
    for budget, way in [(budget, way) for budget in budgets for way in dict.fromkeys((None, link))]:
        amount = least if budget == "ck" else int(float(budget) / 100 * whole)
        torch._dynamo.reset()
        fitted, begin = copy.deepcopy(plain), time.monotonic()
        try:
            remat.fit(fitted, batch, amount, loss=loss, link=way)
        except remat.BudgetError as error:
            print(f"  {budget:>3}{' link' if way else ''}: {error}", flush=True)
            continue
        took = time.monotonic() - begin
        step = seconds(fitted, batch)
        beside = f" ({counted(fitted, batch) / amount:.3f} as counted)" if not torch.cuda.is_available() else ""
        print(f"  {budget:>3}{' link' if way else ''}: peak {fitted.forward.measured_peak / amount:.3f} of the budget{beside}, {step / alone:.2f} of "
              f"the time, fit {took:.0f} s, weights apart {learned(fitted, copy.deepcopy(plain), batch):.0e}", flush=True)


def main(names=None, budgets="60,45,ck", link=None):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, one thread"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {device}")
    for name in names.split(",") if names else LARGE if torch.cuda.is_available() else NETWORKS:
        table(name, budgets.split(","), link)


if __name__ == "__main__":
    beneath_a_counter()
    main(*sys.argv[1:])
