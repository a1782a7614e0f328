"""A graph as a chain of stages: between two stages only one node's outputs pass.

A chain has solvers that are exact, and a stage costs one node's share of Python. A schedule of the stages treats what
is within a stage alike, so a graph whose nodes differ may have a better one of its own: fit asks for both.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Set, Tuple

from .graph import Graph, Node, Step

FEWEST = 3  # stages; a chain of less has nothing to choose


@dataclasses.dataclass
class Stages:
    graph: Graph  # its nodes are the stages
    ends: List[int]  # by stage: the first node after it

    def times(self, profile: Dict[str, Any]) -> List[Tuple[float, float]]:
        """Forward and backward of the stages, from the profile of the nodes."""
        parts = [profile["nodes"][begin:end] for begin, end in zip([0, *self.ends], self.ends)]
        return [(sum(node["forward_time"] for node in part), sum(node["backward_time"] for node in part))
                for part in parts]


def stages_of(graph: Graph) -> Optional[Stages]:
    """The nodes joined to the shortest stages; None where there are too few, or as many as nodes."""
    ends = _ends(graph)
    if not FEWEST <= len(ends) < len(graph.nodes):
        return None
    parts = [graph.nodes[begin:end] for begin, end in zip([0, *ends], ends)]
    stage_of = {slot: k for k, part in enumerate(parts) for node in part for slot in node.outputs}
    handed_on = set(graph.output_slots())
    for k, part in enumerate(parts):
        handed_on.update(slot for node in part for slot in node.inputs if stage_of.get(slot, k) != k)
    return Stages(Graph(graph.placeholders, [_join(k, part, handed_on) for k, part in enumerate(parts)], graph.output),
                  ends)


def _ends(graph: Graph) -> List[int]:
    """Positions before which only one node has outputs that are still to be read, and the end."""
    n = len(graph.nodes)
    last: Dict[int, int] = {}  # node -> position of its last reader
    makers = graph.producers()
    for v, node in enumerate(graph.nodes):
        last.update((makers[slot], v) for slot in node.inputs if slot in makers)
    last.update((makers[slot], n) for slot in graph.output_slots())  # the loss is the user's
    ends: List[int] = []
    waiting = [0] * (n + 2)
    for v in range(n):
        waiting[v + 1] += 1
        waiting[last[v] + 1] -= 1
    alive = 0
    for position in range(1, n + 1):
        alive += waiting[position]
        if alive == 1:
            ends.append(position)
    return ends if ends and ends[-1] == n else ends + [n]


def _join(index: int, nodes: List[Node], handed_on: Set[int]) -> Node:
    """One node that runs as these do, in their order. Steps that several of them repeat are run once."""
    if len(nodes) == 1:
        return nodes[0]
    made = {slot for node in nodes for slot in node.outputs}
    steps: Dict[int, Step] = {step.index: step for node in nodes for step in node.steps}
    inputs = dict.fromkeys(slot for node in nodes for slot in node.inputs if slot not in made)
    outputs = [slot for node in nodes for slot in node.outputs if slot in handed_on]
    op = "+".join(dict.fromkeys(node.op for node in nodes))[:180]
    joined = Node(f"{index}: {nodes[0].name}..{nodes[-1].name}"[:180], op, list(steps.values()), list(inputs), outputs,
                  any(node.random for node in nodes))
    for node in nodes:
        for key, (module, buffers) in node.changed.items():
            known = joined.changed.setdefault(key, (module, []))[1]
            known.extend(name for name in buffers if name not in known)
    return joined
