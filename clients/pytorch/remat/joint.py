"""A joint graph of AOTAutograd, forward and backward in one, read as operations that make values.

A value is one tensor's bytes: result k of an operation. Views of it, and elements of tuples, are no operations: they are made again wherever they are used.
Between the two halves stand two nodes of ours: the one at which the forward ends, which needs all of its results, and the loss outside, which makes the
tangents."""

import dataclasses
import functools
import itertools
import operator
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch import fx

from .errors import CaptureError

END, LOSS = "the forward ends", "the loss"  # ids of our own nodes; none of FX's names has a space
NEVER = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d", "dtensor", "fsdp")  # namespaces
_VIEWS = ("aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes", "aten::unsafe_chunk")  # whose schemas do not say so
Value = Tuple[fx.Node, int]  # operation or placeholder, result


def version() -> Tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()))


@dataclasses.dataclass
class Operation:
    """node: None for the two of ours. inputs: values that it reads, views looked through. sizes: bytes of its results."""
    name: str
    node: Optional[fx.Node]
    inputs: List[Value]
    sizes: List[int]
    never: bool  # runs exactly once
    ordered: bool  # among all those that are, as in the graph: random numbers, collectives


class Joint:
    """operations: in the graph's order, without what nothing needs. end: index of the one at which the forward ends."""

    def __init__(self, module: fx.GraphModule, n_forward: int, n_returned: int, never: Sequence[str] = (), parameters: FrozenSet[int] = frozenset()) -> None:
        """n_forward: results of the forward: new contents of inputs, which nobody keeps, n_returned that the caller gets, and what those of them look
        into that are views. never: names of operators that must not run twice. parameters: which of the inputs are. Raises CaptureError."""
        self.module, self._pinned, self._parameters = module, frozenset(never), parameters
        nodes = list(module.graph.nodes)
        results = list(nodes[-1].args[0])
        self.forward_results, self.gradients = results[:n_forward], results[n_forward:]
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self.tangents = [n for n in self.placeholders if n.name.startswith("tangents")]
        self._check(nodes)
        self.base: Dict[fx.Node, Value] = {}
        for node in nodes[:-1]:
            self._find_base(node)
        self.updated = self._find_updated(n_forward - n_returned)
        self._unsteady = self._find_unsteady()
        self.operations = self._operations(nodes)
        self.end = next(i for i, op in enumerate(self.operations) if op.name == END)

    def _check(self, nodes: List[fx.Node]) -> None:
        for node in self.placeholders:
            if not node.name.startswith(("primals", "tangents")):
                raise CaptureError(f"the joint graph has the input \"{node.name}\", which is no tensor of the step: random "
                                   "numbers by seed and offset, effect tokens and states of hooks are not supported")
        for node in nodes[:-1]:
            for value in _results(node):
                sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
                if any(isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) for size in sizes):
                    raise CaptureError(f"{line_of(node)}: \"{node.name}\" has, or is, a size that is not known while compiling: "
                                       f"{tuple(sizes)}. A schedule belongs to shapes: torch.compile(..., dynamic=False) makes one for each")
            if node.op not in ("placeholder", "get_attr", "call_function"):
                raise CaptureError(f"{line_of(node)}: \"{node.name}\" ({node.op}) is no operation")
            if node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False):
                raise CaptureError(f"{line_of(node)}: {node.target} writes its input in the joint graph, and what reads it cannot be run again")

    def _find_base(self, node: fx.Node) -> None:
        if node.op == "call_function" and node.target is operator.getitem:
            source = self.base[node.args[0]]
            self.base[node] = source if source[0] is not node.args[0] else (source[0], node.args[1])
        elif is_view_of(node):
            self.base[node] = self.base[node.all_input_nodes[0]]
        else:
            self.base[node] = (node, 0)

    def _find_updated(self, n_others: int) -> List[fx.Node]:
        """Of the results beside the returned ones, those that no returned one looks into."""
        results = self.forward_results
        bases = [self.base[r] if isinstance(r, fx.Node) else None for r in results]
        while n_others and bases[-1] is not None and bases[-1] in bases[:-1]:
            bases.pop()
            n_others -= 1
        return [r for r in results[:n_others] if isinstance(r, fx.Node)]

    def _find_unsteady(self) -> Set[fx.Node]:
        """Inputs that may have got new contents by the forward's end: those like a result that is one. Parameters only
        where there are not enough others; autograd's version counters would tell an error in that."""
        likes = [_like(n) for n in self.updated]
        primals = [n for n in self.placeholders if n not in self.tangents and _like(n) in likes]
        others = [n for n in primals if self.placeholders.index(n) not in self._parameters]
        found = [_like(n) for n in others]
        return {n for n in primals if n in others or found.count(_like(n)) < likes.count(_like(n))}

    def is_operation(self, node: fx.Node) -> bool:
        return node.op == "call_function" and node.target is not operator.getitem and self.base[node][0] is node

    def values(self, nodes: Sequence[Any]) -> List[Value]:
        """Those that the nodes are, or look into, that operations make or tangents are; each once."""
        bases = [self.base[n] for n in nodes if isinstance(n, fx.Node)]
        return list(dict.fromkeys(b for b in bases if b[0].op == "call_function" or b[0] in self.tangents))

    def result(self, i: int, k: int) -> Optional[fx.Node]:
        """Result k of an operation; None where that is of no tensor, or nobody reads it."""
        node = self.operations[i].node
        if node is None:
            return self.tangents[k] if self.operations[i].name == LOSS and k < len(self.tangents) else None
        if isinstance(node.meta.get("val"), torch.Tensor):
            return node if k == 0 else None
        return next((n for n in node.users if n.target is operator.getitem and n.args[1] == k), None)

    def reached(self) -> List[int]:
        """By gradient: which tangents it is made of, bit by bit."""
        reached: Dict[Any, int] = {}
        for node in self.module.graph.nodes:
            own = 1 << self.tangents.index(node) if node in self.tangents else 0
            reached[node] = functools.reduce(operator.or_, (reached[i] for i in node.all_input_nodes), own)
        return [reached.get(g, 0) for g in self.gradients]

    def _operations(self, nodes: List[fx.Node]) -> List[Operation]:
        needed = self._needed(nodes, (*self.forward_results, *self.gradients))
        own = [n for n in nodes[:-1] if n in needed and self.is_operation(n)]
        before = self._needed(nodes, self.forward_results, frozenset(self._after_loss(nodes)))
        forward, backward = [self._operation(n) for n in own if n in before], [self._operation(n) for n in own if n not in before]
        end = Operation(END, None, self.values(self.forward_results), [0], True, True)
        pruned = version() >= (2, 14)  # it makes no zeros for what no backward reads, as of a weight that the forward writes
        made = [storage_bytes(t) if t.users or not pruned else 0 for t in self.tangents]
        loss = Operation(LOSS, None, [], made, True, False)
        return [*forward, end, loss, *backward]

    def _operation(self, node: fx.Node) -> Operation:
        inputs = self.values(node.all_input_nodes)
        sizes = [max(span(v), _kept_behind(node)) for v in _results(node)]
        never = _is_ordered(node) or _name(node) in self._pinned or getattr(node.meta.get("recompute"), "name", "") == "MUST_SAVE" or (
            again(node) is None and any(self.base[n][0] in self._unsteady for n in node.all_input_nodes))
        return Operation(node.name, node, inputs, sizes, never, _is_ordered(node))

    @staticmethod
    def _needed(nodes: List[fx.Node], results: Sequence[Any], but: FrozenSet[fx.Node] = frozenset()) -> Set[fx.Node]:
        """By a result, or for what it does to a random generator or to other processes, where it is none of `but`."""
        needed = {n for n in results if isinstance(n, fx.Node)} | {n for n in nodes[:-1] if _is_ordered(n) and n not in but}
        for node in reversed(nodes[:-1]):
            if node in needed:
                needed.update(node.all_input_nodes)
        return needed

    def _after_loss(self, nodes: List[fx.Node]) -> Set[fx.Node]:
        """What needs a tangent; and a random or other ordered operation that comes after such a one."""
        after: Set[fx.Node] = set(self.tangents)
        began = False
        for node in nodes[:-1]:
            ordered = _is_ordered(node)
            if any(i in after for i in node.all_input_nodes) or (ordered and began):
                after.add(node)
                began = began or ordered
        return after


# ---- what a node is ----

def is_view_of(node: fx.Node) -> bool:
    """Whether its results look into its first input. Decided by the operator, never by what one run of it did."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not node.all_input_nodes:
        return False
    return schema.name in _VIEWS or any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def is_random(node: fx.Node) -> bool:
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return getattr(node.target, "_remat_random", False)
    names = [a.name for a in node.target._schema.arguments]  # attention draws no numbers where its dropout is 0
    return "dropout_p" not in names or dict(zip(names, node.args), **node.kwargs).get("dropout_p", 0.0) != 0.0


def _is_ordered(node: fx.Node) -> bool:
    """Whether it keeps its place among all those that do, as in the graph: random numbers, collectives, effects."""
    return node.op == "call_function" and (is_random(node) or _is_effect(node))


def _is_effect(node: fx.Node) -> bool:
    """Of which nothing is known but that it is called: collectives, operators of higher order, effects."""
    if node.target is operator.getitem or getattr(node.target, "_remat_pure", False):
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    return node.target.namespace in NEVER or node.target._schema.name in ("aten::_print", "aten::_assert_async")


def name_of(node: fx.Node) -> str:
    """Of its operator, as "aten::mm", or of a function of ours."""
    return getattr(getattr(node.target, "_schema", None), "name", getattr(node.target, "__name__", ""))


def _name(node: fx.Node) -> str:
    if getattr(node.target, "_schema", None) is not None:
        return name_of(node).replace("::", ".")
    return f"remat.{name_of(node)}" if getattr(node.target, "_remat_pure", False) else str(node.target)


def line_of(node: fx.Node) -> str:
    """The user's line, as far as the graph knows it."""
    trace = (node.meta.get("stack_trace") or "").strip().splitlines()
    lines = [line.strip() for line in trace if line.strip().startswith("File ")]
    return lines[-1] if lines else "in the joint graph"


# ---- batch norm: run again, it leaves the statistics alone ----

_NORMS = ("aten::_native_batch_norm_legit_functional",)
NORM_RESULTS = 3  # that a second run makes: the output, mean and deviation of the batch


def again(node: fx.Node) -> Optional[Tuple[Any, Tuple[Any, ...]]]:
    """Operator and arguments of every run but the first, where they are others: batch norm in training makes new running
    statistics of old ones, which are overwritten when the forward ends, and needs neither for its output."""
    if node.op != "call_function" or name_of(node) not in _NORMS or node.kwargs or node.args[5] is not True:
        return None
    source, weight, _, mean = (n.meta["val"].dtype if n is not None else None for n in node.args[:4])
    if mean not in (source, weight):  # whose type the statistics of the batch would then not have
        return None
    return torch.ops.aten._native_batch_norm_legit.no_stats, (*node.args[:3], *node.args[5:])


# ---- bytes ----

def _results(node: fx.Node) -> List[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def span(value: Any) -> int:
    """Bytes of the storage that a tensor of this shape gets of its own."""
    if not isinstance(value, torch.Tensor):
        return 0
    if value.layout != torch.strided:
        return value.numel() * value.element_size()
    if value.numel() == 0:
        return 0
    last = sum((size - 1) * abs(stride) for size, stride in zip(value.shape, value.stride()))
    return (last + 1) * value.element_size()


WIDE = ("aten::mse_loss", "aten::smooth_l1_loss", "aten::binary_cross_entropy", "aten::soft_margin_loss")


def _kept_behind(node: fx.Node) -> int:
    """Bytes of the storage that stays behind a mean or sum: on a CPU these reduce what they made into its own storage."""
    if name_of(node) not in WIDE or node.meta["val"].device.type != "cpu":
        return 0
    source, target = (n.meta["val"] for n in node.args[:2])
    return torch.broadcast_shapes(source.shape, target.shape).numel() * node.meta["val"].element_size()


def _like(node: fx.Node) -> Tuple[Any, ...]:
    value = node.meta.get("val")
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else (None,)


def storage_bytes(node: fx.Node) -> int:
    return span(node.meta.get("val"))


def shorten(graph: fx.Graph) -> None:
    """Without views that are their own source: each is a call from Python in every step. Others copy where they must:
    strides are not always those of the trace, as behind the backward of dropout before a layer of oneDNN."""
    results = set(graph.output_node().all_input_nodes)
    same, turned = (torch.ops.aten.detach.default, torch.ops.aten.alias.default), torch.ops.aten.t.default
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
        twice = node.target is turned and node.args[0].target is turned
        sliced = node.op == "call_function" and name_of(node) in ("aten::slice", "aten::slice_backward")
        whole = sliced and node.meta["val"].shape == node.args[0].meta["val"].shape  # as where their sizes were left open
        if node in results or not (twice or whole or node.target in same):
            continue
        source = node.args[0]
        node.replace_all_uses_with(source.args[0] if twice else source)
        graph.erase_node(node)
        if twice and not source.users:
            graph.erase_node(source)


def drop_updates(graph: fx.Graph, of_parameters: Sequence[bool]) -> None:
    """Parameters are written without gradients only, so what they are then has none. AOTAutograd begins with zeros for it,
    where a plain step may have no gradient at all. of_parameters: of the first tangents, which stand for such."""
    tangents = [n for n in graph.find_nodes(op="placeholder") if n.name.startswith("tangents")]
    for tangent in itertools.compress(tangents, of_parameters):
        for user in [u for u in tangent.users if u.target is torch.ops.aten.add.Tensor and len(u.all_input_nodes) == 2]:
            user.replace_all_uses_with(next(n for n in user.all_input_nodes if n is not tangent))
            graph.erase_node(user)
        output = graph.output_node()
        output.args = ([None if r is tangent else r for r in output.args[0]],)


# ---- random numbers that are written into a tensor ----

def draw_normal(tensor: torch.Tensor, *how: Any, **more: Any) -> torch.Tensor:
    """As normal_ does where it stands: on a CPU other numbers come for what is one block of memory."""
    size = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride())) + 1
    return tensor.new_empty(size).as_strided(tensor.shape, tensor.stride()).normal_(*how, **more)


def draw_integers(*how: Any, **more: Any) -> torch.Tensor:
    """Under a name that Python can read: "from" is none, and torch.fx writes the call as it is."""
    return RANDOM_FROM(*how, **more)


RANDOM_FROM = getattr(torch.ops.aten.random, "from")
draw_normal._remat_random = draw_normal._remat_pure = True  # type: ignore[attr-defined]
draw_integers._remat_random = draw_integers._remat_pure = True  # type: ignore[attr-defined]


def draw_in_place(graph: fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=RANDOM_FROM):
        node.target = draw_integers
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.normal_functional.default):
        value = node.args[0].meta["val"]
        if value.numel() and span(value) > value.numel() * value.element_size():  # else a copy lies as it does
            node.target, node.meta["val"] = draw_normal, value


# ---- dropout: the mask is drawn once, what it makes may be made again ----

def dropout_mask(tensor: torch.Tensor, p: float) -> torch.Tensor:
    """The mask of native_dropout, with its random numbers; where nothing stays a plain step draws none."""
    if tensor.device.type == "cpu" or p == 1:
        return torch.zeros_like(tensor, dtype=torch.bool) if p == 1 else torch.empty_like(tensor, dtype=torch.bool).bernoulli_(1 - p)
    return torch.ops.aten.native_dropout.default(tensor, p, True)[1]


def dropout_result(tensor: torch.Tensor, mask: torch.Tensor, p: float) -> torch.Tensor:
    scale = 1 / (1 - p) if p < 1 else 0.0
    if tensor.device.type == "cpu" and p < 1:  # where a plain step scales the mask, of the tensor's type
        scale = torch.ones((), dtype=tensor.dtype).div_(1 - p).item()
    return tensor.mul(mask).mul_(scale)


dropout_mask._remat_random = dropout_mask._remat_pure = True  # type: ignore[attr-defined]
dropout_result._remat_pure = True  # type: ignore[attr-defined]


def split_dropout(module: fx.GraphModule) -> None:
    """native_dropout becomes two operations: as one, that must not run twice, it would keep its whole result."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.target is not torch.ops.aten.native_dropout.default or node.args[2] is False or node.args[1] == 0:
            continue
        with graph.inserting_before(node):
            mask = graph.call_function(dropout_mask, (node.args[0], node.args[1]))
            result = graph.call_function(dropout_result, (node.args[0], mask, node.args[1]))
        made = (result, mask)
        for new, value in zip(made, node.meta["val"]):
            new.meta = {**node.meta, "val": value}
        for user in list(node.users):
            user.replace_all_uses_with(made[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
        for user in [u for u in mask.users if u.target is torch.ops.aten.native_dropout_backward.default]:
            user.target, user.args = dropout_result, (user.args[0], mask, node.args[1])
    graph.lint()


# ---- the profile ----

Cost = Tuple[float, int]  # microseconds, bytes of workspace
TURN = "the gradient comes"  # id of an input of no bytes, that is late


class Kept(NamedTuple):
    """Of a stage of a pipeline. several: micro-batches, or graphs, wait for their backwards at once. tangents: they are in buffers of the
    runtime's. parameters: places of inputs whose gradients are added to others at once, and count while they are made."""
    several: bool = False
    tangents: bool = False
    parameters: FrozenSet[int] = frozenset()


def profile_of(joint: Joint, name: str, costs: Dict[str, Cost], resident: FrozenSet[str], loss: Sequence[int] = (0, 0),
               uncounted: FrozenSet[int] = frozenset(), held_tangents: bool = False, stage: Kept = Kept(), moved: bool = False) -> Dict[str, Any]:
    """remat-profile/1, a joint one. costs: by name of operation. resident: names of inputs that are parameters or
    buffers, which the budget does not hold. loss: bytes that it takes beside results and tangents, forward, backward and,
    where it is given, from then on to the end. uncounted: inputs whose gradients are not. held_tangents: autograd holds them to the
    end, where the whole backward is one call of its own. moved: values may be copied to the host, but what others hold, too."""
    index = {op.node: op for op in joint.operations if op.node is not None}

    def label(value: Value) -> str:
        node, k = value
        if node in index:
            return f"{node.name}:{k}" if k else node.name
        place = places[node]
        return f"{LOSS}:{place}" if place else LOSS

    updated = set(joint.updated)
    kept = [r for r in joint.forward_results if isinstance(r, fx.Node) and r not in updated]
    held = {node for node, _ in joint.values(kept)}  # by the caller, from the forward's end on: run again, there would be two
    places = {node: i for i, node in enumerate(joint.tangents)}
    free = joint.values([g for i, g in enumerate(joint.gradients) if i in uncounted])
    read = {value for op in joint.operations for value in op.inputs}
    passing = {v for v in joint.values([g for i, g in enumerate(joint.gradients) if i in stage.parameters]) if v not in read}
    nodes, last, stays = [], "", [size for size in loss[2:] if size]
    for op in joint.operations:
        inputs = [label(v) for v in op.inputs]
        sizes = op.sizes if op.name != LOSS else [*op.sizes, *stays]
        if op.name == LOSS and stage.tangents:
            sizes = [0] * len(sizes)
        outputs = [{"bytes": 0 if (op.node, k) in free or (op.node, k) in passing else size} for k, size in enumerate(sizes)]
        time, workspace = costs.get(op.name, (0.0, 0))
        workspace += sum(size for k, size in enumerate(sizes) if (op.node, k) in passing and (op.node, k) not in free)
        if op.name == LOSS:
            inputs, workspace = [END], loss[1]
        if op.name == END:
            inputs, workspace = inputs + [TURN] * stage.several, loss[0]
        if op.node is not None:
            bases = dict.fromkeys(joint.base[n][0] for n in op.node.all_input_nodes)
            inputs += [b.name for b in bases if b.op == "placeholder" and b not in joint.tangents and b.name not in resident]
        if op.ordered:  # by a result of no bytes, from each to the next
            inputs += [last] if last else []
            last = f"{op.name}:{len(outputs)}" if op.node is not None else op.name
            outputs += [{"bytes": 0}] if op.node is not None else []
        entry: Dict[str, Any] = {"id": op.name, "op": _name(op.node) if op.node is not None else op.name,
                                 "inputs": list(dict.fromkeys(inputs)), "time": time, "outputs": outputs, "workspace_bytes": workspace}
        nodes.append({**entry, "recompute": "never"} if op.never or op.node in held else entry)
    kept = [*(g for g in joint.gradients if isinstance(g, fx.Node)), *kept, *(joint.tangents if held_tangents else ())]
    inputs_used = {i for n in nodes for i in n["inputs"]}
    inputs_doc = [{"id": n.name, "bytes": storage_bytes(n)} for n in joint.placeholders if n.name in inputs_used and n not in places]
    outputs_doc = list(dict.fromkeys([label(v) for v in joint.values(kept)] + [END, LOSS] * (not joint.tangents)
                                     + [f"{LOSS}:{len(joint.tangents)}"] * len(stays)))
    if stage.several:
        inputs_doc.append({"id": TURN, "bytes": 0, "late": True})
        _come_late(nodes, {i.split(":")[0] for i in outputs_doc})
    return {"format": "remat-profile/1", "graph": "joint", "name": name, "time_unit": "us", "inputs": inputs_doc,
            "nodes": nodes, "outputs": outputs_doc, **({"held_elsewhere": True} if moved else {})}


def _come_late(nodes: List[Dict[str, Any]], outputs: Set[str]) -> None:
    """What is given back and comes after the turn, though no tangent reaches it, is made to wait for the turn, too."""
    late: Set[str] = set()
    for node in nodes:
        if TURN not in node["inputs"] and late and node["id"] in outputs and not late & {i.split(":")[0] for i in node["inputs"]}:
            node["inputs"].append(TURN)
        if TURN in node["inputs"] or late & {i.split(":")[0] for i in node["inputs"]}:
            late.add(node["id"])
