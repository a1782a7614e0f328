"""Copies of tensors in host memory: on CUDA pinned and on a stream of their own, on CPU plain copies."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, Sequence

import torch


class Host:
    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._cuda else None
        self._copies: Dict[Hashable, List[torch.Tensor]] = {}
        self._arrivals: Dict[Hashable, Any] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._copies

    def store(self, key: Hashable, tensors: Sequence[torch.Tensor]) -> None:
        """Starts the copies to the host; the allocator keeps the originals until they have ended."""
        if not self._cuda:
            self._copies[key] = [t.clone() for t in tensors]
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            copies = [torch.empty_like(t, device="cpu", pin_memory=True).copy_(t, non_blocking=True) for t in tensors]
        for tensor in tensors:
            tensor.record_stream(self._stream)
        self._copies[key] = copies

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
        event = self._arrivals.pop(key, None)
        if event is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(event)
