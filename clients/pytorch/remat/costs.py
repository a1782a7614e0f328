"""The costs of every node, measured on the user's device: a profile in the format remat-profile/1."""

from __future__ import annotations

import collections
import dataclasses
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch

from .graph import Environment, Graph, Leaf, Node, map_tensors, storage_bytes, tensors_of
from .memory import Recorder
from .states import RNG, Buffers, Everything, Generators, State, state_bytes
from .tape import Tape

LOSS = "<loss>"  # the artificial sink: its backward seeds the gradients of the model's outputs


@dataclasses.dataclass
class Measured:
    """What the executor must know beside the graph."""

    profile: Dict[str, Any]
    states: List[State]  # in the order of the profile's states
    wanted: Dict[Leaf, bool]  # tensors that have a gradient


@dataclasses.dataclass
class _Costs:
    """One node, in bytes and microseconds."""

    output: int = 0
    saved: int = 0
    gradient: int = 0
    forward_workspace: int = 0
    save_workspace: int = 0
    backward_workspace: int = 0
    uses_inputs: bool = False
    uses_output: bool = False
    forward_time: float = 0.0
    backward_time: float = 0.0


def measure(graph: Graph, model: torch.nn.Module, inputs: Environment, device: torch.device, name: str,
            repeats: int = 3, times: Optional[List[Tuple[float, float]]] = None) -> Measured:
    """Profiles a graph. inputs: values of the placeholders. The model's buffers and the generators end as they began.
    times: forward and backward by node, in microseconds, where they are known.

    Times are medians of `repeats` runs after one that warms up. saved_bytes of a node with a backward is at least 1:
    its piece of the autograd graph, which only a save-all forward makes.
    """
    meter = _Meter(graph, inputs, device)
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
    states, reads = find_states(graph, model, device)
    return Measured(_document(graph, meter, inputs, states, reads, device, name), [s for _, s in states], meter.wanted)


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
        self._retained: List[int] = []  # by node: bytes that B leaves, those of the gradients it makes
        self._last_user = {id(p): v for v, node in enumerate(graph.nodes) for p in node.parameters()}
        self._readers = collections.Counter(slot for node in graph.nodes for slot in node.inputs)
        self._last_reader = {slot: v for v, node in enumerate(graph.nodes) for slot in node.inputs}

    def _walk(self, visit: Callable[[int, Node, List[Any]], List[Any]]) -> None:
        """Visits the nodes with the values of their inputs; visit returns those of their outputs."""
        environment = {slot: _detached(value) for slot, value in self.inputs.items()}
        keep = set(self.inputs)
        for v, node in enumerate(self.graph.nodes):
            outputs = visit(v, node, [environment[slot] for slot in node.inputs])
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
            recorder.mark()
            kept = self._run_backward(node, tape, values, outputs, seeds, summed, self._shared[v])
            recorder.mark()
            self._retained.append(sum(t.numel() * t.element_size() for t in kept))
            return outputs

        recorder.mark()
        self._walk(visit)
        recorder.mark()

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
        """Gradients that other users of the inputs and parameters have left, for the node's backward to add to. Which
        reader of a value runs backward first is the schedule's choice: all are measured as if another had. Parameters
        are shared by parts that follow each other: there the last user is the first."""
        slots = [slot for slot, value in zip(node.inputs, values) for _ in tensors_of(value)]
        tensors = [t for value in values for t in tensors_of(value)]
        sums = [torch.zeros_like(tensors[p]) if self._readers[slots[p]] > 1 else None for p in tape.gated]
        return sums + [torch.zeros_like(p) if self._last_user[id(p)] > v else None for p in self._shared[v]]

    def _run_backward(self, node: Node, tape: Tape, values: List[Any], outputs: List[Any], seeds: List[Any],
                      summed: List[Any], shared: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """Gradients that were not there before."""
        if tape.root is None:
            return []
        tape.seeds.extend(seeds)
        tape.seeds.extend(summed)
        there = [gradient is not None for gradient in summed]
        seeds.clear()
        summed.clear()
        parameters = node.parameters()
        received, gradients = tape.backward(parameters, tensors_of(values), tensors_of(outputs))
        summed_up = {id(p) for p, known in zip(shared, there[len(received):]) if known}
        made = [g for g, known in zip(received, there) if not known]
        made += [g for p, g in zip(parameters, gradients) if id(p) not in summed_up]
        return [g for g in made if g is not None]

    def take_workspaces(self, recorder: Recorder) -> None:
        segments = recorder.segments()
        assert len(segments) == 5 * len(self.costs) + 1
        for v, costs in enumerate(self.costs):
            forward, save, _, backward = segments[5 * v + 1:5 * v + 5]
            costs.forward_workspace = max(0, forward.peak - forward.start - costs.output)
            costs.save_workspace = max(0, save.peak - save.start - costs.output - costs.saved)
            costs.backward_workspace = max(0, backward.peak - backward.start - self._retained[v])

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
                self._run_backward(node, tape, values, outputs, seeds, summed, ())
                backward.append(self._clock() - begin)
            self.costs[v].forward_time = 1e6 * statistics.median(forward[1:])
            self.costs[v].backward_time = 1e6 * statistics.median(backward[1:])
            return outputs

        self._walk(visit)

    def take_times(self, times: Sequence[Tuple[float, float]]) -> None:
        for costs, (forward, backward) in zip(self.costs, times):
            costs.forward_time, costs.backward_time = forward, backward

    def _clock(self) -> float:
        return clock(self.device)


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


def _seeds(tape: Tape, outputs: List[Any]) -> List[Any]:
    tensors = tensors_of(outputs)
    return [torch.ones_like(tensors[place]) for place in tape.differentiable]


# ---- the document ----

def with_parameter_gradients(measured: Measured, graph: Graph) -> Measured:
    """The same, the gradients of the parameters counted, each from the first backward that makes it to the end of the
    step: in the profile the gradient of a graph input of no bytes, one for all parameters that the same nodes use."""
    users: Dict[int, List[int]] = {}
    parameters: Dict[int, torch.Tensor] = {}
    for v, node in enumerate(graph.nodes):
        for parameter in node.parameters():
            users.setdefault(id(parameter), []).append(v)
            parameters[id(parameter)] = parameter
    amounts: Dict[Tuple[int, ...], int] = {}
    for key, used_by in users.items():
        amounts[tuple(used_by)] = amounts.get(tuple(used_by), 0) + _bytes(parameters[key])
    inputs, nodes = list(measured.profile["inputs"]), list(measured.profile["nodes"])
    for k, (used_by, amount) in enumerate(amounts.items()):
        inputs.append({"id": f"parameters {k}", "bytes": 0, "gradient_bytes": amount})
        for v in used_by:
            nodes[v] = {**nodes[v], "inputs": [*nodes[v]["inputs"], f"parameters {k}"]}
    return dataclasses.replace(measured, profile={**measured.profile, "inputs": inputs, "nodes": nodes})


def _bytes(tensor: torch.Tensor) -> int:
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


def _document(graph: Graph, meter: _Meter, inputs: Environment, states: List[Tuple[str, State]],
              reads: List[List[str]], device: torch.device, name: str) -> Dict[str, Any]:
    producers, ids = graph.producers(), {slot: label for label, slot in graph.placeholders}
    ids.update({slot: graph.nodes[v].name for slot, v in producers.items()})
    nodes = [_node_document(node, costs, [ids[slot] for slot in node.inputs], touched)
             for node, costs, touched in zip(graph.nodes, meter.costs, reads)]
    nodes.append({"id": LOSS, "op": "loss", "inputs": list(dict.fromkeys(ids[s] for s in graph.output_slots())),
                  "forward_time": 0, "backward_time": 0, "output_bytes": 0, "gradient_bytes": 0,
                  "backward_uses_inputs": True, "backward_uses_output": False})
    return {"format": "remat-profile/1", "name": name[:200], "time_unit": "us",
            "source": {"framework": f"pytorch {torch.__version__}", "device": str(device),
                       "note": "measured by remat.profile"},
            "inputs": [_input_document(label, slot, inputs[slot], meter.wanted)
                       for label, slot in graph.placeholders],
            "states": [{"id": key, "bytes": state_bytes(state.save())} for key, state in states], "nodes": nodes}


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
