"""A new solver is one file that offers lists: tests/toy/toy.c, in a daemon whose registry and build name it."""

import pytest
from conftest import BUILD, Service

DAEMON = BUILD / "tests" / "rematd-toy"


@pytest.fixture
def toy(tmp_path):
    service = Service(tmp_path)
    service.program = DAEMON
    yield service.start()
    service.stop()


def ask(service, profile_id, budget, **more):
    body = {"profile_id": profile_id, "budget": budget, "solver": "toy", "wait": 30, **more}
    return service.post("/v1/schedules", body)


def test_two_lists_are_served(toy):
    assert "toy" in [s["name"] for s in toy.get("/v1/solvers").json["solvers"]]
    summary = toy.push("resnet50.chain")
    profile_id, peak = summary["profile_id"], summary["store_all"]["peak"]
    curve = toy.post("/v1/tradeoffs", {"profile_id": profile_id, "solver": "toy", "points": 40}).json
    points = [p for p in curve if p["feasible"]]
    assert len({(p["peak"], p["makespan"]) for p in points}) == 2
    few, many = points[0], points[-1]
    assert few["peak"] < many["peak"] == peak and few["makespan"] > many["makespan"]

    all_kept = ask(toy, profile_id, "110%").json
    assert all_kept["makespan"] == many["makespan"] and all_kept["optimality"] == "optimal"
    assert all_kept["solver"] == "toy" and all_kept["peak"] == peak
    tight = ask(toy, profile_id, "80%").json
    assert (tight["peak"], tight["makespan"]) == (few["peak"], few["makespan"])
    assert tight["optimality"] == "heuristic"
    refused = ask(toy, profile_id, few["peak"] - 1)
    assert refused.status == 422 and "toy" in refused.json["detail"]

    toy.stop()
    toy.start()
    assert ask(toy, profile_id, "80%").headers["X-Remat-Cache"] == "hit"
    again = ask(toy, profile_id, "81%")
    assert again.headers["X-Remat-Cache"] == "table" and again.json["makespan"] == few["makespan"]
    assert toy.metric("remat_tabulations_total") == 0
