"""A model with its graph, and the example that it was captured with."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import costs
from .autocast import settings_now
from .capture import bind, capture
from .errors import CaptureError
from .graph import Environment, Graph, tensors_of
from .group import group
from .stages import Stages, stages_of
from .states import Everything

Blocks = Union[torch.nn.Module, Sequence[torch.nn.Module]]


Keep = Callable[[str, Callable[[], Dict[str, Any]]], Dict[str, Any]]  # what was kept by a name, or is made and kept


def plain_keep(_: str, make: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    """Keeps nothing."""
    return make()


class Captured:
    """What is measured of it is measured once."""

    states = Everything  # that its forward may change

    def __init__(self, model: Blocks, example_inputs: Any, blocks: Tuple[type, ...]) -> None:
        self.model, self.blocks = as_module(model), blocks
        if isinstance(self.model, torch.jit.ScriptModule):
            raise CaptureError(f"{type(self.model).__name__} is scripted: fit the module that it was made of; scripted "
                               "modules within a model are single nodes")
        if hasattr(self.model.__dict__.get("forward"), "schedule"):
            raise CaptureError(f"{type(self.model).__name__} has a schedule already; remat.remove it first")
        self.args, self.kwargs = arguments_of(example_inputs)
        self.device = device_of(self.model, (self.args, self.kwargs))
        self.bound = bind(self.model, self.args, self.kwargs)
        self.autocast = settings_now(self.device)
        program = capture(self.model, self.args, self.kwargs, self.device, blocks)
        self.alone, self.reads = program.alone, program.reads
        self.graph: Graph = group(program)
        self.stages: Optional[Stages] = stages_of(self.graph)
        self.plain_peak: Optional[int] = None
        self._fine: Optional[costs.Measured] = None
        self._staged: Optional[costs.Measured] = None

    def values(self) -> Environment:
        return {slot: self.bound[name] for name, slot in self.graph.placeholders}

    def measure(self, repeats: int, name: Optional[str] = None, keep: Keep = plain_keep) -> costs.Measured:
        """The costs of the nodes."""
        if self._fine is None:
            self._fine = self._measure(self.graph, repeats, name, None, keep)
        return self._fine

    def measure_stages(self, repeats: int, keep: Keep = plain_keep) -> Optional[costs.Measured]:
        """The costs of the stages: their own bytes, and the times of their nodes. None where there are no stages."""
        if self.stages is not None and self._staged is None:
            times = self.stages.times(self.measure(repeats, keep=keep).profile)
            self._staged = self._measure(self.stages.graph, repeats, None, times, keep)
        return self._staged

    def _measure(self, graph: Graph, repeats: int, name: Optional[str], times: Any, keep: Keep) -> costs.Measured:
        def measure(numbers: Optional[Dict[str, Any]] = None) -> costs.Measured:
            return costs.measure(graph, self.model, self.values(), self.device, name or type(self.model).__name__,
                                 repeats, times, numbers)

        made: List[costs.Measured] = []

        def numbers() -> Dict[str, Any]:
            made.append(measure())
            return made[0].numbers

        found = keep("stages" if times is not None else "nodes", numbers)
        return made[0] if made else measure(found)


def as_module(model: Blocks) -> torch.nn.Module:
    if isinstance(model, torch.nn.ModuleList) or not isinstance(model, torch.nn.Module):
        return torch.nn.Sequential(*model)
    if isinstance(model, torch.nn.DataParallel):
        raise CaptureError("DataParallel copies its module, and what is fitted of it, in every step: use "
                           "DistributedDataParallel")
    return model


def arguments_of(example: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    if isinstance(example, dict):
        return (), dict(example)
    return (example if isinstance(example, tuple) else (example,)), {}


def device_of(model: torch.nn.Module, example: Any) -> torch.device:
    for tensor in [*model.parameters(), *tensors_of(example)]:
        return tensor.device
    raise CaptureError(f"{type(model).__name__} has no parameters, and there is no tensor among its inputs")


def shape(value: Any) -> str:
    """Metadata of the tensors of an argument, and the rest as it is."""
    leaves, spec = tree_flatten(value)
    described = [str(metadata(leaf)) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves]
    return str(tree_unflatten(described, spec))


def metadata(tensor: torch.Tensor) -> Tuple[Any, ...]:
    return tuple(tensor.shape), str(tensor.dtype), str(tensor.device), tensor.requires_grad
