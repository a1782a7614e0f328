"""One training step, and everything that it changes."""

import copy

import pytest
import torch

import remat
from remat import costs
from remat.captured import Captured
from remat.graph import tensors_of
from remat.local import connect
from remat.memory import Recorder
from remat.planning import ask
from remat.region import Region


def loss_of(result):
    return sum((t.float() * torch.linspace(0.5, 1.5, t.numel()).view(t.shape)).sum() for t in tensors_of(result))


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


def measured_peak(bench, schedule):
    """By the allocator: above the level before the step, with the inputs."""
    torch.manual_seed(0)
    run = bench.region(schedule)
    with Recorder(bench.captured.device) as recorder:
        recorder.mark()
        total(run(*bench.inputs)).backward()
        recorder.mark()
    bench.model.zero_grad(set_to_none=True)
    return recorder.segments()[0].peak + sum(i["bytes"] for i in bench.profile["inputs"])


def offload_everything(bench):
    """A schedule in which every output and every intermediate goes to the host after its node and comes back for the
    backward."""
    schedule = bench.schedule("1000%", "store-all")
    operations = [op for op in schedule["operations"] if op[0] in "AFBSR"]
    first = next(i for i, op in enumerate(operations) if op[0] == "B")
    n = len(bench.profile["nodes"]) - 1
    saved = [v for v in range(n) if bench.profile["nodes"][v]["saved_bytes"] > 0]
    values = [*(["out", v] for v in range(n - 1)), *(["saved", v] for v in saved)]
    away = [[kind, *value] for kind in "OD" for value in values]
    back = [["P", *value] for value in values]
    schedule["operations"] = operations[:first] + away + back + operations[first:]
    return schedule


class Bench:
    """A model captured and measured once, to be run under many schedules. staged: its stages, as a chain; gradients:
    those of the parameters count."""

    def __init__(self, make, server, seed=0, staged=False, gradients=False):
        torch.manual_seed(seed)
        self.model, self.inputs = make()
        self.client, self.staged = connect(server), staged
        self.captured = Captured(self.model, self.inputs, ())
        self.measured = self.captured.measure_stages(1) if staged else self.captured.measure(1)
        if gradients:
            graph = self.captured.stages.graph if staged else self.captured.graph
            self.measured = costs.with_parameter_gradients(self.measured, graph)
        self.profile = self.measured.profile
        self.start = copy.deepcopy(self.model.state_dict())

    def schedule(self, budget, solver="auto"):
        return ask(self.client, self.measured, budget, solver)[1]

    def least(self, solver):
        """The least budget that a solver can use: as it says, or to 1 % of storing everything where it does not."""
        try:
            self.schedule(1, solver)
            raise AssertionError("a budget of one byte was enough")
        except remat.BudgetError as error:
            if error.minimum_budget is not None:
                return error.minimum_budget
        for percent in range(1, 101):
            try:
                return self.schedule(f"{percent}%", solver)["budget"]
            except remat.BudgetError:
                pass
        raise AssertionError(f"{solver} has no schedule at all")

    def budgets(self, solver, count=5):
        """From the least that the solver can use to what storing everything takes."""
        least, top = self.least(solver), self.schedule("1000%", "store-all")["peak"]
        return [least + (max(top, least) - least) * i // (count - 1) for i in range(count)]

    def in_order(self, order):
        """Everything kept, the backwards in an order, with the peak for it and that for all orders, as the service's
        simulator sees them."""
        schedule = self.schedule("1000%", "store-all")
        nodes = range(len(self.profile["nodes"]))
        schedule["operations"] = [*(["A", v] for v in nodes), *(["B", v] for v in order)]
        schedule["peak"], schedule["bound"] = (self.client.peak(self.measured.for_order(known), schedule["operations"])
                                               for known in (order, None))
        return schedule

    def region(self, schedule):
        wanted = [[*leaf, flag] for leaf, flag in self.measured.wanted.items()]
        entry = {"profile": self.profile, "wanted": wanted, "schedule": schedule, "staged": self.staged}
        return Region(self.captured, entry, "error")

    def steps(self, schedule, count=2, **more):
        """`count` steps from the same start, plain where the schedule is None."""
        self.model.load_state_dict(self.start)
        remat.remove(self.model)
        if schedule is not None:
            self.model.forward = self.region(schedule)
        try:
            return [value for i in range(count) for value in step(self.model, self.inputs, i, **more)]
        finally:
            remat.remove(self.model)
