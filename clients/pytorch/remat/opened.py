"""Graphs whose sizes are left open: traced once, with symbols for these, and copied with numbers in their place for sizes that come."""

import contextlib
import copy
from typing import Any, Dict, Iterator, List, Sequence

import sympy
import torch
from torch import fx
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .errors import CaptureError

_OPEN = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Sizes:
    """Numbers for symbols. given: what a graph is traced with. args: what it is called with."""

    def __init__(self, given: Sequence[Any], args: Sequence[Any]) -> None:
        self._numbers = {g.node.expr: sympy.Integer(a) for g, a in zip(given, args) if isinstance(g, torch.SymInt) and g.node.expr.is_symbol}
        self._known: Dict[Any, Any] = {}
        self._made: Dict[Any, torch.Tensor] = {}  # of which only shapes are read
        self._mode = torch._subclasses.FakeTensorMode()

    def of(self, value: Any) -> Any:
        """A number for a symbol. Raises CaptureError where that is of other symbols."""
        if not isinstance(value, _OPEN):
            return value
        expr = value.node.expr
        if expr not in self._known:
            found = expr.xreplace(self._numbers)
            if found.free_symbols:
                raise CaptureError(f"the size {expr} is not one of those of the arguments")
            self._known[expr] = (bool if isinstance(value, torch.SymBool) else int if isinstance(value, torch.SymInt) else float)(found)
        return self._known[expr]

    def hold(self, guards: Sequence[Any]) -> bool:
        return all(guard.expr.xreplace(self._numbers) == True for guard in guards)  # noqa: E712  sympy's

    def is_of(self, given: Any, value: Any) -> bool:
        """Whether an argument is what the graph was traced with, but for its sizes. Raises CaptureError."""
        if not isinstance(given, torch.Tensor) or not isinstance(value, torch.Tensor):
            return type(value) in (int, bool, float, type(None)) and bool(self.of(given) == value)
        kinds = [(t.dtype, t.device, t.requires_grad, t.layout) for t in (given, value)]
        return kinds[0] == kinds[1] and value.layout == torch.strided and not is_traceable_wrapper_subclass(value) \
            and [*value.shape, *value.stride()] == [*map(self.of, (*given.shape, *given.stride()))]

    def settled(self, graph: fx.Graph) -> fx.Graph:
        """A copy of a joint graph with its sizes as numbers. Raises CaptureError."""
        graph = copy.deepcopy(graph)
        for node in list(graph.nodes):
            value = node.meta.get("val")
            if isinstance(value, _OPEN) and node.op == "call_function":
                made = self.of(value) if node.all_input_nodes else node.target(*node.args, **node.kwargs)  # sympy has other last bits
                replace(node, made)
                graph.erase_node(node)
                continue
            node.meta = {**node.meta, "val": self._settle(value)}
            if isinstance(value, _OPEN):
                replace(node, node.meta["val"])
        return graph

    def _settle(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._settle, value))
        if not isinstance(value, torch.Tensor):
            return self.of(value)
        if value.layout != torch.strided:
            raise CaptureError("a tensor with sizes left open is not strided")
        how = tuple(map(self.of, value.shape)), tuple(map(self.of, value.stride())), value.dtype, value.device
        if how not in self._made:
            with self._mode:
                self._made[how] = torch.empty_strided(*how[:2], dtype=value.dtype, device=value.device)
        return self._made[how]


def replace(node: fx.Node, number: Any) -> None:
    """By a number, wherever the node is used."""
    for user in list(node.users):
        user.args, user.kwargs = fx.map_arg((user.args, user.kwargs), lambda n: number if n is node else n)


def lazily(module: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """With a graph of which no code is made before it runs, which most never do."""
    with _use_lazy_graph_module(True):
        return _make_graph_module(module, graph)


def giving(module: fx.GraphModule, results: Sequence[Any]) -> fx.GraphModule:
    """A copy that gives these of its nodes."""
    graph, copies = fx.Graph(), {}
    graph.graph_copy(module.graph, copies)
    graph.output(fx.map_arg(tuple(results), copies.__getitem__))
    return lazily(module, graph)


@contextlib.contextmanager
def guarded(given: Sequence[Any]) -> Iterator[List[Any]]:
    """Gathers what tracing assumes of the symbols, of which Dynamo, who gave them, then knows nothing: it would compile again for each size.
    Raises CaptureError where a symbol became a number, or another."""
    env = next(g.node.shape_env for g in given if isinstance(g, torch.SymInt))
    before, found = len(env.guards), []
    held = [(own, own.copy()) for own in (env.replacements, env.var_to_range, env.divisible)]
    try:
        yield found
    finally:
        found += env.guards[before:]
        del env.guards[before:]
        specialized = env.replacements != held[0][1]
        for now, then in held:
            now.clear()
            now.update(then)
        for counter in {"_version_counter", "_replacements_version_counter"} & vars(env).keys():  # of what is known of expressions
            setattr(env, counter, getattr(env, counter) + 1)
    if specialized:
        raise CaptureError("a size that was left open can be one number, or as large as another, only")
