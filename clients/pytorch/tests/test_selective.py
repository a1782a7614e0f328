"""The plan through the doors that others have."""

import copy

import pytest
import torch
from steps import assert_same, loss_of, step
from test_backend import peak
from torch import nn
from torch.utils.checkpoint import checkpoint

import remat
from remat import operations
from remat import selective


def layers():
    torch.manual_seed(0)
    parts = [part for _ in range(6) for part in (nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64))]
    return nn.Sequential(*parts), torch.randn(512, 64)


@pytest.mark.core
def test_a_policy_keeps_what_the_plan_keeps(server):
    model, x = layers()
    plain = copy.deepcopy(model)
    expected = step(plain, (x,), 0)
    remat.fit(model, x, "80%", server=server)
    chosen = remat.policy(model)
    saved = selective._saved_calls(model.forward.pieces[0])
    assert saved
    remat.remove(model)
    run = lambda x: checkpoint(model, x, use_reentrant=False, context_fn=chosen)  # noqa: E731
    torch.manual_seed(0)
    model.zero_grad()
    loss_of(run(x)).backward()
    assert_same([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
    bare = peak(lambda x: checkpoint(model, x, use_reentrant=False), model, (x,))
    everything = peak(plain, plain, (x,))
    assert bare <= peak(run, model, (x,)) <= 1.3 * everything
    assert expected


def test_a_policy_needs_one_plan():
    with pytest.raises(remat.CaptureError, match="one graph"):
        remat.policy(nn.Linear(2, 2))


@pytest.mark.core
def test_a_knapsack_of_measured_times(monkeypatch, tmp_path):
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config

    from remat.backend import _boxed

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked, kept = [], operations.kept

    def spy(nodes, *more):
        asked.append(kept(nodes, *more))
        return asked[-1]

    monkeypatch.setattr(operations, "kept", spy)
    model, x = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)))), \
        torch.randn(512, 64)
    plain = copy.deepcopy(model)
    backend = aot_autograd(fw_compiler=lambda m, _: _boxed(m), partition_fn=min_cut_rematerialization_partition)
    with config.patch(activation_memory_budget=0.5, activation_memory_budget_solver=remat.knapsack):
        assert_same(step(torch.compile(model, backend=backend, dynamic=False), (x,), 0)[1:], step(plain, (x,), 0)[1:])
    assert asked and all(time > 0 for time, _ in asked[0])
