"""Several daemons on one PostgreSQL: whoever is asked answers, one solves, and nobody's death loses anything.

REMAT_ROUNDS sets the rounds of kill -9 (10)."""

import http.client
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import BUILD, ROOT, SLOW, Service
from test_durability import variant
from test_security import events
from test_service import big_chain

ROUNDS = int(os.environ.get("REMAT_ROUNDS", "10" if SLOW == 1 else "4"))
LEASE = 3 * (2 if SLOW > 1 else 1)
REMATD = str(BUILD / "server" / "rematd")
LOST = (OSError, ValueError, http.client.HTTPException)


class Database:
    """A throw-away cluster, which lives as long as a pipe to its keeper is open."""

    def __init__(self):
        self.keeper = subprocess.Popen(
            [str(ROOT / "tests" / "with_postgres"), "sh", "-c",
             'echo "$REMAT_TEST_POSTGRES"; echo "$REMAT_TEST_PG_CTL"; cat'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.keeper.stdout.readline().strip()
        self.control_words = self.keeper.stdout.readline().split()
        assert self.url and self.control_words

    def control(self, word, mode="fast"):
        words = ["--mode", mode] if word in ("stop", "restart") else []
        subprocess.run([*self.control_words, *words, word], check=True, stdout=subprocess.DEVNULL, cwd="/")

    def sql(self, text):
        done = subprocess.run(["psql", self.url, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", "SET search_path = remat",
                               "-c", "SET client_min_messages = error", "-c", text],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def standby(self):
        """A replica that streams from this one, and has what was committed before it is said to be."""
        control = next(i for i, word in enumerate(self.control_words) if word.endswith("pg_ctl"))
        folder = pathlib.Path(tempfile.mkdtemp(prefix="remat-standby-", dir="/tmp"))
        shutil.chown(folder, pathlib.Path(self.url.split("host=")[1]).owner())
        words = self.control_words[:control]
        subprocess.run([*words, pathlib.Path(self.control_words[control]).with_name("pg_basebackup"), "-D", folder / "data",
                        "-d", self.url, "--write-recovery-conf", "--checkpoint=fast"], check=True, cwd="/")
        with open(folder / "data" / "postgresql.conf", "a") as file:
            file.write(f"unix_socket_directories = '{folder}'\n")
        other = Database.__new__(Database)
        other.keeper, other.folder = None, folder
        other.url = self.url.split("host=")[0] + f"host={folder}"
        other.control_words = [*words, self.control_words[control], f"--pgdata={folder}/data", f"--log={folder}/log", "--wait", "--silent"]
        other.control("start")
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.sql("SELECT pg_reload_conf()")
        return other

    def close(self):
        if not self.keeper:
            self.control("stop")
            shutil.rmtree(self.folder)
            return
        self.keeper.stdin.close()
        self.keeper.wait(60)


@pytest.fixture(scope="module")
def database():
    without = subprocess.run([REMATD, "check", "--store", "postgresql://127.0.0.1:1/none"], capture_output=True,
                             text=True)
    if "this build has no PostgreSQL" in without.stderr:
        pytest.skip("rematd was built without libpq")
    made = Database()
    yield made
    made.close()


@pytest.fixture
def make_replica(database, tmp_path):
    database.sql("DROP SCHEMA IF EXISTS remat CASCADE")
    made = []

    def make(*arguments, store=database.url):
        folder = tmp_path / f"replica{len(made)}"
        folder.mkdir()
        replica = Service(folder, "--lease-seconds", str(LEASE), *arguments)
        replica.store = store
        made.append(replica)
        return replica.start()

    yield make
    for replica in made:
        if replica.process.poll() is None:
            replica.stop()


def wait_until(what, seconds, poll=0.05):
    deadline = time.monotonic() + seconds * SLOW
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(poll)
    return found


def state_of(replica, job):
    return replica.get(f"/v1/jobs/{job}").json["state"]


def total(replicas, metric):
    return sum(replica.metric(metric) for replica in replicas)


def slow_question(seed=0, n=450 if SLOW == 1 else 250):
    """Some seconds of work for one worker."""
    return {"profile": big_chain(n, seed), "budget": "40%", "solver": "rotor"}


def test_any_replica_answers(make_replica):
    a, b, c = make_replica(), make_replica(), make_replica()
    summary = a.push("resnet50.chain")
    asked = {"profile_id": summary["profile_id"], "budget": "50%", "solver": "rotor"}
    answer = b.post("/v1/schedules", asked)
    assert answer.status == 200 and answer.headers["X-Remat-Cache"] == "miss"
    again = c.post("/v1/schedules", asked)
    assert again.headers["X-Remat-Cache"] == "hit" and again.body == answer.body
    assert a.get(f"/v1/schedules/{answer.json['schedule_id']}").body == answer.body
    other = a.post("/v1/schedules", {**asked, "budget": "45%"})
    assert other.headers["X-Remat-Cache"] == "table"  # b's table
    assert total((a, b, c), "remat_solves_total") == 1
    listed = c.get("/v1/schedules").json["schedules"]
    assert {one["schedule_id"] for one in listed} == {answer.json["schedule_id"], other.json["schedule_id"]}


def test_deletion_reaches_the_memory_of_others(make_replica):
    a, b = make_replica(), make_replica()
    summary = a.push("vgg19.chain")
    asked = {"profile_id": summary["profile_id"], "budget": "70%"}
    schedule = b.post("/v1/schedules", asked).json["schedule_id"]
    assert a.get(f"/v1/schedules/{schedule}").status == 200
    assert b.call("DELETE", f"/v1/profiles/{summary['profile_id']}").status == 204
    wait_until(lambda: a.get(f"/v1/schedules/{schedule}").status == 404, 5)
    assert a.post("/v1/schedules", asked).status == 404


def test_a_burst_is_one_solve(make_replica):
    replicas = [make_replica("--workers", "2") for _ in range(3)]
    asked = json.dumps(slow_question(n=300 if SLOW == 1 else 100)).encode()
    answers = [None] * 200

    def ask(i):
        answers[i] = replicas[i % 3].post("/v1/schedules", asked, check=False, timeout=120)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert total(replicas, "remat_solves_total") == 1
    assert total(replicas, "remat_tabulations_total") == 1


def test_the_jobs_of_a_killed_replica_are_finished(make_replica):
    a, b = make_replica("--workers", "1"), make_replica("--workers", "1")
    jobs = [a.post("/v1/schedules", {**slow_question(seed), "wait": 0}).json["job_id"] for seed in range(2)]
    # The same question asked of the other one waits for the first.
    assert b.post("/v1/schedules", {**slow_question(0), "wait": 0}).status == 202
    assert {state_of(b, job) for job in jobs} <= {"queued", "running"}
    time.sleep(0.3)
    assert total((a, b), "remat_solves_total") == 1
    a.kill()
    begun = time.monotonic()
    wait_until(lambda: b.metric("remat_solves_total") >= 1, LEASE + 5)
    assert time.monotonic() - begun < (LEASE + 5) * SLOW
    for job in jobs:
        wait_until(lambda: state_of(b, job) == "done", 120)
        done = b.get(f"/v1/jobs/{job}").json
        assert b.get(f"/v1/schedules/{done['schedule_id']}").json["verified"]
    assert b.metric("remat_solves_total") == 2


def test_jobs_of_others_are_listed_and_cancelled(make_replica):
    a, b = make_replica("--workers", "1"), make_replica("--workers", "1")
    jobs = [a.post("/v1/schedules", {**slow_question(seed, 600), "wait": 0}).json["job_id"] for seed in range(2)]
    assert set(jobs) <= {job["job_id"] for job in b.get("/v1/jobs").json["jobs"]}
    assert set(jobs) <= {job["job_id"] for job in a.get("/v1/jobs").json["jobs"]}
    for job in jobs:  # the first runs, the second waits
        assert b.call("DELETE", f"/v1/jobs/{job}").status == 200
        wait_until(lambda: state_of(a, job) == "cancelled", 20)
        wait_until(lambda: state_of(b, job) == "cancelled", 5)
    assert b.call("DELETE", f"/v1/jobs/{jobs[0]}").json["state"] == "cancelled"
    assert b.call("DELETE", "/v1/jobs/" + 32 * "0").status == 404


def test_events_of_a_job_of_another_replica(make_replica):
    one, other = make_replica("--workers", "1"), make_replica("--workers", "1")
    job = one.post("/v1/schedules", {**slow_question(seed=9), "wait": 0}).json["job_id"]
    seen = list(events(other, job))  # ends when the job ends there
    assert len(seen) >= 2 and [name for name, _ in seen] == ["progress"] * (len(seen) - 1) + ["end"]
    assert seen[-1][1]["state"] == "done"
    assert other.get(f"/v1/schedules/{seen[-1][1]['schedule_id']}").status == 200


def test_a_stopped_replica_leaves_its_jobs_to_the_others(make_replica):
    a, b = make_replica("--workers", "1", "--stop-seconds", "0"), make_replica()
    job = a.post("/v1/schedules", {**slow_question(), "wait": 0}).json["job_id"]
    a.stop()
    wait_until(lambda: state_of(b, job) == "done", 60)


class Load:
    """Clients that post profiles and ask for schedules of random replicas, and remember what was acknowledged."""

    def __init__(self, replicas, start=0):
        self.replicas, self.draw = replicas, random.Random(17 + start)
        self.acknowledged, self.jobs, self.refused, self.i = {}, set(), 0, start
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(4)]
        for thread in self.threads:
            thread.start()

    def once(self):
        with self.lock:
            self.i += 1
            i, percent = self.i, self.draw.randint(80, 100)
            one, other = self.draw.choice(self.replicas), self.draw.choice(self.replicas)
        posted = one.post("/v1/profiles", variant(i), check=False)
        if posted.status != 201:
            raise ValueError(posted.status)
        with self.lock:
            self.acknowledged[f"/v1/profiles/{posted.json['profile_id']}"] = None
        asked = other.post("/v1/schedules", {"profile_id": posted.json["profile_id"], "budget": f"{percent}%",
                                             "wait": 0 if i % 3 else 30}, check=False)
        with self.lock:
            if asked.status == 200:
                self.acknowledged[f"/v1/schedules/{asked.json['schedule_id']}"] = asked.body
            elif asked.status == 202:
                self.jobs.add(asked.json["job_id"])
            else:
                raise ValueError(asked.status)

    def run(self):
        while not self.stopping.is_set():
            try:
                self.once()
            except LOST:
                with self.lock:
                    self.refused += 1
                time.sleep(0.02)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def check(self, replica, last=None):
        """Every answer is there, byte for byte, and every job ends well."""
        for path, body in list(self.acknowledged.items())[-(last or len(self.acknowledged)):]:
            answer = replica.get(path, check=False)
            assert answer.status == 200, f"{path} is lost: {answer.body}"
            assert body is None or answer.body == body
        for job in self.jobs:
            wait_until(lambda: state_of(replica, job) not in ("queued", "running"), 60)
            done = replica.get(f"/v1/jobs/{job}").json
            assert done["state"] == "done", done
            assert replica.get(f"/v1/schedules/{done['schedule_id']}").json["verified"]


def test_database_restarts_under_load(make_replica, database):
    replicas = [make_replica(), make_replica()]
    load = Load(replicas)
    time.sleep(1)
    database.control("stop")
    for replica in replicas:
        not_ready = wait_until(lambda: (r := replica.get("/readyz")).status == 503 and r, 10)
        assert "cannot" in not_ready.json["reasons"][0] and "secret" not in not_ready.body.decode()
        assert replica.get("/healthz").status == 200
    time.sleep(0.5)
    database.control("start")
    for replica in replicas:
        wait_until(lambda: replica.get("/readyz").status == 200, 10)
    time.sleep(1)
    database.control("restart")
    time.sleep(1)
    wait_until(lambda: load.refused > 0 and len(load.acknowledged) > 20 and load.jobs, 60)
    load.stop()
    load.check(replicas[0])
    load.check(replicas[1])
    lines = [line for replica in replicas for line in replica.log_lines()]
    assert any("trying again" in line.get("text", "") for line in lines)
    assert any("again" in line.get("text", "") and "connected" in line.get("text", "") for line in lines)


def test_failover_to_a_standby(make_replica, database):
    """The first database dies for good, its standby is promoted: the daemons, which name both, find it by themselves."""
    standby = database.standby()
    both = f"{database.url},{standby.folder}&target_session_attrs=read-write"
    try:
        replicas = [make_replica(store=both), make_replica(store=both)]
        load = Load(replicas)
        wait_until(lambda: len(load.acknowledged) > 20 and load.jobs, 60)
        database.control("stop", "immediate")
        for replica in replicas:
            wait_until(lambda: replica.get("/readyz").status == 503, 10)
            assert replica.get("/healthz").status == 200
        before = len(load.acknowledged)
        standby.control("promote")
        for replica in replicas:
            wait_until(lambda: replica.get("/readyz").status == 200, 10)
        wait_until(lambda: len(load.acknowledged) > before + 20, 60)
        load.stop()
        for replica in replicas:
            load.check(replica)
        checked = replicas[0].command("check")
        assert checked.returncode == 0, checked.stderr
        for replica in replicas:
            replica.stop()
    finally:
        standby.close()
        subprocess.run([*database.control_words, "--mode=immediate", "stop"], cwd="/", capture_output=True)
        with open(pathlib.Path(database.url.split("host=")[1]) / "data" / "postgresql.auto.conf", "w"):
            pass
        database.control("start")


def test_database_away(make_replica, database):
    """What memory holds is served on; all else is 503 and says when to come again, and never 500."""
    replica = make_replica()
    known = replica.push("vgg19.chain")["profile_id"]
    question = {"profile_id": known, "budget": "80%", "solver": "rotor"}
    asked = replica.post("/v1/schedules", question)
    path = f"/v1/schedules/{asked.json['schedule_id']}"
    database.control("stop")
    try:
        for _ in range(3):
            assert replica.get(path).body == asked.body
            assert replica.post("/v1/schedules", question).body == asked.body
            same = replica.post("/v1/schedules", dict(question, wait=5))  # the same question in other words
            assert same.status == 200 and same.body == asked.body
            for method, where, body in (("POST", "/v1/profiles", big_chain(7)), ("GET", "/v1/profiles", None),
                                        ("GET", f"/v1/profiles/{'0' * 64}", None), ("DELETE", f"/v1/profiles/{known}", None),
                                        ("GET", f"/v1/schedules/{'0' * 64}", None), ("GET", f"/v1/jobs/{'0' * 32}", None),
                                        ("POST", "/v1/schedules", dict(question, profile_id="0" * 64)),
                                        ("POST", "/v1/schedules", dict(question, budget="85%")),
                                        ("POST", "/v1/tradeoffs", {"profile_id": known, "points": 5, "solver": "pofo",
                                                                   "link": {"bytes_per_time_unit": 900}})):
                answer = replica.call(method, where, body)
                assert answer.status == 503 and int(answer.headers["Retry-After"]) > 0, (method, where, answer.body)
                assert answer.json["type"] == "/problems/storage-away"
    finally:
        database.control("start")
    wait_until(lambda: replica.get("/readyz").status == 200, 10)
    assert replica.get(path).body == asked.body
    assert replica.post("/v1/profiles", big_chain(7)).status == 201


def test_kill_nine_loses_nothing_acknowledged(make_replica):
    replicas = [make_replica() for _ in range(3)]
    draw = random.Random(5)
    everything, jobs = {}, set()
    start = 0
    for round in range(ROUNDS):
        load = Load(replicas, start)
        time.sleep(draw.uniform(0.05, 0.5) * SLOW)
        victim = draw.choice(replicas)
        victim.kill()
        time.sleep(draw.uniform(0, 0.2))
        load.stop()
        start = load.i
        victim.start()
        load.check(draw.choice(replicas), last=60)
        everything.update(load.acknowledged)
        jobs |= load.jobs
    load.acknowledged, load.jobs = everything, jobs
    load.check(replicas[0])
    assert len(everything) > 5 * ROUNDS and jobs
    print(f"{ROUNDS} rounds: {len(everything)} acknowledged answers and {len(jobs)} jobs, all there")
    checked = replicas[0].command("check")
    assert checked.returncode == 0, checked.stderr
    assert not [line for replica in replicas for line in replica.log_lines() if line["level"] == "error"]


def test_commands(make_replica, database, tmp_path):
    def run(*words):
        return subprocess.run([REMATD, *words, "--store", database.url], capture_output=True, text=True)

    before = run("check")
    assert before.returncode == 1 and "no remat store" in before.stderr
    migrated = run("migrate")
    assert migrated.returncode == 0 and "schema version 1" in migrated.stdout
    replica = make_replica()
    summary = replica.push("resnet50.chain")
    schedule = replica.post("/v1/schedules", {"profile_id": summary["profile_id"], "budget": "50%",
                                              "solver": "rotor"}).json["schedule_id"]
    assert run("check").stdout.count("is sound: 1 profiles, 1 schedules, 1 tables") == 1
    kept = int(database.sql("SELECT sum(length(data)) - 1 FROM blobs")[-1])
    pruned = run("prune", "--keep-bytes", str(kept))
    assert pruned.returncode == 0 and "dropped 1 tables, 0 schedules, 0 profiles" in pruned.stdout
    assert run("prune").returncode == 2
    assert run("prune", "--keep-bytes", "many").returncode == 1
    copy = run("backup", str(tmp_path / "copy"))
    assert copy.returncode == 1 and "pg_dump --format=custom --schema=remat" in copy.stderr
    assert run("--check-config").stdout.count("store = postgresql://remat@") == 1
    assert "dropped 0 tables, 1 schedules, 1 profiles" in run("prune", "--keep-bytes", "0").stdout
    replica.kill()
    replica.start()
    assert replica.get(f"/v1/schedules/{schedule}").status == 404
    log = b"".join(path.read_bytes() for path in replica.logs)
    for text in (before.stderr, migrated.stdout, pruned.stdout, copy.stderr, run("--check-config").stdout, log.decode()):
        assert "secret" not in text
