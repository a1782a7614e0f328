"""POST /v1/layouts and remat layout: addresses for buffers of any origin."""

import csv
import json
import random
import time
from fractions import Fraction

import pytest

from conftest import ROOT, SLOW
from test_cli import INPUT, NO, USAGE, answer, problem, remat
from test_leaving import connect, head, metric, settles

INSTANCES = ROOT / "tests" / "data" / "layout"


def overlaps(buffers, layout):
    """Pairs that share bytes while both are alive, and what is not aligned or not within the arena."""
    placed = [(b["lower"], b["upper"], at, at + b["size"]) for b, at in zip(buffers, layout["offsets"], strict=True)]
    assert all(end <= layout["arena"] and at % layout["alignment"] == 0 for _, _, at, end in placed)
    assert not placed or max(end for *_, end in placed) == layout["arena"]
    return [(i, k) for i, a in enumerate(placed) for k, b in enumerate(placed[:i])
            if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]]


def most_alive(buffers):
    return max((sum(b["size"] for b in buffers if b["lower"] <= a["lower"] < b["upper"]) for a in buffers), default=0)


def read(name):
    with open(INSTANCES / name, encoding="utf-8") as file:
        return [{"id": r["id"], **{k: int(r[k]) for k in ("lower", "upper", "size")}} for r in csv.DictReader(file)]


def test_random_buffers_in_any_order(rematd):
    draw = random.Random(37)
    for trial in range(60):
        buffers = []
        for _ in range(draw.randrange(40)):
            lower = draw.choice([draw.randrange(-20, 20), draw.random() * 20])
            buffers.append({"lower": lower, "upper": lower + draw.choice([1, 0.25, 7]), "size": draw.randrange(1, 999)})
        body = {"buffers": buffers, "alignment": draw.choice([1, 1, 64])}
        if trial % 2:
            body["capacity"] = draw.randrange(3000)
        layout = rematd.post("/v1/layouts", body).json
        assert not overlaps(buffers, layout)
        assert layout["arena"] >= layout["lower_bound_bytes"] >= most_alive(buffers)
        assert layout["optimal"] == (layout["arena"] == layout["lower_bound_bytes"])
        assert body["alignment"] > 1 or layout["lower_bound_bytes"] == most_alive(buffers)
        if "capacity" in body:
            fits, impossible = layout["arena"] <= body["capacity"], body["capacity"] < layout["lower_bound_bytes"]
            assert layout["verdict"] == ("fits" if fits else "impossible" if impossible else "not found")


def test_instances_of_minimalloc(rematd):
    for name in "AB" if SLOW > 1 else "ABCD":
        buffers = read(f"{name}.1048576.csv")
        draw = random.Random(name)
        draw.shuffle(buffers)
        layout = rematd.post("/v1/layouts", {"buffers": buffers, "capacity": "1MiB"}).json
        assert layout["verdict"] == "fits" and layout["arena"] <= 1048576 and not overlaps(buffers, layout)
    less = rematd.post("/v1/layouts", {"buffers": buffers, "capacity": most_alive(buffers) - 1}).json
    assert less["verdict"] == "impossible" and not overlaps(buffers, less)


def test_not_found_is_not_impossible(rematd):
    """Two of 200 bytes take 456 at an alignment of 256. The bound lets the spare of the third count, which is not there."""
    buffers = [{"lower": 0, "upper": 1, "size": 200}, {"lower": 0, "upper": 1, "size": 200}, {"lower": 1, "upper": 2, "size": 1}]
    layout = rematd.post("/v1/layouts", {"buffers": buffers, "alignment": 256, "capacity": 430}).json
    assert (layout["verdict"], layout["arena"], layout["lower_bound_bytes"]) == ("not found", 456, 400)
    assert not layout["optimal"] and not overlaps(buffers, layout)


def test_moments_past_what_a_double_tells_apart(rematd, tmp_path):
    """Nanoseconds since 1970, between fractions and beside them: whole numbers are compared as such."""
    draw, now = random.Random(8), 1700000000000000000
    for _ in range(30):
        points = [draw.choice([now, 2**53, -2**63, 2**63 - 200, 5]) + draw.randrange(100) for _ in range(12)]
        points += [draw.random() * 9, float(2**53), float(now)]
        pairs = [sorted(pair, key=Fraction) for pair in (draw.sample(points, 2) for _ in range(40)) if pair[0] != pair[1]]
        buffers = [{"lower": a, "upper": b, "size": draw.randrange(1, 99)} for a, b in pairs]
        layout = rematd.post("/v1/layouts", {"buffers": buffers}).json
        assert not overlaps(buffers, {**layout, "alignment": 1}) and layout["lower_bound_bytes"] == most_alive(buffers)
    refused = rematd.post("/v1/layouts", {"buffers": [{"lower": now + 1, "upper": now, "size": 1}]}).json
    assert refused["detail"].startswith(f"buffers[0].upper is {now}; it must be above {now + 1}, its lower")
    table = f"id,lower,upper,size\na,{now},{now + 601},100\nb,{now + 600},{now + 1600},100\n"
    remat("layout", "-", "-o", tmp_path / "out.csv", stdin=table)
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert [row.rsplit(",", 1)[0] for row in rows] == table.splitlines()
    assert {row.rsplit(",", 1)[1] for row in rows[1:]} == {"0", "100"}
    assert "no number below 2^63" in remat("layout", "-", stdin=f"lower,upper,size\n0,{2**63},1\n", code=INPUT).stderr


ONE = {"lower": 0, "upper": 2, "size": 8}


@pytest.mark.parametrize(("body", "field", "status"), [
    ({}, "buffers", 400), ({"buffers": {}}, "buffers", 400), ({"buffers": [1]}, "buffers[0]", 400),
    ({"buffers": [ONE], "extra": 1}, "extra", 400),
    ({"buffers": [ONE, {**ONE, "upper": 0}]}, "buffers[1].upper", 400),
    ({"buffers": [ONE, {**ONE, "upper": -1}]}, "buffers[1].upper", 400),
    ({"buffers": [{**ONE, "size": 0}]}, "buffers[0].size", 400), ({"buffers": [{**ONE, "size": -1}]}, "buffers[0].size", 400),
    ({"buffers": [{**ONE, "size": 1.5}]}, "buffers[0].size", 400), ({"buffers": [{**ONE, "size": 2**53}]}, "buffers[0].size", 400),
    ({"buffers": [{**ONE, "size": "8"}]}, "buffers[0].size", 400), ({"buffers": [{"lower": 0, "size": 1}]}, "buffers[0].upper", 400),
    ({"buffers": [{**ONE, "end": 3}]}, "buffers[0].end", 400),
    ({"buffers": [{**ONE, "id": "a"}, {**ONE, "id": "b"}, {**ONE, "id": "a"}]}, "buffers[2].id", 400),
    ({"buffers": [ONE], "alignment": 96}, "alignment", 400), ({"buffers": [ONE], "alignment": 1 << 21}, "alignment", 400),
    ({"buffers": [ONE], "alignment": 0}, "alignment", 400), ({"buffers": [ONE], "capacity": "60%"}, "capacity", 400),
    ({"buffers": [ONE], "capacity": -1}, "capacity", 400),
    ({"buffers": [{**ONE, "size": 2**53 - 1}] * 600}, "buffers[512]", 413), ({"buffers": [ONE] * 200001}, "buffers", 413)])
def test_what_is_refused(rematd, body, field, status):
    refused = rematd.post("/v1/layouts", body)
    assert (refused.status, refused.json["field"]) == (status, field), refused.body
    assert field in refused.json["detail"] or status == 413


def long_search():
    """Seconds of work: many lives within one another, so that no pass is short."""
    draw = random.Random(5)
    spans = [sorted(draw.sample(range(10**6), 2)) for _ in range(60000)]
    return {"buffers": [{"lower": a, "upper": b, "size": draw.randrange(1, 1 << 20)} for a, b in spans]}


def test_the_search_ends_when_the_asker_leaves(make_service):
    service = make_service("--workers", "1")
    body = json.dumps(long_search()).encode()
    one, two = connect(service), connect(service)
    one.sendall(head("POST", "/v1/layouts", body))
    two.sendall(head("POST", "/v1/layouts", body))  # waits in line behind the first
    deadline = time.monotonic() + 30 * SLOW
    while [metric(service, None, f"remat_queue_{name}") for name in ("running", "waiting")] != [1, 1]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    one.close()
    two.close()
    settles(service, None, "remat_queue_running", 0)  # the search takes seconds by itself
    settles(service, None, "remat_queue_waiting", 0)
    assert service.post("/v1/layouts", {"buffers": [ONE]}).json["optimal"]
    assert not [line for line in service.log_lines() if line["message"] == "request" and line["route"] == "/v1/layouts"
                and line["received"] > 1000]
    service.stop()


def test_its_memory_is_counted(make_service):
    service = make_service("--body-memory", "32MiB")
    many = {"buffers": [{"lower": i, "upper": i + 1, "size": 1} for i in range(3000)]}
    assert service.post("/v1/layouts", {"buffers": [ONE] * 100}).status == 200
    refused = service.post("/v1/layouts", many)  # the search among 3,000 may take 64 MB
    assert refused.status == 413 and "takes" in refused.json["detail"]


# ---- the command ----------------------------------------------------------------------------------------


def test_the_command_reads_tables_and_json(tmp_path, rematd):
    file, out = INSTANCES / "A.1048576.csv", tmp_path / "placed.csv"
    shown = remat("layout", "--capacity", "1MiB", file, "-o", out).stdout
    assert "fits" in shown and "(1048576 bytes)" in shown
    buffers = read("A.1048576.csv")
    with out.open() as text:
        rows = list(csv.DictReader(text))
    layout = {"arena": 1048576, "alignment": 1, "offsets": [int(r["offset"]) for r in rows]}
    assert [r["id"] for r in rows] == [b["id"] for b in buffers] and not overlaps(buffers, layout)
    here = answer("layout", "--capacity", "1MiB", file)
    assert answer("layout", "--capacity", "1MiB", "--server", rematd.url, file) == here
    assert here["offsets"] == layout["offsets"]
    asked = {"buffers": buffers, "capacity": 1048576}
    for text in (asked, buffers):
        (tmp_path / "b.json").write_text(json.dumps(text))
        assert answer("layout", "--capacity", "1MiB", tmp_path / "b.json")["offsets"] == here["offsets"]
    swapped = "size,upper,lower\r\n8,2.5,0\r\n4,3,2.5\r\n"
    assert answer("layout", "-", "--alignment", 4, stdin=swapped)["offsets"] == [0, 0]


def test_the_command_says_no(tmp_path):
    two = "id,lower,upper,size\na,0,2,8\nb,1,3,8\n"
    done = remat("layout", "-", "--capacity", 15, stdin=two, code=NO)
    assert "impossible" in done.stdout
    remat("layout", "-", "--capacity", 16, stdin=two)
    for text, said in (("id,lower,upper\n", "line 1: the columns"), ("id,lower,upper,size,x\n", 'line 1: "x" is none'),
                       ("lower,lower,size\n", 'line 1: "lower" is none'), (two + "c,1\n", "line 4: there are 2 fields"),
                       (two + "c,1,2,many\n", 'line 4: size is "many"'), (two + "c,1,2,3,4,5\n", "line 4: there are 6"),
                       (two + "a,1,2,3\n", 'buffers[2].id is "a"'), (two + "c,2,2,3\n", "buffers[2].upper is 2"),
                       ("{", "standard input is not JSON"), ('{"buffers": 3}', "buffers must be")):
        assert said in remat("layout", "-", stdin=text, code=INPUT).stderr, text
    assert problem("layout", tmp_path / "none.csv", code=INPUT)["detail"].startswith("cannot open")
    remat("layout", code=USAGE)
    remat("layout", "-", "--timeout", 3, code=USAGE)
    remat("layout", "-", "--alignment", 0, code=USAGE)
