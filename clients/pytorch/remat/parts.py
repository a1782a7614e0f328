"""A model whose own forward cannot be followed: the largest of its modules that can are fitted, the rest runs as it is.

One step with the example shows what each module is called with. The budget is shared in proportion to what the parts
take when they store everything, so that the parts together stay within it in any order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch
from torch.utils._pytree import tree_map

from .errors import BudgetError
from .states import Whole

Call = Tuple[Tuple[Any, ...], Dict[str, Any]]


@dataclasses.dataclass
class Part:
    name: str
    module: torch.nn.Module
    examples: List[Call]  # what one forward of the model calls it with

    @property
    def calls(self) -> int:
        return len(self.examples)


def find(model: torch.nn.Module, example: Call, device: torch.device, follows: Callable[[Part], bool]) -> List[Part]:
    """The largest modules below the model that `follows` accepts, in the order of the model. Runs its forward once."""
    calls = _record(model, example, device)
    found: List[Part] = []
    pending = [(name, child) for name, child in reversed(list(model.named_children()))]
    while pending:
        name, module = pending.pop()
        part = Part(name, module, calls[module]) if module in calls else None
        if part and follows(part):
            found.append(part)
        else:
            pending += [(f"{name}.{below}", child) for below, child in reversed(list(module.named_children()))]
    return found


def share(parts: List[Part], budget_of: Callable[[int], int], fit: Callable[[Part, Any], Dict[str, Any]]) -> None:
    """Fits all parts within a budget, in bytes, which may depend on what they store together at most; fit gives the
    schedule. Raises BudgetError when they do not fit."""
    wants = {part.name: fit(part, "100%")["store_all_peak"] for part in parts}
    budget = budget_of(sum(part.calls * wants[part.name] for part in parts))
    least: Dict[str, int] = {}  # of those whose share would be too small
    while True:
        open_parts = [part for part in parts if part.name not in least]
        left = budget - sum(part.calls * least[part.name] for part in parts if part.name in least)
        whole = sum(part.calls * wants[part.name] for part in open_parts)
        if left < 0:
            needs = ", ".join(f'"{name}" {bytes_}' for name, bytes_ in least.items())
            raise BudgetError(f"the parts do not fit {budget} bytes together; they need at least: {needs}")
        try:
            for part in open_parts:
                fit(part, min(wants[part.name], left * wants[part.name] // whole))
            break
        except BudgetError as error:
            if error.minimum_budget is None:
                raise
            least[part.name] = error.minimum_budget
    for part in parts:
        if part.name in least:
            fit(part, least[part.name])


def _record(model: torch.nn.Module, example: Call, device: torch.device) -> Dict[torch.nn.Module, List[Call]]:
    """What each module was called with in one forward, as leaves that want a gradient where the tensors did."""
    calls: Dict[torch.nn.Module, List[Call]] = {}

    def record(module: torch.nn.Module, plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls.setdefault(module, []).append(tree_map(_leaf, (args, kwargs)))
        return plain(*args, **kwargs)

    args, kwargs = tree_map(lambda v: _leaf(v.clone()) if isinstance(v, torch.Tensor) else v, example)
    with Whole(model, device), _replaced(model, record):
        model(*args, **kwargs)
    return calls


def _leaf(value: Any) -> Any:
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def _replaced(model: torch.nn.Module, record: Callable[..., Any]) -> Iterator[None]:
    changed = [module for module in model.modules() if module is not model and "forward" not in module.__dict__]
    for module in changed:
        module.forward = functools.partial(record, module, module.forward)
    try:
        yield
    finally:
        for module in changed:
            del module.__dict__["forward"]
