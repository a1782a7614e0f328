"""kill -9, restarts, damage: nothing acknowledged is lost, nothing wrong is served."""

import copy
import os
import random
import sqlite3
import subprocess
import threading
import time

import pytest

from conftest import BUILD, SLOW, profile

KILLS = int(os.environ.get("REMAT_ROUNDS", "25" if SLOW == 1 else "8"))


def variant(i):
    document = copy.deepcopy(profile("vgg19.cpu.chain"))
    document["name"] = f"variant {i}"
    document["inputs"][0]["bytes"] = 1000 + i
    return document


def test_kill_nine_loses_nothing_acknowledged(make_service):
    """Clients post profiles and ask for schedules; the daemon is killed at random moments. After every restart
    each acknowledged answer is there, byte for byte, and the store passes its check."""
    service = make_service()
    draw = random.Random(11)
    acknowledged = {}  # path -> body
    lock, counter = threading.Lock(), [0]

    for kill in range(KILLS):
        stop = threading.Event()

        def client():
            while not stop.is_set():
                with lock:
                    counter[0] += 1
                    i = counter[0]
                try:
                    posted = service.post("/v1/profiles", variant(i), check=False)
                    if posted.status != 201:
                        continue
                    with lock:
                        acknowledged[f"/v1/profiles/{posted.json['profile_id']}"] = None
                    asked = service.post("/v1/schedules", {"profile_id": posted.json["profile_id"],
                                                           "budget": f"{draw.randint(80, 100)}%"}, check=False)
                    if asked.status == 200:
                        with lock:
                            acknowledged[f"/v1/schedules/{asked.json['schedule_id']}"] = asked.body
                except (OSError, ValueError, __import__("http.client").client.HTTPException):
                    return  # the daemon died under the request: not acknowledged

        threads = [threading.Thread(target=client) for _ in range(4)]
        before = len(acknowledged)
        for thread in threads:
            thread.start()
        time.sleep(draw.uniform(0.02, 0.4) * SLOW)
        while len(acknowledged) == before and any(thread.is_alive() for thread in threads):
            time.sleep(0.01)  # a machine with much to do
        service.kill()
        stop.set()
        for thread in threads:
            thread.join()
        checked = service.command("check")
        assert checked.returncode == 0, checked.stderr
        service.start()
        recent = list(acknowledged.items())[-40:] if kill < KILLS - 1 else list(acknowledged.items())
        for path, body in recent:
            answer = service.get(path, check=False)
            assert answer.status == 200, f"{path} is lost after kill {kill}"
            assert body is None or answer.body == body
    assert len(acknowledged) > KILLS
    assert not [line for line in service.log_lines() if line["level"] == "error"]


def test_acknowledged_jobs_survive(make_service):
    from test_service import big_chain
    service = make_service("--workers", "1")
    jobs = [service.post("/v1/schedules", {"profile": big_chain(70, seed), "budget": "40%", "solver": "rotor",
                                           "wait": 0}).json["job_id"] for seed in range(4)]
    service.kill()
    service.start()
    for job in jobs:
        deadline = time.monotonic() + 60 * SLOW
        while (state := service.get(f"/v1/jobs/{job}").json)["state"] != "done":
            assert state["state"] in ("queued", "running") and time.monotonic() < deadline
            time.sleep(0.05)
        assert service.get(f"/v1/schedules/{state['schedule_id']}").json["verified"]


def test_graceful_stop_answers_or_keeps(make_service):
    from test_service import big_chain
    service = make_service("--workers", "1", "--stop-seconds", "1")
    job = service.post("/v1/schedules", {"profile": big_chain(450), "budget": "40%", "solver": "rotor",
                                         "wait": 0}).json["job_id"]
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(
        service.post("/v1/schedules", {"profile": big_chain(450, 2), "budget": "40%", "solver": "rotor"})))
    waiter.start()
    time.sleep(0.5)
    start = time.monotonic()
    service.stop()
    assert time.monotonic() - start < 10 * SLOW
    waiter.join()
    assert answers[0].status in (200, 503)
    if answers[0].status == 503:
        assert answers[0].headers["Retry-After"]
    service.start()
    assert service.get(f"/v1/jobs/{job}").json["state"] in ("queued", "running", "done")
    service.call("DELETE", f"/v1/jobs/{job}")


def damage(service, table, column, where="1"):
    """Flips a byte in the middle of a stored blob."""
    connection = sqlite3.connect(service.store)
    rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {where}").fetchall()
    for rowid, blob in rows:
        broken = bytearray(blob)
        broken[len(broken) // 2] ^= 0x40
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (bytes(broken), rowid))
    connection.commit()
    connection.close()
    assert rows
    return len(rows)


def columns(service, table):
    connection = sqlite3.connect(service.store)
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    return names


def test_damaged_blobs_are_solved_again(make_service):
    service = make_service()
    summary = service.push("resnet50.chain")
    body = {"profile_id": summary["profile_id"], "budget": "50%", "solver": "rotor"}
    schedule = service.post("/v1/schedules", body).json
    service.stop()
    assert {"body"} <= set(columns(service, "schedules"))
    damage(service, "schedules", "body")
    assert service.command("check").returncode == 1
    service.start()
    again = service.get(f"/v1/schedules/{schedule['schedule_id']}", timeout=60).json
    assert {k: v for k, v in again.items() if k not in ("created", "solve_seconds")} == \
           {k: v for k, v in schedule.items() if k not in ("created", "solve_seconds")}
    assert any(line["level"] == "warning" for line in service.log_lines())
    assert service.metric("remat_damaged_records_total") >= 1
    service.stop()
    assert service.command("check").returncode == 0


def test_schedules_without_their_profile_are_solved_again(make_service):
    """A profile that went without its schedules, as a shell that minds no foreign keys deletes it."""
    service = make_service()
    profile = service.push("resnet50.chain")["profile_id"]
    body = {"profile_id": profile, "budget": "50%", "solver": "rotor"}
    schedule = service.post("/v1/schedules", body).json
    service.stop()
    connection = sqlite3.connect(service.store)
    connection.execute("DELETE FROM profiles")
    connection.commit()
    connection.close()
    service.start()
    assert service.get(f"/v1/schedules/{schedule['schedule_id']}").status == 404
    assert service.push("resnet50.chain")["profile_id"] == profile
    again = service.post("/v1/schedules", body)
    assert again.status == 200 and again.headers["X-Remat-Cache"] == "miss"
    assert again.json["operations"] == schedule["operations"]
    assert service.get(f"/v1/schedules/{schedule['schedule_id']}").status == 200


def test_damaged_table_is_made_again(make_service):
    service = make_service()
    summary = service.push("resnet50.chain")
    service.post("/v1/schedules", {"profile_id": summary["profile_id"], "budget": "60%", "solver": "rotor"})
    service.stop()
    blob = [name for name in columns(service, "tables") if name in ("blob", "body", "data", "content")][0]
    damage(service, "tables", blob)
    service.start()
    answer = service.post("/v1/schedules", {"profile_id": summary["profile_id"], "budget": "50%", "solver": "rotor"})
    assert answer.status == 200 and answer.headers["X-Remat-Cache"] == "miss"
    assert any(line["level"] == "warning" for line in service.log_lines())


def test_a_store_is_kept_below_its_size(make_service):
    """--store-bytes: tables go first, then schedules; what is asked again is solved again."""
    service = make_service()
    for name in ("resnet50.chain", "vgg19.chain", "gpt.cpu.chain"):
        summary = service.push(name)
        for percent in (60, 80):
            body = {"profile_id": summary["profile_id"], "budget": f"{percent}%", "solver": "rotor"}
            if name.startswith("vgg"):
                body["budget"] = "100%"
            assert service.post("/v1/schedules", body).status == 200
    tables, schedules = service.metric("remat_store_tables"), service.metric("remat_store_schedules")
    assert tables >= 3 and schedules >= 5
    service.stop()
    service.arguments += ["--store-bytes", "12000"]
    service.start()
    deadline = time.monotonic() + 30 * SLOW
    while not any(line["message"] == "the store was pruned" for line in service.log_lines()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert service.metric("remat_store_tables") < tables
    assert service.post("/v1/schedules", body).status == 200
    service.stop()
    assert service.command("check").returncode == 0


def test_pruning_on_a_full_disk(make_service, tmp_path):
    """Not one byte is free: what the store keeps for it is enough to delete, and is kept again."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6400k", "tmpfs", disk], capture_output=True)
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        service = make_service("--store", str(disk / "store.db"))
        for i in range(30):
            service.post("/v1/profiles", variant(i))
        service.stop()
        with open(disk / "fill", "wb", buffering=0) as fill, pytest.raises(OSError, match="No space"):
            while True:
                fill.write(bytes(1024))
        prune = [BUILD / "server" / "rematd", "prune", "--keep-bytes", "2000", "--store", disk / "store.db"]
        for _ in range(2):
            done = subprocess.run(prune, capture_output=True, text=True, timeout=60 * SLOW)
            assert done.returncode == 0, done.stderr
        assert "dropped 0 tables, 0 schedules, 0 profiles" in done.stdout
        (disk / "fill").unlink()
        service.start()
        assert 0 < len(service.get("/v1/profiles").json["profiles"]) < 30
        service.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_newer_store_is_refused(make_service):
    service = make_service()
    service.push("vgg19.chain")
    service.stop()
    connection = sqlite3.connect(service.store)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(AssertionError, match="newer"):
        service.start()
    assert service.process.returncode == 1


def test_backup_while_running(make_service, tmp_path):
    service = make_service()
    summary = service.push("vgg19.chain")
    copy_path = tmp_path / "copy.db"
    made = service.command("backup", str(copy_path))
    assert made.returncode == 0, made.stderr
    assert service.command("backup", str(copy_path)).returncode == 1  # it is there already
    service.stop()
    os.replace(copy_path, service.store)
    for extra in ("-wal", "-shm"):
        path = service.store.with_name(service.store.name + extra)
        if path.exists():
            path.unlink()
    service.start()
    assert service.get(f"/v1/profiles/{summary['profile_id']}").status == 200


def test_configuration(make_service, tmp_path):
    service = make_service()
    assert service.command("--check-config").returncode == 0
    for words in (["--workers", "0"], ["--workers", "many"], ["--nonsense"], ["--max-body", "12 parsecs"], ["extra"],
                  ["--log-level", "loud"]):
        result = service.command(*words)
        assert result.returncode == 2 and result.stderr, words
    binary = str(BUILD / "server" / "rematd")
    shown = subprocess.run([binary, "--check-config"], capture_output=True, text=True,
                           env=dict(os.environ, REMATD_WORKERS="3", REMATD_STORE=str(tmp_path / "s.db")))
    assert "workers = 3" in shown.stdout and str(tmp_path) in shown.stdout
    wrong = subprocess.run([binary, "--check-config"], capture_output=True, text=True,
                           env=dict(os.environ, REMATD_WORKERS="none"))
    assert wrong.returncode == 2 and "REMATD_WORKERS" in wrong.stderr
    taken = subprocess.run([binary, "--listen", f"127.0.0.1:{service.port}", "--store", str(tmp_path / "t.db")],
                           capture_output=True, text=True)
    assert taken.returncode == 1 and "cannot listen" in taken.stderr
    text = subprocess.run([binary, "--help"], capture_output=True, text=True).stdout
    assert "--store" in text and "REMATD_" in text


def test_one_daemon_per_store_by_any_name(make_service, tmp_path):
    """The file is locked, not its name: not through a symbolic link, a hard link, or another folder of the same disk."""
    service = make_service()
    by_symbol, by_hard, elsewhere = tmp_path / "symbol.db", tmp_path / "hard.db", tmp_path / "folder"
    by_symbol.symlink_to(service.store)
    by_hard.hardlink_to(service.store)
    elsewhere.symlink_to(service.folder, target_is_directory=True)
    for path in (service.store, by_symbol, by_hard, elsewhere / service.store.name):
        other = subprocess.run([BUILD / "server" / "rematd", "--listen", "127.0.0.1:0", "--store", path],
                               capture_output=True, text=True, timeout=60 * SLOW)
        assert other.returncode == 1 and "in use by another process" in other.stderr, path
    assert service.push("vgg19.chain")["profile_id"]
    service.stop()
    by_hard.unlink()
    assert service.command("check").returncode == 0


def test_a_full_disk_is_not_ready(make_service, disk):
    """What does not fit is a 503 that says that writing failed, and so is readiness, until there is room again."""
    service = make_service("--store", str(disk / "store.db"))
    assert service.get("/readyz").status == 200
    with open(disk / "fill", "wb", buffering=0) as fill, pytest.raises(OSError, match="No space"):
        while True:
            fill.write(bytes(1024))
    refused = 0
    for i in range(30):
        answer = service.post("/v1/schedules", {"profile": variant(i), "budget": "100%", "wait": 30})
        refused += answer.status == 503
        if answer.status == 503:
            assert "cannot write" in answer.json["detail"] and "the disk is full" in answer.json["detail"], answer.body
        ready = service.get("/readyz")
        assert ready.status == 503 and "cannot write" in ready.json["reasons"][0], ready.body
    assert refused > 0
    (disk / "fill").unlink()
    assert service.get("/readyz").status == 200
    assert service.post("/v1/schedules", {"profile": variant(31), "budget": "100%"}).status == 200
    service.stop()
