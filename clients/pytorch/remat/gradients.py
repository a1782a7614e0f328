"""Which bytes of gradients are alive together, as far as it follows from the order of the backwards.

Of the readers of a value the first to run backward makes its gradient, the others add to it; and where one tensor is
the gradient of two values, as behind an addition, one of the two is done with it last.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set

import torch

from .graph import Graph, Leaf, bytes_behind, storage_of


def plain_order(graph: Graph) -> Sequence[int]:
    """In which a plain step runs backward: the loss, which stands after the nodes, first."""
    return range(len(graph.nodes), -1, -1)


class Readers:
    """Who reads what. The loss, node n, reads what the model returns."""

    def __init__(self, graph: Graph, order: Optional[Sequence[int]]) -> None:
        """order: the nodes as their backwards run, the loss first; None: any order that the graph allows."""
        self._position = None if order is None else {v: position for position, v in enumerate(order)}
        self.producers = graph.producers()
        self._of: Dict[int, List[int]] = {}
        self._above: List[int] = []  # by node: the nodes on which it depends, as bits
        for v, node in enumerate(graph.nodes):
            above = 0
            for slot in node.inputs:
                self._of.setdefault(slot, []).append(v)
                if slot in self.producers:
                    above |= self._above[self.producers[slot]] | 1 << self.producers[slot]
            self._above.append(above)
        self._outputs = [node.outputs for node in graph.nodes]
        for slot in graph.output_slots():
            self._of.setdefault(slot, []).append(len(graph.nodes))
        self._above.append((1 << len(graph.nodes)) - 1)

    def of(self, slot: int) -> List[int]:
        return self._of.get(slot, [])

    def users(self, v: int) -> List[int]:
        """Of all outputs of a node, last first."""
        return sorted({r for slot in self._outputs[v] for r in self.of(slot)}, reverse=True)

    def depends(self, a: int, b: int) -> bool:
        return bool(self._above[a] >> b & 1)

    def before(self, a: int, b: int) -> bool:
        """Whether B a surely runs before B b."""
        return self._position[a] < self._position[b] if self._position else self.depends(a, b)

    def is_first(self, v: int, slot: int) -> bool:
        """Whether v, which reads the slot, is surely the first to make a gradient of it."""
        return all(r == v or self.before(v, r) for r in self.of(slot))


class Sharing:
    """Gradients that the backwards of nodes hand to several values at once, or never write out."""

    def __init__(self, numbers: Sequence[Any] = ((), ())) -> None:
        """numbers: as numbers() gave them; default: nothing is known."""
        groups, written = numbers
        # by node: inputs whose gradients are one tensor
        self._groups: List[List[List[Leaf]]] = [[[(s, p) for s, p in group] for group in one] for one in groups]
        # bytes behind a gradient, by the last node that makes it
        self._written: Dict[Leaf, int] = {(slot, place): size for slot, place, size in written}

    def numbers(self) -> List[Any]:
        return [self._groups, [[*leaf, size] for leaf, size in self._written.items()]]

    def look(self, leaves: Sequence[Leaf], received: Sequence[Optional[torch.Tensor]]) -> None:
        """What the next node's backward makes of its inputs where nothing was there; all of it alive."""
        groups: Dict[int, List[Leaf]] = {}
        for leaf, gradient in zip(leaves, received):
            if gradient is not None:
                groups.setdefault(storage_of(gradient), []).append(leaf)
                self._written[leaf] = bytes_behind(gradient).nbytes()
        self._groups.append([group for group in groups.values() if len(group) > 1])

    def written(self, leaf: Leaf, whole: int, readers: Readers) -> int:
        """Of a gradient of `whole` bytes, those that there are: fewer where it is one number expanded."""
        return min(whole, self._written[leaf]) if len(readers.of(leaf[0])) == 1 else whole

    def expanded(self, readers: Readers, wholes: Sequence[Dict[Leaf, int]]) -> Set[Leaf]:
        """Values whose gradient comes as one number expanded. wholes: by node, bytes of the gradients of its inputs."""
        return {leaf for received in wholes for leaf, whole in received.items()
                if leaf[0] in readers.producers and leaf in self._written and self.written(leaf, whole, readers) < whole}

    def covered(self, readers: Readers) -> Set[Leaf]:
        """Values whose gradient is that of another one, which is alive for longer."""
        found: Set[Leaf] = set()
        for v, groups in enumerate(self._groups):
            for group in groups:
                for leaf in group:
                    if any(other not in found and _covers(readers, other, leaf, v) for other in group if other != leaf):
                        found.add(leaf)
        return found


def _covers(readers: Readers, long: Leaf, short: Leaf, v: int) -> bool:
    """Whether the gradient of `long`, made by B v, is neither added to nor used up before that of `short` is."""
    if readers.of(short[0]) != [v] or short[0] not in readers.producers or not readers.is_first(v, long[0]):
        return False
    end, long_end = readers.producers[short[0]], readers.producers.get(long[0])
    if not all(w == v or readers.before(end, w) for w in readers.of(long[0])):
        return False
    return long_end is None or long_end == end or readers.before(end, long_end)


# ---- a node with several outputs ----

def lend(graph: Graph, readers: Readers, costs: Sequence[Any]) -> None:
    """A profile has one gradient for all outputs of a node, from the first backward that makes a part of it; really the
    other parts come later. Where a chain of values leads from one reader of a node to another, as from the scores of an
    attention to its values, exactly one gradient of that chain is alive in between: what is counted too early is taken
    off those, and added to the workspaces where two of them meet.

    costs: by node, with gradient and backward_workspace, the latter below zero where a backward frees early.
    """
    for u, node in enumerate(graph.nodes):
        users = readers.users(u)
        first = next((r for r in users if all(r == w or readers.before(r, w) for w in users)), None)
        if len(node.outputs) < 2 or len(users) < 2 or first is None or first == len(graph.nodes):
            continue
        chain = _chain(graph, readers, u, first)
        if not chain or not all(w in (first, chain[-1]) or readers.before(chain[-1], w) for w in users):
            continue
        late = costs[u].gradient - costs[u].made_by.get(first, 0)
        amount = min(late, *(costs[w].gradient for w in chain))
        for w in chain:
            costs[w].gradient -= amount
            costs[w].backward_workspace += amount


def _chain(graph: Graph, readers: Readers, u: int, first: int) -> List[int]:
    """Nodes from one that `first` reads up to the next reader of u, each read by the one before and nobody else."""
    found: List[int] = []
    at = first
    while not found or not any(readers.producers.get(slot) == u for slot in graph.nodes[at].inputs):
        makers = dict.fromkeys(readers.producers[slot] for slot in graph.nodes[at].inputs if slot in readers.producers)
        ways = [p for p in makers if readers.depends(p, u) and readers.users(p) == [at]]
        if len(ways) != 1:
            return []
        at = ways[0]
        found.append(at)
    return found
