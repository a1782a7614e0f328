"""What the user calls: profile, fit, remove, reserved."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import costs, parts
from .autocast import Autocast
from .capture import bind, capture
from .client import Budget, Cache, Client, parse_budget
from .errors import BudgetError, CaptureError, MismatchError, ServiceError, UntraceableError
from .execute import Observer, Program
from .graph import Environment, Graph, tensors_of
from .group import group
from .memory import free_bytes
from .plan import make_plan

Blocks = Union[torch.nn.Module, Sequence[torch.nn.Module]]
AUTO_SHARE = 0.9  # of the memory that is free


class Captured:
    """A model with its graph and the example it was captured with."""

    def __init__(self, model: Blocks, example_inputs: Any, blocks: Tuple[type, ...]) -> None:
        self.model = _as_module(model)
        if isinstance(self.model.__dict__.get("forward"), Region):
            raise CaptureError(f"{type(self.model).__name__} has a schedule already; remat.remove it first")
        self.args, self.kwargs = arguments_of(example_inputs)
        self.device = device_of(self.model, (self.args, self.kwargs))
        self.bound = bind(self.model, self.args, self.kwargs)
        program = capture(self.model, self.args, self.kwargs, self.device, blocks)
        self.alone = program.alone
        self.graph: Graph = group(program)

    def values(self) -> Environment:
        return {slot: self.bound[name] for name, slot in self.graph.placeholders}


def _as_module(model: Blocks) -> torch.nn.Module:
    if isinstance(model, torch.nn.ModuleList) or not isinstance(model, torch.nn.Module):
        return torch.nn.Sequential(*model)
    return model


def arguments_of(example: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    if isinstance(example, dict):
        return (), dict(example)
    return (example if isinstance(example, tuple) else (example,)), {}


def device_of(model: torch.nn.Module, example: Any) -> torch.device:
    for tensor in [*model.parameters(), *tensors_of(example)]:
        return tensor.device
    raise CaptureError(f"{type(model).__name__} has no parameters, and there is no tensor among its inputs")


# ---- profile ----

def profile(model: Blocks, example_inputs: Any, path: Optional[Union[str, Path]] = None, *, name: Optional[str] = None,
            blocks: Tuple[type, ...] = (), repeats: int = 3) -> Dict[str, Any]:
    """Measures a model on its own device and returns its profile (remat-profile/1); with path, also writes it there.

    example_inputs: a tensor, a tuple of arguments, or a dict of keyword arguments, as in training; mode (train or
    eval) and autocast count too. blocks: classes of modules that stay whole. The model, its buffers and the random
    generators end as they began. Raises CaptureError.
    """
    captured = Captured(model, example_inputs, blocks)
    with Autocast(captured.device).again():
        measured = costs.measure(captured.graph, captured.model, captured.values(), captured.device,
                                 name or type(captured.model).__name__, repeats)
    if path is not None:
        Path(path).write_text(json.dumps(measured.profile, indent=1))
    return measured.profile


def reserved(model: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer] = None) -> int:
    """Bytes of parameters, buffers, gradients (allocated yet or not) and of what the optimizer holds by now."""
    tensors = [*model.parameters(), *model.buffers(), *(p for p in model.parameters() if p.requires_grad)]
    if optimizer is not None:
        tensors += [t for state in optimizer.state.values() for t in tensors_of(dict(state))]
    return sum(t.numel() * t.element_size() for t in tensors)


# ---- fit ----

def fit(model: Blocks, example_inputs: Any, budget: Budget = "auto", *, server: Optional[str] = None,
        token: Optional[str] = None, solver: str = "auto", link: Optional[Dict[str, Any]] = None,
        reserved: int = 0, blocks: Tuple[type, ...] = (), cache: Optional[Union[str, Path]] = None,
        offline: str = "error", mismatch: str = "error", repeats: int = 3) -> torch.nn.Module:
    """Makes a model train within a budget. Returns the model, whose forward now follows a schedule.

    budget: bytes, "8GiB", "60%" of what storing everything takes, or "auto" (a share of the memory that is free);
    activations, their gradients, intermediates and workspaces count, parameters do not. reserved: bytes taken off it
    first. server, token: or REMAT_SERVER, REMAT_TOKEN. solver, link: as the service understands them.
    cache: folder of plans. offline: "error" or "plain" when the service does not answer and there is no plan.
    mismatch: "error" or "plain" when a forward gets inputs unlike example_inputs. With torch.distributed, rank 0 asks
    and all ranks get its plan.

    Where the model's own forward cannot be followed, the largest of its modules that can are fitted, and a warning
    says which: the budget is theirs, shared in proportion to what they store; what runs outside them is not counted.

    Under no_grad, and in another mode (train or eval) than now, the model runs as without a schedule.
    Raises CaptureError, BudgetError (with minimum_budget), ServiceError, MismatchError.
    """
    _check_choice("offline", offline)
    _check_choice("mismatch", mismatch)
    wanted_budget = budget if budget == "auto" else parse_budget(budget)
    request = _Request(Client(server, token), solver, link, blocks, Cache(cache), offline, mismatch, repeats)
    try:
        captured = Captured(model, example_inputs, blocks)
    except UntraceableError as error:
        return _fit_parts(_as_module(model), arguments_of(example_inputs), wanted_budget, reserved, request, error)
    _fit_region(captured, wanted_budget, reserved, request)
    return captured.model


@dataclasses.dataclass
class _Request:
    """What is the same for all parts of a model."""

    client: Client
    solver: str
    link: Optional[Dict[str, Any]]
    blocks: Tuple[type, ...]
    cache: Cache
    offline: str
    mismatch: str
    repeats: int


def _fit_region(captured: Captured, budget: Budget, reserved: int, request: _Request) -> Optional[Region]:
    """Gives the captured model a schedule; None: plain, for there is no service."""
    bytes_wanted = _auto_budget(captured.model, captured.device) if budget == "auto" else budget
    question = {"budget": bytes_wanted, "solver": request.solver, "link": request.link, "reserved": reserved}
    key = _fingerprint(captured, {**question, "budget": budget})
    with Autocast(captured.device).again():
        try:
            entry = _on_rank_0(lambda: _find_plan(captured, question, key, request.cache, request.client,
                                                  request.repeats))
        except ServiceError as error:
            if request.offline == "plain" and error.status == 0:
                return None
            raise
    region = Region(captured, entry, request.mismatch)
    captured.model.forward = region
    return region


def _fit_parts(model: torch.nn.Module, example: parts.Call, budget: Budget, reserved: int, request: _Request,
               reason: UntraceableError) -> torch.nn.Module:
    captures: Dict[str, Captured] = {}

    def follows(part: parts.Part) -> bool:
        try:
            examples = [bind(part.module, *example) for example in part.examples]
            captures[part.name] = Captured(part.module, examples[0], request.blocks)
        except CaptureError:
            return False
        if any(_shape(example) != _shape(examples[0]) for example in examples):
            return False  # one plan would not do for all calls
        return len(captures[part.name].graph.nodes) > 1

    def fit_part(part: parts.Part, share: Budget) -> Dict[str, Any]:
        remove(part.module)
        region = _fit_region(captures[part.name], share, 0, request)
        if region is None:
            raise ServiceError("the service does not answer")
        return region.schedule

    device = device_of(model, example)
    found = parts.find(model, example, device, follows)
    if not found:
        raise reason
    amount = _auto_budget(model, device) if budget == "auto" else budget
    try:
        parts.share(found, lambda whole: _bytes_of(amount, whole) - reserved, fit_part)
    except BaseException as error:
        remove(model)
        if isinstance(error, ServiceError) and request.offline == "plain" and error.status == 0:
            return model
        raise
    warnings.warn(f"{reason} It runs as it is, outside the budget; scheduled are: "
                  f"{', '.join(part.name for part in found)}", stacklevel=3)
    return model


def _bytes_of(budget: Budget, whole: int) -> int:
    return int(whole * Decimal(budget[:-1]) / 100) if isinstance(budget, str) else int(budget)


def remove(model: torch.nn.Module) -> torch.nn.Module:
    """Takes the schedule, or those of its parts, off a model again."""
    for module in model.modules():
        if isinstance(module.__dict__.get("forward"), Region):
            del module.forward
    return model


def _check_choice(name: str, value: str) -> None:
    if value not in ("error", "plain"):
        raise ValueError(f"{name} is {value!r}; there are \"error\" and \"plain\"")


def _auto_budget(model: torch.nn.Module, device: torch.device) -> int:
    free, source = free_bytes(device)
    missing = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and p.grad is None)
    budget = int(AUTO_SHARE * free) - missing
    if budget <= 0:
        raise BudgetError(f"budget \"auto\": {free} bytes are free ({source}); gradients of parameters need {missing}")
    return budget


def _find_plan(captured: Captured, question: Dict[str, Any], key: str, cache: Cache, client: Client,
               repeats: int) -> Dict[str, Any]:
    entry = cache.get(key)
    if entry is not None:
        return entry
    name = type(captured.model).__name__
    measured = costs.measure(captured.graph, captured.model, captured.values(), captured.device, name, repeats)
    entry = {"profile": measured.profile, "wanted": [[*leaf, wanted] for leaf, wanted in measured.wanted.items()],
             "schedule": client.schedule(measured.profile, **question)}
    cache.put(key, entry)
    return entry


def _on_rank_0(find: Any) -> Dict[str, Any]:
    """The plan that rank 0 finds, on every rank; its error too."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not distributed:
        return find()
    box: List[Any] = [None]
    if torch.distributed.get_rank() == 0:
        try:
            box = [find()]
        except Exception as error:  # every rank must hear of it, or the others wait for ever
            box = [error]
    torch.distributed.broadcast_object_list(box, 0)
    if isinstance(box[0], Exception):
        raise box[0]
    return box[0]


def _fingerprint(captured: Captured, question: Dict[str, Any]) -> str:
    """A name for everything that the plan depends on but measured numbers."""
    def describe(value: Any) -> Any:
        leaves, spec = tree_flatten(value)
        return [(_metadata(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf)) for leaf in leaves], repr(spec)

    nodes = [(node.name, node.inputs, node.outputs, node.random,
              [(step.name, step.op, describe((step.args, step.kwargs)), [repr(m) for m in step.modules])
               for step in node.steps]) for node in captured.graph.nodes]
    parts = (torch.__version__, str(captured.device), torch.get_num_threads(), question, nodes,
             describe(captured.bound), [_metadata(p) for p in captured.model.parameters()],
             [m.training for m in captured.model.modules()],
             torch.is_autocast_enabled(), torch.is_autocast_cpu_enabled(), repr(captured.graph.output))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _metadata(tensor: torch.Tensor) -> Tuple[Any, ...]:
    return tuple(tensor.shape), str(tensor.dtype), str(tensor.device), tensor.requires_grad


# ---- the fitted model's forward ----

class Region:
    """The forward of a fitted model.

    profile, schedule: what it was measured to cost, and what the service answered. alone: modules that torch.fx could
    not follow and that are single nodes. observer: called with every operation before it runs, or None.
    """

    def __init__(self, captured: Captured, entry: Dict[str, Any], mismatch: str) -> None:
        self.model, self.alone = captured.model, captured.alone
        self.profile, self.schedule = entry["profile"], entry["schedule"]
        self.observer: Optional[Observer] = None
        self._mismatch = mismatch
        states = [state for _, state in costs.find_states(captured.graph, captured.model, captured.device)[0]]
        wanted = {(slot, place): flag for slot, place, flag in entry["wanted"]}
        measured = costs.Measured(self.profile, states, wanted)
        self._program = Program(captured.graph, measured, make_plan(self.profile, self.schedule), captured.device)
        self._expected = {name: _shape(value) for name, value in captured.bound.items()}
        self._modules = list(self.model.modules())
        self._modes = [module.training for module in self._modules]
        self._trainable = [p.requires_grad for p in self.model.parameters()]

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
            found = _shape(bound.get(name))
            if found != expected:
                return (f"{type(self.model).__name__}: input \"{name}\" is {found}; it was captured as {expected}. "
                        "Fit again, or give mismatch=\"plain\"")
        if [p.requires_grad for p in self.model.parameters()] != self._trainable:
            return f"{type(self.model).__name__}: other parameters are frozen than when it was captured; fit again"
        return ""


def _shape(value: Any) -> str:
    """Metadata of the tensors of an argument, and the rest as it is."""
    leaves, spec = tree_flatten(value)
    described = [str(_metadata(leaf)) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves]
    return str(tree_unflatten(described, spec))
