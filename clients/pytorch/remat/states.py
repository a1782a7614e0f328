"""Mutable states that a step must see unchanged: random generators, buffers such as running statistics, attributes."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import OrderedDict
from typing import Any, Iterator, List, Tuple

import torch


def transformed() -> bool:
    """Whether derivatives are taken forward, or by torch.func, of which no schedule knows."""
    return torch.autograd.forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


def python_generators() -> Tuple[Any, Any]:
    """States of the generators of Python and, where it is there, numpy."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy.random.get_state() if numpy else None


@contextlib.contextmanager
def everything(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """All generators and buffers of a model, put back at the end of a with block. Before and after it, autocast has no
    casts of weights in its cache: those made without gradients would be used where these are wanted."""
    torch.clear_autocast_cache()
    buffers = [(module._buffers, name, buffer.detach().clone()) for module in model.modules() for name, buffer in module._buffers.items() if buffer is not None]
    of_python, of_numpy = python_generators()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.clear_autocast_cache()
        with torch.no_grad():
            for own, name, value in buffers:
                (own[name] if own[name].shape == value.shape else own[name].resize_(value.shape)).copy_(value)  # as observers of ranges do
        random.setstate(of_python)
        if of_numpy is not None:
            sys.modules["numpy"].random.set_state(of_numpy)


@contextlib.contextmanager
def whole(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Parameters and attributes of the modules too, and generators, for a forward of which nothing is known."""
    with everything(model, device):
        generators = [(g, g.get_state()) for g in _generators(model)]
        parameters = [(p, p.detach().clone()) for p in model.parameters()]
        attributes = [(vars(module), {**vars(module)}) for module in model.modules()]
        contents = [(own, own.copy()) for _, before in attributes for own in before.values() if type(own) in (list, dict, set, OrderedDict)]
        try:
            yield
        finally:
            for own, before in contents + attributes:
                own.clear()
                own.extend(before) if isinstance(own, list) else own.update(before)
            with torch.no_grad():
                for parameter, before in parameters:
                    if not torch.equal(parameter, before):
                        parameter.data.copy_(before)
            for generator, state in generators:
                generator.set_state(state)


def _generators(model: torch.nn.Module) -> List[torch.Generator]:
    """Those that modules have, those of their classes, and those among the globals of these."""
    classes = {c: None for t in {type(module) for module in model.modules()} for c in t.__mro__ if not c.__module__.startswith("torch.")}
    sources = {c.__module__: None for c in classes if c.__module__ in sys.modules}
    named = map(vars, [*model.modules(), *classes, *map(sys.modules.get, sources)])
    return [v for names in named for v in list(names.values()) if isinstance(v, torch.Generator)]
