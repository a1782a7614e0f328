"""The list of what a tracer gets wrong without a word, on the road of torch.compile: each is as in the plain model, step
after step, with what it does to Python and to buffers."""

import copy
import io
import random
import warnings

import numpy
import pytest
import test_silent as cases
import torch
from models import mlp, vgg
from steps import assert_same, fit_tightly, loss_of, step
from torch import nn

import remat

RIGHT = [cases.reverses, cases.scales, cases.half_without_gradients, cases.distils, cases.without_autocast,
         cases.sparse_choice, cases.normalizes, cases.item, cases.length, cases.branches_on_a_size, cases.branches,
         cases.python_noise, cases.numpy_noise, cases.counts, cases.keeps_a_loss, cases.writes_a_buffer, cases.appends,
         cases.counts_in_a_global, cases.asks_for_gradients, cases.past_setattr, cases.with_a_generator, cases.bound,
         cases.own_generator, cases.infers, cases.changes_a_weight]


def state(model):
    return {name: value for name, value in vars(model).items() if isinstance(value, (int, float, list, torch.Tensor))}


def seeded(model, inputs, seed):
    random.seed(seed)
    numpy.random.seed(seed)
    cases.COUNTS[0] = seed
    return step(model, inputs, seed)


def compare(model, plain, shape=(8, 16), steps=3):
    for seed in range(steps):
        inputs = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)),)
        expected, count = seeded(plain, inputs, seed), cases.COUNTS[0]
        found = seeded(model, inputs, seed)
        assert_same(found, expected, f"step {seed}")
        assert cases.COUNTS[0] == count
        assert state(model).keys() == state(plain).keys()
        for name, value in state(plain).items():
            other = state(model)[name]
            assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other, name


@pytest.mark.parametrize("middle", RIGHT)
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_as_the_plain_model(middle, dtype, server):
    if middle is cases.own_generator:
        pytest.skip("its two models share one generator")
    model, x = cases.body(middle)
    plain = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is not None), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # graph breaks are said, which is tested elsewhere
        try:
            remat.fit(model, x, "100%", server=server)
        except (remat.CheckError, RuntimeError) as refused:
            print(middle.__name__, "refused:", refused)
            raise
        compare(model, plain)
