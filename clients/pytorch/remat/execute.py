"""Runs a schedule inside autograd: to the user's code the whole graph is one differentiable function."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_flatten, tree_unflatten

from .autocast import Autocast
from .graph import Environment, Graph, Leaf, Slot, bytes_behind, map_tensors, storage_of, tensors_of
from .offload import Host
from .plan import INPUT, OUT, SAVED, Operation, Plan
from .costs import shared_parameters, sums_late
from .states import State
from .tape import Gradient, Tape, anchors, changed_in_place, once, own

Observer = Callable[[Operation], None]


class Program:
    """A graph with its plan: what is the same in every step."""

    def __init__(self, graph: Graph, states: Sequence[State], wanted: Dict[Leaf, bool], plan: Plan,
                 device: torch.device, changed: Callable[[], str]) -> None:
        """changed: what of Python that the graph reads is not as it was, in words; asked before anything of the
        forward is computed again."""
        self.graph, self.plan, self.device, self.changed = graph, plan, device, changed
        self.places = {slot: (OUT, v) for slot, v in graph.producers().items()}
        self.places.update((slot, (INPUT, k)) for k, (_, slot) in enumerate(graph.placeholders))
        self.read_by_nodes = {slot for node in graph.nodes for slot in node.inputs}
        self.states, self.wanted = states, wanted
        self.loss = len(graph.nodes)
        counts: Dict[int, int] = {}
        for slot, place in self.wanted:
            counts[slot] = max(counts.get(slot, 0), place + 1)
        self.inputs = [[(slot, p) for slot in node.inputs for p in range(counts[slot])] for node in graph.nodes]
        self.outputs = [[(slot, p) for slot in node.outputs for p in range(counts[slot])] for node in graph.nodes]
        self.flags = [[self.wanted[leaf] for leaf in leaves] for leaves in self.inputs]
        self.parameters = [node.parameters() for node in graph.nodes]
        shared = shared_parameters(graph)
        self.deferred = _out_of_order(plan, self.parameters, shared, self.loss)
        shared -= self.deferred
        self.shared = [[p for p in parameters if id(p) in shared] for parameters in self.parameters]
        self.all_parameters = list({id(p): p for parameters in self.parameters for p in parameters}.values())
        self.input_leaves = [(slot, p) for _, slot in graph.placeholders for p in range(counts[slot])
                             if self.wanted[slot, p]]
        self.output_leaves = [(slot, p) for slot in graph.output_slots() for p in range(counts[slot])]
        self.ends = [leaf for leaf in self.output_leaves if self.wanted[leaf]]
        again = sorted({o.index for o in plan.backward if o.kind in ("F", "A") and o.index != self.loss})
        self.reads_again = bool(again)
        self.read_again = [(t, graph.nodes[v].name) for v in again for t in graph.nodes[v].fixed]

    def __call__(self, values: Environment, observer: Optional[Observer] = None) -> Any:
        """One forward. values: of the placeholders. Returns what the model returns."""
        run = _Run(self, {slot: map_tensors(value, torch.Tensor.detach) for slot, value in values.items()}, observer)
        tensors = {slot: tensors_of(value) for slot, value in values.items()}
        given = [*(tensors[slot][p] for slot, p in self.input_leaves), *self.all_parameters]
        outputs = _Region.apply(run, anchors(given), *given)
        results = dict(zip(self.output_leaves, outputs))
        if self.ends:
            results.update(zip(self.ends, _Ends.apply(run.arrived, *(results[leaf] for leaf in self.ends))))
        return _rebuild(self.graph.output, run.structures, results, values)


def _rebuild(output: Any, structures: Dict[int, Any], tensors: Dict[Leaf, torch.Tensor], given: Environment) -> Any:
    """The model's result: its Slots replaced by their values, and tensors in these by those that have a gradient; graph
    inputs are returned as they were given."""
    leaves, spec = tree_flatten(output)
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Slot) and leaf.index in given:
            leaves[i] = given[leaf.index]
        elif isinstance(leaf, Slot):
            parts, inner = structures[leaf.index]
            leaves[i] = _fill(parts, inner, [tensors[leaf.index, p] for p in range(_count(parts))])
    return tree_unflatten(leaves, spec)


def _versions(value: Any) -> List[int]:
    return [t._version for t in tensors_of(value)]


def _out_of_order(plan: Plan, parameters: Sequence[Sequence[torch.Tensor]], shared: Set[int], loss: int) -> Set[int]:
    """Shared parameters whose nodes' backwards do not run in the order of a plain backward."""
    order: Dict[int, List[int]] = {key: [] for key in shared}
    for operation in plan.backward:
        if operation.kind == "B" and operation.index != loss:
            for parameter in parameters[operation.index]:
                if id(parameter) in shared:
                    order[id(parameter)].append(operation.index)
    return {key for key, nodes in order.items() if sums_late(nodes)}


class _Ends(torch.autograd.Function):
    """Takes the gradients of the outputs and sends on empty ones: autograd holds what it hands to a function until that
    function returns, which would be the whole backward."""

    @staticmethod
    def forward(ctx: Any, arrived: List[Gradient], *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.arrived = arrived
        ctx.set_materialize_grads(False)
        return tuple([tensor.detach() for tensor in tensors])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Gradient) -> Tuple[Gradient, ...]:
        ctx.arrived[:] = gradients
        return (None, *(None if g is None else g.new_empty(()).expand(g.shape) for g in gradients))


class _Region(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: "_Run", sources: Sequence[torch.Tensor], *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.run, ctx.sources = run, sources
        ctx.set_materialize_grads(False)
        outputs = run.forward()
        wanted = run.program.wanted
        ctx.mark_non_differentiable(*(t for leaf, t in zip(run.program.output_leaves, outputs) if not wanted[leaf]))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *_: Gradient) -> Tuple[Gradient, ...]:
        run, ctx.run = ctx.run, None
        if run is None:
            raise RuntimeError("remat: backward a second time through one forward; a schedule frees what it has used")
        with torch.no_grad():
            gradients = run.backward()
        return (None, None, *once(gradients, ctx.sources))


class _Run:
    """One step: what is alive between its operations."""

    def __init__(self, program: Program, values: Environment, observer: Optional[Observer]) -> None:
        self.program, self.values, self.observer = program, values, observer
        self.tapes: Dict[int, Tape] = {}
        self.arrived: List[Gradient] = []  # of the differentiable outputs
        self.gradients: Dict[Leaf, Gradient] = {}
        self.totals: Dict[int, Gradient] = {}  # gradients of parameters, by identity
        self.parts: Dict[int, List[Tuple[int, torch.Tensor]]] = {}  # of deferred sums: node and gradient
        self.versions: Dict[Tuple[int, int], List[torch.Tensor]] = {}  # of states
        self.at_split: Dict[int, List[torch.Tensor]] = {}
        self.structures: Dict[int, Any] = {}  # of the outputs
        self.host: Optional[Host] = None
        self.templates: Dict[Tuple[str, int], List[Any]] = {}  # of what is on the host
        self.autocast = Autocast(program.device)
        self.given = {storage_of(t) for value in values.values() for t in tensors_of(value)}
        self.seen = {slot: _versions(value) for slot, value in values.items()}  # of what the user holds too
        self.constants = [tensor._version for tensor, _ in program.read_again]

    # ---- the two parts ----

    def forward(self) -> List[torch.Tensor]:
        plan, states = self.program.plan, self.program.states
        last: Dict[int, List[torch.Tensor]] = {}
        with self.autocast.again():
            for operation in plan.forward:
                self._do(operation)
                if plan.final and operation.kind in ("F", "A") and operation.index < self.program.loss:
                    last.update((k, states[k].save()) for k, version in plan.written[operation.index]
                                if plan.final.get(k) == version and k not in last)
        self.at_split = {k: states[k].save() for k in plan.at_split}
        for k, saved in last.items():
            states[k].restore(saved)
        return self._results()

    def backward(self) -> List[Gradient]:
        program = self.program
        self._check_unchanged()
        self.gradients.update((leaf, own(g)) for leaf, g in zip(program.ends, self.arrived) if g is not None)
        self.arrived.clear()
        before = {k: program.states[k].save() for k in program.plan.touched}
        try:
            for k in list(self.at_split):
                program.states[k].restore(self.at_split.pop(k))
            with self.autocast.again():
                for operation in program.plan.backward:
                    self._do(operation)
        finally:
            for k, saved in before.items():
                program.states[k].restore(saved)
        for key in list(self.parts):
            parts = sorted(self.parts.pop(key), key=lambda part: -part[0])
            self.totals[key] = functools.reduce(torch.add, [gradient for _, gradient in parts])
        inputs = [self.gradients.pop(leaf, None) for leaf in program.input_leaves]
        return inputs + [self.totals.pop(id(p), None) for p in program.all_parameters]

    def _results(self) -> List[torch.Tensor]:
        results: List[torch.Tensor] = []
        for slot in self.program.graph.output_slots():
            value = self.values[slot]
            self.structures[slot] = _template(value)
            self.seen[slot] = _versions(value)
            results += [t.detach() for t in tensors_of(value)]
        return [t.clone() if t.dim() == 0 and self._is_behind(t, results) else t for t in results]

    def _is_behind(self, number: torch.Tensor, results: List[torch.Tensor]) -> bool:
        """Whether bytes that nobody else looks into lie behind a result, which the user would hold for all of the backward:
        such as those of which a mean was made in place."""
        storage = storage_of(number)
        return (bytes_behind(number).nbytes() > number.element_size() and storage not in self.given
                and sum(storage_of(t) == storage for t in results) == 1)

    def _check_unchanged(self) -> None:
        """What the backward reads must be what the forward saw, as in a plain step."""
        graph = self.program.graph
        used = {slot: f"the graph input \"{name}\"" for name, slot in graph.placeholders}
        for v, node in enumerate(graph.nodes):
            reads_own = v in self.tapes and self.tapes[v].uses_outputs
            used.update((slot, f"the output of \"{node.name}\"") for slot in node.outputs
                        if reads_own or slot in self.program.read_by_nodes)
        for slot, seen in self.seen.items():
            if slot in self.values and slot in used and _versions(self.values[slot]) != seen:
                raise changed_in_place(used[slot])
        changed = self.program.changed() if self.program.reads_again else ""
        if changed:
            raise changed_in_place(changed)
        for (tensor, name), version in zip(self.program.read_again, self.constants):
            if tensor._version != version:
                raise changed_in_place(f"a parameter or buffer of \"{name}\", which is computed again,")

    # ---- operations ----

    def _do(self, operation: Operation) -> None:
        if self.observer is not None:
            self.observer(operation)
        kind, index = operation.kind, operation.index
        if kind in "FAB" and index == self.program.loss:
            return  # the loss is the user's: its gradients are there
        if kind == "F":
            self._forward(index)
        elif kind == "A":
            self._forward_and_save(index)
        elif kind == "B":
            self._backward(index)
        elif kind == "D":
            self._drop(operation)
        elif kind == "O":
            self._to_host(operation)
        elif kind == "P":
            self._to_device(operation)
        elif kind == "S":
            self.versions[index, operation.version] = self.program.states[index].save()
        else:
            take = self.versions.pop if operation.last else self.versions.get
            self.program.states[index].restore(take((index, operation.version)))

    def _read(self, v: int) -> List[Any]:
        """Values of a node's inputs."""
        slots, values = self.program.graph.nodes[v].inputs, self.values
        if self.host is not None:
            for slot in slots:
                self.host.arrive(self.program.places[slot])
        return [values[slot] for slot in slots]

    def _forward(self, v: int) -> None:
        node = self.program.graph.nodes[v]  # grad is off in both parts of the Region
        outputs = node.run(self._read(v))
        self.values.update(zip(node.outputs, [map_tensors(value, torch.Tensor.detach) for value in outputs]))

    def _forward_and_save(self, v: int) -> None:
        node, tape = self.program.graph.nodes[v], Tape()
        outputs = tape.record(node, self._read(v), self.program.flags[v], self.program.shared[v])
        self.values.update(zip(node.outputs, outputs))
        self.tapes[v] = tape

    def _backward(self, v: int) -> None:
        program, node = self.program, self.program.graph.nodes[v]
        tape = self.tapes.pop(v, None)
        if tape is None or tape.root is None:
            return  # nothing in it has a gradient
        inputs, outputs, shared = program.inputs[v], program.outputs[v], program.shared[v]
        if all(outputs[place] not in self.gradients for place in tape.differentiable):
            return  # the loss does not depend on it
        tape.seeds.extend(self.gradients.pop(outputs[place], None) for place in tape.differentiable)
        tape.seeds.extend(self.gradients.pop(inputs[place], None) for place in tape.gated)
        tape.seeds.extend(self.totals.pop(id(p), None) for p in shared)
        if self.host is not None:
            self.host.leave((SAVED, v))
            self.host.arrive((OUT, v))
        there = [t for value in self._read(v) for t in tensors_of(value)] if tape.uses_inputs else ()
        made = [t for slot in node.outputs for t in tensors_of(self.values[slot])] if tape.uses_outputs else ()
        received, gradients = tape.backward(program.parameters[v], there, made)
        for place, gradient in zip(tape.gated, received):
            if gradient is not None:
                self.gradients[inputs[place]] = gradient
        for parameter, gradient in zip(program.parameters[v], gradients):
            if gradient is not None and id(parameter) in program.deferred:
                self.parts.setdefault(id(parameter), []).append((v, gradient))
            elif gradient is not None:
                self.totals[id(parameter)] = gradient

    def _drop(self, operation: Operation) -> None:
        key = (operation.target, operation.index)
        if self.host is not None:
            self.host.leave(key)
        if operation.target == SAVED:
            if self.host is not None and key in self.host:
                self.tapes[operation.index].empty()
            else:
                self.tapes.pop(operation.index, None)
        else:
            for slot in self._slots(operation):
                del self.values[slot]

    def _slots(self, operation: Operation) -> List[int]:
        graph = self.program.graph
        if operation.target == INPUT:  # one after the placeholders stands for parameters
            return [slot for _, slot in graph.placeholders[operation.index:operation.index + 1]]
        return graph.nodes[operation.index].outputs if operation.index < self.program.loss else []

    def _content(self, operation: Operation) -> List[torch.Tensor]:
        if operation.target == SAVED:
            return self.tapes[operation.index].saved_tensors()
        return [t for slot in self._slots(operation) for t in tensors_of(self.values[slot])]

    def _to_host(self, operation: Operation) -> None:
        if self.host is None:
            self.host = Host(self.program.device)
        key = (operation.target, operation.index)
        self.host.store(key, self._content(operation))
        if operation.target != SAVED:
            self.templates[key] = [_template(self.values[slot]) for slot in self._slots(operation)]

    def _to_device(self, operation: Operation) -> None:
        key = (operation.target, operation.index)
        tensors = self.host.fetch(key)
        if operation.target == SAVED:
            self.tapes[operation.index].fill(tensors)
            return
        for slot, (parts, spec) in zip(self._slots(operation), self.templates[key]):
            own, tensors = tensors[:_count(parts)], tensors[_count(parts):]
            self.values[slot] = _fill(parts, spec, own)


# ---- values taken apart: the places of tensors, and the rest as it is ----

def _template(value: Any) -> Tuple[List[Any], Any]:
    """Leaves, with the place of each tensor, or a tuple of the one leaf that is none; and the structure."""
    leaves, spec = tree_flatten(value)
    places = iter(range(len(leaves)))
    return [next(places) if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves], spec


def _count(parts: List[Any]) -> int:
    return sum(isinstance(part, int) for part in parts)


def _fill(parts: List[Any], spec: Any, tensors: Sequence[torch.Tensor]) -> Any:
    return tree_unflatten([tensors[part] if isinstance(part, int) else part[0] for part in parts], spec)
