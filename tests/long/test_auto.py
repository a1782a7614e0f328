"""No named solver, whatever its options, is faster than auto, nor serves a budget that auto refuses; and auto is never
slower at a larger budget. Every bundled profile; REMAT_AUTO_BUDGETS (default 20) of each effort."""

import itertools
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from conftest import ROOT, make_service, profile  # noqa: E402,F401

BUDGETS = int(os.environ.get("REMAT_AUTO_BUDGETS", 20))
NAMES = [path.stem for path in sorted((ROOT / "clients" / "profiles").glob("*.json"))]
VALUES = {"slots": [0, 50, 1000], "gap": [0.01, 0.1]}  # of options that are numbers; of choices all are asked


def ask(service, question):
    """The makespan, or None where the solver does not take the profile, is too large for it or does not serve the budget."""
    answer = service.post("/v1/schedules", {**question, "wait": 600}, check=False, timeout=700)
    assert answer.status in (200, 400, 413, 422), (question, answer.json)
    return answer.json["makespan"] if answer.status == 200 else None


def options_of(solver):
    values = [option.get("choices") or VALUES.get(option["name"], [option["default"]]) for option in solver["options"]]
    names = [option["name"] for option in solver["options"]]
    every = [dict(zip(names, chosen)) for chosen in itertools.product(*values)]
    return [options for options in every if options.get("model") != "pebble"]  # another model: counts, not bytes


@pytest.mark.parametrize("effort", ["quick", "thorough"])
@pytest.mark.parametrize("name", NAMES)
def test_auto_is_the_best(make_service, name, effort):  # noqa: F811
    service = make_service()
    profile_id = service.post("/v1/profiles", profile(name)).json["profile_id"]
    solvers = [s for s in service.get("/v1/solvers").json["solvers"] if not s["needs_link"] and s["name"] != "auto"]
    before, slower = None, []
    for i in range(BUDGETS):
        question = {"profile_id": profile_id, "budget": f"{100 * (i + 1) / BUDGETS:g}%"}
        auto = ask(service, {**question, "effort": effort})
        if before is not None and (auto is None or auto > before * (1 + 1e-9)):
            slower.append((question["budget"], "a smaller budget", before, auto))
        before = auto if before is None else before
        before = min(before, auto) if auto is not None else before
        for solver in solvers:
            own = {"effort": effort} if solver["name"] == "interval" else {}
            for options in options_of(solver):
                named = ask(service, {**question, **own, "solver": solver["name"], "options": options})
                if named is not None and (auto is None or named < auto * (1 - 1e-9)):
                    slower.append((question["budget"], solver["name"], options, named, auto))
    assert not slower, slower
