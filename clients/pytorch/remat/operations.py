"""What single operations of a joint graph take: time and workspace, measured on inputs of their shapes."""

import hashlib
import operator
import statistics
import time
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

from . import traced
from .client import Cache
from .errors import CaptureError
from .joint import Cost, Joint, name_of
from .memory import Recorder
from .tensors import amount, tensors_of

LONG = 0.2  # seconds, from which an operation is timed once
BANDWIDTH = 5e3  # bytes a microsecond, of an operation that cannot run on numbers like these
FORMAT = 5
_SHORT = 1e-3  # seconds, up to which an operation of a GPU is timed
_ROW = 10  # times in a row


def measure(joint: Joint, device: torch.device, repeats: int, cache: Cache) -> Dict[str, Cost]:
    """Microseconds and bytes of workspace, by name of operation. Equal operations on equal shapes are measured once, and
    kept in the cache. No generator and no tensor of the caller is touched."""
    nodes = [op.node for op in joint.operations if op.node is not None]
    costs = kept(nodes, joint.module, device, repeats, cache)
    return {node.name: (time, int(workspace)) for node, (time, workspace) in zip(nodes, costs)}


def kept(nodes: List[fx.Node], module: fx.GraphModule, device: torch.device, repeats: int, cache: Cache) -> List[List[float]]:
    """Microseconds and bytes of workspace, by node."""
    keys = [_key(node, module) for node in nodes]
    different = dict(zip(keys, nodes))
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    name = hashlib.sha256(repr((FORMAT, torch.__version__, str(device), machine, torch.get_num_threads(), repeats, sorted(different))).encode()).hexdigest()
    found = cache.get(name, "operations")
    if found is None:
        if device.type == "cpu" and torch._C._autograd._profiler_enabled():
            raise CaptureError("a profiler of torch is running, and there is one at a time: run a step without it first (or a step of fit compiled anew)")
        with _disable_current_modes(), torch._C._DisablePythonDispatcher(), torch.no_grad(), torch.random.fork_rng(
                devices=[device] if device.type == "cuda" else []):
            found = {"operations": _measure(different, module, device, repeats)}
        cache.put(name, found)
    return [found["operations"][key] for key in keys]


def _measure(nodes: Dict[str, fx.Node], module: fx.GraphModule, device: torch.device, repeats: int) -> Dict[str, Any]:
    costs: Dict[str, List[float]] = {}
    made: List[Tuple[str, int]] = []
    with Recorder(device) as recorder:
        for key, node in nodes.items():
            try:
                run = _runner(node, module)
                run()  # the first one's caches are not the operation's
                recorder.mark()
                result = run()
                recorder.mark()
            except Exception:  # numbers that it cannot run on, such as indices of another operation
                tensors = [t for n in (*node.all_input_nodes, node) for t in tree_flatten(n.meta.get("val"))[0] if isinstance(t, torch.Tensor)]
                costs[key] = [amount(tensors) / BANDWIDTH, 0]
                continue
            made.append((key, _own(result, run)))
            del result
            costs[key] = [_time(run, device, repeats), 0]
            del run
        recorder.mark()
    segments = recorder.segments
    for i, (key, own) in enumerate(made):
        segment = segments[2 * i]
        costs[key][1] = max(0, segment.peak - segment.start - own)
    return costs


def _time(run: Callable[[], Any], device: torch.device, repeats: int) -> float:
    times: List[float] = []
    in_a_row = 1
    while len(times) < repeats and sum(times) < LONG:
        begin = clock(device)
        for _ in range(in_a_row):
            result = run()  # noqa: F841 (the last is freed after the clock is read)
        taken = clock(device) - begin
        del result
        if device.type == "cuda" and in_a_row == 1 and taken < _SHORT:
            in_a_row = _ROW  # as in a step, where the host is ahead: the wait for the device is no operation's
            continue
        times.append(taken / in_a_row)
    return 1e6 * statistics.median(times)


def _runner(node: fx.Node, module: fx.GraphModule) -> Callable[[], Any]:
    generators: Dict[torch.device, torch.Generator] = {}

    def value(argument: Any) -> Any:
        if not isinstance(argument, fx.Node):
            return argument
        if argument.op == "get_attr":
            return operator.attrgetter(argument.target)(module)
        found = argument.meta.get("val")
        if argument.op == "call_function" and isinstance(found, torch.Tensor) and found.dtype == torch.uint8:
            # it may be the workspace of a library, which made-up numbers must not stand for: they crash it
            is_element = argument.target is operator.getitem
            made = _runner(argument.args[0] if is_element else argument, module)()
            return made[argument.args[1]] if is_element else made
        return tree_map(lambda v: _like(v, generators) if isinstance(v, torch.Tensor) else v, found)

    args, kwargs = fx.map_arg(node.args, value), fx.map_arg(node.kwargs, value)
    args, kwargs = tuple(_plain(a) for a in args), {k: _plain(v) for k, v in kwargs.items()}
    args = traced.evenly(name_of(node), args)
    run = lambda: node.target(*args, **kwargs)  # noqa: E731
    run.inputs = tensors_of((args, kwargs))  # type: ignore[attr-defined]
    return run


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _like(fake: torch.Tensor, generators: Dict[torch.device, torch.Generator]) -> torch.Tensor:
    """Of its shape and strides. Whole numbers are 0, which is an index into everything."""
    size = 1 + sum((n - 1) * s for n, s in zip(fake.shape, fake.stride())) if fake.numel() else 0
    if fake.is_floating_point():
        generator = generators.setdefault(fake.device, torch.Generator(fake.device).manual_seed(0))
        storage = torch.rand(size, generator=generator, device=fake.device).to(fake.dtype)
    else:
        storage = torch.zeros(size, dtype=fake.dtype, device=fake.device)
    return torch.as_strided(storage, fake.shape, fake.stride())


def _own(result: Any, run: Any) -> int:
    there = {t.untyped_storage().data_ptr() for t in run.inputs}
    parts = [p for t in tensors_of(result) for p in ((t._indices(), t._values()) if t.layout == torch.sparse_coo else (t,))]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in parts}
    return sum(size for place, size in storages.items() if place not in there)


def _key(node: fx.Node, module: fx.GraphModule) -> str:
    """Equal for operations that take the same."""
    def describe(argument: Any) -> str:
        def one(value: Any) -> str:
            return f"{tuple(value.shape)}/{tuple(value.stride())}/{value.dtype}/{value.device}" if isinstance(value, torch.Tensor) else repr(value)
        if isinstance(argument, fx.Node):
            return argument.target if argument.op == "get_attr" else str([one(v) for v in tree_flatten(argument.meta.get("val"))[0]])
        return str([describe(a) for a in argument]) if isinstance(argument, (list, tuple)) else repr(argument)

    target = node.target if isinstance(node.target, torch._ops.OpOverload) else name_of(node) or node.target
    return f"{target}({', '.join(map(describe, node.args))}; {[(k, describe(v)) for k, v in node.kwargs.items()]})"


def clock(device: torch.device) -> float:
    """Seconds. On one CPU thread those in which it ran: other processes do not count."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif torch.get_num_threads() == 1:
        return time.thread_time()
    return time.perf_counter()
