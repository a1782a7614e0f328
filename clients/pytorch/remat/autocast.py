"""The autocast of one place of the program, for another."""

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
def casts(device: torch.device, kept: bool) -> Iterator[List[bool]]:
    """Whether anything is cast, at first and then each time an autocast begins or ends. Without kept none of this thread keeps casts of weights."""
    set_kept, before, own = torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled(), threading.get_ident()
    seen: List[bool] = []

    def see(wanted: bool) -> None:
        seen.append(any(on for _, on, _ in settings_now(device)))
        set_kept(wanted and (kept or threading.get_ident() != own))
    see(before)
    torch.set_autocast_cache_enabled = see
    try:
        yield seen
    finally:
        torch.set_autocast_cache_enabled = set_kept
        set_kept(before)
