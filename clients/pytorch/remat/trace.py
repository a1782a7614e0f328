"""torch.fx traces, in which values are there while the forward is followed.

A proxy carries its value, as long as the model itself holds it. So what is known of a tensor without its data (sizes,
devices) is a plain Python value: loops over it end, calls take it. Calls that make tensors out of nothing are recorded
too; a trace of torch.fx alone would keep their result, random or not, for ever.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Dict, Iterator, List, Set, Tuple

import torch
import torch.fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from .errors import UntraceableError
from .graph import tensors_of

_FACTORIES = ("arange", "empty", "eye", "full", "linspace", "normal", "ones", "rand", "randint", "randn", "randperm",
              "tensor", "zeros")


def is_sequential(module: torch.nn.Module) -> bool:
    return type(module).forward is torch.nn.Sequential.forward


def unroll(model: torch.nn.Module) -> torch.fx.Graph:
    """The chain of a Sequential, and of the Sequentials in it."""
    graph = torch.fx.Graph()
    value = graph.placeholder("input")
    pending = [("", model)]
    while pending:
        path, module = pending.pop()
        if is_sequential(module):
            children = [(f"{path}.{name}" if path else name, child) for name, child in module._modules.items()]
            pending.extend(reversed(children))
        else:
            value = graph.call_module(path, (value,))
    graph.output(value)
    return graph


def trace(model: torch.nn.Module, bound: Dict[str, Any],
          blocks: Tuple[type, ...]) -> Tuple[torch.fx.Graph, List[str]]:
    """The graph, and the paths of submodules that cannot be traced and are single nodes in it.

    bound: arguments of forward by name. Runs the forward; where a submodule fails, all is tried again without it.
    Raises UntraceableError when it is the model's own forward that fails.
    """
    alone: Set[str] = set()
    while True:
        tracer = _Tracer(bound, blocks, alone)
        try:
            with tracer.factories():
                return tracer.trace(model), sorted(alone)
        except Exception as error:  # whatever the user's forward raises under tracing
            inner = [path for path in tracer.path if path not in alone]
            if not inner:  # its own code fails, or what it hands to a module that is run as it is
                raise UntraceableError(f"the forward of {type(model).__name__} cannot be traced: {error}.") from error
            alone.add(inner[-1])


class _Proxy(torch.fx.Proxy):
    """value: what it stands for, in this run."""

    value: Any

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name)
        if callable(found) and not isinstance(found, torch.Tensor):
            return super().__getattr__(name)
        return self.tracer.create_proxy("call_function", getattr, (self, name), {})

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __len__(self) -> int:
        return len(self.value)


class _Tracer(torch.fx.Tracer):
    def __init__(self, bound: Dict[str, Any], blocks: Tuple[type, ...], alone: Set[str]) -> None:
        super().__init__()
        self.bound, self.blocks, self.alone = bound, blocks, alone
        self.path: List[str] = []  # modules being traced, outermost first; left as it was when one fails
        self.running = False  # a call is run for its value

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return (isinstance(m, self.blocks) or module_qualified_name in self.alone
                or super().is_leaf_module(m, module_qualified_name))

    def call_module(self, m: torch.nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if self.running:
            return forward(*args, **kwargs)
        self.path.append(self.path_of_module(m))
        result = super().call_module(m, forward, args, kwargs)
        self.path.pop()
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Dict[str, Any]) -> Any:
        return attr_val if self.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def proxy(self, node: torch.fx.Node) -> torch.fx.Proxy:
        return _Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
        """A proxy with its value; the value itself where there is no tensor in it."""
        value = self._value(kind, target, args, kwargs)
        if kind != "output" and not tensors_of(value):
            return value
        made = super().create_proxy(kind, target, args, kwargs, *rest, **more)
        made.value = value
        return made

    def _value(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "placeholder":
            return self.bound[target]
        leaves, spec = tree_flatten((args, kwargs))
        args, kwargs = tree_unflatten([_value_of(leaf) for leaf in leaves], spec)
        if kind == "output":
            return None
        self.running = True
        try:
            if kind == "get_attr":
                return functools.reduce(getattr, target.split("."), self.root)
            if kind == "call_module":
                return self.root.get_submodule(target)(*args, **kwargs)
            if kind == "call_method":
                return getattr(args[0], target)(*args[1:], **kwargs)
            return target(*args, **kwargs)
        finally:
            self.running = False

    def iter(self, obj: torch.fx.Proxy) -> Iterator[Any]:
        return iter([obj[i] for i in range(len(obj.value))])

    @contextlib.contextmanager
    def factories(self) -> Iterator[None]:
        """Records the calls of torch that make tensors out of nothing."""
        originals = {name: getattr(torch, name) for name in _FACTORIES}

        def record(original: Any) -> Any:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if self.running or not hasattr(self, "graph"):
                    return original(*args, **kwargs)
                return self.create_proxy("call_function", original, args, kwargs)
            return call

        for name, original in originals.items():
            setattr(torch, name, record(original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(torch, name, original)


def _value_of(leaf: Any) -> Any:
    if isinstance(leaf, torch.fx.Proxy):
        return leaf.value
    if isinstance(leaf, slice):
        return slice(_value_of(leaf.start), _value_of(leaf.stop), _value_of(leaf.step))
    return leaf
