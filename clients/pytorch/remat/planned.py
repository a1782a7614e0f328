"""Profiles without a schedule: measured, or from shapes alone, where no weight is allocated and no operation runs, and costs are of a device's model. Then
the model, whose parameters may be on the meta device, and its inputs become fake tensors; nodes are those of a fit."""

import copy
import functools
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch.utils._pytree import tree_map

from . import devices
from .backend import Backend
from .errors import BudgetError, CaptureError, RematError
from .model import Example, Modules, arguments_of, as_module, follow_anew, plain_forward


class _Made(Exception):
    """The profile is there; nothing is to run."""


class Profiler(Backend):
    """profile: of the graph that was compiled."""

    def __init__(self, **more: Any) -> None:
        super().__init__("100%", **more)
        self.profile: Dict[str, Any] = {}

    def order_for(self, profile: Dict[str, Any], _: Any) -> Tuple[Dict[str, Any], List[int]]:
        self.profile = profile
        raise _Made

    def of(self, model: torch.nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any, name: Optional[str]) -> Any:
        """Raises CaptureError, also where the forward breaks into several graphs."""
        from torch._dynamo import config
        follow_anew()
        with config.patch(allow_rnn=True):
            try:
                torch.compile(forward, backend=self, dynamic=False)(*args, **kwargs)
            except Exception as error:
                if isinstance(getattr(error, "inner_exception", None), RematError):
                    raise error.inner_exception from None
                if not self.profile:
                    raise CaptureError(f"{type(model).__name__} cannot be profiled: {str(error).splitlines()[0]}") from error
            finally:
                follow_anew()
        if self.breaks or not self.profile:
            raise CaptureError(f"the forward of {type(model).__name__} is not one graph: {'; '.join(self.breaks) or 'torch.compile left it as it is'}")
        self.profile["name"] = (name or type(model).__name__)[:200]
        return self.profile


class Planner(Profiler):
    """Costs of a device's model."""

    def __init__(self, device: devices.Device, mode: Any, **more: Any) -> None:
        super().__init__(**more)
        self.device, self.mode = device, mode

    def _compile(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        from torch._guards import TracingContext, tracing
        with tracing(TracingContext(self.mode)):  # Dynamo has a mode of its own
            return super()._compile(module, example)

    def costs(self, graph: Any, device: torch.device) -> Dict[str, Any]:
        return devices.costs(self.device, graph.operations, graph.end + 1)


def measured(model: Modules, example_inputs: Any, name: Optional[str], repeats: int) -> Dict[str, Any]:
    """remat-profile/1, a joint one, of the model where it is. Raises CaptureError."""
    example = Example(model, example_inputs)
    with example.states():
        found = Profiler(repeats=repeats).of(example.model, plain_forward(example.model), *example.call, name)
    found["source"] = {"framework": f"pytorch {torch.__version__}", "device": str(example.device), "note": "measured by remat.profile"}
    return found


def profile(model: Modules, example_inputs: Any, device_model: Union[str, devices.Device], name: Optional[str] = None,
            loss: Sequence[int] = (0, 0)) -> Dict[str, Any]:
    """remat-profile/1, a joint one, in about the time that torch takes to trace. loss: bytes that one outside of the model takes beside its
    results, forward and backward. Raises CaptureError, also where the forward breaks into several graphs."""
    from torch._subclasses import FakeTensorMode
    device = devices.find(device_model)
    module, (args, kwargs) = as_module(model), arguments_of(example_inputs)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        memo: Dict[int, Any] = {}  # those that are shared stay so
        for part in module.modules():
            for held in (part._parameters, part._buffers, vars(part)):
                memo.update({id(t): _fake(mode, t) for t in held.values() if isinstance(t, torch.Tensor) and id(t) not in memo})
        twin = copy.deepcopy(module, memo)
        args, kwargs = tree_map(functools.partial(_fake, mode), (args, kwargs))
        found = Planner(device, mode, loss=loss).of(module, twin, args, kwargs, name)
    found["source"] = {"framework": f"pytorch {torch.__version__}", "device": device.get("title", device["name"])[:200],
                       "note": f"from shapes alone: times are of the model of {device['name']}, not measured"[:200]}
    return found


def _fake(mode: Any, value: Any) -> Any:
    """On the CPU, whose operators show the shapes; a parameter stays one."""
    if not isinstance(value, torch.Tensor) or isinstance(value, torch._subclasses.FakeTensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(made, value.requires_grad)
    return made.requires_grad_(value.requires_grad) if value.is_floating_point() else made


# ---- what is left of a device ----

ALLOCATOR = 0.02  # of the memory: what the caching allocator rounds up to and cannot give again
_STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}  # of each weight's bytes


def device_budget(model: torch.nn.Module, optimizer: Union[None, str, torch.optim.Optimizer],
                  device_model: Union[None, str, devices.Device], device: torch.device) -> int:
    """Bytes of a device for a step: its memory without what its runtime and allocator take, weights, buffers and what the
    optimizer holds once it has made a step. Gradients of the parameters are of the step. Raises BudgetError."""
    if device_model is not None:
        entry = devices.find(device_model)
        memory, context = entry["memory_bytes"], entry.get("context_bytes", 0)
    elif device.type == "cuda":
        memory, context = torch.cuda.get_device_properties(device).total_memory, 512 << 20
    else:
        memory, context = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 0
    weights = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    states = sum(_states(p, optimizer) for p in model.parameters() if p.requires_grad)
    left = memory - int(ALLOCATOR * memory) - context - weights - states
    if left <= 0:
        raise BudgetError(f"budget \"device\": of {memory} bytes the runtime takes {context}, the allocator "
                          f"{int(ALLOCATOR * memory)}, weights and buffers {weights} and the optimizer {states}")
    return left


def _states(weight: torch.nn.Parameter, optimizer: Union[None, str, torch.optim.Optimizer]) -> int:
    amount = weight.numel() * weight.element_size()
    if isinstance(optimizer, torch.optim.SGD):
        group = next(g for g in optimizer.param_groups if any(p is weight for p in g["params"]))
        return amount if group["momentum"] else 0
    name = (optimizer or "sgd") if optimizer is None or isinstance(optimizer, str) else type(optimizer).__name__.lower()
    if name == "adafactor":  # sums of rows and of columns, or of a vector
        return weight.element_size() * (sum(weight.flatten(1).shape) if weight.dim() > 1 else weight.numel())
    if name not in _STATES:
        raise BudgetError(f"budget \"device\" does not know what {name} holds; it knows adafactor, {', '.join(_STATES)}: give "
                          "bytes, with reserved= for what the optimizer holds")
    return _STATES[name] * amount
