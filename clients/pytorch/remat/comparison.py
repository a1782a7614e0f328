"""What each budget costs, predicted and measured, in one run on the user's device."""

from __future__ import annotations

import dataclasses
import gc
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .client import Budget
from .fitting import arguments_of, device_of, fit, remove
from .graph import tensors_of
from .memory import Recorder


@dataclasses.dataclass
class Row:
    """One budget; budget None is plain execution, without this package. Bytes and seconds."""

    budget: Optional[int]
    solver: str
    predicted_peak: Optional[int]
    measured_peak: int
    predicted_overhead: Optional[float]  # of the makespan over storing everything
    measured_overhead: float  # of the step over plain execution
    seconds: float


@dataclasses.dataclass
class Comparison:
    """Measured peaks include the gradients of the parameters; predicted ones do not."""

    rows: List[Row]
    parameter_gradient_bytes: int

    def __str__(self) -> str:
        lines = [f"{'budget':>14} {'solver':<16} {'peak predicted':>15} {'measured':>14} "
                 f"{'overhead pred.':>15} {'measured':>9} {'step':>10}"]
        for row in self.rows:
            lines.append(f"{_text(row.budget, 'd', 'plain'):>14} {row.solver:<16} "
                         f"{_text(row.predicted_peak, 'd'):>15} {row.measured_peak:>14d} "
                         f"{_text(row.predicted_overhead, '.1%'):>15} {row.measured_overhead:>9.1%} "
                         f"{1e3 * row.seconds:>7.1f} ms")
        lines.append(f"measured with the gradients of parameters, {self.parameter_gradient_bytes} bytes")
        return "\n".join(lines)


def _text(value: Any, form: str, none: str = "-") -> str:
    return none if value is None else format(value, form)


def compare(model: torch.nn.Module, example_inputs: Any, budgets: Sequence[Budget] = ("100%", "75%", "50%"), *,
            loss: Optional[Callable[[Any], torch.Tensor]] = None, steps: int = 5, **more: Any) -> Comparison:
    """Plain execution and each budget: `steps` steps (forward, loss, backward) of each, in turns, and their medians.

    loss: makes one number of the model's result; default the sum of its tensors. more: as for fit. Measured peaks are
    those of the allocator above the level before the step, which starts without gradients, with the inputs added. The
    model ends without a schedule; the gradients of its parameters are set to None. Raises as fit does.
    """
    args, kwargs = arguments_of(example_inputs)
    device = device_of(model, (args, kwargs))
    run = _Step(model, args, kwargs, loss or _sum, device)
    fitted: List[Optional[Any]] = [None]
    for budget in budgets:
        fitted.append(fit(model, example_inputs, budget, **more).forward)
        remove(model)
    peaks: List[int] = []
    seconds: List[List[float]] = [[] for _ in fitted]
    for turn in range(steps + 1):
        for i, forward in enumerate(fitted):
            _use(model, forward)
            if turn == 0:
                run.seconds()
                peaks.append(run.peak())
            else:
                seconds[i].append(run.seconds())
    remove(model)
    model.zero_grad(set_to_none=True)
    medians = [statistics.median(s) for s in seconds]
    rows = [_row(forward, peak, s, medians[0]) for forward, peak, s in zip(fitted, peaks, medians)]
    return Comparison(rows, sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad))


def _sum(result: Any) -> torch.Tensor:
    return sum(t.float().sum() for t in tensors_of(result) if t.requires_grad)


def _use(model: torch.nn.Module, forward: Optional[Any]) -> None:
    remove(model)
    if forward is not None:
        model.forward = forward


class _Step:
    def __init__(self, model: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any],
                 loss: Callable[[Any], torch.Tensor], device: torch.device) -> None:
        self.model, self.args, self.kwargs, self.loss, self.device = model, args, kwargs, loss, device
        self.input_bytes = sum(t.numel() * t.element_size() for t in tensors_of((args, kwargs)))

    def run(self) -> None:
        self.loss(self.model(*self.args, **self.kwargs)).backward()

    def seconds(self) -> float:
        begin = self._clock()
        self.run()
        return self._clock() - begin

    def peak(self) -> int:
        self.model.zero_grad(set_to_none=True)
        gc.collect()
        with Recorder(self.device) as recorder:
            recorder.mark()
            self.run()
            recorder.mark()
        segment = recorder.segments()[0]
        return segment.peak - segment.start + self.input_bytes

    def _clock(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def _row(forward: Optional[Any], peak: int, seconds: float, plain: float) -> Row:
    if forward is None:
        return Row(None, "", None, peak, None, 0.0, seconds)
    schedule = forward.schedule
    return Row(schedule["budget"], schedule["solver"], schedule["peak"], peak, schedule["overhead"],
               seconds / plain - 1, seconds)
