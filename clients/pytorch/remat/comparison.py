"""What each budget costs, predicted and measured, beside torch.utils.checkpoint, in one run on the user's device."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import statistics
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.utils.checkpoint import checkpoint

from .client import Budget
from .errors import BudgetError
from .fitted import Fitted
from .fitting import fit_example, options_of
from .memory import Recorder
from .model import Example, arguments_of, device_of
from .operations import clock
from .tensors import amount, tensors_of

TRIALS = 8  # of budgets, for the peak of another way


@dataclasses.dataclass
class Row:
    """One way to run a step; budget None: without this package. Bytes and seconds."""
    name: str  # "plain", "checkpoint ...", the budget asked for, "at the peak of" another
    budget: Optional[int]
    solver: str
    predicted_peak: Optional[int]
    measured_peak: int
    predicted_overhead: Optional[float]  # of the makespan over storing everything
    measured_overhead: float  # of the step over plain execution
    seconds: float


@dataclasses.dataclass
class Comparison:
    """Peaks, predicted and measured, include the gradients of the parameters."""
    rows: List[Row]

    def __str__(self) -> str:
        wide = max(len(row.name) for row in self.rows)
        lines = [f"{'':<{wide}} {'budget':>12} {'solver':<16} {'peak predicted':>15} {'measured':>14} {'overhead pred.':>15} {'measured':>9} {'step':>10}"]
        for row in self.rows:
            overhead = "-" if row.predicted_overhead is None else f"{row.predicted_overhead:.1%}"
            lines.append(f"{row.name:<{wide}} {row.budget or '-':>12} {row.solver:<16} {row.predicted_peak or '-':>15} {row.measured_peak:>14d} "
                         f"{overhead:>15} {row.measured_overhead:>9.1%} {1e3 * row.seconds:>7.1f} ms")
        return "\n".join(lines)


def compare(model: torch.nn.Module, example_inputs: Any, budgets: Sequence[Budget] = ("100%", "75%", "50%"), *,
            loss: Optional[Callable[[Any], torch.Tensor]] = None, steps: int = 5, checkpointed: Tuple[type, ...] = (), **more: Any) -> Comparison:
    """Several ways to run a step (forward, loss, backward), `steps` times each, in turns; medians.

    They are plain execution, torch.utils.checkpoint of every module of the classes `checkpointed` (of every part of a Sequential if there are none), each
    budget, and the budget with which the step takes no more than the checkpointed one was measured to take.

    loss: makes one number of the model's result; default the sum of its tensors. more: as for fit. Times are as in profiles: on one CPU thread those in which
    it ran. Measured peaks are those of the allocator above the level before the step, which starts without gradients, with the inputs added. The model ends
    without a schedule; the gradients of its parameters are set to None. Raises as fit does."""
    args, kwargs = arguments_of(example_inputs)
    run = _Step(model, args, kwargs, loss or _sum, device_of(model, (args, kwargs)))
    ways = [_Way("plain")]
    if checkpointed or isinstance(model, torch.nn.Sequential):
        blocks = [m for m in model.modules() if isinstance(m, checkpointed)] if checkpointed else list(model.children())
        if not blocks:
            raise ValueError(f"{type(model).__name__} has no module of the classes checkpointed")
        ways.append(_Way("checkpoint per block", blocks=blocks))
    fitted = functools.partial(_fitted, model, example_inputs, loss or _sum, more)
    ways += [_Way(str(budget), forward=fitted(budget)) for budget in budgets]
    for way in ways:
        way.peak = run.peak(way)
    for other in [way for way in ways if way.name.startswith("checkpoint")]:
        ways += _at_the_peak_of(other, run, fitted)
    for _ in range(steps):
        for way in ways:
            way.seconds.append(run.seconds(way))
    model.zero_grad(set_to_none=True)
    return Comparison([way.row(statistics.median(ways[0].seconds)) for way in ways])


def _fitted(model: torch.nn.Module, example_inputs: Any, loss: Any, more: Dict[str, Any], budget: Budget) -> Fitted:
    try:
        return fit_example(Example(model, example_inputs), budget, loss, False, options_of(**more), lambda forward: vars(model).update(forward=forward))
    finally:
        vars(model).pop("forward", None)


@dataclasses.dataclass
class _Way:
    name: str
    forward: Optional[Fitted] = None
    blocks: Sequence[torch.nn.Module] = ()
    peak: int = 0
    seconds: List[float] = dataclasses.field(default_factory=list)

    @contextlib.contextmanager
    def on(self, model: torch.nn.Module) -> Iterator[None]:
        changed = {block: functools.partial(checkpoint, block.forward, use_reentrant=False) for block in self.blocks}
        if self.forward is not None:
            changed[model] = self.forward
        for module, forward in changed.items():
            module.forward = forward
        try:
            yield
        finally:
            for module in changed:
                del module.__dict__["forward"]

    def row(self, plain: float) -> Row:
        seconds, said = statistics.median(self.seconds), {"solver": ""} if self.forward is None else self.forward.schedule
        return Row(self.name, said.get("budget"), said["solver"], said.get("peak"), self.peak, said.get("overhead"), seconds / plain - 1, seconds)


def _at_the_peak_of(other: _Way, run: "_Step", fitted: Callable[[Budget], Any]) -> List[_Way]:
    """The schedule of the least makespan, in a few trials, whose measured peak is not above the other's."""
    found: List[_Way] = []
    low, budget, high = 0, other.peak, 2 * other.peak  # low: within the other's peak, or infeasible; high: above
    for _ in range(TRIALS):
        try:
            way = _Way(f"at the peak of {other.name}", forward=fitted(budget))
            way.peak = run.peak(way)
        except BudgetError:
            low, budget = budget, (budget + high) // 2
            continue
        room = other.peak - way.peak
        if room >= 0:
            found.append(way)
        if 0 <= room <= other.peak // 100:
            break
        low, high = (budget, high) if room >= 0 else (low, budget)
        near = budget + room  # where the rest is the same, such as the gradients of parameters
        budget = near if low < near < high else (low + high) // 2
    return [min(found, key=lambda way: way.forward.schedule["makespan"])] if found else []


def _sum(result: Any) -> torch.Tensor:
    return sum(t.float().sum() for t in tensors_of(result) if t.requires_grad)


class _Step:
    def __init__(self, model: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any], loss: Callable[[Any], Any], device: torch.device) -> None:
        self.model, self.args, self.kwargs, self.loss, self.device = model, args, kwargs, loss, device
        self.input_bytes = amount(tensors_of((args, kwargs)))

    def run(self) -> None:
        self.loss(self.model(*self.args, **self.kwargs)).backward()

    def seconds(self, way: _Way) -> float:
        with way.on(self.model):
            begin = clock(self.device)
            self.run()
            return clock(self.device) - begin

    def peak(self, way: _Way) -> int:
        """Of the way's second step: what is made once is there."""
        with way.on(self.model):
            self.run()
            self.model.zero_grad(set_to_none=True)
            gc.collect()
            with Recorder(self.device) as recorder:
                recorder.mark()
                self.run()
                recorder.mark()
        segment = recorder.segments[0]
        return segment.peak - segment.start + self.input_bytes
