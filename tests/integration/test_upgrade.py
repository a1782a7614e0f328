"""tests/data/store_format_2.db.gz was written at 86809ed, whose tables were each solver's own: its profile and schedules
are served as they are, its tables are made again and stored in the one format there is now."""

import contextlib
import gzip
import pathlib
import sqlite3

import pytest
from conftest import ROOT, Service

STORE = ROOT / "tests" / "data" / "store_format_2.db.gz"
PROFILE = "d2660ec4626f7b7873a6ca097c12d46352db1384ae26a3ec2fc7ba573a5ff27d"
ASKED = {"rotor": ("70%", 121454.526), "chen-greedy": ("90%", 124577.857), "auto": ("75%", 118006.269)}


@pytest.fixture
def old(tmp_path):
    service = Service(tmp_path)
    pathlib.Path(service.store).write_bytes(gzip.decompress(STORE.read_bytes()))
    yield service.start()
    service.stop()
    assert not [line for line in service.log_lines() if line["level"] == "error"]


def schedule_of(service, solver):
    with contextlib.closing(sqlite3.connect(f"file:{service.store}?mode=ro", uri=True)) as store:
        return store.execute("SELECT id FROM schedules WHERE requested_solver = ?", (solver,)).fetchone()[0]


def ask(service, budget, solver):
    return service.post("/v1/schedules", {"profile_id": PROFILE, "budget": budget, "solver": solver, "wait": 30})


def test_a_store_of_older_tables_opens_and_serves(old):
    kept = old.get(f"/v1/profiles/{PROFILE}")
    assert kept.status == 200 and kept.json["minimum_budgets"] and "minimum_budget" not in kept.json
    posted = old.post("/v1/profiles", kept.json["profile"])
    assert posted.status == 200 and posted.json["minimum_budgets"] == kept.json["minimum_budgets"]
    for solver, (budget, makespan) in ASKED.items():
        stored = old.get(f"/v1/schedules/{schedule_of(old, solver)}")
        assert stored.status == 200 and stored.json["makespan"] == makespan
        why = old.get(f"/v1/schedules/{schedule_of(old, solver)}/explanation")  # what was not kept is not told
        assert why.status == 200 and solver in why.json["text"] and "solver" not in why.json["less"]
        assert "was not kept" in why.json["text"] and "more" not in why.json
        if solver != "auto":
            answer = ask(old, budget, solver)
            assert answer.headers["X-Remat-Cache"] == "hit" and answer.body == stored.body
    again = ask(old, "80%", "rotor")  # the stored table is of the old format
    assert again.headers["X-Remat-Cache"] == "miss" and again.json["makespan"] <= ASKED["rotor"][1]
    assert [line for line in old.log_lines() if "cannot be used" in line["message"]]
    newer = ask(old, ASKED["auto"][0], "auto")  # who answers has changed: the older answer stays, under its own id
    assert newer.headers["X-Remat-Cache"] != "hit" and newer.json["makespan"] <= ASKED["auto"][1]
    old.stop()
    assert old.command("check").returncode == 0
    old.start()
    assert ask(old, "85%", "rotor").headers["X-Remat-Cache"] == "table"
    assert ask(old, "70%", "rotor").headers["X-Remat-Cache"] == "hit"
