"""Whether a model is still what was captured: asked before each step, so it is as little as can be."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from .autocast import settings_now
from .captured import Captured
from .graph import Graph

Names = Tuple[Tuple[str, int], ...]


class Guard:
    """The modules of a model, their parameters, hooks and modes, the autocast, and what the forward read of Python."""

    def __init__(self, captured: Captured, graph: Graph) -> None:
        self._model, self._device, self._reads = captured.model, captured.device, captured.reads
        self._autocast = settings_now(captured.device)
        self._paths = {id(module): path for path, module in self._model.named_modules()}
        self._classes = [(module, type(module)) for module in self._model.modules()]
        self._modules = [(module, _names(module._modules), _names(module._parameters), _hooks(module),
                          tuple(module._buffers.keys())) for module in self._model.modules()]
        self._forwards = {type(module): type(module).forward for module in self._model.modules()
                          if not isinstance(module, torch.jit.ScriptModule)}
        self._modes = [(module, module.training) for module in self._model.modules()]
        self._trainable = [(p, p.requires_grad) for p in self._model.parameters()]
        used = {id(t) for node in graph.nodes for step in node.steps for t in step.constants()}
        self._buffers = [(module._buffers, name, buffer) for module in self._model.modules()
                         for name, buffer in module._buffers.items() if id(buffer) in used]

    def other_mode(self) -> str:
        """Which module is in another mode (train or eval), in words; empty if none is."""
        for module, training in self._modes:
            if module.training != training:
                return (f"{self._name(module)} is in {'train' if module.training else 'eval'} mode; it was captured in "
                        f"{'train' if training else 'eval'} mode")
        return ""

    def difference(self) -> str:
        """What of the model is not as it was, in words; empty if all is."""
        if settings_now(self._device) != self._autocast:
            return f"autocast is {settings_now(self._device)}; it was {self._autocast}"
        for module, kind in self._classes:
            if type(module) is not kind:  # as functional_call made it before torch 2
                return f"{self._name(module)} is a {type(module).__name__}, with other weights than its own"
        for module, modules, parameters, hooks, buffers in self._modules:
            if _names(module._modules) != modules:
                return f"{self._name(module)} has other modules"
            if _names(module._parameters) != parameters:
                return f"{self._name(module)} has other parameters"
            if _hooks(module) != hooks and module is not self._model:  # the model's own run around its forward
                return f"{self._name(module)} has other hooks"
            if tuple(module._buffers.keys()) != buffers:
                return f"{self._name(module)} has other buffers"
        for kind, forward in self._forwards.items():
            if kind.forward is not forward:
                return f"the forward of {kind.__name__} is another"
        for parameter, trainable in self._trainable:
            if parameter.requires_grad != trainable:
                return "other parameters are frozen"
        for held, name, buffer in self._buffers:
            if held[name] is not buffer:
                return f"the buffer \"{name}\" is another tensor"
        changed = self._reads.changed()
        return f"{changed} is another" if changed else ""

    def _name(self, module: torch.nn.Module) -> str:
        path = self._paths.get(id(module), "")
        return f"\"{path}\" ({type(module).__name__})" if path else f"the model ({type(module).__name__})"


def _names(held: Dict[str, Any]) -> Names:
    return tuple([(name, id(value)) for name, value in held.items()])


def _hooks(module: torch.nn.Module) -> List[Tuple[int, ...]]:
    return [tuple(module._forward_pre_hooks.keys()), tuple(module._forward_hooks.keys()),
            tuple(module._backward_hooks.keys())]
