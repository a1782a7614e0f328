"""The road a user walks: profile in, verified schedule out, remembered."""

import gzip
import json
import re
import threading
import time

import pytest

from conftest import OPENAPI, ROOT, SLOW, profile, some


def simulate(service, schedule, link=None):
    body = {"profile_id": schedule["profile_id"], "operations": schedule["operations"]}
    if link:
        body["link"] = link
    return service.post("/v1/simulations", body).json


def ask(service, profile_id, budget, **more):
    return service.post("/v1/schedules", {"profile_id": profile_id, "budget": budget, **more})


CHAINS = ["resnet50.chain", "vgg19.chain", "vit-b16.chain", "gpt.chain", "resnet50.cpu.chain",
          "gpt.cpu.chain", "vgg19.cpu.chain", "vgg19.flops"]
if SLOW > 1:
    CHAINS = ["vgg19.chain", "vgg19.flops"]


@pytest.mark.parametrize("name", some(CHAINS))
def test_chain_schedules_fit_and_replay(rematd, name):
    summary = rematd.push(name)
    least = min(m["bytes"] for m in summary["minimum_budgets"])
    top = summary["store_all"]["peak"]
    last = float("inf")
    for part in (0, 0.2, 0.5, 0.8, 1):
        budget = int(least + part * (top - least))
        # the arena of storing everything may be some bytes larger than its peak
        answer = ask(rematd, summary["profile_id"], budget, layout=part < 1)
        assert answer.status == 200, answer.body
        schedule = answer.json
        assert schedule["verified"] and schedule["peak"] <= budget == schedule["budget"]
        assert schedule["makespan"] <= last * (1 + 1e-12)  # a larger budget is never slower
        last = schedule["makespan"]
        assert schedule["lower_bound"] <= schedule["makespan"]
        replay = simulate(rematd, schedule)
        assert (replay["makespan"], replay["peak"]) == (schedule["makespan"], schedule["peak"])
    assert last == pytest.approx(summary["store_all"]["makespan"], rel=1e-12)


@pytest.mark.parametrize("name", CHAINS + ["lstm100.chain"])
@pytest.mark.parametrize("solver", ["rotor", "auto"])
def test_larger_budgets_are_never_slower(rematd, name, solver):
    """200 budgets of every real chain; each point's schedule fits its budget."""
    summary = rematd.push(name)
    points = rematd.post("/v1/tradeoffs", {"profile_id": summary["profile_id"], "solver": solver,
                                           "points": 200}).json
    assert len(points) == 200 and all(p["feasible"] and p["peak"] <= p["budget"] for p in points)
    assert all(a["makespan"] * (1 + 1e-12) >= b["makespan"] for a, b in zip(points, points[1:]))
    assert points[0]["makespan"] > points[-1]["makespan"]
    assert points[-1]["makespan"] == pytest.approx(summary["store_all"]["makespan"], rel=1e-12)


@pytest.mark.parametrize("name", ["resnet50.flops", "gpt.states", "siamese-resnet18.chain"] + ["unet.flops"] * (SLOW == 1))
def test_any_graph_has_an_answer_when_it_fits(rematd, name):
    summary = rematd.push(name)
    schedule = ask(rematd, summary["profile_id"], "110%").json
    # The same times summed in another order of the backwards differ in their last bits.
    assert schedule["makespan"] == pytest.approx(summary["store_all"]["makespan"], rel=1e-12)
    half = ask(rematd, summary["profile_id"], "55%").json
    assert half["peak"] <= half["budget"] and half["recomputed_time"] > 0
    assert {c["solver"] for c in half["candidates"]} >= {"store-all", half["solver"]}
    assert simulate(rematd, half)["valid"]
    assert simulate(rematd, schedule)["valid"]


@pytest.mark.parametrize("name", ["gpt.states", "resnet50.states"])
def test_states_are_saved_and_restored(rematd, name):
    """Dropout and batch normalisation: what is recomputed sees the state that its first run saw."""
    document = profile(name)
    summary = rematd.push(name)
    schedule = ask(rematd, summary["profile_id"], "40%", solver="lowerset").json
    readers = {i for i, node in enumerate(document["nodes"]) if node.get("reads")}
    runs = [o[1] for o in schedule["operations"] if o[0] in "FA"]
    assert any(runs.count(v) > 1 for v in readers)
    assert {"S", "R"} <= {operation[0] for operation in schedule["operations"]}
    assert simulate(rematd, schedule)["valid"]
    without = [o for o in schedule["operations"] if o[0] not in "SR"]
    verdict = simulate(rematd, dict(schedule, operations=without))
    assert not verdict["valid"] and "state" in verdict["reason"]


def test_same_question_is_a_hit(rematd):
    summary = rematd.push("resnet50.chain")
    first = ask(rematd, summary["profile_id"], "47%", solver="rotor")
    again = ask(rematd, summary["profile_id"], "47%", solver="rotor")
    assert again.headers["X-Remat-Cache"] == "hit" and again.body == first.body
    # The same question in other words: bytes instead of percent, an explicit default.
    budget = first.json["budget"]
    other = ask(rematd, summary["profile_id"], budget + 5, solver="rotor", reserved=5, wait=1)
    assert other.headers["X-Remat-Cache"] == "hit" and other.body == first.body
    with_profile = rematd.post("/v1/schedules", {"profile": profile("resnet50.chain"), "budget": budget,
                                                 "solver": "rotor"})
    assert with_profile.body == first.body


def test_smaller_budget_is_traced_from_the_table(make_service):
    service = make_service()
    summary = service.push("resnet50.chain")
    assert ask(service, summary["profile_id"], "60%").headers["X-Remat-Cache"] == "miss"
    solves, tables = service.metric("remat_solves_total"), service.metric("remat_tabulations_total")
    assert ask(service, summary["profile_id"], "50%").headers["X-Remat-Cache"] == "table"
    service.stop()
    service.start()
    assert ask(service, summary["profile_id"], "60%").headers["X-Remat-Cache"] == "hit"
    assert ask(service, summary["profile_id"], "40%", solver="rotor").headers["X-Remat-Cache"] == "table"
    assert service.metric("remat_solves_total") == 0 and solves == 1 and tables >= 1


@pytest.mark.parametrize("name,solver,budgets", [("gpt.cpu.chain", "equiv-chain", ("24%", "48%")),
                                                 ("join-4-10-12", "join", ("40%", "90%"))])
def test_a_table_of_a_larger_budget_changes_no_answer(make_service, name, solver, budgets):
    """Slots are cut from the largest budget until they reach storing everything: a table answers where its own would."""
    told = []
    for asked in (budgets, budgets[::-1]):
        service = make_service()
        profile_id = service.push(name)["profile_id"]
        answers = {budget: service.post("/v1/schedules", {"profile_id": profile_id, "solver": solver, "budget": budget,
                                                          "layout": False}).json for budget in asked}
        told.append({budget: (answer["makespan"], answer["operations"]) for budget, answer in answers.items()})
    assert told[0] == told[1]


def test_burst_of_cold_questions_is_one_solve(make_service):
    service = make_service()
    profile_id = service.push("lstm100.chain")["profile_id"]
    answers, start = [], threading.Barrier(200)

    def one():
        start.wait()
        answers.append(ask(service, profile_id, "30%", wait=60))

    threads = [threading.Thread(target=one) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.status for a in answers} == {200} and len({a.body for a in answers}) == 1
    assert service.metric("remat_solves_total") == 1
    assert service.metric("remat_verification_failures_total") == 0


def test_immutable_answers(rematd):
    summary = rematd.push("vgg19.chain")
    schedule = ask(rematd, summary["profile_id"], "80%").json
    path = f"/v1/schedules/{schedule['schedule_id']}"
    got = rematd.get(path)
    assert got.json == schedule and "immutable" in got.headers["Cache-Control"]
    tag = got.headers["ETag"]
    assert rematd.get(path, headers={"If-None-Match": tag}).status == 304
    assert rematd.get(path, headers={"If-None-Match": '"other"'}).status == 200
    head = rematd.call("HEAD", path)
    assert head.status == 200 and head.body == b"" and head.headers["ETag"] == tag
    stored = rematd.get(f"/v1/profiles/{summary['profile_id']}")
    assert stored.json["profile"] == profile("vgg19.chain")


def test_compression(rematd):
    summary = rematd.push("lstm100.chain")
    schedule = ask(rematd, summary["profile_id"], "40%").json
    path = f"/v1/schedules/{schedule['schedule_id']}"
    plain = rematd.get(path)
    packed = rematd.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and gzip.decompress(packed.body) == plain.body
    smaller = rematd.get(path, headers={"Accept-Encoding": "gzip, zstd"})
    assert smaller.headers["Content-Encoding"] == "zstd" and smaller.body[:4] == b"\x28\xb5\x2f\xfd"
    assert "Content-Encoding" not in rematd.get(path, headers={"Accept-Encoding": "zstd;q=0"}).headers
    sent = gzip.compress(json.dumps(profile("lstm100.chain")).encode())
    answer = rematd.post("/v1/profiles", sent, headers={"Content-Encoding": "gzip"})
    assert answer.status == 200 and answer.json["profile_id"] == summary["profile_id"]


def test_timeline(rematd):
    summary = rematd.push("resnet50.chain")
    schedule = ask(rematd, summary["profile_id"], "50%").json
    timeline = rematd.get(f"/v1/schedules/{schedule['schedule_id']}/timeline").json
    assert timeline["operations"] == schedule["operations"]
    assert max(timeline["memory_during"]) == schedule["peak"]
    assert timeline["memory_during"][timeline["peak_operation"]] == schedule["peak"]
    assert timeline["end"][-1] == timeline["makespan"] == schedule["makespan"]
    assert len(timeline["start"]) == len(schedule["operations"])
    assert [[v[3], *v[:2]] for v in timeline["values"]] == [a[:3] for a in schedule["allocations"]]
    for i, during in enumerate(timeline["memory_during"]):  # the lives of the layout, the bytes of the simulator
        assert during == sum(size for _, _, size, first, last in timeline["values"] if first <= i <= last)


def test_measurements(rematd):
    summary = rematd.push("gpt.chain")
    schedule = ask(rematd, summary["profile_id"], "70%").json
    path = f"/v1/schedules/{schedule['schedule_id']}/measurements"
    first = rematd.post(path, {"step_time": 1234.5, "peak": "2GiB", "device": "a device", "steps": 20})
    assert first.status == 201 and first.json["peak"] == 2 << 30
    assert rematd.post(path, {"step_time": 1200, "note": "second"}).status == 201
    answer = rematd.get(path).json
    assert answer["predicted"] == {"makespan": schedule["makespan"], "peak": schedule["peak"]}
    assert [m["step_time"] for m in answer["measurements"]] == [1200, 1234.5]
    assert rematd.post(path, {"step_time": -1}).json["field"] == "step_time"
    assert rematd.post(path, {"peak": 5}).json["field"] == "step_time"
    assert rematd.post(path, {"step_time": 5, "steps": 0}).json["field"] == "steps"
    missing = f"/v1/schedules/{'0' * 64}/measurements"
    assert rematd.get(missing).status == rematd.post(missing, {"step_time": 1}).status == 404


def test_snapshots(rematd):
    cases = json.loads((ROOT / "tests" / "data" / "snapshots_small.json").read_text())["cases"]
    for case in cases:
        if case["kind"] == "states":
            continue
        body = {k: v for k, v in case.items() if k not in ("kind", "name", "note", "expected")}
        answer = rematd.post("/v1/snapshots", body)
        assert answer.status == 200, answer.body
        if case["kind"] == "fragment":
            assert answer.json["lazy"]["solution"] == case["expected"]["lazy"]
            assert answer.json["cheapest"]["peak"] == case["expected"]["best_shared"]["peak"]
        else:
            assert answer.json == case["expected"]
    bad = rematd.post("/v1/snapshots", {"variables": ["a"], "Req": ["b"], "out_C": [], "use_Cbar": [],
                                        "out_Cbar": [], "out_Dbar": []})
    assert bad.status == 400 and bad.json["field"] == "Req[0]"
    deep = {"use": [], "out": []}
    for _ in range(40):
        deep = {"parts": [deep, {"use": [], "out": []}]}
    assert rematd.post("/v1/snapshots", dict(deep, variables=[])).status == 400
    many = [f"v{i}" for i in range(2001)]
    huge = {"variables": many, "Req": [], "out_C": [], "use_Cbar": [], "out_Cbar": [], "out_Dbar": []}
    assert rematd.post("/v1/snapshots", huge).status == 413


def test_tradeoff_agrees_with_schedules(rematd):
    summary = rematd.push("vit-b16.chain")
    points = rematd.post("/v1/tradeoffs", {"profile_id": summary["profile_id"], "points": 20}).json
    assert len(points) == 20 and all(p["feasible"] for p in points)
    assert all(a["makespan"] * (1 + 1e-12) >= b["makespan"] for a, b in zip(points, points[1:]))
    for point in points[::5]:
        schedule = ask(rematd, summary["profile_id"], point["budget"]).json
        assert schedule["makespan"] <= point["makespan"] and schedule["peak"] <= point["budget"]  # improved there
        assert schedule["lower_bound"] >= point["lower_bound"] * (1 - 1e-9)
    points = rematd.post("/v1/tradeoffs", {"profile_id": summary["profile_id"], "solver": "rotor", "points": 20}).json
    for point in [p for p in points if p["feasible"]][::5]:
        schedule = ask(rematd, summary["profile_id"], point["budget"], solver="rotor").json
        assert (schedule["makespan"], schedule["peak"]) == (point["makespan"], point["peak"])
        assert schedule["makespan"] >= schedule["lower_bound"] >= point["lower_bound"] * (1 - 1e-9)
        assert schedule["solver"] == point["solver"] and schedule["bound_class"] == "all schedules"
    few = rematd.post("/v1/tradeoffs", {"profile_id": summary["profile_id"], "solver": "rotor",
                                        "budgets": [1000, "50%", "4GiB"]}).json
    assert [p["feasible"] for p in few] == [False, True, True]


def test_infeasible_names_the_least_budget(rematd):
    summary = rematd.push("gpt.chain" if SLOW == 1 else "vgg19.chain")
    answer = ask(rematd, summary["profile_id"], 1000)
    assert answer.status == 422 and answer.json["type"] == "/problems/infeasible-budget"
    least = answer.json["minimum_budget"]
    assert ask(rematd, summary["profile_id"], least).status == 200
    assert ask(rematd, summary["profile_id"], least - 1).status == 422
    jobs = len(rematd.get("/v1/jobs?limit=100").json["jobs"])
    again = ask(rematd, summary["profile_id"], 1000)
    assert again.status == 422 and {**again.json, "instance": 0} == {**answer.json, "instance": 0}
    assert len(rematd.get("/v1/jobs?limit=100").json["jobs"]) == jobs  # it was not solved again


def test_solver_that_does_not_accept_names_the_node(rematd):
    summary = rematd.push("resnet50.flops")
    answer = ask(rematd, summary["profile_id"], "50%", solver="rotor")
    assert answer.status == 422 and answer.json["type"] == "/problems/solver-does-not-accept"
    assert any(f'"{node["id"]}"' in answer.json["detail"] for node in profile("resnet50.flops")["nodes"])


def test_simulation_names_the_first_bad_operation(rematd):
    summary = rematd.push("vgg19.chain")
    schedule = ask(rematd, summary["profile_id"], "100%").json
    operations = schedule["operations"]
    short = [o for o in operations if o != ["B", 0]]
    verdict = simulate(rematd, dict(schedule, operations=short))
    assert verdict == {"valid": False, "bad_operation": len(short),
                       "reason": f'the list ends without B of "{schedule["nodes"][0]}"'}
    verdict = simulate(rematd, dict(schedule, operations=operations[1:]))
    assert not verdict["valid"] and verdict["bad_operation"] == 0


def test_simulation_with_a_link(rematd):
    """Two nodes; the first output goes to the host and comes back while nothing else runs."""
    node = {"forward_time": 4, "backward_time": 8, "output_bytes": 100}
    document = {"format": "remat-profile/1", "name": "offloaded", "time_unit": "us", "inputs": [],
                "nodes": [{"id": "a", **node}, {"id": "b", "inputs": ["a"], **node, "output_bytes": 0}]}
    operations = [["F", 0], ["O", 0], ["F", 1], ["D", 0], ["P", 0], ["B", 1], ["D", 1], ["B", 0], ["D", 0]]
    body = {"profile": document, "operations": operations, "link": {"bytes_per_time_unit": 10}}
    result = rematd.post("/v1/simulations", body).json
    # F a 0-4, copy out 4-14, F b 4-8, D waits to 14, copy in 14-24, B b 24-32, B a 32-40.
    assert (result["makespan"], result["idle_time"]) == (40, 16)
    assert (result["bytes_to_host"], result["bytes_to_device"], result["host_peak"]) == (100, 100, 100)
    fast = dict(body, link={"bandwidth": "100MB/s"})  # 100 bytes a microsecond
    assert rematd.post("/v1/simulations", fast).json["makespan"] == 24 + 1
    assert not rematd.post("/v1/simulations", {k: v for k, v in body.items() if k != "link"}).json["valid"]
    units = dict(fast, profile=dict(document, time_unit="units"))
    assert rematd.post("/v1/simulations", units).json["field"] == "link.bandwidth"


def test_lists_page_and_stay_stable(make_service):
    service = make_service()
    document = profile("gpt.chain")
    ids = []
    for i in range(7):
        document["name"] = f"network {i}"
        document["inputs"][0]["bytes"] = i
        ids.append(service.post("/v1/profiles", document).json["profile_id"])
    first = service.get("/v1/profiles?limit=3").json
    document["inputs"][0]["bytes"] = 99
    service.post("/v1/profiles", document)
    seen, cursor = [p["profile_id"] for p in first["profiles"]], first["next"]
    while cursor:
        page = service.get(f"/v1/profiles?limit=3&cursor={cursor}").json
        seen += [p["profile_id"] for p in page["profiles"]]
        cursor = page["next"]
    assert seen == ids[::-1]
    assert [p["name"] for p in service.get("/v1/profiles?name=network%203").json["profiles"]] == ["network 3"]
    assert service.get("/v1/profiles?limit=0").status == 400
    assert service.get("/v1/profiles?cursor=nonsense").status == 400


def test_lists_of_a_solver(rematd):
    summary = rematd.push("gpt.cpu.chain")
    made = rematd.post("/v1/schedules", {"profile_id": summary["profile_id"], "budget": "70%", "solver": "rotor"}).json
    found = rematd.get("/v1/schedules?solver=rotor").json["schedules"]
    assert made["schedule_id"] in [one["schedule_id"] for one in found] and {one["solver"] for one in found} == {"rotor"}
    for wrong, text in (("rotr", 'did you mean "?rotor'), ("auto", "auto is none")):
        answer = rematd.get(f"/v1/schedules?solver={wrong}")
        assert answer.status == 400 and answer.json["field"] == "solver" and re.search(text, answer.json["detail"]), answer.body


def test_delete_profile(make_service):
    service = make_service()
    summary = service.push("vgg19.chain")
    schedule = ask(service, summary["profile_id"], "70%").json
    assert service.get(f"/v1/schedules?profile_id={summary['profile_id']}").json["schedules"]
    assert service.call("DELETE", f"/v1/profiles/{summary['profile_id']}").status == 204
    assert service.get(f"/v1/profiles/{summary['profile_id']}").status == 404
    assert service.get(f"/v1/schedules/{schedule['schedule_id']}").status == 404
    assert ask(service, summary["profile_id"], "70%").status == 404
    assert service.call("DELETE", f"/v1/profiles/{summary['profile_id']}").status == 404
    assert service.push("vgg19.chain")["profile_id"] == summary["profile_id"]


def big_chain(n, seed=1):
    """A heterogeneous chain that takes a solver a while."""
    state, nodes = seed, []

    def draw(top):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % top

    for i in range(n):
        nodes.append({"id": f"stage {i}", "inputs": [f"stage {i - 1}"] if i else ["x"],
                      "forward_time": 1 + draw(100000), "backward_time": 1 + draw(100000),
                      "output_bytes": 1 + draw(2**30), "saved_bytes": draw(2**31),
                      "backward_workspace_bytes": draw(2**27)})
    return {"format": "remat-profile/1", "name": f"chain of {n}", "inputs": [{"id": "x", "bytes": 1000}],
            "nodes": nodes}


def test_wait_zero_gives_a_job(make_service):
    service = make_service()
    document = big_chain(60)
    answer = service.post("/v1/schedules", {"profile": document, "budget": "50%", "solver": "rotor", "wait": 0})
    assert answer.status == 202
    job = answer.json
    assert answer.headers["Location"] == f"/v1/jobs/{job['job_id']}"
    while service.get(f"/v1/jobs/{job['job_id']}").json["state"] in ("queued", "running"):
        time.sleep(0.02)
    ended = service.get(f"/v1/jobs/{job['job_id']}").json
    assert ended["state"] == "done" and ended["progress"] == 1
    schedule = service.get(f"/v1/schedules/{ended['schedule_id']}").json
    assert schedule["verified"]
    service.stop()
    service.start()
    assert service.get(f"/v1/jobs/{job['job_id']}").json["schedule_id"] == ended["schedule_id"]


def test_a_curve_is_a_question_like_another(make_service):
    """202 and a job, one for all spellings, told again after a restart; the same request then gets the answer."""
    service = make_service()
    profile_id = service.post("/v1/profiles", big_chain(60)).json["profile_id"]
    body = {"profile_id": profile_id, "solver": "rotor", "points": 7, "wait": 0}
    answer = service.post("/v1/tradeoffs", body)
    assert answer.status == 202, answer.body
    job = answer.json["job_id"]
    assert answer.headers["Location"] == f"/v1/jobs/{job}"
    other = service.post("/v1/tradeoffs", {**dict(reversed(body.items())), "options": {"slots": 0}})
    assert other.status == 200 or other.json["job_id"] == job
    while (ended := service.get(f"/v1/jobs/{job}").json)["state"] in ("queued", "running"):
        time.sleep(0.02)
    assert ended["state"] == "done" and "schedule_id" not in ended
    answer = service.post("/v1/tradeoffs", body)
    assert answer.status == 200 and answer.headers["X-Remat-Cache"] == "hit" and len(answer.json) == 7
    assert service.get("/v1/schedules").json["schedules"] == []
    service.stop()
    service.start()
    assert service.get(f"/v1/jobs/{job}").json["state"] == "done"
    again = service.post("/v1/tradeoffs", body)
    assert again.headers["X-Remat-Cache"] == "table" and again.body == answer.body
    # the body of one kind of question is no body of the other
    assert service.post("/v1/schedules", body).json["field"] == "points"


def test_a_curve_outlives_its_daemon(make_service):
    """Its job is durable, as that of a schedule; it may be cancelled like one."""
    service = make_service("--workers", "1")
    large = service.post("/v1/schedules", {"profile": big_chain(400), "budget": "50%", "solver": "rotor",
                                           "options": {"slots": 3000}, "wait": 0}).json["job_id"]
    body = {"profile": big_chain(300, 2), "solver": "rotor", "budgets": ["40%", "90%"], "wait": 0}
    job = service.post("/v1/tradeoffs", body).json["job_id"]
    lost = service.post("/v1/tradeoffs", dict(body, budgets=["50%"])).json["job_id"]
    assert service.call("DELETE", f"/v1/jobs/{lost}").json["state"] == "cancelled"
    elapsed = service.get(f"/v1/jobs/{job}").json["elapsed_seconds"]
    service.kill()
    service.start()
    assert service.get(f"/v1/jobs/{job}").json["elapsed_seconds"] > elapsed  # since it was asked, not since the daemon began
    service.call("DELETE", f"/v1/jobs/{large}")
    while (ended := service.get(f"/v1/jobs/{job}").json)["state"] in ("queued", "running"):
        time.sleep(0.02)
    assert ended["state"] == "done"
    answer = service.post("/v1/tradeoffs", body)
    assert answer.status == 200 and [p["feasible"] for p in answer.json] == [True, True], answer.body


def test_cancel(make_service):
    service = make_service("--workers", "1")
    document = big_chain(400)
    body = {"profile": document, "budget": "50%", "solver": "rotor", "wait": 0}
    job = service.post("/v1/schedules", body).json["job_id"]
    queued = service.post("/v1/schedules", dict(body, budget="40%")).json
    assert service.call("DELETE", f"/v1/jobs/{queued['job_id']}").json["state"] == "cancelled"
    start = time.monotonic()
    assert service.call("DELETE", f"/v1/jobs/{job}").status == 200
    while service.get(f"/v1/jobs/{job}").json["state"] != "cancelled":
        assert time.monotonic() - start < 5 * SLOW
        time.sleep(0.005)
    ended = service.get(f"/v1/jobs/{job}").json
    assert ended["problem"]["type"] == "/problems/cancelled"
    assert service.call("DELETE", f"/v1/jobs/{'0' * 32}").status == 404


def test_front_answers_while_solvers_run(make_service):
    service = make_service("--workers", "2")
    for seed in (1, 2, 3):
        service.post("/v1/schedules", {"profile": big_chain(350, seed), "budget": "50%", "solver": "rotor",
                                       "wait": 0})
    slowest = 0
    for _ in range(50):
        start = time.monotonic()
        assert service.get("/healthz").status == 200
        slowest = max(slowest, time.monotonic() - start)
    assert slowest < 0.5 * SLOW
    for job in service.get("/v1/jobs").json["jobs"]:
        service.call("DELETE", f"/v1/jobs/{job['job_id']}")


def test_small_solves_do_not_wait_for_large_ones(make_service):
    """Every worker has a solve of seconds; a small question is answered meanwhile."""
    service = make_service("--workers", "2")
    large = [service.post("/v1/schedules", {"profile": big_chain(400, seed), "budget": "50%", "solver": "rotor",
                                            "options": {"slots": 3000}, "wait": 0}).json["job_id"] for seed in range(3)]
    start = time.monotonic()
    answer = service.post("/v1/schedules", {"profile": profile("unet.flops"), "budget": "100%", "solver": "chen-graph",
                                            "layout": False})
    assert answer.status == 200 and time.monotonic() - start < 3 * SLOW
    states = [service.get(f"/v1/jobs/{job}").json["state"] for job in large]
    assert states.count("running") == 2 and states.count("queued") == 1
    for job in large:
        service.call("DELETE", f"/v1/jobs/{job}")


def test_document_lists_every_route(rematd):
    served = rematd.get("/openapi.json").json
    assert served == OPENAPI
    for path, item in served["paths"].items():
        real = path.replace("{id}", "0" * (32 if "jobs" in path else 64)).replace("{file}", "main.js")
        real = real.replace("{kind}", "busy")
        for method in ("get", "post", "delete"):
            answer = rematd.call(method.upper(), real, {} if method == "post" else None)
            assert (answer.status == 405) == (method not in item), f"{method} {path}: {answer.status}"
            if answer.status == 405:
                assert answer.headers["Allow"] and method.upper() not in answer.headers["Allow"]


def test_solvers_are_described(rematd):
    solvers = {s["name"]: s for s in rematd.get("/v1/solvers").json["solvers"]}
    assert {"store-all", "chen-sqrt", "revolve", "rotor"} <= set(solvers)
    assert all(s["source"] and s["summary"] for s in solvers.values())


def test_every_documented_option_is_accepted(rematd):
    summary = rematd.push("vgg19.chain")
    for solver in rematd.get("/v1/solvers").json["solvers"]:
        for option in solver["options"]:
            answer = ask(rematd, summary["profile_id"], "90%", solver=solver["name"],
                         options={option["name"]: option["default"]})
            assert answer.status in (200, 422), answer.body
            if option["type"] in ("integer", "number"):
                bad = ask(rematd, summary["profile_id"], "90%", solver=solver["name"],
                          options={option["name"]: option["maximum"] + 1})
                assert bad.status == 400 and bad.json["field"] == f"options.{option['name']}"


def test_request_ids(rematd):
    assert rematd.get("/healthz", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    hostile = rematd.get("/healthz", headers={"X-Request-Id": 'a"b<c>'}).headers["X-Request-Id"]
    assert '"' not in hostile and hostile != 'a"b<c>'
    assert any(line.get("request_id") == "mine-1" for line in rematd.log_lines())
