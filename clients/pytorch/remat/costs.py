"""The costs of every node, measured on the user's device: a profile in the format remat-profile/1."""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch

from .gradients import Readers, Sharing, lend, plain_order
from .graph import Environment, Graph, Leaf, Node, map_tensors, storage_bytes, tensors_of
from .memory import Recorder
from .progress import Progress
from .states import RNG, Buffers, Everything, Generators, State, state_bytes
from .tape import Gradient, Tape

LOSS = "<loss>"  # the artificial sink: its backward seeds the gradients of the model's outputs


@dataclasses.dataclass
class Measured:
    """What the executor must know beside the graph.

    The profile is for schedules whose backwards run last node first, as in a plain step; for_order gives that of
    another order, the loss first, or with None one that holds for all.
    """

    profile: Dict[str, Any]
    states: List[State]  # in the order of the profile's states
    wanted: Dict[Leaf, bool]  # tensors that have a gradient
    for_order: Callable[[Optional[Sequence[int]]], Dict[str, Any]]
    numbers: Dict[str, Any]  # what was measured, for measure() to make the same of it again


@dataclasses.dataclass
class _Costs:
    """One node, in bytes and microseconds."""

    output: int = 0
    saved: int = 0
    gradient: int = 0
    made_by: Dict[int, int] = dataclasses.field(default_factory=dict)  # of it, by the reader that makes a part
    forward_workspace: int = 0
    save_workspace: int = 0
    backward_workspace: int = 0
    uses_inputs: bool = False
    uses_output: bool = False
    forward_time: float = 0.0
    backward_time: float = 0.0


def measure(graph: Graph, model: torch.nn.Module, inputs: Environment, device: torch.device, name: str,
            repeats: int = 3, times: Optional[List[Tuple[float, float]]] = None,
            numbers: Optional[Dict[str, Any]] = None) -> Measured:
    """Profiles a graph. inputs: values of the placeholders. The model's buffers and the generators end as they began.
    times: forward and backward by node, in microseconds, where they are known. numbers: of an earlier Measured of the
    same graph, instead of measuring.

    Times are medians of `repeats` runs after one that warms up. saved_bytes of a node with a backward is at least 1:
    its piece of the autograd graph, which only a save-all forward makes.
    """
    meter = _Meter(graph, inputs, device)
    if numbers is not None:
        meter.take_numbers(numbers)
    else:
        _run(meter, graph, model, inputs, device, repeats, times)
    states, reads = find_states(graph, model, device)
    outside = {"name": name[:200], "inputs": [_input_document(label, slot, inputs[slot], meter.wanted)
                                              for label, slot in _labels(graph)],
               "states": [{"id": key, "bytes": state_bytes(state.save())} for key, state in states],
               "source": {"framework": f"pytorch {torch.__version__}", "device": str(device),
                          "note": "measured by remat.profile"}}

    def for_order(order: Optional[Sequence[int]]) -> Dict[str, Any]:
        return {"format": "remat-profile/1", "time_unit": "us", **outside,
                "nodes": _nodes_document(graph, meter.in_order(order), reads)}

    return Measured(for_order(plain_order(graph)), [s for _, s in states], meter.wanted, for_order, meter.numbers())


def _run(meter: "_Meter", graph: Graph, model: torch.nn.Module, inputs: Environment, device: torch.device, repeats: int,
         times: Optional[List[Tuple[float, float]]]) -> None:
    with Everything(model, device):
        if device.type == "cuda":  # what libraries allocate at their first call and keep is no node's workspace
            with Recorder(device) as unused:
                _Meter(graph, inputs, device).measure_bytes(unused)
        with Recorder(device) as recorder:
            meter.measure_bytes(recorder)
        meter.take_workspaces(recorder)
        if times is None:
            meter.measure_times(repeats)
        else:
            meter.take_times(times)


class _Meter:
    def __init__(self, graph: Graph, inputs: Environment, device: torch.device) -> None:
        self.graph, self.inputs, self.device = graph, inputs, device
        self.costs = [_Costs() for _ in graph.nodes]
        self.wanted: Dict[Leaf, bool] = {}
        for _, slot in graph.placeholders:
            for place, tensor in enumerate(tensors_of(inputs[slot])):
                self.wanted[slot, place] = tensor.requires_grad
        shared = shared_parameters(graph)
        self._shared = [[p for p in node.parameters() if id(p) in shared] for node in graph.nodes]
        self._readers, self._sharing = Readers(graph, plain_order(graph)), Sharing()
        self._again: List[int] = []  # nodes whose backward was measured with expanded gradients too
        self._rise: List[int] = []  # by node: bytes that B takes beyond those before it
        self._received: List[Dict[Leaf, int]] = []  # bytes of the gradients of inputs that it makes or adds to
        self._made_of_parameters: List[int] = []  # bytes of those of parameters that it makes
        self._last_user = {id(p): v for v, node in enumerate(graph.nodes) for p in node.parameters()}
        self._last_reader = {slot: v for v, node in enumerate(graph.nodes) for slot in node.inputs}

    def numbers(self) -> Dict[str, Any]:
        """All that was measured, as JSON can have it."""
        fields = [field.name for field in dataclasses.fields(_Costs) if field.name != "made_by"]
        return {"costs": [{name: getattr(costs, name) for name in fields} for costs in self.costs],
                "wanted": _listed(self.wanted), "rise": self._rise, "parameters": self._made_of_parameters,
                "received": [_listed(one) for one in self._received], "sharing": self._sharing.numbers()}

    def take_numbers(self, numbers: Dict[str, Any]) -> None:
        self.costs = [_Costs(**costs) for costs in numbers["costs"]]
        self.wanted = _unlisted(numbers["wanted"])
        self._rise, self._made_of_parameters = numbers["rise"], numbers["parameters"]
        self._received = [_unlisted(one) for one in numbers["received"]]
        self._sharing = Sharing(numbers["sharing"])

    def _walk(self, label: str, visit: Callable[[int, Node, List[Any]], List[Any]]) -> None:
        """Visits the nodes with the values of their inputs; visit returns those of their outputs."""
        with Progress(label, len(self.graph.nodes)) as progress:
            self._visit_all(visit, progress)

    def _visit_all(self, visit: Callable[[int, Node, List[Any]], List[Any]], progress: Progress) -> None:
        environment = {slot: _detached(value) for slot, value in self.inputs.items()}
        keep = set(self.inputs)
        for v, node in enumerate(self.graph.nodes):
            outputs = visit(v, node, [environment[slot] for slot in node.inputs])
            progress.step()
            environment.update(zip(node.outputs, outputs))
            for slot in [*node.inputs, *node.outputs]:
                if self._last_reader.get(slot, v) <= v and slot not in keep:
                    environment.pop(slot, None)

    def flags(self, slots: Sequence[int], values: Sequence[Any]) -> List[bool]:
        return [self.wanted[slot, place] for slot, value in zip(slots, values)
                for place in range(len(tensors_of(value)))]

    # ---- bytes ----

    def measure_bytes(self, recorder: Recorder) -> None:
        def visit(v: int, node: Node, values: List[Any]) -> List[Any]:
            recorder.mark()
            with torch.no_grad():
                node.run(values)
            recorder.mark()
            tape = Tape()
            outputs = tape.record(node, values, self.flags(node.inputs, values), self._shared[v])
            recorder.mark()
            self._take_sizes(v, node, values, outputs, tape)
            summed = self._earlier_sums(v, node, values, tape)
            seeds = _seeds(tape, outputs)
            known = {id(p) for p, s in zip(self._shared[v], summed[len(tape.gated):]) if s is not None}
            recorder.mark()
            received, gradients = self._run_backward(node, tape, values, outputs, seeds, summed)
            recorder.mark()
            self._received.append({leaf: _bytes(g) for leaf, g in zip(_leaves(node, values, tape.gated), received)
                                   if g is not None})
            self._made_of_parameters.append(sum(_bytes(g) for p, g in zip(node.parameters(), gradients)
                                                if g is not None and id(p) not in known))
            del received, gradients
            self._look_at_sharing(v, node, values)
            return outputs

        recorder.mark()
        self._walk("measuring bytes", visit)
        recorder.mark()
        self._measure_expanded(recorder)

    def _measure_expanded(self, recorder: Recorder) -> None:
        """Backwards to which a gradient comes as one number expanded, as that of a sum: some write it out first."""
        expanded = self._sharing.expanded(self._readers, self._received)
        self._again = sorted({self._readers.producers[slot] for slot, _ in expanded})

        def visit(v: int, node: Node, values: List[Any]) -> List[Any]:
            tape = Tape()
            outputs = tape.record(node, values, self.flags(node.inputs, values), self._shared[v])
            if v not in self._again:
                return outputs
            leaves = [(slot, k) for slot, value in zip(node.outputs, outputs) for k in range(len(tensors_of(value)))]
            seeds = [seed.new_ones(()).expand(seed.shape) if leaves[place] in expanded else seed
                     for place, seed in zip(tape.differentiable, _seeds(tape, outputs))]
            summed = self._earlier_sums(v, node, values, tape)
            recorder.mark()
            self._run_backward(node, tape, values, outputs, seeds, summed)
            recorder.mark()
            return outputs

        if self._again:
            self._walk("measuring bytes", visit)

    def _take_sizes(self, v: int, node: Node, values: List[Any], outputs: List[Any], tape: Tape) -> None:
        costs = self.costs[v]
        there = storage_bytes([t for value in values for t in tensors_of(value)] + node.constants)
        made = storage_bytes(tensors_of(outputs))
        costs.output = sum(size for storage, size in made.items() if storage not in there)
        if tape.root is not None:
            saved = storage_bytes(tape.saved_tensors())
            costs.saved = max(1, sum(size for storage, size in saved.items() if storage not in made))
        costs.uses_inputs, costs.uses_output = tape.uses_inputs, tape.uses_outputs
        place = 0
        for slot, value in zip(node.outputs, outputs):
            for leaf, tensor in enumerate(tensors_of(value)):
                self.wanted[slot, leaf] = place in tape.differentiable
                costs.gradient += tensor.numel() * tensor.element_size() * self.wanted[slot, leaf]
                place += 1

    def _earlier_sums(self, v: int, node: Node, values: List[Any], tape: Tape) -> List[Any]:
        """Gradients that other users of the inputs and parameters have left, for the node's backward to add to, where
        backwards run last node first."""
        tensors = [t for value in values for t in tensors_of(value)]
        sums = [None if self._readers.is_first(v, slot) else torch.zeros_like(tensors[place])
                for place, (slot, _) in zip(tape.gated, _leaves(node, values, tape.gated))]
        return sums + [torch.zeros_like(p) if self._last_user[id(p)] > v else None for p in self._shared[v]]

    def _run_backward(self, node: Node, tape: Tape, values: List[Any], outputs: List[Any], seeds: List[Any],
                      summed: List[Any]) -> Tuple[List[Gradient], List[Gradient]]:
        """Gradients of the gated inputs and of the parameters. Takes the seeds and the sums."""
        if tape.root is None:
            return [], []
        tape.seeds.extend(seeds)
        tape.seeds.extend(summed)
        seeds.clear()
        summed.clear()
        return tape.backward(node.parameters(), tensors_of(values), tensors_of(outputs))

    def _look_at_sharing(self, v: int, node: Node, values: List[Any]) -> None:
        tape = Tape()
        outputs = tape.record(node, values, self.flags(node.inputs, values), ())
        seeds = _seeds(tape, outputs)
        held = list(seeds)  # or what is made later could lie where they were
        received, _ = self._run_backward(node, tape, values, outputs, seeds, [None] * len(tape.gated))
        self._sharing.look(_leaves(node, values, tape.gated), received)
        del held

    def take_workspaces(self, recorder: Recorder) -> None:
        segments = recorder.segments()
        first = 5 * len(self.costs) + 1  # segment of those that were measured again
        assert len(segments) == first + 2 * len(self._again)
        for v, costs in enumerate(self.costs):
            forward, save, _, backward = segments[5 * v + 1:5 * v + 5]
            costs.forward_workspace = max(0, forward.peak - forward.start - costs.output)
            costs.save_workspace = max(0, save.peak - save.start - costs.output - costs.saved)
            self._rise.append(backward.peak - backward.start)
        for k, v in enumerate(self._again):
            backward = segments[first + 1 + 2 * k]
            self._rise[v] = max(self._rise[v], backward.peak - backward.start)

    def in_order(self, order: Optional[Sequence[int]]) -> List[_Costs]:
        """With gradients and workspaces of the backwards for one order of them, or for all. Who adds to a gradient has
        a workspace for what it adds; who makes it takes as much, and leaves it."""
        found = [dataclasses.replace(costs, made_by={}) for costs in self.costs]
        readers = Readers(self.graph, order)
        covered = self._sharing.covered(readers)
        for v, costs in enumerate(found):
            costs.backward_workspace = self._rise[v] - self._made_of_parameters[v]
            for leaf, whole in self._received[v].items():
                if not readers.is_first(v, leaf[0]):
                    continue
                counted = 0 if leaf in covered else self._sharing.written(leaf, whole, readers)
                costs.backward_workspace -= counted
                if leaf[0] in readers.producers:
                    maker = found[readers.producers[leaf[0]]]
                    maker.gradient -= whole - counted
                    maker.made_by[v] = maker.made_by.get(v, 0) + counted
        lend(self.graph, readers, found)
        for costs in found:
            costs.backward_workspace = max(0, costs.backward_workspace)
        return found

    # ---- times ----

    def measure_times(self, repeats: int) -> None:
        def visit(v: int, node: Node, values: List[Any]) -> List[Any]:
            forward, backward = [], []
            outputs: List[Any] = []
            for _ in range(repeats + 1):
                with torch.no_grad():
                    begin = self._clock()
                    node.run(values)
                    forward.append(self._clock() - begin)
                tape = Tape()
                outputs = tape.record(node, values, self.flags(node.inputs, values), ())
                seeds, summed = _seeds(tape, outputs), [None] * len(tape.gated)
                begin = self._clock()
                self._run_backward(node, tape, values, outputs, seeds, summed)
                backward.append(self._clock() - begin)
            self.costs[v].forward_time = 1e6 * statistics.median(forward[1:])
            self.costs[v].backward_time = 1e6 * statistics.median(backward[1:])
            return outputs

        self._walk("measuring times", visit)

    def take_times(self, times: Sequence[Tuple[float, float]]) -> None:
        for costs, (forward, backward) in zip(self.costs, times):
            costs.forward_time, costs.backward_time = forward, backward

    def _clock(self) -> float:
        return clock(self.device)


def _listed(by_leaf: Dict[Leaf, Any]) -> List[List[Any]]:
    return [[*leaf, value] for leaf, value in by_leaf.items()]


def _unlisted(listed: List[List[Any]]) -> Dict[Leaf, Any]:
    return {(slot, place): value for slot, place, value in listed}


def clock(device: torch.device) -> float:
    """Seconds. On one CPU thread those in which it ran: other processes do not count."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif torch.get_num_threads() == 1:
        return time.thread_time()
    return time.perf_counter()


def shared_parameters(graph: Graph) -> Set[int]:
    """Identities of the parameters that more than one node uses."""
    seen: Set[int] = set()
    shared: Set[int] = set()
    for node in graph.nodes:
        for parameter in node.parameters():
            (shared if id(parameter) in seen else seen).add(id(parameter))
    return shared


def _detached(value: Any) -> Any:
    return map_tensors(value, torch.Tensor.detach)


def _leaves(node: Node, values: Sequence[Any], places: Sequence[int]) -> List[Leaf]:
    """Of the tensors among a node's inputs, those at the places."""
    found = [(slot, k) for slot, value in zip(node.inputs, values) for k in range(len(tensors_of(value)))]
    return [found[place] for place in places]


def _seeds(tape: Tape, outputs: List[Any]) -> List[Any]:
    tensors = tensors_of(outputs)
    return [torch.ones_like(tensors[place]) for place in tape.differentiable]


# ---- the document ----

def with_parameter_gradients(measured: Measured, graph: Graph) -> Measured:
    """The same, the gradients of the parameters counted, each from the first backward that makes it to the end of the
    step: in the profile the gradient of a graph input of no bytes, one for all parameters that the same nodes use."""
    users: Dict[int, List[int]] = {}
    sizes: Dict[int, int] = {}
    for v, node in enumerate(graph.nodes):
        for parameter in node.parameters():
            users.setdefault(id(parameter), []).append(v)
            sizes[id(parameter)] = _bytes(parameter)

    def for_order(order: Optional[Sequence[int]]) -> Dict[str, Any]:
        position = {v: k for k, v in enumerate(order or range(len(graph.nodes)))}  # the reverse is the worst
        amounts: Dict[Tuple[int, ...], int] = {}
        for key, used_by in users.items():
            apart = sums_late(sorted(used_by, key=position.get))
            for nodes in [(v,) for v in used_by] if apart else [tuple(used_by)]:
                amounts[nodes] = amounts.get(nodes, 0) + sizes[key]
        return _with_inputs(measured.for_order(order), amounts)

    return dataclasses.replace(measured, profile=for_order(plain_order(graph)), for_order=for_order)


def with_loss(measured: Measured, forward: int, backward: int, held: int = 0) -> Measured:
    """The same, with the bytes that the loss and its backward take beside results and gradients of them. The two run
    between the last operation of the forward and the first of the backward, so what the loss keeps is workspace too. What
    stays behind its number to the end of the step is held like the gradient of a parameter."""
    def for_order(order: Optional[Sequence[int]]) -> Dict[str, Any]:
        profile = measured.for_order(order)
        loss = {**profile["nodes"][-1], "forward_workspace_bytes": forward, "save_workspace_bytes": forward,
                "backward_workspace_bytes": backward}
        stays = {(len(profile["nodes"]) - 1,): held} if held else {}
        return _with_inputs({**profile, "nodes": [*profile["nodes"][:-1], loss]}, stays, "behind the loss")

    order = [*range(len(measured.profile["nodes"]) - 1, -1, -1)]
    return dataclasses.replace(measured, profile=for_order(order), for_order=for_order)


def sums_late(order: Sequence[int]) -> bool:
    """Whether the gradients of a parameter, from nodes in the order of their backwards, are kept apart and summed at
    the end. Plain order is last node first. Sums of two are the same either way; of three or more they are not, to the
    bit."""
    return len(order) > 2 and list(order) != sorted(order, reverse=True)


def _with_inputs(profile: Dict[str, Any], amounts: Dict[Tuple[int, ...], int], what: str = "parameters") -> Dict[str, Any]:
    inputs, nodes = list(profile["inputs"]), list(profile["nodes"])
    for k, (used_by, amount) in enumerate(amounts.items()):
        inputs.append({"id": f"{what} {k}", "bytes": 0, "gradient_bytes": amount})
        for v in used_by:
            nodes[v] = {**nodes[v], "inputs": [*nodes[v]["inputs"], f"{what} {k}"]}
    return {**profile, "inputs": inputs, "nodes": nodes}


def _bytes(tensor: torch.Tensor) -> int:
    if tensor.layout == torch.sparse_coo:
        return _bytes(tensor._indices()) + _bytes(tensor._values())
    return tensor.numel() * tensor.element_size()


def find_states(graph: Graph, model: torch.nn.Module,
                device: torch.device) -> Tuple[List[Tuple[str, State]], List[List[str]]]:
    """All states with their ids, and by node the ids of those it reads and writes."""
    paths = {id(module): path for path, module in model.named_modules()}
    names: Dict[int, List[str]] = {}
    modules: Dict[int, torch.nn.Module] = {}
    for node in graph.nodes:
        for key, (module, buffers) in node.changed.items():
            modules[key] = module
            known = names.setdefault(key, [])
            known.extend(name for name in buffers if name not in known)
    states: List[Tuple[str, State]] = []
    if any(node.random for node in graph.nodes):
        states.append((RNG, Generators(device)))
    ids = {key: f"buffers of {paths.get(key, '')}"[:200] for key in modules}
    states += [(ids[key], Buffers(modules[key], names[key])) for key in modules]
    reads = [[RNG] * node.random + [ids[key] for key in node.changed] for node in graph.nodes]
    return states, reads


def _nodes_document(graph: Graph, by_node: List[_Costs], reads: List[List[str]]) -> List[Dict[str, Any]]:
    producers, ids = graph.producers(), {slot: label for label, slot in _labels(graph)}
    ids.update({slot: graph.nodes[v].name for slot, v in producers.items()})
    nodes = [_node_document(node, costs, [ids[slot] for slot in node.inputs], touched)
             for node, costs, touched in zip(graph.nodes, by_node, reads)]
    nodes.append({"id": LOSS, "op": "loss", "inputs": list(dict.fromkeys(ids[s] for s in graph.output_slots())),
                  "forward_time": 0, "backward_time": 0, "output_bytes": 0, "gradient_bytes": 0,
                  "backward_uses_inputs": True, "backward_uses_output": False})
    return nodes


def _labels(graph: Graph) -> List[Tuple[str, int]]:
    """Names and slots of the graph inputs, unlike those of nodes: an argument and a module may have one name."""
    taken = {node.name for node in graph.nodes}
    return [(f"{label} (input)" if label in taken else label, slot) for label, slot in graph.placeholders]


def _input_document(label: str, slot: int, value: Any, wanted: Dict[Leaf, bool]) -> Dict[str, Any]:
    tensors = tensors_of(value)
    return {"id": label, "bytes": sum(storage_bytes(tensors).values()),
            "gradient_bytes": sum(t.numel() * t.element_size() for p, t in enumerate(tensors) if wanted[slot, p])}


def _node_document(node: Node, costs: _Costs, inputs: List[str], touched: List[str]) -> Dict[str, Any]:
    return {"id": node.name, "op": node.op, "inputs": list(dict.fromkeys(inputs)),
            "forward_time": costs.forward_time, "backward_time": costs.backward_time, "output_bytes": costs.output,
            "saved_bytes": costs.saved, "gradient_bytes": costs.gradient,
            "forward_workspace_bytes": costs.forward_workspace, "save_workspace_bytes": costs.save_workspace,
            "backward_workspace_bytes": costs.backward_workspace, "backward_uses_inputs": costs.uses_inputs,
            "backward_uses_output": costs.uses_output, "reads": touched, "writes": touched}
