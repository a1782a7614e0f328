"""Whole steps of a model: what one takes, and whether one under a schedule is the plain one."""

import collections
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch
from torch.utils._pytree import tree_flatten

from .autocast import casts
from .errors import CaptureError, CheckError
from .memory import Recorder
from .model import Call, Example, plain_forward
from .states import ATOMS, python_generators
from .tensors import Looks, amount, map_tensors, storage_of, tensors_of

Forward = Callable[..., Any]
Loss = Callable[[Any], torch.Tensor]
Found = List[Tuple[str, Any]]  # what a step made, with names

# How far two steps may be apart, beside the largest number of a tensor: sums in another order differ in the last bits.
_NEAR = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}
_FLOOR = 1e-3  # of that, beside the largest gradient of all: one that is zero but for rounding is only that
_SHAKEN = 8  # units in the last place by which weights are changed, to see what rounding does to a step
_LEEWAY = 10  # times as far as that moves a tensor, two steps may be apart


# ---- what a step takes ----

def assumed_loss(result: Any) -> Optional[torch.Tensor]:
    """Stands for a loss that nobody gave: the cross entropy of every result, over its last dimension. None where the model returns one number."""
    tensors = [t for t in tensors_of(result) if t.requires_grad]
    if not tensors:
        raise CaptureError("the model returns nothing that needs a gradient (under no_grad nothing does): there is no backward to plan for")
    if len(tensors) == 1 and tensors[0].numel() == 1:
        return None
    tensors = [t.abs() if t.is_complex() else t for t in tensors]
    return sum(-torch.log_softmax(t, -1).select(-1, 0).mean() if t.dim() else t for t in tensors)


def loss_of(loss: Optional[Loss], result: Any) -> Optional[torch.Tensor]:
    """One number, or None where none is assumed. Raises CaptureError where a loss makes another thing."""
    if loss is None:
        return assumed_loss(result)
    value = loss(result)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise CaptureError(f"loss= returned {what}; it must make one number of what the model returns: a tensor of one element")
    return value


def loss_bytes(example: Example, loss: Optional[Loss], result: Any, inputs: List[torch.Tensor]) -> Tuple[int, int, int]:
    """What the loss, and its backward, take beside the results and their gradients, and what stays to the end of the step: behind the
    number, where some keep all that they made it of, and the gradients of inputs that are given back. result, inputs: of Example.run."""
    if loss is None:
        assumed_loss(result)
    with example.states():
        for _ in range(2):  # the first one's caches are no loss's
            begun, wanted = _cut_off(result)
            with Recorder(example.device) as recorder:
                recorder.mark()
                value = loss_of(loss, begun)
                if value is None:
                    return 0, 0, 0
                recorder.mark()
                gradients = torch.autograd.grad(value, wanted, allow_unused=True)
                recorder.mark()
                sizes = [0 if g is None else g.numel() * g.element_size() for g in gradients]
                del gradients
                recorder.mark()
            own = value.numel() * value.element_size()
            del value
    forward, backward, after = recorder.segments
    rise = forward.peak - forward.start
    kept, made = max(0, after.end - forward.start - own), sum(sizes)
    back = sum(size for size, leaf in zip(sizes, wanted) if any(storage_of(leaf) == storage_of(tensor) for tensor in inputs))
    return rise, max(0, rise - made - kept, backward.peak - forward.start - made - kept), kept + back


def _cut_off(result: Any) -> Tuple[Any, List[torch.Tensor]]:
    """The result without what made it, and the tensors a backward begins with: one for what is there twice, or is looked into, as torch.compile has it."""
    def base(tensor: torch.Tensor) -> torch.Tensor:
        return tensor._base if tensor._is_view() else tensor
    bases = [id(base(t)) for t in {id(t): t for t in tensors_of(result)}.values()]
    leaves: List[torch.Tensor] = []
    begun: Dict[int, torch.Tensor] = {}

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in begun:
            leaves.append(tensor.detach().requires_grad_(tensor.is_floating_point() or tensor.is_complex()))
            begun[id(tensor)] = _Begins.apply(leaves[-1])
        return begun[id(tensor)]

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        source = base(tensor)
        return leaf(tensor) if source is tensor or bases.count(id(source)) == 1 else tensor._view_func(leaf(source))
    return map_tensors(result, cut), [t for t in leaves if t.requires_grad]


class _Begins(torch.autograd.Function):
    """The identity: a loss may write what a model returns, and no leaf."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def peak(forward: Forward, example: Example, loss: Optional[Loss], gradients: bool, warm: bool = True) -> int:
    """Measured, of a step with the example: activations, what the loss takes, inputs, what the forward returns, which is held to the
    step's end as in out = model(x), and, with gradients, those of the parameters. warm: as of recorded."""
    parameters = [p for p in example.model.parameters() if p.requires_grad]

    def run(mark: Callable[[], None]) -> int:
        leaves, wanted = example.call.leaves()
        mark()
        result = forward(*leaves.args, **leaves.kwargs)
        value = loss_of(loss, result)
        value = tensors_of(result)[0] if value is None else value
        made = _differentiate(example, [value], wanted + parameters)
        mark()
        return amount(g for g in made[len(wanted):] if g is not None)

    taken, own = recorded(example, run, warm)
    return taken + amount(tensors_of(tuple(example.call))) - (0 if gradients else own)


def recorded(example: Example, run: Callable[[Callable[[], None]], int], warm: bool = True) -> Tuple[int, int]:
    """Bytes between the two marks that a step sets, and what it returns. warm: of the second of two, as what compiles in a first one
    measures too, and only one can record; states are put back, so that both are the same step."""
    if warm:
        with example.states():
            run(lambda: None)
    with example.states(), Recorder(example.device) as recorder:
        own = run(recorder.mark)
    segment = recorder.segments[0]
    return segment.peak - segment.start, own


# ---- whether it is the plain one ----

def check(example: Example, forward: Forward, loss: Optional[Loss], first: Optional[Found] = None) -> None:
    """Two steps, with other random numbers and, in the second, another input. first: what the step with the example and seed 0 made,
    where there was one. Raises CheckError with the first difference."""
    check_casts(example)
    for seed in range(2):
        inputs = example.call if seed == 0 else _other(example.call)
        try:
            expected = _plain(example, inputs, loss, seed)
        except Exception:  # an input that is none
            if seed == 0:
                raise
            inputs = example.call
            expected = _plain(example, inputs, loss, seed)
        found = step(forward, example, inputs, loss, seed) if seed or first is None else first
        where = f"{type(example.model).__name__}: a step under its schedule, with {'another' if seed else 'the example'} input,"
        names = [name for name, _ in expected]
        if names != [name for name, _ in found]:
            raise CheckError(f"{where} has other results than the plain one")
        largest = max((float(value.abs().max()) for name, value in expected if name.startswith("the gradient")
                       and isinstance(value, torch.Tensor) and value.numel() and not value.is_sparse), default=0.0)
        near, shaken = None, None
        for i, ((name, a), (_, b)) in enumerate(zip(expected, found)):
            if _agree(a, b, largest):
                continue
            near = _nearness(example, inputs, loss, seed) if near is None else near
            if _agree(a, b, largest, near):
                continue
            shaken = _shaken(example, inputs, loss, seed) if shaken is None else shaken
            if not _agree(a, b, largest, near, _LEEWAY * _distance(a, shaken[i][1])):
                if not _agree(a, _plain(example, inputs, loss, seed)[i][1], largest, near):
                    raise CheckError(f"{type(example.model).__name__}: {name} differs between two plain steps of one seed: none can be checked (check=False)")
                raise CheckError(f"{where} is not the plain one: {name} is {_short(b)}; of the plain step it is {_short(a)}"
                                 f"{f', and they are up to {apart:.6g} apart' if (apart := _distance(a, b)) else ''}. Please report the model")


def _plain(example: Example, inputs: Call, loss: Optional[Loss], seed: int) -> Found:
    """The plain step, with torch's own batch norm: that is what AOTAutograd makes of cuDNN's, whose sums are others."""
    original = torch.batch_norm
    torch.batch_norm = lambda *args, **kwargs: original(*args[:8], **{**kwargs, "cudnn_enabled": False})  # which is the ninth
    try:
        return step(plain_forward(example.model), example, inputs, loss, seed)
    finally:
        torch.batch_norm = original


def check_casts(example: Example) -> None:
    """Autocast keeps its cast of a weight. If the first one was made without gradients, a plain step has none of what else uses it; a
    schedule casts each time. That may be less than two steps of 16 bits are apart, so uses are counted. Raises CheckError."""
    with casts(example.device, kept=True) as seen:
        kept = anew = _uses(example)
    if any(seen):
        with casts(example.device, kept=False):
            anew = _uses(example)
    for name, parameter in example.model.named_parameters():
        has, wants = kept[id(parameter)], anew[id(parameter)]
        if has != wants:
            raise CheckError(f"{type(example.model).__name__}: the parameter \"{name}\" has a gradient from {has} of its {wants} uses in a "
                             "plain step, and from all under a schedule: within one torch.autocast it is used first under no_grad, and "
                             "autocast keeps that cast, which has none. With torch.autocast(..., cache_enabled=False) both are the same")


def _uses(example: Example) -> Dict[int, int]:
    """Of each parameter, by identity: how many operations hand it a gradient, those that do by a cast of it among them."""
    uses: Dict[int, int] = collections.Counter()
    with example.states():
        torch.manual_seed(0)
        result, _ = example.run()
        readers: Dict[Any, int] = collections.Counter(t.grad_fn for t in tensors_of(result) if t.grad_fn is not None)
        pending = list(readers)
        while pending:
            node = pending.pop()
            for source, _ in node.next_functions:
                if source is not None:
                    pending += [source] * (source not in readers)
                    readers[source] += 1
    for node, count in readers.items():
        cast = node.next_functions[0][0] if type(node).__name__ == "ToCopyBackward0" else None
        if hasattr(node, "variable"):
            uses[id(node.variable)] += count
        elif cast is not None and hasattr(cast, "variable"):
            uses[id(cast.variable)] += count - 1
    return uses


def step(forward: Forward, example: Example, inputs: Call, loss: Optional[Loss], seed: int) -> Found:
    model = example.model
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    with example.states():
        torch.manual_seed(seed)
        leaves, wanted = inputs.leaves()
        result = forward(*leaves.args, **leaves.kwargs)
        outputs = [result] if loss is None else [loss_of(loss, result)]
        found: Found = [(f"result {i}", t.detach().clone()) for i, t in enumerate(tensors_of(outputs))]
        ends, generator = [t for t in tensors_of(outputs) if t.requires_grad], torch.Generator().manual_seed(seed)
        seeds = [torch.randn(t.shape, generator=generator).to(t) for t in ends]
        gradients = _differentiate(example, ends, wanted + [p for _, p in parameters], seeds) if ends else ()
        names = [*(f"the gradient of input {i}" for i in range(len(wanted))), *(f"the gradient of \"{name}\"" for name, _ in parameters)]
        found += zip(names, gradients)
        found += [(f"the input {i} afterwards", t.detach().clone()) for i, t in enumerate(tensors_of(tuple(leaves)))]
        found += [(f"the buffer \"{name}\"", buffer.clone()) for name, buffer in model.named_buffers()]
        found += [("torch's generator", torch.get_rng_state()), ("Python's generators", repr(python_generators()))]
        if example.device.type == "cuda":
            found.append(("the generator of the device", torch.cuda.get_rng_state(example.device)))
        found += [(f"the attributes of \"{path}\"", {name: value for name, value in vars(module).items() if isinstance(value, ATOMS)})
                  for path, module in model.named_modules()]
    return found


def _differentiate(example: Example, ends: List[torch.Tensor], wanted: List[torch.Tensor],
                   seeds: Optional[List[torch.Tensor]] = None) -> Tuple[Optional[torch.Tensor], ...]:
    """Gradients, of which the parameters keep nothing. Raises CaptureError where they cannot be had so."""
    if not wanted or not any(isinstance(end, torch.Tensor) and end.requires_grad for end in ends):
        raise CaptureError(f"in {type(example.model).__name__} nothing needs a gradient, no parameter, no input or not the "
                           "loss (under no_grad nothing does): there is no backward to plan for")
    try:
        return torch.autograd.grad(ends, wanted, seeds, allow_unused=True)
    except RuntimeError as error:
        if "a backward through a backward" in str(error):
            raise CaptureError(f"{type(example.model).__name__} differentiates its own gradients: {error}") from error
        if "inplace operation" in str(error) or "between forward and backward" in str(error):
            raise CaptureError(f"{type(example.model).__name__}: the forward, or loss=, writes in place what the backward "
                               f"needs: let it write a copy, as of out.clone() ({error})") from error
        if "heckpoint" not in str(error) or ".grad()" not in str(error):
            raise
        raise CaptureError(f"{type(example.model).__name__} uses torch.utils.checkpoint with use_reentrant=True, whose "
                           "gradients cannot be had apart: use_reentrant=False, or none within what is fitted") from error


def _other(inputs: Call) -> Call:
    """Of the same sizes, each number one of the lower half of the tensor's own: one that may be there, and sums and largest values are others."""
    generator = torch.Generator().manual_seed(1)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() < 2 or tensor.is_complex() or tensor.layout is not torch.strided:
            return tensor
        numbers = tensor.detach().flatten()
        numbers = numbers.sort().values[:(tensor.numel() + 1) // 2] if tensor.dtype != torch.bool else numbers
        drawn = torch.randint(len(numbers), (tensor.numel(),), generator=generator).to(tensor.device)
        return numbers[drawn].view(tensor.shape).requires_grad_(tensor.requires_grad)

    return inputs.mapped(change)


def _nearness(example: Example, inputs: Call, loss: Optional[Loss], seed: int) -> float:
    """How far two such steps may be apart where the plain one computes with 16 bits, be it within an autocast of its own; else 0."""
    seen: Set[torch.dtype] = set()
    with Looks(lambda _, __, made: seen.update(t.dtype for t in tree_flatten(made)[0] if isinstance(t, torch.Tensor))):
        step(plain_forward(example.model), example, inputs, loss, seed)
    return max((_NEAR[t] for t in seen & {torch.float16, torch.bfloat16}), default=0.0)


def _shaken(example: Example, inputs: Call, loss: Optional[Loss], seed: int) -> Found:
    """The plain step with weights that are a few units in the last place apart. Kernels that round otherwise move a step about as
    far: to many times a last bit where it is badly conditioned."""
    weights = [p for p in example.model.parameters() if p.dtype in (torch.float32, torch.float64)]
    before, generator = [p.detach().to("cpu", copy=True) for p in weights], torch.Generator().manual_seed(seed)
    try:
        with torch.no_grad():
            for p in weights:
                noise = torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device)
                p.mul_(1 + _SHAKEN * torch.finfo(p.dtype).eps * noise)
        return _plain(example, inputs, loss, seed)
    finally:
        with torch.no_grad():
            for p, own in zip(weights, before):
                p.copy_(own)


def _real(value: Any) -> Any:
    return torch.view_as_real(value.resolve_conj()) if isinstance(value, torch.Tensor) and value.is_complex() and value.layout == torch.strided else value


def _distance(a: Any, b: Any) -> float:
    """Between two tensors of floating point numbers; 0 for all else, and where one is not finite."""
    a, b = _real(a), _real(b)
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.shape != b.shape or not a.is_floating_point() or (
            a.layout != torch.strided or b.layout != torch.strided or a.numel() == 0):
        return 0.0
    apart = float((a.double() - b.double()).abs().max())
    return apart if apart < float("inf") else 0.0


def _agree(a: Any, b: Any, largest: float, near: float = 0.0, apart: float = 0.0) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and (a is b or a == b)
    if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout:
        return False
    a, b = _real(a), _real(b)
    a, b = (a.to_dense(), b.to_dense()) if a.layout != torch.strided else (a, b)
    if torch.equal(a, b) or not a.is_floating_point():
        return torch.equal(a, b)
    size = max(float(a[a.isfinite()].abs().max()) if a.isfinite().any() else 0.0, _FLOOR * largest)
    return torch.allclose(a.double(), b.double(), rtol=0.0, atol=max(apart, max(near, _NEAR[a.dtype]) * size), equal_nan=True)


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"of norm {float(_real(value).float().norm()):.6g}" if value.numel() > 1 else f"{value.item():.6g}"
    return "not there" if value is None else "another"
