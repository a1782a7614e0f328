"""What the user calls: fit, profile, remove, reserved."""

import functools
import gc
import json
import math
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple, Union

import torch

from . import pipelines, planned, sharing, steps, transfers
from .autocast import under
from .backend import at_least, auto_budget, why
from .client import Budget, bytes_of, parse_budget
from .errors import BudgetError, CaptureError
from .fitted import ALLOWED, Fitted, has_recurrent
from .model import Example, Modules, follow_anew, forward_of, is_bare, plain_forward, set_forward
from .steps import Loss
from .tensors import amount, tensors_of

SPARE = 500  # one part in which of a budget is for what no operation makes: tensors of a few bytes that Python holds
SPANS = (1, 8, 64)  # in which steps of recurrent layers run, as far as a budget needs it
_LOCK = threading.RLock()
_WHOLE: Any = weakref.WeakKeyDictionary()  # by module: the one that was fitted and has it


def one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """In all threads: what is measured is of the process."""
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _LOCK:
            frozen = gc.get_freeze_count()
            if not frozen:  # what there is now need not be looked at by each of the collections that measuring takes
                gc.collect()
                gc.freeze()
            try:
                return function(*args, **kwargs)
            finally:
                if not frozen:
                    gc.unfreeze()
    return run


@one_at_a_time
def profile(model: Modules, example_inputs: Any, path: Optional[Union[str, Path]] = None, *, name: Optional[str] = None,
            repeats: int = 3, device_model: Union[None, str, Dict[str, Any]] = None) -> Dict[str, Any]:
    """The joint profile (remat-profile/1) of a step of the model; with path, also writes it there. Measured on the model's own device; or with device_model
    (a name such as "a100-80gb", an entry or file of examples/calibrate.py) from shapes alone, for a model that may be on the meta device.

    example_inputs: a tensor, a tuple of arguments, or a dict of keyword arguments, as in training; mode (train or eval) and autocast count too. The model,
    its buffers and the random generators end as they began. Raises CaptureError."""
    found = (planned.profile(model, example_inputs, device_model, name) if device_model is not None else planned.measured(model, example_inputs, name, repeats))
    if path is not None:
        Path(path).write_text(json.dumps(found, indent=1))
    return found


def reserved(model: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer] = None) -> int:
    """Bytes of parameters, buffers, gradients (allocated yet or not) and of what the optimizer holds by now."""
    tensors = [*model.parameters(), *model.buffers(), *(p for p in model.parameters() if p.requires_grad)]
    if optimizer is not None:
        tensors += [t for state in optimizer.state.values() for t in tensors_of(dict(state))]
    return amount(tensors)


@one_at_a_time
def fit(model: Modules, example_inputs: Any, budget: Budget = "auto", *, server: Optional[str] = None, token: Optional[str] = None, solver: str = "auto",
        effort: str = "quick", reserved: int = 0, cache: Optional[Union[str, Path]] = None, offline: str = "error", repeats: int = 3,
        gradients: bool = True, loss: Optional[Loss] = None, check: bool = True, link: transfers.Link = None,
        device_model: Union[None, str, Dict[str, Any]] = None, optimizer: Union[None, str, torch.optim.Optimizer] = None, in_flight: Optional[int] = None,
        microbatches: Optional[int] = None) -> torch.nn.Module:
    """Makes a model train within a budget. Returns the model, whose forward now follows a schedule.

    budget: of a step, forward, loss and backward: bytes, "8GiB", "60%" of what a plain step is measured to take here, "auto" (a share of the memory that is
    free), or "device": what its memory, or that of device_model (an entry of the table of devices), leaves beside weights and what the optimizer (one, or
    "adamw" and its like) holds. Activations, their gradients, intermediates and workspaces count and so do the gradients of the parameters; parameters do
    not. gradients: False: those of the parameters do not count, and a percentage is of what storing everything is predicted to take. loss: makes one number
    of what the model returns, as the training does; what it takes is measured. Without it a model that returns one number is taken to return its loss, and of
    any other one the cross entropy of every result is counted. reserved: bytes taken off the budget first. check: end with steps on the example, and on
    another input, that must be the plain ones (CheckError); for these, and for a percentage, the plain step must fit the device. server, token: or
    REMAT_SERVER, REMAT_TOKEN. solver: as the service understands it. effort: "quick", or "thorough", which searches longer for a faster schedule (solvers
    auto and interval). cache: folder of schedules and of what was measured. offline: "error" or "plain" when the service does not answer and nothing is kept.
    link: to the host's memory, over which values may leave and come back beside the computation: "measured", "pcie4-x16", "25GB/s", or members of the
    service's Link. in_flight, microbatches: the model is a stage of torch.distributed.pipelining, the example a micro-batch (with requires_grad for all but
    the first stage), so many are held at once (pipelines.in_flight) and so many make a step, of which the budget is then, with what the runtime keeps.
    Without loss= the outputs are sent on; the last stage needs it.

    Under no_grad the model runs as without a schedule. Other shapes, modes and states get a schedule when they first come. Raises CaptureError, BudgetError
    (with minimum_budget), ServiceError."""
    distributed = isinstance(model, torch.nn.parallel.DistributedDataParallel)
    example = Example(model.module if distributed else model, example_inputs)
    if budget == "device":
        budget = planned.device_budget(example.model, optimizer, device_model, example.device)
    elif device_model is not None or optimizer is not None:
        raise ValueError("device_model and optimizer are for budget=\"device\"")
    for name, module in example.model.named_modules():
        if forward_of(module) is not None:
            raise CaptureError(f"{type(example.model).__name__}{name and f', in its {name},'} has a schedule already; remat.remove it first")
    whole = _WHOLE.get(example.model, lambda: None)()
    if whole is not None and forward_of(whole) is not None:
        raise CaptureError(f"{type(example.model).__name__} is a part of {type(whole).__name__}, which has a schedule; remat.remove that first")
    if hasattr(example.model, "_original_forward"):
        raise CaptureError(f"accelerate has wrapped the forward of {type(example.model).__name__}: fit it before Accelerator.prepare, "
                           "or what unwrap_model(..., keep_fp32_wrapper=False) gives back; with transformers' Trainer by remat.TrainerCallback")

    def install(forward: Optional[Fitted]) -> None:
        set_forward(example.model, forward)  # none where no solver is found
        if forward is not None:
            _WHOLE.update((part, weakref.ref(example.model)) for part in example.model.modules() if part is not example.model)

    fit_example(example, budget, loss, check, options_of(server=server, token=token, solver=solver, effort=effort, reserved=reserved, cache=cache,
                offline=offline, repeats=repeats, gradients=gradients, link=link), install, (in_flight, microbatches))
    return model if distributed else example.model


def options_of(**more: Any) -> Dict[str, Any]:
    """Of a Backend, as fit takes them."""
    known = {"server": None, "token": None, "solver": "auto", "effort": "quick", "reserved": 0, "cache": None,
             "offline": "error", "repeats": 3, "gradients": True, "link": None}
    for name in more:
        if name not in known:
            raise TypeError(f"fit has no option {name!r}; it has {', '.join(known)}")
    at_least(0, reserved=more.get("reserved", 0))
    return {**known, **more}


def remove(model: torch.nn.Module) -> torch.nn.Module:
    """Takes the schedule, or those of its modules, off a model again. Raises CaptureError where something was wrapped around one, as by accelerate."""
    for module in model.modules():
        if forward_of(module) is None:
            continue
        if not is_bare(module):
            raise CaptureError(f"something is wrapped around the schedule of {type(module).__name__}, which would go with it: "
                               "with accelerate take it off by unwrap_model(..., keep_fp32_wrapper=False) first")
        set_forward(module)
    return model


# ---- one fit ----

Install = Callable[[Optional[Fitted]], None]  # makes it the model's forward, or with None takes that off


def fit_example(example: Example, budget: Budget, loss: Optional[Loss], check: bool, options: Dict[str, Any],
                install: Install, flight: Tuple[Optional[int], Optional[int]] = (None, None)) -> Fitted:
    """options: of Backend. flight: as in_flight and microbatches of fit, as which it raises."""
    wanted = budget if budget == "auto" else parse_budget(budget)
    with under(example.autocast):
        result, inputs = example.settle()
        taken = steps.loss_bytes(example, loss, result, inputs) if loss or flight == (None, None) else None
        if flight != (None, None):
            stage = pipelines.stage_of(example, result, *flight, taken, options["gradients"])  # type: ignore[arg-type]
            options, taken = {**options, "stage": stage}, (*(taken or (0, 0))[:2], 0)
        del result, inputs
        if wanted == "auto":
            wanted = auto_budget(example.model, example.device)
        elif isinstance(wanted, str) and (options["gradients"] or "stage" in options):
            warm = example.device.type != "cpu"  # where a backward has workspaces of its own
            wanted = bytes_of(wanted, _peak(plain_forward(example.model), example, loss, options, warm))
    if isinstance(wanted, int) and wanted <= options["reserved"]:
        raise BudgetError(f"the budget is {wanted} bytes, of which {options['reserved']} are reserved: nothing is left")
    options = {**options, "loss": taken, "divided": True, "firsts": ({}, {})}
    for spans, more in zip(SPANS, (*SPANS[1:], 0)):
        try:
            return _Fit(example, wanted, loss, check, {**options, "spans": spans}, install).run()
        except BudgetError as error:
            if not more or not has_recurrent(example.model):
                raise
            warnings.warn(f"remat: within the budget of {wanted} bytes the layers of nn.LSTM and its like cannot run in {spans} "
                          f"span{'s' * (spans > 1)} of their steps ({error}): in {more} they may, with sums in another order", stacklevel=4)


def _peak(forward: Callable[..., Any], example: Example, loss: Optional[Loss], options: Dict[str, Any], warm: bool) -> int:
    stage, gradients = options.get("stage"), options["gradients"]
    return pipelines.peak(forward, example, loss, stage, gradients, warm) if stage else steps.peak(forward, example, loss, gradients, warm)


class _Fit:
    def __init__(self, example: Example, wanted: Budget, loss: Optional[Loss], check: bool, options: Dict[str, Any], install: Install) -> None:
        self.example, self.wanted, self.loss, self.check, self.options, self.install = example, wanted, loss, check, options, install

    def run(self) -> Fitted:
        wanted = self.wanted
        asked = wanted if isinstance(wanted, str) else wanted - max(0, wanted - self.options["reserved"]) // SPARE
        while True:
            try:
                return self._at(asked)
            except BaseException as error:
                self.install(None)
                if asked == wanted or (getattr(error, "minimum_budget", None) or math.inf) > wanted:
                    raise
                asked = wanted

    def _at(self, asked: Budget) -> Fitted:
        fitted = Fitted(self.example.model, self.options, asked)
        self.install(fitted)  # before it compiles: Dynamo guards what modules have
        first = self._first_step(fitted)
        if isinstance(self.wanted, int) and (fitted.backend.breaks or not fitted.pieces):
            fitted, first = self._divided(fitted, self.wanted - self.options["reserved"]), None
        if self.check:
            ratio, fitted.ratio = fitted.ratio, 0.0  # whatever the other input takes
            steps.check(self.example, fitted, self.loss, first)
            del first  # the gradients of a step
            fitted.ratio = ratio
            fitted.measured_peak = _peak(fitted, self.example, self.loss, self.options, warm=False)
            if isinstance(self.wanted, int) and fitted.measured_peak > ALLOWED * (self.wanted - self.options["reserved"]):
                warnings.warn(f"remat: the budget is {self.wanted - self.options['reserved']} bytes, and a step was measured to take "
                              f"{fitted.measured_peak} ({fitted.schedule.get('peak', 'nothing')} predicted)", stacklevel=7)
        fitted.whole = fitted.graphs == 1 and not fitted.backend.breaks
        return fitted

    def _first_step(self, fitted: Fitted) -> steps.Found:
        """Compiles. Says so where nothing was."""
        from torch._dynamo.utils import counters
        before = dict(counters["graph_break"])
        made = steps.step(fitted, self.example, self.example.call, self.loss, 0)
        if not fitted.pieces:  # code that models share is left as it is where another torch.compile had its fill of it
            follow_anew()
            made = steps.step(fitted, self.example, self.example.call, self.loss, 0)
        new = [why(str(reason)) for reason, n in counters["graph_break"].items() if n > before.get(reason, 0)]
        if not fitted.pieces:
            warnings.warn(f"remat: torch.compile left {type(self.example.model).__name__} as it is, so it trains without a "
                          f"schedule: {'; '.join(new or ['no reason was given'])}", stacklevel=8)
        for reason in new if fitted.pieces and not fitted.backend.breaks else ():  # in a loop: Dynamo compiles what that calls
            fitted.backend.say_break(reason)
        return made

    def _divided(self, fitted: Fitted, budget: int) -> Fitted:
        """A forward in several graphs, or none, with one budget. Raises BudgetError."""
        measured = _peak(fitted, self.example, self.loss, self.options, warm=True)  # the latest calls are the example's
        if measured <= budget * (1 if fitted.pieces else ALLOWED) or not all(piece.schedule for piece in fitted.pieces):
            fitted.ratio = measured / fitted.backend.together() if measured <= budget and fitted.backend.calls else 0.0
            return fitted
        if not fitted.pieces:
            raise BudgetError(f"the budget is {budget} bytes; torch.compile left {type(self.example.model).__name__} as it "
                              f"is, and a step takes {measured}", measured)
        made: Dict[int, Fitted] = {}

        def measure(share: int) -> int:
            made[share] = fitted.at(share)
            self.install(made[share])
            taken = _peak(made[share], self.example, self.loss, self.options, warm=True)
            made[share].ratio = taken / made[share].backend.together()
            return taken

        best = made[sharing.divide(budget, measured - fitted.backend.together(), fitted.backend.at, measure)]
        self.install(best)
        best.limit = fitted.limit - self.options["reserved"]
        return best
