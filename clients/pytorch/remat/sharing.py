"""One budget for a forward that runs as several graphs, as it does after graph breaks.

While one graph runs, those before it hold what their backwards need, and in its backward those after it have left the gradients of their parameters."""

import bisect
import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple, Union

from .errors import BudgetError
from .joint import END

STEPS = 5  # percent, in which shares are tried
TRIALS = 4


class Move(NamedTuple):
    """Of result k of a node: "O" begins its copy to the host, "D" frees it, "P" begins its copy back."""
    kind: str
    node: int
    result: int


Run = Union[int, Move]  # of a list: a node that runs, or a move


def runs_of(operations: Sequence[Sequence[Any]]) -> List[Run]:
    """Of a schedule of a joint profile. What is freed and was never moved is left out: it goes after its last use."""
    moved = {_result(op) for op in operations if op[0] in "OP"}
    return [op[1] if op[0] == "F" else Move(op[0], *_result(op)) for op in operations if op[0] == "F" or op[0] in "ODP" and _result(op) in moved]


def operations_of(order: Sequence[Run]) -> List[List[Any]]:
    return [["F", v] if not isinstance(v, Move) else [v.kind, "output", v.node, v.result] if v.result else [v.kind, v.node] for v in order]


def _result(operation: Sequence[Any]) -> Tuple[int, int]:
    return (operation[2], operation[3]) if operation[1] == "output" else (operation[1], 0)


class Takes(NamedTuple):
    """Bytes of one graph: alive at most, at the forward's end beside its inputs, and of gradients that stay."""
    peak: int
    held: int
    gradients: int


def takes(profile: Dict[str, Any], order: Sequence[Run]) -> Takes:
    """Of a joint profile under a list of runs. Every result is alive from its run, or its way back, to its last use before the
    next run of its node, results of the graph to the end."""
    place = {node["id"]: v for v, node in enumerate(profile["nodes"])}
    names = {f"{node['id']}:{k}" if k else node["id"]: (v, k) for v, node in enumerate(profile["nodes"]) for k in range(len(node["outputs"]))}
    latest: Dict[Tuple[int, int], int] = {}  # when it came, by node and result
    until: Dict[Tuple[int, int, int], int] = {}  # by node, result and when it came
    for t, v in enumerate(order):
        if isinstance(v, Move):
            value = v.node, v.result
            if v.kind == "P":
                latest[value] = t
            until[(*value, latest[value])] = t
            continue
        until.update({(*names[i], latest[names[i]]): t for i in profile["nodes"][v]["inputs"] if i in names})
        for k in range(len(profile["nodes"][v]["outputs"])):
            latest[v, k] = t
            until[v, k, t] = t
    results = {(*names[i], latest[names[i]]) for i in profile["outputs"] if i in names}
    until.update({result: len(order) for result in results})
    change = [0] * (len(order) + 2)
    for (v, k, t), end in until.items():
        size = profile["nodes"][v]["outputs"][k]["bytes"]
        change[t] += size
        change[min(end, len(order)) + 1] -= size
    inputs, levels = sum(i["bytes"] for i in profile["inputs"]), list(itertools.accumulate(change[:len(order)]))
    peak = max(level + (0 if isinstance(v, Move) else profile["nodes"][v]["workspace_bytes"]) for level, v in zip(levels, order))
    end = list(order).index(place[END])
    after = sum(profile["nodes"][v]["outputs"][k]["bytes"] for v, k, t in results if t > end)
    return Takes(inputs + peak, levels[end], after)


def peak_in_flight(profile: Dict[str, Any], order: Sequence[Run], in_flight: int) -> int:
    """Of several micro-batches at once, all but one of which wait at the forward's end."""
    taken = takes(profile, order)
    return taken.peak + (in_flight - 1) * taken.held


def peak_of(calls: Sequence[Takes], in_flight: int = 1) -> int:
    """Bytes of all together, in the order in which a step calls them. What a graph reads of the one before it counts twice while
    it runs: nothing tells which of its inputs those are."""
    return (in_flight - 1) * sum(p.held for p in calls) + max(
        sum(p.held for p in calls[:k]) + p.peak + sum(p.gradients for p in calls[k + 1:]) for k, p in enumerate(calls))


def divide(budget: int, beside: int, predict: Callable[[int], int], measure: Callable[[int], int]) -> int:
    """The largest share, in percent, at which what is measured is within the budget. beside: what runs between the graphs, less what
    prediction counts twice. predict: what all take together at a share; measure: the same, by doing it. Raises BudgetError."""
    shares, best, measured = list(range(100, 0, -STEPS)), 0, 0  # shares: those between what was too much and the best by now
    for trial in range(TRIALS):
        first = bisect.bisect_left(shares, True, key=lambda share: predict(share) + beside <= budget)
        if first == len(shares) and (best or not shares):
            break
        share = shares[-1] if first == len(shares) or not best and trial == TRIALS - 1 else shares[first]  # or the least of all
        measured, place = measure(share), shares.index(share)
        beside = measured - predict(share)
        best, shares = (share, shares[:place]) if measured <= budget else (best, shares[place + 1:])
    if best:
        return best
    raise BudgetError(f"the budget is {budget} bytes; the graphs into which the forward breaks, and what runs between them, "
                      f"were measured to take {measured}", measured)
