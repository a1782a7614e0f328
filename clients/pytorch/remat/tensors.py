"""The tensors of a value: what a model is called with, or returns."""

import copy
import dataclasses
from typing import Any, Callable, Dict, List

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten


def tensors_of(value: Any) -> List[torch.Tensor]:
    """In order; one that appears twice appears twice."""
    found: List[torch.Tensor] = []
    for leaf in tree_flatten(value)[0]:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif _is_made(leaf):
            found += tensors_of([getattr(leaf, field.name) for field in dataclasses.fields(leaf)])
    return found


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The value with every tensor replaced."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if _is_made(value):
        made = copy.copy(value)
        for field in dataclasses.fields(made):
            object.__setattr__(made, field.name, map_tensors(getattr(value, field.name), change))
        return made
    leaves, spec = tree_flatten(value)
    return tree_unflatten([map_tensors(leaf, change) if isinstance(leaf, torch.Tensor) or _is_made(leaf) else leaf for leaf in leaves], spec)


def _is_made(value: Any) -> bool:
    """Whether it is an object of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


class Looks(TorchDispatchMode):
    """Sees each operation that runs: what it is, its arguments by name, and what it makes."""

    def __init__(self, see: Callable[[Any, Dict[str, Any], Any], None]) -> None:
        super().__init__()
        self._see = see

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        self._see(function, {**dict(zip((a.name for a in function._schema.arguments), args)), **(kwargs or {})}, made)
        return made


def storage_of(tensor: torch.Tensor) -> int:
    """Address of the bytes behind a tensor; 0 where there are none."""
    return tensor.untyped_storage().data_ptr()


def amount(tensors: Any) -> int:
    """Bytes of all the numbers in them."""
    return sum(t.numel() * t.element_size() for t in tensors)
