"""Nodes with other implementations: the schedule names the one that each operation runs."""

import json
import pathlib
import subprocess

import pytest

from conftest import BUILD, ROOT

FILE = ROOT / "tests" / "data" / "convolutions.json"
DOCUMENT = json.loads(FILE.read_text())
BARE = {**DOCUMENT, "name": "one way each",
        "nodes": [{k: v for k, v in node.items() if k != "alternatives"} for node in DOCUMENT["nodes"]]}


def costs(node, name):
    """One implementation, with the defaults of the profile format."""
    own = {"backward_time": 2 * node["forward_time"], "saved_bytes": 0, "forward_workspace_bytes": 0,
           "backward_workspace_bytes": 0, **node}
    if name is None:
        return own
    return {**own, **next(a for a in node["alternatives"] if a["name"] == name)}


def replay(document, operations):
    """Makespan and peak of a chain that saves nothing, by a few lines of their own."""
    nodes = document["nodes"]
    number = {node["id"]: i for i, node in enumerate(nodes)}
    memory = sum(x["bytes"] for x in document["inputs"])
    time, peak, alive, gradients = 0.0, memory, set(), set()
    for letter, v, *name in operations:
        node, cost = nodes[v], costs(nodes[v], name[0] if name else None)
        parents = [number[p] for p in node["inputs"] if p in number]
        if letter in "FA":
            assert v not in alive and all(p in alive for p in parents)
            alive.add(v)
            memory += node["output_bytes"]
            peak = max(peak, memory + cost["forward_workspace_bytes"])
            time += cost["forward_time"]
        elif letter == "B":
            assert not node.get("backward_uses_inputs", True) or all(p in alive for p in parents)
            assert not node.get("backward_uses_output", True) or v in alive
            for g in ([v] if not gradients else []) + parents:
                gradients.add(g)
                memory += nodes[g].get("gradient_bytes", nodes[g]["output_bytes"])
            peak = max(peak, memory + cost["backward_workspace_bytes"])
            gradients.remove(v)
            memory -= node.get("gradient_bytes", node["output_bytes"])
            time += cost["backward_time"]
        elif letter == "D":
            alive.remove(v)
            memory -= node["output_bytes"]
        else:
            assert letter == "X"  # nothing is saved
    return time, peak


def post(rematd, document):
    answer = rematd.post("/v1/profiles", document)
    assert answer.status in (200, 201), answer.body
    return answer.json


def ask(rematd, profile, budget, **more):
    return rematd.post("/v1/schedules", {"profile_id": profile["profile_id"], "budget": budget, "layout": False, **more})


def solvers(rematd):
    return [s["name"] for s in rematd.get("/v1/solvers").json["solvers"]
            if "chain" in s["accepts"] and not s["homogeneous_only"] and not s["needs_link"]]


def named(schedule):
    return [o for o in schedule["operations"] if o[0] in "FAB" and len(o) == 3]


def test_the_choice_is_named_and_kept(rematd):
    profile = post(rematd, DOCUMENT)
    alone = ask(rematd, profile, "100%").json
    # everything fits: every convolution takes the faster way, forward and backward
    fast = sum(min(costs(n, a)["forward_time"] for a in [None] + [x["name"] for x in n.get("alternatives", [])]) +
               min(costs(n, a)["backward_time"] for a in [None] + [x["name"] for x in n.get("alternatives", [])])
               for n in DOCUMENT["nodes"])
    assert alone["makespan"] == pytest.approx(fast, rel=1e-12)
    assert alone["overhead"] == 0 and alone["optimality"] == "optimal"
    assert profile["store_all"] == {"makespan": alone["store_all_makespan"], "peak": alone["store_all_peak"]}
    assert named(alone)
    for percent in range(100, 20, -8):
        answer = ask(rematd, profile, f"{percent}%")
        if answer.status == 422:
            continue
        schedule = answer.json
        makespan, peak = replay(DOCUMENT, schedule["operations"])
        assert schedule["makespan"] == pytest.approx(makespan, rel=1e-12) and schedule["peak"] == peak
        assert schedule["lower_bound"] <= schedule["makespan"]
        again = rematd.post("/v1/simulations", {"profile_id": profile["profile_id"],
                                                "operations": schedule["operations"]}).json
        assert again["valid"] and again["makespan"] == schedule["makespan"] and again["peak"] == peak
        timeline = rematd.get(f"/v1/schedules/{schedule['schedule_id']}/timeline").json
        assert timeline["operations"] == schedule["operations"]
        assert max(timeline["memory_during"]) == peak


def test_no_solver_is_slower_with_alternatives(rematd):
    profile, bare = post(rematd, DOCUMENT), post(rematd, BARE)
    gains = 0
    for solver in solvers(rematd):
        before = None
        for budget in range(4 << 20, 40 << 20, 3 << 20):
            with_, without = (ask(rematd, p, budget, solver=solver) for p in (profile, bare))
            if with_.status == 422:
                assert without.status == 422
                continue
            schedule = with_.json
            assert schedule["peak"] <= budget
            assert replay(DOCUMENT, schedule["operations"])[1] == schedule["peak"]
            assert before is None or schedule["makespan"] <= before
            before = schedule["makespan"]
            if without.status == 422:
                gains += 1
            else:
                assert schedule["makespan"] <= without.json["makespan"]
                gains += schedule["makespan"] < without.json["makespan"]
    assert gains > 50


def test_rotor_is_optimal_and_others_are_not_better(rematd):
    profile = post(rematd, DOCUMENT)
    for budget in range(6 << 20, 40 << 20, 2 << 20):
        best = ask(rematd, profile, budget, solver="rotor")
        if best.status == 422:
            continue
        auto = ask(rematd, profile, budget).json
        assert auto["makespan"] <= best.json["makespan"]
        assert best.json["gap"] >= 0


def test_wrong_names_are_refused(rematd):
    profile = post(rematd, DOCUMENT)
    answer = rematd.post("/v1/simulations", {"profile_id": profile["profile_id"], "operations": [["F", 0, "winograd"]]})
    assert answer.status == 400
    assert answer.json["field"] == "operations[0]"
    assert '"conv1" has no alternative "winograd"' in answer.json["detail"]
    many = json.loads(json.dumps(DOCUMENT))
    many["nodes"][0]["alternatives"] = [{"name": f"n{i}"} for i in range(65)]
    answer = rematd.post("/v1/profiles", many)
    assert answer.status == 400 and "at most 64" in answer.json["detail"]


def test_the_command_shows_and_simulates_it(tmp_path):
    def remat(*arguments):
        done = subprocess.run([str(BUILD / "clients" / "cli" / "remat"), *map(str, arguments)], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    file = pathlib.Path(tmp_path) / "schedule.json"
    remat("solve", "--local", "--budget", "70%", FILE, "-o", file)
    schedule = json.loads(file.read_text())
    assert named(schedule)
    shown = remat("show", "--all", file)
    assert shown.count("with im2col") == len(named(schedule))
    replayed = json.loads(remat("simulate", "--local", "--json", FILE, file))
    assert replayed["makespan"] == schedule["makespan"] and replayed["peak"] == schedule["peak"]
