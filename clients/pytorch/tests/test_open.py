"""Sizes that are left open: one trace for all of them where it holds, one for each where it does not; the numbers are the plain step's."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from steps import assert_same
from torch import nn

import remat
from remat.backend import Backend
from remat.joint import version

WIDTH = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Chain(nn.Module):
    """Blocks, with `between` after the first."""

    def __init__(self, between=None, after=None, part=None):
        super().__init__()
        self.blocks, self.part = nn.ModuleList(Block() for _ in range(3)), part() if part is not None else None
        self.between, self.after = between or (lambda self, x: x), after or (lambda self, x, given: x)

    def forward(self, x):
        given, x = x, self.between(self, self.blocks[0](x))
        return self.after(self, self.blocks[2](self.blocks[1](x)), given)


# ---- operators whose backward knows sizes that torch.compile must know, too ----

def operator(name, assumes):
    """The identity, of whose backward nothing can be told without what `assumes` asks of a size."""
    @torch.library.custom_op(f"remat_test::{name}", mutates_args=())
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @torch.library.custom_op(f"remat_test::{name}_backward", mutates_args=())
    def backward(x: torch.Tensor) -> torch.Tensor:
        return x * 3 if assumes(x.shape[1]) else x * 2

    forward.register_fake(torch.empty_like)
    backward.register_fake(lambda x: torch.empty_like(x) if assumes(x.shape[1]) else x.new_empty(x.shape))
    forward.register_autograd(lambda ctx, gradient: backward(gradient))
    return forward


def number(size):
    return int(size) % 8 == 0


def long(size):
    return size > 20


ONE, RANGE = operator("one", number), operator("range", long)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.beside = x * 2
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 + 0 * (ctx.beside + ctx.saved_tensors[0])


def attention(self, x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def turned(self, x, given):
    """With no result that lies in the order of its dimensions."""
    return x.transpose(1, 2)


def states(self, x):
    return self.part(x.transpose(1, 2)).transpose(1, 2)


def sdpa_attention_forward(self, x):
    """Of the name that transformers has: a step that is traced makes a mask where a plain one does without, up to the window."""
    n = x.shape[1]
    if not torch.compiler.is_compiling() and n <= WINDOW:
        return attention(self, x)
    apart = torch.arange(n)[:, None] - torch.arange(n)[None]
    return F.scaled_dot_product_attention(x, x, x, attn_mask=(apart >= 0) & (apart < WINDOW))


WINDOW = 16
LENGTHS = (32, 24, 12, 28, 8, 24)
EACH = 1 + len(set(LENGTHS))  # the example, and, once sizes are open, each length
CASES = {  # model; how often AOTAutograd traces for one length
    "plain": (Chain, 1),
    "attention": (lambda: Chain(attention), 1),
    "masks": (lambda: Chain(sdpa_attention_forward), 1 + sum(n <= WINDOW for n in LENGTHS)),
    "one number": (lambda: Chain(lambda self, x: ONE(x)), EACH),
    "a range": (lambda: Chain(lambda self, x: RANGE(x)), 1 + sum(not long(n) for n in LENGTHS)),
    "dropout": (lambda: Chain(lambda self, x: F.dropout(x, 0.3, self.training) + torch.rand_like(x)), 1),
    "running statistics": (lambda: Chain(states, part=lambda: nn.BatchNorm1d(WIDTH)), 1),
    "results as long": (lambda: Chain(after=lambda self, x, given: (x.flatten(1), x.shape[1], x[:, 1:] - x[:, :-1])), 1),
    "results of other strides": (lambda: Chain(after=turned), EACH),
    "a mean": (lambda: Chain(lambda self, x: x - x.mean(1, keepdim=True), lambda self, x, given: x.mean() * x.shape[1]), 1),
    "halves": (lambda: Chain(lambda self, x: torch.cat((x[:, x.shape[1] // 2:], x[:, :x.shape[1] // 2]), 1)), 1),
    "saved unchecked": (lambda: Chain(lambda self, x: Double.apply(x)), EACH if version() >= (2, 14) else 1),  # which 2.6 checks, too
    "the input": (lambda: Chain(after=lambda self, x, given: (x, given[:, 1:])), 1),
}

CORE = ("plain", "masks", "dropout", "saved unchecked")


@pytest.fixture
def traces(monkeypatch):
    """AOTAutograd's, but those of sizes left open."""
    made, original = [], Backend._compile

    def compile_(self, module, example):
        made.append(len(example))
        return original(self, module, example)

    monkeypatch.setattr(Backend, "_compile", compile_)
    return made


def numbers(model, x, seed, wanted=True, **more):
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    x = x.detach().clone().requires_grad_(wanted)
    out = model(x, **more)
    out = out if isinstance(out, tuple) else (out,)
    sum((t.float() * torch.linspace(0.5, 1.5, t.numel()).view(t.shape)).sum() for t in out if isinstance(t, torch.Tensor)).backward()
    return [*(t.detach() if isinstance(t, torch.Tensor) else torch.tensor(t) for t in out), x.grad, *(p.grad for p in model.parameters()),
            *(b.clone() for b in model.buffers()), torch.get_rng_state()]


def pair(make):
    torch.manual_seed(0)
    model = make()
    return model, copy.deepcopy(model)


def of_length(n, batch=4):
    return torch.randn(batch, n, WIDTH, generator=torch.Generator().manual_seed(n))


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.core] * (case in CORE)) for case in CASES])
def test_each_length(case, server, traces):
    make, often = CASES[case]
    model, plain = pair(make)
    remat.fit(model, of_length(LENGTHS[0]).requires_grad_(case != "the input"), "80%", server=server, check=False)
    for i, n in enumerate((*LENGTHS, *LENGTHS)):  # torch.compile sums the gradients of views that are given back in another order
        assert_same(*(numbers(each, of_length(n), i, case != "the input") for each in (model, plain)), (case, n))
    assert len(traces) == often
    assert all(piece.schedule for piece in model.forward.pieces)


@pytest.mark.core
@pytest.mark.parametrize("dynamic", [None, True], ids=["by itself", "from the first"])
def test_batches_and_lengths(dynamic, server, traces):
    """Two sizes; those that are 0 or 1 are graphs of Dynamo's own."""
    model, plain = pair(Chain)
    run = torch.compile(model, backend=remat.backend("1GiB", server=server), dynamic=dynamic)
    for batch, n in ((4, 32), (4, 24), (3, 24), (2, 12), (5, 40), (1, 16), (4, 1), (0, 8), (3, 0), (3, 16)):
        assert_same(*(numbers(each, of_length(n, batch), 0) for each in (run, plain)), (batch, n))
    assert len(traces) <= 6  # those of Dynamo's


@pytest.mark.core
def test_steps_that_overlap_and_backwards_that_come_twice(server, traces):
    model, plain = pair(Chain)
    remat.fit(model, of_length(32), "80%", server=server)
    found = []
    for each in (model, plain):
        each.zero_grad(set_to_none=True)
        losses = [each(of_length(n)).square().mean() for n in (24, 12, 28, 24)]
        for k in (2, 0, 1, 0, 3):
            losses[k].backward(retain_graph=k == 0)
        found.append([p.grad for p in each.parameters()])
    assert_same(*found)
    assert len(traces) == 1


@pytest.mark.core
def test_gradients_come_as_they_are_made(server, traces):
    model, plain = pair(Chain)
    remat.fit(model, of_length(32), "80%", server=server)
    for n in (32, 24, 12):
        came = [], []
        for each, order in zip((model, plain), came):
            def step_with(p, name, order=order):
                order.append(name)
                p.data.add_(p.grad, alpha=-0.1)

            handles = [p.register_post_accumulate_grad_hook(lambda p, name=name, act=step_with: act(p, name)) for name, p in each.named_parameters()]
            numbers(each, of_length(n), 0, wanted=False)
            for handle in handles:
                handle.remove()
        blocks = [name.split(".")[1] for name in came[0]]  # the last one's first; which of it wait, as a schedule may have it, times decide
        assert blocks.index("2") < blocks.index("0") and len(blocks) == 12, blocks
        assert_same([*model.parameters()], [*plain.parameters()], n)
    assert len(traces) == 1


@pytest.mark.core
def test_autocast_and_what_wants_gradients(server, traces):
    """Each is a trace of its own, for all lengths."""
    model, plain = pair(Chain)
    remat.fit(model, of_length(32), "80%", server=server)
    for n, wanted, kind in ((24, True, None), (12, False, None), (28, True, torch.bfloat16), (8, True, torch.bfloat16), (20, True, torch.float16),
                            (16, False, torch.float16), (20, False, None), (16, True, torch.bfloat16)):
        found = []
        for each in (model, plain):
            with torch.autocast("cpu", kind, enabled=kind is not None, cache_enabled=False):
                found.append(numbers(each, of_length(n), 0, wanted))
        assert_same(*found, (n, wanted, kind))


class Given(nn.Module):
    """Two inputs, of which one may be written."""

    def __init__(self, writes):
        super().__init__()
        self.block, self.writes = Block(), writes

    def forward(self, x, y):
        if self.writes:
            y.mul_(0.5)
        return self.block(x) * y.mean() + y.sum(1, keepdim=True)


@pytest.mark.core
@pytest.mark.parametrize("writes", [False, True], ids=["read", "written"])
def test_inputs_that_lie_in_the_same_bytes(writes, server, traces):
    model, plain = pair(lambda: Given(writes))

    def inputs(n, apart):
        """apart: None, two tensors; else numbers between the beginnings of two views."""
        store = torch.randn(2, 4 * 64 * WIDTH, generator=torch.Generator().manual_seed(n))
        views = [store[0, :4 * n * WIDTH], store[1, :4 * n * WIDTH] if apart is None else store[0, apart:apart + 4 * n * WIDTH]]
        return [view.clone().view(4, n, WIDTH) if apart is None else view.view(4, n, WIDTH) for view in views]

    remat.fit(model, tuple(inputs(32, None)), "1GiB", server=server)
    for n, apart in ((24, None), (12, None), (28, 7), (16, 7), (20, 2048), (8, 2048), (12, 1024), (24, 0), (16, None), (10, 5)):
        if writes and apart is not None:  # tests of lengths have whole numbers for that, which have no gradients
            continue
        found = []
        for each in (model, plain):
            each.zero_grad(set_to_none=True)
            x, y = inputs(n, apart)
            out = each(x, y)
            out.square().mean().backward()
            found.append([out.detach(), x, y, *(p.grad for p in each.parameters())])
        assert_same(*found, (n, apart))
    assert len(traces) == (1 if writes else 7)  # where it was traced apart, each that lies together is traced


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.block, self.head = nn.Embedding(50, WIDTH), Block(), nn.Linear(WIDTH, 50)

    def forward(self, ids, labels):
        return F.cross_entropy(self.head(self.block(self.embed(ids))).flatten(0, 1), labels.flatten())


@pytest.mark.core
def test_labels_that_are_the_next_numbers(server, traces):
    model, plain = pair(Shifted)

    def inputs(n):
        ids = torch.randint(50, (4, n + 1), generator=torch.Generator().manual_seed(n))
        return ids[:, :-1], ids[:, 1:]

    remat.fit(model, inputs(32), "1GiB", server=server)
    for n in (24, 12, 28):
        found = []
        for each in (model, plain):
            each.zero_grad(set_to_none=True)
            loss = each(*inputs(n))
            loss.backward()
            found.append([loss.detach(), *(p.grad for p in each.parameters())])
        assert_same(*found, n)
    assert len(traces) == 1


@pytest.mark.core
def test_copies_to_the_host(server, traces):
    model, plain = pair(Chain)
    remat.fit(model, of_length(32), "75%", server=server, link="100GB/s")
    for n in (24, 12, 28):
        assert_same(*(numbers(each, of_length(n), 0) for each in (model, plain)), n)
    assert len(traces) == 1 and any(op[0] == "O" for piece in model.forward.pieces for op in piece.schedule["operations"])


@pytest.mark.core
def test_nothing_of_a_graph_wants_a_gradient(server, traces):
    model, plain = pair(Chain)
    run = torch.compile(model.requires_grad_(False), backend=remat.backend("80%", server=server))
    for n in (32, 24, 12, 28):
        assert torch.equal(run(of_length(n)), plain(of_length(n)))
    assert len(traces) == 1


class Stretched(nn.Module):
    """AOTAutograd cannot trace its backward with sizes left open, and says so in torch's anomaly mode."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.slope, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.PReLU(), nn.ConvTranspose2d(8, 8, 2, stride=2)

    def forward(self, x):
        x = F.max_pool2d(self.slope(self.norm(self.conv(x))), 2)
        return F.interpolate(self.up(x), scale_factor=1.5, mode="bilinear").mean((2, 3))


@pytest.mark.core
@pytest.mark.filterwarnings("error:Error detected in")
def test_a_trace_that_fails_says_nothing(server):
    model, plain = pair(Stretched)
    remat.fit(model, torch.randn(4, 3, 16, 16), "1GiB", server=server)
    for size in ((4, 3, 12, 20), (3, 3, 9, 11), (1, 3, 14, 14)):
        image = torch.randn(size)
        assert_same(*(numbers(each, image, 0) for each in (model, plain)), size)


WAYS = {
    "a size as a tensor": lambda x, n: x * torch.tensor([n, 2 * n]).sum() + torch.full((1,), n),
    "numbers up to it": lambda x, n: x + torch.arange(n)[:, None] / n + torch.linspace(0, 1, n)[:, None] * n ** 0.5 + math.sqrt(n),
    "scaled": lambda x, n: x * (0.1 * n * 0.2 * (n / 7) ** 0.5 / (n * 0.3) + 1 / n / 3) + 0.1 * n * 0.7 * 0.3,
    "parts": lambda x, n: torch.cat([part * (i + 1) for i, part in enumerate(x.split(max(1, n // 3), 1))], 1),
    "chunks": lambda x, n: torch.cat([part.flip(1) for part in x.chunk(4, 1)], 1),
    "padded to a multiple": lambda x, n: F.pad(x, (0, 0, 0, -n % 8)).unflatten(1, (-1, 8)).cumsum(2).flatten(1, 2)[:, :n],
    "pooled to a number": lambda x, n: x + F.adaptive_avg_pool1d(x.transpose(1, 2), 4).mean(2)[:, None],
    "stretched": lambda x, n: F.interpolate(x.transpose(1, 2), size=2 * n, mode="linear").transpose(1, 2)[:, ::2],
    "rolled": lambda x, n: x.roll(n // 3, 1) * (n % 5),
    "in another order": lambda x, n: x.index_select(1, torch.randperm(n)),
    "windows": lambda x, n: x.unfold(1, 4, 2).mean(1, keepdim=True).mean(-1) + x,
    "squares": lambda x, n: (x @ x.transpose(1, 2)).softmax(-1).triu(n // 4) @ x,
    "repeated": lambda x, n: x.repeat(1, 3, 1).view(x.shape[0], 3, n, WIDTH).sum(1),
    "by a condition": lambda x, n: x * 2 if n % 8 else x * 3,
    "scattered": lambda x, n: torch.zeros(x.shape[0], n + 1, WIDTH).scatter_add(1, (torch.arange(n) % 5).view(1, n, 1).expand_as(x), x)[:, :n],
    "the largest": lambda x, n: x + x.topk(max(1, n // 2), 1).values.mean(1, keepdim=True),
    "convolved": lambda x, n: F.conv1d(x.transpose(1, 2), torch.ones(WIDTH, WIDTH, 3) / 48, padding=1).transpose(1, 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_done_with_a_size(way, server):
    model, plain = pair(lambda: Chain(lambda self, x: WAYS[way](x, x.shape[1])))
    remat.fit(model, of_length(32), "1GiB", server=server, check=False)
    for n in (24, 12, 28, 9, 16):
        assert_same(*(numbers(each, of_length(n), n) for each in (model, plain)), (way, n))
