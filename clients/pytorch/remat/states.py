"""Mutable states that a step must see unchanged: random generators, buffers such as running statistics, attributes."""

import contextlib
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from types import FunctionType, ModuleType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

import torch

ATOMS = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, dict, set, OrderedDict, defaultdict, Counter, deque)
_MOST = 10000  # things that one of them holds: more are data
_LEFT = (type, FunctionType, ModuleType, torch.nn.Module, torch.Tensor)  # as they are, or looked at by themselves
_OTHERS = ("torch", "remat", "logging", "threading")  # modules whose objects are not the model's


def transformed() -> bool:
    """Whether derivatives are taken forward, or by torch.func, of which no schedule knows."""
    return torch.autograd.forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


def python_generators() -> Tuple[Any, Any]:
    """States of the generators of Python and, where it is there, numpy."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy.random.get_state() if numpy else None


def put_back(of_python: Any, of_numpy: Any) -> None:
    random.setstate(of_python)
    if of_numpy is not None:
        sys.modules["numpy"].random.set_state(of_numpy)


def moment(tensors: Iterable[torch.Tensor], device: torch.device, copied: bool) -> Callable[[], bool]:
    """Before a call that may have to be made again: puts generators and, where they were copied, tensors back. Whether all is as it was."""
    of_python, of_torch = python_generators(), torch.get_rng_state()
    of_device = torch.cuda.get_rng_state(device) if device.type == "cuda" and not torch.cuda.is_current_stream_capturing() else None
    versions = [(t, t._version, t.detach().clone() if copied else None) for t in tensors if not t.is_inference()]

    def comes_back() -> bool:
        put_back(*of_python)
        torch.set_rng_state(of_torch)
        if of_device is not None:
            torch.cuda.set_rng_state(of_device, device)
        written = [(t, before) for t, version, before in versions if t._version != version]
        for t, before in written if copied else []:
            t.detach().copy_(before)
        return copied or not written

    return comes_back


@contextlib.contextmanager
def everything(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """All generators and buffers of a model, put back at the end of a with block. Before and after it, autocast has no
    casts of weights in its cache: those made without gradients would be used where these are wanted."""
    torch.clear_autocast_cache()
    buffers = [(module._buffers, name, buffer.detach().clone()) for module in model.modules() for name, buffer in module._buffers.items() if buffer is not None]
    generators = python_generators()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.clear_autocast_cache()
        with torch.no_grad():
            for own, name, value in buffers:
                (own[name] if own[name].shape == value.shape else own[name].resize_(value.shape)).copy_(value)  # as observers of ranges do
        put_back(*generators)


@contextlib.contextmanager
def whole(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Parameters, and what else the modules hold and their code reads of globals, too, and generators, for a forward of which nothing is known."""
    with everything(model, device):
        names, held = _held(model)
        contents = [(own, own.copy()) for own in held if type(own) in _CONTAINERS]
        tensors = [(t, t.detach().clone()) for t in (*model.parameters(), *(t for t in held if type(t) is torch.Tensor and t.layout == torch.strided))]
        generators = [(g, g.get_state()) for g in held if isinstance(g, torch.Generator)]
        try:
            yield
        finally:
            for own, before in contents:
                if len(own) != len(before) or any(a is not b for a, b in zip(_parts(own), _parts(before))):
                    own.clear()
                    own.extend(before) if isinstance(own, (list, deque)) else own.update(before)
            for own, before in names:
                own.update({name: value for name, value in before.items() if own.get(name) is not value})
            with torch.no_grad():
                for tensor, before in tensors:
                    if tensor.shape != before.shape or not torch.equal(tensor, before):
                        (tensor.data if tensor.shape == before.shape else tensor.data.resize_(before.shape)).copy_(before)
            for generator, state in generators:
                generator.set_state(state)


def _parts(container: Any) -> Any:
    return [part for pair in container.items() for part in pair] if isinstance(container, dict) else container


def _held(model: torch.nn.Module) -> Tuple[List[Tuple[Dict[str, Any], Dict[str, Any]]], List[Any]]:
    """Globals that the code of the modules reads, with their values; and whatever these and the modules hold, in containers and objects."""
    classes = {c: None for t in {type(module) for module in model.modules()} for c in t.__mro__ if not c.__module__.startswith("torch.")}
    modules = {c.__module__ for c in classes}
    names: List[Tuple[Dict[str, Any], Dict[str, Any]]] = []
    found: Dict[int, Any] = {id(t): None for t in (*model.parameters(), *model.buffers())}
    pending: List[Any] = [*map(vars, model.modules()), *(value for c in classes for value in vars(c).values())]
    while pending:
        value = pending.pop()
        if isinstance(value, ATOMS) or id(value) in found:
            continue
        found[id(value)] = value
        if isinstance(value, FunctionType) and value.__module__ in modules:
            names.append((value.__globals__, {name: value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__}))
            pending += names[-1][1].values()
        elif isinstance(value, (*_CONTAINERS, tuple)) and len(value) <= _MOST:
            pending += _parts(value)
        elif hasattr(value, "__dict__") and not isinstance(value, _LEFT) and not type(value).__module__.startswith(_OTHERS):
            pending += [vars(value), *vars(type(value)).values()]
    return names, list(found.values())
