"""A schedule for Chrome's trace viewer and Perfetto: from the service and from the command."""

import collections
import json

import pytest

from conftest import PROFILES, SLOW
from test_cli import INPUT, remat

NAMES = {"F": {"forward", "recompute"}, "A": {"forward", "recompute"}, "B": {"backward"}, "D": {"drop"}, "X": {"drop"},
         "O": {"offload"}, "P": {"prefetch"}, "S": {"state"}, "R": {"state"}}
TRACKS = {"O": 2, "P": 3}


def check(trace, schedule, timeline):
    """Each operation on its stream at its time; the counter says the memory of the timeline, its peak the peak."""
    unit = {"s": 1e6, "ms": 1e3, "us": 1, "ns": 1e-3, "units": 1}[timeline["time_unit"]]
    events = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        events[event["ph"]].append(event)
    assert {e["args"]["name"] for e in events["M"]} >= {"compute", "copies to the host", "copies to the device"}
    done = sorted(events["X"] + events["i"], key=lambda e: e["args"]["operation"])
    assert [e["args"]["operation"] for e in done] == list(range(len(timeline["operations"])))
    ran = set()
    for event, operation, start, end in zip(done, timeline["operations"], timeline["start"], timeline["end"]):
        letter = operation[0]
        assert event["ts"] == pytest.approx(start * unit) and event.get("dur", 0) == pytest.approx((end - start) * unit, abs=1e-9)
        assert event["cat"] in NAMES[letter] and event["tid"] == TRACKS.get(letter, 1)
        assert event["name"].split()[0] == letter
        if letter in "FAB":
            assert event["name"].split()[1] == timeline["nodes"][operation[1]]
        if letter in "FA":
            assert (event["cat"] == "recompute") == (operation[1] in ran)
            ran.add(operation[1])
    told = [e["args"]["alive"] for e in events["C"]]
    assert told[0::2] == timeline["memory_during"] and told[1::2] == timeline["memory_after"]
    assert max(told) == schedule["peak"]
    times = [e["ts"] for e in events["C"]]
    assert times == sorted(times)
    assert max([e["ts"] + e.get("dur", 0) for e in done if e["tid"] == 1]) == pytest.approx(schedule["makespan"] * unit)


@pytest.mark.parametrize(("name", "more"), [("resnet50.chain", {}), ("resnet50.states", {}), ("gpt.joint", {"layout": False, "budget": "95%"}),
                                            ("resnet50.chain", {"link": {"preset": "pcie3-x16"}, "budget": "30%", "layout": False})][:4 if SLOW == 1 else 1])
def test_of_the_service_and_of_the_command(rematd, tmp_path, name, more):
    summary = rematd.push(name)
    schedule = rematd.post("/v1/schedules", {"profile_id": summary["profile_id"], "budget": "60%", **more}).json
    one = f"/v1/schedules/{schedule['schedule_id']}"
    timeline, trace = rematd.get(one + "/timeline").json, rematd.get(one + "/trace").json
    check(trace, schedule, timeline)
    assert "link" not in more or {e["tid"] for e in trace["traceEvents"] if e["ph"] == "X"} >= {1, 2, 3}
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps(schedule))
    for arguments in (["--profile", PROFILES / f"{name}.json", file], ["--server", rematd.url, schedule["schedule_id"][:12]],
                      ["--server", rematd.url, file]):
        assert json.loads(remat("trace", *arguments).stdout) == trace, arguments
    remat("trace", "--profile", PROFILES / f"{name}.json", file, "-o", tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text()) == trace


def test_of_another_machine(rematd):
    body = {"profile_id": rematd.push("join-4-10-12")["profile_id"], "budget": 8, "solver": "join", "options": {"model": "pebble"}}
    answer = rematd.post("/v1/schedules", body)
    assert answer.status == 200, answer.body
    trace = rematd.get(f"/v1/schedules/{answer.json['schedule_id']}/trace").json
    assert max(e["args"]["alive"] for e in trace["traceEvents"] if e["ph"] == "C") == answer.json["peak"]


def test_what_has_no_timeline_has_no_trace(tmp_path, rematd):
    assert rematd.get(f"/v1/schedules/{'0' * 64}/trace").status == 404
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps({"nodes": ["a"], "operations": [["F", 0]]}))
    assert "no timeline" in remat("trace", file, code=INPUT).stderr
    file.write_text(json.dumps({"nodes": ["a"], "operations": [["F", 0], ["B", 0]], "start": [0], "end": [1], "memory_during": [1],
                                "memory_after": [1]}))
    assert "one number per operation" in remat("trace", file, code=INPUT).stderr
