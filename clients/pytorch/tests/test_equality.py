"""Gradients, buffers and generators after a step under a schedule are those of a plain step, bit by bit."""

import pytest
from models import MODELS
from steps import Bench, assert_same

CHAINS = {"mlp", "vgg"}
SOLVERS = ["auto", "store-all", "lowerset", "lowerset-approx", "chen-graph"]
STAGED = ["resnet50", "unet", "gpt"]  # those of the networks that have stages
CHAIN_SOLVERS = ["rotor", "chen-sqrt", "chen-greedy", "butt", "bptt-hsm", "bptt-ism", "bptt-msm", "equiv-chain", "join"]


@pytest.fixture(scope="module")
def benches(service):
    made = {}

    def bench(name, **more):
        key = (name, *more)
        if key not in made:
            made[key] = Bench(MODELS[name], service.url, **more)
            made[key].expected = made[key].steps(None)
        return made[key]

    return bench


CASES = [(name, solver) for name in MODELS for solver in SOLVERS + CHAIN_SOLVERS * (name in CHAINS)]


@pytest.mark.parametrize("name,solver", CASES)
def test_five_budgets(benches, name, solver):
    check(benches(name), name, solver)


@pytest.mark.parametrize("solver", ["auto", "rotor", "chen-greedy"])
@pytest.mark.parametrize("name", STAGED)
def test_five_budgets_of_stages(benches, name, solver):
    bench = benches(name, staged=True)
    assert len(bench.profile["nodes"]) < len(benches(name).profile["nodes"])
    check(bench, name, solver)


@pytest.mark.parametrize("name", ["gpt", "triplet"])
def test_five_budgets_with_parameter_gradients(benches, name):
    check(benches(name, gradients=True), name, "auto")


def check(bench, name, solver):
    for budget in bench.budgets(solver):
        schedule = bench.schedule(budget, solver)
        assert schedule["peak"] <= budget
        assert_same(bench.steps(schedule), bench.expected, f"{name} {solver} {budget}")
