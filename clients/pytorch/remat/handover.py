"""Gradients that reach autograd as they are made.

The backward of a compiled piece is one node of autograd, whose gradients all come at its end. Here that node only keeps what the backward begins with; before
each group of inputs stands a node of ours, the identity in the forward, whose backward runs the list on to the group's last contribution. Autograd gives the
latest node precedence and accumulates at once, so gradients, hooks, buckets and optimizers run in the order of the list."""

import math
from typing import Any, Callable, Collection, Dict, List, Optional, Sequence, Tuple

import torch

from .errors import RematError
from .partition import Part

_STEP = "_remat_step"  # what stands for a gradient carries its step


class Step:
    """One backward on its way. none: places of gradients that no gradient of a result reaches, as it came about."""

    def __init__(self, parts: Sequence[Part], alive: List[Any], none: Collection[int]) -> None:
        self._parts, self._alive, self._next, self._none = parts, alive, 0, none
        self._made: Dict[int, Any] = {}

    def take(self, part: int, places: Sequence[int]) -> List[Any]:
        """Gradients of a part, which runs with all before it unless it has."""
        with torch.no_grad(), torch._C._DisableAutocast():
            while self._next <= part:
                run, made = self._parts[self._next]
                self._next += 1
                alive, self._alive = self._alive, []
                found = run(alive)
                self._made.update(zip(made, found))
                self._alive = list(found[len(made):])
                del found
        made_here = [self._made.pop(place) for place in places]
        return [None if place in self._none else made for place, made in zip(places, made_here)]


class _HandOver(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: int, places: Sequence[int], sources: Sequence[torch.Tensor], *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.part, ctx.places, ctx.sources = part, places, sources
        ctx.set_materialize_grads(False)
        return tuple(t.detach() for t in tensors)  # no views, of which autograd would say another thing when they are written

    @staticmethod
    def backward(ctx: Any, *standing: Optional[torch.Tensor]) -> Tuple[Any, ...]:
        steps = [getattr(t, _STEP, None) for t in standing if t is not None]
        if not steps:
            return (None, None, None, *standing)
        if any(step is None or step is not steps[0] for step in steps):
            raise RematError("an input of a compiled piece got a gradient from elsewhere, too; please report the model")
        gradients = steps[0].take(ctx.part, ctx.places)
        return (None, None, None, *once(gradients, ctx.sources))


def backward_of(parts: Sequence[Part], shapes: Sequence[Optional[Tuple[Any, ...]]], none: Callable[[], Collection[int]]) -> Callable[[List[Any]], List[Any]]:
    """What stands for the backward. shapes: of the gradients (shape, dtype, device), or None. none: places of those that this time are none either."""
    def run(args: List[Any]) -> List[Any]:
        step = Step(parts, list(args), none())
        args.clear()
        standing: List[Any] = []
        for shape in shapes:
            if shape is None:
                standing.append(None)
                continue
            # infinite, so that it is seen if it ever gets where a gradient should
            tensor = torch.full((), math.inf, dtype=shape[1], device=shape[2]).expand(shape[0])
            setattr(tensor, _STEP, step)
            standing.append(tensor)
        return standing

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def connect(parts: Sequence[Part], args: List[Any]) -> List[Any]:
    """The inputs of a compiled piece, with our nodes before those that get a gradient."""
    args = list(args)
    wanted = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]  # by what follows once knows where they come from, without holding them
    sources = [t if t.is_leaf else t.unsqueeze(0).narrow(0, 0, 0).clone() for t in wanted]
    for k in reversed(range(len(parts))):
        places = [p for p in parts[k][1] if args[p].requires_grad]
        if places:
            for place, tensor in zip(places, _HandOver.apply(k, places, sources, *(args[p] for p in places))):
                args[place] = tensor
    return args


# ---- what is not to be differentiated ----

_TWICE = b"remat: a backward through a backward (create_graph=True), and a schedule is of one: remat.remove takes it off"


def once(gradients: Sequence[Optional[torch.Tensor]], sources: Sequence[torch.Tensor]) -> Tuple[Optional[torch.Tensor], ...]:
    """Where the backward that made them is to be differentiated (create_graph=True): an error where somebody does, on the way to any of the
    sources. torch's once_differentiable leaves that out where what came in has no gradient of its own, and where the way ends there."""
    if not torch.is_grad_enabled():
        return tuple(gradients)
    fail = torch._C._functions.DelayedError(_TWICE, len(gradients) + len(sources))
    failing = fail(*(g if g is None else g.detach().requires_grad_() for g in gradients), *sources)
    return tuple(failing[:len(gradients)]) if isinstance(failing, tuple) else (failing,)
