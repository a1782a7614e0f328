"""An answer is a function of its question alone: REMAT_HISTORY questions (default 500) in three random orders, with
restarts, tables pruned in between, other numbers of workers and several questions at a time give the same bytes, but for
the two that say when an answer was made and how long that took."""

import concurrent.futures
import os
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from conftest import ROOT, make_service, profile  # noqa: E402,F401

COUNT = int(os.environ.get("REMAT_HISTORY", 500))
MADE = re.compile(rb'"(?:created|solve_seconds)":("[^"]*"|[-+.e0-9]+),?')
SLOTS = [0, 0, 0, 100, 500]


def drawn(draw, names, solvers):
    """A question: a profile by name, and the rest of a request for a schedule, or, one of ten, for a trade-off."""
    question = {"wait": 600, "solver": draw.choice(["auto"] * len(solvers) + solvers)}
    if question["solver"] in ("rotor", "pofo"):
        question["options"] = {"slots": draw.choice(SLOTS)}
    if question["solver"] == "pofo" or draw.random() < 0.1:
        question["link"] = draw.choice(["pcie3-x16", {"to_host": "12GB/s", "to_device": "12GB/s", "shared": True}])
    name = draw.choice(names)
    if draw.random() < 0.1:
        return name, "/v1/tradeoffs", {**question, "points": draw.choice([5, 10])}
    return name, "/v1/schedules", {**question, "budget": f"{draw.randint(20, 100)}%", "layout": draw.random() < 0.3,
                                   **({"effort": "thorough"} if draw.random() < 0.05 else {})}


def answered(service, questions, order, draw, disturb):
    """The status and body of every question. What is disturbed between them is the service's memory, never its word."""
    bodies, ids = {}, {name: service.push(name)["profile_id"] for name in {name for name, _, _ in questions}}

    def ask(number):
        name, path, question = questions[number]
        answer = service.post(path, {**question, "profile_id": ids[name]}, check=False, timeout=700)
        assert answer.status in (200, 400, 413, 422), (questions[number], answer.status, answer.body[:500])
        bodies[number] = answer.status, MADE.sub(b"", answer.body)

    at = 0
    with concurrent.futures.ThreadPoolExecutor(4) as several:
        while at < len(order):
            batch = order[at:at + draw.randint(1, 12)]
            list(several.map(ask, batch))
            at += len(batch)
            if disturb and draw.random() < 0.2:
                service.stop()
                if draw.random() < 0.5:
                    tables = draw.choice([1, 200000])  # every table, or most of them; profiles and schedules of late
                    assert service.command("prune", "--keep-bytes", str(tables)).returncode == 0
                service.start()
                for name in ids:
                    service.push(name)
    return bodies


def test_answers_do_not_depend_on_history(make_service):  # noqa: F811
    draw = random.Random(19)
    first = make_service("--workers", "2")
    solvers = [s["name"] for s in first.get("/v1/solvers").json["solvers"] if s["name"] != "auto"]
    names = sorted(path.stem for path in (ROOT / "clients" / "profiles").glob("*.json"))
    questions = [drawn(draw, names, solvers) for _ in range(COUNT)]
    services = [first, make_service("--workers", "1"), make_service("--workers", "3", "--cache-bytes", "1MiB")]
    told = []
    for service, disturb in zip(services, (False, True, True)):
        order = list(range(COUNT))
        draw.shuffle(order)
        told.append(answered(service, questions, order, draw, disturb))
    differing = [(questions[n], *(bodies[n] for bodies in told)) for n in range(COUNT)
                 if len({bodies[n] for bodies in told}) > 1]
    served = sum(status == 200 for status, _ in told[0].values())
    print(f"{served} of {COUNT} served, {len(differing)} differ")
    assert served > COUNT / 3
    assert not differing, str(differing[0])[:5000]
