"""Mixtures of experts on a CPU, as transformers computes them: its grouped product has a backward that looks at numbers while it
is traced, which breaks every graph. As an operator of its own it is one node."""

from __future__ import annotations

import functools
import sys
from typing import Any, List, Tuple

import torch

FORWARD, BACKWARD = "transformers::grouped_mm_fallback", "remat::grouped_mm_backward"
ENDS = {FORWARD: (0, 2), BACKWARD: (1, 3)}  # places of the rows, and of where each expert's end, among an operator's arguments


def adopt() -> None:
    """Once transformers is there, and has it."""
    if "transformers.integrations.moe" in sys.modules:
        _adopt()


@functools.lru_cache(maxsize=None)
def _adopt() -> None:
    if not hasattr(sys.modules["transformers.integrations.moe"], "_grouped_mm_fallback_backward"):
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
