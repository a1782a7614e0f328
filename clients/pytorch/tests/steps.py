"""One training step, and everything that it changes."""

import os

import pytest
import torch

import remat
from remat.tensors import tensors_of

with_inductor = pytest.mark.skipif(not os.environ.get("REMAT_LONG") or not os.path.exists("/usr/include/ATen/NumericUtils.h"),
                                   reason="takes a minute, and the headers of torch (libtorch-dev)")


def loss_of(result):
    return sum((t.float() * torch.linspace(0.5, 1.5, t.numel(), device=t.device).view(t.shape)).sum() for t in tensors_of(result))


def step(model, inputs, seed, loss=loss_of):
    """Loss, gradients, buffers and generator after one step."""
    torch.manual_seed(seed)
    model.zero_grad(set_to_none=True)
    inputs = tuple(t.detach().requires_grad_(t.requires_grad) for t in inputs)
    value = loss(model(*inputs))
    value.backward()
    return [value.detach(), *(p.grad for p in model.parameters()), *(t.grad for t in inputs),
            *(b.clone() for b in model.buffers()), torch.get_rng_state(), *_cuda_generator(model)]


def _cuda_generator(model):
    return [torch.cuda.get_rng_state()] if next(model.parameters()).is_cuda else []


def assert_same(found, expected, what=""):
    assert len(found) == len(expected)
    for i, (a, b) in enumerate(zip(found, expected)):
        assert (a is None) == (b is None) and (a is None or torch.equal(a, b)), f"{what}: value {i} of {len(found)}"


def fit_tightly(model, inputs, **more):
    """With little more than the least budget that there is a schedule for: something is computed twice."""
    with pytest.raises(remat.BudgetError) as caught:
        remat.fit(model, inputs, 1, **more)
    return remat.fit(model, inputs, int(1.02 * caught.value.minimum_budget), **more)


class Written(torch.autograd.Function):
    """The identity; its gradient has bytes of its own, as those that losses make, where a sum's is one number."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous()


def total(result):
    return sum(Written.apply(t).sum() for t in tensors_of(result))
