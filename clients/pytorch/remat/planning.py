"""Where a plan comes from: the cache, or the service, asked by one rank for all."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from decimal import Decimal
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.utils._pytree import tree_flatten

from . import costs, steps
from .autocast import Autocast
from .captured import Captured, Keep, metadata
from .client import Budget, Cache, Client, profile_id
from .effects import code_of
from .errors import BudgetError
from .graph import Graph

MARGIN = 0.02  # of the makespan: what the Python of many nodes costs at least beside that of few stages
Answer = Tuple[Dict[str, Any], Dict[str, Any]]  # the profile for a schedule's own order of backwards; the schedule
FORMAT = 4  # of entries in the cache, and of what they mean
SMALLER = 4  # budgets, down to the least, of which one's schedule may be used for one that has none of its own
TRIALS = 3  # of profiles, each for the order of backwards that the schedule before had
Entry = Dict[str, Any]  # profile, schedule, wanted (the tensors that have a gradient), staged


@dataclasses.dataclass
class Request:
    """What is the same for all parts of a model."""

    client: Client
    solver: str
    link: Optional[Dict[str, Any]]
    effort: str
    reserved: int
    gradients: bool  # those of the parameters count
    loss: Optional[steps.Loss]
    checked: bool
    blocks: Tuple[type, ...]
    cache: Cache
    offline: str
    mismatch: str
    repeats: int
    alone: bool = False  # each process asks for itself


def find_plan(captured: Captured, budget: Budget, amount: Callable[[], Budget], request: Request, whole: bool) -> Entry:
    """budget: as the user gave it, by which the plan is kept; amount: what is asked for. whole: the model is, so that
    a loss follows it.

    Raises BudgetError, ServiceError."""
    question = {"solver": request.solver, "link": request.link, "effort": request.effort, "reserved": request.reserved}
    loss = request.loss and code_of(request.loss)
    key = _fingerprint(captured, {**question, "budget": budget, "gradients": request.gradients, "whole": whole,
                                  "loss": loss})

    def find() -> Entry:
        entry = request.cache.get(key, "profile", "schedule", "wanted")
        if entry is None:
            entry = _best(captured, {**question, "budget": amount()}, request, whole)
            request.cache.put(key, entry)
        return entry

    with Autocast(captured.device).again():
        return find() if request.alone else _on_rank_0(find)


def bytes_of(budget: Budget, whole: int) -> int:
    """A budget in bytes, where storing everything takes `whole`."""
    return int(whole * Decimal(budget[:-1]) / 100) if isinstance(budget, str) else int(budget)


def _best(captured: Captured, question: Dict[str, Any], request: Request, whole: bool) -> Entry:
    """The nodes' schedule, or that of the stages if it is not longer by more than MARGIN."""
    client, loss = request.client, steps.loss_bytes(captured, request.loss) if whole else (0, 0, 0)

    def count(measured: costs.Measured, graph: Graph) -> costs.Measured:
        measured = costs.with_loss(measured, *loss)
        return costs.with_parameter_gradients(measured, graph) if request.gradients else measured

    keep = keeper(captured, request)
    fine = count(captured.measure(request.repeats, keep=keep), captured.graph)
    if request.solver != "auto" or request.link is not None or captured.stages is None:
        return _ask(client, fine, question, False)
    staged = count(captured.measure_stages(request.repeats, keep), captured.stages.graph)
    if isinstance(question["budget"], str):
        whole = client.schedule(fine.profile, "100%", "store-all")["store_all_peak"]
        question = {**question, "budget": bytes_of(question["budget"], whole)}
    answers: List[Entry] = []
    errors: List[BudgetError] = []
    for measured in (staged, fine):
        try:
            answers.append(_ask(client, measured, question, measured is staged))
        except BudgetError as error:
            errors.append(error)
    if not answers:
        raise min(errors, key=lambda error: error.minimum_budget or math.inf)
    return min(answers, key=lambda a: a["schedule"]["makespan"] * (1 if a["staged"] else 1 + MARGIN))


def _ask(client: Client, measured: costs.Measured, question: Dict[str, Any], staged: bool) -> Entry:
    profile, schedule = ask(client, measured, **question)
    return {"profile": profile, "wanted": [[*leaf, wanted] for leaf, wanted in measured.wanted.items()],
            "schedule": schedule, "staged": staged}


def ask(client: Client, measured: costs.Measured, budget: Budget, solver: str = "auto", **question: Any) -> Answer:
    """The schedule of a budget. Its peak is that for the order of backwards that it has. Raises as Client.schedule."""
    try:
        found = _settle(client, measured, budget, solver, question)
    except BudgetError as error:
        if error.minimum_budget is None or _settle(client, measured, error.minimum_budget, solver,
                                                   {**question, "reserved": 0}):
            raise
        found = None
    if found:
        return found
    try:
        schedule = client.schedule(measured.for_order(None), budget, solver, **question)
    except BudgetError:
        found = _of_less(client, measured, budget, solver, question)
        if found:
            return found
        raise
    return _in_its_order(client, measured, schedule, question)


def _of_less(client: Client, measured: costs.Measured, budget: Budget, solver: str,
             question: Dict[str, Any]) -> Optional[Answer]:
    """The schedule of a smaller budget, which fits this one too: what orders of backwards answers have is not for
    budgets to decide, so a larger one can have an order that takes more than it, and a smaller one not."""
    try:
        whole = client.schedule(measured.profile, budget, solver, **question)["budget"]
    except BudgetError:
        return None
    question = {**question, "reserved": 0}
    try:
        least = client.schedule(measured.profile, 1, solver, **question)["peak"]
    except BudgetError as error:
        least = error.minimum_budget
    if least is None:
        return None
    for k in range(1, SMALLER + 1):
        found = _settle(client, measured, whole - (whole - least) * k // SMALLER, solver, question)
        if found:
            return found[0], {**found[1], "budget": whole}
    return None


def _settle(client: Client, measured: costs.Measured, budget: Budget, solver: str,
            question: Dict[str, Any]) -> Optional[Answer]:
    """A schedule that fits in its own order of backwards, asked for with the usual one, then with that of the answer
    before. Raises BudgetError where the first question has no answer."""
    profile = measured.profile
    for trial in range(TRIALS):
        try:
            schedule = client.schedule(profile, budget, solver, **question)
        except BudgetError:
            if trial == 0:
                raise
            return None
        profile, schedule = _in_its_order(client, measured, schedule, question)
        if schedule["peak"] <= schedule["budget"]:
            return profile, schedule
    return None


def _in_its_order(client: Client, measured: costs.Measured, schedule: Dict[str, Any],
                  question: Dict[str, Any]) -> Answer:
    own = measured.for_order([rest[0] for kind, *rest in schedule["operations"] if kind == "B"])
    if profile_id(own) == schedule["profile_id"]:
        return own, schedule
    return own, {**schedule, "peak": client.peak(own, schedule["operations"], question.get("link"))}


def _on_rank_0(find: Callable[[], Entry]) -> Entry:
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


def keeper(captured: Captured, request: Request) -> Keep:
    """What was measured of a model, once for all budgets."""
    base = _fingerprint(captured, {"repeats": request.repeats})

    def keep(name: str, make: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        key = hashlib.sha256(f"{base} {name}".encode()).hexdigest()
        found = request.cache.get(key, "costs", "sharing")
        if found is None:
            found = make()
            request.cache.put(key, found)
        return found

    return keep


def _fingerprint(captured: Captured, question: Dict[str, Any]) -> str:
    """A name for everything that the plan depends on but measured numbers."""
    def describe(value: Any) -> Any:
        leaves, spec = tree_flatten(value)
        return [(metadata(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf)) for leaf in leaves], repr(spec)

    nodes = [(node.name, node.inputs, node.outputs, node.random,
              [(step.name, step.op, describe((step.args, step.kwargs)), [repr(m) for m in step.modules])
               for step in node.steps]) for node in captured.graph.nodes]
    parts = (FORMAT, torch.__version__, captured.reads.code(), str(captured.device), torch.get_num_threads(), question, nodes,
             describe(captured.bound), [metadata(p) for p in captured.model.parameters()],
             [m.training for m in captured.model.modules()],
             Autocast(captured.device).settings, repr(captured.graph.output))
    return hashlib.sha256(repr(parts).encode()).hexdigest()
