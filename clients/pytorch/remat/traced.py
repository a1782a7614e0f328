"""What transformers does otherwise while it is traced. Mixtures of experts on a CPU: its grouped product has a backward that looks at numbers,
which breaks every graph; as an operator of its own it is one node. Attention: it makes a mask where a plain step says is_causal or nothing."""

import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import fx
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

FORWARD, BACKWARD = "transformers::grouped_mm_fallback", "remat::grouped_mm_backward"
ENDS = {FORWARD: (0, 2), BACKWARD: (1, 3)}  # places of the rows, and of where each expert's end, among an operator's arguments


def adopt() -> None:
    """Once transformers is there, and has it."""
    if not hasattr(sys.modules.get("transformers.integrations.moe"), "_grouped_mm_fallback_backward") or hasattr(torch.ops.remat, "grouped_mm_backward"):
        return

    @torch.library.custom_op(BACKWARD, mutates_args=())
    def backward(gradient: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> List[torch.Tensor]:
        of_input, of_weight = torch.zeros_like(input), torch.zeros_like(weight)
        start = 0
        for i, end in enumerate(offs.tolist()):
            if start != end:
                torch.mm(gradient[start:end], weight[i].T, out=of_input[start:end])
                torch.mm(input[start:end].T, gradient[start:end], out=of_weight[i])
                start = end
        return [of_input, of_weight]

    def differentiate(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        return (*torch.ops.remat.grouped_mm_backward(gradient, *ctx.saved_tensors), None)
    backward.register_fake(lambda gradient, input, weight, offs: [torch.empty_like(input), torch.empty_like(weight)])
    torch.library.register_autograd(FORWARD, differentiate, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


def evenly(name: str, args: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """Arguments with which an operator is measured: each expert has as many rows."""
    if name not in ENDS:
        return args
    rows, place = ENDS[name]
    ends = args[place]
    made = torch.arange(1, len(ends) + 1, dtype=torch.float64).mul_(len(args[rows]) / max(1, len(ends))).floor_().to(ends)
    return (*args[:place], made, *args[place + 1:])


# ---- attention ----

ATTENTION = "sdpa_attention_forward"  # its function; whoever passes a mask of their own gets the kernel that takes it, as in a plain step
_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def masks(module: fx.GraphModule, args: Sequence[Any] = ()) -> Dict[str, bool]:
    """Of attention whose mask is made of no input but sizes, and is the causal one or masks nothing: by name, whether it is causal."""
    sizes = {node: size for node, size in zip(module.graph.find_nodes(op="placeholder"), args) if isinstance(size, int)}
    known: Dict[fx.Node, Optional[bool]] = {}
    found: Dict[str, Optional[bool]] = {}
    for node in module.graph.find_nodes(op="call_function", target=F.scaled_dot_product_attention):
        mask = dict(zip(_NAMES, node.args), **node.kwargs).get("attn_mask")
        if isinstance(mask, fx.Node) and ATTENTION in node.meta.get("stack_trace", ""):
            found[node.name] = known[mask] = known[mask] if mask in known else _is_causal(module, mask, sizes)
    return {name: causal for name, causal in found.items() if causal is not None}


def without_masks(module: fx.GraphModule, found: Dict[str, bool]) -> None:
    """Takes off those that masks found in it, or in what it is a copy of."""
    for node in module.graph.nodes:
        if node.name in found:
            node.args, node.kwargs = (), {**dict(zip(_NAMES, node.args)), **node.kwargs, "attn_mask": None, "is_causal": found[node.name]}
    module.recompile()


def _is_causal(module: fx.GraphModule, mask: fx.Node, sizes: Dict[fx.Node, int]) -> Optional[bool]:
    """True: it is the causal one; False: it masks nothing; None: neither, or made of an input."""
    needed, pending = set(), [mask]
    while pending:
        node = pending.pop()
        if node in sizes:
            continue
        if node.op not in ("call_function", "call_method") or "batch_dim" in str(node.target):  # or within a vmap
            return None
        pending += [source for source in node.all_input_nodes if source not in needed]
        needed.add(node)
    run = fx.Interpreter(module)
    run.env.update(sizes)
    with _disable_current_modes(), torch._C._DisablePythonDispatcher(), torch.no_grad():
        for node in [node for node in module.graph.nodes if node in needed]:
            run.env[node] = run.run_node(node)
        value = run.env[mask]
        for dim in range(value.dim() - 2):
            value = value.narrow(dim, 0, 1) if value.stride(dim) == 0 else value  # the same for all
        if value.dtype != torch.bool or value.dim() < 2:
            return None
        causal = value.shape[-1] == value.shape[-2] and bool((value == torch.ones_like(value).tril()).all())
        return False if value.all() else causal or None
