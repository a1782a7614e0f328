"""Stages of torch.distributed.pipelining, fitted with what they have in flight: real pipelines of two and four processes, and a
stage alone."""

import copy
import os
import subprocess
import sys

import pipeline
import pytest
import torch
from conftest import HERE
from pipeline import ROWS, TOKENS, WIDTH, WORDS, loss_of, parts
from steps import assert_same

import remat


def run(ranks, folder, server, case):
    processes = [subprocess.Popen([sys.executable, HERE / "pipeline.py", str(rank), str(ranks), str(case), folder, server],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(ranks)]
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(said)
    return [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]


@pytest.mark.parametrize("ranks, case", [
    pytest.param(ranks, case, marks=[pytest.mark.core] * ((ranks, case) in ((2, 0), (2, 1), (4, 0))), id=f"{ranks}-{what[0]}")
    for ranks, cases in pipeline.CASES.items() for case, what in enumerate(cases)])
def test_a_pipeline_is_the_plain_model_within_its_budgets(ranks, case, server, tmp_path):
    kind, each, m = pipeline.CASES[ranks][case]
    for rank, found in enumerate(run(ranks, tmp_path, server, case)):
        print(rank, found)
        assert found["differ"] == [] and found["compared"] >= 12 * each  # losses and gradients, bit by bit
        assert found["peak"] <= sum(found["budgets"]) < found["plain"]
        assert all(played <= budget for played, budget in zip(found["played"], found["budgets"]))
        assert all(again > 0 for again in found["again"]) and found["pieces"] == [1] * each  # compiled once, in fit
        flight = {"Schedule1F1B": [min(m, ranks - rank)], "ScheduleGPipe": [m]}.get(kind, list(found["flight"].values()))
        assert found["in_flight"] == flight == list(found["flight"].values())
        if each == 1:  # what fit played alone is what the rank takes
            assert found["played"][0] - 2 * ROWS * TOKENS * WIDTH * 4 <= found["peak"] <= found["played"][0] + ROWS * TOKENS * WIDTH * 4
        assert found["refused"].startswith(f"rank {rank}, ") and "bytes will do" in found["refused"]
