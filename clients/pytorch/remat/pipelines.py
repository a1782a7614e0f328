"""Stages of a pipeline, as torch.distributed.pipelining runs them: several micro-batches at once, of which the runtime keeps more than a step does.

Rank i of p has n micro-batches in flight: their forwards have run, their backwards have not. What one of them holds at its turn counts n times in a schedule,
what works besides counts once; what the runtime keeps through the step comes off the budget."""

import collections
import dataclasses
import gc
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from . import steps
from .errors import BudgetError, CaptureError, MismatchError
from .joint import version
from .model import Call, Example
from .partition import GROUPS
from .tensors import amount, storage_of, tensors_of

MOST = 1000  # in flight, as the service has it
KEEPS = version() < (2, 14)  # outputs and gradients of inputs are there to the end of the step; else only outputs of the last stage


@dataclasses.dataclass(frozen=True)
class Stage:
    """wants: whether an input wants a gradient. outputs: of a micro-batch, without bytes. kept: bytes that stay through the step
    beside what a schedule counts, by what they are. end: bytes of its end, where the last stage gives its outputs back as one."""
    in_flight: int
    microbatches: int
    last: bool
    wants: bool
    outputs: List[torch.Tensor]
    kept: Dict[str, int]
    end: int = 0

    @property
    def reserved(self) -> int:
        return sum(self.kept.values())


def stage_of(example: Example, result: Any, in_flight: int, microbatches: int, loss: Optional[Tuple[int, int, int]], gradients: bool) -> Stage:
    """result: of Example.run. loss: what it takes, as of steps.loss_bytes; None where the outputs are sent on. gradients: whether those of
    the parameters count. Raises ValueError, CaptureError."""
    n, m = in_flight, microbatches
    for name, value in (("in_flight", n), ("microbatches", m)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            raise ValueError(f"{name} is {value!r}; it must be a whole number from 1 to {MOST}: in_flight and microbatches are given "
                             "together, for a stage of a pipeline")
    if m < n:
        raise ValueError(f"microbatches is {m}, and in_flight {n}: no more can be in flight than there are")
    parameters = [p for p in example.model.parameters() if p.requires_grad]
    if any(getattr(p, "_post_accumulate_grad_hooks", None) for p in parameters):
        raise CaptureError(f"{type(example.model).__name__} has hooks behind the gradients of its parameters, such as an optimizer in "
                           "the backward: these run for each micro-batch, before a gradient is whole")
    made, inputs = tensors_of(result), tensors_of(tuple(example.call))
    outputs = sum({storage_of(t): t.untyped_storage().nbytes() for t in made}.values())
    sizes = [amount([p]) for p in parameters] if gradients else []
    rise, _, stays = loss or (0, 0, 0)
    kept = {"inputs": m * amount(inputs), "gradients of inputs": (m - 1 if KEEPS or n == m else 1) * amount(t for t in inputs if t.requires_grad),
            "gradients that come": 0 if loss else m * amount(made),
            "outputs": (m - n if loss or KEEPS else min(m - n, 1)) * outputs,  # a last send of the warm-up is never let go of
            "what the loss keeps": (n - 1) * rise + m * stays,
            "gradients of parameters": sum(sizes) + sum(sizes) // GROUPS + max(sizes, default=0) if m > 1 else 0}
    whole = m * (amount(inputs) + amount(t for t in inputs if t.requires_grad) + 2 * outputs + stays) + sum(sizes)
    wants = any(t.requires_grad for t in inputs)
    return Stage(n, m, loss is not None, wants, [t.detach().to("meta") for t in made], {k: v for k, v in kept.items() if v}, whole if loss else 0)


def too_little(stage: Stage, reserved: int, least: Optional[int]) -> BudgetError:
    """reserved: all that comes off the budget. least: that the solver could use, with that."""
    from torch import distributed
    who = f"rank {distributed.get_rank()}" if distributed.is_available() and distributed.is_initialized() else "a stage"
    will = None if least is None else max(least, stage.end)
    parts = {**stage.kept, "reserved=": reserved - stage.reserved}
    said = ", ".join(f"{size} for {what}" for what, size in parts.items() if size)
    return BudgetError(f"{who}, {stage.in_flight} of {stage.microbatches} micro-batches in flight: no schedule fits the budget, of which "
                       f"{reserved} bytes are reserved ({said})" + (f"; {will} bytes will do" if will is not None else ""), will)


class Flight:
    """Counts the micro-batches whose forward has run and whose backward has not begun."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._waiting: Any = weakref.WeakSet()

    def starts(self, call: Call) -> None:
        """Raises MismatchError where one more is not what was fitted."""
        if len(self._waiting) >= self._stage.in_flight:
            gc.collect()  # what was dropped in a cycle waits for nothing
        if len(self._waiting) >= self._stage.in_flight:
            raise MismatchError(f"one more micro-batch than the {self._stage.in_flight} that this stage was fitted for would be in flight: "
                                f"fit it with in_flight={self._stage.in_flight + 1} or more, and run what has no backward under no_grad")
        if not self._stage.wants and any(t.requires_grad for t in tensors_of(tuple(call))):
            raise MismatchError("what this stage gets wants a gradient, and the example of its fit did not: that of every stage but the "
                                "first is to have requires_grad")

    def holds(self, result: Any) -> Any:
        token = _Token()
        for node in {t.grad_fn for t in tensors_of(result) if t.grad_fn is not None}:
            self._waiting.add(token)
            node.register_prehook(lambda _, token=token: self._waiting.discard(token))
        return result


class _Token:
    """Alive with the graph of its micro-batch."""


def in_flight(schedule: Any) -> Dict[int, int]:
    """Micro-batches in flight at once, by the index of each stage that this rank has, under a schedule of torch.distributed.pipelining of whole backwards."""
    stage, m = getattr(schedule, "_stage", None), schedule._n_microbatches
    if stage is not None:
        return {stage.stage_index: min(m, stage.num_stages - stage.stage_index) if type(schedule).__name__ == "Schedule1F1B" else m}
    now: Dict[int, int] = collections.Counter()
    most: Dict[int, int] = collections.Counter()
    for action in schedule.pipeline_order[schedule.rank]:
        kind = action.computation_type.name if action is not None else ""
        if kind.startswith(("BACKWARD_", "OVERLAP")):
            raise CaptureError(f"{type(schedule).__name__} runs a backward in two halves, and a schedule of remat is of a whole one")
        if kind in ("FORWARD", "FULL_BACKWARD"):
            now[action.stage_index] += 1 if kind == "FORWARD" else -1
            most[action.stage_index] = max(most[action.stage_index], now[action.stage_index])
    return dict(most)


# ---- what a step of the rank takes ----

def peak(forward: Callable[..., Any], example: Example, loss: Optional[steps.Loss], stage: Stage, gradients: bool, warm: bool) -> int:
    """Measured, of a whole step of the rank, with the example as each micro-batch. gradients: those of the parameters count. warm: as of steps.recorded."""
    parameters = list(example.model.parameters())
    before = [p.grad for p in parameters]

    def run(mark: Callable[[], None]) -> int:
        mark()
        _play(forward, example, loss, stage)
        mark()
        own = amount(p.grad for p in parameters if p.grad is not None)
        example.model.zero_grad(set_to_none=True)
        return own

    try:
        example.model.zero_grad(set_to_none=True)
        taken, own = steps.recorded(example, run, warm)
    finally:
        for p, gradient in zip(parameters, before):
            p.grad = gradient
    return taken - (0 if gradients else own)


def _play(forward: Callable[..., Any], example: Example, loss: Optional[steps.Loss], stage: Stage) -> None:
    """A step in the order of 1F1B, which is GPipe's where all are in flight, with what the runtime keeps."""
    n, m = stage.in_flight, stage.microbatches
    inputs = [example.call.leaves()[0] for _ in range(m)]
    coming = [[] if stage.last else [torch.zeros_like(t, device=example.device) for t in stage.outputs] for _ in range(m)]
    waiting: Dict[int, List[torch.Tensor]] = {}
    kept: List[Any] = []
    for turn in range(m + n):
        if turn >= n:
            pairs = [(t, g) for t, g in zip(waiting.pop(turn - n), coming[turn - n] or [None]) if t.requires_grad]
            torch.autograd.backward(*map(list, zip(*pairs)))
            for t in tensors_of(tuple(inputs[turn - n - 1])) if not KEEPS and n < min(m, turn) else []:
                t.grad = None  # once the next one is sent
            del pairs
        if turn < m:
            result = forward(*inputs[turn].args, **inputs[turn].kwargs)
            waiting[turn] = [steps.loss_of(loss, result)] if stage.last else tensors_of(result)
            kept += [(tensors_of(result), waiting[turn])] if stage.last or KEEPS or turn == n - 2 else []
            del result
    if stage.last:
        _ = [torch.cat(parts) for parts in zip(*(outputs for outputs, _ in kept)) if parts[0].dim()]
