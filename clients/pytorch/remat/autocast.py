"""The autocast of one place of the program, for another."""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator, List, Sequence, Tuple

import torch

Setting = Tuple[str, bool, torch.dtype]  # kind of device, whether it is on, to what


def settings_now(device: torch.device) -> List[Setting]:
    return [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in dict.fromkeys(("cpu", device.type))]


@contextlib.contextmanager
def under(settings: Sequence[Setting]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for kind, enabled, dtype in settings:
            stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False))
        yield


@contextlib.contextmanager
def casts_anew() -> Iterator[None]:
    """Within, no autocast of this thread keeps casts of weights, be it that it is told to."""
    set_kept, kept, own = torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled(), threading.get_ident()
    set_kept(False)
    torch.set_autocast_cache_enabled = lambda wanted: set_kept(wanted and threading.get_ident() != own)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled = set_kept
        set_kept(kept)
