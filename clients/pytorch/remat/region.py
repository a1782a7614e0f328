"""The forward of a fitted model."""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch

from . import costs
from .capture import bind
from .captured import Captured, shape
from .errors import MismatchError
from .execute import Observer, Program
from .plan import make_plan


class Region:
    """Runs a step of the model as its schedule says.

    profile, schedule: what it was measured to cost, and what the service answered. alone: modules that torch.fx could
    not follow and that are single nodes. observer: called with every operation before it runs, or None.
    """

    def __init__(self, captured: Captured, entry: Dict[str, Any], mismatch: str) -> None:
        self.model, self.alone = captured.model, captured.alone
        self.profile, self.schedule = entry["profile"], entry["schedule"]
        self.observer: Optional[Observer] = None
        self._mismatch = mismatch
        graph = captured.stages.graph if entry.get("staged") else captured.graph
        states = [state for _, state in costs.find_states(graph, captured.model, captured.device)[0]]
        wanted = {(slot, place): flag for slot, place, flag in entry["wanted"]}
        self._program = Program(graph, states, wanted, make_plan(self.profile, self.schedule), captured.device)
        self._expected = {name: shape(value) for name, value in captured.bound.items()}
        self._modules = list(self.model.modules())
        self._modes = [module.training for module in self._modules]
        self._parameters = list(self.model.parameters())
        self._trainable = [p.requires_grad for p in self._parameters]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plain = type(self.model).forward
        if not torch.is_grad_enabled() or [m.training for m in self._modules] != self._modes:
            return plain(self.model, *args, **kwargs)
        bound = bind(self.model, args, kwargs)
        difference = self._difference(bound)
        if difference and self._mismatch == "plain":
            return plain(self.model, *args, **kwargs)
        if difference:
            raise MismatchError(difference)
        values = {slot: bound[name] for name, slot in self._program.graph.placeholders}
        return self._program(values, self.observer)

    def _difference(self, bound: Dict[str, Any]) -> str:
        """What is unlike the captured model, in a sentence; empty if nothing is."""
        for name, expected in self._expected.items():
            found = shape(bound.get(name))
            if found != expected:
                return (f"{type(self.model).__name__}: input \"{name}\" is {found}; it was captured as {expected}. "
                        "Fit again, or give mismatch=\"plain\"")
        if [p.requires_grad for p in self._parameters] != self._trainable:
            return f"{type(self.model).__name__}: other parameters are frozen than when it was captured; fit again"
        return ""
