"""What the user calls: profile, fit, remove, reserved."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple, Union

import torch

from . import parts, planned, road as compiled_road, steps
from .autocast import Autocast
from .capture import bind
from .captured import Blocks, Captured, arguments_of, as_module, device_of, shape
from .client import Budget, Cache, parse_budget
from .errors import BudgetError, CaptureError, CheckError, ServiceError, UntraceableError
from .graph import tensors_of
from .local import connect
from .memory import free_bytes
from .planning import Request, bytes_of, find_plan
from .region import Region
from .steps import Loss

AUTO_SHARE = 0.9  # of the memory that is free
ALLOWED = 1.02  # of the budget, by which a measured peak may be above it without a word


_LOCK = threading.RLock()


def _one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """In all threads: tracing changes classes of torch, and what is measured is of the process."""
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _LOCK:
            return function(*args, **kwargs)
    return run


# ---- profile ----

@_one_at_a_time
def profile(model: Blocks, example_inputs: Any, path: Optional[Union[str, Path]] = None, *, name: Optional[str] = None,
            blocks: Tuple[type, ...] = (), repeats: int = 3,
            device_model: Union[None, str, Dict[str, Any]] = None) -> Dict[str, Any]:
    """With device_model (a name such as "a100-80gb", an entry or file of remat.calibrate): the joint profile from shapes
    alone, for a model that may be on the meta device; costs are of the device's model. Else measures a model on its own device and returns its profile (remat-profile/1); with path, also writes it there.

    example_inputs: a tensor, a tuple of arguments, or a dict of keyword arguments, as in training; mode (train or
    eval) and autocast count too. blocks: classes of modules that stay whole. The model, its buffers and the random
    generators end as they began. Raises CaptureError.
    """
    if device_model is not None:
        found = planned.profile(model, example_inputs, device_model, name)
    else:
        captured = Captured(model, example_inputs, blocks)
        with Autocast(captured.device).again():
            found = captured.measure(repeats, name).profile
    if path is not None:
        Path(path).write_text(json.dumps(found, indent=1))
    return found


def reserved(model: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer] = None) -> int:
    """Bytes of parameters, buffers, gradients (allocated yet or not) and of what the optimizer holds by now."""
    tensors = [*model.parameters(), *model.buffers(), *(p for p in model.parameters() if p.requires_grad)]
    if optimizer is not None:
        tensors += [t for state in optimizer.state.values() for t in tensors_of(dict(state))]
    return sum(t.numel() * t.element_size() for t in tensors)


# ---- fit ----

@_one_at_a_time
def fit(model: Blocks, example_inputs: Any, budget: Budget = "auto", *, server: Optional[str] = None,
        token: Optional[str] = None, solver: str = "auto", link: Optional[Dict[str, Any]] = None,
        effort: str = "quick", reserved: int = 0, blocks: Tuple[type, ...] = (),
        cache: Optional[Union[str, Path]] = None, offline: str = "error", mismatch: str = "fit", repeats: int = 3,
        gradients: bool = True, loss: Optional[Loss] = None, check: bool = True,
        road: str = "auto", device_model: Union[None, str, Dict[str, Any]] = None,
        optimizer: Union[None, str, torch.optim.Optimizer] = None) -> torch.nn.Module:
    """Makes a model train within a budget. Returns the model, whose forward now follows a schedule.

    budget: of a step, forward, loss and backward: bytes, "8GiB", "60%" of what a plain step is measured to take here,
    "auto" (a share of the memory that is free), or "device": what its memory, or that of device_model (an entry of the
    table of devices), leaves beside weights and what the optimizer (one, or "adamw" and its like) holds. Activations, their gradients, intermediates and workspaces count and
    so do the gradients of the parameters, each from the backward that makes it; parameters do not. gradients: False:
    those of the parameters do not count, and a percentage is of what storing everything is predicted to take. loss:
    makes one number of what the model returns, as the training does; what it takes is measured. Without it a model that
    returns one number is taken to return its loss, and of any other one the cross entropy of every result is counted.
    reserved: bytes taken off the budget first. check: end with steps on the example, and on another input, that must
    be the plain ones (CheckError); for these, and for a percentage, the plain step must fit the device. server,
    token: or REMAT_SERVER, REMAT_TOKEN. solver, link: as the service understands them. effort: "quick", or "thorough",
    which searches longer for a faster schedule (solvers auto and interval). cache: folder of plans.
    offline: "error" or "plain" when the service does not answer and there is no plan. mismatch: "fit", "error" or "plain"
    when a forward gets inputs unlike example_inputs: a plan of their own in the same bytes, which is kept. With torch.distributed, rank 0 asks and all ranks get its plan.

    road: "compile" follows the forward by torch.compile (torch 2.4 or later) and schedules the joint graph of forward
    and backward; "trace" by the tracer of this package, which refuses what it cannot prove; "auto" compiles where it
    can, without link and blocks. mismatch, link and blocks are for the tracer: a compiled model gets a plan for each
    shape, mode and state that it is called in.

    Traced, where a graph narrows to one value here and there, solver "auto" is asked both for its nodes and for the chain of
    stages between, and the better schedule is used (not with a link).

    Where the model's own forward cannot be followed, by torch.export neither, the largest of its modules that can are
    fitted, and a warning says which: the budget is theirs, shared in proportion to what they store; what runs outside
    them is not counted.

    Under no_grad the model runs as without a schedule; in another mode (train or eval) than now too, with a warning.
    Raises CaptureError, BudgetError (with minimum_budget), ServiceError, MismatchError.
    """
    if budget == "device":
        whole = as_module(model)
        budget = planned.device_budget(whole, optimizer, device_model, device_of(whole, example_inputs))
    elif device_model is not None or optimizer is not None:
        raise ValueError("device_model and optimizer are for budget=\"device\"")
    wanted = _amount(budget)
    request = _request(server, token, solver, link, effort, reserved, blocks, cache, offline, mismatch, repeats,
                       gradients, loss, check)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        fit(model.module, example_inputs, budget, server=server, token=token, solver=solver, link=link,
            effort=effort, reserved=reserved, blocks=blocks, cache=cache, offline=offline, mismatch=mismatch,
            repeats=repeats, gradients=gradients, loss=loss, check=check, road=road)
        return model
    if _compiles(road, link, blocks):
        return compiled_road.fit(model, example_inputs, wanted, _auto_budget, loss, check, {
            "server": server, "token": token, "solver": solver, "effort": effort, "reserved": reserved, "cache": cache,
            "offline": offline, "repeats": repeats, "gradients": gradients})
    try:
        captured = Captured(model, example_inputs, blocks)
    except UntraceableError as error:
        return _fit_parts(as_module(model), arguments_of(example_inputs), wanted, request, error)
    _fit_region(captured, wanted, request)
    return captured.model


def _compiles(road: str, link: Any, blocks: Any) -> bool:
    if road not in ("auto", "compile", "trace"):
        raise ValueError(f"road is {road!r}; there are \"auto\", \"compile\" and \"trace\"")
    if road == "compile" and not compiled_road.available():
        raise CaptureError(f"torch {torch.__version__} cannot compile; 2.4 or later can")
    if road == "compile" and (link is not None or blocks):
        raise ValueError("link and blocks are for road=\"trace\"")
    return road == "compile" or (road == "auto" and compiled_road.available() and link is None and not blocks)


def regions(model: Blocks, example_inputs: Any, **more: Any) -> Callable[[Budget], Region]:
    """What fit would make the forward of the model, for one budget after another; the model is measured once.

    more: as for fit. Raises as fit does, and CaptureError where fit would fit parts of the model.
    """
    request = _request(**{**more, "offline": "error", "check": False})
    captured = Captured(model, example_inputs, request.blocks)
    return lambda budget: _region(captured, _amount(budget), request)


def _request(server: Optional[str] = None, token: Optional[str] = None, solver: str = "auto",
             link: Optional[Dict[str, Any]] = None, effort: str = "quick", reserved: int = 0,
             blocks: Tuple[type, ...] = (), cache: Optional[Union[str, Path]] = None, offline: str = "error",
             mismatch: str = "fit", repeats: int = 3, gradients: bool = True, loss: Optional[Loss] = None,
             check: bool = True) -> Request:
    for name, value, known in (("offline", offline, ("error", "plain")), ("mismatch", mismatch, ("fit", "error", "plain"))):
        if value not in known:
            raise ValueError(f"{name} is {value!r}; there are {', '.join(known)}")
    return Request(connect(server, token), solver, link, effort, reserved, gradients, loss, check, blocks, Cache(cache),
                   offline, mismatch, repeats)


def _amount(budget: Budget) -> Budget:
    return budget if budget == "auto" else parse_budget(budget)


def _fit_region(captured: Captured, budget: Budget, request: Request) -> None:
    """Gives the captured model a schedule, or says that there is no service."""
    try:
        region = _region(captured, budget, request)
    except ServiceError as error:
        if request.offline == "plain" and error.status == 0:
            warnings.warn(f"{error}; {type(captured.model).__name__} trains without a schedule", stacklevel=4)
            return
        raise
    if request.checked:
        steps.check(captured, region, request.loss)
        region.measured_peak = steps.peak(region, captured, request.loss, request.gradients)
        if region.measured_peak > ALLOWED * region.schedule["budget"]:
            warnings.warn(f"remat: the budget is {region.schedule['budget']} bytes, and a step was measured to take "
                          f"{region.measured_peak} ({region.schedule['peak']} predicted)", stacklevel=4)
    if request.mismatch == "fit":
        region.fit_again = lambda bound: _fit_again(captured, bound, region, request)
    captured.model.forward = region


@_one_at_a_time
def _fit_again(first: Captured, bound: Dict[str, Any], region: Region, request: Request) -> Region:
    """For inputs unlike the example, as in a smaller last batch: in the same bytes, asked for by each process, since
    the others may have no such inputs."""
    captured = Captured(first.model, bound, request.blocks)
    request = dataclasses.replace(request, alone=True, reserved=0)
    budget = region.schedule["budget"]
    other = Region(captured, find_plan(captured, budget, lambda: budget, request, True), "error")
    if request.checked:
        steps.check(captured, other, request.loss)
    return other


def _region(captured: Captured, budget: Budget, request: Request) -> Region:
    def amount() -> Budget:
        if budget == "auto":
            return _auto_budget(captured.model, captured.device)
        if isinstance(budget, str) and request.gradients:
            return bytes_of(budget, _plain_peak(captured, request))
        return budget

    return Region(captured, find_plan(captured, budget, amount, request, True), request.mismatch)


def _plain_peak(captured: Captured, request: Request) -> int:
    if captured.plain_peak is None:
        plain = steps.plain_forward(captured.model)
        captured.plain_peak = steps.peak(plain, captured, request.loss, request.gradients)
    return captured.plain_peak


def _fit_parts(model: torch.nn.Module, example: parts.Call, budget: Budget, request: Request,
               reason: UntraceableError) -> torch.nn.Module:
    captures: Dict[str, Captured] = {}
    for_parts = dataclasses.replace(request, reserved=0)

    def follows(part: parts.Part) -> bool:
        try:
            examples = [bind(part.module, *example) for example in part.examples]
            captures[part.name] = Captured(part.module, examples[0], request.blocks)
        except CaptureError:
            return False
        if any(shape(example) != shape(examples[0]) for example in examples):
            return False  # one plan would not do for all calls
        return len(captures[part.name].graph.nodes) > 1

    def fit_part(part: parts.Part, share: Budget) -> Dict[str, Any]:
        remove(part.module)
        captured = captures[part.name]
        region = Region(captured, find_plan(captured, share, lambda: share, for_parts, False), "plain")
        part.module.forward = region
        return region.schedule

    device = device_of(model, example)
    found = parts.find(model, example, device, follows)
    if not found:
        raise reason
    amount = _auto_budget(model, device) if budget == "auto" else budget
    try:
        parts.share(found, lambda whole: bytes_of(amount, whole) - request.reserved, fit_part)
    except BaseException as error:
        remove(model)
        if isinstance(error, ServiceError) and request.offline == "plain" and error.status == 0:
            warnings.warn(f"{error}; {type(model).__name__} trains without a schedule", stacklevel=4)
            return model
        raise
    for part in found if request.checked else ():
        region = part.module.__dict__.pop("forward")
        steps.check(captures[part.name], region, None)
        part.module.forward = region
    if request.checked:
        _check_whole(model, example, found, request)
    warnings.warn(f"{reason} It runs as it is, outside the budget; scheduled are: "
                  f"{', '.join(part.name for part in found)}", stacklevel=4)
    return model


def _check_whole(model: torch.nn.Module, example: parts.Call, found: List[parts.Part], request: Request) -> None:
    """A step with the fitted parts beside one with none."""
    regions = [(part.module, part.module.__dict__.pop("forward")) for part in found]
    whole = compiled_road.Example(model, example[0] if not example[1] else {**bind(model, *example)})

    def forward(**inputs: Any) -> Any:
        for module, region in regions:
            module.forward = region
        try:
            return steps.plain_forward(model)(**inputs)
        finally:
            for module, _ in regions:
                del module.forward

    steps.check_casts(whole)
    try:
        steps.check(whole, forward, request.loss)
    except CheckError:
        try:
            steps.check(whole, steps.plain_forward(model), request.loss)
        except CheckError:  # no two plain steps are the same: there is nothing to compare with
            pass
        else:
            raise
    for module, region in regions:
        module.forward = region


def remove(model: torch.nn.Module) -> torch.nn.Module:
    """Takes the schedule, or those of its parts, off a model again."""
    for module in model.modules():
        if isinstance(module.__dict__.get("forward"), (Region, compiled_road.Compiled)):
            del module.forward
    return model


def _auto_budget(model: torch.nn.Module, device: torch.device) -> int:
    free, source = free_bytes(device)
    missing = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and p.grad is None)
    budget = int(AUTO_SHARE * free) - missing
    if budget <= 0:
        raise BudgetError(f"budget \"auto\": {free} bytes are free ({source}); gradients of parameters need {missing}")
    return budget
