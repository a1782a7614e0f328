"""torch.fx traces, in which values are there while the forward is followed.

A proxy carries its value, as long as the model itself holds it. So what is known of a tensor without its data (sizes,
devices) is a plain Python value: loops over it end, calls take it. Calls that make tensors out of nothing are recorded
too; a trace of torch.fx alone would keep their result, random or not, for ever. Autograd functions are recorded as such,
and with each call whether gradients and which autocast are on where it stands.

What a tensor holds is never a value of Python here: where the forward makes one of it, or of a size that depends on it,
the trace fails, naming the line. If that is within a module, the module is run as it is, as one node.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import threading
from typing import Any, Dict, Iterator, List, Set, Tuple

import torch
import torch.fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import lines
from .autocast import settings_now
from .effects import Effects
from .errors import CaptureError, EffectError, UntraceableError
from .graph import is_made, sizes_of, tensors_of

_FACTORIES = ("arange", "empty", "eye", "full", "linspace", "normal", "ones", "rand", "randint", "randn", "randperm",
              "tensor", "zeros")

# What of a tensor is known from its metadata. Any other value that is not a tensor depends on data.
_SIZES = {"size", "numel", "nelement", "stride", "storage_offset", "is_contiguous", "__len__", "len", "shape"}
_KNOWN = _SIZES | {"dim", "element_size", "ndimension", "is_floating_point", "is_complex", "type", "get_device", "dtype",
                   "device", "ndim", "is_cuda", "layout", "itemsize", "is_sparse", "names", "__class__"}


def named(bound: Dict[str, Any]) -> Dict[str, Any]:
    """Of arguments by name, those to call forward with: without what gathers the rest."""
    return {name: value for name, value in bound.items() if not name.startswith("*")}


def known(kind: str, target: Any, args: Any) -> str:
    """The name of what a call asks of a tensor's metadata; empty if it asks for anything else."""
    name = args[1] if target is getattr else target if kind == "call_method" else getattr(target, "__name__", "")
    return name if name in _KNOWN else ""


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


def trace(model: torch.nn.Module, bound: Dict[str, Any], blocks: Tuple[type, ...], effects: Effects,
          device: torch.device) -> Tuple[torch.fx.Graph, List[str]]:
    """The graph, and the paths of submodules that cannot be traced and are single nodes in it. In node.meta: "grad",
    "autocast" and "sizes", as a Step has them.

    bound: arguments of forward by name. Runs the forward twice; where a submodule fails, all is tried again without it.
    Raises UntraceableError when it is the model's own forward that fails, or when two traces are not the same.
    """
    alone: Set[str] = set()
    while True:
        tracer = _Tracer(bound, blocks, alone, effects, device)
        try:
            graph = tracer.follow(model)
            break
        except EffectError:
            raise
        except Exception as error:  # whatever the user's forward raises under tracing
            inner = [path for path in tracer.path if path not in alone]
            if not inner:  # its own code fails, or what it hands to a module that is run as it is
                raise UntraceableError(f"the forward of {type(model).__name__} cannot be traced: {error}"
                                       f"{lines.of_error(error)}.") from error
            alone.add(inner[-1])
    again = _Tracer(bound, blocks, alone, effects, device).follow(model)
    difference = _difference(graph, again, model)
    if difference:
        raise EffectError(f"the forward of {type(model).__name__} cannot be traced: it is another one each time, "
                          f"{difference}.")
    return graph, sorted(alone)


def _difference(a: torch.fx.Graph, b: torch.fx.Graph, model: torch.nn.Module) -> str:
    """Where two traces differ, in words."""
    if len(a.nodes) != len(b.nodes):
        return f"of {len(a.nodes)} and of {len(b.nodes)} calls"
    positions = {node: position for graph in (a, b) for position, node in enumerate(graph.nodes)}
    for one, other in zip(a.nodes, b.nodes):
        constant = one.op == other.op == "get_attr"  # torch.fx numbers them through
        texts = [repr((node.op, constant or node.target, torch.fx.node.map_arg((node.args, node.kwargs), positions.get)))
                 for node in (one, other)]
        if texts[0] != texts[1]:
            return f"in {one.name}{one.meta.get('line', '')}"
        if one.op == "get_attr" and not _same(_attribute(model, one.target), _attribute(model, other.target)):
            return f"in a constant{one.meta.get('line', '')}"
    return ""


def _same(a: Any, b: Any) -> bool:
    return a is b or isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b)


def _attribute(model: torch.nn.Module, path: str) -> Any:
    return functools.reduce(getattr, path.split("."), model)


_OF_AUTOGRAD = {"requires_grad", "grad_fn", "grad", "is_leaf", "_version", "data_ptr"}


class _Proxy(torch.fx.Proxy):
    """value: what it stands for, in this run. loose: its sizes depend on data."""

    value: Any
    loose: bool

    def __getattr__(self, name: str) -> Any:
        if name in _OF_AUTOGRAD and self.node.op != "placeholder":
            raise CaptureError(f"the forward asks for \"{name}\" of a tensor, which is not known while it is traced")
        found = getattr(self.value, name)
        if callable(found) and not isinstance(found, torch.Tensor):
            return super().__getattr__(name)
        return self.tracer.create_proxy("call_function", getattr, (self, name), {})

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(self.value, torch.Tensor):
            raise CaptureError(f"the forward changes a {type(self.value).__name__} that an operation returned")
        _refuse_input(self)
        self.tracer.create_proxy("call_function", set_item, (self, key, value), {})

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(torch.Tensor, name):
            raise CaptureError(f"the forward sets \"{name}\" of a tensor")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        self.tracer.ask_sizes([self])
        return len(self.value)


def set_item(tensor: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    """An item is assigned, as an operation in place."""
    tensor[key] = value
    return tensor


def _refuse_input(proxy: _Proxy) -> None:
    if proxy.node.op == "placeholder":
        raise EffectError(f"the forward changes its input \"{proxy.node.target}\" in place{lines.current()}: use the "
                          "operation that is not in place.")


def _in_place(function: Any) -> Any:
    """x += y writes x, whatever else looks into it; torch.fx would take it for x = x + y."""
    def operate(self: _Proxy, other: Any) -> Any:
        _refuse_input(self)
        return self.tracer.create_proxy("call_function", function, (self, other), {})
    return operate


for _name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift"):
    setattr(_Proxy, f"__{_name}__", _in_place(getattr(operator, _name)))


class _Tracer(torch.fx.Tracer):
    proxy_buffer_attributes = True  # what is computed from a buffer is computed in each step

    def __init__(self, bound: Dict[str, Any], blocks: Tuple[type, ...], alone: Set[str], effects: Effects,
                 device: torch.device) -> None:
        super().__init__()
        self.bound, self.blocks, self.alone, self.effects, self.device = bound, blocks, alone, effects, device
        self.autocast = settings_now(device)
        self.path: List[str] = []  # modules being traced, outermost first; left as it was when one fails
        self.running = False  # a call is run for its value
        self.thread = threading.get_ident()  # what others call is theirs: torch.fx changes nn.Module for all

    def follow(self, model: torch.nn.Module) -> torch.fx.Graph:
        self.held = {module: _held(module) for module in model.modules()}
        with self.effects.watched(), self._recorded(), torch.enable_grad():
            return self.trace(model)

    def _is_apart(self) -> bool:
        return self.running or threading.get_ident() != self.thread

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        """By name, so that keywords and arguments that gather the rest do no harm."""
        given = {name: self.create_proxy("placeholder", name, (), {}) for name in named(self.bound)}
        return lambda root: root_fn(root, **given), [self.root]

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return (isinstance(m, (*self.blocks, torch.jit.ScriptModule)) or module_qualified_name in self.alone
                or bool(m._backward_hooks) or super().is_leaf_module(m, module_qualified_name))

    def call_module(self, m: torch.nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if self._is_apart():
            return forward(*args, **kwargs)
        for module in m.modules():
            if self.held.get(module) != _held(module):
                raise EffectError(f"{self.path_of_module(m)} runs with other weights than its own, as by functional_call, "
                                  f"within the forward{lines.current()}.")
        self.path.append(self.path_of_module(m))
        result = super().call_module(m, forward, args, kwargs)
        self.path.pop()
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Dict[str, Any]) -> Any:
        return attr_val if self._is_apart() else super().getattr(attr, attr_val, parameter_proxy_cache)

    def proxy(self, node: torch.fx.Node) -> torch.fx.Proxy:
        return _Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
        """A proxy with its value; the value itself where there is no tensor in it."""
        if torch.is_inference_mode_enabled():
            raise CaptureError("the forward enters inference_mode, of which nothing can be differentiated")
        if getattr(target, "__name__", "") == "_pack_padded_sequence":
            raise CaptureError("a sequence is packed, whose sizes are its lengths and so depend on data: make packing, the "
                               "layers and unpacking a module, and give its class in blocks=, or use torch 2")
        value = self._value(kind, target, args, kwargs)
        if kind != "output" and not tensors_of(value):
            self._check_known(kind, target, args, kwargs, value)
            return value
        made = super().create_proxy(kind, target, args, kwargs, *rest, **more)
        settings = settings_now(self.device)
        made.node.meta.update(grad=torch.is_grad_enabled(), line=lines.current(),
                              autocast=settings if settings != self.autocast else ())
        made.value, made.loose = value, self._is_loose(kind, target, args, kwargs, value)
        return made

    def create_arg(self, a: Any) -> Any:
        if is_made(a):
            fields = {field.name: self.create_arg(getattr(a, field.name)) for field in dataclasses.fields(a) if field.init}
            return self.create_node("call_function", Maker(type(a)), (), fields)
        return super().create_arg(a)

    # ---- what may be a value of Python ----

    def _check_known(self, kind: str, target: Any, args: Any, kwargs: Any, value: Any) -> None:
        asked = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, _Proxy)]
        name = known(kind, target, args)
        if value is None and target is operator.getitem:  # a part of a result that is not there
            name = "size"
        if asked and not name:
            raise CaptureError(f"{getattr(target, '__name__', target)} makes {type(value).__name__} of a tensor, which "
                               "depends on data")
        if name in _SIZES:
            self.ask_sizes(asked)

    def ask_sizes(self, asked: List[_Proxy]) -> None:
        """The forward learns the sizes of tensors: those of a module that runs as it is are compared in each step."""
        for proxy in asked:
            if proxy.loose:
                raise CaptureError("the forward asks for a size that depends on data")
            if proxy.node.op == "call_module":
                proxy.node.meta["sizes"] = sizes_of(proxy.value)

    def _is_loose(self, kind: str, target: Any, args: Any, kwargs: Any, value: Any) -> bool:
        if kind == "output" or all(t.dim() == 0 for t in tensors_of(value)):
            return False
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, _Proxy)]
        if given and tensors_of(value)[0] is given[0].value:  # in place
            return given[0].loose
        return any(proxy.loose for proxy in given) or kind != "call_module" and self.effects.unknown_size

    # ---- values ----

    def _value(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        self.effects.unknown_size = False
        if kind == "placeholder":
            return self.bound[target]
        leaves, spec = tree_flatten((args, kwargs))
        args, kwargs = tree_unflatten([_value_of(leaf) for leaf in leaves], spec)
        if kind == "output":
            return None
        self.running = True
        self.effects.within += kind == "call_module"
        try:
            with torch.no_grad():
                return self._run(kind, target, args, kwargs)
        finally:
            self.running = False
            self.effects.within -= kind == "call_module"

    def _run(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "get_attr":
            return functools.reduce(getattr, target.split("."), self.root)
        if kind == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs)

    def iter(self, obj: torch.fx.Proxy) -> Iterator[Any]:
        self.ask_sizes([obj])
        return iter([obj[i] for i in range(len(obj.value))])

    # ---- calls that torch.fx does not see ----

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """Records the calls of torch that make tensors out of nothing, and autograd functions."""
        originals = {name: getattr(torch, name) for name in (*_FACTORIES, "as_tensor")}
        base = torch.autograd.Function

        def record(original: Any) -> Any:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                given = original.__name__ == "as_tensor" and not isinstance(args[0] if args else None, _Proxy)
                if self._is_apart() or given or not hasattr(self, "graph"):
                    return original(*args, **kwargs)
                return self.create_proxy("call_function", original, args, kwargs)
            return call

        def record_function(function: Any, *args: Any, **kwargs: Any) -> Any:
            real = Applied(function)
            if self._is_apart() or not any(isinstance(leaf, _Proxy) for leaf in tree_flatten((args, kwargs))[0]):
                return real(*args, **kwargs)
            return self.create_proxy("call_function", real, args, kwargs)

        for name, original in originals.items():
            setattr(torch, name, record(original))
        base.apply = classmethod(record_function)
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(torch, name, original)
            if _APPLY is None:
                del base.apply
            else:
                base.apply = _APPLY


_APPLY = torch.autograd.Function.__dict__.get("apply")  # from torch 2.0 on; before, of its base


def _held(module: torch.nn.Module) -> Any:
    """Its class, which functional_call changed before torch 2, and which tensors it has."""
    tensors = [*module._parameters.items(), *module._buffers.items()]
    return type(module), [(name, id(t)) for name, t in tensors]


class Maker:
    """Puts an object of a dataclass together, as the target of a call."""

    def __init__(self, made: type) -> None:
        self.made, self.__name__, self.__module__ = made, made.__name__, made.__module__

    def __call__(self, **parts: Any) -> Any:
        return self.made(**parts)

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__name__}"


class Applied:
    """The apply of an autograd function, as the target of a call."""

    def __init__(self, function: Any) -> None:
        self.function, self.__name__ = function, function.__name__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _APPLY is None:
            return super(torch.autograd.Function, self.function).apply(*args, **kwargs)
        return _APPLY.__get__(None, self.function)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}.apply"


def _value_of(leaf: Any) -> Any:
    if isinstance(leaf, torch.fx.Proxy):
        return leaf.value
    if isinstance(leaf, slice) and any(isinstance(p, torch.fx.Proxy) for p in (leaf.start, leaf.stop, leaf.step)):
        raise CaptureError("a slice bound is a tensor; its value depends on data")
    return leaf
