"""Values that leave for the host and come back. On a CPU the copies lie outside of torch's allocator, and are made at once: what a
schedule moves, what it holds and every number are as on a GPU, where test_cuda.py has the streams."""

import copy
import json
from pathlib import Path

import pytest
import torch
from models import MODELS
from steps import assert_same, step
from torch import nn

import remat
from remat import partition, sharing, transfers
from remat.errors import CheckError

LINK = {"bandwidth": "2GB/s"}


def moves(model):
    return [op for piece in model.forward.pieces for op in piece.schedule["operations"] if op[0] in "OP"]


def together(name):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model, inputs, copy.deepcopy(model)


def update(parameter):
    parameter.data.add_(parameter.grad, alpha=-0.1)
    parameter.grad = None


@pytest.mark.parametrize("name, budget", [pytest.param("mlp", "60%", marks=pytest.mark.core), ("unet", "60%"),
                                          pytest.param("gpt", "50%", marks=pytest.mark.core), ("triplet", "60%")])
def test_bits_and_bytes(name, budget, server):
    model, inputs, plain = together(name)
    remat.fit(model, inputs, budget, server=server, link=LINK)
    assert moves(model)
    assert_same(step(model, inputs, 0), step(plain, inputs, 0))
    assert_same(step(model, inputs, 1), step(plain, inputs, 1))
    assert model.forward.measured_peak <= 1.005 * model.forward.schedule["budget"]
    assert model.forward.measured_peak == pytest.approx(model.forward.schedule["peak"], rel=0.01)


def test_moved_values_are_not_made_again(server):
    """Over a fast link nothing runs twice, where without one a tenth of the step does."""
    model, inputs, plain = together("gpt")
    remat.fit(model, inputs, "60%", server=server, link={"bandwidth": "100GB/s"})
    remat.fit(plain, inputs, "60%", server=server)
    assert model.forward.schedule["overhead"] < 0.01 < plain.forward.schedule["overhead"]


@pytest.mark.core
def test_an_optimizer_in_the_backward(server):
    model, inputs, plain = together("mlp")
    remat.fit(model, inputs, "60%", server=server, link=LINK)
    assert moves(model)
    for each in (model, plain):
        for parameter in each.parameters():
            parameter.register_post_accumulate_grad_hook(update)
    for seed in range(3):
        for each in (model, plain):
            torch.manual_seed(seed)
            each(*inputs).square().mean().backward()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters()))


def test_another_length_takes_the_list_with_its_moves(server):
    torch.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(6) for part in (nn.Linear(64, 64), nn.GELU())])
    plain = copy.deepcopy(model)
    remat.fit(model, torch.randn(256, 64), "60%", server=server, link=LINK)
    shorter = (torch.randn(192, 64),)
    assert_same(step(model, shorter, 0), step(plain, shorter, 0))
    assert len(model.forward.pieces) == 2 and moves(model)


@pytest.mark.core
def test_a_list_that_moves_wrongly_is_refused(server, monkeypatch):
    """Fetched, and never sent."""
    model, inputs, _ = together("mlp")
    real, wrong = partition.partition, []

    def without_the_first_copy(joint, order):
        first = next(i for i, run in enumerate(order) if isinstance(run, sharing.Move) and run.kind == "O")
        wrong.append(order[first])
        return real(joint, order[:first] + order[first + 1:])

    monkeypatch.setattr(partition, "partition", without_the_first_copy)
    with pytest.raises(Exception, match="of which there is no copy") as caught:
        remat.fit(model, inputs, "60%", server=server, link=LINK)
    assert wrong and isinstance(caught.value.__cause__ or caught.value, (CheckError, RuntimeError))


@pytest.mark.core
@pytest.mark.parametrize("link, what", [("fast", 'no link "fast"; known are pcie3-x16'), ("25GB", 'no link "25GB"'), ({"bandwith": "1GB/s"}, "bandwith")])
def test_links_that_are_none(link, what, server):
    with pytest.raises(Exception, match=what):
        remat.fit(nn.Linear(4, 4), torch.randn(2, 4), "100%", server=server, link=link)


@pytest.mark.core
@pytest.mark.parametrize("value", [
    torch.arange(24.0)[8:16].view(2, 4), torch.ones(1).expand(2, 4), torch.arange(8.0).view(4, 2).t(),
    torch.view_as_complex(torch.arange(16.0).view(2, 4, 2)).conj(), torch.arange(8).view(2, 4)],
    ids=["a part", "one number", "turned", "conjugate", "whole"])
def test_what_comes_from_outside_may_lie_anywhere(value):
    """As the gradient of a result that the loss puts beside others: it is a part of theirs."""
    back = transfers.to_device(transfers.to_host(value, (4, 1)), torch.device("cpu"))
    assert torch.equal(transfers.arrived(back, value.dtype, (2, 4), (4, 1)), value)


@pytest.mark.core
def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="link= and inner="):
        remat.backend("60%", inner="inductor", link=LINK)


@pytest.mark.core
def test_a_link_is_measured_in_two_digits(server):
    """While a graph is traced, too: of tensors of no bytes it would be endless."""
    model, inputs, _ = together("mlp")
    remat.fit(model, inputs, "80%", server=server, link="measured", check=False)
    for found in (transfers.measure(torch.device("cpu")), model.forward.backend.question["link"]):
        assert set(found) == {"to_host", "to_device", "latency"} and all(float(f"{v:.2g}") == v for v in found.values())
        assert 100 < found["to_host"] < 1e6  # bytes a microsecond


@pytest.mark.core
def test_solve_takes_a_link_by_its_name(server):
    profile = json.loads((Path(__file__).parents[2] / "profiles" / "vgg19.flops.json").read_text())
    named, spelled = (remat.solve(profile, "60%", server=server, link=link) for link in ("pcie4-x16", {"preset": "pcie4-x16"}))
    assert named["schedule_id"] == spelled["schedule_id"]
