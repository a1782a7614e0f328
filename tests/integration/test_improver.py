"""What fell when somebody tried to break the improver: profiles whose states, links and budgets made auto fail."""

import json
import subprocess

import pytest
from conftest import BUILD

CLI = BUILD / "clients" / "cli" / "remat"


def node(name, *inputs, time=0, output=0, **more):
    return {"id": name, "inputs": list(inputs), "forward_time": time, "output_bytes": output, **more}


def profile(*nodes, states=()):
    return {"format": "remat-profile/1", "name": "odd", "inputs": [], "nodes": list(nodes),
            "states": [{"id": name, "bytes": 0} for name in states]}


# n3 writes what n4 reads, and no edge says so: a run of n4 before any of n3 has nothing to restore.
WRITER_FIRST = profile(
    node("n0", time=1, output=10, alternatives=[
        {"name": "a0", "forward_time": 2, "backward_time": 1, "forward_workspace_bytes": 1000},
        {"name": "a2", "forward_time": 0.008, "backward_time": 4, "forward_workspace_bytes": 3,
         "backward_workspace_bytes": 1000}]),
    node("n3", "n0", writes=["s0"]), node("n4", reads=["s0"]), node("n7", output=10), node("n8", "n3", "n4", "n7"),
    states=["s0"])
# Two branches of a join that share a state: equiv-chain ran them in the other order.
SHARED_STATE = profile(node("n1", writes=["s0"]), node("n4", reads=["s0"]), node("n8", "n4", "n1"), states=["s0"])


def solve(tmp_path, document, *options):
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(document))
    done = subprocess.run([CLI, "solve", "--local", "--json", *options, path], capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout or done.stderr)


@pytest.mark.parametrize("budget", range(15, 35))
def test_states_keep_their_order(tmp_path, budget):
    code, answer = solve(tmp_path, WRITER_FIRST, "--no-layout", "--budget", str(budget))
    assert code == 0 and answer["verified"] or code == 1 and answer["type"].endswith("infeasible-budget"), answer


@pytest.mark.parametrize("budget", ["1", "1000", str(2**53 - 1)])
def test_branches_that_share_a_state(tmp_path, budget):
    code, answer = solve(tmp_path, SHARED_STATE, "--budget", budget)
    assert code == 0 and answer["optimality"] == "optimal"


def test_effort_is_for_answers_that_are_improved(tmp_path):
    quick, thorough = (solve(tmp_path, WRITER_FIRST, "--budget", "100%", "--effort", effort) for effort in ("quick", "thorough"))
    assert quick[0] == thorough[0] == 0 and quick[1]["schedule_id"] != thorough[1]["schedule_id"]
    assert solve(tmp_path, WRITER_FIRST, "--budget", "100%")[1]["schedule_id"] == quick[1]["schedule_id"]
    code, refusal = solve(tmp_path, WRITER_FIRST, "--budget", "100%", "--solver", "lowerset", "--effort", "quick")
    assert code == 3 and refusal["field"] == "effort" and "lowerset" in refusal["detail"]
    assert solve(tmp_path, WRITER_FIRST, "--budget", "100%", "--effort", "some")[1]["field"] == "effort"
