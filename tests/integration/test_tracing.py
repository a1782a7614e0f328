"""W3C traceparent: from the request to the log, through a job and a restart."""

import time

import pytest

from conftest import SLOW
from test_service import big_chain

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def lines(service, message, **members):
    return [line for line in service.log_lines() if line["message"] == message and all(line.get(k) == v for k, v in members.items())]


def until(found):
    deadline = time.monotonic() + 30 * SLOW
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("given", "kept"), [
    (PARENT, PARENT), ("cc" + PARENT[2:] + "-what-comes-later", "cc" + PARENT[2:]), ("cc" + PARENT[2:], "cc" + PARENT[2:]),
    ("", None), (PARENT[:-1], None), (PARENT + "0", None), (PARENT + "-x", None), (PARENT.upper(), None), ("ff" + PARENT[2:], None),
    ("00-" + "0" * 32 + PARENT[35:], None), (PARENT[:36] + "0" * 16 + "-01", None), (PARENT.replace("-", "_"), None), ("x" * 4000, None)])
def test_what_is_taken(rematd, given, kept):
    name = f"r{abs(hash(given))}"
    assert rematd.get("/v1/solvers", headers={"traceparent": given, "X-Request-Id": name}).status == 200
    until(lambda: lines(rematd, "request", request_id=name))
    assert lines(rematd, "request", request_id=name)[0].get("traceparent") == kept


def test_a_job_keeps_it_over_a_restart(make_service):
    service = make_service("--workers", "1")
    asked = service.post("/v1/schedules", {"profile": big_chain(300), "budget": "50%", "solver": "rotor", "options": {"slots": 3000},
                                           "wait": 0}, headers={"traceparent": PARENT})
    assert asked.status == 202
    job = asked.json["job_id"]
    service.kill()
    service.start()
    assert service.call("DELETE", f"/v1/jobs/{job}").status in (200, 202, 204)
    until(lambda: lines(service, "job", job_id=job))
    assert lines(service, "job", job_id=job)[0]["traceparent"] == PARENT
