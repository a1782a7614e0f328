"""One training step, and everything that it changes."""

import copy

import torch

import remat
from remat import costs, fitting
from remat.client import Client
from remat.graph import tensors_of


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
            *(b.clone() for b in model.buffers()), torch.get_rng_state()]


def assert_same(found, expected, what=""):
    assert len(found) == len(expected)
    for i, (a, b) in enumerate(zip(found, expected)):
        assert (a is None) == (b is None) and (a is None or torch.equal(a, b)), f"{what}: value {i} of {len(found)}"


class Bench:
    """A model captured and measured once, to be run under many schedules."""

    def __init__(self, make, server, seed=0, **more):
        torch.manual_seed(seed)
        self.model, self.inputs = make()
        self.client = Client(server)
        self.captured = fitting.Captured(self.model, self.inputs, more.get("blocks", ()))
        self.measured = costs.measure(self.captured.graph, self.model, self.captured.values(), self.captured.device,
                                      "bench", 1)
        self.profile = self.measured.profile
        self.start = copy.deepcopy(self.model.state_dict())

    def schedule(self, budget, solver="auto"):
        return self.client.schedule(self.profile, budget, solver)

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

    def region(self, schedule):
        wanted = [[*leaf, flag] for leaf, flag in self.measured.wanted.items()]
        return fitting.Region(self.captured, {"profile": self.profile, "wanted": wanted, "schedule": schedule}, "error")

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
