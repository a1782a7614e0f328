"""torch.compile with its activation memory budget: what the compiler's own partitioner keeps for the backward."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch


def compiled_forward(model: torch.nn.Module, budget: float) -> Callable[..., Any]:
    """The model's forward compiled by inductor. budget: 1 for what the compiler keeps by itself, 0 to recompute all.

    Raises ValueError where this torch has no such budget. The first call compiles.
    """
    try:
        from torch._dynamo import lookup_backend
        from torch._functorch import config
        config.activation_memory_budget
    except (ImportError, AttributeError):
        raise ValueError(f"torch {torch.__version__} has no activation memory budget of the compiler") from None
    if not 0 <= budget <= 1:
        raise ValueError(f"the compiler's activation memory budget is {budget!r}; it must be between 0 and 1")
    inductor = lookup_backend("inductor")

    def backend(graph: Any, inputs: Any) -> Any:  # one for each budget: the compiler keeps what it made by backend
        with config.patch(activation_memory_budget=budget):
            return inductor(graph, inputs)

    return torch.compile(functools.partial(type(model).forward, model), backend=backend)
