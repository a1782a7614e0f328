"""The forward of a fitted model: Dynamo follows it, remat.backend gives each piece of it a schedule."""

import contextlib
import dataclasses
import functools
import itertools
import math
import threading
import traceback
import warnings
import weakref
from types import FunctionType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import torch

from .backend import MOST, SHAPES, Backend, why
from .client import Budget
from .errors import BudgetError, CaptureError, RematError
from .model import Forward, bind, follow_anew
from .pipelines import Flight
from .states import ATOMS, moment, transformed
from .tensors import tensors_of

ALLOWED = 1.02  # of the budget, by which a measured peak may be above it without a word
_PLACES = 32  # of which a forward is given some times as many
_CODE = (FunctionType, property, staticmethod, classmethod)
_NUMBERS = itertools.count()
_EVERYBODYS = [hooks for name, hooks in vars(torch.nn.modules.module).items() if name.startswith("_global_") and isinstance(hooks, dict)]


class Fitted(Forward):
    """pieces: graphs with a schedule, one for each shape and, after a graph break, several. measured_peak: of a step in the check of fit. A
    copy, or what comes out of a pickle, compiles itself when it first runs; what was measured and answered is in the cache."""

    def __init__(self, model: torch.nn.Module, options: Dict[str, Any], budget: Budget, whole: bool = False) -> None:
        super().__init__(model)
        self.budget, self._options = budget, options
        self.limit = budget  # of a step, where budget is of each graph; what options reserve is in it
        self.ratio = 0.0  # where it has several graphs: what a step was measured to take, of what they take together by their schedules
        self._within: Set[Tuple[int, ...]] = set()  # numbers of graphs that are within the limit together
        self._above = math.inf  # what was taken where that was too much, until a smaller share does
        self.measured_peak: Optional[int] = None
        self._least: Dict[str, int] = {}  # of each graph, as found where it got a share
        self.recurrent = True  # whether Dynamo follows nn.LSTM and its like
        self.graphs, self.whole = 0, whole  # of the latest forward; whether fit had one
        self._left = 0  # forwards, the latest in a row, that Dynamo left as they are, or their parts
        self.dynamic = None if not has_recurrent(model) else False  # whether it leaves sizes open that have changed
        self._prepare()

    def at(self, share: int) -> "Fitted":
        """The same with a share, in percent, of what each graph takes as its budget, and in that what it holds once for each of a step: all hold theirs."""
        stage, link = self._options.get("stage"), self._options["link"]
        more = {"reserved": 0, "least": self._least, "breaks": self.backend.breaks, "stage": stage and dataclasses.replace(stage, kept={}),
                "firsts": (self.backend.results, {}), "waiting": len(self.backend.calls) if link is None else 1}  # the service knows no link with both
        made, own = Fitted(self.model, {**self._options, **more}, f"{share}%"), self.backend
        made._first, made.dynamic, made.recurrent, made.backend.traced, made.backend.writes = self, self.dynamic, self.recurrent, own.traced, own.writes
        return made

    def of(self, model: torch.nn.Module) -> "Fitted":
        made = Fitted(model, self._options, self.budget, self.whole)
        made.limit, made.ratio = self.limit, self.ratio
        return made

    def _prepare(self) -> None:
        self._prepared, self._has_recurrent = self._known(), has_recurrent(self.model)
        self.backend = Backend(self.budget, **self._options)
        self._flight = Flight(self.backend.stage) if self.backend.stage else None
        self._follow()

    def _follow(self, anew: bool = False) -> None:
        if anew:  # what Dynamo has left as it is it leaves for good, in whichever model it comes
            follow_anew()
            self.pieces.clear()
        self._first = self  # of those with one budget and another, whose graphs Dynamo has
        run, backend = _alone(self.plain), weakref.ref(self.backend)  # Dynamo keeps for good what it is given
        self._run = torch.compile(run, backend=lambda *graph: backend()(*graph), dynamic=self.dynamic)
        weakref.finalize(self, torch._dynamo.eval_frame.remove_from_cache, run.__code__)  # and what it made of it

    @property
    def pieces(self) -> List[Any]:
        return self.backend.pieces if self.backend is not None else []

    @property
    def schedule(self) -> Dict[str, Any]:
        """Of the piece with the most nodes; empty where there is none."""
        return self._largest.schedule if self.pieces else {}

    @property
    def profile(self) -> Dict[str, Any]:
        return self._largest.profile if self.pieces else {}

    @property
    def _largest(self) -> Any:
        return max(self.pieces, key=lambda piece: len(piece.profile["nodes"]))

    def _known(self) -> List[Any]:
        """What guards of Dynamo's do not see: parameters that are frozen no longer, other code of the modules' classes, and what is told of those."""
        modules = [*self.model.modules()]
        classes = dict.fromkeys(c for t in dict.fromkeys(map(type, modules)) for c in t.__mro__)
        code = [[vars(c).get("forward")] if c.__module__.startswith("torch.") else [f for f in vars(c).values() if isinstance(f, _CODE)] for c in classes]
        return [[p.requires_grad for p in self.model.parameters()], code, [dict(hooks) for hooks in _EVERYBODYS], self._told(modules)]

    def _told(self, modules: List[torch.nn.Module]) -> List[Any]:
        """Numbers that the modules' classes have (2.14) and methods that modules have of their own (2.6). A forward that sets them is not another one by it."""
        classes = dict.fromkeys(c for t in dict.fromkeys(map(type, modules)) for c in t.__mro__ if not c.__module__.startswith("torch."))
        own = [v for m in modules for name, v in vars(m).items() if callable(v) and name != "_compiled_call_impl" and not isinstance(v, Forward)]
        return [v for c in classes for v in vars(c).values() if isinstance(v, ATOMS)] + [getattr(v, "__code__", v) for v in own]

    def _was_left(self) -> None:
        """What Dynamo cannot follow once it leaves for good. So that there is a schedule again where it can, it follows anew, after ever more such forwards,
        and leaves no size open, which may be what it cannot follow."""
        how = f"in {self.graphs} graphs, each with the whole budget" if self.graphs else "without a schedule"
        warnings.warn(f"remat: a forward of {type(self.model).__name__} ran {how}: torch.compile could not follow it, "
                      f"or took code that models share for another (what it could not follow last: {why('')})", stacklevel=3)
        if self._left & (self._left - 1) == 0:
            self.dynamic = False
            self._follow(anew=True)

    def _look_at_graphs(self) -> None:
        """Where those of this forward are above the limit together, each has a smaller share from the next one on: this one has run. Raises BudgetError."""
        backend, numbers = self.backend, tuple(piece.number for piece in self.backend.calls)
        if not numbers or not self.ratio or not isinstance(self.limit, int) or numbers in self._within:
            return
        budget, taken = self.limit - self._options["reserved"], int(self.ratio * backend.together())
        if taken <= ALLOWED * budget:
            self._within.add(numbers)
            self._above = math.inf
            return
        last = int(self.budget[:-1]) if isinstance(self.budget, str) else 100
        share = next((s for s in range(last - 1, 0, -1) if self.ratio * backend.at(s) <= budget), 0)
        said = f"the budget is {budget} bytes, and a forward of {type(self.model).__name__} in {len(numbers)} graph{'s' * (len(numbers) > 1)} takes {taken}"
        least = backend.in_flight <= backend.at_once * len(numbers) and all(p.schedule.get("budget") in backend.least.values() for p in backend.calls)
        if not share or self._flight or taken >= self._above or least:
            raise BudgetError(said, taken)
        warnings.warn(f"remat: {said}: from the next one on each has {share} % of what it takes at most, in place of {last}", stacklevel=3)
        self._options, self.budget, self._above, self.limit = self.at(share)._options, f"{share}%", taken, budget
        self._prepare()

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_run": None, "_first": None, "backend": None, "_prepared": None, "_flight": None}

    @torch._dynamo.disable  # a torch.compile around it would follow the model instead
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or transformed():
            return self.plain(*args, **kwargs)
        if self._run is None or self._known() != self._prepared:
            self._prepare()
        try:
            call = bind(self.model, args, kwargs)
        except TypeError:
            return self.plain(*args, **kwargs)  # raises it
        earlier = self.backend.latest.pop(threading.get_ident(), ([], []))[1]
        if self._flight is None and any(value() is not None for value in earlier):
            warnings.warn(f"remat: an earlier forward of {type(self.model).__name__} still holds what its backward needs, and the budget is of one")
        ran, traced = self.backend.ran[threading.get_ident()], (frames := torch._dynamo.utils.counters["frames"])["total"]
        device, recurrent = next((p.device for p in self.model.parameters()), torch.device("cpu")), self.recurrent and self._has_recurrent
        comes_back = moment([*self.model.buffers(), *tensors_of(tuple(call))], device, recurrent)
        try:
            if self._flight is not None:
                self._flight.starts(call)
            with _dynamo_settings(self.recurrent):
                given = *call.args, *call.kwargs.values()  # Dynamo guards no order of keywords, and to say why a guard failed looks for those of earlier calls
                self._first.backend.current = None if self._first is self else self.backend
                result = _begun(self._first._run, (*call.kwargs,), len(call.args), *given, *[None] * (-len(given) % _PLACES))
            self._prepared[-1] = self._told([*self.model.modules()])
            graphs, self.graphs = self.graphs, self.backend.ran[threading.get_ident()] - ran
            self._left = self._left + 1 if self.whole and self.graphs > 1 or not self.graphs and (graphs or self._left) else 0
            if self._left:
                self._was_left()
            self._look_at_graphs()
            if self.dynamic is None and max(self.backend.traced.values(), default=0) >= SHAPES:  # of which Dynamo keeps all
                follow_anew()
                self._prepare()
            return result if self._flight is None else self._flight.holds(result)
        except Exception as error:
            cause = getattr(error, "inner_exception", None)
            if isinstance(cause, BudgetError) and self.pieces:
                cause = BudgetError(f"{cause} (in a step on tensors of {[tuple(t.shape) for t in tensors_of(tuple(call))]})", cause.minimum_budget)
            if isinstance(cause, RematError):
                raise cause from None
            if not isinstance(error, torch._dynamo.exc.TorchDynamoException):
                if frames["total"] != traced and not isinstance(error, RematError):  # what raises while it is traced is left so, not what it calls
                    self._follow(anew=True)
                raise
            follow_anew()  # or what Dynamo could not follow once would run plainly from then on, and its parts apart
            settings, wrong = (self.dynamic, self.recurrent), isinstance(error, torch._dynamo.exc.TorchRuntimeError)  # the model itself raises
            names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
            began = any(name[:4] == "run_" and name[4:].isdigit() for name in names)  # _alone's: it broke into graphs before
            if (recurrent or self.dynamic is None and self.pieces and not (wrong and began)) and comes_back():
                self.dynamic, self.recurrent = False, not self._has_recurrent  # such as packed sequences: a graph break
                self._prepare()
                try:
                    return self(*call.args, **call.kwargs)
                except Exception as other:
                    self.dynamic, self.recurrent = settings
                    if not isinstance(other, CaptureError):
                        self._prepare()
                        raise
            self._prepare()
            if wrong and began:  # what ran before is not run, and does not write, again
                raise _innermost(error) from None
            if wrong:
                torch.no_grad()(self.plain)(*call.args, **call.kwargs)  # which has written what it does before
            raise CaptureError(f"torch.compile cannot follow {type(self.model).__name__}: {_reason(cause or error)}") from error


def _begun(run: Callable[..., Any], *given: Any) -> Any:
    """Torch 2.6 begins nothing that is compiled while any thread traces: that one ends first."""
    try:
        return run(*given)
    except RuntimeError as error:
        within = error.__traceback__.tb_next if error.__traceback__ is not None else None
        if "FX to symbolically trace" not in str(error) or within is None or within.tb_next is not None:
            raise
        with torch._dynamo.convert_frame.compile_lock:
            if torch.fx._symbolic_trace.is_fx_tracing():  # this thread does
                raise
    return _begun(run, *given)


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """With code of its own: Dynamo leaves code as it is once it could not follow it, and the code that it would put around is everybody's."""
    run = lambda names, n, *values: function(*values[:n], **dict(zip(names, values[n:])))  # noqa: E731
    return FunctionType(run.__code__.replace(co_name=f"run_{next(_NUMBERS)}"), run.__globals__, None, None, run.__closure__)


def _duplicates(known: Callable[..., Any], obj_source: Any, dupe_source: Any) -> Any:
    """make_dupe_guard of Dynamo's, which has none of an input that is a global too, and one that is not looked at in dicts that stay as they are (2.6)."""
    def one_object(builder: Any, guard: Any) -> None:
        code = f"{builder.arg_ref(dupe_source.name if isinstance(dupe_source.name, str) else dupe_source.name())} is {builder.arg_ref(guard)}"
        builder.add_python_lambda_leaf_guard_to_root([code], [code])
    found = known(obj_source, dupe_source)
    return one_object if dupe_source and dupe_source != obj_source else found


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def _reason(error: BaseException) -> str:
    """With what it comes from: of a wrong shape Dynamo says first that there was one."""
    said, error = [(str(error).strip().splitlines() or [type(error).__name__])[0]], _innermost(error)
    return ": ".join([*said, *(first for first in str(error).strip().splitlines()[:1] if first not in said[0])])


@contextlib.contextmanager
def _dynamo_settings(recurrent: bool) -> Iterator[None]:
    """As config.patch, which makes a class in every step."""
    from torch._dynamo import config
    from torch._dynamo.variables import builder
    wanted = {"cache_size_limit": MOST, "accumulated_cache_size_limit": MOST, "use_numpy_random_stream": True,
              "skip_nnmodule_hook_guards": False, "allow_rnn": recurrent, "specialize_int": True, "specialize_float": True, "optimize_ddp": False,
              "trace_numpy": False}  # torch's functions differ from numpy's in the last bits
    before, known = {name: getattr(config, name) for name in wanted if hasattr(config, name)}, builder.make_dupe_guard
    try:
        builder.make_dupe_guard = functools.partial(_duplicates, known)
        for name in before:
            setattr(config, name, wanted[name])
        yield
    finally:
        builder.make_dupe_guard = known
        for name, value in before.items():
            setattr(config, name, value)


def has_recurrent(model: torch.nn.Module) -> bool:
    return any(isinstance(module, torch.nn.RNNBase) for module in model.modules())
