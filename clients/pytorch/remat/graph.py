"""The captured graph: steps (single calls), and the nodes into which they are grouped.

A *slot* is one value of the program: a placeholder (graph input) or the result of a step. Its value is a tensor, or a
tuple, list or dict of tensors. A *node* is what the schedule speaks of: steps that run together, the slots they read
from outside and the slots they hand on.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

import torch
from torch.utils import _pytree
from torch.utils._pytree import tree_flatten, tree_unflatten

from .autocast import Setting, under
from .errors import MismatchError

Environment = Dict[int, Any]
Leaf = Tuple[int, int]  # a tensor of the program: slot, and its place among the tensors of that slot


@dataclasses.dataclass(frozen=True)
class Slot:
    """Stands in the arguments of a step for the value of a slot."""

    index: int


class Made:
    """Stands in what a model returns for an object of a dataclass: what it is made of."""

    def __init__(self, made: type, parts: Dict[str, Any]) -> None:
        self.made, self.parts = made, parts


# Put together again it is the object.
_register = getattr(_pytree, "register_pytree_node", None) or _pytree._register_pytree_node
_register(Made, lambda value: (list(value.parts.values()), (value.made, list(value.parts))),
          lambda values, context: context[0](**dict(zip(context[1], values))))


@dataclasses.dataclass
class Step:
    """One call. Its result is the value of slot `index`."""

    index: int
    name: str  # path of the module, or name of the operation; unique
    op: str
    call: Callable[..., Any]
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    modules: Tuple[torch.nn.Module, ...] = ()
    grad: bool = True  # False: under a no_grad of the forward
    autocast: Sequence[Setting] = ()  # of the forward, where it is not the one around it
    sizes: Any = None  # of the result, where the forward asked for them and they could be others

    def reads(self) -> List[int]:
        """Slots among the arguments, each once, in order."""
        leaves, _ = tree_flatten((self.args, self.kwargs))
        return list(dict.fromkeys(leaf.index for leaf in leaves if isinstance(leaf, Slot)))

    def constants(self) -> List[torch.Tensor]:
        """Tensors among the arguments: parameters, buffers and constants."""
        leaves, _ = tree_flatten((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def bind(self) -> Callable[[Environment], Any]:
        """The step as a function of the values of the slots."""
        call = self._bind_call()
        if self.grad and not self.autocast and self.sizes is None:
            return call

        def run(environment: Environment) -> Any:
            with torch.set_grad_enabled(self.grad and torch.is_grad_enabled()), under(self.autocast):
                value = call(environment)
            if self.sizes is not None and sizes_of(value) != self.sizes:
                raise MismatchError(f"the result of {self.name} ({self.op}) has sizes {sizes_of(value)}; they were "
                                    f"{self.sizes} when the model was captured, and its forward asks for them")
            return value
        return run

    def _bind_call(self) -> Callable[[Environment], Any]:
        """What is done in every run is as little as can be."""
        leaves, spec = tree_flatten((self.args, self.kwargs))
        call, args, kwargs = self.call, list(self.args), self.kwargs
        places = [(i, arg.index) for i, arg in enumerate(args) if isinstance(arg, Slot)]
        if len(places) < sum(isinstance(leaf, Slot) for leaf in leaves):  # some are within lists, or keywords
            def run_any(environment: Environment) -> Any:
                values = [environment[leaf.index] if isinstance(leaf, Slot) else leaf for leaf in leaves]
                own, named = tree_unflatten(values, spec)
                return call(*own, **named)
            return run_any

        def run(environment: Environment) -> Any:
            own = args.copy()
            for i, slot in places:
                own[i] = environment[slot]
            return call(*own, **kwargs)
        return run


@dataclasses.dataclass
class Node:
    """Steps that run together. `inputs` and `outputs` are slots."""

    name: str
    op: str
    steps: List[Step]
    inputs: List[int]
    outputs: List[int]
    random: bool = False  # draws from the default generators
    # buffers that a run changes: identity of the module -> the module, their names
    changed: Dict[int, Tuple[torch.nn.Module, List[str]]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        last: Dict[int, int] = {}
        for position, step in enumerate(self.steps):
            last[step.index] = position
            for slot in step.reads():
                last[slot] = position
        ends: List[List[int]] = [[] for _ in self.steps]  # slots that nobody reads after the step
        for slot, position in last.items():
            if slot not in self.outputs:
                ends[position].append(slot)
        self._calls = [(step.bind(), step.index, end) for step, end in zip(self.steps, ends)]

    def run(self, values: Sequence[Any]) -> List[Any]:
        """Values of `inputs` in, values of `outputs` out. Nothing else of it stays alive."""
        environment = dict(zip(self.inputs, values))
        for call, index, ends in self._calls:
            environment[index] = call(environment)
            for slot in ends:
                del environment[slot]
        return [environment[slot] for slot in self.outputs]

    def parameters(self) -> List[torch.nn.Parameter]:
        """Trainable parameters that the steps can reach, each once."""
        found: Dict[int, torch.nn.Parameter] = {}
        for step in self.steps:
            candidates = [p for module in step.modules for p in module.parameters()]
            candidates += [t for t in step.constants() if isinstance(t, torch.nn.Parameter)]
            found.update((id(p), p) for p in candidates if p.requires_grad)
        return list(found.values())

    @functools.cached_property
    def constants(self) -> List[torch.Tensor]:
        """Parameters, buffers and constants: alive whatever the schedule does."""
        found = [t for step in self.steps for t in step.constants()]
        for step in self.steps:
            for module in step.modules:
                found += [*module.parameters(), *module.buffers()]
        return found

    @functools.cached_property
    def fixed(self) -> List[torch.Tensor]:
        """Of the constants, those that no forward changes."""
        changing = {id(module._buffers[name]) for module, names in self.changed.values() for name in names}
        return [t for t in self.constants if id(t) not in changing]


@dataclasses.dataclass
class Graph:
    """A program in nodes, in an order in which it can run."""

    placeholders: List[Tuple[str, int]]  # name and slot of the graph inputs that hold tensors
    nodes: List[Node]
    output: Any  # what the model returns, with Slots for values

    def output_slots(self) -> List[int]:
        """Those that nodes make; the rest are graph inputs."""
        return slots_made(self.output, self.placeholders)

    def producers(self) -> Dict[int, int]:
        """Slot -> node."""
        return {slot: v for v, node in enumerate(self.nodes) for slot in node.outputs}


def slots_made(output: Any, placeholders: Sequence[Tuple[str, int]]) -> List[int]:
    given = {slot for _, slot in placeholders}
    leaves, _ = tree_flatten(output)
    return list(dict.fromkeys(leaf.index for leaf in leaves if isinstance(leaf, Slot) and leaf.index not in given))


def tensors_of(value: Any) -> List[torch.Tensor]:
    """The tensors of a value, in order; one that appears twice appears twice."""
    if isinstance(value, torch.Tensor):
        return [value]
    found: List[torch.Tensor] = []
    for leaf in tree_flatten(value)[0]:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif is_made(leaf):
            found += tensors_of([getattr(leaf, field.name) for field in dataclasses.fields(leaf)])
    return found


def is_made(value: Any) -> bool:
    """Whether it is an object of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Slot))


def sizes_of(value: Any) -> List[Tuple[int, ...]]:
    return [tuple(t.shape) for t in tensors_of(value)]


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The value with every tensor replaced."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if is_made(value):
        made = copy.copy(value)
        for field in dataclasses.fields(made):
            object.__setattr__(made, field.name, map_tensors(getattr(value, field.name), change))
        return made
    leaves, spec = tree_flatten(value)
    return tree_unflatten([map_tensors(leaf, change) if isinstance(leaf, torch.Tensor) or is_made(leaf) else leaf
                           for leaf in leaves], spec)


# The untyped storage; renamed in torch 2.0.
bytes_behind = getattr(torch.Tensor, "untyped_storage", None) or torch.Tensor._storage


def storage_of(tensor: torch.Tensor) -> int:
    """Address of the bytes behind a tensor; 0 where there are none."""
    return bytes_behind(tensor).data_ptr()


def storage_bytes(tensors: Iterable[torch.Tensor]) -> Dict[int, int]:
    """Bytes of each storage behind the tensors, aliases counted once."""
    found = {storage_of(t): bytes_behind(t).nbytes() for t in tensors}
    found.pop(0, None)
    return found
