"""clients/examples: what they show is true."""

import importlib.util
import json
import os
import random
import re
import subprocess
import sys

import pytest

from conftest import BUILD, PROFILES, ROOT, SLOW

EXECUTOR = ROOT / "clients" / "examples" / "executor.py"
TASKS = ROOT / "clients" / "examples" / "tasks"
LINK = {"to_host": 900, "to_device": 900}


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("executor", EXECUTOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run


def network(draw, nodes):
    """Forward graphs with everything but what is in place: branches, states, saved values, workspaces, alternatives."""
    made = []
    for v in range(nodes):
        before = [n["id"] for n in made]
        reads = [before[-1]] if before else ["x"]
        reads += [one for one in dict.fromkeys([draw.choice(before or ["y"]), "y"]) if v > 2 and one not in reads and draw.random() < 0.4]
        node = {"id": f"n{v}", "inputs": reads, "forward_time": draw.randint(1, 9), "output_bytes": draw.randint(1, 900),
                "gradient_bytes": draw.randint(1, 900), "saved_bytes": draw.choice([0, draw.randint(1, 2000)]),
                "forward_workspace_bytes": draw.randint(0, 300), "save_workspace_bytes": draw.randint(0, 300),
                "backward_workspace_bytes": draw.randint(0, 300), "backward_uses_inputs": draw.random() < 0.6,
                "backward_uses_output": draw.random() < 0.4}
        if draw.random() < 0.2:
            node |= {"reads": ["rng"], "writes": ["rng"]}
        if draw.random() < 0.3:
            node["alternatives"] = [{"name": "lean", "forward_time": 12, "saved_bytes": node["saved_bytes"] // 2,
                                     "backward_workspace_bytes": 0}]
        made.append(node)
    return {"format": "remat-profile/1", "name": "random", "time_unit": "units", "nodes": made, "states": [{"id": "rng", "bytes": 7}],
            "inputs": [{"id": "x", "bytes": 50, "gradient_bytes": 50}, {"id": "y", "bytes": 20}]}


def test_the_executor_reaches_the_told_peak(rematd, run):
    draw, letters = random.Random(11), set()
    for trial in range(12 if SLOW == 1 else 6):
        profile = network(draw, draw.randint(3, 12))
        for budget in ("45%", "75%"):
            body = {"profile": profile, "budget": budget, "layout": False}
            answer = rematd.post("/v1/schedules", dict(body, link=LINK) if trial % 2 else body)
            if answer.status == 422:
                continue
            assert run(profile, answer.json) == answer.json["peak"], json.dumps(profile)
            letters |= {operation[0] for operation in answer.json["operations"]}
    assert letters >= set("FABDOPSR" if SLOW == 1 else "FABD"), letters


def test_the_executor_runs_joint_graphs(rematd, run):
    profile = {"format": "remat-profile/1", "graph": "joint", "name": "joint", "time_unit": "units", "inputs": [{"id": "x", "bytes": 9}],
               "outputs": ["g"], "nodes": [
                   {"id": "a", "inputs": ["x"], "time": 2, "outputs": [{"bytes": 80}, {"bytes": 25}]},
                   {"id": "b", "inputs": ["a"], "time": 3, "output_bytes": 90, "workspace_bytes": 13},
                   {"id": "c", "inputs": ["b"], "time": 1, "output_bytes": 60}, {"id": "d", "inputs": ["c", "b"], "time": 2, "output_bytes": 5},
                   {"id": "g", "inputs": ["d", "a:1", "a"], "time": 1, "output_bytes": 5}]}
    for budget in (240, "100%"):
        told = rematd.post("/v1/schedules", {"profile": profile, "budget": budget, "layout": False}).json
        assert run(profile, told) == told["peak"]


def test_the_executor_as_a_command(rematd):
    profile = json.dumps(network(random.Random(2), 8))
    done = subprocess.run([sys.executable, EXECUTOR, rematd.url, "80%"], input=profile, capture_output=True, text=True, timeout=60 * SLOW)
    told = re.fullmatch(r"\d+ operations, peak (\d+) bytes; told (\d+)\n", done.stdout)
    assert done.returncode == 0 and told and told[1] == told[2], done.stderr
    assert len(EXECUTOR.read_text().splitlines()) <= 60


# ---- what strangers want, ten lines each; schedule_of_a_model.py runs with the tests of clients/pytorch ----

def prints(*command, **more):
    """What it prints, with remat at hand."""
    at_hand = f"{BUILD / 'clients' / 'cli'}:{os.environ['PATH']}"
    done = subprocess.run(command, env=dict(os.environ, PATH=at_hand), capture_output=True, text=True, timeout=120 * SLOW, **more)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_each_task_has_ten_lines():
    files = sorted(TASKS.iterdir())
    assert len(files) == 5
    for file in files:
        code = re.sub(r'^""".*?"""|/\*.*?\*/', "", file.read_text(), flags=re.S)
        lines = [line for line in code.splitlines() if not re.fullmatch(r"\s*([{}]|#(?!include).*)?", line)]
        assert 0 < len(lines) <= 10, (file.name, lines)


def test_the_largest_batch_for_my_card():
    asked = ("gpt2", "--layers", "2", "--device", "t4")
    batch = int(prints(TASKS / "largest_batch.sh", *asked))
    remat = BUILD / "clients" / "cli" / "remat"
    assert [subprocess.run([remat, "plan", *asked, "--batch", str(n), "--no-sweep"], capture_output=True, timeout=60 * SLOW).returncode
            for n in (batch, batch + 1)] == [0, 1]
    told = re.search(r"^  largest +batch (\d+)(?: or more)?, ", prints(remat, "plan", *asked, "--batch", "1"), re.M)
    assert 1 < int(told[1]) <= batch  # lists by units: a schedule may fit a larger one
    assert prints(TASKS / "largest_batch.sh", "llama2-7b", "--device", "t4") == "0\n"
    wrong = subprocess.run([TASKS / "largest_batch.sh", "gpt2", "--device", "t44"], capture_output=True, text=True, timeout=60 * SLOW,
                           env=dict(os.environ, PATH=f"{remat.parent}:{os.environ['PATH']}"))
    assert wrong.returncode > 1 and wrong.stdout == "" and "t4" in wrong.stderr, wrong


def test_why_my_peak_is_so_high(rematd):
    told = prints(sys.executable, TASKS / "why_so_high.py", rematd.url, PROFILES / "unet.flops.json")
    found = re.findall(r"^ *(\d+) bytes: (\w+) of (.+), (\d+) values$", told, re.M)
    assert len(found) == len(told.splitlines()) and ("out", "u0* to u3*") in {(kind, name) for _, kind, name, _ in found}
    schedule = rematd.post("/v1/schedules", {"profile": json.loads((PROFILES / "unet.flops.json").read_text()), "budget": "100%"}).json
    assert sum(int(size) for size, *_ in found) == schedule["peak"] == schedule["store_all_peak"]


def test_a_schedule_in_c(rematd, tmp_path):
    file, built = TASKS / "schedule.c", BUILD / "clients" / "local"
    line = re.search(r"cc -I.*?(?= \*/)", re.sub(r"\n \* ", " ", file.read_text()))[0].replace("$PWD/build", str(BUILD)).replace("-Lbuild", f"-L{BUILD}")
    flags = ["-fsanitize=address"] if b"__asan_init" in (built / "libremat-local.so").read_bytes() else []
    subprocess.run([*line.split(), *flags, "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "schedule"], cwd=ROOT, check=True, timeout=60 * SLOW)
    question = {"profile": json.loads((PROFILES / "resnet50.chain.json").read_text()), "budget": "60%"}
    told = json.loads(prints(tmp_path / "schedule", input=json.dumps(question)))
    asked = rematd.post("/v1/schedules", question).json
    assert told["verified"] and told["schedule_id"] == asked["schedule_id"] and told["operations"] == asked["operations"]
    refused = subprocess.run([tmp_path / "schedule"], input=json.dumps(dict(question, budget=1)), capture_output=True, text=True, timeout=60 * SLOW)
    assert refused.returncode == 1 and json.loads(refused.stdout)["type"] == "/problems/infeasible-budget"


def test_who_is_asking_the_service(make_service, tmp_path):
    tokens = tmp_path / "tokens.json"
    given = {name: subprocess.run([BUILD / "server" / "rematd", "token", "add", name, "read,solve", "--tokens", tokens], check=True,
                                  capture_output=True, text=True).stdout.split()[-1] for name in ("ada", "ci")}
    service = make_service("--tokens", str(tokens))
    for name in ("ci", "ada", "ci"):
        assert service.get("/v1/jobs", headers={"Authorization": f"Bearer {given[name]}"}).status == 200
    assert service.get("/v1/jobs", check=False).status == 401
    assert service.get("/favicon.ico", check=False).status == 404
    service.stop()
    log = 'systemd[1]: Started rematd.service.\n{"message":"request"\n' + "".join(file.read_text() for file in service.logs)
    assert prints(sys.executable, TASKS / "who_asks.py", input=log).split("\n") == [
        "       2 requests of token ci", "       2 requests of address 127.0.0.1", "       1 requests of token ada", ""]
