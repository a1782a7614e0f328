"""tests/cuda/on_device, stage by stage on the emulated device, so that it runs where there is a real one."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, SLOW

SMALL = ["--models", "lstm", "--size", "--batch 2 --time 2 --width 0.0625"]
slow = pytest.mark.skipif(SLOW > 1, reason="the script is the same, and test_cuda.py runs the program under sanitizers")
HEADINGS = [f"{k}. " for k in (1, 1, 2, 3, 4, 5, 6)] + 4 * ["Must: "]


def run(tmp_path, *words, code=0, **settings):
    environment = dict(os.environ, OUT=str(tmp_path), TRAIN=str(BUILD / "tests" / "cuda" / "remat-train-emulated"), **settings)
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "cuda" / "on_device"), *words], env=environment,
                          capture_output=True, text=True, timeout=300 * SLOW)
    assert done.returncode == code, done.stdout + done.stderr
    summary = (tmp_path / "summary.txt").read_text()
    verdicts = summary[summary.index("\nOn emulated"):].splitlines()[2:]
    assert [line[:len(heading)] for line, heading in zip(verdicts, HEADINGS)] == HEADINGS
    assert len(list(tmp_path.iterdir())) <= 8
    path = tmp_path / "results.json"
    return json.loads(path.read_text()) if path.exists() else [], verdicts


@slow
def test_what_must_hold_of_bits_and_memory(tmp_path):
    results, verdicts = run(tmp_path, "kernels", "bits", "curves", *SMALL)
    assert [one["held"] for one in results] == [None] + 6 * [True]
    assert "refused" in results[3] and "the least is" in results[3]["refused"]
    assert len(results[-1]["losses"]) == 50
    assert verdicts[0].startswith("1. same bits as storing everything in 60, 40 and 30 %: held; 3 of 3")
    assert verdicts[2].endswith("not measured by this call")


@slow
def test_times_profiles_and_the_link(tmp_path):
    results, verdicts = run(tmp_path, "second", *SMALL)
    assert all(one["held"] is not False for one in results)
    assert {one["stage"] for one in results} == {"table", "profiles", "overlap"}
    timed = [one for one in results if one["stage"] == "table"]
    assert len(timed) == 4 and all(one["beyond_arena"] == one["library_bytes"] == 0 for one in timed)
    assert verdicts[7].startswith("Must: the peak is the arena: ")
    source = json.loads((tmp_path / "lstm.emulated.json").read_text())["source"]
    assert "emulated device" in source["device"] and "--backend cuda" in source["note"] and source["date"]


@slow
def test_larger_than_the_card(tmp_path):
    card = 3 << 18
    results, verdicts = run(tmp_path, "larger", "--models", "lstm", "--size", "--time 16 --width 0.0625", "--card", str(card),
                            REMAT_EMULATED_MEMORY=str((32 << 20) + card))
    stored, trained = results
    assert stored["held"] and "bytes are free" in stored["refused"]
    assert trained["held"] and trained["store_all"] > card > trained["arena"] and len(trained["losses"]) == 5
    assert verdicts[6] == "6. larger than the card: held; 2 of 2"


@pytest.mark.parametrize("fault", [1, 400])
def test_a_device_that_fails_is_no_success(tmp_path, fault):
    results, verdicts = run(tmp_path, "curves", *SMALL, code=1, REMAT_EMULATED_FAULT=str(fault))
    assert [one["held"] for one in results] == [False] and "CUDA" in results[0]["said"]
    assert verdicts[-1] == "1 failed: curves lstm" and "NOT HELD" in verdicts[9]


def test_no_time(tmp_path):
    """The default stages, each of which says that it was left out."""
    results, _ = run(tmp_path, "--seconds", "1", *SMALL)
    assert {one["stage"] for one in results} == {"kernels", "bits", "curves", "sanitizer", "table"}
    assert all(one["held"] is None for one in results)
