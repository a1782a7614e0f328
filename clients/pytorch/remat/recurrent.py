"""nn.LSTM, nn.GRU and nn.RNN as operations of a joint graph: one for each layer's forward, one for its backward.

Torch would make some thirty operations of each step, several times slower than its own loop. Here a layer runs as it does in a plain step. Where that is one
operator of a library, as nn.LSTM on a CPU is one of oneDNN's, the graph has this operator with what it keeps for its backward. Else the backward of a layer
runs it again first, so that nothing of its steps is held between the two, and what they take is the workspace of one operation. Where that is too much, a
layer's steps run in several spans, each with operations of its own: sums over the steps are then in another order. Torch 2.4 or later."""

import functools
from typing import Any, Callable, List, Sequence, Tuple

import torch
from torch import fx

_NAMES = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def split(graph: fx.Graph, spans: int, libraries: bool) -> bool:
    """Calls of torch.lstm and its like become operations, layer by layer, a layer of one direction in so many spans.
    libraries: those of oneDNN stay. Whether there were any. Those of packed sequences are left."""
    found = False
    cast = any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")) or any(
        getattr(node.target, "__name__", "") == "_enter_autocast" for node in graph.nodes)
    for node in list(graph.nodes):
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if name not in _NAMES or len(node.args) != 9 or not isinstance(node.args[3], bool):
            continue
        library = libraries and name == "lstm" and _is_of_library(node)
        if cast and not library:
            continue  # what autocast casts is not the layer but what it is made of
        with graph.inserting_before(node):
            results = _layers(graph, spans, library, name, *node.args)
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
        found = True
    return found


def _layers(graph: fx.Graph, spans: int, library: bool, name: str, values: fx.Node, states: Any,
            weights: Sequence[fx.Node], biases: bool, layers: int, dropout: float, training: bool, both: bool, batch_first: bool) -> List[fx.Node]:
    """As at::lstm goes through them: dropout between any two."""
    call: Callable[..., fx.Node] = lambda target, *args: graph.call_function(target, args)  # noqa: E731
    states = list(states) if name == "lstm" else [states]
    directions, each = 1 + both, len(weights) // layers
    ends: List[List[fx.Node]] = [[] for _ in states]
    steps = values.meta["example_value"].shape[1 if batch_first else 0]
    count = 1 if both or not isinstance(steps, int) else min(spans, steps)
    cuts = [(steps * i // count, steps * (i + 1) // count) for i in range(count)] if count > 1 else [(0, steps)]
    values = call(torch.transpose, values, 0, 1) if batch_first else values
    for k in range(layers):
        if k and dropout and training:
            values = call(torch.dropout, values, dropout, True)
        now = [call(torch.narrow, s, 0, k * directions, directions) for s in states]
        parts = []
        for begin, end in cuts:
            span = call(torch.narrow, values, 0, begin, end - begin) if len(cuts) > 1 else values
            own = list(weights[k * each:(k + 1) * each])
            made = call(torch.lstm, span, now, own, biases, 1, 0.0, training, both, False) if library else \
                call(_operation(), span, now, own, name, biases, both)
            now = [call(_item, made, 1 + i) for i in range(len(states))]
            parts.append(call(_item, made, 0))
        values = call(torch.cat, parts, 0) if len(cuts) > 1 else parts[0]
        for end_of, state in zip(ends, now):
            end_of.append(state)
    values = call(torch.transpose, values, 0, 1) if batch_first else values
    return [values, *(call(torch.cat, end, 0) for end in ends)]


def _is_of_library(node: fx.Node) -> bool:
    """Whether torch.lstm is oneDNN's: of 32 bits or bfloat16, without projections, on a CPU."""
    values, (hidden, cell), weights = node.args[:3]
    first, hidden, cell, *others = (n.meta.get("example_value") for n in (values, hidden, cell, *weights))
    known = [torch.float32]
    if torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        known.append(torch.bfloat16)
    fused = all(isinstance(t, torch.Tensor) and t.device.type == "cpu" and t.dtype in known for t in (first, hidden, cell, *others))
    return fused and torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled() and hidden.shape == cell.shape and first.numel() != 0


def library_layer(*args: Any) -> Tuple[torch.Tensor, ...]:
    """oneDNN's, with what it keeps for its backward, which it makes where gradients are recorded only."""
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
        return torch.ops.aten.mkldnn_rnn_layer.default(*args)


def library_backward(*args: Any) -> Tuple[torch.Tensor, ...]:
    """Of bfloat16 it makes some gradients of 32 bits, which autograd casts and a graph does not."""
    made = torch.ops.aten.mkldnn_rnn_layer_backward.default(*args)
    return tuple(m.to(of.dtype) for m, of in zip(made, args))


library_layer._remat_pure = library_backward._remat_pure = True  # type: ignore[attr-defined]


def keep_workspaces(graph: fx.Graph) -> None:
    """Of a joint graph: torch knows of oneDNN's layers as they are without a backward. One run tells how much they keep."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.mkldnn_rnn_layer.default):
        node.target = library_layer
        *made, unknown = node.meta["val"]
        key = fx.map_arg(list(node.args), lambda n: (tuple(n.meta["val"].shape), n.meta["val"].dtype))
        node.meta["val"] = (*made, unknown.new_empty(_workspace(*(tuple(a) if isinstance(a, list) else a for a in key))))
        for user in node.users:
            user.meta["val"] = node.meta["val"][user.args[1]]
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.mkldnn_rnn_layer_backward.default):
        node.target = library_backward


@functools.lru_cache(maxsize=None)
def _workspace(*arguments: Any) -> int:
    """Bytes. arguments: of tensors their shapes and types."""
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes(), torch._C._DisablePythonDispatcher():
        made = library_layer(*(torch.zeros(a[0], dtype=a[1]) if isinstance(a, tuple) and a else a for a in arguments))
    return made[3].numel()


def _item(made: Sequence[torch.Tensor], k: int) -> torch.Tensor:
    return made[k]


def _run(values: torch.Tensor, states: List[torch.Tensor], weights: List[torch.Tensor], name: str, biases: bool, both: bool) -> List[torch.Tensor]:
    first = tuple(states) if name == "lstm" else states[0]
    return list(getattr(torch, name)(values, first, weights, biases, 1, 0.0, False, both, False))


@functools.lru_cache(maxsize=None)
def _operation() -> Any:
    """Registered, with its backward, when it is first needed."""
    @torch.library.custom_op("remat::recurrent", mutates_args=())
    def forward(values: torch.Tensor, states: List[torch.Tensor], weights: List[torch.Tensor], name: str, biases: bool, both: bool) -> List[torch.Tensor]:
        """Recorded, for that takes another path than what is not, with other last bits; nothing that it saves is kept."""
        given = [t.detach().requires_grad_() for t in (values, *states, *weights)]
        last = 1 + len(states)
        with torch.enable_grad(), _recorded(), torch.autograd.graph.saved_tensors_hooks(lambda _: None, lambda _: None):
            return [t.detach() for t in _run(given[0], given[1:last], given[last:], name, biases, both)]

    @torch.library.custom_op("remat::recurrent_backward", mutates_args=())
    def backward(gradients: List[torch.Tensor], values: torch.Tensor, states: List[torch.Tensor],
                 weights: List[torch.Tensor], name: str, biases: bool, both: bool) -> List[torch.Tensor]:
        given = [t.detach().requires_grad_() for t in (values, *states, *weights)]
        last = 1 + len(states)
        with torch.enable_grad(), _recorded():
            made = _run(given[0], given[1:last], given[last:], name, biases, both)
            return [g.contiguous() for g in torch.autograd.grad(made, given, gradients)]

    @forward.register_fake
    def _(values: torch.Tensor, states: List[torch.Tensor], weights: List[torch.Tensor], name: str, biases: bool, both: bool) -> List[torch.Tensor]:
        steps, batch, _ = values.shape
        return [values.new_empty(steps, batch, states[0].shape[-1] * (1 + both)), *(torch.empty_like(s) for s in states)]

    @backward.register_fake
    def _(gradients: Any, values: torch.Tensor, states: List[torch.Tensor], weights: List[torch.Tensor], *_: Any) -> List[torch.Tensor]:
        return [t.new_empty(t.shape) for t in (values, *states, *weights)]

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        values, states, weights, *ctx.rest = inputs
        ctx.counts = len(states), len(weights)
        ctx.save_for_backward(values, *states, *weights)

    def differentiate(ctx: Any, gradients: List[torch.Tensor]) -> Any:
        values, *others = ctx.saved_tensors
        states, weights = others[:ctx.counts[0]], others[ctx.counts[0]:]
        found = torch.ops.remat.recurrent_backward(list(gradients), values, states, weights, *ctx.rest)
        first = 1 + ctx.counts[0]
        return found[0], found[1:first], found[first:], None, None, None

    forward.register_autograd(differentiate, setup_context=keep)
    return torch.ops.remat.recurrent.default


def _recorded() -> Any:
    """What runs within an operation is below autograd; here it is to be recorded."""
    below = torch._C._dispatch_tls_local_exclude_set()
    for key in ("AutogradCPU", "AutogradCUDA", "AutogradOther", "ADInplaceOrView", "AutogradFunctionality"):
        below = below.remove(getattr(torch._C.DispatchKey, key))
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), below)
