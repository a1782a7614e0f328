"""From steps to nodes.

A schedule may drop and recompute any node at any time. So steps that share storage become one node, and a step that
changes a storage joins its maker and all who read it before. A call that costs nothing (a view of a graph input or of a
parameter, a small constant) is repeated in every node that reads it. Random draws and changes of one module's buffers
keep their order.
"""

from __future__ import annotations

import heapq
from typing import Any, Dict, Iterable, List, Set, Tuple

import torch
from torch.utils._pytree import tree_flatten

from .capture import CONSTANT, Program
from .errors import CaptureError
from .graph import Graph, Node, Slot, Step, slots_made

SMALL_CONSTANT = 1 << 16  # bytes; a call without inputs that makes more is a node


class _Groups:
    """Disjoint sets of step indices; the smallest member stands for the set."""

    def __init__(self, members: Iterable[int]) -> None:
        self.parent = {member: member for member in members}

    def find(self, member: int) -> int:
        while self.parent[member] != member:
            self.parent[member] = self.parent[self.parent[member]]
            member = self.parent[member]
        return member

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.find(a), self.find(b)))
        self.parent[high] = low


def group(program: Program) -> Graph:
    """Nodes in an order in which they can run. Raises CaptureError where the output depends on nothing, or where a
    result that nobody reads would change a state."""
    outputs = _output_slots(program)
    free = _free_steps(program, outputs)
    steps = [step for step in program.steps if step.index not in free]
    groups = _Groups(step.index for step in steps)
    reads = {step.index: _reads_through(step, free) for step in steps}
    _join_aliases(program, steps, reads, groups)
    edges = _edges(program, steps, reads, groups)
    for component in _components({groups.find(step.index) for step in steps}, edges):
        for member in component[1:]:
            groups.join(component[0], member)
    alive = _alive(program, steps, reads, groups, outputs)
    order = _order(alive, _edges(program, steps, reads, groups))
    return Graph(program.placeholders, _nodes(program, free, groups, order, reads, outputs), program.output)


def _output_slots(program: Program) -> List[int]:
    for leaf in tree_flatten(program.output)[0]:
        if not isinstance(leaf, (Slot, int, float, bool, str, type(None), torch.nn.Parameter)):
            kind = "a tensor that is none of these, such as a buffer," if isinstance(leaf, torch.Tensor) else type(leaf).__name__
            raise CaptureError("the model must return results of its operations, inputs and parameters in tuples, lists, "
                               f"dicts or dataclasses; there is {kind} among them")
    slots = slots_made(program.output, program.placeholders)
    if not slots:
        raise CaptureError("the model returns no tensor that it makes")
    return slots


def _free_steps(program: Program, outputs: List[int]) -> Dict[int, Step]:
    placeholders = {slot for _, slot in program.placeholders}
    mutated = set().union(*program.mutations.values()) if program.mutations else set()
    free: Dict[int, Step] = {}
    for step in program.steps:
        classes, index = program.storages[step.index], step.index
        view = all(c == CONSTANT or c in placeholders for c in classes)
        constant = not step.reads() and not step.modules and not step.constants() \
            and program.sizes[index] <= SMALL_CONSTANT and not classes & mutated
        stateful = index in program.random or index in program.buffers or index in program.mutations
        if (view or constant) and not stateful and index not in outputs \
                and all(slot in free or slot in placeholders for slot in step.reads()):
            free[index] = step
    return free


def _reads_through(step: Step, free: Dict[int, Step]) -> List[int]:
    """Slots read, with free steps replaced by what they read."""
    found: Dict[int, None] = {}
    pending = list(reversed(step.reads()))
    while pending:
        slot = pending.pop()
        if slot in free:
            pending.extend(reversed(free[slot].reads()))
        else:
            found[slot] = None
    return list(found)


def _join_aliases(program: Program, steps: List[Step], reads: Dict[int, List[int]], groups: _Groups) -> None:
    readers: Dict[int, List[int]] = {}  # storage class -> steps that read it so far
    for step in steps:
        for slot in reads[step.index]:
            for storage in program.storages[slot]:
                readers.setdefault(storage, []).append(step.index)
        changed = program.mutations.get(step.index, set())
        for storage in program.storages[step.index] | changed:
            owner = program.owners.get(storage)
            if owner in groups.parent:
                groups.join(step.index, owner)
        for storage in changed:
            for reader in readers.get(storage, ()):
                groups.join(step.index, reader)


def _edges(program: Program, steps: List[Step], reads: Dict[int, List[int]], groups: _Groups) -> Dict[int, Set[int]]:
    """Group -> groups that must come later."""
    edges: Dict[int, Set[int]] = {groups.find(step.index): set() for step in steps}
    last: Dict[Any, int] = {}  # state -> step that touched it last

    def add(a: int, b: int) -> None:
        if groups.find(a) != groups.find(b):
            edges[groups.find(a)].add(groups.find(b))

    for step in steps:
        for slot in reads[step.index]:
            if slot in groups.parent:
                add(slot, step.index)
        touched: List[Any] = list(program.buffers.get(step.index, ()))
        if step.index in program.random:
            touched.append("random")
        for state in touched:
            if state in last:
                add(last[state], step.index)
            last[state] = step.index
    return edges


def _components(vertices: Set[int], edges: Dict[int, Set[int]]) -> List[List[int]]:
    """Strongly connected components (Kosaraju's algorithm, without recursion)."""
    finished: List[int] = []
    seen: Set[int] = set()
    for start in sorted(vertices):
        stack: List[Tuple[int, Any]] = [] if start in seen else [(start, iter(sorted(edges[start])))]
        seen.add(start)
        while stack:
            vertex, successors = stack[-1]
            following = next((w for w in successors if w not in seen), None)
            if following is None:
                finished.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(sorted(edges[following]))))
    back: Dict[int, List[int]] = {vertex: [] for vertex in vertices}
    for vertex in vertices:
        for successor in edges[vertex]:
            back[successor].append(vertex)
    components, placed = [], set()
    for start in reversed(finished):
        component, pending = [], [] if start in placed else [start]
        placed.add(start)
        while pending:
            vertex = pending.pop()
            component.append(vertex)
            fresh = [w for w in back[vertex] if w not in placed]
            placed.update(fresh)
            pending.extend(fresh)
        if component:
            components.append(component)
    return components


def _alive(program: Program, steps: List[Step], reads: Dict[int, List[int]], groups: _Groups,
           outputs: List[int]) -> Set[int]:
    """Groups that the output depends on."""
    members: Dict[int, List[Step]] = {}
    for step in steps:
        members.setdefault(groups.find(step.index), []).append(step)
    pending = [groups.find(slot) for slot in outputs]
    alive = set(pending)
    while pending:
        for step in members[pending.pop()]:
            for slot in reads[step.index]:
                if slot in groups.parent and groups.find(slot) not in alive:
                    alive.add(groups.find(slot))
                    pending.append(groups.find(slot))
    for step in steps:
        stateful = step.index in program.random or step.index in program.buffers
        if stateful and groups.find(step.index) not in alive:
            raise CaptureError(f"{step.name} ({step.op}) changes a state, but the output does not depend on it")
    return alive


def _order(alive: Set[int], edges: Dict[int, Set[int]]) -> List[int]:
    """Topological; among those ready, the first of the plain forward."""
    waiting = {v: 0 for v in alive}
    for v in alive:
        for w in edges[v] & alive:
            waiting[w] += 1
    ready = [v for v in alive if waiting[v] == 0]
    heapq.heapify(ready)
    order: List[int] = []
    while ready:
        v = heapq.heappop(ready)
        order.append(v)
        for w in edges[v] & alive:
            waiting[w] -= 1
            if waiting[w] == 0:
                heapq.heappush(ready, w)
    assert len(order) == len(alive)
    return order


def _nodes(program: Program, free: Dict[int, Step], groups: _Groups, order: List[int], reads: Dict[int, List[int]],
           outputs: List[int]) -> List[Node]:
    members: Dict[int, List[Step]] = {v: [] for v in order}
    for step in program.steps:
        if step.index in groups.parent and groups.find(step.index) in members:
            members[groups.find(step.index)].append(step)
    handed_on = set(outputs)
    for v in order:
        for step in members[v]:
            handed_on.update(s for s in reads[step.index] if s in groups.parent and groups.find(s) != v)
    names: Dict[str, int] = {}
    return [_node(program, members[v], free, reads, handed_on, names) for v in order]


def _node(program: Program, steps: List[Step], free: Dict[int, Step], reads: Dict[int, List[int]],
          handed_on: Set[int], names: Dict[str, int]) -> Node:
    own = {step.index for step in steps}
    inputs = list(dict.fromkeys(slot for step in steps for slot in reads[step.index] if slot not in own))
    needed: Dict[int, Step] = {}
    pending = [slot for step in steps for slot in step.reads() if slot in free]
    while pending:
        slot = pending.pop()
        if slot not in needed:
            needed[slot] = free[slot]
            pending.extend(s for s in free[slot].reads() if s in free)
    name = (steps[0].name if len(steps) == 1 else f"{steps[0].name}..{steps[-1].name}")[:180]
    names[name] = names.get(name, 0) + 1
    if names[name] > 1:
        name = f"{name}#{names[name]}"
    op = "+".join(dict.fromkeys(step.op for step in steps))[:180]
    everything = sorted([*steps, *needed.values()], key=lambda step: step.index)
    node = Node(name, op, everything, inputs, [s.index for s in steps if s.index in handed_on],
                any(step.index in program.random for step in steps))
    for step in steps:
        for key, (module, buffers) in program.buffers.get(step.index, {}).items():
            known = node.changed.setdefault(key, (module, []))[1]
            known.extend(name for name in buffers if name not in known)
    return node
