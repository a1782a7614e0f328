"""fit by torch.compile: Dynamo follows the forward, remat.backend gives each piece of it a schedule."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from types import FunctionType
from typing import Any, Dict, Iterator, List, Optional

import torch

from . import sharing, steps
from .autocast import Autocast, settings_now
from .backend import Backend, version
from .capture import bind
from .captured import Blocks, arguments_of, as_module, device_of
from .client import Budget
from .errors import BudgetError, CaptureError, RematError
from .planning import bytes_of
from .states import Whole, forward_mode
from .trace import named

ALLOWED = 1.02  # of the budget, by which a measured peak may be above it without a word
SPARE = 500  # one part in which of a budget is for what no operation makes: tensors of a few bytes that Python holds
_CODE = (FunctionType, property, staticmethod, classmethod)
SPANS = (1, 8, 64)  # in which steps of recurrent layers run, as far as a budget needs it
SHAPES = 64  # for which one function has plans


def available() -> bool:
    return hasattr(torch, "compile") and version() >= (2, 4)


def has_recurrent(model: torch.nn.Module) -> bool:
    return any(isinstance(module, torch.nn.RNNBase) for module in model.modules())


class Example:
    """A model, and what one step is called with: as much of Captured as whole steps need."""

    states = Whole  # that its forward may change

    def __init__(self, model: Blocks, example_inputs: Any) -> None:
        self.model = as_module(model)
        if isinstance(self.model, torch.jit.ScriptModule):
            raise CaptureError(f"{type(self.model).__name__} is scripted: fit the module that it was made of")
        if hasattr(self.model.__dict__.get("forward"), "schedule"):
            raise CaptureError(f"{type(self.model).__name__} has a schedule already; remat.remove it first")
        self.args, self.kwargs = arguments_of(example_inputs)
        self.device = device_of(self.model, (self.args, self.kwargs))
        self.bound = bind(self.model, self.args, self.kwargs)
        self.autocast = settings_now(self.device)


class Compiled:
    """The forward of a model that was fitted by torch.compile.

    pieces: graphs with a schedule, one for each shape and, after a graph break, several. measured_peak: of a step in the
    check of fit. A copy, or what comes out of a pickle, compiles itself when it first runs; what was measured and
    answered is in the cache of plans.
    """

    def __init__(self, model: torch.nn.Module, options: Dict[str, Any], budget: Budget) -> None:
        self.model, self.budget, self._options = model, budget, options
        self.measured_peak: Optional[int] = None
        self.recurrent = True  # whether Dynamo follows nn.LSTM and its like
        self._prepare()

    def at(self, share: int) -> "Compiled":
        """The same with a share of what each graph takes, in percent, as its budget."""
        return Compiled(self.model, {**self._options, "least": True}, f"{share}%")

    def _prepare(self) -> None:
        self._prepared = self._known()
        self.backend = Backend(self.budget, **self._options)
        forward = functools.partial(type(self.model).forward, self.model)
        self._run = torch.compile(forward, backend=self.backend, dynamic=False)

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
        """What guards of Dynamo's do not see: parameters that are frozen no longer, other code of the modules' classes."""
        types = dict.fromkeys(type(module) for module in self.model.modules())
        classes = dict.fromkeys(c for t in types for c in t.__mro__)
        return [[p.requires_grad for p in self.model.parameters()], [vars(c).get("forward") if c.__module__.startswith("torch.")
                                                                     else _code(c) for c in classes]]

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_run": None, "backend": None, "_prepared": None}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or forward_mode():
            return type(self.model).forward(self.model, *args, **kwargs)
        known = self._known()
        if self._run is None or known != self._prepared:
            self._prepare()
        try:
            with _dynamo_settings(self.recurrent):
                return self._run(**self._by_name(args, kwargs))
        except Exception as error:
            cause = getattr(error, "inner_exception", None)
            if isinstance(cause, RematError):
                raise cause from None
            if self.recurrent and isinstance(error, torch._dynamo.exc.TorchDynamoException) and has_recurrent(self.model):
                self.recurrent = False  # such as packed sequences: a graph break
                self._prepare()
                return self(*args, **kwargs)
            if isinstance(error, torch._dynamo.exc.TorchDynamoException):
                reason = str(cause or error).strip().splitlines() or [type(error).__name__]
                raise CaptureError(f"torch.compile cannot follow {type(self.model).__name__}: {reason[0]}") from error
            raise

    def _by_name(self, args: Any, kwargs: Any) -> Dict[str, Any]:
        """In one form, or Dynamo would compile for each."""
        bound = bind(self.model, args, kwargs)
        if any(name.startswith("*") and value for name, value in bound.items()):
            raise CaptureError(f"{type(self.model).__name__}: *args or **kwargs with something in them are not supported")
        return named(bound)


def _code(kind: type) -> List[Any]:
    return [f for f in vars(kind).values() if isinstance(f, _CODE)]


@contextlib.contextmanager
def _dynamo_settings(recurrent: bool) -> Iterator[None]:
    """As config.patch, which makes a class in every step."""
    from torch._dynamo import config

    wanted = {"cache_size_limit": max(SHAPES, config.cache_size_limit), "use_numpy_random_stream": True,
              "skip_nnmodule_hook_guards": False, "allow_rnn": recurrent,
              "trace_numpy": False}  # torch's functions differ from numpy's in the last bits
    before = {name: getattr(config, name) for name in wanted if hasattr(config, name)}
    try:
        for name in before:
            setattr(config, name, wanted[name])
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def fit(model: Blocks, example_inputs: Any, budget: Budget, auto: Any, loss: Optional[steps.Loss], check: bool,
        options: Dict[str, Any]) -> torch.nn.Module:
    """budget: as parse_budget gives it, or "auto", for which auto(model, device) gives bytes. options: of Backend."""
    example = Example(model, example_inputs)
    gradients = options["gradients"]
    amount = budget
    if budget == "auto":
        amount = auto(example.model, example.device)
    elif isinstance(budget, str) and gradients:
        with Autocast(example.device).again():
            plain = steps.plain_forward(example.model)
            amount = bytes_of(budget, steps.peak(plain, example, loss, True, held=True))
    options = {**options, "loss": steps.loss_bytes(example, loss, views=True), "divided": True}
    for spans, more in zip(SPANS, (*SPANS[1:], 0)):
        try:
            return _fit(example, amount, loss, check, {**options, "spans": spans})
        except BudgetError as error:
            if not more or not has_recurrent(example.model):
                raise
            warnings.warn(f"remat: within the budget of {amount} bytes the layers of nn.LSTM and its like cannot run in "
                          f"{spans} span{'s' * (spans > 1)} of their steps ({error}): in {more} they may, with sums in "
                          "another order", stacklevel=5)
    raise AssertionError("the last one raises")


def _fit(example: Example, amount: Budget, loss: Optional[steps.Loss], check: bool, options: Dict[str, Any]
         ) -> torch.nn.Module:
    asked = amount if isinstance(amount, str) else amount - amount // SPARE
    gradients, model = options["gradients"], example.model
    while True:
        compiled = Compiled(model, options, asked)
        model.forward = compiled  # before it compiles: Dynamo guards what modules have
        try:
            _first_step(compiled, example, loss)
            if check:
                steps.check(example, compiled, loss)
            if isinstance(amount, int) and (compiled.backend.breaks or not compiled.pieces):
                compiled = _within(compiled, example, loss, amount - options["reserved"])
            if check:
                compiled.measured_peak = steps.peak(compiled, example, loss, gradients, held=True)
                _look_at_peak(compiled, amount)
            return model
        except BudgetError as error:
            del model.forward
            if asked == amount or (error.minimum_budget or math.inf) > amount:
                raise
            asked = amount
        except BaseException:
            del model.forward
            raise


def _within(compiled: Compiled, example: Example, loss: Optional[steps.Loss], budget: int) -> Compiled:
    """A forward in several graphs, or none, with one budget. Raises BudgetError."""
    gradients = compiled.backend.gradients
    measured = steps.peak(compiled, example, loss, gradients, held=True)
    if measured <= budget or not all(piece.schedule for piece in compiled.pieces):
        return compiled
    if not compiled.pieces:
        if measured <= ALLOWED * budget:
            return compiled
        raise BudgetError(f"the budget is {budget} bytes; torch.compile left {type(example.model).__name__} as it is, and a "
                          f"step takes {measured}", measured)
    made: Dict[int, Compiled] = {}

    def measure(share: int) -> int:
        made[share] = example.model.forward = compiled.at(share)
        steps.check(example, made[share], loss)
        return steps.peak(made[share], example, loss, gradients, held=True)

    backend = compiled.backend
    return made[sharing.divide(budget, measured - backend.together(), backend.at, measure)]


def _first_step(compiled: Compiled, example: Example, loss: Optional[steps.Loss]) -> None:
    """Compiles. Says so where nothing was."""
    from torch._dynamo.utils import counters

    before = {reason for reason in counters["graph_break"]}
    steps.step(compiled, example, example.bound, loss, 0)
    if not compiled.pieces:
        new = [reason for reason in counters["graph_break"] if reason not in before] or ["no reason was given"]
        warnings.warn(f"remat: torch.compile left {type(example.model).__name__} as it is, so it trains without a schedule: "
                      f"{'; '.join(str(r).splitlines()[0] for r in new)}", stacklevel=6)


def _look_at_peak(compiled: Compiled, budget: Budget) -> None:
    if isinstance(budget, int) and compiled.measured_peak > ALLOWED * budget:
        warnings.warn(f"remat: the budget is {budget} bytes, and a step was measured to take {compiled.measured_peak} "
                      f"({compiled.schedule.get('peak')} predicted)", stacklevel=6)
