"""Mutable states that recomputation must see unchanged: random generators, and buffers such as running statistics."""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from typing import Any, Iterable, List, Sequence, Tuple

import torch


class Generators:
    """The default generators of the CPU and of one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def save(self) -> List[torch.Tensor]:
        saved = [torch.get_rng_state()]
        if self.device.type == "cuda":
            saved.append(torch.cuda.get_rng_state(self.device))
        return saved

    def restore(self, saved: Sequence[torch.Tensor]) -> None:
        torch.set_rng_state(saved[0])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(saved[1], self.device)


class Buffers:
    """Buffers of one module, by name."""

    def __init__(self, owner: torch.nn.Module, names: Iterable[str]) -> None:
        self.owner = owner
        self.names = list(names)

    def save(self) -> List[torch.Tensor]:
        return [self.owner._buffers[name].detach().clone() for name in self.names]

    def restore(self, saved: Sequence[torch.Tensor]) -> None:
        with torch.no_grad():
            for name, value in zip(self.names, saved):
                self.owner._buffers[name].copy_(value)


class Everything:
    """All generators and buffers of a model, put back at the end of a with block. Before and after it, autocast has no
    casts of weights in its cache: those made without gradients would be used where these are wanted."""

    def __init__(self, model: torch.nn.Module, device: torch.device) -> None:
        self.states: List[Any] = [Generators(device)]
        for module in model.modules():
            names = [name for name, buffer in module._buffers.items() if buffer is not None]
            if names:
                self.states.append(Buffers(module, names))

    def __enter__(self) -> "Everything":
        torch.clear_autocast_cache()
        self._saved = [state.save() for state in self.states]
        self._of_python = python_generators()
        return self

    def __exit__(self, *_: Any) -> None:
        torch.clear_autocast_cache()
        for state, saved in zip(self.states, self._saved):
            state.restore(saved)
        random.setstate(self._of_python[0])
        if self._of_python[1] is not None:
            sys.modules["numpy"].random.set_state(self._of_python[1])


def forward_mode() -> bool:
    """Whether derivatives are taken forward, of which no schedule knows."""
    return torch.autograd.forward_ad._current_level >= 0


def python_generators() -> Tuple[Any, Any]:
    """States of the generators of Python and, where it is there, numpy."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy.random.get_state() if numpy else None


def _own_generators(model: torch.nn.Module) -> List[torch.Generator]:
    """Those that modules hold, and those among the globals of their classes."""
    sources = [sys.modules.get(type(module).__module__) for module in model.modules()]
    held = [vars(module) for module in model.modules()] + [vars(s) for s in dict.fromkeys(sources) if s is not None]
    return list({id(v): v for names in held for v in list(names.values()) if isinstance(v, torch.Generator)}.values())


class Whole(Everything):
    """Parameters and attributes of the modules too, and generators, for a forward of which nothing is known."""

    def __init__(self, model: torch.nn.Module, device: torch.device) -> None:
        super().__init__(model, device)
        self._model = model

    def __enter__(self) -> "Whole":
        super().__enter__()
        self._generators = [(g, g.get_state()) for g in _own_generators(self._model)]
        self._parameters = [(p, p.detach().clone()) for p in self._model.parameters()]
        self._attributes = [(vars(module), {**vars(module)}) for module in self._model.modules()]
        self._contents = [(held, held.copy()) for _, before in self._attributes for held in before.values()
                          if type(held) in (list, dict, set, OrderedDict)]
        return self

    def __exit__(self, *error: Any) -> None:
        for held, before in self._contents + self._attributes:
            held.clear()
            held.extend(before) if isinstance(held, list) else held.update(before)
        with torch.no_grad():
            for parameter, before in self._parameters:
                if not torch.equal(parameter, before):
                    parameter.data.copy_(before)
        for generator, state in self._generators:
            generator.set_state(state)
        super().__exit__(*error)
