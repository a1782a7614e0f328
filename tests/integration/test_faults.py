"""The machine fails around the daemon: memory runs out now and then, the clock jumps."""

import collections
import concurrent.futures
import glob
import gzip
import http.client
import json
import random
import re
import subprocess
import time

import pytest

from conftest import ROOT, SLOW, Service, profile
from test_service import big_chain

pytestmark = pytest.mark.skipif(SLOW > 1, reason="sanitizers have an allocator and clocks of their own")


def test_memory_runs_out_now_and_then(make_service, tmp_path):
    """While allocations fail a request may be answered 5xx or not at all; the daemon lives and tells nothing wrong."""
    library, flag = tmp_path / "failing.so", tmp_path / "failing"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, ROOT / "tests" / "fault" / "preload_malloc.c"],
                   check=True)
    service = make_service(env={"LD_PRELOAD": str(library), "REMAT_FAIL_FILE": str(flag), "REMAT_FAIL_ONE_IN": "997"})
    known = service.push("vgg19.chain")["profile_id"]
    asked = {budget: service.post("/v1/schedules", {"profile_id": known, "budget": f"{budget}%"}).json
             for budget in range(70, 80)}
    flag.touch()
    draw, statuses, acknowledged = random.Random(3), collections.Counter(), []
    details = collections.defaultdict(set)
    for i in range(600):
        kind = draw.random()
        try:
            if kind < 0.3:
                answer = service.post("/v1/profiles", big_chain(5, i), check=False)
                if answer.status == 201:
                    acknowledged.append((i, answer.json["profile_id"]))
            elif kind < 0.8:
                budget = draw.choice(list(asked))
                answer = service.post("/v1/schedules", {"profile_id": known, "budget": f"{budget}%"}, check=False)
                assert answer.status != 200 or answer.json["operations"] == asked[budget]["operations"]
            else:
                answer = service.post("/v1/schedules", {"profile": big_chain(20, i), "budget": "90%"}, check=False)
            statuses[answer.status] += 1
            details[answer.status].add(answer.body)
        except (OSError, http.client.HTTPException):
            statuses["closed"] += 1
        assert service.process.poll() is None, (i, service.logs[-1].read_text()[-2000:])
    flag.unlink()
    print(dict(statuses))
    assert statuses[200] > 100 and sum(n for s, n in statuses.items() if s not in (200, 201)) > 0
    assert set(statuses) <= {200, 201, 503, "closed"}, {status: details[status] for status in (400, 500)}
    for i, one in acknowledged:
        assert service.post("/v1/profiles", big_chain(5, i)).json["profile_id"] == one
    assert service.get("/readyz").status == 200
    assert service.metric("remat_verification_failures_total") == 0
    service.stop()
    assert service.command("check").returncode == 0


def test_clock_jumps(make_service, tmp_path):
    """Back by three days, ahead by ten years: deadlines do not care, lists stay whole, no job is lost."""
    library = (glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") or [None])[0]
    if not library:
        pytest.skip("libfaketime is not here; deploy/packages test installs it on Debian and Ubuntu")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    service = make_service("--workers", "1", env={
        "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    profiles, jobs, seen = [], [], []
    for step, jump in enumerate(["+0", "-3d", "+3650d", "-1h", "+0"]):
        clock.write_text(jump)
        for i in range(4):
            profiles.append(service.post("/v1/profiles", big_chain(4, 100 * step + i)).json["profile_id"])
        jobs.append(service.post("/v1/schedules", {"profile": big_chain(100, step), "budget": "50%", "solver": "rotor",
                                                   "wait": 0}).json["job_id"])
        start = time.monotonic()
        answer = service.post("/v1/schedules", {"profile": profile("vgg19.chain"), "budget": f"{70 + step}%"})
        assert answer.status == 200 and time.monotonic() - start < 20
        seen.append(answer.json["created"])
    assert min(seen) < seen[0] and max(seen) > "2030"  # the clock did jump
    for job in jobs:
        deadline = time.monotonic() + 60
        while (state := service.get(f"/v1/jobs/{job}").json)["state"] != "done":
            assert state["state"] in ("queued", "running") and time.monotonic() < deadline, state
            time.sleep(0.05)
        assert service.get(f"/v1/schedules/{state['schedule_id']}").json["verified"]
    listed, cursor = [], ""
    while cursor is not None:
        page = service.get(f"/v1/profiles?limit=3&cursor={cursor}" if cursor else "/v1/profiles?limit=3").json
        listed += [entry["profile_id"] for entry in page["profiles"]]
        cursor = page["next"]
    assert len(listed) == len(set(listed)) and set(profiles) <= set(listed)
    service.stop()
    clock.write_text("-30d")
    service.start()
    assert all(service.get(f"/v1/jobs/{job}").json["state"] == "done" for job in jobs)
    assert not [line for line in service.log_lines() if line["level"] == "error"]


def limited(folder, limit, *arguments):
    """A rematd under "ulimit LIMIT", soft and hard."""
    folder.mkdir()
    service = Service(folder, *arguments)
    service.program = folder / "rematd"
    service.program.write_text(f'#!/bin/sh\nulimit {limit} && exec "{Service.program}" "$@"\n')
    service.program.chmod(0o755)
    return service


def test_little_address_space(tmp_path):
    """ulimit -v: too little for the threads is said at the start, where libuv ended the process at the first solve; with
    more, what finds no memory is answered 503, and the process lives and stops in order."""
    with pytest.raises(AssertionError, match="of 6 threads with stacks of 8388608 bytes the system gives [1-5]: "):
        limited(tmp_path / "little", f"-v {48 << 10}", "--workers", "2").start()
    statuses, large = collections.Counter(), json.dumps(big_chain(20000)).encode()

    def ask(service, i):
        for path, body in (("schedules", {"profile": big_chain(60, i), "budget": "50%", "solver": "rotor", "wait": 30}),
                           ("schedules", {"profile": profile("resnet50.flops"), "budget": f"{80 - i}%"}), ("profiles", large),
                           ("schedules", {"profile": big_chain(60000, 3), "budget": "110%", "solver": "store-all", "layout": False})):
            try:
                answer = service.post(f"/v1/{path}", body, check=False)
            except (OSError, http.client.HTTPException):
                statuses["closed"] += 1
                continue
            statuses[answer.status] += 1
            assert answer.status != 503 or answer.headers["Retry-After"] == "2"
            assert answer.status != 200 or path == "profiles" or answer.json["verified"]

    for mib in (96, 128, 320):
        service = limited(tmp_path / str(mib), f"-v {mib << 10}", "--workers", "2").start()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, [service] * 4, range(4)))
        assert service.get("/healthz").status == 200
        service.stop()
    assert set(statuses) <= {200, 201, 202, 413, 503, "closed"}, statuses
    assert statuses[200] > statuses["closed"] and statuses[503], statuses


def small_stack(folder, kib, *arguments):
    return limited(folder, f"-s {kib}", *arguments)


def test_small_stack(tmp_path):
    """The stacks of the team do not follow ulimit -s; those of libuv do, so that too little is refused at the start: with
    64 KiB it served until the first body in gzip, which needs as much, ended it."""
    service = small_stack(tmp_path / "enough", 256, "--workers", "3").start()
    try:
        for name in ("resnet50.chain", "gpt.chain"):
            body = gzip.compress(json.dumps({"profile": profile(name), "budget": "80%"}).encode())
            answer = service.post("/v1/schedules", body, headers={"Content-Encoding": "gzip"})
            assert answer.status == 200 and answer.json["arena"] <= answer.json["budget"]
        maps = open(f"/proc/{service.process.pid}/maps").read()
        sizes = [int(b, 16) - int(a, 16) for a, b in re.findall(r"^(\w+)-(\w+) rw-p 0+ 00:00 0 *$", maps, re.M)]
        assert sizes.count(1 << 20) >= 2, "of three workers the loop is one"
    finally:
        service.stop()
    little = small_stack(tmp_path / "little", 64)
    with pytest.raises(AssertionError, match="may take 65536 bytes .ulimit -s.; it needs 262144"):
        little.start()
    assert little.process.wait() == 1
