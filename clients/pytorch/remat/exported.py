"""torch.export, for a forward that torch.fx cannot follow: one that asks what its arguments are, or keeps them in
containers of its own. It follows values through any Python code, and so what it gives are calls of ATen."""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
import torch.fx
from torch.utils._pytree import tree_unflatten

from .graph import tensors_of


def export(model: torch.nn.Module, bound: Dict[str, Any]) -> Optional[torch.fx.Graph]:
    """The graph; None where this torch has no torch.export or it fails, or an argument has tensors within it.

    bound: arguments of forward by name. Names of parameters and buffers in the graph are those of the model.
    """
    if not hasattr(torch, "export") or any(tensors_of(value) and not isinstance(value, torch.Tensor)
                                           for value in bound.values()):
        return None
    follow = getattr(torch.export, "export_for_training", torch.export.export)
    try:
        with torch.enable_grad():
            program = follow(model, (), bound, strict=False)
    except Exception:  # whatever the user's forward raises; the error of torch.fx is the one that is told
        return None
    graph = program.module().graph
    for node in list(graph.nodes):
        if node.op == "placeholder" and not isinstance(bound.get(node.target), torch.Tensor):
            graph.erase_node(node)
        elif node.op == "output":
            node.args = (tree_unflatten(list(node.args[0]), program.call_spec.out_spec),)
    return graph
