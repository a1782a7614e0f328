"""The autocast of one place of the program, for another."""

from __future__ import annotations

import contextlib
from typing import Iterator

import torch


class Autocast:
    """The autocast of the forward, for recomputation in the backward. Its cache of weights is off: a cast that several
    nodes share would tie their pieces of the autograd graph together."""

    def __init__(self, device: torch.device) -> None:
        self._settings = [("cpu", torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype())]
        if device.type == "cuda":
            self._settings.append(("cuda", torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()))

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for kind, enabled, dtype in self._settings:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False))
            yield
