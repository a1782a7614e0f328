"""On a GPU: gradients bit by bit with deterministic algorithms, peaks."""

import copy
import os

import pytest
import torch
from models import GPT, LARGER, MODELS
from steps import assert_same, step
from torch import nn

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
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in plain.modules()):
            remat.fit(plain, inputs, 1 << 40, server=server)  # compiled, it takes torch's own batch norm, and not cuDNN's
        assert_same(step(model, inputs, 0), step(plain, inputs, 0), f"{name} {budget}")


WIDE = {"mlp": lambda: (MODELS["mlp"]()[0], (torch.randn(1 << 16, 64),)),
        "gpt": lambda: (GPT(width=256, heads=8, length=256, depth=4), (torch.randint(97, (16, 256)),))}


@pytest.mark.parametrize("name, budget", [("mlp", "60%"), ("gpt", "60%"), ("gpt", "45%")])
def test_values_leave_and_come_back(name, budget, server):
    """Beside the computation, on streams of their own: in a race numbers would be others, now and then. The link is said to be
    faster than any, so that much is moved."""
    torch.manual_seed(0)
    model, inputs = on_gpu(WIDE[name])()
    plain = copy.deepcopy(model)
    remat.fit(model, inputs, budget, server=server, link={"bandwidth": "1TB/s"})
    assert any(op[0] == "O" for op in model.forward.schedule["operations"])
    for seed in range(8):
        assert_same(step(model, inputs, seed), step(plain, inputs, seed), f"{name} {seed}")
    assert model.forward.measured_peak == pytest.approx(model.forward.schedule["peak"], rel=0.05)


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
