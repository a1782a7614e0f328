"""Full load for REMAT_SOAK_SECONDS (default 600): no error, and memory that does not grow once it is warm."""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from conftest import SLOW, make_service, profile  # noqa: E402,F401
from test_service import big_chain  # noqa: E402

SECONDS = int(os.environ.get("REMAT_SOAK_SECONDS", 600))
CLIENTS = 8


def resident(pid):
    """KiB."""
    return int(next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                    if line.startswith("VmRSS")).split()[1])


def client(service, seed, end, ids, counts, failures):
    """Reads, hits, traces of kept tables, new profiles, cold solves, deletions, and input that is refused."""
    draw = random.Random(seed)
    while time.monotonic() < end and not failures:
        kind = draw.random()
        if kind < 0.5:
            answer = service.get(f"/v1/profiles/{draw.choice(ids)}", check=False)
        elif kind < 0.8:
            answer = service.post("/v1/schedules", {"profile_id": draw.choice(ids), "layout": False,
                                                    "budget": f"{draw.randint(70, 110)}%"}, check=False)
        elif kind < 0.9:
            answer = service.post("/v1/profiles", b"[" * draw.randint(1, 9000), check=False)
        elif kind < 0.95:
            answer = service.post("/v1/tradeoffs", {"profile_id": draw.choice(ids), "points": 50}, check=False)
        else:
            made = service.post("/v1/profiles", big_chain(draw.randint(3, 25), draw.randrange(2**40)), check=False)
            service.post("/v1/schedules", {"profile_id": made.json["profile_id"], "budget": "90%"}, check=False)
            answer = service.call("DELETE", f"/v1/profiles/{made.json['profile_id']}", check=False)
        counts[seed] += 1
        if answer.status not in (200, 201, 204, 400, 422, 503):
            failures.append((answer.status, answer.body[:300]))


def test_soak(make_service):  # noqa: F811
    service = make_service("--cache-bytes", "16MiB", "--store-bytes", "256MiB")
    ids = [service.post("/v1/profiles", profile(name)).json["profile_id"]
           for name in ("vgg19.chain", "resnet50.chain", "vgg19.cpu.chain", "gpt.chain", "vit-b16.chain")]
    end, counts, failures, samples = time.monotonic() + SECONDS, [0] * CLIENTS, [], []
    threads = [threading.Thread(target=client, args=(service, seed, end, ids, counts, failures))
               for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    start = time.monotonic()
    while time.monotonic() < end and not failures:
        time.sleep(SECONDS / 200)
        samples.append((time.monotonic() - start, resident(service.process.pid)))
    for thread in threads:
        thread.join()
    assert not failures
    warm = [kib for second, kib in samples if second > SECONDS / 3]
    half = len(warm) // 2
    before, after = statistics.median(warm[:half]), statistics.median(warm[half:])
    print(f"{sum(counts)} requests in {SECONDS} s; RSS {samples[0][1]} KiB at first, "
          f"{before:.0f} and {after:.0f} KiB (medians of the second and the last third), most {max(warm)}")
    assert after < 1.05 * before + 2048 * SLOW
    assert service.metric("remat_verification_failures_total") == 0
    assert not [line for line in service.log_lines() if line["level"] == "error"]
    service.stop()
    checked = subprocess.run([*service.process.args[:1], "check", "--store", str(service.store)], capture_output=True)
    assert checked.returncode == 0, checked.stderr
