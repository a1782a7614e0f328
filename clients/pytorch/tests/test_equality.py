"""Gradients, buffers and generators after a step under a schedule are those of a plain step, bit by bit."""

import pytest
from models import MODELS
from steps import Bench, assert_same

CHAINS = {"mlp", "vgg"}
SOLVERS = ["auto", "store-all", "lowerset", "lowerset-approx", "chen-graph"]
CHAIN_SOLVERS = ["rotor", "chen-sqrt", "chen-greedy", "butt", "bptt-hsm", "bptt-ism", "bptt-msm", "equiv-chain", "join"]


@pytest.fixture(scope="module")
def benches(service):
    made = {}

    def bench(name):
        if name not in made:
            made[name] = Bench(MODELS[name], service.url)
            made[name].expected = made[name].steps(None)
        return made[name]

    return bench


CASES = [(name, solver) for name in MODELS for solver in SOLVERS + CHAIN_SOLVERS * (name in CHAINS)]


@pytest.mark.parametrize("name,solver", CASES)
def test_five_budgets(benches, name, solver):
    bench = benches(name)
    for budget in bench.budgets(solver):
        schedule = bench.schedule(budget, solver)
        assert schedule["peak"] <= budget
        assert_same(bench.steps(schedule), bench.expected, f"{name} {solver} {budget}")
