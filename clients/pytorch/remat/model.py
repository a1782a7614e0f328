"""A model, and what one step of it is called with."""

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from .autocast import settings_now
from .errors import CaptureError
from .states import everything, whole
from .tensors import map_tensors, tensors_of

Modules = Union[torch.nn.Module, Sequence[torch.nn.Module]]
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Call(NamedTuple):
    """What a forward is called with, in one form: Dynamo compiles for each."""
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]

    def mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Call":
        """With other tensors; what is given twice, as labels=ids, still is one: Dynamo compiles for that."""
        made: Dict[int, torch.Tensor] = {}

        def one(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in made:
                made[id(tensor)] = change(tensor)
            return made[id(tensor)]
        return Call(*map_tensors(tuple(self), one))

    def leaves(self) -> Tuple["Call", List[torch.Tensor]]:
        """Arguments of a step's own, which it may write, and those of their tensors that want a gradient."""
        leaves = self.mapped(lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad))
        return leaves, list({id(t): t for t in tensors_of(tuple(leaves)) if t.requires_grad}.values())


def follow_anew() -> None:
    """torch._dynamo.reset, after which what was compiled with stays: torch 2.6 compares a graph's backend with others, and does not hold it."""
    from torch._dynamo.eval_frame import cached_backends
    kept = dict(cached_backends)
    torch._dynamo.reset()
    cached_backends.update(kept)


class Example:
    """A model and a step's inputs. states: what its forward may change, put back at the end of a with block."""

    def __init__(self, model: Modules, example_inputs: Any) -> None:
        """example_inputs: or the Call itself."""
        self.model = as_module(model)
        given = example_inputs if isinstance(example_inputs, Call) else arguments_of(example_inputs)
        try:
            self.call = bind(self.model, *given)
        except TypeError as error:
            raise CaptureError(f"{type(self.model).__name__}: {error}") from error
        if any(t.is_nested for t in tensors_of(tuple(self.call))):
            raise CaptureError(f"an input of {type(self.model).__name__} is a nested tensor, which no schedule knows: give a padded one")
        self.device = device_of(self.model, tuple(self.call))
        if self.device.type == "meta":
            raise CaptureError(f"{type(self.model).__name__} is on the meta device, where nothing is measured: remat.profile(..., device_model=) is for it")
        self.autocast = settings_now(self.device)

    def states(self) -> ContextManager[None]:
        return whole(self.model, self.device)

    def settle(self) -> Tuple[Any, List[torch.Tensor]]:
        """What run gives. Some models set themselves up in their first call, such as transformers' with hooks on their layers. What
        that leaves is kept, or each step would find itself in a first call; all others end as they began."""
        before = _hooks(self.model)
        with self.states():  # with gradients: some differentiate within
            ran = self.run()
            grown = _hooks(self.model) != before
        if grown:
            with everything(self.model, self.device):
                ran = self.run()
        return ran

    def run(self) -> Tuple[Any, List[torch.Tensor]]:
        """The plain forward's result, and of the call's tensors, which are its own, those that want a gradient."""
        call, wanted = self.call.leaves()
        return plain_forward(self.model)(*call.args, **call.kwargs), wanted


def _hooks(model: torch.nn.Module) -> Any:
    return [len(getattr(module, name)) for module in model.modules() for name in _HOOKS]


class Forward:
    """Stands in the place of a model's forward, and looks like it. accelerate takes it for the bound method that it
    replaces (__func__), wraps that, and unwraps it again. of(model): the same for a copy of the model, as each kind has it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.own = model, own_forward(model)

    @property
    def plain(self) -> Callable[..., Any]:
        return functools.partial(type(self.model).forward, self.model) if self.own is None else self.own

    @property
    def __code__(self) -> Any:
        return type(self.model).forward.__code__  # which torch.compile asks a torch.fx.GraphModule for

    @property
    def __signature__(self) -> inspect.Signature:
        """The model's own: transformers' Trainer and generate decide by it what they pass on."""
        return inspect.signature(self.own or type(self.model).forward.__get__(self.model))

    @property
    def __func__(self) -> "Unbound":
        return Unbound(self)


@dataclasses.dataclass(frozen=True)
class Unbound:
    """A Forward that is called with the model first, as the function of a method."""
    forward: Forward

    @property
    def __signature__(self) -> inspect.Signature:
        if self.forward.own is None:
            return signature(type(self.forward.model).forward)
        bound = self.forward.__signature__
        return bound.replace(parameters=[inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *bound.parameters.values()])

    def __call__(self, model: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if model is not self.forward.model:  # a copy's method, whose function is the original's
            model.forward = self.forward.of(model)
            return model.forward(*args, **kwargs)
        return self.forward(*args, **kwargs)


def forward_of(model: torch.nn.Module) -> Optional[Forward]:
    """What fit gave the model, within whatever was wrapped around it; None where there is nothing."""
    found = model.__dict__.get("forward")
    while found is not None:
        found = getattr(found, "__func__", found) if not isinstance(found, Forward) else found
        if isinstance(found, (Forward, Unbound)):
            return found if isinstance(found, Forward) else found.forward
        found = getattr(found, "__wrapped__", None)
    return None


def is_bare(model: torch.nn.Module) -> bool:
    """Whether nothing was wrapped around what fit gave it."""
    found = model.__dict__.get("forward")
    return isinstance(found, Forward) or isinstance(getattr(found, "__func__", None), Unbound)


def own_forward(model: torch.nn.Module) -> Optional[Callable[..., Any]]:
    """What stood on the model in place of its class's before it was fitted, such as a patch, of a copy the copy's; None where nothing did."""
    ours = forward_of(model)
    own = model.__dict__.get("forward") if ours is None else ours.own
    return own.__func__.__get__(model) if ours is not None and getattr(own, "__self__", None) is ours.model else own


def plain_forward(model: torch.nn.Module) -> Callable[..., Any]:
    return Forward(model).plain


def set_forward(model: torch.nn.Module, forward: Optional[Forward] = None) -> None:
    """In place of the model's own, which without one stands there again; what was wrapped around another goes with that."""
    found = own_forward(model) if forward is None else forward
    vars(model).pop("forward", None)
    vars(model).update({} if found is None else {"forward": found})


def as_module(model: Modules) -> torch.nn.Module:
    """Raises CaptureError where there is none, or one of which what is fitted cannot be a part."""
    if isinstance(model, (list, tuple, torch.nn.ModuleList)):
        return torch.nn.Sequential(*model)
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if not isinstance(model, torch.nn.Module) or isinstance(model, (torch.nn.ModuleDict, torch.nn.ParameterList, torch.nn.ParameterDict)):
        raise CaptureError(f"{name} is no module with a forward, nor a list of modules")
    if isinstance(model, torch.nn.DataParallel):
        raise CaptureError("DataParallel copies its module, and what is fitted of it, in every step: use DistributedDataParallel")
    if isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod"):
        raise CaptureError(f"{name} is {'scripted' if isinstance(model, torch.jit.ScriptModule) else 'compiled'}: fit the module that it was made of")
    if any(map(torch.nn.parameter.is_lazy, [*model.parameters(), *model.buffers()])):
        raise CaptureError(f"{name} has parameters that its first call makes, as of nn.LazyLinear: call it once before it is fitted")
    if any(hasattr(parameter, "device_mesh") for parameter in model.parameters()):
        raise CaptureError(f"the parameters of {name} are shared among ranks: fit it before fully_shard")
    return model


def arguments_of(example: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    if isinstance(example, Mapping):  # transformers' BatchEncoding is no dict
        return (), dict(example)
    return (example if isinstance(example, tuple) else (example,)), {}


def device_of(model: torch.nn.Module, example: Any) -> torch.device:
    for tensor in [*model.parameters(), *tensors_of(example)]:
        return tensor.device
    raise CaptureError(f"{type(model).__name__} has no parameters, and there is no tensor among its inputs")


def bind(model: torch.nn.Module, args: Sequence[Any], kwargs: Dict[str, Any]) -> Call:
    """Raises TypeError where forward does not take them, as a call does. What is wrapped around one gets them as they are: it may look at keywords."""
    forward = type(model).forward
    if own_forward(model) is not None or hasattr(forward, "__wrapped__") or hasattr(forward, "__signature__"):
        return Call(tuple(args), dict(kwargs))
    bound = signature(forward).bind(model, *args, **kwargs)
    bound.apply_defaults()
    return Call(bound.args[1:], bound.kwargs)


signature = functools.lru_cache(maxsize=None)(inspect.signature)
