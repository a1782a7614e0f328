"""Operators' worse days: a clock that goes to and fro, little address space, a disk that only reads, clients that drip,
a backup and a pruning under load."""

import contextlib
import glob
import json
import select
import shutil
import socket
import subprocess
import threading
import time

import pytest

from conftest import OPENAPI, ROOT, SLOW, Service
from test_durability import variant
from test_security import bearer, make_token
from test_service import big_chain

preloads = pytest.mark.skipif(SLOW > 1, reason="sanitizers want to be the first library")
MINUTES = {"solver": "rotor", "options": {"slots": 3000}, "budget": "50%"}  # of work


@contextlib.contextmanager
def meanwhile(*tasks):
    """Each task again and again in a thread of its own; what it raises is raised here in the end."""
    over, failures = threading.Event(), []

    def repeat(task):
        try:
            while not over.is_set():
                task()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=repeat, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def asker(service, first, acknowledged):
    """A task that posts profiles and asks for a schedule and a table's schedule of each."""
    i = first

    def ask():
        nonlocal i
        i += 1
        for path, body in (("/v1/schedules", {"profile": variant(i), "budget": "90%"}),
                           ("/v1/schedules", {"profile": variant(i), "budget": "95%", "solver": "rotor"})):
            answer = service.post(path, body)
            assert answer.status == 200, answer.body
            acknowledged[f"/v1/schedules/{answer.json['schedule_id']}"] = answer.body

    return ask


# ---- the clock ----


@preloads
def test_hours_to_and_fro(make_service, tmp_path):
    """Four times a second the clock is set, by up to a day: rates, waits, jobs and pruning go by another one."""
    library = (glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") or [None])[0]
    if not library:
        pytest.skip("libfaketime is not here; deploy/packages test installs it on Debian and Ubuntu")
    clock, file = tmp_path / "clock", tmp_path / "tokens.json"
    clock.write_text("+0")
    token = make_token(file, "one", "read,solve,admin", "rate=20")
    other = bearer(make_token(file, "other", "read,solve,admin"))
    service = make_service("--tokens", str(file), "--workers", "2", "--store-bytes", "20000", env={
        "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    jumps = iter(["+6h", "-6h", "+1h", "-24h", "+24h", "-2h"] * 100)
    admitted, refused, jobs, begun = [], [], [], time.monotonic()

    def set_clock():
        clock.write_text(next(jumps))
        time.sleep(0.25)

    def spend():
        answer = service.get("/v1/solvers", headers=bearer(token))
        (admitted if answer.status == 200 else refused).append(answer)
        if answer.status == 429:
            assert int(answer.headers["Retry-After"]) == 1
            time.sleep(0.01)

    def solve():
        body = {"profile": variant(len(jobs)), "budget": "90%", "solver": "rotor", "wait": 0}
        answer = service.post("/v1/schedules", body, headers=other)
        assert answer.status in (200, 202), answer.body
        jobs.append(answer.json.get("job_id"))

    with meanwhile(set_clock, spend, solve):
        for seed in range(4):
            start = time.monotonic()
            answer = service.post("/v1/schedules", {"profile": big_chain(400, seed), "wait": 2, **MINUTES}, headers=other)
            assert answer.status == 202 and 1.9 < time.monotonic() - start < 8, (answer.status, time.monotonic() - start)
            cancelled = service.call("DELETE", f"/v1/jobs/{answer.json['job_id']}", headers=other)
            assert cancelled.status in (200, 202, 204)
    seconds = time.monotonic() - begun
    assert refused and 15 * seconds < len(admitted) < 40 + 21 * seconds, (len(admitted), seconds)
    for job in filter(None, jobs):
        deadline = time.monotonic() + 30
        while (told := service.get(f"/v1/jobs/{job}", headers=other).json)["state"] != "done":
            assert told["state"] in ("queued", "running") and time.monotonic() < deadline, json.dumps(told)
            time.sleep(0.02)
    shown = {line["time"][:13] for line in service.log_lines()}
    assert len(shown) >= 4, "the clock was set"
    service.stop()
    clock.write_text("+8d")
    service.start()
    deadline = time.monotonic() + 20
    while b'"the store was pruned"' not in service.logs[-1].read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    done = next(filter(None, jobs))
    assert service.get(f"/v1/jobs/{done}", headers=other).status == 404  # a week is over, says the clock
    again = service.post("/v1/schedules", {"profile": variant(0), "budget": "90%", "solver": "rotor"}, headers=other)
    assert again.status == 200 and again.json["verified"]
    clock.write_text("+0")
    assert service.get("/readyz").status == 200
    assert not [line for line in service.log_lines() if line["level"] == "error"]


# ---- a disk that only reads ----


def test_a_read_only_store_is_refused(make_service, disk, tmp_path):
    """At the start: it says which file, and why; nothing is half open. It is checked and copied as it is."""
    service = make_service("--store", str(disk / "store.db"))
    known = service.push("vgg19.chain")["profile_id"]
    service.stop()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(AssertionError, match="cannot open .*store.db.lock: Read-only file system"):
        service.start()
    assert service.process.wait() == 1
    checked = subprocess.run([Service.program, "--check-config", "--store", disk / "store.db"], capture_output=True, text=True)
    assert checked.returncode == 2 and "Read-only file system" in checked.stderr
    service.store = disk / "store.db"
    sound = service.command("check")
    assert sound.returncode == 0 and "is sound: 1 profiles" in sound.stdout, sound.stderr
    copied = service.command("backup", str(tmp_path / "copy.db"))
    assert copied.returncode == 0, copied.stderr
    again = subprocess.run([Service.program, "check", "--store", tmp_path / "copy.db"], capture_output=True, text=True)
    assert again.returncode == 0 and "is sound: 1 profiles" in again.stdout
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    service.start()
    assert service.get(f"/v1/profiles/{known}").status == 200 and service.get("/readyz").status == 200
    service.stop()


@preloads
def test_a_disk_that_becomes_read_only(make_service, tmp_path):
    """What is known is answered, what is new is a 503 that says why, readiness says it too; it recovers by itself."""
    library, flag = tmp_path / "readonly.so", tmp_path / "readonly"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library,
                    ROOT / "tests" / "fault" / "preload_readonly.c"], check=True)
    service = make_service(env={"LD_PRELOAD": str(library), "REMAT_READ_ONLY_FILE": str(flag)})
    question = {"profile": variant(0), "budget": "90%"}
    known = service.post("/v1/schedules", question)
    flag.touch()
    for i in range(1, 4):
        ready = service.get("/readyz")
        assert ready.status == 503 and "cannot write" in ready.json["reasons"][0], ready.body
        assert "Read-only file system" in ready.json["reasons"][0]
        assert service.post("/v1/schedules", question).body == known.body
        for path, body in (("/v1/schedules", {"profile": variant(i), "budget": "90%"}), ("/v1/profiles", big_chain(9, i))):
            answer = service.post(path, body)
            assert answer.status == 503 and "cannot write" in answer.json["detail"], answer.body
    assert service.get("/healthz").status == 200
    flag.unlink()
    assert service.get("/readyz").status == 200
    assert service.post("/v1/schedules", {"profile": variant(1), "budget": "90%"}).status == 200
    service.stop()
    assert service.command("check").returncode == 0


# ---- clients that drip ----

ROUTES = sorted((method.upper(), path.replace("{id}", "0" * 64).replace("{file}", "x.js").replace("{kind}", "internal"))
                for path, item in OPENAPI["paths"].items() for method in item if method in ("get", "post", "delete"))


def test_every_endpoint_ends_who_drips(make_service):
    """Heads and bodies of a byte a second, on every endpoint at once: all are cut off, and others are served meanwhile."""
    service = make_service("--idle-seconds", "2", "--receive-seconds", "2", "--workers", "2")
    open_ones = {}
    for method, path in ROUTES:
        first = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        shapes = [first[:4], first + "X-Slow: "]
        if method == "POST":
            head = first + "Content-Type: application/json\r\n"
            shapes += [head + "Content-Length: 1000\r\n\r\n", head + "Transfer-Encoding: chunked\r\n\r\n3e8\r\n"]
        for shape in shapes:
            raw = socket.create_connection(("127.0.0.1", service.port))
            raw.sendall(shape.encode())
            open_ones[raw] = (method, path, shape)
    count, start, slowest = len(open_ones), time.monotonic(), 0
    while open_ones and time.monotonic() - start < 20 * SLOW:
        for raw in list(open_ones):
            try:
                raw.sendall(b"a")
                if select.select([raw], [], [], 0)[0] and not raw.recv(4096):
                    raise ConnectionError
            except OSError:
                raw.close()
                del open_ones[raw]
        asked = time.monotonic()
        assert service.get("/healthz").status == 200
        answer = service.post("/v1/schedules", {"profile": variant(int(asked * 10) % 10**6), "budget": "90%"})
        assert answer.status == 200
        slowest = max(slowest, time.monotonic() - asked)
        time.sleep(1)
    assert count > 70 and not open_ones, sorted(open_ones.values())
    assert slowest < 5 * SLOW and time.monotonic() - start > 3
    assert service.metric_becomes("remat_connections", 1)
    service.stop()


# ---- a backup and a pruning under load ----


def test_backups_under_load(make_service, tmp_path):
    """Each holds all that was acknowledged before it began, byte for byte."""
    service = make_service()
    acknowledged, taken = {}, []
    with meanwhile(*(asker(service, 1000 * n, acknowledged) for n in range(3))):
        for i in range(4):
            time.sleep(0.3 * SLOW)
            while not acknowledged:  # a machine with much to do
                time.sleep(0.01)
            before = dict(acknowledged)
            made = service.command("backup", str(tmp_path / f"backup{i}.db"))
            assert made.returncode == 0, made.stderr
            taken.append((tmp_path / f"backup{i}.db", before))
    service.stop()
    for path, before in taken:
        assert before
        for extra in ("-wal", "-shm"):
            service.store.with_name(service.store.name + extra).unlink(missing_ok=True)
        shutil.copy(path, service.store)
        assert service.command("check").returncode == 0
        service.start()
        for answer_path, body in before.items():
            assert service.get(answer_path).body == body, answer_path
        assert service.get("/readyz").status == 200
        service.stop()
    assert len(taken[0][1]) < len(taken[-1][1])


def test_pruning_under_load(make_service):
    """What was dropped is solved again to the same answer; what is asked meanwhile is answered."""
    service = make_service("--store-bytes", "1GB")
    before = {}
    asker(service, 0, before)()
    ask = asker(service, 10, {})
    for _ in range(20):
        ask()
    service.stop()
    service.arguments[-1] = "30000"
    service.start()
    with meanwhile(*(asker(service, 1000 * n, {}) for n in range(1, 4))):
        deadline = time.monotonic() + 20 * SLOW
        while b'"the store was pruned"' not in service.logs[-1].read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    again = {}
    asker(service, 0, again)()
    assert again.keys() == before.keys()
    for path, body in again.items():
        assert json.loads(body)["operations"] == json.loads(before[path])["operations"]
    service.stop()
    assert service.command("check").returncode == 0
    assert not [line for line in service.log_lines() if line["level"] == "error"]
