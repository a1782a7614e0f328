"""On a GPU: gradients bit by bit with deterministic algorithms, peaks."""

import copy
import os

import pytest
import torch
from models import LARGER, MODELS
from steps import assert_same, step

import remat

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that this torch can use")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before the first call of cuBLAS


@pytest.fixture(autouse=True)
def deterministic():
    """Algorithms that give the same bits each time, and no faster kind of float32."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = before


def on_gpu(make):
    def made():
        model, inputs = make()
        return model.cuda(), tuple(t.cuda() for t in inputs)

    return made


@pytest.mark.parametrize("name", list(MODELS))
def test_budgets(name, server):
    for budget in ("100%", "80%", "60%"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, inputs = on_gpu(MODELS[name])()
        plain = copy.deepcopy(model)
        try:
            remat.fit(model, inputs, budget, server=server)
        except remat.BudgetError:
            assert budget != "100%"
            continue
        assert_same(step(model, inputs, 0), step(plain, inputs, 0), f"{name} {budget}")


@pytest.mark.parametrize("name", list(LARGER))
def test_peak_is_the_predicted_one(name, server):
    """By the allocator's statistics, in which a block is at least 512 bytes; with the gradients of parameters."""
    model, inputs = on_gpu(LARGER[name])()
    remat.fit(model, inputs, "80%", server=server)
    assert model.forward.measured_peak == pytest.approx(model.forward.schedule["peak"], rel=0.05)


def test_autocast_and_gradient_scaling(server):
    model, inputs = on_gpu(MODELS["mlp"])()
    with torch.autocast("cuda", dtype=torch.float16):
        remat.fit(model, inputs, "60%", server=server)
    found = []
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(*inputs)
        assert out.dtype == torch.float16
        scaler.scale(out.float().square().mean()).backward()
        found.append([p.grad for p in model.parameters()])
        remat.remove(model)
    assert_same(*found)
