"""A schedule for those whose only door is selective checkpointing, or the compiler's activation memory budget."""

import operator
from collections import Counter
from typing import Any, Callable, Dict, List, Sequence, Set, Tuple

import torch

from . import operations
from .backend import Piece
from .client import Cache
from .errors import CaptureError
from .model import forward_of
from .partition import ON_HOST

_EAGER = {"_native_batch_norm_legit_functional": "native_batch_norm"}  # names that the compiler has of its own
_REPEATS = 3


def policy(fitted: Any) -> Callable[[], Tuple[Any, Any]]:
    """A context_fn for torch.utils.checkpoint.checkpoint(model, ..., use_reentrant=False, context_fn=remat.policy(fitted)).

    fitted: a fitted model, what remat.backend gave, or one of its pieces. Saved are the results of those operations that the schedule keeps from forward to
    backward, by operator and number of call; everything else is computed again, in one go, so that only this much of the schedule is left: not what is
    computed twice within the forward, not the order. Random operators are always run again, from the generator's saved state. Raises CaptureError where there
    are more pieces than one."""
    from torch.utils.checkpoint import create_selective_checkpoint_contexts
    whose = forward_of(fitted) if isinstance(fitted, torch.nn.Module) else fitted
    pieces = [fitted] if isinstance(fitted, Piece) else getattr(whose, "pieces", None) or []
    if len(pieces) != 1:
        raise CaptureError(f"a policy is made of one graph's schedule; here are {len(pieces)}")
    saved = _saved_calls(pieces[0])
    return lambda: create_selective_checkpoint_contexts(_Decide(saved))


def _saved_calls(piece: Piece) -> Set[Tuple[str, int]]:
    """Operator and number of call in the forward."""
    kept = {n.name[:-len(ON_HOST)] if n.name.endswith(ON_HOST) else n.name for n in piece.backward.graph.nodes if n.op == "placeholder"}
    calls: Counter[str] = Counter()
    found: Set[Tuple[str, int]] = set()
    for node in piece.forward.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        name = _operator(node.target)
        names = {node.name, *(user.name for user in node.users if user.target is operator.getitem)}
        if names & kept and torch.Tag.nondeterministic_seeded not in node.target.tags:
            found.add((name, calls[name]))
        calls[name] += 1
    return found


def _operator(target: Any) -> str:
    name = target._schema.name.split("::")[-1]
    return _EAGER.get(name, name)


class _Decide:
    """Of one checkpointed call: in the forward, and again where it is computed again."""

    def __init__(self, saved: Set[Tuple[str, int]]) -> None:
        self._saved = saved
        self._calls: Dict[bool, Counter[str]] = {False: Counter(), True: Counter()}

    def __call__(self, context: Any, target: Any, *_: Any, **__: Any) -> Any:
        from torch.utils.checkpoint import CheckpointPolicy
        name, calls = _operator(target), self._calls[context.is_recompute]
        calls[name] += 1
        return CheckpointPolicy.MUST_SAVE if (name, calls[name] - 1) in self._saved else CheckpointPolicy.PREFER_RECOMPUTE


try:
    from torch._inductor.custom_graph_pass import CustomKnapsackSolver
except ImportError:  # before torch 2.10 any function will do
    CustomKnapsackSolver = object


class _Knapsack(CustomKnapsackSolver):
    """For torch._functorch.config.activation_memory_budget_solver: the compiler's own knapsack, of times measured here, not of counted operations."""

    __name__ = "knapsack"

    def uuid(self) -> str:
        return f"remat.knapsack {operations.FORMAT}"

    def __call__(self, memory: Sequence[float], graph: Any, most: float, _: Any, nodes: List[Any]) -> Tuple[List[int], List[int]]:
        from torch._functorch._activation_checkpointing.knapsack import dp_knapsack
        device = next(n.meta["val"].device for n in nodes if isinstance(n.meta.get("val"), torch.Tensor))
        costs = operations.kept(nodes, graph.owning_module, device, _REPEATS, Cache())
        _, saved, again = dp_knapsack(list(memory), [time for time, _ in costs], most)
        return saved, again


knapsack = _Knapsack()
