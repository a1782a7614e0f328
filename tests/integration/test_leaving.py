"""Clients that hang up while they wait: their connection, their wait and their place are given back within a second."""

import json
import socket
import ssl
import subprocess
import time

import pytest

from conftest import BUILD, SLOW
from test_security import certificate
from test_service import big_chain

LONG = {"solver": "rotor", "options": {"slots": 3000}, "budget": "50%"}  # minutes of work


def connect(service, trust=None):
    raw = socket.create_connection(("127.0.0.1", service.port), timeout=30 * SLOW)
    return raw if trust is None else ssl.create_default_context(cafile=str(trust)).wrap_socket(raw, server_hostname="127.0.0.1")


def head(method, path, body=b"", more=""):
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def answer(service, trust, path, method="GET", body=b""):
    """(status, what came) of a request on a connection of its own."""
    with connect(service, trust) as one:
        one.sendall(head(method, path, body, more="Connection: close\r\n"))
        came = b""
        while piece := one.recv(65536):
            came += piece
    return int(came[9:12]), came.split(b"\r\n\r\n", 1)[1]


def metric(service, trust, name):
    text = answer(service, trust, "/metrics")[1].decode()
    return next(float(line.split(" ")[1]) for line in text.splitlines() if line.startswith(name + " "))


def settles(service, trust, name, value):
    """Seconds until the metric has that value; fails after one (ten times that in a slow build)."""
    start = time.monotonic()
    while metric(service, trust, name) != value:
        assert time.monotonic() - start < 1 * SLOW, (name, metric(service, trust, name))
        time.sleep(0.02)


@pytest.fixture(params=["plain", "tls"])
def served(request, make_service, tmp_path):
    if request.param == "plain":
        return make_service("--workers", "1", "--stop-seconds", "0"), None
    cert, key = certificate(tmp_path, "one")
    return make_service("--workers", "1", "--stop-seconds", "0", "--tls-cert", str(cert), "--tls-key", str(key)), cert


def jobs(service, trust):
    return json.loads(answer(service, trust, "/v1/jobs")[1])["jobs"]


def test_a_waiting_asker_hangs_up(served):
    """Forty that wait for an answer close their end: no connection of theirs is left, and nobody asks for their job."""
    service, trust = served
    body = json.dumps({"profile": big_chain(400), "wait": 600, **LONG}).encode()
    waiting = [connect(service, trust) for _ in range(40)]
    for one in waiting:
        one.sendall(head("POST", "/v1/schedules", body))
    deadline = time.monotonic() + 30 * SLOW
    while not (known := jobs(service, trust)) or known[0].get("asked") != 40:
        assert time.monotonic() < deadline, known
        time.sleep(0.05)
    assert metric(service, trust, "remat_connections") == 41
    for one in waiting[1:]:
        one.close()
    settles(service, trust, "remat_connections", 2)
    assert jobs(service, trust)[0]["asked"] == 1
    waiting[0].close()
    settles(service, trust, "remat_connections", 1)
    assert "asked" not in jobs(service, trust)[0]


def test_a_reader_of_events_hangs_up(served):
    service, trust = served
    body = json.dumps({"profile": big_chain(400), "wait": 0, **LONG}).encode()
    job = json.loads(answer(service, trust, "/v1/schedules", "POST", body)[1])["job_id"]
    readers = [connect(service, trust) for _ in range(20)]
    for one in readers:
        one.sendall(head("GET", f"/v1/jobs/{job}/events"))
        came = b""
        while b"event: progress" not in came:
            assert (piece := one.recv(65536)), came
            came += piece
    assert metric(service, trust, "remat_connections") == 21
    for one in readers:
        one.close()
    settles(service, trust, "remat_connections", 1)


def test_who_left_makes_nobody_wait(make_service):
    """Of two jobs that wait, the one whose askers have gone runs last, though it is the cheaper."""
    service = make_service("--workers", "1", "--stop-seconds", "0")
    bodies = [{"profile": big_chain(n, n), "solver": "rotor", "budget": "50%", "wait": 0} for n in (450, 420, 440)]
    ids = []
    with connect(service) as left:
        for body in bodies:
            if body is bodies[1]:
                left.sendall(head("POST", "/v1/schedules", json.dumps({**body, "wait": 600}).encode()))
                while len(found := {job["job_id"] for job in jobs(service, None)} - set(ids)) < 1:
                    time.sleep(0.02)
                ids += found
            else:
                ids.append(service.post("/v1/schedules", body).json["job_id"])
        places = [service.get(f"/v1/jobs/{job}").json["queue_position"] for job in ids]
        assert places[1] < places[2], places
    settles(service, None, "remat_connections", 1)
    places = [service.get(f"/v1/jobs/{job}").json["queue_position"] for job in ids]
    assert places[1] > places[2], places
    assert service.post("/v1/schedules", bodies[1]).json["job_id"] == ids[1]  # wanted again: its place is what it was
    places = [service.get(f"/v1/jobs/{job}").json["queue_position"] for job in ids]
    assert places[1] < places[2], places


def test_an_early_refusal_is_read_to_its_end(make_service):
    """A body is sent in vain: the answer comes though the client reads it last."""
    service = make_service("--max-body", "64KiB")
    for path, kind, status in (("/v1/none", "application/json", 404), ("/v1/profiles", "text/html", 415),
                               ("/v1/profiles", "application/json", 413)):
        with connect(service) as one:
            one.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 200000\r\n\r\n".encode())
            for _ in range(20):
                one.sendall(b" " * 10000)
                time.sleep(0.005)
            came = b""
            while piece := one.recv(65536):
                came += piece
        assert came.startswith(f"HTTP/1.1 {status} ".encode()) and b"Connection: close" in came, came


def test_the_packages_are_those_that_were_chosen():
    linked = subprocess.run(["ldd", str(BUILD / "server" / "rematd")], capture_output=True, text=True, check=True).stdout
    for library in ("libmicrohttpd.so", "libjansson.so", "libsqlite3.so", "libuv.so"):
        assert library in linked, linked


def test_taking_back_again_changes_nothing(make_service):
    """A DELETE that is sent twice, as after a lost answer, takes back once: not what another of the same client asked."""
    service = make_service("--workers", "1", "--stop-seconds", "0")
    body = {"profile": big_chain(400), "wait": 0, **LONG}

    def ask(name):
        return service.post("/v1/schedules", body, headers={"X-Request-Id": name}).json["job_id"]

    def take_back(job, name):
        return service.call("DELETE", f"/v1/jobs/{job}", headers={"X-Request-Id": name})

    def asked(job):
        return service.get(f"/v1/jobs/{job}").json.get("asked", 0)

    job, again = ask("first"), ask("second")
    assert job == again and asked(job) == 2
    for _ in range(3):
        assert take_back(job, "first").status == 200 and asked(job) == 1
    assert ask("first") == job and asked(job) == 2  # asks anew, and takes that back too
    for _ in range(2):
        assert take_back(job, "first").status == 200 and asked(job) == 1
    with connect(service) as gone:  # who hangs up has taken back
        gone.sendall(head("POST", "/v1/schedules", json.dumps({**body, "wait": 600}).encode(), "X-Request-Id: third\r\n"))
        while asked(job) != 2:
            time.sleep(0.02)
    deadline = time.monotonic() + 20 * SLOW
    while asked(job) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert take_back(job, "third").status == 200 and asked(job) == 1
    with connect(service) as waits:  # who takes back what waits is told there, and not when the job has ended for the others
        waits.settimeout(20 * SLOW)
        waits.sendall(head("POST", "/v1/schedules", json.dumps({**body, "wait": 600}).encode(), "X-Request-Id: fourth\r\n"))
        while asked(job) != 2:
            time.sleep(0.02)
        assert take_back(job, "fourth").status == 200 and asked(job) == 1
        assert b"the job was taken back" in waits.recv(65536)
    assert take_back(job, "second").status == 200
    while service.get(f"/v1/jobs/{job}").json["state"] != "cancelled":
        assert time.monotonic() < deadline
        time.sleep(0.02)
