"""clients/examples/tasks: the one that is about a model of PyTorch."""

import os
import re
import subprocess
import sys

import pytest

from conftest import HERE, ROOT


@pytest.mark.core
def test_a_schedule_for_my_model(server):
    env = dict(os.environ, REMAT_SERVER=server, PYTHONPATH=str(HERE.parent))
    done = subprocess.run([sys.executable, ROOT / "clients" / "examples" / "tasks" / "schedule_of_a_model.py"],
                          env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = re.search(r"^(\d+) bytes at most, solved by " + re.escape(server), done.stdout, re.M)
    kept = 4 * 2 * 512 * 256 * 4  # what a plain step keeps for its backward: of four layers both outputs
    assert told and 0 < int(told[1]) < kept, done.stdout
