"""The two modules of a joint graph under an order of runs: repeated operations and their order are the schedule.

FX's code drops every value after its last use, so a value is alive from its run to its last use before the next one."""

import operator
from typing import Any, Callable, Collection, Dict, List, Sequence, Set, Tuple

import torch
from torch import fx

from . import transfers
from .errors import CheckError
from .joint import NORM_RESULTS, Joint, again, is_view_of, span, storage_bytes
from .opened import lazily
from .sharing import Move, Run

ON_HOST = "_on_the_host"  # ends the name by which the copy of a value comes into the backward


class Boxed(fx.graph.CodeGen):
    """def forward(self, args), which takes the list and empties it: nobody else then holds what is in it."""

    def gen_fn_def(self, free_vars: List[str], maybe_return_annotation: str) -> str:
        unpack = f"    {', '.join(free_vars)}, = args\n" if free_vars else ""
        return f"def {self._func_name}(self, args):\n{unpack}    args.clear()"


class _Half:
    """One module being written. now: by node of the joint graph, what stands for it in this place of the list."""

    def __init__(self, joint: Joint) -> None:
        self.graph, self._joint = fx.Graph(), joint
        self.now: Dict[fx.Node, fx.Node] = {}
        self.origin: Dict[fx.Node, fx.Node] = {}
        self.copies: Dict[fx.Node, fx.Node] = {}  # on the host
        self.leaving: List[fx.Node] = []  # whose copies may be under way
        self._coming: Dict[fx.Node, fx.Node] = {}  # on their way back
        self._looking: Dict[fx.Node, List[fx.Node]] = {}  # views and elements by operation, of its latest run

    def run(self, node: fx.Node, first: bool) -> None:
        other = None if first else again(node)
        made = NORM_RESULTS if other else None  # the rest stays what the first run made
        looking = self._looking.pop(node, [])
        self._looking[node] = [n for n in looking if made is not None and self._joint.base[n][1] >= made]
        for seen in looking:
            if seen not in self._looking[node]:
                self.now.pop(seen, None)
        if other:
            target, args = other
            new = self.graph.call_function(target, fx.map_arg(args, self.get))
            new.meta = dict(node.meta)
            self.place(node, new)
        else:
            self._copy(node)
        for user in node.users:  # at once, so that the tuple does not hold the elements that nobody wants
            if user.target is operator.getitem and (made is None or user.args[1] < made):
                self.get(user)

    def get(self, node: fx.Node) -> fx.Node:
        """What stands for it now: an input, the latest run, or a view of that, made when it is first asked for."""
        if node in self._coming:
            value = node.meta["val"]
            self._put(self.now, node, transfers.arrived, self._coming.pop(node), value.dtype, tuple(value.shape), value.stride())
            self.now[node].meta = dict(node.meta)
            if self._joint.base[node][0] is not node:
                self._looking.setdefault(self._joint.base[node][0], []).append(node)
        if node not in self.now:
            if node.op == "placeholder" or self._joint.is_operation(node):
                self.absent(node)
            else:
                self._copy(node)
        return self.now[node]

    def absent(self, node: fx.Node) -> None:
        raise CheckError(f"the schedule uses \"{node.name}\" before it is there")

    def move(self, node: fx.Node, kind: str) -> None:
        """A value, to the host or back; or it goes, when the copy of it is made."""
        if kind == "O":
            self._put(self.copies, node, transfers.to_host, self.get(node), node.meta["val"].stride())
            self.copies[node].meta["val"] = _on_host(node.meta["val"])
            self.leaving.append(node)
        elif kind == "P":
            self._forget(node)
            self._put(self._coming, node, transfers.to_device, self.copy_of(node), node.meta["val"].device)
        else:
            if node in self._coming:
                self.get(node)
            if node in self.leaving:
                self.leaving.remove(node)
                self._put({}, node, transfers.left, self.copy_of(node), self.get(node))
            self._forget(node)

    def copy_of(self, node: fx.Node) -> fx.Node:
        if node not in self.copies:
            raise CheckError(f"the schedule fetches \"{node.name}\", of which there is no copy")
        return self.copies[node]

    def _put(self, into: Dict[fx.Node, fx.Node], node: fx.Node, target: Callable[..., Any], *args: Any) -> None:
        into[node] = self.graph.call_function(target, args)
        self.origin[into[node]] = node

    def _forget(self, node: fx.Node) -> None:
        """A value, with what looks into it."""
        base = self._joint.base[node]
        for seen in [n for n in self.now if self._joint.base[n] == base]:
            del self.now[seen]

    def _copy(self, node: fx.Node) -> None:
        new = self.graph.node_copy(node, self.get)
        self.place(node, new)
        base = self._joint.base[node][0]
        if base is not node:
            self._looking.setdefault(base, []).append(node)

    def place(self, node: fx.Node, new: fx.Node) -> None:
        self.now[node], self.origin[new] = new, node


class _Backward(_Half):
    """saved: what the forward has to give, or the copies of it on the host."""

    def __init__(self, joint: Joint) -> None:
        super().__init__(joint)
        self.saved: List[Tuple[fx.Node, bool]] = []
        self._entered: Dict[fx.Node, fx.Node] = {}  # of those saved, where they come in
        for node in joint.tangents:
            self.place(node, self.graph.node_copy(node))
        self._first = next(iter(self.graph.nodes), None)
        self._of: Dict[fx.Node, List[fx.Node]] = {}  # gradients by the operation that makes what they look into
        for gradient in joint.gradients:
            if isinstance(gradient, fx.Node):
                self._of.setdefault(joint.base[gradient][0], []).append(gradient)

    def run(self, node: fx.Node, first: bool) -> None:
        super().run(node, first)
        for gradient in self._of.get(node, ()):  # views of it too, so that they are there as early as they can be
            self.get(gradient)

    def get(self, node: fx.Node) -> fx.Node:
        is_element = node.target is operator.getitem and self._joint.base[node][0] is node.args[0]
        if is_element and node not in self.now and node not in self._coming:
            kept = again(node.args[0]) is not None and node.args[1] >= NORM_RESULTS
            if kept or node.args[0] not in self.now:
                self.absent(node)  # one result, without the others
        return super().get(node)

    def absent(self, node: fx.Node) -> None:
        new = self._enter(node, node.name, False)
        new.meta = dict(node.meta)
        self.place(node, new)
        if node.target is operator.getitem:
            self._looking.setdefault(node.args[0], []).append(node)
        self._entered[node] = new

    def copy_of(self, node: fx.Node) -> fx.Node:
        if node not in self.copies:
            self.copies[node] = new = self._enter(node, node.name + ON_HOST, True)
            new.meta["val"], self.origin[new] = _on_host(node.meta["val"]), node
        return self.copies[node]

    def _enter(self, node: fx.Node, name: str, on_host: bool) -> fx.Node:
        self.saved.append((node, on_host))
        with self.graph.inserting_before(self._first):
            return self.graph.placeholder(name)

    def unchecked_last(self) -> None:
        """Of what the forward saves, what a user's autograd.Function put on ctx by itself comes last: AOTAutograd looks by
        their place for those whose versions a plain step does not compare."""
        unchecked = [(n, on_host) for n, on_host in self.saved if not on_host and n.meta.get("saved_tensor_with_no_vc_check", False)]
        for node, _ in unchecked:
            self._first.prepend(self._entered[node])
        self.saved = [s for s in self.saved if s not in unchecked] + unchecked


def _on_host(value: torch.Tensor) -> torch.Tensor:
    """What stands for the copy of a value while its graph is made."""
    with value.fake_mode:
        return torch.empty(span(value), dtype=torch.uint8, device="cpu")


def partition(joint: Joint, order: Sequence[Run]) -> Tuple[fx.GraphModule, fx.GraphModule]:
    """order: runs of joint.operations, and moves of their results. Raises CheckError if it is no order in which everything is there."""
    end = order.index(joint.end)
    forward, backward = _Half(joint), _Backward(joint)
    for node in joint.placeholders:
        if node not in joint.tangents:
            forward.place(node, forward.graph.node_copy(node))
    there: Set[int] = set()
    for half, runs in ((forward, order[:end]), (backward, order[end + 1:])):
        for i in runs:
            if isinstance(i, Move):
                value = joint.result(i.node, i.result)
                if value is not None:
                    half.move(value, i.kind)
                continue
            node = joint.operations[i].node
            if node is not None:
                half.run(node, i not in there)
            there.add(i)
        if half is forward:
            backward.leaving = list(forward.leaving)
    gradients = fx.map_arg(joint.gradients, backward.get)
    for value in list(backward.leaving):
        backward.move(value, "D")
    backward.unchecked_last()
    results = fx.map_arg(joint.forward_results, forward.get)
    saved = [forward.copy_of(node) if on_host else forward.get(node) for node, on_host in backward.saved]
    forward.graph.output((*results, *saved))
    backward.graph.output(tuple(gradients))
    modules = []
    for half in (forward, backward):
        half.graph.lint()
        modules.append(lazily(joint.module, half.graph))
    _verify(joint, forward, backward, len(results))
    return modules[0], modules[1]


def _verify(joint: Joint, forward: _Half, backward: _Backward, n_results: int) -> None:
    """Every node computes what its origin in the joint graph does, from the same values: so by induction the results
    are those. What must not run twice runs once, random operations in their order."""
    ran: List[fx.Node] = []
    for half in (forward, backward):
        for node in half.graph.nodes:
            if node.op == "output":
                continue
            origin = half.origin[node]
            if node.op == "placeholder":
                if half is forward and origin not in joint.placeholders:
                    raise CheckError(f"the forward would have the input \"{origin.name}\"")
                continue
            if node.target in transfers.MOVES:
                if any(half.origin[n] is not origin for n in node.all_input_nodes):
                    raise CheckError(f"\"{node.name}\" would move another value than \"{origin.name}\"")
                continue
            own = fx.map_arg((node.args, node.kwargs), lambda n, half=half: half.origin[n])
            other = again(origin) if origin in ran else None
            expected = (other[0], fx.map_arg(other[1], lambda n: n), {}) if other else (origin.target, origin.args, origin.kwargs)
            if (node.target, *own) != expected:
                raise CheckError(f"\"{node.name}\" would not compute \"{origin.name}\"")
            ran.append(origin)
    for half, expected in ((forward, [*joint.forward_results, *(n for n, _ in backward.saved)]), (backward, joint.gradients)):
        found = fx.map_arg(list(half.graph.output_node().args[0]), lambda n, half=half: half.origin[n])
        if list(found) != list(expected):
            raise CheckError("the results would not be those of the joint graph")
    once = [op.node for op in joint.operations if op.node is not None and op.never]
    runs = [node for node in ran if node in set(once)]
    if len(runs) != len(once):
        twice = next((n for n in once if runs.count(n) != 1), None)
        raise CheckError(f"\"{twice}\" must run once, and would run {runs.count(twice)} times")
    ordered = {op.node for op in joint.operations if op.node is not None and op.ordered}
    if [n for n in runs if n in ordered] != [n for n in once if n in ordered]:
        raise CheckError("random operations or collectives would run in another order")


# ---- parts of a backward ----

GROUPS = 32  # of gradients, in about as many of which those of a piece are handed over

Part = Tuple[Callable[[List[Any]], List[Any]], List[int]]  # what runs it; places of the gradients that it makes


def parts(module: fx.GraphModule, wanted: Sequence[int], least: int, inputs: Sequence[Collection[str]]) -> List[Part]:
    """A module cut where its results may be handed over, each part with `least` bytes of new results or more. That is after the last contribution and after
    the last that reads the input whose gradient it is, or looks into it: who gets a gradient may write the input at once, as an optimizer in the backward does.

    wanted: places of results that are not None. inputs: by place, the names of those that share memory with the input whose
    gradient it is. A part takes and returns what is alive: results of its own first."""
    nodes = [n for n in module.graph.nodes if n.op not in ("placeholder", "output")]
    results, position = list(module.graph.output_node().args[0]), {n: i for i, n in enumerate(nodes)}
    last = _last_reads(module, position)
    ready: Dict[int, List[int]] = {}
    for place in wanted:
        read = [last.get(name, 0) for name in inputs[place]]
        ready.setdefault(max(position.get(results[place], 0), *read), []).append(place)
    cuts: List[Tuple[int, List[int]]] = []
    waiting: List[int] = []
    amount = 0
    for i in range(max(1, len(nodes))):
        waiting += ready.get(i, [])
        amount += sum(storage_bytes(results[p]) for p in ready.get(i, []))
        if waiting and amount >= least:
            cuts.append((i + 1, waiting))
            waiting, amount = [], 0
    if waiting:
        cuts.append((len(nodes), waiting))
    if sorted(p for _, places in cuts for p in places) != sorted(wanted):
        raise CheckError("a gradient would belong to no part of the backward")
    cuts[-1] = (len(nodes), cuts[-1][1])
    return _cut(module, nodes, results, cuts)


def _last_reads(module: fx.GraphModule, position: Dict[fx.Node, int]) -> Dict[str, int]:
    """By name of what comes into the module: the place of the last node that reads it, or a view of it."""
    into: Dict[fx.Node, str] = {}
    last: Dict[str, int] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            into[node] = node.name
            continue
        for read in node.all_input_nodes:
            if read in into and node in position:
                last[into[read]] = position[node]
        sees = is_view_of(node) or node.target is operator.getitem
        if sees and node.all_input_nodes[0] in into:
            into[node] = into[node.all_input_nodes[0]]
    return last


def _cut(module: fx.GraphModule, nodes: List[fx.Node], results: List[Any], cuts: List[Tuple[int, List[int]]]) -> List[Part]:
    found: List[Part] = []
    alive, begin = [n for n in module.graph.nodes if n.op == "placeholder"], 0
    for stop, places in cuts:
        later: Set[fx.Node] = {i for n in nodes[stop:] for i in n.all_input_nodes}
        later |= {results[p] for at, ps in cuts if at > stop for p in ps}
        graph, copies = fx.Graph(), {}
        for node in alive:
            copies[node] = graph.placeholder(node.name)
        for node in nodes[begin:stop]:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        alive = [n for n in (*alive, *nodes[begin:stop]) if n in later]
        graph.output([copies[results[p]] for p in places] + [copies[n] for n in alive])
        found.append((boxed(module, graph), places))
        begin = stop
    return found


def boxed(module: fx.GraphModule, graph: fx.Graph) -> Callable[[List[Any]], List[Any]]:
    graph.set_codegen(Boxed())
    return fx.GraphModule(module, graph).forward
