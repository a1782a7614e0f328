"""Operators' bad days: a log that nobody reads, a stop that something holds up."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from conftest import SLOW, Service
from test_service import big_chain


@pytest.fixture
def unread(tmp_path):
    """A daemon whose log goes into a pipe that nobody reads, and the pipe."""
    tmp_path.joinpath("rematd.conf").write_text("workers = 1\n")
    service = Service(tmp_path, "--config", str(tmp_path / "rematd.conf"))
    service.process = subprocess.Popen([str(service.program), "--listen", "127.0.0.1:0", "--store", str(service.store),
                                        *service.arguments], stderr=subprocess.PIPE)
    service.port = json.loads(service.process.stderr.readline())["port"]
    yield service, service.process.stderr
    service.process.kill()
    service.process.wait()


def test_a_log_that_nobody_reads_stops_nobody(unread):
    """Some 300 requests fill the pipe. What does not fit is counted, and said when somebody reads again."""
    service, log = unread
    for _ in range(1000):
        assert service.get("/healthz", timeout=5).status == 200
    dropped = service.metric("remat_log_lines_dropped")
    assert dropped > 300
    service.folder.joinpath("rematd.conf").write_text("workers = many\n")
    service.process.send_signal(signal.SIGHUP)  # says what is wrong on stderr too
    assert service.get("/healthz", timeout=5).status == 200
    os.set_blocking(log.fileno(), False)
    log.read()
    assert service.get("/healthz").status == 200
    time.sleep(0.2)
    lines = [json.loads(line) for line in log.read().splitlines()]
    told = [line for line in lines if line["message"].startswith("log lines were dropped")]
    assert len(told) == 1 and told[0]["lines"] > dropped and told[0]["level"] == "warning"
    assert lines[-1]["message"] == "request"
    assert service.metric("remat_log_lines_dropped") == told[0]["lines"]
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(30 * SLOW) == 0


def test_a_stop_ends_in_time_whatever_waits(make_service):
    """The store is locked by another process: a write that waits for it does not keep the daemon."""
    service = make_service("--stop-seconds", "3")
    service.push("vgg19.chain")
    lock = sqlite3.connect(service.store, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    asked = threading.Thread(target=lambda: service.post("/v1/profiles", big_chain(50), check=False))
    asked.daemon = True
    asked.start()
    time.sleep(0.5)
    start = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(60 * SLOW) == 0
    assert time.monotonic() - start < 3.5 * SLOW
    lock.close()


def test_running_solves_are_cancelled_before_the_time_is_over(make_service):
    service = make_service("--stop-seconds", "6", "--workers", "2")
    answers = []

    def ask(seed):
        answers.append(service.post("/v1/schedules", {"profile": big_chain(450, seed), "budget": "40%", "solver": "rotor",
                                                      "options": {"slots": 3000}, "wait": 600}))

    waiting = [threading.Thread(target=ask, args=(seed,)) for seed in (1, 2)]
    for one in waiting:
        one.start()
    time.sleep(1)
    start = time.monotonic()
    service.stop()
    assert time.monotonic() - start < 6 * SLOW
    for one in waiting:
        one.join()
    assert [answer.status for answer in answers] == [503, 503] and all(answer.headers["Retry-After"] for answer in answers)


def test_answers_given_through_jobs_are_counted(make_service):
    service = make_service()
    body = {"profile": big_chain(60), "budget": "50%", "solver": "rotor", "wait": 0}
    job = service.post("/v1/schedules", body).json["job_id"]
    deadline = time.monotonic() + 60 * SLOW
    while (state := service.get(f"/v1/jobs/{job}").json)["state"] in ("queued", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert service.get(f"/v1/schedules/{state['schedule_id']}").status == 200
    counted = [service.metric(f'remat_schedule_answers_total{{cache="{cache}"}}') for cache in ("hit", "table", "miss")]
    assert counted == [0, 0, 1]
    assert service.post("/v1/schedules", body).status == 200
    assert service.metric('remat_schedule_answers_total{cache="hit"}') == 1


def test_a_file_that_may_not_grow_is_like_a_full_disk(make_service):
    """RLIMIT_FSIZE: the kernel sends SIGXFSZ, which ends who does not ignore it."""
    service = make_service()
    service.push("vgg19.chain")
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (1 << 18, resource.RLIM_INFINITY))
    refused = 0
    for i in range(40):
        answer = service.post("/v1/profiles", big_chain(60, i), timeout=20)
        refused += answer.status == 503
        assert answer.status == 201 or (answer.status == 503 and "cannot write" in answer.json["detail"]), answer.body
        if refused == 5:
            break
    assert refused == 5 and service.process.poll() is None
    ready = service.get("/readyz")
    assert ready.status == 503 and "cannot write" in ready.json["reasons"][0], ready.body
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert service.post("/v1/profiles", big_chain(60, 1000)).status == 201
    assert service.get("/readyz").status == 200
