"""On a GPU: gradients bit by bit with deterministic algorithms, peaks, copies on streams of their own."""

import os

import pytest
import torch
from models import LARGER, MODELS
from steps import Bench, assert_same, measured_peak, offload_everything

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


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", list(MODELS))
def test_five_budgets(name, staged, server):
    bench = Bench(on_gpu(MODELS[name]), server)
    if staged and bench.captured.stages is None:
        pytest.skip(f"{name} has no stages")
    bench = Bench(on_gpu(MODELS[name]), server, staged=staged)
    expected = bench.steps(None)
    for budget in bench.budgets("auto"):
        assert_same(bench.steps(bench.schedule(budget)), expected, f"{name} {budget}")


@pytest.mark.parametrize("name", list(LARGER))
def test_peak_is_the_predicted_one(name, server):
    """By the allocator's statistics, in which a block is at least 512 bytes; with the gradients of parameters."""
    bench = Bench(on_gpu(LARGER[name]), server, gradients=True)
    for budget in bench.budgets("auto"):
        schedule = bench.schedule(budget)
        measured_peak(bench, schedule)  # what libraries allocate at their first call stays
        found = measured_peak(bench, schedule)
        print(name, budget, schedule["solver"], schedule["peak"], found, found / schedule["peak"])
        assert found == pytest.approx(schedule["peak"], rel=0.05)


@pytest.mark.parametrize("name", ["vgg", "gpt", "unet"])
def test_copies_on_a_stream_of_their_own(name, server):
    bench = Bench(on_gpu(MODELS[name]), server)
    expected = bench.steps(None)
    for _ in range(5):  # a race need not show at once
        assert_same(bench.steps(offload_everything(bench)), expected)


def test_offloading_that_the_service_chose(server):
    model, inputs = on_gpu(LARGER["unet"])()
    torch.manual_seed(0)
    plain = [p.detach().clone() for p in model.parameters()]
    remat.fit(model, inputs, "75%", server=server, link={"bandwidth": 12e9})
    model(*inputs).sum().backward()
    found = [p.grad for p in model.parameters()]
    remat.remove(model)
    model.zero_grad(set_to_none=True)
    assert_same(list(model.parameters()), plain)
    for name, buffer in model.named_buffers():
        assert torch.isfinite(buffer.float()).all(), name
    model(*inputs).sum().backward()
    assert_same(found, [p.grad for p in model.parameters()])


def test_autocast_and_gradient_scaling(server):
    model, inputs = on_gpu(MODELS["mlp"])()
    with torch.autocast("cuda", dtype=torch.float16):
        remat.fit(model, inputs, "60%", server=server)
    found = []
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        scaler = torch.cuda.amp.GradScaler(init_scale=256.0)
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(*inputs)
        assert out.dtype == torch.float16
        scaler.scale(out.float().square().mean()).backward()
        found.append([p.grad for p in model.parameters()])
        remat.remove(model)
    assert_same(*found)
