"""One budget for a forward that runs as several graphs, as it does after graph breaks.

While one graph runs, those before it hold what their backwards need, and in its backward those after it have left the
gradients of their parameters.
"""

from __future__ import annotations

import bisect
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from .errors import BudgetError
from .joint import END

STEPS = 5  # percent, in which shares are tried
TRIALS = 4


class Takes(NamedTuple):
    """Bytes of one graph: alive at most, at the forward's end beside its inputs, and of gradients that stay."""

    peak: int
    held: int
    gradients: int


def takes(profile: Dict[str, Any], order: Sequence[int]) -> Takes:
    """Of a joint profile under a list of runs. Every result is alive from its run to its last use before the next run of
    its node, results of the graph to the end."""
    place = {node["id"]: v for v, node in enumerate(profile["nodes"])}
    names = {f"{node['id']}:{k}" if k else node["id"]: (v, k) for v, node in enumerate(profile["nodes"])
             for k in range(len(node["outputs"]))}
    latest: Dict[int, int] = {}
    until: Dict[Tuple[int, int], int] = {}  # by run and result
    for t, v in enumerate(order):
        until.update({(latest[names[i][0]], names[i][1]): t for i in profile["nodes"][v]["inputs"] if i in names})
        latest[v] = t
        until.update({(t, k): t for k in range(len(profile["nodes"][v]["outputs"]))})
    results = [(latest[names[i][0]], names[i][1]) for i in profile["outputs"] if i in names]
    until.update({result: len(order) for result in results})
    change = [0] * (len(order) + 2)
    for (t, k), end in until.items():
        size = profile["nodes"][order[t]]["outputs"][k]["bytes"]
        change[t] += size
        change[min(end, len(order)) + 1] -= size
    inputs = sum(i["bytes"] for i in profile["inputs"])
    levels: List[int] = []
    for t in range(len(order)):
        levels.append(change[t] + (levels[-1] if levels else 0))
    peak = max(level + profile["nodes"][v]["workspace_bytes"] for level, v in zip(levels, order))
    end = list(order).index(place[END])
    after = sum(profile["nodes"][order[t]]["outputs"][k]["bytes"] for t, k in set(results) if t > end)
    return Takes(inputs + peak, levels[end], after)


def peak_in_flight(profile: Dict[str, Any], order: Sequence[int], in_flight: int) -> int:
    """Of several micro-batches at once, all but one of which wait at the forward's end."""
    taken = takes(profile, order)
    return taken.peak + (in_flight - 1) * taken.held


def peak_of(calls: Sequence[Takes], in_flight: int = 1) -> int:
    """Bytes of all together, in the order in which a step calls them. What a graph reads of the one before it counts twice while
    it runs: nothing tells which of its inputs those are."""
    return (in_flight - 1) * sum(p.held for p in calls) + max(
        sum(p.held for p in calls[:k]) + p.peak + sum(p.gradients for p in calls[k + 1:]) for k, p in enumerate(calls))


def divide(budget: int, beside: int, predict: Callable[[int], int], measure: Callable[[int], int]) -> int:
    """The largest share, in percent, at which what is measured is within the budget. beside: what runs between the graphs,
    less what prediction counts twice. predict: what all take together at a share; measure: the same, by doing it. Raises
    BudgetError."""
    shares = list(range(100, 0, -STEPS))
    measured = 0
    for trial in range(TRIALS):
        first = bisect.bisect_left(shares, True, key=lambda share: predict(share) + beside <= budget)
        share = shares[min(first, len(shares) - 1)] if trial < TRIALS - 1 else shares[-1]  # the least of all
        measured = measure(share)
        if measured <= budget:
            return share
        beside = measured - predict(share)
        shares = shares[shares.index(share) + 1:]
        if not shares:
            break
    raise BudgetError(f"the budget is {budget} bytes; the graphs into which the forward breaks, and what runs between them, "
                      f"were measured to take {measured}", measured)
