"""Twenty networks under remat.fit on torch 2, beside checkpointing of every block and the compiler's activation memory
budget, at the peaks that those two are measured to have.

    python3 examples/twenty.py http://127.0.0.1:7070 [name...]

Sizes are for one thread of a CPU. Each network runs in a process of its own.
"""

import copy
import functools
import math
import os
import statistics
import subprocess
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import remat
from remat import steps
from remat.model import Example, plain_forward

STEPS = int(os.environ.get("REMAT_STEPS", "7"))
SHARE = "70%"  # of the plain step's measured peak, of the budget of the first row
ACTIVATIONS = 0.5  # the compiler's activation memory budget


# ---- networks of our own ----

class Attention(nn.Module):
    def __init__(self, width, heads, groups=None, rotary=False, causal=True, dropout=0.0):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups or heads, width // heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * self.groups * self.size)
        self.out, self.rotary, self.causal, self.dropout = nn.Linear(width, width), rotary, causal, nn.Dropout(dropout)

    def forward(self, x, mask=None):
        b, t, c = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, self.groups, self.size).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        if self.rotary:
            q, k = turned(q), turned(k)
        k, v = (s.repeat_interleave(self.heads // self.groups, 1) for s in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal and mask is None)
        return self.dropout(self.out(y.transpose(1, 2).reshape(b, t, c)))


def turned(x):
    t, half = x.shape[2], x.shape[3] // 2
    angle = torch.arange(t).float()[:, None] / 100 ** (torch.arange(half).float() / half)[None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.out(F.silu(self.a(x)) * self.b(x))


class Experts(nn.Module):
    """Top 2 of 4, each token's weights of the others zero."""

    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
                                      for _ in range(4)])

    def forward(self, x):
        scores, chosen = self.gate(x).topk(2, -1)
        weights = torch.zeros(*x.shape[:-1], 4).scatter(-1, chosen, scores.softmax(-1))
        return sum(weights[..., i:i + 1] * expert(x) for i, expert in enumerate(self.experts))


class Block(nn.Module):
    def __init__(self, width, heads, norm=nn.LayerNorm, feed=None, **attention):
        super().__init__()
        self.norm1, self.norm2 = norm(width), norm(width)
        self.attention = Attention(width, heads, **attention)
        self.feed = feed(width) if feed else nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                                           nn.Linear(4 * width, width), nn.Dropout(attention.get("dropout", 0.0)))

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.feed(self.norm2(x))


class Words(nn.Module):
    """A language model; with targets it returns its loss."""

    def __init__(self, depth=12, width=64, heads=4, words=256, **block):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.blocks = nn.ModuleList([Block(width, heads, **block) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, ids, targets=None):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Masked(Words):
    """BERT: both directions, padding masked."""

    def __init__(self):
        super().__init__(8, causal=False, dropout=0.1)

    def forward(self, ids, lengths):
        mask = (torch.arange(ids.shape[1]) < lengths[:, None])[:, None, None, :]
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


class Recurrent(nn.Module):
    def __init__(self, cells, width=64, words=256):
        super().__init__()
        self.words, self.head, self.width = nn.Embedding(words, width), nn.Linear(width, words), width
        self.lstm = None if cells else nn.LSTM(width, width, 2, batch_first=True)
        self.cells = nn.ModuleList([nn.LSTMCell(width, width) for _ in range(2)]) if cells else None

    def forward(self, ids):
        x = self.words(ids)
        if self.lstm is not None:
            return self.head(self.lstm(x)[0])
        states = [(torch.zeros(len(ids), self.width), torch.zeros(len(ids), self.width)) for _ in self.cells]
        results = []
        for y in x.unbind(1):
            for i, cell in enumerate(self.cells):
                states[i] = cell(y, states[i])
                y = states[i][0]
            results.append(self.head(y))
        return torch.stack(results, 1)


class Pair(nn.Module):
    """Two inputs, a dict of results."""

    def __init__(self):
        super().__init__()
        part = lambda: nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))  # noqa: E731
        self.left, self.right = nn.ModuleList([part() for _ in range(6)]), nn.ModuleList([part() for _ in range(6)])
        self.head = nn.Linear(128, 10)

    def forward(self, a, b):
        for left, right in zip(self.left, self.right):
            a, b = a + left(b), b + right(a)
        return {"classes": self.head(torch.cat([a, b], -1)), "far": (a - b).square().mean()}


class Shared(nn.Module):
    """One weight in every layer, and hooks that scale what passes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.LayerNorm(128)) for _ in range(10)])
        for layer in self.layers[1:]:
            layer[0].weight = self.layers[0][0].weight
        for layer in self.layers[::3]:
            layer.register_forward_hook(scaled)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def scaled(module, inputs, output):
    return output * 0.5


class Up(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        part = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),  # noqa: E731
                                          nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.down = nn.ModuleList([part(3, width), part(width, 2 * width), part(2 * width, 4 * width)])
        self.up = nn.ModuleList([part(6 * width, 2 * width), part(3 * width, width)])
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x):
        kept = []
        for i, part in enumerate(self.down):
            x = part(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for part, skip in zip(self.up, kept[1::-1]):
            x = part(torch.cat([F.interpolate(x, scale_factor=2.0), skip], 1))
        return self.head(x)


# ---- the twenty: model, inputs, loss, blocks ----

def classes(result):
    result = result.get("out", result.get("classes")) if isinstance(result, dict) else result
    result = result.logits if hasattr(result, "logits") else result
    if result.dim() == 4:
        return F.cross_entropy(result.float(), torch.zeros(result.shape[0], *result.shape[2:], dtype=torch.long))
    return F.cross_entropy(result.float().flatten(0, -2), torch.zeros(result[..., 0].numel(), dtype=torch.long))


def pair_loss(result):
    return classes(result) + result["far"]


def vision(name, size, batch, blocks, **more):
    import torchvision

    part = torchvision.models.segmentation if name.startswith(("fcn", "deeplab")) else torchvision.models
    weights = {"weights": None, **({"weights_backbone": None} if part is not torchvision.models else {})}
    model = getattr(part, name)(**weights, **more)
    return model, (torch.randn(batch, 3, size, size),), classes, blocks(model)


def children(*names):
    return lambda model: [child for name in names for child in model.get_submodule(name).children()]


def stages(model):
    return [block for part in (model.layer1, model.layer2, model.layer3, model.layer4) for block in part]


def ids(*shape):
    return torch.randint(256, shape)


def language(**more):
    model = Words(**more)
    return model, (ids(4, 128),), classes, list(model.blocks)


def with_loss_inside():
    model = Words()
    return model, (ids(4, 128), ids(4, 128)), None, list(model.blocks)


def vit():
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(image_size=96, patch_size=16, num_layers=12, num_heads=6, hidden_dim=96, mlp_dim=384)
    return model, (torch.randn(8, 3, 96, 96),), classes, list(model.encoder.layers)


def masked():
    model = Masked()
    return model, (ids(4, 128), torch.tensor([128, 90, 64, 17])), classes, list(model.blocks)


def own(model, inputs, loss, blocks):
    return model, inputs, loss, blocks


def segmentation(model):
    return [block for name, part in model.backbone.named_children() if name.startswith("layer") for block in part]


NETWORKS = {
    "resnet50": lambda: vision("resnet50", 96, 4, stages),
    "densenet121": lambda: vision("densenet121", 64, 4, lambda m: [c for n, c in m.features.named_children() if "block" in n]),
    "googlenet": lambda: vision("googlenet", 96, 4, lambda m: [c for n, c in m.named_children() if n.startswith("inception")],
                                aux_logits=False, init_weights=False),
    "inception_v3": lambda: vision("inception_v3", 160, 4, lambda m: [c for n, c in m.named_children() if n.startswith("Mixed")],
                                   aux_logits=False, init_weights=False),
    "mobilenet_v3_large": lambda: vision("mobilenet_v3_large", 96, 4, lambda m: list(m.features)),
    "vit_b_16, narrow": vit,
    "swin_t": lambda: vision("swin_t", 128, 4, lambda m: [b for s in m.features for b in (s if isinstance(s, nn.Sequential) else [])]),
    "fcn_resnet50": lambda: vision("fcn_resnet50", 96, 4, segmentation, aux_loss=False),
    "deeplabv3_resnet50": lambda: vision("deeplabv3_resnet50", 96, 4, segmentation, aux_loss=False),
    "U-Net": lambda: (lambda m: own(m, (torch.randn(4, 3, 64, 64),), classes, [*m.down, *m.up]))(Up()),
    "GPT, loss outside": language,
    "GPT, loss inside": with_loss_inside,
    "BERT, masks": masked,
    "LSTM": lambda: (lambda m: own(m, (ids(8, 40),), classes, []))(Recurrent(False)),
    "LSTMCell": lambda: (lambda m: own(m, (ids(8, 40),), classes, []))(Recurrent(True)),
    "GPT, bfloat16": language,
    "two inputs, dict": lambda: (lambda m: own(m, (torch.randn(256, 64), torch.randn(256, 64)), pair_loss,
                                               [*m.left, *m.right]))(Pair()),
    "experts, top 2": lambda: language(depth=6, feed=Experts),
    "Llama-like": lambda: language(depth=8, norm=RMSNorm, feed=Gated, groups=2, rotary=True),
    "shared weights, hooks": lambda: (lambda m: own(m, (torch.randn(512, 128),), lambda y: y.square().mean(),
                                                    list(m.layers)))(Shared()),
}


# ---- what is measured ----

def autocast(name):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled="bfloat16" in name)


def checkpointed(model, blocks):
    """A copy in which every block is checkpointed."""
    memo = {}
    twin = copy.deepcopy(model, memo)
    for block in blocks:
        block = memo[id(block)]
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return twin


def with_activation_budget(model, share):
    """By the compiler's own partitioner; operations one by one, as remat's."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config

    from remat.backend import _boxed

    def backend(graph, inputs):
        with config.patch(activation_memory_budget=share):
            return aot_autograd(fw_compiler=lambda m, _: _boxed(m), keep_inference_input_mutations=True,
                                partition_fn=min_cut_rematerialization_partition)(graph, inputs)

    return torch.compile(functools.partial(type(model).forward, model), backend=backend, dynamic=False)


def timed(variants, inputs, loss):
    """Medians of the times of steps, in turns, milliseconds."""
    times = {name: [] for name in variants}
    for turn in range(STEPS + 1):
        for name, (model, run) in variants.items():
            torch.manual_seed(turn)
            model.zero_grad(set_to_none=True)
            begin = time.thread_time()
            result = run(*inputs)
            (loss(result) if loss else result).backward()
            times[name].append(1e3 * (time.thread_time() - begin))
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def gradients(model, run, inputs, loss, seed):
    torch.manual_seed(seed)
    model.zero_grad(set_to_none=True)
    result = run(*inputs)
    value = loss(result) if loss else result
    value.backward()
    return [value.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None),
            *(b.clone() for b in model.buffers()), torch.get_rng_state()]


def apart(found, expected):
    assert len(found) == len(expected)
    scale = max(float(b.float().abs().max()) for b in expected[1:-1] if b.numel()) or 1.0
    most = 0.0
    for a, b in zip(found, expected):
        if not torch.equal(a, b):
            most = max(most, float((a.float() - b.float()).abs().max()) / max(float(b.float().abs().max()), 1e-3 * scale))
    return most


def row(name, server):
    torch.manual_seed(0)
    model, inputs, loss, blocks = NETWORKS[name]()
    plain = copy.deepcopy(model)
    example = Example(plain, inputs)

    variants = {"plain": (plain, plain)}
    peaks = {"plain": steps.peak(plain_forward(plain), example, loss, True)}
    budgets = {SHARE: SHARE}
    if blocks:
        twin = checkpointed(model, blocks)
        peaks["checkpointing"] = steps.peak(plain_forward(twin), Example(twin, inputs), loss, True)
        variants["checkpointing"] = (twin, twin)
    other = copy.deepcopy(model)
    run = with_activation_budget(other, ACTIVATIONS)
    try:
        gradients(other, run, inputs, loss, 0)
        peaks["activation budget"] = steps.peak(run, Example(other, inputs), loss, True)
        variants["activation budget"] = (other, run)
    except Exception as error:  # of the compiler's own
        print(f"    activation budget: {type(error).__name__}: {str(error).splitlines()[0][:100]}", flush=True)
    budgets.update({f"at {kind}": bytes_ for kind, bytes_ in peaks.items() if kind != "plain"})
    expected = {}
    for label, budget in budgets.items():
        fitted = copy.deepcopy(model)
        begin = time.time()
        try:
            remat.fit(fitted, inputs, budget, server=server, loss=loss, offline="error")
        except remat.BudgetError as error:
            print(f"{name:22} {label:20} {peaks['plain'] if budget == SHARE else budget:>12} no schedule; "
                  f"the least is {error.minimum_budget}", flush=True)
            continue
        took = time.time() - begin
        region = fitted.forward
        if not expected:
            start = copy.deepcopy(model)
            expected.update(enumerate(gradients(start, start, inputs, loss, seed) for seed in range(2)))
        start = copy.deepcopy(fitted.state_dict())
        most = max(apart(gradients(fitted, fitted, inputs, loss, seed), expected[seed]) for seed in range(2))
        fitted.load_state_dict(start)
        variants[label] = (fitted, fitted)
        bound = budget if isinstance(budget, int) else peaks["plain"] * int(budget[:-1]) // 100
        peaks[label] = (bound, region.schedule.get("peak", 0), region.measured_peak,
                        len(region.profile.get("nodes", ())), len(region.pieces), most, took)
    times = timed(variants, inputs, loss)
    for label in ("plain", "checkpointing", "activation budget"):
        if label in times:
            print(f"{name:22} {label:20} {peaks[label]:>12} {times[label]:34.1f} ms {times[label] / times['plain']:6.2f}", flush=True)
    for label in budgets:
        if label not in times:
            continue
        bound, predicted, measured, nodes, pieces, most, took = peaks[label]
        rival = label.removeprefix("at ")
        beside = f" {times[label] / times[rival]:5.2f} of it" if rival in times and rival != label else ""
        print(f"{name:22} {label:20} {measured:>12} {predicted:>12} {measured / predicted if predicted else math.nan:7.4f} "
              f"{'within' if measured <= bound else 'ABOVE'} {times[label]:7.1f} ms {times[label] / times['plain']:6.2f}{beside}  "
              f"{'bitwise' if most == 0 else f'{most:.0e} apart'}, {nodes} nodes, {pieces} graphs, fit {took:.0f} s", flush=True)


def main():
    server, names = sys.argv[1], sys.argv[2:] or list(NETWORKS)
    if os.environ.get("REMAT_ROW"):
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        with autocast(names[0]):
            row(names[0], server)
        return
    print(f"{'network':22} {'what':20} {'peak':>12} {'predicted':>12} {'ratio':>7} budget     step  of plain", flush=True)
    for name in names:
        try:
            done = subprocess.run([sys.executable, __file__, server, name], env={**os.environ, "REMAT_ROW": "1"},
                                  timeout=900, check=False, stderr=subprocess.PIPE, text=True)
        except subprocess.TimeoutExpired:
            print(f"{name:22} took more than 900 s", flush=True)
            continue
        if done.returncode:
            print(f"{name:22} failed: {done.stderr.strip().splitlines()[-1][:160]}", flush=True)


if __name__ == "__main__":
    main()
