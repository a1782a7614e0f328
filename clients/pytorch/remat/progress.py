"""How far something long is, on one line of stderr that is drawn over and over; nothing where that is no terminal."""

from __future__ import annotations

import sys
import time

_FIRST_AFTER, _EVERY = 1.0, 0.2  # seconds


class Progress:
    """with Progress("measuring", 80) as progress: progress.step() ..."""

    def __init__(self, label: str, count: int) -> None:
        self._label, self._count, self._done = label, count, 0
        self._next = time.monotonic() + _FIRST_AFTER
        self._shown = False

    def __enter__(self) -> "Progress":
        return self

    def step(self) -> None:
        self._done += 1
        if time.monotonic() < self._next or not sys.stderr.isatty():
            return
        self._next, self._shown = time.monotonic() + _EVERY, True
        sys.stderr.write(f"\r\033[Kremat: {self._label}, {self._done} of {self._count} nodes")
        sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
