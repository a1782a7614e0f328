"""What attackers tried: little that costs much, other people's origins, framing that two readers take for two
things, connections that are never finished. Memory is that of the process, measured."""

import gzip
import http.client
import json
import socket
import threading
import time

import pytest

from conftest import SLOW, profile
from test_service import big_chain

MIB = 1 << 20


def rss(service):
    """Bytes of memory that the daemon has now."""
    with open(f"/proc/{service.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


class Watch:
    """The most memory that the daemon had while this was open."""

    def __init__(self, service):
        self.service, self.most, self.over = service, 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.is_set():
            self.most = max(self.most, rss(self.service))
            self.over.wait(0.005)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def falls_back(service, start, seconds=20):
    """Whether the memory is within 64 MiB of what it was."""
    deadline = time.monotonic() + seconds * SLOW
    while time.monotonic() < deadline:
        if rss(service) < start + 64 * MIB:
            return True
        time.sleep(0.2)
    return False


def in_parallel(tasks):
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def filled(before, unit, after, size=63 * MIB):
    return (before + unit * ((size - len(before) - len(after)) // len(unit)))[:-1] + after


BOMBS = {
    "nodes": (b'{"format":"remat-profile/1","name":"n","nodes":[', b"{},", b"]}"),
    "arrays": (b'{"format":"remat-profile/1","name":[', b"[],", b"]}"),
    "numbers": (b'{"format":[', b"1,", b"]}"),
    "one string": (b'{"format":"', b"aaaaaaaa", b'"}'),
    "inputs": (b'{"format":"remat-profile/1","name":"n","inputs":[', b'{"id":"x","bytes":1},', b"]}"),
    "objects in objects": (b'{"format":[', b'{"a":{"b":{}}},', b"]}"),
    "numbers that fit": (b'{"format":[', b"1,", b"]}", 7 * MIB // 2),
    "nodes that fit": (b'{"format":"remat-profile/1","name":"n","nodes":[', b"{},", b"]}", MIB // 2),
    "escaped": (b'{"format":"remat-profile/1","name":"n","nod\\u0065s":[', b"{},", b"]}"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_body_costs_little(make_service, name):
    """64 MiB decoded out of 64 KiB, four at a time: memory stays within its budget and comes back, and a light
    request is answered meanwhile."""
    service = make_service("--memory-limit", "64MiB")
    bomb = gzip.compress(filled(*BOMBS[name]), 9)
    start, statuses, slowest = rss(service), [], [0.0]

    def post():
        statuses.append(service.post("/v1/profiles", bomb, headers={"Content-Encoding": "gzip"}).status)

    def look():
        while len(statuses) < 4:
            before = time.monotonic()
            assert service.get("/readyz").status == 200
            slowest[0] = max(slowest[0], time.monotonic() - before)
            time.sleep(0.02)

    with Watch(service) as watch:
        in_parallel([post] * 4 + [look])
    print(f"{name}: {statuses}, at most {(watch.most - start) / MIB:.0f} MiB more, waited {slowest[0]:.2f} s")
    assert set(statuses) <= {400, 413, 503} and len(statuses) == 4, statuses
    if SLOW == 1:  # a sanitizer's allocator keeps what is freed
        assert watch.most < start + (64 + 256) * MIB, watch.most
        assert falls_back(service, start), rss(service) - start
    assert slowest[0] < 2 * SLOW
    assert service.push("vgg19.chain")["profile_id"]


def test_unfinished_uploads_hold_little(make_service):
    """Forty of them, 60 MiB each, that never end: others are still served, small bodies too."""
    service = make_service("--memory-limit", "64MiB", "--receive-seconds", "2", "--idle-seconds", "2")
    start, piece, open_ones = rss(service), b" " * MIB, []

    def upload():
        raw = socket.create_connection(("127.0.0.1", service.port))
        open_ones.append(raw)
        raw.sendall(b"POST /v1/profiles HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 63000000\r\n\r\n")
        try:
            for _ in range(59):
                raw.sendall(piece)
        except OSError:
            pass

    with Watch(service) as watch:
        in_parallel([upload] * 40)
        assert service.push("vgg19.chain")["profile_id"]
        assert service.get("/healthz").status == 200
    for raw in open_ones:
        raw.close()
    if SLOW == 1:
        assert watch.most < start + (64 + 256) * MIB, watch.most
        assert falls_back(service, start), rss(service) - start
    assert service.post("/v1/profiles", big_chain(2000)).status == 201  # of some 300 KB: there is room again


def test_a_full_budget_is_503(make_service):
    """Two large bodies that fit one by one, but not together: the other is told to come again."""
    service = make_service("--body-memory", "24MiB")
    body = json.dumps(big_chain(4000)).encode()
    assert service.post("/v1/profiles", body).status == 201
    answers = []
    in_parallel([lambda: answers.append(service.post("/v1/profiles", body))] * 12)
    assert {a.status for a in answers} <= {200, 503} and len(answers) == 12
    assert all(int(a.headers["Retry-After"]) > 0 for a in answers if a.status == 503)
    too_large = service.post("/v1/profiles", big_chain(30000))
    assert too_large.status == 413 and str(24 * MIB) in too_large.json["detail"]
    assert service.post("/v1/profiles", body).status == 200


def test_bodies_by_route(make_service, rematd):
    """Where no profile fits, 1 MiB is the limit, also decoded."""
    padding = b" " * (2 * MIB)
    for path in ("/v1/snapshots", f"/v1/schedules/{'0' * 64}/measurements"):
        for body, headers in ((b"{}" + padding, {}), (gzip.compress(b"{}" + padding), {"Content-Encoding": "gzip"})):
            assert rematd.post(path, body, headers=headers).status == 413
    good = json.dumps(profile("vgg19.chain")).encode()
    assert rematd.post("/v1/profiles", good + padding).status in (200, 201)
