"""Memory is bounded by the setting, answers included: of long chains, asked for at once. tests/long/test_memory.py looks for
the worst."""

import os
import pathlib
import threading
import time

import pytest

from conftest import SLOW, Service
from memory_mix import MIB, Asker, allowed, chain, resident

pytestmark = pytest.mark.skipif(SLOW > 1, reason="sanitizers have an allocator of their own")


def test_answers_are_counted(make_service):
    """Six schedules of chains and stars of 30,000 to 100,000 nodes at once, and posts: within the limit, and all are answered."""
    service = make_service("--memory-limit", "64MiB", "--workers", "4")
    asker = Asker(service, (60000, 100000), 2)
    resident(service.process.pid)

    def ask(question):
        while asker.ask(question)[0] == 503:  # others have the memory now
            time.sleep(0.2)

    asked = [threading.Thread(target=ask, args=({"profile_id": known, "solver": "store-all", "layout": False, "budget": f"{110 + i}%", "wait": 120},))
             for i, known in enumerate(asker.ids * 2)]
    asker.statuses.clear()
    for one in asked:
        one.start()
    asker.call("POST", "/v1/profiles", chain(100000, 77))
    for one in asked:
        one.join()
    assert not asker.failures
    assert asker.statuses[200] >= len(asked) and set(asker.statuses) <= {200, 201, 503}, asker.statuses
    assert max(resident(service.process.pid)) <= allowed(64 * MIB, 4)


def test_what_never_fits_is_refused(make_service):
    service = make_service("--memory-limit", "8MiB", "--body-memory", "40MiB", "--max-body", "20MiB", "--workers", "1")
    question = {"solver": "store-all", "budget": "120%", "layout": False}
    for n, status in ((25500, 413), (300, 200)):
        known = service.post("/v1/profiles", chain(n, 3)).json["profile_id"]
        asked = service.post("/v1/schedules", {"profile_id": known, **question})
        assert asked.status == 200
        answer = service.get(f"/v1/schedules/{asked.json['schedule_id']}/timeline")
        assert answer.status == status and (status == 200 or "may take" in answer.json["detail"]), answer.body[:300]


@pytest.fixture
def confined(tmp_path):
    """A daemon by its own defaults in a control group of 300 MiB."""
    first = pathlib.Path("/sys/fs/cgroup/memory")
    group = (first if first.is_dir() else first.parent) / f"remat-{os.getpid()}"
    try:
        group.mkdir()
        limit = next(path for path in (group / "memory.max", group / "memory.limit_in_bytes") if path.exists())
        limit.write_text(str(300 * MIB))
    except (OSError, StopIteration):
        pytest.skip("control groups cannot be made here")
    service = Service(tmp_path, "--workers", "2")
    service.program = tmp_path / "rematd"
    service.program.write_text(f'#!/bin/sh\necho $$ >{group}/cgroup.procs && exec {Service.program} "$@"\n')
    service.program.chmod(0o755)
    yield service.start()
    service.kill()
    group.rmdir()


def test_a_small_control_group_is_enough(confined):
    """It stays within what it has: the kernel kills nobody."""
    asker = Asker(confined, (20000, 60000, 150000), 4)
    asker.run({"post": 1, "store-all": 3, "search": 1, "again": 1}, 8, 10)
    assert not asker.failures and confined.process.poll() is None
    assert asker.statuses[200] > 0, asker.statuses
    assert confined.get("/healthz").status == 200
