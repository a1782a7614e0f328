"""The forward of a fitted model."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, Optional, Set

import torch

from . import costs
from .capture import bind
from .captured import Captured, shape
from .errors import MismatchError, UntraceableError
from .execute import Observer, Program
from .guard import Guard
from .plan import make_plan
from .states import forward_mode
from .trace import named

SHAPES = 64  # beside the example's, for which there are plans at once


class Region:
    """Runs a step of the model as its schedule says.

    profile, schedule: what it was measured to cost, and what the service answered. alone: modules that torch.fx could
    not follow and that are single nodes. measured_peak: of a step in the check of fit. observer: called with every operation before it runs, or None.

    fit_again: makes a Region for inputs unlike the example, or None where that is an error.

    A copy, or what comes out of a pickle, captures its own model again, when it first runs.
    """

    def __init__(self, captured: Captured, entry: Dict[str, Any], mismatch: str) -> None:
        self.model, self.blocks = captured.model, captured.blocks
        self.profile, self.schedule = entry["profile"], entry["schedule"]
        self.observer: Optional[Observer] = None
        self.measured_peak: Optional[int] = None
        self._entry, self._mismatch = entry, mismatch
        self._expected = {name: shape(value) for name, value in captured.bound.items()}
        self._told: Set[str] = set()
        self.fit_again: Optional[Callable[[Dict[str, Any]], "Region"]] = None
        self._others: Dict[str, Region] = {}  # by the shapes of their inputs
        self._prepare(captured)

    def _prepare(self, captured: Captured) -> None:
        self.alone = captured.alone
        graph = captured.stages.graph if self._entry.get("staged") and captured.stages else captured.graph
        states = [state for _, state in costs.find_states(graph, captured.model, captured.device)[0]]
        wanted = {(slot, place): flag for slot, place, flag in self._entry["wanted"]}
        plan = make_plan(self.profile, self.schedule, [node.name for node in graph.nodes])
        self._program: Optional[Program] = Program(graph, states, wanted, plan, captured.device,
                                                   captured.reads.changed)
        self._guard = Guard(captured, graph)

    def _capture(self, bound: Dict[str, Any]) -> None:
        del self.model.forward
        try:
            self._prepare(Captured(self.model, named(bound), self.blocks))
        finally:
            self.model.forward = self

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_program": None, "_guard": None, "observer": None, "_told": set(), "fit_again": None,
                "_others": {}}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plain = type(self.model).forward
        if not torch.is_grad_enabled() or forward_mode():
            return plain(self.model, *args, **kwargs)
        bound = bind(self.model, args, kwargs)
        if self._program is None and not self._shapes_differ(bound):
            self._capture(bound)
        disabled = self._guard.other_mode() if self._program is not None else ""
        if disabled:
            self._tell(disabled)
            return plain(self.model, *args, **kwargs)
        difference = self._shapes_differ(bound)
        gathered = any(name.startswith("*") and value for name, value in bound.items())
        if difference and self.fit_again is not None and not gathered:
            return self._other(bound)(*args, **kwargs)
        difference = difference or self._guard.difference()
        if difference and self._mismatch == "plain":
            self._tell(difference)
            return plain(self.model, *args, **kwargs)
        if difference:
            raise MismatchError(f"{type(self.model).__name__}: {difference}, unlike when the model was captured. Fit "
                                "again, or give mismatch=\"plain\"")
        values = {slot: bound[name] for name, slot in self._program.graph.placeholders}
        return self._program(values, self.observer)

    def _other(self, bound: Dict[str, Any]) -> "Region":
        """For inputs of other shapes, or with other numbers where they are no tensors."""
        key = str([(name, shape(value)) for name, value in bound.items()])
        if key not in self._others:
            if len(self._others) == SHAPES:
                raise MismatchError(f"{type(self.model).__name__}: {self._shapes_differ(bound)}, and there are plans for "
                                    f"{SHAPES} others already. What differs in every step is to be a tensor, or "
                                    "mismatch=\"plain\"")
            del self.model.forward
            try:
                self._others[key] = self.fit_again(named(bound))
            except UntraceableError:
                type(self.model).forward(self.model, **named(bound))  # an error of the user's own is raised as it is
                raise
            finally:
                self.model.forward = self
        return self._others[key]

    def _tell(self, reason: str) -> None:
        """Once for each reason."""
        if reason not in self._told:
            self._told.add(reason)
            warnings.warn(f"remat: {reason}: the step runs without its schedule, outside the budget", stacklevel=5)

    def _shapes_differ(self, bound: Dict[str, Any]) -> str:
        """Which input is unlike the captured one, in words; empty if none is."""
        for name, expected in self._expected.items():
            found = shape(bound.get(name))
            if found != expected:
                return f"input \"{name}\" is {found}; it was {expected}"
        return ""
