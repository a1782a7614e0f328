"""Several micro-batches in flight: asked of a real rematd and of remat, replayed, explained, refused."""

import json
import subprocess

import pytest
from conftest import BUILD, PROFILES, SLOW

CLI = BUILD / "clients" / "cli" / "remat"
MIB = 2**20


def three_blocks():
    """Blocks 1 to 3 of the bundled GPT as one stage (store-all: 3,963 MiB for one micro-batch)."""
    whole = json.loads((PROFILES / "gpt.flops.json").read_text())
    nodes = [node for node in whole["nodes"] if node["id"].startswith(("h_1_", "h_2_", "h_3_"))]
    size = nodes[-1]["output_bytes"]
    return {"format": "remat-profile/1", "name": "three blocks", "time_unit": "us", "nodes": nodes,
            "inputs": [{"id": "h_0_add_1", "bytes": size, "gradient_bytes": size}]}


# By hand: a and b hold 10 each beside the input of 1; recomputing a (time 1) before its backward frees 10 of the turn.
STAGE = {"format": "remat-profile/1", "name": "stage", "time_unit": "units", "inputs": [{"id": "x", "bytes": 1}],
         "nodes": [{"id": "a", "inputs": ["x"], "forward_time": 1, "output_bytes": 10, "gradient_bytes": 0,
                    "backward_uses_inputs": True, "backward_uses_output": False},
                   {"id": "b", "inputs": ["a"], "forward_time": 4, "output_bytes": 10, "gradient_bytes": 0,
                    "backward_uses_inputs": True, "backward_uses_output": False},
                   {"id": "send", "inputs": ["b"], "forward_time": 0, "output_bytes": 2, "gradient_bytes": 0,
                    "backward_uses_inputs": True, "backward_uses_output": False}]}

TANGENT = {"format": "remat-profile/1", "graph": "joint", "name": "tangent", "time_unit": "units",
           "inputs": [{"id": "x", "bytes": 1}, {"id": "t", "bytes": 5, "late": True}], "outputs": ["y", "dx"],
           "nodes": [{"id": "h", "inputs": ["x"], "time": 2, "output_bytes": 10},
                     {"id": "y", "inputs": ["h"], "time": 2, "output_bytes": 0},
                     {"id": "g", "inputs": ["t"], "time": 1, "output_bytes": 1},
                     {"id": "dx", "inputs": ["g", "h"], "time": 2, "output_bytes": 1}]}


def remat(*arguments, code=0):
    done = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=120 * SLOW)
    assert done.returncode == code, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def ask(rematd, profile, budget, **more):
    return rematd.post("/v1/schedules", {"profile": profile, "budget": budget, "wait": 30, **more})


def test_what_is_held_counts_for_each(rematd):
    # Storing all holds x, a, b: 21, and send's output of 2 during it: a peak of 23, 23 + 21 of two.
    assert ask(rematd, STAGE, 44, in_flight=2).json["overhead"] == 0
    # Making a again, between the turn and the backward of b, leaves x and b to be held: 11; the peak is x, a, b.
    answer = ask(rematd, STAGE, 43, in_flight=2).json
    assert (answer["peak"], answer["held"], answer["in_flight"], answer["store_all_peak"]) == (21 + 11, 11, 2, 23 + 21)
    assert answer["makespan"] == answer["store_all_makespan"] + 1 >= answer["lower_bound"]
    assert (answer["output_bytes"], answer["output"]) == (2, "freed")
    assert answer["arena"] <= 43 and answer["held_arena"] == 11
    for _, kind, _, offset, *_ in answer["allocations"]:
        assert offset < 11 or offset >= 22, (kind, offset)  # nothing in the block of the other one
    assert ask(rematd, STAGE, "99%", in_flight=2).json["budget"] == 43
    replay = rematd.post("/v1/simulations", {"profile": STAGE, "operations": answer["operations"], "in_flight": 3}).json
    assert (replay["peak"], replay["held"]) == (21 + 2 * 11, 11)
    timeline = rematd.get(f"/v1/schedules/{answer['schedule_id']}/timeline").json
    assert timeline["peak"] == 32 == max(timeline["memory_during"])
    told = rematd.get(f"/v1/schedules/{answer['schedule_id']}/explanation").json
    assert "2 micro-batches in flight" in told["text"] and told["at_peak"]["bytes"] == 32


def test_one_in_flight_is_the_question_without(rematd):
    plain, one, two = (ask(rematd, STAGE, 44, **more).json for more in ({}, {"in_flight": 1}, {"in_flight": 2}))
    assert one == plain and two["schedule_id"] != plain["schedule_id"]
    assert not {"in_flight", "held", "output_bytes", "held_arena"} & set(plain)
    curve = rematd.post("/v1/tradeoffs", {"profile": STAGE, "budgets": [43, 44], "in_flight": 2, "wait": 30}).json
    assert [(point["peak"], point["overhead"] > 0) for point in curve] == [(32, True), (44, False)]


def test_joint_graphs_turn_where_the_late_inputs_come(rematd):
    # x and h are held: 11. The peak is that of dx: x, t, h, g, dx = 18; of three 18 + 22.
    answer = ask(rematd, TANGENT, 40, in_flight=3).json
    assert (answer["overhead"], answer["peak"], answer["held"]) == (0, 40, 11) and "output" not in answer
    again = ask(rematd, TANGENT, 39, in_flight=3).json  # h made again after g: x alone is held
    assert (again["makespan"], again["peak"], again["held"]) == (9, 18 + 2, 1)
    early = rematd.post("/v1/simulations", {"profile": TANGENT, "operations": [["F", 2], ["F", 0], ["F", 1], ["F", 3]]}).json
    assert (early["valid"], early["bad_operation"]) == (False, 0) and '"y" has made an output' in early["reason"]
    late = next(a for a in answer["allocations"] if a[1] == "input" and a[2] == 1)
    assert answer["operations"][late[0]] == ["F", 2]  # the first that reads it


@pytest.mark.parametrize("more, status, word", [
    ({"in_flight": 0}, 400, "in_flight is 0; it must be a whole number from 1 to 1000"),
    ({"in_flight": 1.5}, 400, "in_flight is 1.5"),
    ({"in_flight": "2"}, 400, "in_flight must be a number"),
    ({"in_flight": 2, "link": {"bytes_per_time_unit": 2}}, 422, "ask without a link"),
    ({"in_flight": 2, "profile": {**TANGENT, "inputs": [{"id": "x", "bytes": 1}, {"id": "t", "bytes": 5}]}}, 422,
     'without an input that is "late"'),
    ({"profile": {**TANGENT, "inputs": TANGENT["inputs"] + [{"id": "z", "bytes": 1, "late": True}]}}, 400,
     'inputs[2].late of "z": no node reads it'),
    ({"profile": {**TANGENT, "nodes": [TANGENT["nodes"][i] for i in (0, 2, 1, 3)]}}, 400,
     'nodes[1] "g" reads an input that is late, and the output of nodes[2] "y"'),
    ({"profile": {**STAGE, "inputs": [{"id": "x", "bytes": 1, "late": True}]}}, 400, "late is not a known field"),
])
def test_what_cannot_be_is_refused(rematd, more, status, word):
    refused = rematd.post("/v1/schedules", {"profile": STAGE, "budget": 44, "wait": 30, **more})
    assert refused.status == status and word in refused.json["detail"], refused.json


def test_too_little_says_what_would_do(rematd):
    refused = ask(rematd, STAGE, 20, in_flight=2).json
    assert ask(rematd, STAGE, refused["minimum_budget"], in_flight=2).json["verified"]
    pinned = {"format": "remat-profile/1", "name": "pinned", "nodes": [
        {"id": "a", "forward_time": 2, "backward_time": 4, "output_bytes": 5, "forward_workspace_bytes": 7, "backward_uses_output": False,
         "recompute": "never"},
        {"id": "b", "inputs": ["a"], "forward_time": 1, "output_bytes": 5, "saved_bytes": 8, "backward_workspace_bytes": 6},
        {"id": "c", "inputs": ["b"], "forward_time": 3, "backward_time": 4, "output_bytes": 7, "saved_bytes": 1, "gradient_bytes": 1,
         "save_workspace_bytes": 8, "backward_uses_output": False, "recompute": "never", "keep": True}]}
    told = {budget: ask(rematd, pinned, budget, in_flight=3, layout=False).json["minimum_budget"] for budget in (0, 34, 45)}
    assert max(told.values()) <= 48, told  # the best table has nothing below 72
    assert all(ask(rematd, pinned, budget, in_flight=3, layout=False).json["verified"] for budget in told.values())


# Best of an emulation that looked at 40 amounts held, in per cent; this must be as good.
@pytest.mark.parametrize("mebibytes, in_flight, overhead", [
    (5544, 4, 16.59), (5544, 3, 11.75), (5544, 2, 4.22), (7921, 4, 9.68), (7921, 3, 4.80), (7921, 2, 0), (10297, 4, 4.895)])
def test_three_blocks_of_gpt(tmp_path, mebibytes, in_flight, overhead):
    profile, schedule = tmp_path / "stage.json", tmp_path / "schedule.json"
    profile.write_text(json.dumps(three_blocks()))
    shown = remat("solve", "--local", "--no-layout", "-b", f"{mebibytes}MiB", "--in-flight", in_flight, profile, "-o", schedule)
    answer = json.loads(schedule.read_text())
    assert 100 * answer["overhead"] <= overhead and answer["peak"] <= mebibytes * MIB and f"{in_flight} micro-batches" in shown.stdout
    assert answer["lower_bound"] <= answer["makespan"]
    assert f"{in_flight} micro-batches" in remat("simulate", "--local", profile, schedule).stdout


def test_the_command_judges_what_is_held(rematd, tmp_path):
    profile, schedule = tmp_path / "stage.json", tmp_path / "schedule.json"
    profile.write_text(json.dumps(three_blocks()))
    for more in ([], ["--no-layout"]):
        remat("solve", "--server", rematd.url, "-b", "60%", "--in-flight", 3, *more, profile, "-o", schedule)
        assert json.loads(schedule.read_text())["in_flight"] == 3
    answer = json.loads(schedule.read_text())
    for lie, said in (({"in_flight": 2}, "peak is"), ({"held": answer["held"] - 1}, "held is"), ({"in_flight": 0}, "in_flight is")):
        schedule.write_text(json.dumps({**answer, **lie}))
        assert said in remat("show", "--profile", profile, schedule, code=3).stderr
