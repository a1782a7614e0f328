"""Profiles from shapes alone are those of the fitted model, but for their times."""

import itertools
import json
import pathlib

import lists
import pytest
import torch
from models import MODELS
from test_backend import LONG, Own, compiled
from torch import nn

import remat
from remat import devices, planned


@pytest.mark.core
@pytest.mark.parametrize("name", ["vgg", "gpt"] if LONG else ["vgg"])
def test_the_profile_is_that_of_a_fit(name, tmp_path):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    backend = Own(lists.in_order, tmp_path)
    compiled(model, backend)(*inputs)
    measured = backend.pieces[0].profile
    torch._dynamo.reset()
    found = remat.profile(model, inputs, device_model="a100-80gb")
    assert "not measured" in found["source"]["note"] and found["inputs"] == measured["inputs"]
    for a, b in zip(found["nodes"], measured["nodes"]):
        for node in (a, b):
            node["costs"] = node.pop("time"), node.pop("workspace_bytes")
        assert a["costs"][0] > 0 or a["id"] in ("the loss", "the forward ends")
        assert {**a, "costs": 0} == {**b, "costs": 0}
    assert len(found["nodes"]) == len(measured["nodes"])


def test_no_weight_is_allocated_and_none_is_changed():
    with torch.device("meta"):
        model = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(1 << 16, 1 << 16), nn.GELU())))  # 64 GiB
    before = [id(p) for p in model.parameters()]
    found = remat.profile(model, torch.empty(8, 1 << 16, device="meta"), device_model="h100")
    assert sum(o["bytes"] for n in found["nodes"] if n["op"] == "aten.mm" for o in n["outputs"]) > 4 << 34
    assert [id(p) for p in model.parameters()] == before and all(p.is_meta for p in model.parameters())


def test_refused():
    class Breaks(nn.Module):
        def forward(self, x):
            return x * x.sum().item()

    for model, device, message in ((nn.Linear(4, 4), "pdp11", "pdp11.*a100-40gb"), (Breaks(), "cpu", "not one graph|cannot be"),
                                   (nn.Linear(4, 4), {"name": "x"}, "memory_bytes")):
        with pytest.raises(remat.CaptureError, match=message):
            remat.profile(model, torch.randn(2, 4, requires_grad=True), device_model=device)
    with pytest.raises(remat.CaptureError, match="computes no float16"):
        remat.profile(nn.Linear(4, 4).half(), torch.randn(2, 4).half(), device_model="cpu")


def test_the_roofline_is_that_of_the_service():
    """By hand, of the formula in remat/plan.h: between two points the fraction is their geometric mean."""
    device = {"name": "x", "memory_bytes": 1, "bandwidth_bytes_per_second": 1e9, "flops_per_second": {"float32": 1e12},
              "launch_seconds": 1e-6, "efficiency": {"matrix": {"forward": [[1e6, 0.01], [1e8, 1.0]]},
                                                     "copy": {"forward": [[1e3, 0.5], [1e5, 0.5]]}}}
    device = devices.find(device)
    assert devices.seconds(device, "matrix", "float32", False, 1e7, 0) == pytest.approx(1e-6 + 1e7 / (1e12 * 0.1))
    assert devices.seconds(device, "matrix", "float32", False, 1e9, 1e3) == pytest.approx(1e-6 + 1e-3)
    assert devices.seconds(device, "copy", "float32", True, 0, 1e4) == pytest.approx(1e-6 + 1e4 / 5e8)
    device["efficiency"]["matrix"]["peak"] = 1e13  # of which the device has a tenth: as full as ten times the work there
    assert devices.seconds(device, "matrix", "float32", False, 1e7, 0) == pytest.approx(1e-6 + 1e7 / 1e12)


CONVOLUTIONS = {  # layer and image, then its part, products of a forward and how much more is computed
    "convolution_1x1": (nn.Conv2d(32, 48, 1), 8, 2 * 4 * 64 * 48 * 32, 1),
    "convolution_of_points": (nn.Conv2d(32, 48, 1), 1, 2 * 4 * 48 * 32, 1),
    "convolution_depthwise": (nn.Conv2d(32, 32, 3, padding=1, groups=32), 8, 2 * 4 * 64 * 32 * 9, 1),
    "strided": (nn.Conv2d(32, 48, 1, stride=2), 8, 2 * 4 * 16 * 48 * 32, 1),
    "grouped": (nn.Conv2d(32, 48, 3, padding=1, groups=4), 8, 2 * 4 * 64 * 48 * 8 * 9, 1),
    "few": (nn.Conv2d(12, 24, 3, padding=1), 8, 2 * 4 * 64 * 24 * 12 * 9, 16 / 12 * 32 / 24),
    "of an image": (nn.Conv2d(3, 16, 3, padding=1), 8, 2 * 4 * 64 * 16 * 3 * 9, 1),
    "transposed": (nn.ConvTranspose2d(32, 48, 2, 2), 8, 2 * 4 * 64 * 48 * 32 * 4, 1)}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_takes_what_its_kernel_does(name):
    """At a thousandth of the peak for each part that has rates of its own, at a tenth for the rest."""
    layer, side, products, more = CONVOLUTIONS[name]
    device = {"name": "x", "memory_bytes": 1, "bandwidth_bytes_per_second": 1e15, "flops_per_second": {"float32": 1e12},
              "launch_seconds": 0, "efficiency": {"convolution": {"forward": [[1, 0.1]]}},
              "operators": {part: {"forward": [[1, 0.001]]} for part in devices.OPERATORS}}
    x = torch.randn(4, layer.in_channels, side, side, requires_grad=True)
    found = remat.profile(layer, x, device_model=device)
    times = {n["op"]: n["time"] for n in found["nodes"]}
    rate = 1e9 if name in devices.OPERATORS else 1e11
    assert times["aten.convolution"] == pytest.approx(1e6 * more * products / rate, rel=1e-3)
    assert times["aten.convolution_backward"] == pytest.approx(2e6 * more * products / rate, rel=1e-3)


def test_calibrate_writes_an_entry(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(pathlib.Path(__file__).resolve().parent.parent / "examples")
    import calibrate as calibration

    monkeypatch.setattr(calibration, "_ENOUGH", 0)
    monkeypatch.setattr(calibration, "_CASES", {kind: (lambda device, cases=cases: itertools.islice(cases(device), 3))
                                                for kind, cases in calibration._CASES.items()})
    state = torch.get_rng_state()
    entry = calibration.calibrate(tmp_path / "here.json")
    assert torch.equal(torch.get_rng_state(), state) and json.loads((tmp_path / "here.json").read_text()) == entry
    assert set(entry["efficiency"]) == set(devices.CLASSES) and entry["flops_per_second"]["float32"] > 1e8
    assert set(entry["operators"]) == set(devices.OPERATORS)
    for ways in (*entry["efficiency"].values(), *entry["operators"].values()):
        for points in ways.values():
            assert all(0 < f <= 1 for _, f in points)
            assert all(a[0] < b[0] and b[0] / b[1] >= a[0] / a[1] * (1 - 1e-9) for a, b in zip(points, points[1:]))
    found = remat.profile(nn.Linear(4, 4), torch.randn(2, 4), device_model=tmp_path / "here.json")
    assert found["nodes"][0]["time"] >= 1e6 * entry["launch_seconds"]


@pytest.mark.core
def test_what_a_device_leaves():
    model = nn.Linear(1000, 1000)
    weights = 4 * 1001000
    device = {**devices.find("cpu"), "memory_bytes": 10**8, "context_bytes": 1000}
    for optimizer, states in ((None, 0), ("adamw", 2 * weights), (torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), weights),
                              (torch.optim.Adam(model.parameters()), 2 * weights), ("adafactor", 4 * (2000 + 1000))):
        found = planned.device_budget(model, optimizer, device, torch.device("cpu"))
        assert found == 10**8 - 2 * 10**6 - 1000 - weights - states
    with pytest.raises(remat.BudgetError, match="weights and buffers"):
        planned.device_budget(model, "adamw", {**device, "memory_bytes": 10**7}, torch.device("cpu"))
    with pytest.raises(remat.BudgetError, match="lion"):
        planned.device_budget(model, "lion", device, torch.device("cpu"))


def test_a_budget_of_a_device(server):
    model, inputs = MODELS["mlp"]()
    device = {**devices.find("cpu"), "memory_bytes": 1200000}
    remat.fit(model, inputs, "device", server=server, device_model=device, optimizer="adamw")
    left = planned.device_budget(model, "adamw", device, torch.device("cpu"))
    assert model.forward.measured_peak <= left < 1200000
    with pytest.raises(ValueError, match="budget=\"device\""):
        remat.fit(MODELS["mlp"]()[0], inputs, "80%", server=server, device_model="cpu")
