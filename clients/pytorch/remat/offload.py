"""Copies of tensors in host memory: on CUDA pinned and on a stream of their own, on CPU plain copies.

The allocator knows nothing of the copies: before the memory of a tensor that is being copied can be used again, the
computing stream waits for the copy. Tensor.record_stream would leave the memory unusable for longer than the schedule
says, as long as there are later copies in the queue.
"""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, Sequence

import torch


class Host:
    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._cuda else None
        self._copies: Dict[Hashable, List[torch.Tensor]] = {}
        self._departures: Dict[Hashable, Any] = {}  # events: the copy to the host has ended
        self._arrivals: Dict[Hashable, Any] = {}  # events: the copy back has ended

    def __contains__(self, key: Hashable) -> bool:
        return key in self._copies

    def store(self, key: Hashable, tensors: Sequence[torch.Tensor]) -> None:
        """Starts the copies to the host; leave() must come before the originals are dropped."""
        if not self._cuda:
            self._copies[key] = [t.clone() for t in tensors]
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            self._copies[key] = [torch.empty_like(t, device="cpu", pin_memory=True).copy_(t, non_blocking=True)
                                 for t in tensors]
        self._departures[key] = self._stream.record_event()

    def fetch(self, key: Hashable) -> List[torch.Tensor]:
        """Starts the copies back; arrive() must come before they are read."""
        if not self._cuda:
            return [t.clone() for t in self._copies[key]]
        tensors = [torch.empty_like(t, device=self._stream.device) for t in self._copies[key]]
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            for tensor, copy in zip(tensors, self._copies[key]):
                tensor.copy_(copy, non_blocking=True)
        self._arrivals[key] = self._stream.record_event()
        return tensors

    def arrive(self, key: Hashable) -> None:
        """Lets the current stream wait for a fetch under way."""
        self._wait(self._arrivals.pop(key, None))

    def leave(self, key: Hashable) -> None:
        """Lets the current stream wait for all copies from and to the device memory of the key."""
        self._wait(self._departures.pop(key, None))
        self.arrive(key)

    def _wait(self, event: Any) -> None:
        if event is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(event)

    def __del__(self) -> None:
        """A step that was given up drops everything at once."""
        for key in [*self._departures, *self._arrivals]:
            self.leave(key)
