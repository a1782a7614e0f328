"""What a job tells while it is searched: how much of the search is done, and what is found so far."""

import http.client
import json
import time

import pytest

from conftest import SLOW, profile


def events(service, job):
    """(seconds, the job) of each event until the end."""
    connection, start = http.client.HTTPConnection("127.0.0.1", service.port, timeout=300 * SLOW), time.monotonic()
    connection.request("GET", f"/v1/jobs/{job}/events")
    seen = [(time.monotonic() - start, json.loads(line[5:])) for line in connection.getresponse() if line.startswith(b"data:")]
    connection.close()
    return seen


@pytest.mark.skipif(SLOW > 1, reason="the shares of time are a release build's")
def test_progress_is_true(make_service):
    """Never back, the last 2 % no longer than the first 98, and the best makespan and the bound come while it searches and stay true."""
    service = make_service()
    known = service.push("vgg19.flops")["profile_id"]
    asked = service.post("/v1/schedules", {"profile_id": known, "budget": "50%", "effort": "thorough", "wait": 0})
    assert asked.status == 202
    seen = events(service, asked.json["job_id"])
    told = [job["progress"] for _, job in seen]
    assert told == sorted(told) and told[-1] == 1 and len({value for value in told if 0.1 < value < 0.98}) >= 5, told
    assert all(later - earlier < 0.3 for earlier, later in zip(told, told[1:-1]))
    reached = next(seconds for seconds, job in seen if job["progress"] >= 0.98)
    assert seen[-1][0] - reached <= reached
    answer = service.get(f"/v1/schedules/{seen[-1][1]['schedule_id']}").json
    early = [job for seconds, job in seen if seconds < seen[-1][0] / 2]
    assert early[-1]["best_makespan"] >= answer["makespan"] * (1 - 1e-9) and early[-1]["lower_bound"] <= answer["lower_bound"] * (1 + 1e-9)
    best = [job["best_makespan"] for _, job in seen if "best_makespan" in job]
    assert best == sorted(best, reverse=True) and best[-1] == pytest.approx(answer["makespan"], rel=1e-9)


def test_nothing_found_is_not_told(rematd):
    """Of a budget that nothing fits, and of a curve."""
    document = profile("gpt.cpu.chain")
    body = {"profile": document, "budget": "0.1%", "wait": 30 * SLOW}
    assert rematd.post("/v1/schedules", body).status == 422
    rematd.post("/v1/tradeoffs", {"profile": document, "points": 3, "wait": 30 * SLOW})
    jobs = rematd.get("/v1/jobs").json["jobs"]
    assert len(jobs) >= 2 and not any("best_makespan" in job for job in jobs)
