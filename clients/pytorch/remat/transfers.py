"""Copies of values to the host and back, beside the computation: what O, D and P of a schedule do.

A copy runs on a stream of its own; `left` and `arrived` make the stream of the computation wait for it. So a value's memory is given back after the copy has
read it, and nothing reads what has not come. The host's memory is pinned. On a CPU, where this can be tried, copies are made at once and lie outside of
torch's allocator."""

import statistics
from typing import Any, Dict, List, Sequence, Tuple, Union

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .joint import span
from .operations import clock

Link = Union[None, str, Dict[str, Any]]
_TRIED = (1 << 16, 1 << 26)  # bytes, of which copies are timed
_events: Dict[int, Any] = {}  # of copies, by the address to which they go
_streams: Dict[Tuple[torch.device, bool], Any] = {}  # by device, and whether they go to the host


def measure(device: torch.device) -> Dict[str, Any]:
    """Bytes a microsecond each way, and the latency of a copy; in two digits, so that a schedule that is kept is found again."""
    with _disable_current_modes(), torch._C._DisablePythonDispatcher(), torch.no_grad():  # a graph may just be traced, of tensors of no bytes
        small, large = (_seconds(size, device) for size in _TRIED)
    rates = [(_TRIED[1] - _TRIED[0]) / (1e6 * max(b - a, 1e-9)) for a, b in zip(small, large)]
    latency = max(0.0, *(1e6 * a - _TRIED[0] / rate for a, rate in zip(small, rates)))
    return {name: float(f"{value:.2g}") for name, value in zip(("to_host", "to_device", "latency"), (*rates, latency))}


def _seconds(size: int, device: torch.device) -> List[float]:
    value = torch.zeros(size, dtype=torch.uint8, device=device)
    host, found = _beside(value), []
    for into, source in ((host, value), (value, host)):
        taken = []
        for _ in range(7):
            begin = clock(device)
            into.copy_(source, non_blocking=True)
            taken.append(clock(device) - begin)
        found.append(statistics.median(taken))
    return found


# ---- what stands in the modules ----

def to_host(value: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """Begins to copy a value, which must not go before `left`. stride: as its graph knows it; a gradient that comes from outside may
    be a part of another tensor, or lie otherwise."""
    lies = value.stride() == tuple(stride) and not value.is_conj() and not value.is_neg()
    laid = value if lies else torch.empty_strided(value.shape, stride, dtype=value.dtype, device=value.device).copy_(value)
    begin = laid.storage_offset() * laid.element_size()
    flat = torch.empty(0, dtype=torch.uint8, device=value.device).set_(laid.untyped_storage(), begin, (span(laid),), (1,))
    host = _beside(flat)
    _copy(host, flat, value.device, True)
    if not lies and value.device.type != "cpu":
        flat.record_stream(_streams[value.device, True])
    return host


def left(host: torch.Tensor, value: torch.Tensor) -> None:
    """The value may go."""
    _wait(host, value.device)


def to_device(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Begins to copy it back, when it has come."""
    flat = torch.empty(host.numel(), dtype=torch.uint8, device=device)
    _copy(flat, host, device, False)
    return flat


def arrived(flat: torch.Tensor, dtype: torch.dtype, shape: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    """The value, which may be read."""
    _wait(flat, flat.device)
    _events.pop(flat.data_ptr(), None)
    return torch.empty(0, dtype=dtype, device=flat.device).set_(flat.untyped_storage(), 0, tuple(shape), tuple(stride))


MOVES = (to_host, left, to_device, arrived)


def _beside(flat: torch.Tensor) -> torch.Tensor:
    if flat.device.type == "cpu":
        return torch.frombuffer(bytearray(max(1, flat.numel())), dtype=torch.uint8)[:flat.numel()]
    return torch.empty(flat.numel(), dtype=torch.uint8, pin_memory=True)


def _copy(into: torch.Tensor, source: torch.Tensor, device: torch.device, out: bool) -> None:
    if device.type == "cpu":
        into.copy_(source)
        return
    if (device, out) not in _streams:
        _streams[device, out] = torch.cuda.Stream(device)
    stream = _streams[device, out]
    stream.wait_stream(torch.cuda.current_stream(device))  # which may still write what is read, or use what is written
    begun = _events.get(source.data_ptr())
    if begun is not None:
        stream.wait_event(begun)
    with torch.cuda.stream(stream):
        into.copy_(source, non_blocking=True)
        _events[into.data_ptr()] = stream.record_event()


def _wait(copy: torch.Tensor, device: torch.device) -> None:
    event = _events.get(copy.data_ptr())
    if event is not None:
        torch.cuda.current_stream(device).wait_event(event)
