"""transformers' Trainer within a budget: Trainer(..., callbacks=[remat.TrainerCallback(budget="60%")])."""

import functools
import sys
import time
from typing import Any, Callable, Dict, Optional

import torch
import transformers
from transformers.trainer_pt_utils import LabelSmoother

from .client import Budget
from .errors import BudgetError, CaptureError
from .fitted import Fitted
from .fitting import fit_example, one_at_a_time, options_of
from .model import Call, Example, Forward, forward_of, set_forward
from .steps import Loss, assumed_loss


class TrainerCallback(transformers.TrainerCallback):
    """Fits the model at the first batch, within whatever accelerate wraps around it, and says so in one line.

    budget, more: as for remat.fit; so is loss, for a Trainer that makes its own. A percentage is of what a plain step with that batch takes; where a later,
    larger batch does not fit those bytes, it is of that one, and the line comes again. gradient checkpointing of transformers is turned off: the schedule
    does its work. forward.fitted is what remat.fit gives a model."""

    def __init__(self, budget: Budget = "60%", *, check: bool = True, loss: Optional[Loss] = None, **more: Any) -> None:
        self.budget, self.check, self.loss, self.options = budget, check, loss, options_of(**more)
        self.forward: Optional[FirstBatch] = None

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Before accelerate prepares the model: what it wraps is ours then."""
        if forward_of(model) is not None:  # of another trainer, and what that wrapped around it
            model.__dict__.pop("_original_forward", None)
            set_forward(model)
        elif hasattr(model, "_original_forward"):
            raise CaptureError("accelerate has wrapped the model's forward before remat.TrainerCallback came: it goes to Trainer(..., callbacks=[...])")
        if args.torch_compile:
            raise CaptureError("torch_compile=True compiles around the schedule, which is compiled itself: leave it out")
        self.forward = model.forward = FirstBatch(model, self.budget, self.loss or _loss(args), self.check, self.options)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if self.forward is None or self.forward.model is not model:
            self.on_init_end(args, state, control, model)


def _loss(args: Any) -> Callable[[Any], torch.Tensor]:
    """As Trainer makes it: what the model returns, or that of smoothed labels."""
    smoother = LabelSmoother(args.label_smoothing_factor) if args.label_smoothing_factor else None

    def loss(result: Any) -> torch.Tensor:
        if result.get("loss") is not None:
            return result["loss"]
        return smoother(result, torch.zeros_like(result["logits"][..., 0], dtype=torch.long)) if smoother is not None else assumed_loss(result)

    return loss


class FirstBatch(Forward):
    """Fits when it is first called as a training step calls it. fitted: what came of it."""

    def __init__(self, model: torch.nn.Module, budget: Budget, loss: Any, check: bool, options: Dict[str, Any]) -> None:
        super().__init__(model)
        self.budget, self.loss, self.check, self.options = budget, loss, check, options
        self.fitted: Optional[Fitted] = None

    def of(self, model: torch.nn.Module) -> "FirstBatch":
        return FirstBatch(model, self.budget, self.loss, self.check, self.options)

    @torch._dynamo.disable
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fitted is None and not (self.model.training and torch.is_grad_enabled()):
            return self.plain(*args, **kwargs)
        if self.fitted is None:
            self._fit(args, kwargs)
        try:
            return self.fitted(*args, **kwargs)
        except BudgetError:
            if not isinstance(self.budget, str) or not self.budget.endswith("%"):
                raise
            self._fit(args, kwargs)
        return self.fitted(*args, **kwargs)

    @one_at_a_time
    def _fit(self, args: Any, kwargs: Any) -> None:
        begin = time.monotonic()
        off = getattr(self.model, "is_gradient_checkpointing", False)
        if off:
            self.model.gradient_checkpointing_disable()
            if hasattr(self.model, "_require_grads_hook"):  # which checkpointing wanted
                self.model.disable_input_require_grads()
        fit_example(Example(self.model, Call(args, kwargs)), self.budget, self.loss, self.check, self.options, functools.partial(setattr, self, "fitted"))
        fitted, schedule, what = self.fitted, self.fitted.schedule, type(self.model).__name__
        taken = f"measured {fitted.measured_peak} bytes" if fitted.measured_peak is not None else "not measured"
        overhead = f", {round(schedule['overhead'], 3) + 0:.1%} more time predicted" if schedule else ""
        print(f"remat: {what} trains within {self.budget}: a step takes {fitted.limit}{' bytes' * isinstance(fitted.limit, int)} at most ({taken}){overhead}, "
              f"{len(fitted.pieces)} graph{'s' * (len(fitted.pieces) > 1)}, solved {fitted.backend.client.where} in "
              f"{time.monotonic() - begin:.1f} s{'; gradient checkpointing is off' if off else ''}", file=sys.stderr)
