"""Stages of torch.distributed.pipelining, fitted with what they have in flight: real pipelines of two and four processes, and a
stage alone."""

import copy
import os
import re
import subprocess
import sys

import pipeline_ranks
import pytest
import torch
from conftest import HERE
from models import vgg
from pipeline_ranks import ROWS, TOKENS, WIDTH, WORDS, parts
from steps import assert_same

import remat
from remat import pipelines
from remat.model import Example, plain_forward


def run(ranks, folder, server, case):
    processes = [subprocess.Popen([sys.executable, HERE / "pipeline_ranks.py", str(rank), str(ranks), str(case), folder, server],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(ranks)]
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(said)
    return [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]


@pytest.mark.parametrize("ranks, case", [
    pytest.param(ranks, case, marks=[pytest.mark.core] * ((ranks, case) in ((2, 0), (2, 1))), id=f"{ranks}-{what[0]}")
    for ranks, cases in pipeline_ranks.CASES.items() for case, what in enumerate(cases)])
def test_a_pipeline_is_the_plain_model_within_its_budgets(ranks, case, server, tmp_path):
    kind, each, m = pipeline_ranks.CASES[ranks][case]
    for rank, found in enumerate(run(ranks, tmp_path, server, case)):
        print(rank, found)
        assert found["differ"] == [] and found["compared"] >= 12 * each  # losses and gradients, bit by bit
        assert found["peak"] <= sum(found["budgets"]) < found["plain"]
        assert all(played <= budget for played, budget in zip(found["played"], found["budgets"]))
        assert all(again > 0 for again in found["again"]) and found["pieces"] == [1] * each  # compiled once, in fit
        flight = {"Schedule1F1B": [min(m, ranks - rank)], "ScheduleGPipe": [m]}.get(kind, list(found["flight"].values()))
        assert found["in_flight"] == flight == list(found["flight"].values())
        if each == 1:  # what fit played alone is what the rank takes
            assert abs(found["peak"] - found["played"][0]) <= 2 * ROWS * TOKENS * WIDTH * 4, (rank, found)
        assert found["refused"].startswith(f"rank {rank}, ") and "bytes will do" in found["refused"]


def stage(**more):
    """The first of two, with a micro-batch; the loss stands for the next rank."""
    part = parts(2)[0]
    return part, torch.randint(WORDS, (ROWS, TOKENS)), {"in_flight": 2, "microbatches": 4, **more}


def tightly(part, example, **how):
    with pytest.raises(remat.BudgetError) as caught:
        remat.fit(part, example, 1, repeats=1, **how)
    return remat.fit(part, example, caught.value.minimum_budget, repeats=1, **how)


@pytest.mark.core
@pytest.mark.parametrize("more, said", [
    ({"in_flight": 0}, "in_flight is 0; it must be a whole number from 1 to 1000"), ({"in_flight": True}, "in_flight is True"),
    ({"in_flight": 1.5}, "in_flight is 1.5"), ({"in_flight": None}, "in_flight is None"), ({"microbatches": None}, "microbatches is None"),
    ({"in_flight": 5}, "microbatches is 4, and in_flight 5"), ({"microbatches": 1001}, "from 1 to 1000")])
def test_what_is_no_stage(more, said):
    part, example, how = stage(**more)
    with pytest.raises(ValueError, match=said):
        remat.fit(part, example, "75%", **how)
    assert "forward" not in vars(part)


@pytest.mark.core
def test_the_least_will_do_and_no_more_are_in_flight_than_was_said(server):
    """Backwards in an order of their own, a shorter micro-batch, evaluation, no_grad, what is dropped: micro-batches share nothing."""
    part, example, how = stage(server=server)
    plain = copy.deepcopy(part)
    with pytest.raises(remat.BudgetError, match=r"a stage, 2 of 4 .* are reserved \(.* for inputs, .* for gradients that come") as caught:
        remat.fit(part, example, 1, **how)
    least = caught.value.minimum_budget
    remat.fit(part, example, least, **how)
    assert part.forward.schedule["recomputed_time"] > 0 and part.forward.measured_peak <= least
    found = []
    for each in (part, plain):
        torch.manual_seed(1)
        first, second = each(example), each((example[:1] + 1) % WORDS)
        with torch.no_grad():
            each(example)
        if each is part:
            with pytest.raises(remat.MismatchError, match="than the 2 that this stage was fitted for .* in_flight=3"):
                each(example)
        first.square().sum().backward()
        third = each(example.flip(0))
        third.sum().backward()
        second.sum().backward()
        each.eval()(example).mean().backward()
        for _ in range(3):
            dropped = [each.train()(example)]  # without a backward, and gone, in a cycle
            dropped.append(dropped)
            del dropped
        found.append([first, second, third, *(p.grad for p in each.parameters()), torch.get_rng_state()])
    assert_same(*found)
    with pytest.raises(remat.MismatchError, match="the example of its fit did not"):
        remat.fit(torch.nn.Sequential(*parts(2)[1][:2]), torch.randn(ROWS, TOKENS, WIDTH), "100%", **how)(
            torch.randn(ROWS, TOKENS, WIDTH).requires_grad_())


def test_what_is_held_counts_for_each(server):
    """More in flight need more, and by less than a whole micro-batch each."""
    least = []
    for n in (1, 2, 4):
        part, example, how = stage(in_flight=n, microbatches=8, server=server)
        tightly(part, example, **how)
        least.append(part.forward.budget)
    assert least[0] < least[1] < least[2] and least[2] < 3 * least[0]


def test_a_stage_in_several_graphs(server):
    """One budget for all of them, in flight."""
    class Broken(torch.nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part, self.seen = part, None

        def forward(self, x):
            x = self.part[:2](x)
            torch._dynamo.graph_break()
            return self.part[2:](x)

    part, example, how = stage(server=server)
    plain, broken = copy.deepcopy(part), Broken(part)
    tried = Example(broken, example)
    stands = pipelines.stage_of(tried, tried.settle()[0], 2, 4, None, True)
    budget = int(0.8 * pipelines.peak(plain_forward(broken), tried, None, stands, True, False))
    with pytest.warns(UserWarning, match="breaks the graph"):
        remat.fit(broken, example, budget, repeats=1, **how)
    assert len(broken.forward.pieces) >= 2 and broken.forward.measured_peak <= budget
    found = []
    for each in (broken, plain):
        torch.manual_seed(1)
        outs = [each(example), each(example + 0)]
        for out in outs:
            out.sum().backward()
        found.append([p.grad for p in each.parameters()])
    assert_same(*found)


def test_buffers_and_dropout_of_micro_batches(server):
    """Batch norm, ReLU in place, dropout; backwards neither first nor last in, first out."""
    model, (x,) = vgg()
    plain = copy.deepcopy(model)
    tightly(model, x, in_flight=3, microbatches=5, server=server, loss=lambda out: out.square().mean())
    assert model.forward.schedule["recomputed_time"] > 0
    found = []
    for each in (model, plain):
        torch.manual_seed(1)
        outs = [each(x * k) for k in (1.0, 0.5, 2.0)]
        for k in (1, 2, 0):
            outs[k].square().mean().backward()
        found.append([*outs, *(p.grad for p in each.parameters()), *each.buffers(), torch.get_rng_state()])
    assert_same(*found)


class Constant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return 2 * tensor

    @staticmethod
    def backward(ctx, gradient):
        return torch.full(gradient.shape, 3.0)


def test_a_gradient_that_needs_none_waits_for_the_turn(server):
    """What is sent comes before what is received, to the service too."""
    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.linear = torch.nn.Parameter(torch.ones(WIDTH)), torch.nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return self.linear(x) + Constant.apply(self.weight)

    model = Stage()
    plain, x = copy.deepcopy(model), torch.randn(512, WIDTH)
    remat.fit(model, x, "110%", in_flight=2, microbatches=3, server=server, repeats=1)
    for each in (model, plain):
        each(x).sum().backward()
    assert_same([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])


@pytest.mark.core
def test_an_optimizer_in_the_backward_is_refused(server):
    part, example, how = stage(server=server)
    part[1].up.weight.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(remat.CaptureError, match="hooks behind the gradients"):
        remat.fit(part, example, "75%", **how)


def test_a_copy_and_gradients_from_before(server):
    part, example, how = stage(server=server)
    part(example).sum().backward()
    before = [p.grad.clone() for p in part.parameters()]
    remat.fit(part, example, "80%", repeats=1, **how)
    assert_same([p.grad for p in part.parameters()], before)
    twin = copy.deepcopy(part)
    for each in (part, twin):
        each.zero_grad()
        torch.manual_seed(2)
        each(example).sum().backward()
    assert_same([p.grad for p in twin.parameters()], [p.grad for p in part.parameters()])
    assert twin.forward.schedule == part.forward.schedule


@pytest.mark.core
def test_the_example(server):
    """Which spawns its ranks."""
    done = subprocess.run([sys.executable, HERE.parent / "examples" / "pipeline.py", "2", "ScheduleGPipe", "2"], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "REMAT_SERVER": server})
    assert done.returncode == 0, done.stderr
    for rank, line in enumerate(done.stdout.splitlines()):
        assert line.startswith(f"rank {rank}: 2 of 2 in flight, ") and re.search(r"(\d+) of \1 gradients and losses equal", line), line
    assert rank == 1
