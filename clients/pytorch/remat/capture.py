"""From a module to steps: a Sequential is unrolled, anything else is traced by torch.fx, else by torch.export.

One run of the steps on the example inputs, without gradients, shows what a trace does not say: which results share
storage with which arguments, what is changed in place, who draws random numbers, which values are not tensors at all.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch
import torch.fx

from .effects import Effects, Reads
from .errors import CaptureError, EffectError, UntraceableError
from .exported import export
from .graph import Environment, Made, Slot, Step, storage_of, tensors_of
from .states import Everything, Watch
from .trace import Maker, is_sequential, known, trace, unroll

CONSTANT = -1  # the storage class of parameters, buffers and constants

@dataclasses.dataclass
class Program:
    """Steps in the order of the plain forward, and what was seen of each. Storage classes are numbered; that of a
    placeholder is its slot."""

    placeholders: List[Tuple[str, int]]
    steps: List[Step]
    output: Any
    alone: List[str]  # modules that could not be traced and stay single nodes
    storages: Dict[int, Set[int]] = dataclasses.field(default_factory=dict)  # slot -> storage classes
    owners: Dict[int, int] = dataclasses.field(default_factory=dict)  # storage class -> slot that made it
    mutations: Dict[int, Set[int]] = dataclasses.field(default_factory=dict)  # step -> classes it changes
    random: Set[int] = dataclasses.field(default_factory=set)  # steps that draw random numbers
    buffers: Dict[int, Dict[int, Tuple[torch.nn.Module, List[str]]]] = dataclasses.field(default_factory=dict)
    sizes: Dict[int, int] = dataclasses.field(default_factory=dict)  # slot -> bytes
    reads: Reads = dataclasses.field(default_factory=Reads)  # Python state that the forward reads

    def step_at(self) -> Dict[int, Step]:
        return {step.index: step for step in self.steps}


def capture(model: torch.nn.Module, args: Sequence[Any], kwargs: Dict[str, Any], device: torch.device,
            blocks: Tuple[type, ...] = ()) -> Program:
    """Steps of one forward. The model's buffers and the generators end as they began.

    blocks: classes of modules that stay single nodes. Raises CaptureError naming what cannot be captured.
    """
    bound, effects, before = bind(model, args, kwargs), Effects(model), set(vars(model))
    reason: Optional[UntraceableError] = None
    effects.inputs = {storage_of(t): f"the input \"{name}\"" for name, value in bound.items() for t in tensors_of(value)}
    for name, value in bound.items():
        if name.startswith("*") and value:
            raise CaptureError(f"the forward of {type(model).__name__} takes {name}, and the example has such arguments: "
                               "name them in forward")
    try:
        with Everything(model, device):
            graph, alone, reason = _follow(model, bound, blocks, effects, device)
        with Everything(model, device), effects.watched(), torch.no_grad():
            program = _Observer(model, device, alone, effects).observe(graph, bound)
    except CaptureError as error:
        raise reason or error
    finally:
        for name in set(vars(model)) - before:  # constants, which torch.fx leaves with the model
            delattr(model, name)
    program.reads = effects.reads
    return program


def _follow(model: torch.nn.Module, bound: Dict[str, Any], blocks: Tuple[type, ...], effects: Effects,
            device: torch.device) -> Tuple[torch.fx.Graph, List[str], Optional[UntraceableError]]:
    """The graph, the modules left alone, and why torch.fx could not follow, if it is of torch.export."""
    if is_sequential(model):
        return unroll(model), [], None
    try:
        return (*trace(model, bound, blocks, effects, device), None)
    except EffectError:
        raise
    except UntraceableError as error:
        graph = None if blocks else export(model, bound)  # which knows no modules
        if graph is None:
            raise
        return graph, [], error


def bind(model: torch.nn.Module, args: Sequence[Any], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """Arguments by the name of the parameter of forward; "*name" and "**name" for those that gather what is left."""
    signature = _signature(type(model).forward)
    try:
        bound = signature.bind(model, *args, **kwargs)
    except TypeError as error:
        raise CaptureError(f"{type(model).__name__}: {error}") from error
    bound.apply_defaults()
    return {_STARS.get(signature.parameters[name].kind, "") + name: value
            for name, value in list(bound.arguments.items())[1:]}  # without self


_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_signature = functools.lru_cache(maxsize=None)(inspect.signature)


# ---- watching one run ----

_MODES = {getattr(torch._C, "_set_grad_enabled", None), getattr(torch.amp, "_enter_autocast", None),
          getattr(torch.amp, "_exit_autocast", None), getattr(torch.amp.autocast_mode, "_enter_autocast", None)} - {None}


def _call_method(name: str, owner: Any, *args: Any, **kwargs: Any) -> Any:
    return getattr(owner, name)(*args, **kwargs)


class _Observer:
    def __init__(self, model: torch.nn.Module, device: torch.device, alone: List[str], effects: Effects) -> None:
        self.model, self.device, self.effects = model, device, effects
        self.buffers = {id(buffer): (owner, name) for owner in model.modules()
                        for name, buffer in owner._buffers.items() if buffer is not None}
        self.program = Program([], [], None, alone)
        self.known: Dict[torch.fx.Node, Any] = {}  # constants, and Slots
        self.values: Environment = {}
        self.classes: Dict[int, int] = {}  # address -> storage class, of storages alive

    def observe(self, graph: torch.fx.Graph, bound: Dict[str, Any]) -> Program:
        last = {argument: node for node in graph.nodes for argument in node.all_input_nodes}
        ends: Dict[torch.fx.Node, List[torch.fx.Node]] = {}
        for argument, node in last.items():
            ends.setdefault(node, []).append(argument)
        for index, node in enumerate(graph.nodes):
            self._visit(index, node, bound)
            for argument in ends.get(node, ()):
                slot = self.known[argument]
                if isinstance(slot, Slot):
                    self.values.pop(slot.index, None)
        changing = {id(owner._buffers[name]): name for changed in self.program.buffers.values()
                    for owner, names in changed.values() for name in names}
        for step in self.program.steps:
            found = [changing[id(t)] for t in step.constants() if id(t) in changing]
            if found and step.index not in self.program.buffers:
                raise CaptureError(f"{step.name} ({step.op}) reads the buffer \"{found[0]}\", which another operation "
                                   "changes; give the module around both in blocks=")
        return self.program

    def _visit(self, index: int, node: torch.fx.Node, bound: Dict[str, Any]) -> None:
        if node.op == "placeholder":
            self._placeholder(index, node, bound)
        elif node.op == "get_attr":
            self.known[node] = functools.reduce(getattr, node.target.split("."), self.model)
        elif isinstance(node.target, Maker):
            self.known[node] = Made(node.target.made, {k: self._plain(v, node.name) for k, v in node.kwargs.items()})
        elif node.op == "output":
            self.program.output = self._plain(node.args[0], "output")
        else:
            self._step(index, node)

    def _placeholder(self, index: int, node: torch.fx.Node, bound: Dict[str, Any]) -> None:
        name = node.target
        value = bound[name]
        self.known[node] = Slot(index)
        self.values[index] = value
        self.program.placeholders.append((name, index))
        self.program.storages[index] = {index}
        self.program.owners[index] = index

    def _plain(self, argument: Any, name: str) -> Any:
        """An argument of fx with Slots and constants for its nodes, in plain containers."""
        if isinstance(argument, torch.fx.Node):
            return self.known[argument]
        if isinstance(argument, slice):
            parts = [self._plain(part, name) for part in (argument.start, argument.stop, argument.step)]
            if any(isinstance(part, Slot) for part in parts):
                raise CaptureError(f"{name}: a slice bound is a tensor; its value depends on data")
            return slice(*parts)
        if isinstance(argument, dict):
            return {key: self._plain(part, name) for key, part in argument.items()}
        if isinstance(argument, tuple) and hasattr(argument, "_fields"):
            return type(argument)(*(self._plain(part, name) for part in argument))
        if isinstance(argument, (list, tuple)):
            parts = [self._plain(part, name) for part in argument]
            return tuple(parts) if isinstance(argument, tuple) else parts
        return argument

    def _make(self, index: int, node: torch.fx.Node) -> Step:
        modules: Tuple[torch.nn.Module, ...] = ()
        name, call = node.name, node.target
        if node.op == "call_module":
            call = self.model.get_submodule(node.target)
            modules, name = (call,), node.target
        elif node.op == "call_method":
            call = functools.partial(_call_method, node.target)
        op = type(call).__name__ if modules else getattr(node.target, "__name__", str(node.target))
        args = tuple(self._plain(argument, name) for argument in node.args)
        kwargs = {key: self._plain(argument, name) for key, argument in node.kwargs.items()}
        meta = node.meta
        return Step(index, name, op, call, args, kwargs, modules, meta.get("grad", True), meta.get("autocast", ()),
                    meta.get("sizes"))

    def _step(self, index: int, node: torch.fx.Node) -> None:
        if node.target in _MODES:
            raise CaptureError(f"the forward calls {node.target.__name__}, which torch.export does not keep in its place")
        step = self._make(index, node)
        arguments = [t for slot in step.reads() for t in tensors_of(self.values[slot])] + step.constants()
        versions = [t._version for t in arguments]
        addresses = self._addresses(step)
        watch = Watch(self.device, self._buffers_of(step))
        self.effects.within += bool(step.modules)
        value = step.bind()(self.values)
        self.effects.within -= bool(step.modules)
        if not tensors_of(value):
            self._constant(step, node, value)
            return
        changed = {addresses[storage_of(t)] for t, v in zip(arguments, versions) if t._version != v}
        self._record(step, value, changed, addresses)
        moved, buffers = watch.changed()
        if moved:
            self.program.random.add(index)
        if buffers:
            self.program.buffers[index] = buffers
        self.known[node] = Slot(index)
        self.values[index] = value

    def _buffers_of(self, step: Step) -> List[Tuple[torch.nn.Module, str]]:
        """Those that the step can change: its modules', and those that it is called with."""
        within = [(owner, name) for module in step.modules for owner in module.modules()
                  for name, buffer in owner._buffers.items() if buffer is not None]
        return within + [self.buffers[id(t)] for t in step.constants() if id(t) in self.buffers]

    def _addresses(self, step: Step) -> Dict[int, int]:
        """Address -> storage class of what the step can reach."""
        constants = step.constants()
        for module in step.modules:
            constants += [*module.parameters(), *module.buffers()]
        found = {storage_of(t): CONSTANT for t in constants}
        for slot in step.reads():
            for tensor in tensors_of(self.values[slot]):
                found.setdefault(storage_of(tensor), self.classes.get(storage_of(tensor), slot))
        found.pop(0, None)
        return {**found, 0: CONSTANT}

    def _constant(self, step: Step, node: torch.fx.Node, value: Any) -> None:
        if step.reads() and not known(node.op, node.target, step.args):
            raise CaptureError(f"{step.name} ({step.op}) turns tensors into {type(value).__name__}, which depends on "
                               f"data or cannot be followed{node.meta.get('line', '')}; give the module around it in "
                               "blocks=")
        self.known[node] = value

    def _record(self, step: Step, value: Any, changed: Set[int], addresses: Dict[int, int]) -> None:
        program = self.program
        program.steps.append(step)
        for name, slot in program.placeholders:
            if slot in changed:
                raise CaptureError(f"{step.name} ({step.op}) changes the graph input \"{name}\" in place, so nothing "
                                   "after it can be recomputed; use the operation that is not in place")
        if CONSTANT in changed:
            raise CaptureError(f"{step.name} ({step.op}) changes a parameter, buffer or constant in place; do it in a "
                               "module that is a single node (blocks=)")
        if changed:
            program.mutations[step.index] = changed
        classes: Set[int] = set()
        for tensor in tensors_of(value):
            address = storage_of(tensor)
            if address not in addresses:
                addresses[address] = step.index
                self.classes[address] = step.index
                program.owners[step.index] = step.index
            classes.add(addresses[address])
        program.storages[step.index] = classes
        program.sizes[step.index] = sum(t.numel() * t.element_size() for t in tensors_of(value))
