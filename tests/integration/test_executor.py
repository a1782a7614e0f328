"""The executor's example, as a user runs it."""

import re
import subprocess

from conftest import BUILD, SLOW


def test_example_learns_the_same_in_less_memory():
    done = subprocess.run([str(BUILD / "clients" / "executor" / "example")], capture_output=True, text=True,
                          timeout=60 * SLOW)
    assert done.returncode == 0, done.stderr
    runs = re.findall(r"arena (\d+) bytes, (\d+) operations, losses (.*)", done.stdout)
    assert len(runs) == 2 and runs[0][2] == runs[1][2]
    losses = [float(x) for x in runs[0][2].split()]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.9 * losses[0]
    assert int(runs[1][0]) <= 0.4 * int(runs[0][0]) and int(runs[1][1]) > int(runs[0][1])
