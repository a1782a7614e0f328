"""What a forward does beside making its result, and what it reads beside its arguments.

A schedule runs parts of a forward twice, and runs what was seen of it once, while it was captured. So Python state that
it writes, parameters that it changes and random numbers that torch does not draw are refused, naming the line; what it
reads of Python (attributes, globals, cells of closures) is remembered, to be compared before each step.
"""

from __future__ import annotations

import array
import contextlib
import dis
import enum
import functools
import gc
import hashlib
import random
import sys
import threading
import types
from collections import abc
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import lines
from .errors import EffectError
from .graph import storage_of
from .states import python_generators

Module = torch.nn.Module
_ATOMS = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size, enum.Enum, range,
          torch.memory_format, torch.layout)
_OPAQUE = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, Module, property,
           functools.partial)
_MOST = 20000  # values within one that is read, which are compared in every step
_INTERNAL = frozenset(Module().__dict__) | {"forward"}  # of every module; guarded in other ways
_OTHERS = ("__", "_tensor_constant")  # how names begin that are not the user's

_NOT_SIMPLE = object()


def digest(value: Any, left: Optional[List[int]] = None, above: Tuple[int, ...] = ()) -> Any:
    """Of a value of Python: equal to that of another moment if nothing in it has changed. Tensors, functions and modules
    are what they are, and so are objects of C that are no containers. Raises OverflowError past _MOST values."""
    left = [_MOST] if left is None else left
    left[0] -= 1
    if left[0] < 0:
        raise OverflowError
    if isinstance(value, _ATOMS):
        return repr(value) if isinstance(value, float) else value  # NaN is not equal to itself
    name = type(value).__name__
    if isinstance(value, _OPAQUE) or isinstance(value, torch.Tensor) or id(value) in above or \
            type(value).__module__.split(".")[0] in ("torch", "remat"):
        return name, id(value)
    inner = functools.partial(digest, left=left, above=(*above, id(value)))
    if isinstance(value, abc.Mapping):
        return name, [(inner(key), inner(item)) for key, item in list(value.items())]
    if isinstance(value, abc.Set):
        return name, sorted(repr(inner(item)) for item in value)
    if isinstance(value, (abc.Sequence, array.array)):
        return name, [inner(item) for item in value]
    if name == "ndarray":
        return value.shape, str(value.dtype), hash(value.tobytes())
    return name, id(value), inner(_held(value))


def _held(value: Any) -> Dict[str, Any]:
    """Attributes of an object, those in slots too."""
    names = [slot for kind in type(value).__mro__ for slot in _slots(kind) if hasattr(value, slot)]
    return {**{name: getattr(value, name) for name in names}, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else [s for s in slots if not s.startswith("__")]


def simple_state(module: Module) -> Dict[str, Any]:
    """The plain values among the attributes of a module."""
    return {name: value for name, value in vars(module).items() if isinstance(value, _ATOMS)}


class Reads:
    """Python state that was read, as it was then."""

    def __init__(self) -> None:
        self._places: Dict[Tuple[int, str], Tuple[Callable[[], Any], str, Any, Any]] = {}
        self._codes: Set[types.CodeType] = set()

    def add(self, holder: Any, name: str, read: Callable[[], Any], label: str) -> None:
        key = (id(holder), name)
        if key not in self._places:
            value = read()
            try:
                known = digest(value)
            except OverflowError:
                raise EffectError(f"{label} is read in the forward, and has more than {_MOST} values in it: too many to "
                                  "compare in every step") from None
            simple = isinstance(value, _ATOMS) or type(value) is tuple and all(isinstance(i, _ATOMS) for i in value)
            self._places[key] = (read, label, known, value if simple else _NOT_SIMPLE)

    def changed(self) -> str:
        """What is not as it was, in words; empty if all is."""
        for read, label, before, simple in self._places.values():
            try:
                value = read()
                if value is not simple and digest(value) != before:
                    return label
            except (KeyError, AttributeError, ValueError, OverflowError):
                return label
        return ""

    def code(self) -> str:
        """Of all functions of the user that ran: a name for what they say."""
        return hashlib.sha256(repr(sorted(map(_code_text, self._codes))).encode()).hexdigest()

    def see(self, frame: types.FrameType) -> None:
        """A function of the user begins: its globals and the cells of its closure are what it may read."""
        code = frame.f_code
        if code in self._codes:
            return
        self._codes.add(code)
        for name in {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}:
            if name in frame.f_globals:
                self._see_global(frame.f_globals, name, code)
        if set(code.co_freevars) - {"__class__"}:
            for function in [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType)]:
                for name, cell in zip(code.co_freevars, function.__closure__ or ()):
                    if not isinstance(_content(cell), (types.ModuleType, Module)):
                        self.add(cell, name, functools.partial(_content, cell), f"\"{name}\" of {code.co_name}")

    def _see_global(self, names: Dict[str, Any], name: str, code: types.CodeType) -> None:
        value = names[name]
        if not isinstance(value, types.ModuleType):
            self.add(names, name, functools.partial(names.__getitem__, name), f"the global \"{name}\"")
        if not isinstance(value, (type, types.ModuleType)):
            return
        users = isinstance(value, type) or lines.is_users(getattr(value, "__file__", None) or "<frozen")
        for inner in code.co_names:  # such as config.RATE, os.environ
            held = vars(value).get(inner)
            if held is None or isinstance(held, _OPAQUE) and not (users and isinstance(held, types.FunctionType)):
                continue
            if isinstance(held, types.FunctionType) or not hasattr(held, "__get__"):
                self.add(value, inner, functools.partial(getattr, value, inner), f"\"{name}.{inner}\"")


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _code_text(code: types.CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_name, code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars))


def code_of(function: Any) -> str:
    """A name for what a function, or an object that is called, says."""
    code = getattr(function, "__code__", None) or getattr(getattr(type(function), "forward", None), "__code__", None)
    return _code_text(code) if code is not None else repr(function)


class Effects:
    """with effects.watched(): ... around every run of the model while it is captured."""

    def __init__(self, model: Module) -> None:
        self.reads = Reads()
        self.unknown_size = False  # an operation ran whose result's size or value depends on data
        self.within = 0  # modules that run as they are: their buffers may change
        self.inputs: Dict[int, str] = {}  # what must not be written either, by storage
        self._model = model
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._drawn = ""  # where Python's or numpy's random numbers were drawn
        self._made_anew: Set[Tuple[int, str]] = set()  # attributes that modules of torch write in each forward

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Raises EffectError, naming the line, before a parameter or an attribute is changed; at the end, where
        containers or random generators of Python were."""
        parameters = {storage_of(p): f"the parameter \"{name}\"" for name, p in self._model.named_parameters()}
        parameters = {**self.inputs, **parameters}
        buffers = {storage_of(b): f"the buffer \"{name}\"" for name, b in self._model.named_buffers()}
        parameters.pop(0, None), buffers.pop(0, None)
        generators, held = _generators(), self._held()
        previous, collects = sys.getprofile(), gc.isenabled()
        self._drawn = ""
        with _Attributes(self._wrote, self._read), _numpy_watched(self._drew), _Writes(self, parameters, buffers):
            gc.disable()  # what is run to clean up elsewhere is not of the forward
            sys.setprofile(self._profiled)
            try:
                yield
            finally:
                sys.setprofile(None)
                if collects:
                    gc.enable()
                if hasattr(previous, "enable"):  # cProfile's
                    previous.enable()
                else:
                    sys.setprofile(previous)
        if _generators() != generators:
            raise EffectError("random numbers of Python or numpy are drawn in the forward" + self._drawn + "; torch's "
                              "can be drawn again by a schedule, these cannot")
        changed = self.reads.changed() or self._other(held)
        if changed:
            raise EffectError(f"the forward changes {changed}, which a schedule would do another number of times")

    def _held(self) -> Dict[Tuple[int, str], int]:
        """Identities of all attributes, buffers and parameters, for what is written past __setattr__."""
        return {(id(module), name): id(value) for module in self._model.modules()
                for held in (vars(module), module._buffers, module._parameters) for name, value in held.items()
                if not name.startswith(_OTHERS)}

    def _other(self, before: Dict[Tuple[int, str], int]) -> str:
        now = self._held()
        for module, name in {**before, **now}:
            if (module, name) not in self._made_anew and before.get((module, name)) != now.get((module, name)):
                return f"the attribute \"{name}\" of {self._paths.get(module) or 'the model'}"
        return ""

    def _profiled(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "call" and lines.is_users(frame.f_code.co_filename):
            self.reads.see(frame)
        elif event == "c_call" and isinstance(getattr(argument, "__self__", None), random.Random):
            self._drew()

    def _drew(self) -> None:
        self._drawn = self._drawn or lines.current()

    def _wrote(self, module: Module, name: str, by_torch: bool) -> None:
        path = self._paths.get(id(module))
        if by_torch:  # such as the weight that weight_norm makes before each forward
            self._made_anew.add((id(module), name))
        elif path is not None:
            raise EffectError(f"the attribute \"{name}\" of {path or 'the model'} ({type(module).__name__}) is written "
                              f"in the forward{lines.current()}; a schedule would write it again, or not at all")

    def _read(self, module: Module, name: str, value: Any) -> None:
        path = self._paths.get(id(module))
        if path is None or (id(module), name) in self._made_anew:
            return
        where = f"of {path or 'the model'} ({type(module).__name__})"
        if name == "__dict__" and lines.is_users(sys._getframe(2).f_code.co_filename):
            self.reads.add(module, name, functools.partial(self._shown, module), f"an attribute {where}")
        if name in _INTERNAL or name.startswith(_OTHERS) or isinstance(value, Module):
            return
        held = object.__getattribute__(module, "__dict__")
        if isinstance(value, types.MethodType) and name not in held:
            if lines.is_users(getattr(getattr(value.__func__, "__code__", None), "co_filename", "<frozen")):
                self.reads.add(type(module), name, functools.partial(getattr, type(module), name),
                               f"the method \"{name}\" {where}")
        elif name in held or not (isinstance(value, _OPAQUE) or hasattr(value, "__get__")):
            read = functools.partial(held.__getitem__, name) if name in held else functools.partial(getattr, module, name)
            self.reads.add(module, name, read, f"the attribute \"{name}\" {where}")

    def _shown(self, module: Module) -> Dict[str, Any]:
        """The user's attributes of a module, as its __dict__ has them."""
        return {name: value for name, value in object.__getattribute__(module, "__dict__").items() if name not in _INTERNAL
                and not name.startswith(_OTHERS) and (id(module), name) not in self._made_anew}


def _generators() -> Tuple[Any, ...]:
    python, numpy = python_generators()
    return python, numpy and (bytes(numpy[1]), numpy[2:])


@contextlib.contextmanager
def _numpy_watched(drew: Callable[[], None]) -> Iterator[None]:
    """Tells of calls of numpy's random functions, which are no calls that a profiler of Python sees."""
    space = vars(sys.modules["numpy"].random) if "numpy" in sys.modules else {}
    originals = {name: call for name, call in space.items()
                 if type(getattr(call, "__self__", None)).__name__ == "RandomState"}

    own = threading.get_ident()

    def told(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == own:
                drew()
            return original(*args, **kwargs)
        return call

    space.update({name: told(call) for name, call in originals.items() if name not in ("get_state", "set_state")})
    try:
        yield
    finally:
        space.update(originals)


class _Attributes:
    """Tells of every attribute of a module that is written or read."""

    def __init__(self, wrote: Callable[[Module, str, bool], None],
                 read: Callable[[Module, str, Any], None]) -> None:
        self._wrote, self._read = wrote, read

    def __enter__(self) -> None:
        wrote, read, busy = self._wrote, self._read, []  # type: Any, Any, List[int]
        self._set, self._delete = Module.__setattr__, Module.__delattr__

        own = threading.get_ident()

        def guarded(plain: Any) -> Any:
            def change(module: Module, name: str, *value: Any) -> None:
                if threading.get_ident() == own:
                    wrote(module, name, lines.of_torch(sys._getframe(1).f_code.co_filename))
                plain(module, name, *value)
            return change

        def get(module: Module, name: str) -> Any:
            value = object.__getattribute__(module, name)
            if not busy and threading.get_ident() == own:
                busy.append(1)
                try:
                    read(module, name, value)
                finally:
                    busy.pop()
            return value

        Module.__setattr__, Module.__delattr__ = guarded(self._set), guarded(self._delete)
        Module.__getattribute__ = get

    def __exit__(self, *_: Any) -> None:
        Module.__setattr__, Module.__delattr__ = self._set, self._delete
        del Module.__getattribute__


_SIZED_BY_DATA = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


class _Writes(TorchDispatchMode):
    """Sees every operation of ATen before it runs."""

    def __init__(self, effects: Effects, parameters: Dict[int, str], buffers: Dict[int, str]) -> None:
        super().__init__()
        self._effects, self._parameters, self._buffers = effects, parameters, buffers
        self._written: Dict[Any, List[int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        if func not in self._written:
            self._written[func] = [i for i, argument in enumerate(func._schema.arguments)
                                   if argument.alias_info is not None and argument.alias_info.is_write]
        if any(isinstance(argument, torch.Generator) for argument in (*args, *(kwargs or {}).values())):
            raise EffectError("random numbers of a generator of its own are drawn in the forward" + lines.current() +
                              "; only those of torch's default ones can be drawn again")
        for place in self._written[func]:
            if place < len(args) and isinstance(args[place], torch.Tensor):
                self._check(storage_of(args[place]))
        if not _SIZED_BY_DATA.isdisjoint(getattr(func, "tags", ())):
            self._effects.unknown_size = True
        return func(*args, **(kwargs or {}))

    def _check(self, storage: int) -> None:
        name = self._parameters.get(storage) or (None if self._effects.within else self._buffers.get(storage))
        if name:
            raise EffectError(f"{name} is changed in place in the forward{lines.current()}; a schedule would do that "
                              "again, or not at all")
