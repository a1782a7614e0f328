"""An entry of the table of devices, measured on the device at hand: a handful of kernels of each class at some sizes.

    python3 examples/calibrate.py FILE [DEVICE [NAME]]

FILE is then what device_model= takes. DEVICE is cpu, which is the default, cuda or cuda:1."""

from __future__ import annotations

import functools
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import torch
import torch.nn.functional as F

from remat.devices import CLASSES, OPERATORS, Device
from remat.joint import dropout_mask
from remat.memory import free_bytes
from remat.operations import clock
from remat.planned import profile

_ENOUGH = 0.03  # seconds of runs of one kernel
_MOST = 50  # runs
_BETWEEN = 1 << 20  # numbers that are gone through before each run, so that it finds its own where a step leaves them
Case = Tuple[float, Callable[[], Any], Optional[Callable[[], Any]]]  # size, and what runs forward and backward


def calibrate(path: Optional[Union[str, Path]] = None, *, device: Union[str, torch.device] = "cpu", name: str = "here") -> Device:
    """Measures this device, in about half a minute, and returns its entry; with path, also writes it there. device_model= takes
    both. Rates are those of the threads that torch uses now. The generators of random numbers end as they began."""
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        with torch.no_grad():
            entry = _measure(device, name)
        _slow_down(entry, _in_a_step(entry, device))
    if path is not None:
        Path(path).write_text(json.dumps(entry, indent=1))
    return entry


def _measure(device: torch.device, name: str) -> Device:
    one = torch.ones(1, device=device)
    launch = _time(lambda: one + one, device)
    reached: Dict[str, Dict[str, List[List[float]]]] = {}  # per second, by class, way and size
    for kind in (*CLASSES, *OPERATORS):
        reached[kind] = {"forward": [], "backward": []}
        more = _BACKWARD.get(OPERATORS.get(kind, kind), 1.0)
        for size, forward, backward in _CASES[kind](device):
            for way, run, factor in (("forward", forward, 1.0), ("backward", backward, more)):
                if run is not None:
                    taken = _time(run, device)
                    reached[kind][way].append([factor * size, factor * size / max(taken - launch, taken / 20)])
    computing, moving = (max(rate for kind in kinds for points in reached[kind].values() for _, rate in points) for kinds in (CLASSES[:3], CLASSES[3:]))
    efficiency = {kind: {way: _steady(points, computing if OPERATORS.get(kind, kind) in CLASSES[:3] else moving)
                         for way, points in ways.items() if points} for kind, ways in reached.items()}
    operators = {kind: efficiency.pop(kind) for kind in OPERATORS}
    memory, _ = free_bytes(device) if device.type == "cpu" else (torch.cuda.mem_get_info(device)[1], "")
    here = f"{platform.processor() or platform.machine()} with {torch.get_num_threads()} threads"
    title = here if device.type == "cpu" else torch.cuda.get_device_name(device)
    return {"name": name, "title": title, "memory_bytes": memory, "context_bytes": 0, "bandwidth_bytes_per_second": moving, "launch_seconds": launch,
            "link_bytes_per_second": 0, "flops_per_second": {"float32": computing, **_others(device, computing)}, "efficiency": efficiency,
            "operators": operators, **({"communicator_bytes": 0, "eager_fragmentation": 0, "compiled_fragmentation": 0} if device.type == "cpu" else {}),
            "sources": {"all": f"calibrate.py, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}"}}


def _others(device: torch.device, computing: float) -> Dict[str, float]:
    """Rates of other numbers: beside float32's as their products are beside its products."""
    sides = {}
    for precision in (torch.float32, torch.bfloat16, torch.float16):
        side = torch.ones(384, 384, device=device, dtype=precision)
        try:
            sides[str(precision)[6:]] = _time(lambda side=side: side @ side, device)
        except RuntimeError:  # it has none
            continue
    whole = sides.pop("float32")
    return {name: computing * whole / taken for name, taken in sides.items()}


# ---- kernels in a step ----

class _Reference(torch.nn.Module):
    """Some of everything, as small as kernels of a step are that take a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.image = torch.nn.Sequential(torch.nn.Conv2d(3, 24, 3, padding=1), torch.nn.BatchNorm2d(24), torch.nn.ReLU(),
                                         torch.nn.Conv2d(24, 48, 3, padding=1, stride=2), torch.nn.BatchNorm2d(48), torch.nn.ReLU())
        self.layers = torch.nn.Sequential(*(part for _ in range(6) for part in (
            torch.nn.LayerNorm(48), torch.nn.Linear(48, 192), torch.nn.GELU(), torch.nn.Linear(192, 48))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.image(x).flatten(2).transpose(1, 2)).square().mean()


def _in_a_step(entry: Device, device: torch.device) -> float:
    """How many times the sum of its kernels, as the entry has them, a step takes: there they find less in caches, and their results where no page is yet."""
    model, x = _Reference().to(device), torch.rand(4, 3, 48, 48, device=device)
    kernels = sum(node["time"] for node in profile(model, x, entry)["nodes"])
    step = _time(lambda: torch.autograd.grad(model(x), list(model.parameters())), device)
    return max(1.0, 1e6 * step / kernels)


def _slow_down(entry: Device, times: float) -> None:
    entry["launch_seconds"] *= times
    for ways in (*entry["efficiency"].values(), *entry["operators"].values()):
        for point in (point for points in ways.values() for point in points):
            point[1] = max(point[1] / times, 1e-9)


def _time(run: Callable[[], Any], device: torch.device) -> float:
    """Seconds, the median of runs. On a CPU none finds its numbers in the caches of one core."""
    between = torch.zeros(_BETWEEN) if device.type == "cpu" else None
    run()
    times: List[float] = []
    while len(times) < 3 or sum(times) < _ENOUGH and len(times) < _MOST:
        if between is not None:
            between.add_(1)
        begin = clock(device)
        result = run()  # noqa: F841 (freed after the clock is read)
        times.append(clock(device) - begin)
        del result
    return max(statistics.median(times), 1e-8)


def _steady(points: List[List[float]], peak: float) -> List[List[float]]:
    """Fractions of a peak, over sizes that increase; larger kernels take no less time than smaller ones."""
    found: List[List[float]] = []
    for size, rate in sorted(points):
        fraction = min(rate / peak, size * found[-1][1] / found[-1][0] if found else rate / peak)
        if not found or size > found[-1][0]:
            found.append([size, max(fraction, 2e-9)])
    return found


# ---- kernels ----

_BACKWARD = {"convolution": 2.0, "attention": 2.5, "normalisation": 1.5, "pointwise": 1.5, "pooling": 1.0, "gather": 1.0}
aten = torch.ops.aten


def _matrix(device: torch.device) -> Iterator[Case]:
    """With a weight as a linear layer has it, whose columns are read, and as its backward does."""
    for n in (8, 16, 32, 64, 128, 256, 512):
        a, b, bias = (torch.rand(*shape, device=device) for shape in ((4 * n, n), (n, n), (n,)))
        yield 2.0 * 4 * n**3, lambda a=a, b=b, bias=bias: torch.addmm(bias, a, b.t()), lambda a=a, b=b: a @ b


_CONVOLUTIONS = {  # by kind: batch, channels read and written, side of the image, width of the kernel, groups
    "convolution": [(2, n, n, side, 3, 1) for n, side in ((16, 4), (16, 12), (16, 32), (16, 64), (32, 48), (64, 48))],
    # in full blocks of channels: devices.py counts what is computed beside them, too
    "convolution_1x1": [(2, *way, 1, 1) for way in ((16, 16, 8), (64, 32, 12), (64, 256, 12), (256, 128, 24), (512, 256, 24))],
    "convolution_of_points": [(4, *way, 1, 1, 1) for way in ((32, 8), (128, 32), (480, 120), (960, 240))],
    "convolution_depthwise": [(2, n, n, *way, n) for n, *way in ((32, 6, 3), (64, 12, 3), (128, 12, 5), (64, 48, 3), (128, 48, 5))]}


def _convolved(kind: str, device: torch.device) -> Iterator[Case]:
    for batch, read, written, side, width, groups in _CONVOLUTIONS[kind]:
        x, y = (torch.rand(batch, count, side, side, device=device) for count in (read, written))
        weight = torch.rand(written, read // groups, width, width, device=device)
        rest = [[1, 1], [width // 2] * 2, [1, 1], False, [0, 0], groups]
        yield (2.0 * batch * weight.numel() * side**2, lambda x=x, w=weight, r=rest: aten.convolution(x, w, None, *r),
               lambda x=x, y=y, w=weight, r=rest: aten.convolution_backward(y, x, w, None, *r, [True, True, False]))


def _batch_norm(device: torch.device) -> Iterator[Case]:
    for batch, channels, side in ((2, 16, 6), (4, 128, 6), (4, 512, 6), (4, 256, 24), (8, 64, 48)):
        x, weight = torch.rand(batch, channels, side, side, device=device), torch.rand(channels, device=device)
        rest = [weight, weight, True, 0.1, 1e-5]
        _, mean, deviation, *_ = aten._native_batch_norm_legit_functional(x, weight, weight, *rest)
        yield (2.0 * 4 * x.numel(), lambda x=x, w=weight, r=rest: aten._native_batch_norm_legit_functional(x, w, w, *r),
               lambda x=x, w=weight, m=mean, d=deviation: aten.native_batch_norm_backward(x, x, w, w, w, m, d, True, 1e-5, [True] * 3))


def _attention(device: torch.device) -> Iterator[Case]:
    for length in (16, 64, 128, 256, 512):
        q = torch.rand(2, 4, length, 32, device=device)
        run = lambda q=q: F.scaled_dot_product_attention(q, q, q, is_causal=True)  # noqa: E731
        with torch.enable_grad():
            x = q.clone().requires_grad_()
            result = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        yield 4.0 * 8 * length**2 * 32, run, lambda x=x, y=result: torch.autograd.grad(y, x, y, retain_graph=True)


def _normalisation(device: torch.device) -> Iterator[Case]:
    for rows in (8, 64, 512, 4096, 32768):
        x, weight = torch.rand(rows, 128, device=device), torch.rand(128, device=device)
        _, mean, deviation = aten.native_layer_norm(x, [128], weight, weight, 1e-5)
        yield (2.0 * 4 * x.numel(), lambda x=x, w=weight: aten.native_layer_norm(x, [128], w, w, 1e-5),
               lambda x=x, w=weight, m=mean, d=deviation: aten.native_layer_norm_backward(x, x, [128], m, d, w, w, [True] * 3))


def _pointwise(device: torch.device) -> Iterator[Case]:
    """Halves of products and of what takes an exponential."""
    for count in (256, 4096, 65536, 1 << 20):
        x = torch.rand(count, device=device)
        yield (4.0 * count * 2.5, lambda h=x[:count // 2]: (h * h, F.gelu(h)), lambda h=x[:count // 2]: (h * h, aten.gelu_backward(h, h)))


def _pooling(device: torch.device) -> Iterator[Case]:
    for side in (8, 32, 96, 192):
        x = torch.rand(2, 16, side, side, device=device)
        found, places = aten.max_pool2d_with_indices(x, [2, 2], [2, 2])
        yield (4.0 * x.numel() * 1.75, lambda x=x: aten.max_pool2d_with_indices(x, [2, 2], [2, 2]),
               lambda x=x, f=found, p=places: aten.max_pool2d_with_indices_backward(f, x, [2, 2], [2, 2], [0, 0], [1, 1], False, p))


def _gather(device: torch.device) -> Iterator[Case]:
    for rows in (8, 64, 512, 4096):
        table, places = torch.rand(1024, 128, device=device), torch.randint(1024, (rows,), device=device)
        found = table[places]
        yield (4.0 * (table.numel() + found.numel()), lambda t=table, p=places: F.embedding(p, t),
               lambda f=found, p=places: aten.embedding_dense_backward(f, p, 1024, -1, False))


def _random(device: torch.device) -> Iterator[Case]:
    for count in (256, 4096, 65536, 1 << 20):
        x = torch.rand(count, device=device)
        yield 5.0 * count, lambda x=x: dropout_mask(x, 0.5), None


def _copy(device: torch.device) -> Iterator[Case]:
    for count in (256, 4096, 65536, 1 << 20, 1 << 23):
        x = torch.rand(count, device=device)
        yield 2.0 * 4 * count, x.clone, None


_CASES = {"matrix": _matrix, "attention": _attention, "normalisation": _normalisation, "pointwise": _pointwise, "pooling": _pooling,
          "gather": _gather, "copy": _copy, "batch_norm": _batch_norm, "random": _random,
          **{kind: functools.partial(_convolved, kind) for kind in _CONVOLUTIONS}}


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    calibrate(sys.argv[1], **dict(zip(("device", "name"), sys.argv[2:])))
