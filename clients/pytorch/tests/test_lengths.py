"""Batches of many lengths: a few solves for all of them, each within the budget, and the gradients of the plain step."""

import copy
import re
import sys
import time

import pytest
import torch
from models import GPT
from torch import nn
from steps import assert_same, step
from test_backend import LONG

import remat
from remat import lengths, sharing, steps
from remat.backend import Backend
from remat.client import Client
from remat.model import Example, plain_forward

LONGEST, COUNT = 64, 32 if LONG else 8


def batch(length):
    return torch.randint(97, (4, length), generator=torch.Generator().manual_seed(length))


@pytest.fixture
def solves(monkeypatch):
    """Budgets that were asked for."""
    asked, original = [], Client.schedule

    def schedule(self, profile, budget, *more, **named):
        asked.append(budget)
        return original(self, profile, budget, *more, **named)

    monkeypatch.setattr(Client, "schedule", schedule)
    return asked


def gradients(model, ids):
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    loss = model(ids, ids)["loss"]
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("order", ["longest first", pytest.param("shortest first", marks=pytest.mark.core)])
def test_few_solves_for_many_lengths(order, server, solves, monkeypatch):
    traced, compiles = [], Backend.__call__
    monkeypatch.setattr(Backend, "__call__", lambda self, *args: traced.append(self) or compiles(self, *args))
    torch.manual_seed(0)
    model = GPT(width=64, length=LONGEST, depth=2)
    plain, first = copy.deepcopy(model), batch(LONGEST)
    whole = steps.peak(plain_forward(model), Example(model, (first, first)), None, True)
    every = [LONGEST - LONGEST * i // (COUNT + 1) for i in range(COUNT)]
    every = every if order == "longest first" else every[::-1]
    example = batch(every[0])
    remat.fit(model, (example, example), int(0.75 * whole), server=server)
    seconds = []
    for length in every:
        begin = time.perf_counter()
        found = gradients(model, batch(length))
        seconds.append(time.perf_counter() - begin)
        assert_same(found, gradients(plain, batch(length)), length)
        taken = steps.peak(model.forward, Example(plain, (batch(length),) * 2), None, True)
        assert taken <= 1.02 * 0.75 * whole, length
    print(order, len(solves), [round(s, 2) for s in seconds])
    assert len(traced) <= 3  # the example of fit, and the second length for all others
    assert len(solves) <= (3 if order == "longest first" else 4)
    assert len(model.forward.pieces) >= COUNT - 1


@torch.library.custom_op("remat_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@doubled.register_fake
def _(x):
    if any(isinstance(size, torch.SymInt) for size in x.shape):
        raise RuntimeError("sizes that are open are not supported")
    return torch.empty_like(x)


doubled.register_autograd(lambda ctx, gradient: doubled(gradient))


class Sizes(nn.Module):
    """Sizes among the numbers and the results, numbers of Python that change, an input that is written."""

    def __init__(self, closed):
        super().__init__()
        self.embed, self.up, self.down, self.factor, self.closed = nn.Embedding(97, 16), nn.Linear(16, 64), nn.Linear(64, 16), 1.0, closed

    def forward(self, ids, seen, repeat=1):
        seen.add_(ids.sum() % 7)  # which may lie where ids do
        n = ids.shape[1]
        x = self.embed(ids % 97) * n ** -0.5 + torch.arange(n).view(1, n, 1) / (n + 1)
        for _ in range(repeat):
            x = x + self.down(torch.relu(self.up(x))) * self.factor
        x = doubled(x) if self.closed else 2 * x
        return x.view(-1, 2, n // 2, 16).transpose(1, 2).flatten(2), n, seen.sum()


@pytest.mark.core
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_numbers_and_memory_that_change_with_the_length(closed, server, monkeypatch):
    """Sixty-four shapes are kept, here three. What Dynamo cannot follow with sizes left open is compiled for each."""
    monkeypatch.setattr(sys.modules["remat.backend"], "SHAPES", 3)
    torch.manual_seed(0)
    model = Sizes(closed)
    plain = copy.deepcopy(model)

    def inputs(n, apart):
        store = torch.randint(97, (4 * 32 + 64,), generator=torch.Generator().manual_seed(n))
        return store[:4 * n].view(4, n), store[apart:apart + 4]

    remat.fit(model, (*inputs(32, 140), 2), "80%", server=server, loss=lambda out: out[0].square().mean())
    assert model.forward.schedule["recomputed_time"] > 0
    calls = [(n, 140, 2, 1.0) for n in (24, 16, 8, 12, 24)] + [(20, 140, 1, 1.0), (20, 140, 1, 0.25), (16, 3, 2, 0.25), (16, 140, 2, 0.25),
                                                               (16, 62, 2, 0.25), (8, 0, 1, 1.0), (2, 1, 2, 1.0), (20, 7, 1, 0.25)]
    for n, apart, repeat, factor in calls:
        found = []
        for each in (model, plain):
            each.factor = factor
            each.zero_grad(set_to_none=True)
            given = inputs(n, apart)
            out, size, total = each(*given, repeat)
            out.square().mean().backward()
            found.append([out.detach(), torch.tensor(size), total, *given, *(p.grad for p in each.parameters())])
        assert_same(*found, (n, apart, repeat, factor))
    assert closed or len(model.forward.pieces) < len(calls)


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def block(self, x):
        return x + self.down(torch.relu(self.up(x)))

    def forward(self, x):
        x = self.block(self.block(x))
        return self.block(torch.max_pool1d(x.transpose(1, 2), 2).transpose(1, 2))


@pytest.mark.core
def test_a_wrong_length_leaves_the_others_as_they_are(server):
    """Dynamo leaves code that it could not follow once as it is, and follows what that calls: graphs of their own, with a budget each."""
    torch.manual_seed(0)
    model = Pooled()
    plain = copy.deepcopy(model)
    remat.fit(model, torch.randn(16, 32, 16), "80%", server=server)
    nodes = len(model.forward.profile["nodes"])
    for length in (24, 1, 1, 9, 1, 9, 17):
        x = torch.randn(16, length, 16, generator=torch.Generator().manual_seed(length))
        if length == 1:
            with pytest.raises(RuntimeError) as wrong:
                plain(x)
            with pytest.raises(RuntimeError, match=re.escape(str(wrong.value))):
                model(x)
            continue
        assert_same(*(step(each, (x,), 0) for each in (model, plain)), length)
    assert model.forward.dynamic is None and {len(piece.profile["nodes"]) for piece in model.forward.pieces} == {nodes}


class Beside(Pooled):
    def __init__(self):
        super().__init__()
        self.beside = nn.LSTM(4, 4)


def test_a_model_with_an_lstm_keeps_its_schedule_past_64_lengths(server):
    model = Beside()
    remat.fit(model, torch.randn(2, 80, 16), "80%", server=server)
    with pytest.warns(UserWarning, match="has traced one code 64 times"):
        for length in range(79, 11, -1):
            model(torch.randn(2, length, 16)).sum().backward()
            assert len(model.forward.backend.calls) == 1, length  # not plainly
    remat.remove(model)
    remat.fit(model, torch.randn(2, 80, 16), "80%", server=server)
    assert model.forward.pieces


class Written(nn.Module):
    """Its second graph writes an input, in whose bytes another lies: sizes are not left open there."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        half = torch.relu(self.before(x)) * 2
        flat = half.view(-1)
        torch._dynamo.graph_break()
        half.add_(1)
        return self.after(torch.tanh(half) + flat.view(half.shape))


def test_a_graph_that_is_compiled_for_each_length_says_so(server):
    torch.manual_seed(0)
    model = Written()
    plain = copy.deepcopy(model)
    remat.fit(model, torch.randn(8, 16), 10**6, server=server)
    with pytest.warns(UserWarning, match="a graph was compiled for 8 kinds of inputs"):
        for length in range(9, 20):
            x = torch.randn(length, 16, generator=torch.Generator().manual_seed(length))
            assert_same(*(step(each, (x,), 0) for each in (model, plain)), length)


@pytest.mark.core
def test_what_was_refused_is_not_asked_again(server, monkeypatch):
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(6)))
    remat.fit(model, torch.randn(64, 16), "80%", server=server)
    backend, asked = model.forward.backend, []
    schedule = backend.client.schedule
    monkeypatch.setattr(backend.client, "schedule", lambda *args, **more: asked.append(more) or schedule(*args, **more))
    said = []
    for _ in range(3):
        with pytest.raises(remat.BudgetError) as caught:
            model(torch.randn(4096, 16))
        said.append((str(caught.value), caught.value.minimum_budget))
    assert len(asked) == 1 and len(set(said)) == 1 and said[0][1] > model.forward.schedule["budget"]


def profile(scale, names="abcd"):
    """A chain whose last node reads the first, too."""
    nodes = [{"id": name, "op": "x", "inputs": [names[i - 1]] * (i > 0) + [names[0]] * (i == 3), "time": 10.0 * scale,
              "outputs": [{"bytes": size * scale}], "workspace_bytes": 7} for i, (name, size) in enumerate(zip(names, (100, 200, 200, 100)))]
    nodes.append({"id": "the forward ends", "op": "x", "inputs": [names[-1]], "time": 0.0, "outputs": [{"bytes": 0}],
                  "workspace_bytes": 0})
    return {"inputs": [], "nodes": nodes, "outputs": [names[-1]]}


@pytest.mark.core
def test_which_list_is_taken():
    lists = lengths.Lists()
    plain, again = [0, 1, 2, 3, 4], [0, 1, 2, 0, 3, 4]  # the first is not held, and made again
    assert [sharing.takes(profile(4), order).peak for order in (plain, again)] == [2007, 1607]
    assert lists.take(profile(4), 2500) is None and lists.costs(profile(4)) is None  # nothing is known
    lists.add(profile(4), again, 1700, True)
    other = profile(4, "wxyz")  # names are nothing, operations are
    assert lists.take(other, 2500) == plain
    other["nodes"][1]["op"] = "y"
    assert lists.take(other, 2500) is None
    assert lists.costs(profile(5)) is None  # a larger one is measured
    smaller = {**profile(2), "nodes": [{**node, "time": 0.0, "workspace_bytes": 0} for node in profile(2)["nodes"]]}
    known = lists.costs(smaller)
    assert [n["time"] for n in known["nodes"]] == [20.0] * 4 + [0.0] and known["nodes"][0]["workspace_bytes"] == 7
    assert lists.take(profile(2), 1100) == plain  # everything may be kept
    assert lists.take(profile(4), 1730) == again
    assert lists.take(profile(4), 1800) is None  # more than 2 % of what storing everything takes
    assert lists.take(profile(4), 1500) is None  # does not fit
    assert lists.take(profile(4), 2006) is None  # one of its own would be worth a solve
    cheap = profile(4)
    cheap["nodes"][0]["time"] = 1.0
    assert lists.take(cheap, 2006) == again  # to make that again costs next to nothing
    cheap["inputs"], cheap["nodes"][0]["inputs"] = [{"id": "x", "bytes": 0}], ["x"]
    assert lists.take(cheap, 2006) is None  # another graph
    lists.add(cheap, again, 1700, True)
    assert lists.take({**cheap, "inputs": [{"id": "y", "bytes": 0}], "nodes": [{**cheap["nodes"][0], "inputs": ["y"]}, *cheap["nodes"][1:]]}, 2006) == again
