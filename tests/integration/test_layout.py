"""Addresses: every schedule comes with a place for each of its values in one arena within the budget."""

import pytest

from conftest import SLOW, profile, some

CHAINS = ["resnet50.chain", "vgg19.chain", "vit-b16.chain", "gpt.cpu.chain", "lstm100.chain"]
GRAPHS = ["unet.flops", "resnet50.flops", "gpt.flops", "siamese-resnet18.flops", "resnet50.states"]
if SLOW > 1:  # each of these has something that the others have not
    CHAINS, GRAPHS = ["gpt.cpu.chain"], ["unet.flops", "resnet50.states"]


def ask(service, profile_id, budget, **more):
    return service.post("/v1/schedules", {"profile_id": profile_id, "budget": budget, **more})


def lives(document, schedule):
    """(kind, index) -> list of [first, last] operation, by an interpreter of its own that knows nothing of
    in-place nodes: it makes what they overwrite live on to the same operation."""
    nodes = document["nodes"]
    number = {n["id"]: i for i, n in enumerate(nodes)}
    inputs = {x["id"]: i for i, x in enumerate(document.get("inputs", []))}
    parents = [[number[p] for p in n["inputs"] if p in number] for n in nodes]
    sources = [[inputs[p] for p in n["inputs"] if p in inputs] for n in nodes]
    alive, done = {}, []

    def start(key, at):
        alive.setdefault(key, at)

    def end(key, at):
        if key in alive:
            done.append((key, alive.pop(key), at))

    for at, (name, *rest) in enumerate(schedule["operations"]):
        v = rest[-1]
        if name in "FA":
            start(("out", v), at)
            if name == "A":
                start(("saved", v), at)
        elif name == "B":
            start(("grad", v), at)  # of the loss
            for p in parents[v]:
                start(("grad", p), at)
            for k in sources[v]:
                start(("input_grad", k), at)
            end(("grad", v), at)
            end(("saved", v), at)
        elif name in "DX":
            kind = rest[0] if len(rest) == 2 else "saved" if name == "X" else "out"
            end((kind, v), at)
    last = len(schedule["operations"]) - 1
    return done + [(key, at, last) for key, at in alive.items()]


def size(document, kind, index):
    node = document["nodes"][index] if kind not in ("input", "input_grad") else document["inputs"][index]
    own = {"out": "output_bytes", "saved": "saved_bytes", "input": "bytes"}.get(kind, "gradient_bytes")
    return node.get(own, node["output_bytes"] if kind == "grad" else 0)


@pytest.mark.parametrize("name", some(CHAINS + GRAPHS))
def test_addresses_do_not_overlap(rematd, name):
    summary, document = rematd.push(name), profile(name)
    least = min(m["bytes"] for m in summary["minimum_budgets"])
    top = summary["store_all"]["peak"]
    for budget in (least, (least + top) // 2, top):
        answer = ask(rematd, summary["profile_id"], budget)
        assert answer.status == 200, answer.body
        schedule = answer.json
        assert schedule["peak"] <= schedule["arena"] <= budget
        places = {}
        for operation, kind, index, offset in schedule["allocations"]:
            assert offset % schedule["alignment"] == 0 and offset < schedule["arena"]
            places[kind, index, operation] = offset
        spans = []
        for (kind, index), first, last in lives(document, schedule):
            bytes_ = size(document, kind, index)
            if bytes_ > 0:
                offset = places[kind, index, first]
                assert offset + bytes_ <= schedule["arena"]
                spans.append((offset, offset + bytes_, first, last, kind, index))
        spans.sort()
        for i, one in enumerate(spans):
            for other in spans[i + 1:]:
                if other[0] >= one[1]:
                    break
                together = other[2] <= one[3] and one[2] <= other[3]
                in_place = document["nodes"][other[5]].get("in_place") or document["nodes"][one[5]].get("in_place")
                assert not together or (in_place and one[0] == other[0]), (one, other)


def test_every_layout_that_is_asked_for(rematd):
    summary = rematd.push("resnet50.chain")
    budget = summary["store_all"]["peak"] * 6 // 10
    plain = ask(rematd, summary["profile_id"], budget, layout=False).json
    assert "arena" not in plain and "allocations" not in plain
    seen = {plain["schedule_id"]}
    for alignment in (1, 256, 4096, 1048576):
        schedule = ask(rematd, summary["profile_id"], budget, layout={"alignment": alignment}).json
        assert schedule["alignment"] == alignment
        assert all(offset % alignment == 0 for *_, offset in schedule["allocations"])
        seen.add(schedule["schedule_id"])
    assert len(seen) == 5
    assert ask(rematd, summary["profile_id"], budget).json["schedule_id"] in seen
    for wrong in (3, "yes", {"alignment": 0}, {"alignment": 96}, {"alignment": 1 << 21}, {"align": 4}, None):
        answer = ask(rematd, summary["profile_id"], budget, layout=wrong)
        assert answer.status == 400 and answer.json["field"].startswith("layout"), (wrong, answer.body)


@pytest.mark.parametrize("name", some(["gpt.chain", "unet.flops"]))
def test_budgets_are_about_the_arena(rematd, name):
    """Where the arena of the fastest schedule is past the budget a slower one comes, or both numbers."""
    summary = rematd.push(name)
    least = min(m["bytes"] for m in summary["minimum_budgets"])
    answer = ask(rematd, summary["profile_id"], least)
    assert answer.status == 200 and answer.json["arena"] <= least
    for budget in range(least - 4096, least, 2048):
        answer = ask(rematd, summary["profile_id"], budget)
        if answer.status == 200:
            assert answer.json["arena"] <= budget
        else:
            again = ask(rematd, summary["profile_id"], answer.json["minimum_budget"])
            assert answer.status == 422 and again.status == 200
    last = float("inf")
    for percent in range(60, 101, 2 if SLOW == 1 else 10):  # a larger budget is never slower
        schedule = ask(rematd, summary["profile_id"], f"{percent}%").json
        assert schedule["arena"] <= schedule["budget"] and schedule["makespan"] <= last * (1 + 1e-12)
        last = schedule["makespan"]
