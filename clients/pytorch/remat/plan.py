"""The operation list of a schedule, cut where the user's own code runs: at the first backward."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence, Set, Tuple

from .errors import MismatchError

OUT, SAVED, INPUT = "out", "saved", "input"


@dataclasses.dataclass(frozen=True)
class Operation:
    kind: str  # F A B D O P S R
    index: int  # node, graph input or state
    target: str = OUT
    version: int = 0
    last: bool = False  # of an R: nothing reads the version again


@dataclasses.dataclass
class Plan:
    """forward: run by the model's forward; backward: run by loss.backward().

    Between the two the user's code may draw random numbers and run the model again, so `at_split` names the states
    whose value there is kept for the backward, and `final` those that recomputation within the forward has moved,
    which are put to their last version before it returns.
    """

    forward: List[Operation]
    backward: List[Operation]
    at_split: Set[int]
    written: List[List[Tuple[int, int]]]  # by node: states it writes, and the version it leaves
    final: Dict[int, int]  # state -> its last version
    touched: Set[int]  # states that the backward changes


def read_operations(operations: Sequence[Sequence[Any]]) -> List[Operation]:
    """From the JSON of a schedule. Raises MismatchError where it names an alternative of a node."""
    found = []
    for item in operations:
        kind, rest = item[0], list(item[1:])
        if kind == "X":
            found.append(Operation("D", rest[0], SAVED))
        elif kind in ("S", "R"):
            found.append(Operation(kind, rest[0], version=rest[1]))
        elif kind in ("F", "A", "B") and len(rest) == 2:
            raise MismatchError(f"the schedule runs node {rest[0]} with its implementation {rest[1]!r}; this package has "
                                "one implementation of each node and never posts others")
        elif len(rest) == 2:
            found.append(Operation(kind, rest[1], rest[0]))
        else:
            found.append(Operation(kind, rest[0]))
    last = {(o.index, o.version): i for i, o in enumerate(found) if o.kind == "R"}
    for i in last.values():
        found[i] = dataclasses.replace(found[i], last=True)
    return found


def make_plan(profile: Dict[str, Any], schedule: Dict[str, Any], names: Sequence[str]) -> Plan:
    """names: of the nodes of the graph, the loss left out. Raises MismatchError where the schedule is not one of this
    profile and graph."""
    ids = [node["id"] for node in profile["nodes"]]
    if schedule["nodes"] != ids or ids[:-1] != list(names):
        raise MismatchError(f"the schedule {schedule.get('schedule_id', '')} has other nodes than this model")
    operations = read_operations(schedule["operations"])
    split = next(i for i, operation in enumerate(operations) if operation.kind == "B")
    written = _versions(profile)
    uses = [{k for k, _ in writes} for writes in written]
    forward, backward = operations[:split], operations[split:]
    touched = {k for operation in backward for k in _states_of(operation, uses)}
    at_split = {k for k in touched if _first_touch(k, backward, uses) != "R"}
    return Plan(forward, backward, at_split, written, _moved(forward, written), touched)


def _states_of(operation: Operation, uses: List[Set[int]]) -> Set[int]:
    if operation.kind in ("S", "R"):
        return {operation.index}
    return uses[operation.index] if operation.kind in ("F", "A") else set()


def _first_touch(state: int, operations: List[Operation], uses: List[Set[int]]) -> str:
    return next(o.kind for o in operations if state in _states_of(o, uses))


def _moved(forward: List[Operation], written: List[List[Tuple[int, int]]]) -> Dict[int, int]:
    """States that the forward part does not leave at their last version."""
    current: Dict[int, int] = {}
    for operation in forward:
        if operation.kind == "R":
            current[operation.index] = operation.version
        elif operation.kind in ("F", "A"):
            current.update(written[operation.index])
    last = {k: version for writes in written for k, version in writes}
    return {k: version for k, version in last.items() if current.get(k, 0) != version}


def _versions(profile: Dict[str, Any]) -> List[List[Tuple[int, int]]]:
    """By node: the states it reads and writes, and the version it leaves. The profile of this package writes what it
    reads."""
    states = {state["id"]: k for k, state in enumerate(profile["states"])}
    count = [0] * len(states)
    found = []
    for node in profile["nodes"]:
        mine = []
        for key in node.get("writes", ()):
            count[states[key]] += 1
            mine.append((states[key], count[states[key]]))
        found.append(mine)
    return found
