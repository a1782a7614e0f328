"""What operations take on a device that need not be there: the roofline of solver/plan/device.c, over the same table.

A kernel takes the larger of what its arithmetic and its traffic take, at the part of the peaks that kernels of its class and size reach, after its launch."""

import bisect
import functools
import json
import math
import operator
from pathlib import Path
from typing import Any, Dict, List, Tuple, Union

import torch
from torch import fx

from .errors import CaptureError
from .joint import name_of
from .tensors import amount, tensors_of

Device = Dict[str, Any]  # an entry of the table
CLASSES = ("matrix", "convolution", "attention", "normalisation", "pointwise", "pooling", "gather", "copy")
_COMPUTING = CLASSES[:3]
_CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward")
OPERATORS = {"convolution_1x1": "convolution", "convolution_of_points": "convolution", "convolution_depthwise": "convolution",
             "batch_norm": "normalisation", "random": "pointwise"}  # parts of classes, that torch computes with other kernels
_PRECISIONS = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_WORDS = (  # in names of operators, the first that is there; else it is pointwise
    ("convolution", ("convolution", "conv2d")), ("attention", ("scaled_dot_product",)), ("pooling", ("pool", "upsample")),
    ("matrix", ("mm", "linear", "recurrent", "library_", "addmv", "einsum")), ("normalisation", ("norm", "softmax", "sum", "mean", "var")),
    ("gather", ("embedding", "index", "gather", "scatter", "select", "slice_backward", "nll_loss", "topk", "sort", "one_hot")),
    ("copy", ("clone", "copy", "cat", "stack", "pad", "constant", "repeat", "zeros", "ones", "full", "empty", "arange")))


@functools.lru_cache(maxsize=None)
def table() -> Dict[str, Any]:
    """devices.json, beside this file in a wheel, in api/plan in the repository."""
    here = Path(__file__).resolve()
    for path in (here.with_name("devices.json"), here.parents[3] / "api" / "plan" / "devices.json"):
        if path.exists():
            return json.loads(path.read_text())
    raise CaptureError("this package has no table of devices (devices.json)")


def find(model: Union[str, Device, Path]) -> Device:
    """An entry: by its name in the table, else of a file as examples/calibrate.py writes it, or itself. Raises CaptureError."""
    known = {entry["name"]: entry for entry in table()["devices"]}
    entry = model if isinstance(model, dict) else known.get(str(model))
    try:
        entry = json.loads(Path(model).read_text()) if entry is None else entry
    except (OSError, ValueError, TypeError) as error:
        raise CaptureError(f"device_model is {model!r}; there are {', '.join(known)}, and files that examples/calibrate.py writes ({error})") from error
    if not isinstance(entry, dict):
        raise CaptureError(f"device_model is {model!r}, a file without an entry of a device")
    for name in ("memory_bytes", "bandwidth_bytes_per_second", "flops_per_second", "launch_seconds"):
        if name not in entry:
            raise CaptureError(f"the device has no {name}")
    return {**entry, "efficiency": {**table()["efficiency"], **entry.get("efficiency", {})}}


def _fraction(points: List[List[float]], size: float) -> float:
    """Straight lines over the logarithms of both."""
    i = bisect.bisect_left([point[0] for point in points], size)
    if i == 0 or i == len(points):
        return points[min(i, len(points) - 1)][1]
    (a, low), (b, high) = points[i - 1], points[i]
    return low * (high / low) ** (math.log(size / a) / math.log(b / a))


def seconds(device: Device, kind: str, precision: str, backward: bool, flops: float, traffic: float, operator: str = "") -> float:
    """Of one kernel. traffic: bytes; of classes bound by memory flops are not read. operator: of OPERATORS, for the class where the device has it."""
    own = device.get("operators", {}).get(operator)

    def points(name: str) -> List[List[float]]:
        both = own or device["efficiency"][name]
        return both.get("backward", both["forward"]) if backward else both["forward"]

    def size(name: str, work: float, rate: float) -> float:
        peak = 0 if own else device["efficiency"][name].get("peak", 0)
        return work * peak / rate if peak else work
    moving = device["bandwidth_bytes_per_second"]
    reached = device["efficiency"]["copy"]["forward"] if kind in _COMPUTING else points(kind)
    full = size("copy" if kind in _COMPUTING else kind, traffic, moving)
    taken = traffic / (moving * _fraction(reached, full)) if traffic else 0.0
    if kind in _COMPUTING and flops:
        rates = device["flops_per_second"]
        if precision not in rates:
            raise CaptureError(f"{device['name']} computes no {precision}; it has {', '.join(rates)}")
        rate = rates[precision]
        taken = max(taken, flops / (rate * _fraction(points(kind), size(kind, flops, rate))))
    return device["launch_seconds"] + taken


# ---- operations of a joint graph ----

def cost(device: Device, node: fx.Node, backward: bool) -> float:
    """Microseconds of an operation, from its shapes."""
    made = tensors_of(node.meta.get("val"))
    read = [t for n in node.all_input_nodes for t in tensors_of(_value(n))]
    kind = next((kind for kind, words in _WORDS if any(word in name_of(node) for word in words)), "pointwise")
    numbers = [t.dtype for t in (*made, *read) if t.is_floating_point()]
    precision = _PRECISIONS.get(numbers[0] if numbers else torch.float32, "float32")
    flops, part = _flops(node) if kind in _COMPUTING else 0.0, operator_of(node)
    if part == "convolution":
        source, weight = _convolved(node)
        given, wanted = source.shape[1], weight.shape[0]  # more is computed where the last block is not full; an image of few has kernels of its own
        flops *= (-(-wanted // _BLOCK) * _BLOCK / wanted) * (-(-given // _BLOCK) * _BLOCK / given if given > 4 else 1.0)
    return 1e6 * seconds(device, kind, precision, backward, flops, float(amount((*made, *read))), part)


def operator_of(node: fx.Node) -> str:
    """Its place in OPERATORS; "convolution" for any other convolution; empty for all else."""
    name = name_of(node)
    if "batch_norm" in name or name in ("dropout_mask", "aten::bernoulli"):
        return "batch_norm" if "norm" in name else "random"
    if name not in _CONVOLUTIONS:
        return ""
    source, weight = _convolved(node)
    strides = node.args[3 + _CONVOLUTIONS.index(name)]
    if all(size == 1 for size in (*weight.shape[2:], *strides)) and weight.shape[1] == source.shape[1]:  # a product
        return "convolution_of_points" if all(size == 1 for size in source.shape[2:]) else "convolution_1x1"
    return "convolution_depthwise" if weight.shape[1] == 1 and source.shape[1] > 1 else "convolution"


def _convolved(node: fx.Node) -> Tuple[torch.Tensor, torch.Tensor]:
    """Image and weight."""
    first = _CONVOLUTIONS.index(name_of(node))
    return _value(node.args[first]), _value(node.args[first + 1])


def _value(node: fx.Node) -> Any:
    return node.args[0].meta["val"][node.args[1]] if node.target is operator.getitem and "val" not in node.meta else node.meta.get("val")


def _flops(node: fx.Node) -> float:
    """Of products, as torch counts them; of recurrent layers twice the numbers of their weights for each step and example,
    thrice that for the backward and once more for what it runs again."""
    from torch.utils.flop_counter import flop_registry
    args, kwargs = fx.map_arg(node.args, _value), fx.map_arg(node.kwargs, _value)
    name = name_of(node)
    backward = "backward" in name
    if name in _CONVOLUTIONS:  # torch's count knows no groups
        source, weight = _convolved(node)
        result, transposed = (args[0], args[7]) if backward else (node.meta["val"], args[6])
        once = 2.0 * (source if transposed else result).numel() * weight[0].numel()
        return once * sum(args[10][:2]) if backward else once
    if "library_" in name:
        return (4.0 if backward else 2.0) * args[0].shape[:2].numel() * sum(w.numel() for w in args[1:3])
    if "recurrent" in name:
        values, _, weights = args[-6:-3]
        return (6.0 if backward else 2.0) * values.shape[:2].numel() * sum(w.numel() for w in weights if w.dim() == 2)
    if "scaled_dot_product" in name:  # two products, and five for the backward
        tensors = [a for a in args if isinstance(a, torch.Tensor) and a.dim() == 4]
        q, k, v = tensors[1:4] if backward else tensors[:3]
        once = 2.0 * q.shape[:3].numel() * k.shape[2] * (q.shape[3] + v.shape[3])
        return 2.5 * once if backward else once
    packet = getattr(node.target, "overloadpacket", None)
    return float(flop_registry[packet](*args, **kwargs, out_val=node.meta.get("val"))) if packet in flop_registry else 0.0


def costs(device: Device, operations: List[Any], first_backward: int) -> Dict[str, Tuple[float, int]]:
    """By name: microseconds, and bytes of workspace."""
    return {op.name: (cost(device, op.node, i >= first_backward), workspace(op.node)) for i, op in enumerate(operations) if op.node is not None}


_BLOCK = 16  # channels that oneDNN keeps together, on processors with AVX-512


def workspace(node: fx.Node) -> int:
    """Bytes beside results, as on a CPU: what oneDNN copies into its own order of numbers for a convolution that is not one
    of single points, and the second copies of a few others. 0 for what is not known to have any."""
    name, made = name_of(node), tensors_of(node.meta.get("val"))
    if name in ("aten::native_dropout_backward", "dropout_result"):
        return amount(made)
    if name not in _CONVOLUTIONS:
        return 0
    backward = name == _CONVOLUTIONS[1]
    source, weight = _convolved(node)
    result = _value(node.args[0]) if backward else made[0]
    if all(size == 1 for size in weight.shape[2:]) and source.shape[2:] == result.shape[2:]:
        return 0
    read, written, own = _blocked(source), _blocked(result), weight.numel() * weight.element_size()
    if backward:
        return max(own, read + written)
    read = read if source.shape[1] >= _BLOCK else 0
    return max(read + own + written - result.numel() * result.element_size(), written)


def _blocked(tensor: torch.Tensor) -> int:
    channels = -(-tensor.shape[1] // _BLOCK) * _BLOCK
    return tensor.numel() // tensor.shape[1] * channels * tensor.element_size()
