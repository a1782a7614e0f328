"""Bytes that the allocator hands out, between marks: on CPU from the events of the profiler, on CUDA from its own statistics."""

import dataclasses
import gc
import os
from typing import Any, List, Optional, Tuple

import torch
from torch.autograd import profiler

_MARK = 7_368_787  # bytes of the block whose allocation is the mark among the events; no tensor has this size


@dataclasses.dataclass
class Segment:
    """Between two marks; bytes above the level at which the recorder began."""
    start: int
    peak: int
    end: int


class _Profile(profiler.profile):
    """Without the tree of events, which nobody asks for here and which takes longer than the recording."""

    def _parse_kineto_results(self, result: Any) -> List[Any]:
        return []


class Recorder:
    """with Recorder(device) as r: r.mark() ...; then r.segments, one for each mark but the last.

    Single-threaded. On CPU a block that was allocated before the recorder began should not be freed while it records: its bytes are not known, or are those
    of a block that an earlier recorder saw there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.segments: List[Segment] = []
        self._profile: Any = None
        self._level: Optional[int] = None  # at the mark before, on CUDA

    def __enter__(self) -> "Recorder":
        gc.collect()
        if self._device.type == "cuda":
            self._base = torch.cuda.memory_allocated(self._device)
        else:
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or it writes two lines of its own at each recording
            self._profile = _Profile(profile_memory=True)
            self._profile.__enter__()
        return self

    def mark(self) -> None:
        if self._device.type != "cuda":
            torch.empty(_MARK, dtype=torch.uint8)
            return
        level, peak = (f(self._device) - self._base for f in (torch.cuda.memory_allocated, torch.cuda.max_memory_allocated))
        if self._level is not None:
            self.segments.append(Segment(self._level, peak, level))
        self._level = level
        torch.cuda.reset_peak_memory_stats(self._device)

    def __exit__(self, *error: Any) -> None:
        if self._profile is not None:
            self._profile.__exit__(*error)
            if error[0] is None:
                self.segments = _between_marks(self._profile.kineto_results.events())
            self._profile = None


def _between_marks(events: Any) -> List[Segment]:
    segments: List[Segment] = []
    level = 0
    for event in events:
        if event.name() != "[memory]":
            continue
        nbytes = event.nbytes()
        if nbytes == _MARK:
            if segments:
                segments[-1].end = level
            segments.append(Segment(level, level, level))
        elif nbytes != -_MARK:
            level += nbytes
            if segments:
                segments[-1].peak = max(segments[-1].peak, level)
    return segments[:-1]


def free_bytes(device: torch.device) -> Tuple[int, str]:
    """Memory that is free for this process, and where the number comes from."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached, "torch.cuda.mem_get_info and the allocator's cache"
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024, "MemAvailable of /proc/meminfo"
    raise OSError("/proc/meminfo has no MemAvailable")
