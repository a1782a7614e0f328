"""One node's piece of the autograd graph, which keeps alive only what belongs to saved(v).

Autograd holds on to inputs and outputs in three ways: a leaf holds its value, and an operation saves values for its
backward, among them inputs and outputs of the node. A schedule may drop those and make them again. So

- inputs enter through a Gate, which remembers no value and hands the gradients out;
- outputs leave through a Root, which remembers none either and hands the seeds in;
- hooks on saved tensors replace whatever lies in the storage of an input or output by its geometry. It is looked up
  again when the backward reads it.

The Root also passes the gradients summed so far of the inputs and of shared parameters. It is the first to run in the
backward, so later consumers are added first: the order, and with it the bits, of a plain backward.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from .graph import Node, bytes_behind, map_tensors, storage_of, tensors_of

Gradient = Optional[torch.Tensor]


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, received: List[Gradient], anchor: torch.Tensor, *values: torch.Tensor):
        ctx.received = received
        ctx.set_materialize_grads(False)
        return tuple([value.detach() for value in values])

    @staticmethod
    def backward(ctx: Any, *gradients: Gradient):
        ctx.received.extend(map(own, gradients))
        return (None,) * (2 + len(gradients))


def own(gradient: Gradient) -> Gradient:
    """The gradient without what it is a view of, or autograd could not add to it in place; a copy where it is a part of
    more, such as of a concatenation's, that it would keep alive."""
    if gradient is None or gradient.layout != torch.strided:
        return gradient
    whole = bytes_behind(gradient).nbytes()
    return gradient.clone() if whole > gradient.numel() * gradient.element_size() else gradient.detach()


@contextlib.contextmanager
def grads_aside(leaves: Iterable[torch.Tensor]) -> Iterator[None]:
    """Around torch.autograd.grad, which before torch 2 also adds to the .grad of a leaf by which a view was changed in
    place."""
    held = [(t, t.grad) for t in leaves if t.is_leaf] if _ADDS else []
    for leaf, _ in held:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, gradient in held:
            leaf.grad = gradient


_ADDS = int(torch.__version__.split(".")[0]) < 2


class _Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, seeds: List[Gradient], *tensors: torch.Tensor) -> torch.Tensor:
        ctx.seeds = seeds
        return tensors[0].new_empty(0, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor):
        seeds = tuple(ctx.seeds)
        ctx.seeds.clear()
        return (None, *seeds)


def changed_in_place(what: str) -> RuntimeError:
    return RuntimeError(f"remat: {what} was changed between forward and backward")


class _Geometry:
    """Where a saved tensor lies in the storage of an input or output."""

    __slots__ = ("output", "place", "size", "stride", "offset")

    def __init__(self, output: bool, place: int, tensor: torch.Tensor) -> None:
        self.output, self.place = output, place
        self.size, self.stride, self.offset = tensor.size(), tensor.stride(), tensor.storage_offset()


class _Cell:
    """What a saved-tensor hook hands to autograd: the tensor itself, or its geometry. version: of a tensor that must
    not change until the backward reads it."""

    __slots__ = ("content", "version")

    def __init__(self, content: Any, version: Optional[int] = None) -> None:
        self.content, self.version = content, version


class _Sources:
    """Tensors in which geometries are looked up; filled while a backward runs."""

    __slots__ = ("inputs", "outputs")

    def __init__(self) -> None:
        self.inputs: Sequence[torch.Tensor] = ()
        self.outputs: Sequence[torch.Tensor] = ()


def _look_up(geometry: _Geometry, sources: _Sources) -> torch.Tensor:
    source = (sources.outputs if geometry.output else sources.inputs)[geometry.place]
    return source.detach().as_strided(geometry.size, geometry.stride, geometry.offset)


def _places(tensors: Sequence[torch.Tensor]) -> Dict[int, int]:
    """By address: the first tensor whose bytes are there."""
    places = {storage_of(tensor): place for place, tensor in reversed(list(enumerate(tensors)))}
    places.pop(0, None)
    return places


class Tape:
    """saved(v): made by record(), used once by backward()."""

    def __init__(self) -> None:
        self.root: Optional[torch.Tensor] = None  # None: nothing in the node has a gradient
        self.cells: List[_Cell] = []
        self.uses_inputs = False
        self.uses_outputs = False
        self.differentiable: List[int] = []  # places of the output tensors that have a gradient
        self.gated: List[int] = []  # places of the input tensors that have one
        self.seeds: List[Gradient] = []
        self._received: List[Gradient] = []
        self._anchor: List[torch.Tensor] = []  # the one leaf behind the Gate, if there is one
        self._sources = _Sources()

    # ---- forward ----

    def record(self, node: Node, values: Sequence[Any], wanted: Sequence[bool],
               shared: Sequence[torch.Tensor]) -> List[Any]:
        """Runs the node with grad enabled. Returns its outputs, cut from the graph.

        values: of the node's inputs; wanted: for each of their tensors, whether it has a gradient;
        shared: parameters whose gradients are passed on from node to node.
        """
        tensors = [t for value in values for t in tensors_of(value)]
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack(tensors, node), self._unpack())
        with torch.enable_grad(), hooks:
            entered = self._enter(tensors, wanted)
            rest = iter(entered)
            outputs = node.run([map_tensors(value, lambda _: next(rest)) for value in values])
            self._leave(outputs, [entered[place] for place in self.gated], shared)
        cut = [map_tensors(value, torch.Tensor.detach) for value in outputs]
        self._release([t for value in cut for t in tensors_of(value)])
        return cut

    def _enter(self, tensors: Sequence[torch.Tensor], wanted: Sequence[bool]) -> List[torch.Tensor]:
        entered = list(tensors)
        self.gated = [place for place, flag in enumerate(wanted) if flag]
        if self.gated:
            self._anchor.append(tensors[self.gated[0]].new_empty(0).requires_grad_())
            behind = _Gate.apply(self._received, self._anchor[0], *[tensors[place] for place in self.gated])
            for place, tensor in zip(self.gated, behind):
                entered[place] = tensor
        return entered

    def _leave(self, outputs: Sequence[Any], gated: Sequence[torch.Tensor], shared: Sequence[torch.Tensor]) -> None:
        tensors = [t for value in outputs for t in tensors_of(value)]
        self.differentiable = [place for place, tensor in enumerate(tensors) if tensor.requires_grad]
        if self.differentiable:
            self.root = _Root.apply(self.seeds, *[tensors[p] for p in self.differentiable], *gated, *shared)

    def _pack(self, inputs: Sequence[torch.Tensor], node: Node) -> Any:
        places, cells = _places(inputs), self.cells
        constant = {storage_of(tensor) for tensor in node.constants}
        fixed = {storage_of(tensor) for tensor in node.fixed}

        def pack(tensor: torch.Tensor) -> _Cell:
            storage = storage_of(tensor)
            if storage in places:
                self.uses_inputs = True
                return _Cell(_Geometry(False, places[storage], tensor))
            cell = _Cell(tensor.detach(), tensor._version if storage in fixed else None)
            if storage not in constant:
                cells.append(cell)
            return cell

        return pack

    def _unpack(self) -> Any:
        sources = self._sources  # not self: the graph must not hold the tape that holds the graph

        def unpack(cell: _Cell) -> torch.Tensor:
            content = cell.content
            if cell.version is not None and content._version != cell.version:
                raise changed_in_place(f"a parameter or buffer of shape {tuple(content.shape)}")
            return _look_up(content, sources) if isinstance(content, _Geometry) else content

        return unpack

    def _release(self, outputs: Sequence[torch.Tensor]) -> None:
        """Saved tensors that turn out to be outputs are not held."""
        places = _places(outputs)
        for cell in self.cells:
            storage = storage_of(cell.content)
            if storage in places:
                cell.content = _Geometry(True, places[storage], cell.content)
                self.uses_outputs = True
        self.cells = [cell for cell in self.cells if isinstance(cell.content, torch.Tensor)]

    # ---- backward ----

    def backward(self, parameters: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor],
                 outputs: Sequence[torch.Tensor]) -> Tuple[List[Gradient], List[Gradient]]:
        """Sums of gradients of the gated inputs and of the parameters.

        The caller has appended to `seeds`, and kept no reference, so that autograd can add in place: gradients of the
        differentiable outputs; sums so far of the gated inputs; sums so far of the shared parameters.
        inputs and outputs: the node's tensors, or nothing where the backward does not use them.
        """
        assert self.root is not None
        self._sources.inputs, self._sources.outputs = inputs, outputs
        root, self.root = self.root, None
        try:
            with grads_aside(parameters):
                gradients = torch.autograd.grad(root, [*self._anchor, *parameters], root.new_empty(0), allow_unused=True)
        finally:
            self._sources.inputs = self._sources.outputs = ()
            self.seeds.clear()
        received = self._received.copy() or [None] * len(self.gated)
        self._received.clear()
        return received, [own(gradient) for gradient in gradients[len(self._anchor):]]

    def saved_tensors(self) -> List[torch.Tensor]:
        """Intermediates alive, as the graph holds them."""
        return [cell.content for cell in self.cells]

    def empty(self) -> None:
        """Lets go of the intermediates, of which there are copies elsewhere."""
        for cell in self.cells:
            cell.content = None

    def fill(self, tensors: Sequence[torch.Tensor]) -> None:
        """Takes them back, in the order of saved_tensors()."""
        for cell, tensor in zip(self.cells, tensors):
            cell.content = tensor


# ---- what is not to be differentiated ----

_TWICE = b"remat: a backward through a backward (create_graph=True), and a schedule is of one: remat.remove takes it off"


def anchors(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """By which `once` knows where tensors come from, without holding those that are no leaves."""
    return [t if t.is_leaf else t.unsqueeze(0).narrow(0, 0, 0).clone() for t in tensors if t.requires_grad]


def once(gradients: Sequence[Gradient], sources: Sequence[torch.Tensor]) -> Tuple[Gradient, ...]:
    """Where the backward that made them is to be differentiated (create_graph=True): an error where somebody does, on the
    way to any of the sources. torch's once_differentiable leaves that out where what came in has no gradient of its own,
    and where the way ends there."""
    if not torch.is_grad_enabled():
        return tuple(gradients)
    fail = torch._C._functions.DelayedError(_TWICE, len(gradients) + len(sources))
    failing = fail(*(g if g is None else g.detach().requires_grad_() for g in gradients), *sources)
    return tuple(failing[:len(gradients)]) if isinstance(failing, tuple) else (failing,)
