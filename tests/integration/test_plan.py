"""Plans: remat plan, POST /v1/plans, remat-train --plan, calibrate."""

import json
import os
import resource
import socket
import statistics
import subprocess
import threading
import time

import pytest

from conftest import BUILD, PROFILES, ROOT, SLOW, some
from test_cli import INPUT, NO, OK, REMAT, SERVER, USAGE, answer, problem, remat, write  # noqa: F401
from test_service import big_chain

TRAIN = BUILD / "clients" / "executor" / "remat-train"
GPT2 = {"model": "gpt2", "batch": 4, "device": "t4"}


def plan(service, **more):
    return service.post("/v1/plans", {"wait": 300, **GPT2, **more})


def check(answer):
    """What holds of every plan."""
    b = answer["table"]
    parts = ["weights", "master_weight_bytes", "gradients", "optimizer_states", "cached_weights", "fp8_copies", "buckets", "gathered",
             "workspaces", "context", "communicator", "fragmentation"]
    assert b["taken_bytes"] == sum(b[name] for name in parts)
    assert b["activations"] == max(0, b["memory"] - b["taken_bytes"])
    assert 0 in (b["gradients"], b["gradient_bytes"]) and 0 in (b["cached_weights"], b["cached_bytes"])  # beside the activations or among them
    whole, static = answer["store_all_memory"], sum(b[name] for name in parts[:9])
    handed = 1.022 if b["workspaces"] else 1  # of what is asked
    assert whole["allocated_bytes"] == pytest.approx(handed * (static + answer["store_all_peak"]), abs=2)
    assert answer["store_all_fits"] == (whole["driver_bytes"] <= b["memory"])
    assert answer["fits"] == ("schedule" in answer) != ("refusal" in answer)
    if answer["fits"]:
        schedule = answer["schedule"]
        assert schedule["verified"] and schedule["peak"] <= schedule["arena"] <= b["activations"]
        memory = answer["memory_use"]
        assert memory["allocated_bytes"] == pytest.approx(handed * (static + schedule["arena"]), abs=2) and memory["device_bytes"] == b["memory"]
        assert memory["allocated_bytes"] <= memory["reserved_bytes"] <= memory["driver_bytes"] <= b["memory"]
        assert memory["driver_bytes"] == memory["reserved_bytes"] + b["context"] + b["communicator"]
        assert answer["step_seconds"] >= answer["store_all_seconds"] * (1 - 1e-9)
    parts = [answer[f"{name}_seconds"] for name in ("compute", "recomputation", "communication", "update")]
    assert sum(parts) == pytest.approx(answer.get("step_seconds", answer["store_all_seconds"])) and min(parts) >= 0
    for way in answer.get("ways", []):
        assert way["fits"] == (way["peak"] <= b["activations"]) == (way["memory_use"]["driver_bytes"] <= b["memory"])
        assert way["step_seconds"] >= answer["store_all_seconds"] * (1 - 1e-9) or answer["communication_seconds"] > 0
    for row in answer.get("rows", []):
        for way in row["ways"]:
            assert not way["fits"] or way["peak"] <= b["activations"]
        own = {way["way"]: way for way in row["ways"] if not way["offload"]}
        if row["batch"] == answer["batch"]:  # what a row can do the answer can, and its row is the answer
            assert answer["fits"] or not any(way["fits"] for way in own.values())
            if answer["fits"] and "link" not in answer["schedule"]:
                assert own["remat"]["samples_per_second"] == answer["samples_per_second"]
    best = max((way.get("samples_per_second", 0) for row in answer.get("rows", []) for way in row["ways"]), default=0)
    if answer.get("best_batch"):
        assert answer["best_batch"]["samples_per_second"] == pytest.approx(best)


# ---- over HTTP --------------------------------------------------------------------------------------------


def test_a_plan_is_solved_once(rematd):
    first = plan(rematd)
    check(first.json)
    assert first.json["fits"] and first.json["parameters"] == 124439808
    # 16-bit weights with 32-bit copies and two moments: 2 + 4 + 2 + 8 bytes
    assert first.json["table"]["weights"] == 2 * 124439808
    assert first.json["table"]["master_weight_bytes"] == 4 * 124439808
    assert first.json["table"]["optimizer_states"] == 8 * 124439808
    again = plan(rematd)
    assert again.headers["X-Remat-Cache"] == "hit" and again.body == first.body
    assert plan(rematd, sweep=False).headers["X-Remat-Cache"] == "hit"  # another body, the same question


def test_its_schedule_is_that_of_the_question(rematd):
    made = plan(rematd, batch=8, sweep=False).json
    check(made)
    schedule = rematd.get(f"/v1/schedules/{made['schedule']['schedule_id']}").json
    assert schedule["budget"] == made["table"]["activations"] and schedule["profile_id"] == made["profile_id"]
    assert schedule["makespan"] == made["schedule"]["makespan"]
    asked = rematd.post("/v1/schedules", {"profile_id": made["profile_id"], "solver": "selective",
                                          "budget": made["table"]["activations"]})
    assert asked.headers["X-Remat-Cache"] == "hit" and asked.json["schedule_id"] == schedule["schedule_id"]
    profile = rematd.get(f"/v1/profiles/{made['profile_id']}").json["profile"]
    assert "no measurement" in profile["source"]["note"]


def test_what_does_not_fit_is_an_answer(rematd):
    alone = plan(rematd, model="gpt2-xl", device="rtx4090")
    check(alone.json)
    assert alone.status == 200 and not alone.json["fits"] and alone.json["table"]["activations"] == 0
    crowded = plan(rematd, batch=512, sweep=False)
    check(crowded.json)
    assert crowded.status == 200 and not crowded.json["fits"]
    assert crowded.json["least_activations"] > crowded.json["table"]["activations"]


def test_eighty_layers_are_refused_soon():
    """By a search that ends where it leads nowhere, by a floor, and by that of one operation, which copies do not lower; they take
    1.1, 1 and 1 s of the processor. The row of the first fits with offloading alone."""
    words = ["plan", "llama3-70b", "--batch", "8", "--device", "a100-80gb", "--ranks", "64", "--parallel", "fsdp"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    searched = answer(*words[:3], "12", *words[4:], "--kernels", "fused", code=NO)
    assert searched["refusal"].endswith("; with offloading the row of this batch fits, without addresses")
    assert "and none fits less than" in answer(*words, code=NO)["refusal"]
    assert "and none fits less than" in answer(*words, "--offload", code=NO)["refusal"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 7 * SLOW


@pytest.mark.parametrize("question, at_most", [
    ("--batch 16 --device h100 --mesh dp=8,tp=8", 0.5),  # in groups of units; it was refused
    ("--batch 8 --device a100-80gb --ranks 64 --parallel fsdp --kernels fused", 0.45),
    ("--batch 2 --device h100 --ranks 64 --parallel fsdp --offload", 0.04)])  # what units read came back too late: 0.137
def test_eighty_layers_fit_quickly(question, at_most):
    """They took 5.4, 4 and 6 s of the processor and take 1.6, 1.7 and 1."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    made = answer("plan", "llama3-70b", *question.split(), "--effort", "quick")
    assert made["fits"] and made["schedule"]["overhead"] < at_most
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 3 * SLOW


def test_what_fits_as_it_is_is_not_searched_over_the_link():
    """It took 2 s of the processor, for the tables of all solvers, and takes 0.2."""
    words = "plan", "bert-large", "--batch", "16", "--device", "mi300x", "--effort", "quick"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    made, plain = answer(*words, "--offload"), answer(*words)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 1.5 * SLOW
    assert made["schedule"] == plain["schedule"] and made["schedule"]["overhead"] == 0
    assert {way["way"] for way in made["ways"]} > {way["way"] for way in plain["ways"]}


def test_a_pipeline_of_eighty_layers_is_refused_soon():
    """It took 14 s of the processor: every stage's list was made anew for every amount of memory that was tried; it takes 1."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    made = answer("plan", "llama3-70b", "--batch", "16", "--device", "h100", "--mesh", "dp=2,tp=4,pp=8", "--microbatches", "16",
                  "--effort", "quick", code=NO)
    assert "bytes on every rank would do" in made["refusal"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 4 * SLOW


@pytest.mark.parametrize("question, code, at_most", [
    ("llama2-7b --layers 80 --batch 2 --mesh dp=4,pp=8 --microbatches 16", OK, 6),  # five of its stages are one but for names
    ("llama3-70b --batch 8 --mesh tp=8,pp=4 --microbatches 8", NO, 7)])  # a stage was searched before another was refused
def test_gpipe_of_eighty_layers_is_planned_soon(question, code, at_most):
    """They took 12 and 9.6 s of the processor and take 3.4 and 4.2."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    answer("plan", *question.split(), "--device", "h100", "--schedule", "gpipe", "--effort", "quick", code=code)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < at_most * SLOW


def test_no_plan_of_more_than_a_t4_has(rematd):
    """14.56 GiB are what drivers offer of its 16 GB; this plan was said to fit in 14.85."""
    made = rematd.post("/v1/plans", {"model": "bert-base", "batch": 78, "device": "t4", "sweep": False, "wait": 300}).json
    check(made)
    assert not made["fits"] or made["memory_use"]["driver_bytes"] <= 14.56 * 2**30
    assert made["table"]["memory"] <= 14.56 * 2**30


def test_a_plan_outlasting_its_wait_is_a_job(rematd):
    body = {"model": "gpt2-medium", "batch": 3, "device": "l4", "wait": 0, "optimizer": "momentum"}
    asked = rematd.post("/v1/plans", body)
    assert asked.status == 202 and asked.headers["Location"] == f"/v1/jobs/{asked.json['job_id']}"
    done = rematd.post("/v1/plans", {**body, "wait": 300})
    check(done.json)
    assert done.json["fits"]


def test_plans_of_a_profile(rematd):
    profile = json.loads((PROFILES / "unet.flops.json").read_text())
    asked = {"parameters": 10**6, "device": "t4", "precision": "float32", "optimizer": "sgd", "wait": 300}
    made = rematd.post("/v1/plans", {"profile": profile, "measured_on": "t4", **asked})
    check(made.json)
    assert made.json["table"]["weights"] == 4 * 10**6 and "rows" not in made.json and not made.json["rescaled"]
    by_id = rematd.post("/v1/plans", {"profile_id": made.json["profile_id"], "measured_on": "t4", **asked})
    assert by_id.json["schedule"] == made.json["schedule"]
    # its times are another device's: of one that is not known they are refused, else rescaled and said to be
    for one in ({"profile": profile}, {"profile_id": made.json["profile_id"]}):
        refused = rematd.post("/v1/plans", {**one, **asked})
        assert refused.status == 400 and refused.json["field"] == "measured_on" and "A100-like, analytic" in refused.json["detail"]
        other = rematd.post("/v1/plans", {**one, "measured_on": "a100-40gb", **asked}).json
        check(other)
        assert other["rescaled"] and other["times_of"] == "a100-40gb" and other["profile_id"] != made.json["profile_id"]
        assert 2 < other["compute_seconds"] / made.json["compute_seconds"] < 5  # 19.5 and 8.1 TFLOP/s, 1555 and 320 GB/s
    profile["source"]["device"] = "NVIDIA A100 SXM4 40 GB"  # as a title says it
    assert rematd.post("/v1/plans", {"profile": profile, **asked}).json["schedule"] == other["schedule"]
    del profile["source"]
    assert rematd.post("/v1/plans", {"profile": profile, **asked}).json["schedule"] == made.json["schedule"]
    assert rematd.post("/v1/plans", {"profile_id": "0" * 64, "parameters": 1, "device": "t4"}).status == 404


@pytest.mark.parametrize("change, field, says", [
    ({"model": "gpt5"}, "model", "did you mean gpt2?"), ({"device": "gtx"}, "device", "known are a100-40gb, "),
    ({"optimizer": "lion"}, "optimizer", "known are sgd, "), ({"batch": 0}, "batch", "1 to 1048576"),
    ({"batch": 2**60}, "batch", "1 to 1048576"), ({"precision": "bfloat16"}, "precision", "it has float32, float16"),
    ({"parallel": {"kind": "ddp", "ranks": 0}}, "parallel.ranks", "1 to 1048576"),
    ({"lora": {"rank": 8, "targets": ["query"]}}, "lora.targets", "known are q, k, "),
    ({"sizes": {"window": 64}}, "sizes", "for Llamas"), ({"model": "llama3.2-1b", "sizes": {"kv_rank": 64}}, "sizes.kv_rank", "value_head"),
    ({"model": "llama3.2-1b", "sizes": {"shared_experts": 1}}, "sizes.experts", "there are none"),
    ({"model": "mixtral-8x7b", "sizes": {"dense_layers": 1}}, "sizes.dense_ffn", "not given"),
    ({"model": "dit-s2", "image": 40}, "image", "multiples of 16 pixels"), ({"model": "dit-s2", "sizes": {"hidden": 64}}, "sizes", "no sizes"),
    ({"model": "dit-s2", "parallel": {"mesh": {"tp": 2}}}, "parallel.mesh.tp", "not planned to be cut yet"),
    ({"optimizer_in_backward": True, "parallel": {"kind": "ddp", "ranks": 2}}, "optimizer_in_backward", "ddp sums gradients"),
    ({"optimizer_in_backward": True, "keep_gradients": True}, "keep_gradients", "frees each gradient"),
    ({"optimizer_in_backward": True, "parallel": {"kind": "pipeline", "ranks": 2, "microbatches": 4}}, "optimizer_in_backward", "micro"),
    ({"routing": {"load": "worst"}}, "routing", "gpt2 has no experts"), ({"routing": {"load": "wrst"}}, "routing.load", "did you mean worst?"),
    ({"routing": {"capacity_factor": 0}}, "routing.capacity_factor", "from 0.01"),
    ({"model": "mixtral-8x7b", "device": "h200", "routing": {"capacity_factor": 1, "load": "worst"}}, "routing", "no worst load"),
    ({"model": "mixtral-8x7b", "device": "h200", "routing": {"capacity_factor": 2000}}, "routing.capacity_factor", "from 0.01 to 1000"),
    ({"kernels": "fsed"}, "kernels", "did you mean fused?"), ({"autocast": True, "precision": "float32"}, "autocast", "16 bits"),
    ({"model": "resnet18", "kernels": "fused"}, "kernels", "no kernels"), ({"channels_last": True}, "channels_last", "no channels_last"),
    ({"parallel": {"mesh": {"tp": 5}}}, "parallel.mesh.tp", "5 ranks cannot share 12 heads"),
    ({"parallel": {"mesh": {"dp": 2}}, "network": "nvlnk4"}, "network", "did you mean nvlink4?"),
    ({"device": {"name": "x", "memory_bytes": 1}}, "device.bandwidth_bytes_per_second", "missing")])
def test_bad_plans_name_their_field(rematd, change, field, says):
    refused = rematd.post("/v1/plans", {**GPT2, **change})
    assert refused.status == 400 and refused.json["field"] == field and says in refused.json["detail"]


def test_sizes_past_every_limit_are_refused(rematd):
    huge = rematd.post("/v1/plans", {"model": "llama2-7b", "batch": 2**20, "sequence": 2**20, "device": "h200"})
    assert huge.status == 413 and "2^53" in huge.json["detail"]
    other = rematd.post("/v1/plans", {**GPT2, "solver": "rotor"})
    assert other.status == 422 and other.json["type"] == "/problems/solver-does-not-accept"


@pytest.mark.parametrize("rates", [1, 1e24])
def test_any_legal_device_has_an_answer(rematd, rates):
    device = {"name": "mine", "memory_bytes": 2**40, "bandwidth_bytes_per_second": rates, "flops_per_second": {"float32": rates}}
    made = plan(rematd, device=device, precision="float32", sweep=False)
    assert made.status == 200 and made.json["fits"] and made.json["store_all_seconds"] >= 0
    for name in ("", "a\x1b[31m", "n" * 64):
        refused = plan(rematd, device={**device, "name": name})
        assert refused.status == 400 and refused.json["field"].endswith("name")


def test_plans_do_not_queue_for_ever(make_service):
    """Drafts are made one after another: who comes behind many is told to come again."""
    service = make_service()
    answers = []
    bodies = [{"model": "gpt2-medium", "batch": 1 + k, "device": "h200", "wait": 0} for k in range(40)]
    threads = [threading.Thread(target=lambda b=b: answers.append(service.post("/v1/plans", b))) for b in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [answer.status for answer in answers]
    assert set(statuses) <= {200, 202, 503} and statuses.count(503) >= 1
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers if answer.status == 503)
    assert plan(service, sweep=False).status == 200  # none of them is counted any more


def test_what_there_is(rematd):
    devices = rematd.get("/v1/devices").json["devices"]
    assert [d["name"] for d in devices][:2] == ["a100-40gb", "a100-80gb"] and len(devices) == 19
    assert all(d["sources"]["bandwidth_bytes_per_second"] for d in devices)
    models = {m["name"]: m for m in rematd.get("/v1/models").json["models"]}
    assert models["llama3-8b"]["parameters"] == 8030261248 and models["resnet50"]["image"] == 224
    mine = {k: v for k, v in next(d for d in devices if d["name"] == "t4").items() if k != "sources"}
    assert plan(rematd, device=mine, sweep=False).json["schedule"] == plan(rematd, sweep=False).json["schedule"]


# ---- the command ------------------------------------------------------------------------------------------


def test_the_command_plans_here_and_there_alike(rematd):
    words = ["plan", "gpt2", "--batch", "4", "--device", "t4"]
    here, there = answer(*words), answer(*words, "--server", rematd.url)
    check(here)
    assert here == there
    text = remat(*words).stdout
    for word in ("weights", "states", "left", "fits ", "samples a second", "best"):
        assert word in text, word


def test_seven_billion_within_500_megabytes(tmp_path):
    with (tmp_path / "plan.json").open("w") as out:
        child = subprocess.Popen([REMAT, "plan", "llama2-7b", "--batch", "2", "--device", "h200", "--json"], stdout=out)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    made = json.loads((tmp_path / "plan.json").read_text())
    check(made)
    assert child.returncode == OK and made["fits"] and made["parameters"] == 6738415616 and made["nodes"] > 1000
    assert SLOW > 1 or used.ru_maxrss < 500 * 1024


@pytest.mark.skipif(SLOW > 1, reason="seconds of search")
@pytest.mark.parametrize("words", [["llama2-7b", "--batch", "31", "--device", "h200", "--optimizer", "adafactor"],
                                   ["unet", "--batch", "72", "--device", "t4"]])
def test_what_fits_by_a_row_or_by_search_fits(words):
    made = answer("plan", *words)
    check(made)
    assert made["fits"]
    assert next(one for one in made["largest"] if one["way"] == "remat" and not one["offload"])["batch"] >= made["batch"]


def test_eighty_layers_over_ranks():
    made = answer("plan", "llama3-70b", "--batch", "1", "--sequence", "2048", "--device", "h200", "--no-sweep",
                  "--parallel", "fsdp", "--ranks", "64")
    check(made)
    assert made["fits"] and made["nodes"] > 2700
    assert made["table"]["weights"] == pytest.approx(2 * 70553706496 / 64, rel=1e-3)


def test_kernels_take_less(rematd):
    eager, compiled, fused, cast = (plan(rematd, device="a100-80gb", sweep=False, **more).json for more in (
        {}, {"kernels": "compiled"}, {"kernels": "fused"}, {"autocast": True}))
    for made in (eager, compiled, fused, cast):
        check(made)
    assert fused["store_all_peak"] < compiled["store_all_peak"] < eager["store_all_peak"] < cast["store_all_peak"]
    assert compiled["compute_seconds"] < eager["compute_seconds"] and cast["table"]["cached_bytes"] == 2 * 124439808
    assert [way["way"] for way in eager["ways"]] == ["store-all", "blocks", "selective-op"]
    peaks = {way["way"]: way["peak"] for way in eager["ways"]}
    assert peaks["blocks"] < peaks["selective-op"] < peaks["store-all"] == eager["store_all_peak"]


def test_rows_are_single_plans(rematd):
    """Times are rounded before anything reads them: rows were those of other nanoseconds."""
    swept = plan(rematd, device="t4").json
    for row in swept["rows"][:3]:
        single = {way["way"]: way for way in plan(rematd, device="t4", batch=row["batch"], sweep=False).json["ways"]}
        for cell in (cell for cell in row["ways"] if cell["way"] in single and cell["fits"] and not cell["offload"]):
            assert cell["peak"] == single[cell["way"]]["peak"]
            assert cell["step_seconds"] == pytest.approx(single[cell["way"]]["step_seconds"], rel=1e-12, abs=0)


def test_gradients_that_stay(rematd):
    come, stay = (plan(rematd, device="a100-80gb", sweep=False, keep_gradients=keep).json for keep in (False, True))
    for made in (come, stay):
        check(made)
    assert come["table"]["gradient_bytes"] == stay["table"]["gradients"] == 2 * 124439808
    assert stay["table"]["gradient_bytes"] == come["table"]["gradients"] == 0
    assert come["store_all_memory"]["allocated_bytes"] < stay["store_all_memory"]["allocated_bytes"]
    assert come["store_all_seconds"] == stay["store_all_seconds"]


def test_steps_wait_for_the_host():
    """Of eager modules: operations times what the host takes for one; compiled blocks are launched as a whole."""
    device = next(d for d in json.loads((ROOT / "api" / "plan" / "devices.json").read_text())["devices"] if d["name"] == "h100")
    slow = {**device, "host_seconds": 1e-3, "host_again_seconds": 2e-3}
    words = ["gpt2", "--batch", "1", "--no-sweep", "--precision", "bfloat16"]
    ways = {}
    for name, entry in (("given", device), ("slow", slow)):
        path = f"/tmp/{os.getpid()}-{name}.json"
        with open(path, "w") as file:
            json.dump(entry, file)
        eager, compiled = (answer("plan", *words, "--device", path, *more) for more in ([], ["--kernels", "compiled"]))
        os.unlink(path)
        for made in (eager, compiled):
            check(made)
        ways[name] = {way["way"]: way["step_seconds"] for way in eager["ways"]}, compiled["store_all_seconds"], eager["update_seconds"]
    given, slow = ways["given"], ways["slow"]
    assert given[1] == slow[1]
    operations = (slow[0]["store-all"] - slow[2]) / 1e-3
    assert operations == pytest.approx(round(operations)) and 600 <= operations <= 640  # 625 are seen in a trace of it
    assert given[0]["store-all"] == pytest.approx(40e-6 * operations + given[2])
    assert 0.2 <= (slow[0]["blocks"] - slow[0]["store-all"]) / 2e-3 / operations <= 0.4  # the forward of the blocks
    # where the host binds what runs again takes it as long with one example as with four: a step of blocks fell by 9 %
    small = ["mpt-125m", "--device", "h100", "--layers", "4", "--sequence", "512", "--no-sweep", "--memory", "3.3GiB"]
    made = [answer("plan", *small, "--batch", str(batch)) for batch in (1, 2, 3, 4)]
    blocks = [next(way["step_seconds"] for way in one["ways"] if way["way"] == "blocks") for one in made]
    assert blocks == pytest.approx([blocks[0]] * 4) and blocks[0] > 1.3 * made[0]["step_seconds"]
    again = [one["recomputation_seconds"] for one in made]  # of a schedule too: an operation or more, each 80 us
    assert again[:3] == [0, 0, 0] and again[3] / 80e-6 == pytest.approx(round(again[3] / 80e-6)) and again[3] > 0


def test_measured_steps_are_met():
    """Sixty steps of eager modules on an H100: none takes more than is planned, none less by 5 %; time within 10 % in the median."""
    done = subprocess.run([ROOT / "tests" / "bench" / "measured_plans", "table", BUILD, ROOT / "tests" / "data" / "measured_h100.json"],
                          capture_output=True, text=True, timeout=300 * SLOW)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.endswith("% |")]
    off = {name: [float(row[i].rstrip(" %")) for row in rows] for name, i in (("allocated", 6), ("driver", 10), ("seconds", 12))}
    assert len(rows) == 60
    assert min(off["allocated"]) >= 0 and max(off["allocated"]) <= 5
    assert statistics.median(map(abs, off["seconds"])) <= 5 and abs(statistics.median(off["seconds"])) <= 2
    assert sum(abs(x) <= 10 for x in off["seconds"]) >= 45 and sum(abs(x) <= 20 for x in off["seconds"]) >= 54
    assert sum(abs(x) <= 12 for x in off["driver"]) == 60  # the allocator's gaps are 1 to 25 %, and planned to be 12
    assert done.stdout.strip() == (ROOT / "tests" / "bench" / "measured_plans.md").read_text().split("\n\n", 1)[1].strip()


def test_adapters_beside_what_does_not_fit_in_16_bits(rematd):
    words = ["llama3-8b", "--batch", "1", "--sequence", "512", "--device", "rtx3090", "--memory", "16GiB", "--lora", "8", "--lora-targets", "q,v"]
    change = next(one for one in answer("plan", *words, "--no-sweep", code=NO)["changes"] if "lora" in one["with"])
    assert change["with"] == {"lora": {"rank": 8, "targets": ["q", "v"], "dropout": False, "base": "nf4"}} and change["arguments"] == "--lora-base nf4"
    check(answer("plan", *words, *change["arguments"].split(), "--no-sweep"))


def test_adapters_train_what_does_not_fit_whole(rematd):
    words = ["plan", "llama3-8b", "--batch", "1", "--sequence", "512", "--device", "rtx4090", "--no-sweep"]
    whole = json.loads(remat(*words, "--json", code=NO).stdout)
    change = next(one for one in whole["changes"] if "lora" in one["with"])
    assert change["with"] == {"lora": {"rank": 16}} and change["arguments"] == "--lora 16"
    assert "lora" not in whole and whole["trained_parameters"] == whole["parameters"] == 8030261248
    asked = {"model": "llama3-8b", "batch": 1, "sequence": 512, "device": "rtx4090", "sweep": False, "wait": 300}
    made = {}
    for base in ("frozen", "nf4", "nf4-double"):
        options = ["--lora", "16", "--lora-targets", "q,k,v,o,mlp", "--lora-base", base]
        made[base] = answer(*words, *options)
        check(made[base])
        there = rematd.post("/v1/plans", {**asked, "lora": {"rank": 16, "base": base}}).json
        assert there == made[base]
        assert there["lora"] == {"rank": 16, "targets": ["all-linear"], "dropout": False, "base": base}
        assert there["fits"] and there["trained_parameters"] == 41943040 and there["table"]["gradient_bytes"] == 2 * 41943040
        assert there["table"]["optimizer_states"] == 8 * 41943040
    assert made["frozen"]["name"] == "llama3-8b-b1-512-lora16" and made["nf4"]["name"] == "llama3-8b-b1-512-lora16-nf4"
    linear = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert made["frozen"]["table"]["weights"] - made["nf4"]["table"]["weights"] == linear * (2 - 4.5 / 8)
    assert made["nf4"]["table"]["weights"] - made["nf4-double"]["table"]["weights"] == linear // 64 * 3 - linear // 64 // 256 * 4
    text = remat(*words, *options, "--lora-dropout").stdout
    assert "adapters of rank 16 with 41943040 of them" in text and "4 bits: inputs of matrices are not kept" in text
    refused = remat(*words, "--lora-base", "nf4", code=USAGE).stderr
    assert "--lora-base needs --lora: everything is trained" in refused


def test_what_experts_take(rematd):
    """More with a larger capacity, most on the rank that all tokens go to."""
    words = ["plan", "mixtral-8x7b", "--batch", "1", "--sequence", "1024", "--layers", "2", "--device", "h100", "--no-sweep",
             "--mesh", "dp=4,ep=4"]
    asked = {"model": "mixtral-8x7b", "batch": 1, "sequence": 1024, "layers": 2, "device": "h100", "sweep": False, "wait": 300,
             "parallel": {"mesh": {"dp": 4, "ep": 4}}}
    made = []
    for options, routing in ((["--capacity-factor", "0.5"], {"capacity_factor": 0.5}), (["--expert-load", "balanced"], {"load": "balanced"}),
                             (["--capacity-factor", "1.25"], {"capacity_factor": 1.25}), (["--expert-load", "worst"], {"load": "worst"})):
        made.append(rematd.post("/v1/plans", {**asked, "routing": routing}).json)
        check(made[-1])
        assert answer(*words, *options) == made[-1]
    for less, more in zip(made, made[1:]):
        assert less["store_all_peak"] < more["store_all_peak"] and less["store_all_seconds"] < more["store_all_seconds"]
    said = ["; ".join(one["assumptions"]) for one in made]
    assert "each has 0.5 of an even share" in said[0] and "as many tokens to each" in said[1] and "all tokens of all ranks" in said[3]


def test_the_optimizer_in_the_backward(rematd):
    """The gradients but the largest are gone, and nothing takes longer."""
    made, less = (plan(rematd, device="a100-80gb", sweep=False, **more).json for more in ({}, {"optimizer_in_backward": True}))
    check(less)
    assert made["table"]["gradient_bytes"] == 2 * 124439808 and less["table"]["gradients"] == 2 * 50257 * 768
    assert less["store_all_seconds"] == made["store_all_seconds"] and less["optimizer_in_backward"]
    assert answer("plan", "gpt2", "--batch", "4", "--device", "a100-80gb", "--no-sweep", "--optimizer-in-backward") == less


def test_products_in_8_bits(rematd):
    """Each kind is faster than 16 bits; what it keeps is what it says; the command tells what the service does."""
    asked = {"model": "llama3-8b", "batch": 1, "device": "h100", "precision": "bfloat16", "optimizer": "sgd", "sweep": False, "wait": 300}
    kinds = ("none", "torchao", "te", "te-weights")
    plain, torchao, te, weights = (rematd.post("/v1/plans", {**asked, "fp8": kind}).json for kind in kinds)
    assert "fp8" not in plain and [one["fp8"] for one in (torchao, te, weights)] == list(kinds[1:])
    for one in (plain, torchao, te, weights):
        check(one)
    assert plain["store_all_seconds"] > torchao["store_all_seconds"] > te["store_all_seconds"] > weights["store_all_seconds"]
    assert plain["store_all_peak"] == torchao["store_all_peak"] > te["store_all_peak"] == weights["store_all_peak"]
    assert plain["table"]["fp8_copies"] == torchao["table"]["fp8_copies"] == 0 < weights["table"]["fp8_copies"]
    assert te["table"]["fp8_copies"] - weights["table"]["fp8_copies"] == 2 * 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert "20 % too low" in "".join(te["assumptions"])
    assert answer("plan", "llama3-8b", "--batch", "1", "--device", "h100", "--precision", "bfloat16", "--optimizer", "sgd",
                  "--no-sweep", "--fp8", "te", code=NO) == te
    for more, said in (({"fp8": "e4m3"}, "torchao-gather"), ({"fp8": "te", "precision": "float32"}, "bfloat16"),
                       ({"fp8": "te", "device": "a100-80gb"}, "8"), ({"fp8": "te", "lora": {"rank": 8}}, "lora")):
        refused = rematd.post("/v1/plans", {**asked, **more})
        assert refused.status == 400 and said in refused.json["detail"], refused.body


@pytest.mark.parametrize("words", ["llama3-70b --batch 1 --mesh dp=64", "qwen2.5-72b --batch 2 --mesh dp=16,tp=4",
                                   "llama3-70b --batch 1 --mesh dp=8,sp=8 --kernels compiled --fp8 torchao-gather"])
def test_eighty_layers_take_two_seconds(words):
    """Of the processor, quick, without the sweep over batches."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    answer("plan", *words.split(), "--device", "h200", "--precision", "bfloat16", "--no-sweep", "--effort", "quick")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2 * SLOW


def test_pipelines_have_replicas(rematd):
    """Each way, memory is shared as zero3 has it; what dp ranks send is beside the passes; the command tells what the service does."""
    asked = {"model": "llama3.2-1b", "batch": 1, "sequence": 1024, "layers": 4, "device": "h100", "solver": "lowerset", "sweep": False,
             "wait": 300, "kernels": "compiled"}
    alone, shared, slow, kept = (rematd.post("/v1/plans", {**asked, "network": network, "parallel": {
        **kind, "mesh": {"dp": dp, "pp": 2}, "microbatches": 4}}).json for kind, dp, network in (
            ({}, 1, "200GB/s"), ({}, 8, "200GB/s"), ({}, 8, "1GB/s"), ({"kind": "ddp"}, 8, "200GB/s")))
    assert (alone["parallel"]["ranks"], shared["parallel"]["ranks"]) == (2, 16) and shared["parallel"]["mesh"] == {"dp": 8, "pp": 2}
    assert "data" not in alone["parallel"] and (shared["parallel"]["data"], kept["parallel"]["data"]) == ("zero3", "ddp")
    for one in (alone, shared, slow, kept):
        parts = one["pipeline"]["seconds"] + one["pipeline"]["exchange_seconds"] + one["update_seconds"]
        assert one["fits"] and one["step_seconds"] == pytest.approx(parts, rel=1e-9)
        for way in one["pipeline"]["ways"]:
            assert way["memory"] >= way["memory_use"]["driver_bytes"] - 4096 and way["step_seconds"] > parts / 2  # gaps of a full device
    assert alone["pipeline"]["exchange_seconds"] == 0 < shared["pipeline"]["exchange_seconds"] < slow["pipeline"]["exchange_seconds"]
    for one, eight, whole in zip(alone["pipeline"]["stages"], shared["pipeline"]["stages"], kept["pipeline"]["stages"]):
        assert eight["optimizer_states"] * 8 == pytest.approx(one["optimizer_states"], rel=1e-3)
        assert whole["optimizer_states"] == one["optimizer_states"]
        assert eight["gradients"] == pytest.approx(one["gradients"] * (2 + 1 / 8), rel=1e-3)  # summed in float32, and the shard
    assert answer("plan", "llama3.2-1b", "--batch", "1", "--sequence", "1024", "--layers", "4", "--device", "h100", "--solver", "lowerset",
                  "--kernels", "compiled", "--network", "200GB/s", "--mesh", "dp=8,pp=2", "--microbatches", "4")["pipeline"] == shared["pipeline"]


def test_published_runs_are_met():
    """The bars of the committed table, over the runs that are in the repository."""
    done = subprocess.run([ROOT / "tests" / "bench" / "published", BUILD], capture_output=True, text=True, timeout=900 * SLOW)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("| all |")).replace(" %", "").split("|")
    memory, close, time, median, within = (float(row[i]) for i in (2, 5, 6, 7, 9))
    assert memory >= 38 and close >= 0.9 * memory and time >= 99 and within >= 0.85 * time and abs(median) <= 5
    assert done.stdout.strip() == (ROOT / "tests" / "bench" / "published_results.md").read_text().split("\n\n", 1)[1].strip()


QWEN3 = {"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
         "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936, "max_position_embeddings": 40960,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16", "rope_scaling": None, "_name_or_path": "Qwen/Qwen3-0.6B"}


# DeepSeek-V3 with 4 of its 61 blocks, 3 of them with one MLP, and 16 of its experts
DEEPSEEK = {"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 4, "num_attention_heads": 128, "num_key_value_heads": 128,
            "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 16, "n_shared_experts": 1,
            "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "max_position_embeddings": 163840,
            "tie_word_embeddings": False}
LATENT = 7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168 + 2 * 7168


GPT2_CONFIG = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257, "n_inner": None}


@pytest.mark.parametrize("config, parameters", [
    (QWEN3, 596049920),
    ({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768, "num_local_experts": 8,
      "num_experts_per_tok": 2}, 46702792704 - 30 * 1451270144),
    ({"model_type": "gemma2", "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
      "head_dim": 256, "intermediate_size": 9216, "vocab_size": 256000, "max_position_embeddings": 8192, "sliding_window": 4096},
     2614341888),
    ({"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
      "head_dim": 256, "intermediate_size": 10240, "vocab_size": 262144, "max_position_embeddings": 131072, "sliding_window": 1024},
     3880099328),
    (DEEPSEEK, 2 * 129280 * 7168 + 7168 + 3 * 3 * 7168 * 18432 + 4 * LATENT + 17 * 3 * 7168 * 2048 + 7168 * 16),
    (GPT2_CONFIG, 124439808),
    ({"model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880}, 559214592),  # bigscience/bloom-560m
    ({"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
      "vocab_size": 30522, "max_position_embeddings": 512}, 109482240)])
def test_a_config_is_a_model(rematd, write, config, parameters):  # noqa: F811
    made = rematd.post("/v1/plans", {"config": config, "batch": 1, "sequence": 256, "device": "h200", "sweep": False, "wait": 300})
    check(made.json)
    assert made.json["parameters"] == parameters
    layers = config.get("num_hidden_layers") or config["n_layer"]
    assert made.json["name"].endswith(f"-b1-256-l{layers}")  # what two configs of a kind are told apart by
    words = ["--batch", "1", "--sequence", "256", "--device", "h200", "--no-sweep"]
    assert answer("plan", write("config.json", config), *words)["schedule"] == made.json["schedule"]


@pytest.mark.parametrize("change, field, says", [
    ({"model_type": "mamba"}, "config.model_type", "known are llama"), ({"model_type": None}, "config.model_type", "missing"),
    ({"model_type": None, "_class_name": "DiTTransformer2DModel"}, "config._class_name", "dit-xl2"),
    ({"hidden_size": None}, "config.hidden_size", "missing"), ({"hidden_size": "x"}, "config.hidden_size", "number"),
    ({"vocab_size": 10**12}, "config.vocab_size", "16777216"), ({"num_hidden_layers": 10**6}, "config.num_hidden_layers", "200"),
    ({"num_key_value_heads": "x"}, "config.num_key_value_heads", "number"),
    ({"num_key_value_heads": 3}, "config.num_key_value_heads", "config.num_key_value_heads: 3 heads of keys and values do not divide 16"),
    ({"head_dim": None, "num_attention_heads": 3}, "config.num_attention_heads", "config.num_attention_heads: 3 heads do not divide 1024"),
    ({"hidden_size": 2**21}, "config.hidden_size", "config.hidden_size is 2097152"),
    ({**GPT2_CONFIG, "n_head": 7}, "config.n_head", "7 heads"), ({**GPT2_CONFIG, "n_layer": 201}, "config.n_layer", "config.n_layer is 201"),
    ({"model_type": "bloom", "hidden_size": 64, "n_layer": 300, "n_head": 2}, "config.n_layer", "200"),
    ({"model_type": "bloom", "hidden_size": None, "n_embed": 2**21, "n_layer": 3, "num_attention_heads": 2}, "config.n_embed", "2097152"),
    ({**DEEPSEEK, "moe_intermediate_size": 2**23}, "config.moe_intermediate_size", "8388608"),
    ({**DEEPSEEK, "intermediate_size": 2**23}, "config.intermediate_size", "8388608"),
    ({**DEEPSEEK, "num_experts_per_tok": 17}, "config.num_experts_per_tok", "config.num_experts_per_tok is 17; it must be from 1 to the 16"),
    ({"model_type": "mixtral", "num_local_experts": 2**13, "num_experts_per_tok": 2}, "config.num_local_experts", "4096"),
    ({"attention_bias": True}, "config.attention_bias", "not planned yet"), ({"attention_bias": 1}, "config.attention_bias", "true or false"),
    ({"tie_word_embeddings": "no"}, "config.tie_word_embeddings", "true or false"), ({"model_type": 7}, "config.model_type", "a string"),
    ({"mlp_bias": True}, "config.mlp_bias", "not planned yet"), ({"is_encoder_decoder": True}, "config.is_encoder_decoder", "other than false"),
    ({"model_type": "bert", "is_decoder": True}, "config.is_decoder", "other than false"),
    ({"hidden_act": "gelu"}, "config.hidden_act", 'other than "silu"'), ({"hidden_act": {}}, "config.hidden_act", 'other than "silu"'),
    ({"model_type": "bert", "position_embedding_type": "relative_key"}, "config.position_embedding_type", 'other than "absolute"'),
    ({"model_type": "bloom", "n_layer": 2, "n_head": 2, "tie_word_embeddings": False}, "config.tie_word_embeddings", "other than true"),
    ({"model_type": "llama", "use_sliding_window": True}, "config.use_sliding_window", "not planned yet"),
    ({"model_type": "qwen3_moe", "mlp_only_layers": [1]}, "config.mlp_only_layers", "other than []"),
    ({"model_type": "qwen3_moe", "decoder_sparse_step": 2}, "config.decoder_sparse_step", "other than 1"),
    ({**DEEPSEEK, "moe_layer_freq": 2}, "config.moe_layer_freq", "not planned yet"),
    ({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64, "tie_word_embeddings": False},
     "config.tie_word_embeddings", "other than true"), ({"add_cross_attention": True}, "config.add_cross_attention", "not planned yet"),
    ({"head_dim": "64"}, "config.head_dim", "number"), ({"head_dim": 1.5}, "config.head_dim", "whole"),
    ({"head_dim": 1e300}, "config.head_dim", "whole"),
    ({**DEEPSEEK, "kv_lora_rank": None}, "config.kv_lora_rank", "missing"),
    ({**DEEPSEEK, "v_head_dim": 0.5}, "config.v_head_dim", "whole"),
    ({"model_type": "gemma2", "sliding_window": "all"}, "config.sliding_window", "number"),
    ({"model_type": "llama", "sliding_window": 4096}, "config.sliding_window", "other than null"),
    ({"model_type": "mistral", "sliding_window_pattern": 2}, "config.sliding_window_pattern", "other than null"),
    ({"model_type": "gemma2", "sliding_window_pattern": 6}, "config.sliding_window_pattern", "other than 2"),
    ({"model_type": "gemma2", "attn_logit_softcapping": None}, "config.attn_logit_softcapping", "above 0"),
    ({"model_type": "gemma2", "final_logit_softcapping": "30"}, "config.final_logit_softcapping", "above 0"),
    ({"max_window_layers": -1}, "config.max_window_layers", "from 1"), ({"use_sliding_window": 1}, "config.use_sliding_window", "true or false"),
    ({"layer_types": ["full_attention"] * 27}, "config.layer_types", "28 strings"), ({"layer_types": "full_attention"}, "config.layer_types", "28 strings"),
    ({"layer_types": ["sliding_attention"] * 28}, "config.layer_types[0]", "no window"),
    ({"layer_types": ["full_attention"] * 27 + ["linear_attention"]}, "config.layer_types[27]", "known are full_attention"),
    ({"layer_types": [1] * 28}, "config.layer_types[0]", "a string"),
    ({"model_type": "mistral", "layer_types": ["full_attention"] * 28}, "config.layer_types[0]", "does not read of a mistral"),
    ({"attention_dropout": 1.5}, "config.attention_dropout", "from 0 to 1"), ({"attention_dropout": "0.1"}, "config.attention_dropout", "number"),
    ({**GPT2_CONFIG, "activation_function": "relu"}, "config.activation_function", "relu"),
    ({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "router_jitter_noise": 0.1},
     "config.router_jitter_noise", "other than 0")])
def test_bad_configs_name_their_field(rematd, change, field, says):
    refused = rematd.post("/v1/plans", {"config": {**QWEN3, **change}, "batch": 1, "device": "h200"})
    assert refused.status == 400 and refused.json["field"] == field and says in refused.json["detail"]


def test_layers_asked_for_beside_a_config_are_named(rematd):
    refused = rematd.post("/v1/plans", {"config": QWEN3, "layers": 201, "batch": 1, "device": "h200"})
    assert refused.status == 400 and refused.json["field"] == "layers"


def test_a_config_without_a_member_is_what_transformers_makes_of_it(rematd):
    """configuration_qwen3.py and its like: 32 heads of keys and values, of 128."""
    def parameters(config):
        made = rematd.post("/v1/plans", {"config": config, "batch": 1, "sequence": 64, "device": "h200", "sweep": False, "wait": 300})
        assert made.status == 200, made.body
        return made.json["parameters"]

    small = {"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 32, "intermediate_size": 1024, "vocab_size": 1000,
             "max_position_embeddings": 512, "tie_word_embeddings": False}
    for kind, usual in (("qwen3", {"num_key_value_heads": 32, "head_dim": 128}), ("mistral", {"num_key_value_heads": 8, "head_dim": 16}),
                        ("gemma2", {"num_key_value_heads": 4, "head_dim": 256})):
        assert parameters({"model_type": kind, **small}) == parameters({"model_type": kind, **small, **usual}), kind
    assert parameters({"model_type": "mistral", **small, "num_key_value_heads": None}) == parameters({"model_type": "llama", **small})


def of_config(write, config, *more):  # noqa: F811
    made = answer("plan", write("config.json", config), "--batch", "1", "--device", "h200", "--no-sweep", "--kernels", "compiled", *more)
    return made["store_all_peak"], made["store_all_seconds"], made["assumptions"]


FLAT = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64,
        "intermediate_size": 3072, "vocab_size": 32000, "max_position_embeddings": 8192, "tie_word_embeddings": True}


def test_what_a_config_says_and_is_not_planned_is_said(write):  # noqa: F811
    config = {"model_type": "llama", **FLAT, "architectures": ["LlamaForCausalLM"], "quantization_config": None}
    assert not any("config" in line for line in of_config(write, config)[2])
    other = {"architectures": ["LlamaForSequenceClassification"], "quantization_config": {"quant_method": "awq", "bits": 4}}
    said = [line for line in of_config(write, {**config, **other})[2] if line.startswith("config: ")]
    assert len(said) == 2 and "quantization_config is not read" in said[0] and "head" in said[1]


@pytest.mark.parametrize("kind, says, sliding", [
    ("mistral", {"sliding_window": 512}, 8), ("mistral", {"sliding_window": None}, 0), ("mistral", {}, 8),
    ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}, 0),
    ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 512}, 8),
    ("qwen2", {"sliding_window": 512}, 0), ("qwen2", {"sliding_window": 512, "use_sliding_window": True}, 0),  # from block 28 on
    ("qwen2", {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 5}, 3),
    ("qwen3", {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 0}, 8),
    ("qwen3", {"sliding_window": 512, "use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention"] * 4}, 4),
    ("gemma2", {"sliding_window": 512}, 4), ("gemma2", {"sliding_window": None}, 0),
    ("gemma2", {"sliding_window": 512, "layer_types": ["sliding_attention"] * 7 + ["full_attention"]}, 7),
    ("gemma3_text", {"sliding_window": 512}, 7), ("gemma3_text", {"sliding_window": 512, "sliding_window_pattern": 2}, 4),
    ("gemma3_text", {"sliding_window": 512, "_sliding_window_pattern": 1}, 0)])
def test_windows_of_a_config(write, kind, says, sliding):  # noqa: F811
    """Where transformers has them (configuration_NAME.py): each block that has one saves the same time."""
    config = {"model_type": kind, **FLAT, **says}
    others = {k: v for k, v in config.items() if k not in ("layer_types", "sliding_window_pattern", "_sliding_window_pattern", "max_window_layers")}
    every = {"qwen2": {"max_window_layers": 0, "use_sliding_window": True}, "qwen3": {"max_window_layers": 0, "use_sliding_window": True},
             "gemma2": {"layer_types": ["sliding_attention"] * 8}, "gemma3_text": {"layer_types": ["sliding_attention"] * 8}}.get(kind, {})
    none = {k: v for k, v in others.items() if k not in ("sliding_window", "use_sliding_window")}
    tokens = config.get("sliding_window") or 4096
    _, all_of_them, _ = of_config(write, {**none, **every, "sliding_window": tokens})
    _, without, _ = of_config(write, {**none, "sliding_window": None})
    _, made, _ = of_config(write, config)
    assert all_of_them < without
    assert made == pytest.approx(without - (without - all_of_them) * sliding / 8, rel=1e-9)


def test_dropouts_of_a_config(write):  # noqa: F811
    """What is not dropped has no mask, a byte for each number, nor its copy; within fused attention no bytes are dropped."""
    eager = ["--attention", "eager", "--kernels", "eager", "--sequence", "1024"]
    probabilities = 1024 * 1024 * 16 * 8  # of all heads and blocks
    llama = {"model_type": "llama", **FLAT}
    drops, none = (of_config(write, {**llama, "attention_dropout": part}, *eager) for part in (0.1, 0))
    assert drops[0] - none[0] == 3 * probabilities and drops[1] > none[1]
    assert none == of_config(write, llama, *eager)
    drops, none = (of_config(write, {**llama, "attention_dropout": part}) for part in (0.1, 0.0))
    assert drops[:2] == none[:2]
    assert [line for line in drops[2] if line not in none[2]] == ["dropout: attention drops within its kernel, at no bytes and no time of its own"]
    whole = of_config(write, GPT2_CONFIG, *eager)
    for member, masks in (("embd_pdrop", 1), ("resid_pdrop", 2 * 12), ("attn_pdrop", 12 * 12 * 1024 // 768)):
        less = of_config(write, {**GPT2_CONFIG, member: 0}, *eager)
        assert whole[0] - less[0] >= masks * 1024 * 768 and less[1] < whole[1], member
        assert of_config(write, {**GPT2_CONFIG, member: 0.3}, *eager) == of_config(write, {**GPT2_CONFIG, member: None}, *eager) == whole
    bert = {"model_type": "bert", **{k: FLAT[k] for k in FLAT if "head" not in k or "attention" in k}, "max_position_embeddings": 1024}
    for member in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        assert of_config(write, {**bert, member: 0}, *eager)[0] < of_config(write, bert, *eager)[0]
    bloom = {"model_type": "bloom", "hidden_size": 1024, "n_layer": 4, "n_head": 16, "vocab_size": 32000}
    for member in ("hidden_dropout", "attention_dropout"):
        assert of_config(write, {**bloom, member: 0.1}, *eager)[0] > of_config(write, {**bloom, member: 0}, *eager)[0] == \
            of_config(write, bloom, *eager)[0]
    assert of_config(write, {**GPT2_CONFIG, "activation_function": "gelu"}, *eager)[0] < whole[0]
    masked = of_config(write, {"model_type": "mistral", **FLAT, "sliding_window": 512}, *eager)
    assert "window: scores that are written out are of all tokens, masked" in masked[2]


def test_bad_files_say_what_is_wrong(write):  # noqa: F811
    words = ["--batch", "1", "--device", "h200", "--no-sweep"]
    without = {k: QWEN3[k] for k in QWEN3 if k != "model_type"}
    assert problem("plan", write("config.json", without), *words, code=INPUT)["field"] == "config.model_type"
    assert "dit-xl2" in problem("plan", write("config.json", {"_class_name": "DiTTransformer2DModel"}), *words, code=INPUT)["detail"]
    path = write("config.json", QWEN3)
    path.write_text(path.read_text().replace("1024", "NaN"))
    assert "is not JSON: line 1" in problem("plan", path, *words, code=INPUT)["detail"]


def test_own_sizes():
    words = ["plan", "llama3-8b", "--batch", "1", "--sequence", "256", "--device", "h200", "--no-sweep", "--layers", "2"]
    made = answer(*words, "--hidden", "1024", "--heads", "8", "--kv-heads", "2", "--ffn", "4096", "--vocab", "1000")
    check(made)
    assert made["parameters"] == 2 * 1000 * 1024 + 1024 + 2 * (2 * 1024**2 + 2 * 1024 * 256 + 3 * 1024 * 4096 + 2 * 1024)
    assert made["name"] == "llama3-8b-b1-256-l2"
    experts = answer(*words, "--experts", "4", "--experts-per-token", "2")
    assert experts["parameters"] - answer(*words)["parameters"] == 2 * (3 * 3 * 4096 * 14336 + 4 * 4096)
    for more, field in ((["--heads", "3"], "sizes.heads"), (["--experts", "4"], "sizes.experts_per_token"),
                        (["--hidden", "99999999"], "sizes.hidden")):
        assert problem(*words, *more, code=INPUT)["field"] == field
    assert problem("plan", "gpt2", "--batch", "1", "--device", "t4", "--kv-heads", "2", code=INPUT)["field"] == "sizes"
    assert "did you mean llama3-8b?" in problem("plan", "llama-3-8b", "--batch", "1", "--device", "h100", code=INPUT)["detail"]
    assert "did you mean a100-" in problem("plan", "gpt2", "--batch", "1", "--device", "a100", code=INPUT)["detail"]


def test_on_no_what_would_fit(rematd):
    """Each change that is named is planned again, as options and as members: it fits, and takes what was said."""
    for asked in ({"model": "gpt2-xl", "batch": 8, "device": "rtx4090"}, {"model": "gpt2", "batch": 512, "device": "t4"},
                  {"model": "llama3-8b", "batch": 1, "device": "a100-80gb", "sequence": 2048, "layers": 24}):
        refused = rematd.post("/v1/plans", {**asked, "sweep": False, "wait": 300}).json
        assert not refused["fits"] and len(refused["changes"]) >= 1
        words = ["plan", asked["model"], "--no-sweep"] + [x for k in asked if k != "model" for x in (f"--{k}", str(asked[k]))]
        said = remat(*words, code=NO).stdout
        for change in refused["changes"]:
            assert change["arguments"] in said
            made = rematd.post("/v1/plans", {**asked, **change["with"], "sweep": False, "wait": 300}).json
            check(made)
            if change["way"] == "blocks" and "offload" in change["with"]:  # as in rows, with as many blocks at the host as must be
                assert made["fits"] and made["step_seconds"] <= change["step_seconds"]
                continue
            row = made if change["way"] == "remat" else next(way for way in made["ways"] if way["way"] == "blocks")
            assert made["fits"] and row["memory_use"]["driver_bytes"] == change["driver_bytes"], change["arguments"]
            assert row["step_seconds"] == pytest.approx(change["step_seconds"], rel=1e-12 if change["way"] == "remat" else 1e-6)
        assert refused["changes"][0]["way"] == "remat"
    assert refused["changes"][-1]["with"].keys() <= {"parallel", "lora", "offload"}
    assert "changes" not in plan(rematd, sweep=False).json
    alike = answer(*words[:2], *words[3:], "--no-sweep", code=NO)["changes"]
    assert alike == refused["changes"]


def test_what_would_fit_instead_of_a_mesh():
    """Behind a mesh ranks are refused, and a mesh behind ranks."""
    for asked in (["--mesh", "dp=2"], ["--parallel", "ddp", "--ranks", "2"], ["--mesh", "pp=2", "--microbatches", "4"]):
        words = ["plan", "llama2-7b", "--device", "a100-40gb", "--batch", "1", "--no-sweep", *asked]
        changes = [one["arguments"] for one in answer(*words, code=NO)["changes"] if "parallel" in one["with"]]
        assert len(changes) == 1 and ("--mesh" in changes[0]) == ("--mesh" in asked)
        assert answer(*words, *changes[0].split())["fits"]


@pytest.mark.parametrize("question", [
    "llama2-13b --batch 4 --device a100-40gb --parallel pipeline --ranks 2 --microbatches 8",
    "llama3-8b --batch 1 --device h100 --mesh dp=2,pp=2 --microbatches 4 --schedule gpipe --layers 48",
    "llama2-13b --batch 1 --device a100-40gb --parallel pipeline --ranks 2 --microbatches 4 --schedule interleaved"])
def test_on_no_of_a_pipeline_what_would_fit(rematd, question):
    """Told by a way that people use, which the change's own plan has with the same figures and does not take longer than."""
    words = ["plan", *question.split(), "--effort", "quick"]
    refused = answer(*words, code=NO)
    assert not refused["fits"] and len(refused["changes"]) >= 1
    assert all("offload" not in one["with"] and "optimizer_in_backward" not in one["with"] for one in refused["changes"])
    said = remat(*words, code=NO).stdout
    for change in refused["changes"]:
        assert f"{change['arguments']} " in said
        made = answer(*words, *change["arguments"].split())
        way = next(way for way in made["pipeline"]["ways"] if way["way"] == change["way"])
        assert made["fits"] and made["step_seconds"] <= change["step_seconds"] * (1 + 1e-9)
        assert way["fits"] and way["memory_use"]["driver_bytes"] == change["driver_bytes"] and way["step_seconds"] == change["step_seconds"]
    more = refused["changes"][0]
    asked = {"model": words[1], "batch": refused["batch"], "device": refused["device"], "effort": "quick", "wait": 0, **more["with"]}
    assert rematd.post("/v1/plans", asked).status in (200, 202)


def test_what_of_a_network_is_not_given_is_assumed():
    words = ["plan", "tinyllama-1.1b", "--batch", "1", "--device", "h100", "--no-sweep", "--kernels", "compiled"]
    between, latency, node = ("between nodes", "a collective takes 40 us", "8 ranks to a node")
    for more, assumed in ((["--mesh", "dp=16", "--network", "200GB/s"], [between, latency, node]),
                          (["--mesh", "dp=8", "--network", "200GB/s"], [latency]),
                          (["--mesh", "dp=16", "--network", "nvlink4", "--node-ranks", "4"], [between]),
                          (["--mesh", "dp=16", "--network", "nvlink4+50GB/s", "--node-ranks", "4"], [latency]),
                          (["--mesh", "dp=16", "--network", "200GB/s@9us+ndr"], [node]),
                          (["--mesh", "dp=16", "--network", "200GB/s@9us+50GB/s@9us", "--node-ranks", "8"], []),
                          (["--mesh", "dp=8,pp=2", "--microbatches", "2", "--network", "nvlink4"], [between, node])):
        said = [line for line in answer(*words, *more)["assumptions"] if line.startswith("network: ")]
        assert len(said) == len(assumed) and all(part in line for part, line in zip(assumed, said)), more
    said = [line for line in answer(*words, "--mesh", "dp=16")["assumptions"] if line.startswith("network: ")]
    assert said == ["network: nvlink4+ndr, as nodes of this device are sold"]


def test_a_profile_keeps_its_device(write):  # noqa: F811
    words = ["plan", PROFILES / "vit-b16.flops.json", "--parameters", "86567656", "--precision", "float32", "--device", "h100"]
    assert "which device that is" in problem(*words, code=INPUT)["detail"]
    said = remat(*words, "--measured-on", "a100-40gb").stdout
    assert "of a100-40gb, rescaled by the rooflines of both" in said
    same = answer("plan", PROFILES / "vit-b16.flops.json", *words[2:-1], "a100-40gb", "--measured-on", "a100-40gb")
    assert not same["rescaled"] and answer(*words, "--measured-on", "a100-40gb")["compute_seconds"] < same["compute_seconds"]


def test_ranks_wait_for_what_they_send():
    words = ["plan", "llama3.2-1b", "--layers", "4", "--sequence", "2048", "--batch", "2", "--device", "a100-80gb", "--no-sweep"]
    fast, slow, tensor = (answer(*words, *more) for more in (
        ["--mesh", "dp=64,shard=8"], ["--mesh", "dp=64,shard=8", "--network", "235GB/s@40us+1GB/s@60us"],
        ["--parallel", "ddp", "--mesh", "dp=2,tp=4", "--node-ranks", "4"]))
    for made in (fast, slow, tensor):
        check(made)
    assert fast["parallel"] == {"kind": "zero3", "ranks": 64, "mesh": {"dp": 64, "shard": 8}}
    assert fast["communication_seconds"] < slow["communication_seconds"] <= slow["sent_seconds"]
    assert slow["compute_seconds"] == fast["compute_seconds"] and slow["network"] == "235GB/s@40us+1GB/s@60us"
    assert tensor["parallel"]["mesh"] == {"dp": 2, "tp": 4} and tensor["node_ranks"] == 4
    said = remat(*words, "--parallel", "sequence", "--ranks", "8").stdout
    assert "over 8 ranks (dp 1, sp 8) on nvlink3+hdr" in said and "communication" in said
    experts = answer("plan", "mixtral-8x7b", "--layers", "2", "--sequence", "512", "--batch", "1", "--device", "h100", "--no-sweep",
                     "--mesh", "dp=8,ep=4")
    check(experts)
    assert any("as many tokens to each" in one for one in experts["assumptions"])
    assert any("nvlink4+ndr, as nodes" in one for one in experts["assumptions"])
    assert [a for a in slow["assumptions"] if "network" in a] == ["network: 8 ranks to a node, as they are sold"]
    assert experts["parallel"] == {"kind": "zero3", "ranks": 8, "mesh": {"dp": 8, "ep": 4}} and experts["communication_seconds"] > 0
    for more in (["--mesh", "dp:8"], ["--mesh", ""], ["--mesh", "dp=2,dp=4"], ["--network", "ndr"]):
        remat(*words, *more, code=USAGE)
    problem(*words, "--parallel", "pipeline", "--ranks", "2", code=INPUT)
    problem(*words, "--parallel", "pipeline", "--ranks", "4", "--microbatches", "2", "--schedule", "interleaved", code=INPUT)
    problem("plan", PROFILES / "resnet50.chain.json", "--device", "t4", "--measured-on", "t4", "--parallel", "pipeline", "--ranks", "100",
            "--microbatches", "8", code=INPUT)
    problem("plan", PROFILES / "gpt.joint.json", "--device", "t4", "--measured-on", "t4", "--parallel", "pipeline", "--ranks", "2",
            "--microbatches", "8", code=INPUT)
    problem("plan", PROFILES / "gpt.flops.json", "--device", "t4", "--measured-on", "t4", "--parallel", "pipeline", "--ranks", "2",
            "--microbatches", "8", "--parameters", "1000", code=INPUT)


# ---- pipelines --------------------------------------------------------------------------------------------


def pipeline_device(write, memory):  # noqa: F811
    """What gpt.flops was made for, with nothing beside activations, and sends that take no time."""
    return write("device.json", json.dumps({
        "name": "A100-like, analytic", "memory_bytes": memory, "context_bytes": 0, "communicator_bytes": 0, "eager_fragmentation": 0,
        "bandwidth_bytes_per_second": 1.4e12, "flops_per_second": {"float32": 1e14}, "link_bytes_per_second": 1e10, "launch_seconds": 0,
        "compiled_fragmentation": 0, "network": "1000000000GB/s@0us+1000000000GB/s@0us"}))


def check_pipeline(made):
    p = made["pipeline"]
    assert made["fits"] == ("stages" in p) != ("refusal" in made)
    assert p["lower_bound_seconds"] <= made["step_seconds"] and p["seconds"] <= made["step_seconds"]
    at, names = 0, []
    for rank, stage in enumerate(p["stages"]):
        assert stage["rank"] == rank and stage["first_unit"] == at and stage["memory"] <= p["memory"]
        assert stage["schedule"]["verified"] and stage["schedule"]["arena"] <= stage["budget"]
        assert stage["memory"] >= stage["held_bytes"] + stage["working_bytes"]
        at = stage["last_unit"] + 1
        names.append(stage["schedule"]["schedule_id"])
    assert at == p["units"] and len(set(names)) == len(names) == made["parallel"]["mesh"]["pp"]
    for way in p["ways"]:
        assert way["fits"] == (way["memory"] <= p["memory"]) != ("lacks" in way)
        assert not way["fits"] or made["step_seconds"] <= way["step_seconds"]


def without_embedding(write):  # noqa: F811
    profile = json.loads((PROFILES / "gpt.flops.json").read_text())
    embedded = profile["nodes"][2]
    return write("blocks.json", json.dumps(profile | {
        "inputs": [{"id": embedded["id"], "bytes": embedded["output_bytes"]}, profile["inputs"][1]], "nodes": profile["nodes"][3:]}))


# found by an emulation with cuts between blocks, as many in flight as usual, and another judge
@pytest.mark.parametrize("ranks, memory, microbatches, most", [(4, 6418000000, 8, 571), (2, 8022000000, 32, 3252)])
def test_a_pipeline_of_a_profile(write, ranks, memory, microbatches, most):  # noqa: F811
    made = answer("plan", without_embedding(write), "--device", pipeline_device(write, memory), "--parallel", "pipeline", "--ranks",
                  str(ranks), "--microbatches", str(microbatches), "--runtime", "none")
    check_pipeline(made)
    assert made["step_seconds"] * 1e3 <= most
    assert [way["way"] for way in made["pipeline"]["ways"]] == ["store-all", "blocks"] and any("attention" in a for a in made["assumptions"])


def test_sends_count_in_the_bound_and_no_way_is_faster():
    for more in ([], ["--schedule", "gpipe"]):
        made = answer("plan", PROFILES / "vit-b16.flops.json", "--device", "t4", "--measured-on", "t4", "--parallel", "pipeline", "--ranks", "4",
                      "--microbatches", "2", *more)
        check_pipeline(made)
        assert made["pipeline"]["gap"] < 0.06  # 0.12 and 0.18 without


def test_a_pipeline_of_a_large_model():
    made = answer("plan", "gpt2-xl", "--layers", "96", "--hidden", "12288", "--heads", "96", "--batch", "2", "--device", "a100-80gb",
                  "--mesh", "pp=16,tp=8", "--microbatches", "128")
    check_pipeline(made)
    assert made["pipeline"]["gap"] <= 0.03 and all(way["step_seconds"] > made["step_seconds"] for way in made["pipeline"]["ways"])
    assert [way["way"] for way in made["pipeline"]["ways"]] == ["store-all", "blocks", "attention"]
    # embedding and head have the token matrix both, an even share of the blocks
    weights = [stage["weights"] for stage in made["pipeline"]["stages"]]
    assert sum(weights) > made["parameters"] / 8 * 6 and made["parallel"]["ranks"] == 128


@pytest.mark.parametrize("words", ["llama3.2-1b --sequence 64 --device h100 --parallel pipeline --ranks 2",
                                   "llama3-8b --sequence 128 --device h200 --parallel pipeline --ranks 4"])
@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_cuts_share_the_optimizer_too(words, microbatches):
    """Where a step has few passes, by them alone the first rank had one block, and equal cuts were up to 1.66 times as fast."""
    made = answer("plan", *words.split(), "--batch", "1", "--microbatches", str(microbatches))
    check_pipeline(made)
    assert made["pipeline"]["gap"] < 0.06 and made["update_seconds"] > 0


@pytest.mark.parametrize("words", ["--mesh pp=3,dp=2 --layers 2 --microbatches 1", "--mesh pp=8,dp=2 --layers 16 --microbatches 2 --optimizer sgd"])
def test_what_is_beside_the_passes_is_the_same_in_plan_and_answer(words):
    """It was of two ranks in one and of one in the other: the same cuts promised more for ever."""
    check_pipeline(answer("plan", "tinyllama-1.1b", "--batch", "1", "--device", "h200", *words.split()))


@pytest.mark.parametrize("effort", [[], ["--effort", "quick"]])
def test_one_unit_that_takes_most_of_the_time(write, effort):  # noqa: F811
    """Longer than any stage that is looked at first, and in every cut."""
    nodes = [{"id": f"n{i}", "inputs": [f"n{i - 1}" if i else "x"], "forward_time": 1000 if i else 30000, "output_bytes": 1000000} for i in range(8)]
    profile = {"format": "remat-profile/1", "name": "one", "time_unit": "us", "inputs": [{"id": "x", "bytes": 1000000}], "nodes": nodes}
    check_pipeline(answer("plan", write("one.json", json.dumps(profile)), "--device", "h100", "--measured-on", "h100", "--parallel", "pipeline",
                          "--ranks", "8", "--microbatches", "2", *effort))
    check_pipeline(answer("plan", "gpt2", "--layers", "5", "--batch", "1", "--device", "h100", "--mesh", "pp=7", "--microbatches", "4", *effort))


@pytest.mark.parametrize("words", ["resnet152 --batch 64 --device rtx4090 --mesh pp=8 --microbatches 4 --no-master --keep-gradients",
                                   "resnet152 --batch 64 --device l4 --optimizer adam --mesh pp=8,dp=2 --microbatches 8 --runtime megatron",
                                   "resnet152 --batch 64 --device h100 --mesh pp=5 --microbatches 8"])
def test_quickly_no_way_is_faster_either(words):
    """With as many in flight as usual nothing was found beside sends, and with fewer a step took 3.8 times as long."""
    check_pipeline(answer("plan", *words.split(), "--effort", "quick"))


def test_a_plan_has_the_name_that_was_posted(make_service):
    service = make_service()
    profile = json.loads((PROFILES / "gpt.flops.json").read_text())
    first = service.post("/v1/profiles", profile | {"name": "first"}).json["profile_id"]
    terms = {"device": "t4", "measured_on": "t4", "wait": 300}
    for parallel in ({"parameters": 1}, {"parallel": {"kind": "pipeline", "ranks": 2, "microbatches": 2}}):
        asked = service.post("/v1/plans", terms | parallel | {"profile": profile | {"name": "second"}}).json
        known = service.post("/v1/plans", terms | parallel | {"profile_id": first}).json
        assert (asked["name"], known["name"]) == ("second", "first")


def test_a_draft_ends_when_its_asker_hangs_up(make_service):
    """The cuts of 256 unequal stages take many seconds before the first question is asked."""
    service = make_service()

    def processor_seconds():
        with open(f"/proc/{service.process.pid}/stat") as stat:
            return sum(map(int, stat.read().split()[13:15])) / os.sysconf("SC_CLK_TCK")

    device = {"name": "d", "memory_bytes": 40 << 30, "bandwidth_bytes_per_second": 1e12, "flops_per_second": {"float32": 1e14},
              "link_bytes_per_second": 1e10, "network": "100GB/s@0us+100GB/s@0us"}
    body = json.dumps({"profile": big_chain(256), "device": device, "measured_on": device,
                       "parallel": {"kind": "pipeline", "ranks": 16, "microbatches": 64, "runtime": "none"}}).encode()
    with socket.create_connection(("127.0.0.1", service.port)) as asker:
        asker.sendall(b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(1.5)
        assert not service.get("/v1/jobs").json["jobs"]  # the draft, not a solve
    time.sleep(1 * SLOW)
    before = processor_seconds()
    time.sleep(1.5)
    assert processor_seconds() - before < 0.15


def test_a_pipeline_that_does_not_fit_says_who_and_what_would():
    words = ["plan", "gpt2", "--batch", "64", "--parallel", "pipeline", "--ranks", "4", "--microbatches", "8", "--runtime", "megatron"]
    refused = answer(*words, "--device", "t4", code=NO)
    least = refused["pipeline"]["least_memory"]
    lacks = least - refused["pipeline"]["memory"]
    assert not refused["fits"] and "rank" in refused["refusal"] and lacks > 0
    assert f"{least} bytes on every rank would do, {lacks} more than there are" in refused["refusal"]
    for way in refused["pipeline"]["ways"]:
        assert not way["fits"] and way["lacks"] == way["memory"] - refused["pipeline"]["memory"] and 0 <= way["rank"] < 4


def test_of_equal_stages_one_is_asked_where_nobody_keeps_what_they_answer(rematd):
    """A server asks each, so that every rank finds its schedule there; the answers are the same, ids too."""
    words = ["plan", "gpt2", "--vocab", "1000", "--layers", "8", "--batch", "4", "--sequence", "512", "--device", "t4", "--memory", "3500000000",
             "--parallel", "pipeline", "--ranks", "4", "--microbatches", "6", "--schedule", "gpipe", "--effort", "quick"]
    here, there = answer(*words), answer(*words, "--server", rematd.url, "--wait", "300")
    stages = here["pipeline"]["stages"]
    assert stages == there["pipeline"]["stages"] and here["step_seconds"] == there["step_seconds"]
    same, other = stages[1]["schedule"], stages[2]["schedule"]
    assert same.pop("schedule_id") != other.pop("schedule_id") and same == other and same["overhead"] > 0
    for stage in there["pipeline"]["stages"]:
        assert rematd.get(f"/v1/schedules/{stage['schedule']['schedule_id']}").json["profile_id"] == stage["profile_id"]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_what_is_said_to_do_does_and_little_less(rematd, schedule):
    """Of gpipe all micro-batches wait for their backwards: nor does the last block of a stage stay, as the loss does."""
    device = next(d for d in rematd.get("/v1/devices").json["devices"] if d["name"] == "t4")

    def made(memory):
        parallel = {"kind": "pipeline", "ranks": 3, "microbatches": 8, "schedule": schedule}
        return rematd.post("/v1/plans", {"model": "gpt2", "batch": 4, "sequence": 512, "layers": 5, "wait": 300, "parallel": parallel,
                                         "device": {k: v for k, v in device.items() if k != "sources"} | {"memory_bytes": memory}}).json

    least = made(10**9)["pipeline"]["least_memory"]
    check_pipeline(made(least))
    assert not made(int(least / 1.1))["fits"]


def test_a_service_refuses_a_pipeline_of_a_model(rematd):
    """Nothing is asked of any stage, and no profile is stored."""
    asked = {"model": "gpt2", "batch": 64, "device": "t4", "parallel": {"kind": "pipeline", "ranks": 4, "microbatches": 8}}
    refused = rematd.post("/v1/plans", asked).json
    assert not refused["fits"] and f"{refused['pipeline']['least_memory']} bytes on every rank would do" in refused["refusal"]
    said = answer("plan", "gpt2", "--batch", "64", "--device", "t4", "--parallel", "pipeline", "--ranks", "4", "--microbatches", "8",
                  "--server", rematd.url, code=NO)
    assert said["refusal"] == refused["refusal"]


def test_the_play_of_a_pipeline_is_told(rematd):
    parallel = {"kind": "pipeline", "ranks": 3, "microbatches": 6, "play": True}
    made = rematd.post("/v1/plans", {"model": "gpt2", "batch": 8, "sequence": 512, "layers": 5, "device": "t4", "wait": 300,
                                     "parallel": parallel}).json
    check_pipeline(made)
    for stage in made["pipeline"]["stages"]:
        passes = stage["passes"]
        assert sorted((kind, k) for kind, k, *_ in passes) == [(kind, k) for kind in "BF" for k in range(6)]
        seconds = {"F": stage["forward_seconds"], "B": stage["backward_seconds"]}
        for (kind, _, begin, end, during, after), following in zip(passes, [*passes[1:], None]):
            assert end - begin == pytest.approx(seconds[kind]) and (not following or end <= following[2])
            assert 0 < after <= during <= stage["memory"]
        assert max(p[4] for p in passes) == stage["memory"]
    assert max(p[3] for stage in made["pipeline"]["stages"] for p in stage["passes"]) == made["pipeline"]["seconds"]
    many = rematd.post("/v1/plans", {"model": "gpt2", "batch": 1, "device": "t4", "parallel": parallel | {"ranks": 12, "microbatches": 4096}})
    assert many.status == 400 and many.json["field"] == "parallel.play" and "98304" in many.json["detail"]
    alone = rematd.post("/v1/plans", {"model": "gpt2", "batch": 1, "device": "t4", "parallel": {"kind": "ddp", "ranks": 2, "play": True}})
    assert alone.status == 400 and alone.json["field"] == "parallel.kind"


def chain_asked(nodes, memory, ranks, network="1GB/s@1us", inputs=(("x", 1024, 0),), **parallel):
    """Forward and backward seconds, bytes, saved, workspaces of both, and what else a node has."""
    device = {"name": "d", "memory_bytes": memory, "bandwidth_bytes_per_second": 1e12, "flops_per_second": {"float32": 1e12}, "context_bytes": 0,
              "communicator_bytes": 0, "eager_fragmentation": 0, "compiled_fragmentation": 0, "link_bytes_per_second": 0, "launch_seconds": 0,
              "network": f"{network}+1GB/s@0us"}
    names = ["forward_time", "backward_time", "output_bytes", "saved_bytes", "forward_workspace_bytes", "backward_workspace_bytes"]
    profile = {"format": "remat-profile/1", "name": "chain", "time_unit": "s",
               "inputs": [{"id": i, "bytes": size, "gradient_bytes": back} for i, size, back in inputs],
               "nodes": [{"id": f"n{i}", "inputs": [f"n{i - 1}" if i else "x"], "backward_uses_inputs": False,
                          "backward_uses_output": False, **dict(zip(names, node)), **(node[6] if node[6:] else {})} for i, node in enumerate(nodes)]}
    return {"profile": profile, "device": device, "measured_on": device, "wait": 300,
            "parallel": {"kind": "pipeline", "ranks": ranks, "runtime": "none", "microbatches": 3, **parallel}}


def test_more_memory_makes_no_pipeline_slower_where_sends_are_slow(rematd):
    """The peak of a stage need not meet what is on its way: with 222720 bytes 60.24 s fit."""
    k, before = 10240, float("inf")
    nodes = [(5, 4, 2 * k, 0, 4 * k, 4 * k), (1, 6, 8 * k, k, k, k), (3, 2, 4 * k, 0, 0, 0), (5, 1, 1024, 3 * k, 0, 0)]
    for memory, most in ((174080, 81.34), (200000, 81.34), (222720, 60.25), (230000, 58.25)):
        made = rematd.post("/v1/plans", chain_asked(nodes, memory, 3, "20000B/s@500000us")).json
        check_pipeline(made)
        assert made["pipeline"]["seconds"] <= min(most, before)
        before = made["pipeline"]["seconds"]


def test_no_cut_parts_a_state_or_a_gradient(rematd):
    plain, late = (1, 2, 1000, 0, 0, 0), (1, 2, 1000, 0, 0, 0, {"inputs": ["n2", "x"]})
    writes, reads = ((1, 2, 1000, 0, 0, 0, {name: ["s"]}) for name in ("writes", "reads"))
    for nodes, gradient, units in (([plain] * 3 + [late, plain], 0, 5), ([plain] * 3 + [late, plain], 1000, 2),
                                   ([plain] * 4, 0, 4), ([writes, plain, reads, plain], 0, 2), ([writes, plain, plain, reads], 0, 1)):
        asked = chain_asked(nodes, 10**7, 2, inputs=[("x", 1024, gradient)])
        asked["profile"]["states"] = [{"id": "s", "bytes": 100}]
        made = rematd.post("/v1/plans", asked)
        if units == 1:
            assert made.status == 400 and made.json["field"] == "parallel.ranks" and "no state in common" in made.json["detail"]
            continue
        check_pipeline(made.json)
        assert made.json["pipeline"]["units"] == units


def test_a_slice_of_a_device_and_blocks_at_the_host(rematd):
    words = ["plan", "gpt2-medium", "--batch", "8", "--device", "a100-80gb", "--no-sweep"]
    whole, part = (answer(*words, *more) for more in ([], ["--memory", "20 GB"]))
    assert part["table"]["memory"] == 20 * 10**9 == part["memory_use"]["device_bytes"] and whole["table"]["memory"] > 4 * part["table"]["memory"]
    assert part["table"]["weights"] == whole["table"]["weights"] and part["compute_seconds"] == whole["compute_seconds"]
    assert not answer(*words, "--memory", "4GiB", code=NO)["fits"]
    for memory in (0, "much", "50%", 10**16):
        refused = rematd.post("/v1/plans", {"model": "gpt2", "batch": 1, "device": "t4", "device_memory": memory})
        assert refused.status == 400 and refused.json["field"] == "device_memory"
    ways = {way["way"]: way for way in answer(*words, "--offload")["ways"]}
    assert "offloaded" not in {way["way"] for way in whole["ways"]}
    assert ways["offloaded"]["peak"] <= ways["blocks"]["peak"] and ways["offloaded"]["step_seconds"] >= ways["blocks"]["step_seconds"]


def test_interleaved_stages_hold_and_wait_as_published(rematd):
    """Korthikanti et al. 2022: activations x (1 + (p - 1) / (p v)); Narayanan et al. 2021: bubble (p - 1) / (v m) of the work."""
    p, m, nodes = 4, 8, [(1, 2, 0, 1000, 0, 0)] * 32

    def plan_of(memory, **more):
        return rematd.post("/v1/plans", chain_asked(nodes, memory, p, "1000000000GB/s@0us", [("x", 1, 0)], microbatches=m, **more)).json

    held = plan_of(10**9)["pipeline"]["ways"][0]["memory"]
    for v in (2, 4, 8):
        made = plan_of(10**9, schedule="interleaved", chunks=v)
        all_kept = made["pipeline"]["ways"][0]
        assert made["fits"] and made["pipeline"]["way"] == "store-all" and "stages" not in made["pipeline"]
        assert made["parallel"]["chunks"] == v and made["step_seconds"] == all_kept["step_seconds"]
        assert all_kept["memory"] == pytest.approx(held * (1 + (p - 1) / (p * v)), abs=2 * m)  # a byte of input each
        assert all_kept["step_seconds"] == pytest.approx(3 * 8 * m * (1 + (p - 1) / (v * m)))
        less = plan_of(all_kept["memory"] - 1, schedule="interleaved", chunks=v)
        assert not less["pipeline"]["ways"][0]["fits"] and less["pipeline"].get("way") != "store-all"


def test_a_rank_has_all_its_interleaved_stages():
    """Each weight once: of one stage a rank and of two the optimizer reads as much in all."""
    words = ["plan", "gpt2-xl", "--batch", "1", "--device", "a100-80gb", "--parallel", "pipeline", "--ranks", "4", "--microbatches", "8"]
    said = remat(*words, "--schedule", "interleaved").stdout
    assert "interleaved, 2 stages a rank, 8 micro-batches" in said and "by store-all, ranks wait for" in said and "lower bound" not in said
    one, two = (answer(*words, *more) for more in ([], ["--schedule", "interleaved", "--chunks", "3"]))
    ways = [made["pipeline"]["ways"][1]["memory"] for made in (one, two)]  # blocks: weights and what goes with them, mostly
    assert ways[1] == pytest.approx(ways[0], rel=0.15) and two["parallel"]["chunks"] == 3
    refused = answer("plan", "gpt2-xl", "--batch", "8", "--device", "t4", *words[6:], "--schedule", "interleaved", code=NO)
    assert not refused["fits"] and "gpipe and 1f1b" in refused["refusal"] and "step_seconds" not in refused


def test_effort_is_for_the_stages_whose_lists_are_improved(rematd):
    asked = {"model": "gpt2", "batch": 1, "device": "a100-40gb", "effort": "thorough", "wait": 300,
             "parallel": {"kind": "pipeline", "ranks": 2, "microbatches": 4}}
    made = rematd.post("/v1/plans", asked).json
    check_pipeline(made)
    assert {stage["schedule"]["solver"] for stage in made["pipeline"]["stages"]} == {"store-all"}
    for more in ({"effort": "much"}, {"effort": 3}, {"solver": "store-all"}):
        refused = rematd.post("/v1/plans", {**asked, **more})
        assert refused.status == 400 and refused.json["field"] == "effort"


def test_every_rank_fetches_its_schedule(rematd):
    words = ["plan", "gpt2", "--batch", "8", "--sequence", "512", "--layers", "5", "--device", "t4", "--parallel", "pipeline", "--ranks", "3",
             "--microbatches", "6"]
    asked = {"model": "gpt2", "batch": 8, "sequence": 512, "layers": 5, "device": "t4", "wait": 300,
             "parallel": {"kind": "pipeline", "ranks": 3, "microbatches": 6}}
    first, again = rematd.post("/v1/plans", asked), rematd.post("/v1/plans", asked)
    assert first.body == again.body and again.headers["X-Remat-Cache"] == "hit"
    made = first.json
    check_pipeline(made)
    for stage in made["pipeline"]["stages"]:
        schedule = rematd.get(f"/v1/schedules/{stage['schedule']['schedule_id']}").json
        assert schedule["profile_id"] == stage["profile_id"] and schedule["budget"] == stage["budget"]
        assert rematd.get(f"/v1/profiles/{stage['profile_id']}").json["nodes"] == stage["nodes"]
        replayed = rematd.post("/v1/simulations", {"profile_id": stage["profile_id"], "operations": schedule["operations"],
                                                       "in_flight": stage["in_flight"]}).json
        assert replayed["valid"] and replayed["makespan"] * 1e-6 == pytest.approx(stage["forward_seconds"] + stage["backward_seconds"])
        assert replayed["peak"] <= stage["held_bytes"] + stage["working_bytes"] <= stage["budget"]
    here, there = answer(*words), answer(*words, "--server", rematd.url)
    assert [s["schedule"]["schedule_id"] for s in here["pipeline"]["stages"]] == \
        [s["schedule"]["schedule_id"] for s in there["pipeline"]["stages"]]
    assert here["step_seconds"] == there["step_seconds"] == made["step_seconds"]


def test_a_plan_that_does_not_fit_says_no():
    said = remat("plan", "gpt2-xl", "--batch", "8", "--device", "rtx4090", code=NO).stdout
    assert "more than the device has" in said and " no: weights" in said
    problem("plan", "gpt2", "--batch", "1", "--device", "gtx", code=INPUT)
    for words in (["gpt2"], ["gpt2", "--device", "t4", "--batch", "x"], ["--device", "t4"],
                  ["0" * 64, "--device", "t4", "--parameters", "1"]):
        remat("plan", *words, code=USAGE)
    remat("plan", "gpt2", "--batch", "1", "--device", "t4", "--server", "http://127.0.0.1:1", code=SERVER)


def test_the_whole_device_as_budget(write):  # noqa: F811
    profile = json.loads((PROFILES / "vit-b16.flops.json").read_text())
    words = ["solve", "--local", "-b", "8GB", "--whole-device", "--optimizer", "adamw"]
    made = answer(*words, write("vit.json", profile))
    planned = ["plan", write("vit2.json", profile), "--parameters", "86567656", "--device", "a100-80gb", "--measured-on", "a100-80gb"]
    table = answer(*planned, "--precision", "float32")["table"]
    assert answer(*planned)["table"] == table  # in what its numbers are, as for the whole device
    assert answer(*planned, "--no-master")["precision"] == "bfloat16"  # of which float32 has none
    beside = sum(table[name] for name in ("weights", "gradients", "optimizer_states"))
    left = (8 * 10**9 - table["context"]) / 1.12 - beside - table["workspaces"]  # the gaps of the allocator are of the budget, not of the device
    assert made["budget"] == pytest.approx(left, abs=2) and made["arena"] <= made["budget"]
    narrow = answer(*words, "--precision", "bfloat16", "--no-master", write("vit4.json", profile))["budget"]
    assert narrow == pytest.approx((8 * 10**9 - table["context"]) / 1.12 - 8 * 86567656 - table["workspaces"], abs=2)
    remat(*words, "--reserved", "1GB", write("vit3.json", profile), code=USAGE)
    del profile["source"]
    remat(*words, write("bare.json", profile), code=USAGE)
    assert answer(*words, "--parameters", "86567656", write("bare2.json", profile))["budget"] == made["budget"]


# ---- the executor's own networks -----------------------------------------------------------------------------


def train(*words, code=OK):
    done = subprocess.run([str(TRAIN), *words], capture_output=True, text=True, timeout=120 * SLOW)
    assert done.returncode == code, (done.stdout[-1000:], done.stderr[-1000:])
    return done


SMALL = {"resnet18": ["--batch", "2", "--image", "32", "--width", "0.25"],
         "densenet121": ["--batch", "2", "--image", "32", "--width", "0.25"],
         "unet": ["--batch", "1", "--image", "32", "--width", "0.25"], "googlenet": ["--batch", "2", "--image", "32"],
         "gpt": ["--batch", "1", "--time", "32", "--width", "0.25"], "lstm": ["--batch", "4", "--time", "20"],
         "vgg19": ["--batch", "2", "--image", "32", "--width", "0.25"],
         "siamese": ["--batch", "2", "--image", "32", "--width", "0.25"],
         "resnet50": ["--batch", "2", "--image", "32", "--width", "0.25"],
         "crossmodal": ["--batch", "2", "--image", "32", "--width", "0.25"]}


@pytest.mark.parametrize("model", some(SMALL))
def test_the_planned_peak_is_taken(model):
    words = ["--model", model, *SMALL[model], "--plan", "--check", "--steps", "1", "--json", "--quiet"]
    for budget in ([], ["--budget", "80%"]):
        code = NO if budget and model in ("vgg19", "resnet18") else OK  # whose largest operation takes more
        done = train(*words, *budget, code=code)
        if code == NO:
            continue
        made = json.loads(done.stdout)
        assert abs(made["measured_whole_peak"] / made["whole_peak"] - 1) < 0.02
        assert made["measured_arena"] == made["arena"]


def test_calibrate_writes_a_device(tmp_path):
    if SLOW > 1:
        pytest.skip("kernels under a sanitizer are no kernels of the device")
    entry = answer("calibrate")
    assert entry["name"] == "calibrated" and entry["flops_per_second"]["float32"] > 0
    entry["operators"] = {"convolution_1x1": {"forward": [[1e6, 0.03]]}}  # as clients/pytorch/examples/calibrate.py adds
    (tmp_path / "mine.json").write_text(json.dumps(entry))
    made = answer("plan", "resnet18", "--batch", "8", "--image", "64", "--device", tmp_path / "mine.json", "--no-sweep")
    assert made["device"] == "calibrated" and made["precision"] == "float32" and made["step_seconds"] > 0
    said = train("--model", "resnet18", *SMALL["resnet18"], "--plan", "--device", str(tmp_path / "mine.json"), "--json")
    assert json.loads(said.stdout)["predicted_step"] > 0
    train("--model", "gpt", "--plan", "--local", "--server", "http://x", code=USAGE)
    train("--model", "gpt", "--check", "--budget", "1GB", code=USAGE)
