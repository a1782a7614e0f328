"""Whatever a crash left in the store, tables above all, each answer after it is that of an empty store, byte for byte but
for the times of its making. Half of the crashes are kill -9, half also take the store: of SQLite a power failure undoes
some of the writes that were not flushed, PostgreSQL dies in the same moment."""

import collections
import http.client
import os
import random
import re
import subprocess
import threading
import time

import pytest

from conftest import ROOT, SLOW, Service
from test_fleet import database  # noqa: F401
from test_service import big_chain

ROUNDS = 500 if os.environ.get("REMAT_LONG") else 8
ROUNDS_OF_A_STORE = 4
QUESTIONS = [("/v1/schedules", {"profile": big_chain(n, n), "budget": f"{budget}%", **more})
             for n in (12, 25) for budget in (55, 70, 85) for more in ({"solver": "rotor"}, {"solver": "auto"})]
QUESTIONS += [("/v1/tradeoffs", {"profile": big_chain(n, n), "solver": "rotor", "points": 5}) for n in (12, 25)]

pytestmark = pytest.mark.skipif(SLOW > 1, reason="sanitizers want to be the first library")


def but_for_times(body):
    return re.sub(rb'"created":"[^"]*"|"solve_seconds":[-+.e0-9]+', b"", body)


def ask(service, i):
    return service.post(*QUESTIONS[i])


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The answer to each question of a daemon whose store is empty."""
    answers = []
    for i in range(len(QUESTIONS)):
        service = Service(tmp_path_factory.mktemp("reference")).start()
        answer = ask(service, i)
        assert answer.status == 200 and answer.headers.get("X-Remat-Cache", "miss") == "miss", answer.body
        answers.append(but_for_times(answer.body))
        service.stop()
    return answers


def undo_unflushed(journal, folder, draw):
    """What the power's failure takes: any of the writes after the last flush of their file. How many there were."""
    unflushed, data, at = collections.defaultdict(list), journal.read_bytes(), 0
    while (end := data.find(b"\n", at)) >= 0:
        kind, offset, size, path = data[at:end].split(b" ", 3)
        at = end + 1 + int(size)
        if kind == b"S":
            unflushed[path].clear()
        elif path.startswith(os.fsencode(folder)) and at <= len(data):
            unflushed[path].append((int(offset), data[end + 1:at]))
    share = draw.choice([0.3, 0.7, 1])
    for path, writes in unflushed.items():
        if os.path.isfile(path):
            with open(path, "r+b") as file:
                for offset, covered in reversed(writes):
                    if draw.random() < share:
                        file.seek(offset)
                        file.write(covered)
    journal.unlink()
    return sum(map(len, unflushed.values()))


class SqliteStores:
    """New ones, one after the other, and what a failure of the power does to the last."""

    def __init__(self, folder):
        self.folder, self.journal = folder, folder / "journal"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", folder / "power.so",
                        ROOT / "tests" / "fault" / "preload_power.c"], check=True)

    def service(self, number):
        self.store = self.folder / f"store{number}"
        self.store.mkdir()
        self.journal.unlink(missing_ok=True)
        return Service(self.store, env={"LD_PRELOAD": str(self.folder / "power.so"), "REMAT_POWER_JOURNAL": str(self.journal)})

    def fail(self, service, draw):
        undone = undo_unflushed(self.journal, self.store, draw)
        service.store.with_name(service.store.name + "-shm").unlink(missing_ok=True)
        return undone


class PostgresStores:
    def __init__(self, folder, cluster):
        self.folder, self.cluster = folder, cluster

    def service(self, number):
        self.cluster.sql("DROP SCHEMA IF EXISTS remat CASCADE")
        folder = self.folder / f"store{number}"
        folder.mkdir()
        service = Service(folder, "--lease-seconds", "2")
        service.store = self.cluster.url
        return service

    def fail(self, service, draw):
        self.cluster.control("stop", "immediate")
        self.cluster.control("start")
        return 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_answers_after_crashes_are_those_of_an_empty_store(reference, tmp_path, kind, request):
    stores = SqliteStores(tmp_path) if kind == "sqlite" else PostgresStores(tmp_path, request.getfixturevalue("database"))
    seed = time.time_ns()
    print("seed", seed)
    draw, caches, undone = random.Random(seed), collections.Counter(), 0

    def compare(i):
        answer = ask(service, i)
        assert answer.status == 200, answer.body
        assert but_for_times(answer.body) == reference[i], (seed, i)
        caches[answer.headers.get("X-Remat-Cache")] += 1

    def client(draw):
        while True:
            try:
                compare(draw.randrange(len(QUESTIONS)))
            except (OSError, http.client.HTTPException):
                return  # the crash
            except AssertionError as failure:
                wrong.append(failure)
                return

    wrong, service = [], None
    try:
        for crash in range(ROUNDS):
            if crash % ROUNDS_OF_A_STORE == 0:
                if service:
                    service.stop()
                    assert service.command("check").returncode == 0
                service = stores.service(crash).start()
            threads = [threading.Thread(target=client, args=(random.Random(draw.random()),)) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(draw.uniform(0, 0.25))
            service.kill()
            for thread in threads:
                thread.join()
            assert not wrong, wrong[0]
            if draw.random() < 0.5:
                undone += stores.fail(service, draw)
            service.start()
            for i in draw.sample(range(len(QUESTIONS)), 6 if crash % ROUNDS_OF_A_STORE < 3 else len(QUESTIONS)):
                compare(i)
        service.stop()
    finally:
        if service:
            service.process.kill()
    print(dict(caches), undone, "writes undone, or deaths of the database")
    assert caches["miss"] and caches["hit"] and caches["table"]
