"""The mix of requests that takes the most memory, looked for during REMAT_SOAK_SECONDS (default 600; half for 2 workers, half
for 16): each mix begins on a fresh daemon, and the worst so far is changed a little. None may pass what is promised."""

import os
import pathlib
import random
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from conftest import make_service  # noqa: E402,F401
from memory_mix import KINDS, MIB, Asker, allowed  # noqa: E402

SECONDS = int(os.environ.get("REMAT_SOAK_SECONDS", 600)) / 2
SEED = int(os.environ.get("REMAT_SEED", 1))
SIZES = ((20000, 60000, 150000), (20000, 40000), (100000,))


def changed(draw, mix):
    kinds = dict(mix["kinds"])
    kinds[draw.choice(KINDS)] = draw.choice([0, 1, 1, 3])
    if not any(kinds.values()):
        kinds["store-all"] = 1
    return {"kinds": kinds, "threads": draw.choice([mix["threads"], draw.choice([2, 6, 12, 24])]),
            "sizes": draw.choice([mix["sizes"], draw.choice(SIZES)])}


@pytest.mark.parametrize("workers", (2, 16))
def test_the_worst_mix_is_within_the_limit(make_service, workers):  # noqa: F811
    draw, end, worst = random.Random(SEED), time.monotonic() + SECONDS, 0
    mix = best = {"kinds": {"post": 1, "store-all": 3, "again": 1}, "threads": 8, "sizes": SIZES[0]}
    while time.monotonic() < end:
        service = make_service("--memory-limit", "64MiB", "--workers", str(workers), "--stop-seconds", "2")
        asker = Asker(service, mix["sizes"], draw.randrange(90))
        most = asker.run(mix["kinds"], mix["threads"], 12)
        print(f"{workers} workers: {most / MIB:.0f} MiB of {allowed(64 * MIB, workers) / MIB:.0f}: {mix} {asker.statuses}", flush=True)
        assert not asker.failures, asker.failures
        assert most <= allowed(64 * MIB, workers), mix
        assert asker.statuses.get(200, 0) > 0
        service.kill()
        service.process.returncode = 0
        if most >= worst:
            worst, best = most, mix
        mix = changed(draw, best)
