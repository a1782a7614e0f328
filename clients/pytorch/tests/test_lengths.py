"""Batches of many lengths: a few solves for all of them, each within the budget, and the gradients of the plain step."""

import copy
import time

import pytest
import torch
from models import GPT
from steps import assert_same
from test_backend import LONG

import remat
from remat import lengths, sharing, steps
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


@pytest.mark.core
@pytest.mark.parametrize("order", ["longest first", "shortest first"])
def test_few_solves_for_many_lengths(order, server, solves):
    torch.manual_seed(0)
    model = GPT(width=64, length=LONGEST, depth=2)
    plain, first = copy.deepcopy(model), batch(LONGEST)
    whole = steps.peak(plain_forward(model), Example(model, (first, first)), None, True, held=True)
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
        taken = steps.peak(model.forward, Example(plain, (batch(length),) * 2), None, True, held=True)
        assert taken <= 1.02 * 0.75 * whole, length
    print(order, len(solves), [round(s, 2) for s in seconds])
    assert len(solves) <= (3 if order == "longest first" else 4)
    assert len(model.forward.pieces) >= COUNT - 1


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
    assert lists.take(profile(4, "wxyz"), 2500) is None  # of other operations nothing is
    assert lists.costs(profile(5)) is None  # a larger one is measured
    smaller = {**profile(2), "nodes": [{**node, "time": 0.0, "workspace_bytes": 0} for node in profile(2)["nodes"]]}
    known = lists.costs(smaller)
    assert [n["time"] for n in known["nodes"]] == [20.0] * 4 + [0.0] and known["nodes"][0]["workspace_bytes"] == 7
    assert lists.take(profile(2), 1100) == plain  # everything may be kept
    assert lists.take(profile(4), 1800) == again
    assert lists.take(profile(4), 1500) is None  # does not fit
    assert lists.take(profile(4), 2006) is None  # one of its own would be worth a solve
    assert lists.ahead(profile(5), 1000) == 1000
    lists.add(profile(5), again, 2200, True)
    assert lists.ahead(profile(6), 1000) == 900
