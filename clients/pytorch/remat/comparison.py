"""What each budget costs, predicted and measured, beside torch.utils.checkpoint, in one run on the user's device."""

import contextlib
import dataclasses
import functools
import statistics
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.utils.checkpoint import checkpoint

from .client import Budget
from .errors import BudgetError
from .fitted import Fitted
from .fitting import fit_example, options_of
from .model import Example, set_forward
from .operations import clock
from .steps import peak
from .tensors import tensors_of

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
    it ran. Measured peaks are those of the allocator above the level before the step, which starts without gradients, with the inputs added. The model ends as
    it began, with its schedule, if it has one, and its gradients. Raises as fit does."""
    with contextlib.ExitStack() as last:
        last.callback(vars(model).update, {name: value for name, value in vars(model).items() if name == "forward"})
        for parameter in model.parameters():
            last.callback(setattr, parameter, "grad", parameter.grad)
        set_forward(model)
        model.zero_grad(set_to_none=True)
        run = _Step(Example(model, example_inputs), loss or (lambda result: sum(t.float().sum() for t in tensors_of(result) if t.requires_grad)))
        ways = [_Way("plain")]
        if checkpointed or isinstance(model, torch.nn.Sequential):
            blocks = [m for m in model.modules() if isinstance(m, checkpointed)] if checkpointed else list(model.children())
            if not blocks:
                raise ValueError(f"{type(model).__name__} has no module of the classes checkpointed")
            ways.append(_Way("checkpoint per block", blocks=blocks))

        def fitted(budget: Budget) -> Fitted:
            try:
                return fit_example(run.example, budget, run.loss, False, options_of(**more), functools.partial(set_forward, model))
            finally:
                set_forward(model)
        ways += [_Way(str(budget), forward=fitted(budget)) for budget in budgets]
        for way in ways:
            way.peak = run.peak(way)
        for other in [way for way in ways if way.name.startswith("checkpoint")]:
            ways += _at_the_peak_of(other, run, fitted)
        for _ in range(steps):
            for way in ways:
                way.seconds.append(run.seconds(way))
        return Comparison([way.row(statistics.median(ways[0].seconds)) for way in ways])


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
        own = [(vars(module), vars(module).get("forward")) for module in changed]
        for module, forward in changed.items():
            module.forward = forward
        try:
            yield
        finally:
            for names, forward in own:
                names.pop("forward") if forward is None else names.update(forward=forward)

    def row(self, plain: float) -> Row:
        seconds, several = statistics.median(self.seconds), self.forward is not None and len(self.forward.backend.frames()) > 1
        said = {"solver": "several", "budget": self.forward.limit} if several else {"solver": ""} if self.forward is None else self.forward.schedule
        return Row(self.name, said.get("budget"), said["solver"], said.get("peak"), self.peak, said.get("overhead"), seconds / plain - 1, seconds)


def _at_the_peak_of(other: _Way, run: "_Step", fitted: Callable[[Budget], Any]) -> List[_Way]:
    """The schedule of the least makespan, in a few trials, whose measured peak is not above the other's."""
    found: List[_Way] = []
    low, high = 0, 2 * other.peak  # low: within the other's peak, or infeasible; high: above
    for _ in range(TRIALS):
        budget = (low + high) // 2
        try:
            way = _Way(f"at the peak of {other.name}", forward=fitted(budget))
            way.peak = run.peak(way)
        except BudgetError:
            low = budget
            continue
        found += [way] * (way.peak <= other.peak)
        low, high = (budget, high) if way.peak <= other.peak else (low, budget)
    return [min(found, key=lambda way: way.forward.schedule["makespan"])] if found else []


class _Step:
    def __init__(self, example: Example, loss: Callable[[Any], Any]) -> None:
        self.example, self.loss = example, loss

    def seconds(self, way: _Way) -> float:
        model, ((args, kwargs), _) = self.example.model, self.example.call.leaves()
        with self.example.states(), way.on(model):
            begin = clock(self.example.device)
            self.loss(model(*args, **kwargs)).backward()
            return clock(self.example.device) - begin

    def peak(self, way: _Way) -> int:
        with way.on(self.example.model):
            return peak(self.example.model, self.example, self.loss, True)
