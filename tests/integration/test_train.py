"""remat-train, as a user runs it: here, with a server, and where something is wrong."""

import http.server
import copy
import json
import resource
import subprocess
import threading

import pytest
from conftest import BUILD, ROOT, SLOW

TRAIN = BUILD / "clients" / "executor" / "remat-train"
REMAT = BUILD / "clients" / "cli" / "remat"
SIZE = ["--batch", "8", "--image", "32", "--width", "0.125", "--classes", "10"]
SMALL = [*SIZE, "--rounds", "1"]
RESNET = ["--model", "resnet18", *SMALL]
KNOWN = ["--model", "resnet18", *SIZE]  # of which nothing is measured


def train(*words, code=0, **more):
    done = subprocess.run([str(TRAIN), *map(str, words)], capture_output=True, text=True, timeout=300 * SLOW, **more)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def solve(profile, output, *words):
    subprocess.run([str(REMAT), "solve", "--local", str(profile), "-o", str(output), *words], check=True,
                   capture_output=True, timeout=300 * SLOW)
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "profile.json"
    train(*RESNET, "--profile-only", "-o", path)
    return path


def test_help_and_list():
    text = train("--help").stdout
    for word in ("--model", "--budget", "--compare", "--schedule", "--backend", "exit codes"):
        assert word in text
    names = [line.split()[0] for line in train("--list").stdout.splitlines()]
    assert len(names) == 13 and {"vgg19", "resnet50", "gpt", "lstm", "unet", "siamese", "crossmodal"} <= set(names)
    assert train("--version").stdout.startswith("remat-train ")


def test_list_and_version_as_json(tmp_path):
    listed = json.loads(train("--list", "--json").stdout)
    assert [one["name"] for one in listed] == [line.split()[0] for line in train("--list").stdout.splitlines()]
    assert listed[0]["image"] == 224 and all(one["summary"] and one["batch"] > 0 for one in listed)
    train("--list", "--json", "-o", tmp_path / "list.json")
    assert json.loads((tmp_path / "list.json").read_text()) == listed
    assert f"remat-train {json.loads(train('--version', '--json').stdout)['version']}\n" == train("--version").stdout


def test_manual_page_covers_every_option():
    page = (ROOT / "clients" / "executor" / "command" / "remat-train.1").read_text().replace("\\-", "-")
    for line in train("--help").stdout.splitlines():
        for word in line.replace(",", " ").split():
            if word.startswith("--") and line.startswith("  "):
                assert word.rstrip(".;") in page, word
    warned = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z",
                             str(ROOT / "clients" / "executor" / "command" / "remat-train.1")], capture_output=True, text=True)
    assert warned.returncode == 0 and warned.stderr == ""


def test_profile_is_measured(profile):
    nodes = json.loads(profile.read_text())["nodes"]
    assert all(node["forward_time"] > 0 and node["backward_time"] >= 0 for node in nodes)
    assert any("alternatives" in node for node in nodes)


def test_local_within_the_budget():
    answer = json.loads(train(*RESNET, "--budget", "80%", "--local", "--steps", "3", "--json", "--guard").stdout)
    assert answer["arena"] <= answer["budget"] < answer["store_all_peak"]
    assert len(answer["losses"]) == 3 and answer["predicted_step"] > 0 and answer["step"] > 0


@pytest.mark.parametrize("exact", [True, False])
def test_compare_says_what_differs(exact):
    runs = json.loads(train(*RESNET, "--budget", "80%", "--local", "--steps", "3", "--compare", "--json",
                            *(["--exact"] if exact else [])).stdout)
    assert [run["solver"] for run in runs] == ["store-all", "chen-graph", "auto"]
    assert all(run["faithful"] for run in runs[1:]) and runs[2]["arena"] <= runs[2]["budget"]
    for run in runs[1:]:
        assert run["relative_difference"] < 1e-3
        if exact:  # else storing everything may take implementations with less workspace than the fastest
            assert runs[2]["budget"] < runs[0]["arena"]
            assert run["equal"] and run["losses"] == runs[0]["losses"]


def test_schedule_of_a_file(profile, tmp_path):
    schedule = solve(profile, tmp_path / "schedule.json", "--budget", "80%")
    answer = json.loads(train(*KNOWN, "--schedule", tmp_path / "schedule.json", "--steps", "2", "--json").stdout)
    assert answer["arena"] == schedule["arena"] and answer["solver"] == schedule["solver"]
    same = json.loads(train(*KNOWN, "--schedule", tmp_path / "schedule.json", "--profile", profile, "--steps", "2",
                            "--json").stdout)
    assert same["losses"] == answer["losses"] and same["predicted_step"] > 0


@pytest.mark.parametrize("words", [
    ["--model", "unet", "--batch", "1", "--image", "32", "--width", "0.125"],
    ["--model", "lstm", "--batch", "2", "--time", "8", "--width", "0.25"],
], ids=["unet", "lstm"])
def test_a_budget_is_that_of_the_service(words, rematd, tmp_path):
    """A percentage is of the profile as it is read, whose implementations are as fast as it says; values of small ones too
    begin at multiples of 256 bytes, as devices need."""
    path = tmp_path / "profile.json"
    document = json.loads(train(*words, "--profile-only", "--rounds", "1").stdout)
    for turn in (1, -1) if "unet" in words else (1,):
        for node in document["nodes"]:
            for k, way in enumerate([node, *node.get("alternatives", [])][::turn] if "alternatives" in node else []):
                way["forward_time"] = way["backward_time"] = 10.0 + k
        path.write_text(json.dumps(document))
        there = solve(path, tmp_path / "schedule.json", "--budget", "100%", "--alignment", "256")
        for place in (["--local"], ["--server", rematd.url]):
            here = json.loads(train(*words, "--profile", path, *place, "--budget", "100%", "--steps", "2", "--json").stdout)
            assert here["budget"] == there["budget"] and here["arena"] == there["arena"]
            assert here["predicted_step"] == pytest.approx(1e-6 * there["makespan"])


def test_copies_to_the_host():
    words = [*RESNET, "--local", "--steps", "2", "--json", "--exact"]
    kept = json.loads(train(*words, "--budget", "110%", "--solver", "store-all").stdout)
    moved = json.loads(train(*words, "--budget", "100%", "--solver", "offload-all", "--link", "1TB/s").stdout)
    assert moved["losses"] == kept["losses"] and moved["arena"] < kept["arena"]


def test_text_is_data():
    learnt = json.loads(train("--model", "lstm", "--batch", "16", "--time", "20", "--width", "0.125", "--rounds", "1",
                              "--budget", "60%", "--local", "--steps", "60", "--rate", "1", "--json", "--data",
                              ROOT / "LICENSE").stdout)["losses"]
    assert learnt[-1] < 0.8 * learnt[0]


def test_with_a_server(rematd):
    words = [*RESNET, "--budget", "80%", "--server", rematd.url, "--steps", "3", "--json"]
    answer = json.loads(train(*words).stdout)
    assert answer["arena"] <= answer["budget"] and answer["schedule_id"]
    kept = rematd.get(f"/v1/schedules/{answer['schedule_id']}/measurements").json
    measured = kept["measurements"][-1]
    assert measured["peak"] == answer["arena"] and measured["steps"] == 2
    assert measured["step_time"] == pytest.approx(answer["step"] * 1e6)


TINY = ["--model", "lstm", "--batch", "2", "--time", "2", "--width", "0.0625", "--rounds", "1", "--exact", "--budget", "110%",
        "--local", "--steps", "2"]


@pytest.mark.parametrize("threads, clock, name", [(1, "CPU time", "cpu"), (2, "wall clock", "wall")])
def test_clocks_and_overhead_are_told(threads, clock, name):
    words = [*TINY, "--threads", threads, "--overhead"]
    said = train(*words).stdout
    assert f" of {clock}, predicted " in said and "of the step beyond its calls" in said and " of wall clock; " in said
    lines = train(*words, "--compare").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  schedule "))
    assert lines[at - 1] == f"  step: {clock}; overhead: of it, beyond its calls; enqueued: wall clock"
    assert lines[at].split()[3:6] == ["step", "overhead", "enqueued"]
    assert len(lines) == at + 4 and all(line.split()[8] == "%" for line in lines[at + 1:])
    assert json.loads(train(*words, "--json").stdout)["step_clock"] == name


# ---- what goes wrong ----

@pytest.mark.parametrize("words, code, said", [
    ([], 2, "which network"),
    (["--model", "resnet18"], 2, "how much memory"),
    (["--model", "resnet18", "--budget", "1GiB", "--local", "--server", "http://x"], 2, "--server does nothing beside --local"),
    (["--model", "resnet18", "--budget"], 2, "needs a value"),
    (["--model", "resnet18", "--batch", "0"], 2, "--batch is \"0\""),
    (["--colour"], 2, "no option --colour"),
    (["--model", "alexnet", "--budget", "1GiB"], 3, "no network \"alexnet\""),
    (["--model", "vgg19", "--image", "8", "--budget", "1GiB"], 3, "too small"),
    (["--model", "vgg19", "--batch", "4", "--parts", "5", "--budget", "1GiB"], 3, "parts is 5; at most 4"),
    ([*RESNET, "--parts", "2", "--budget", "1GiB"], 3, "does not run in parts"),
    ([*RESNET, "--budget", "lots", "--local"], 3, "budget"),
    ([*RESNET, "--budget", "1GiB", "--local", "--backend", "abacus"], 3, "there are cpu and cuda"),
    ([*RESNET, "--budget", "1GiB", "--local", "--link", "string"], 3, "there is no link \"string\""),
    ([*RESNET, "--schedule", "x", "--link", "12GB/s"], 2, "--link does nothing beside --schedule"),
    ([*RESNET, "--budget", "1GiB", "--local", "--link", "Measured"], 3, "--link may also be measured"),
    (["--model", "gpt", "--budget", "1GiB", "--local", "--image", "32"], 3, "\"gpt\" has no image; its sizes are batch"),
    (["--model", "siamese", "--plan", "--classes", "3"], 3, "\"siamese\" has no classes"),
    ([*RESNET, "--plan", "--time", "3"], 2, "--rounds does nothing beside --plan"),
    ([*KNOWN, "--plan", "--time", "3"], 3, "time is 3, but \"resnet18\" has no time"),
    ([*RESNET, "--budget", "1GiB", "--local", "--data", "/dev/null"], 3, "--data does nothing beside --model resnet18"),
    ([*RESNET, "--budget", "1GiB", "--backend", "cuda", "--threads", "2"], 2, "--threads does nothing beside --backend"),
    (["-qx"], 2, "there is no option -x"), (["-qb"], 2, "-b needs a value"), (["--plan=3"], 2, "--plan takes no value"),
    ([*RESNET, "--budget", "1GiB", "--seed", "0.5"], 2, "--seed is \"0.5\"; it must be a whole number"),
    ([*RESNET, "--budget", "1GiB", "--local", "--threads", "1024"], 3, "threads is 1024; OpenBLAS"),
    ([*RESNET, "--budget", "1GiB", "--json", "-o", "/nowhere/x"], 5, "cannot write /nowhere/x: No such file"),
    ([*RESNET, "--budget", "1GiB", "--local", "--link", "3XB/s"], 3, "its unit is none of B, K"),
    ([*RESNET, "--budget", "\udcff"], 2, "--budget is not UTF-8"),
    ([*RESNET, "--budget", "1KiB", "--local"], 1, "will do"),
    ([*RESNET, "--budget", "1GiB", "--local", "--solver", "magic"], 3, "no solver \"magic\"; known are auto, store-all"),
    ([*RESNET, "--budget", "1GiB", "--server", "http://127.0.0.1:1"], 4, "no server can be reached"),
    ([*KNOWN, "--schedule", "/nowhere.json"], 3, "No such file"),
    (["--model", "gpt", "--budget", "1GiB", "--local", "--data", "/nowhere.txt"], 3, "No such file"),
])
def test_refused(words, code, said):
    done = train(*words, code=code)
    assert said in done.stderr and done.stdout == ""


def test_schedules_that_do_not_belong(profile, tmp_path):
    schedule = solve(profile, tmp_path / "schedule.json", "--budget", "80%")
    path = tmp_path / "bad.json"

    def refused(document, *network):
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return train(*(network or KNOWN), "--schedule", path, code=3).stderr

    assert "another network" in refused(schedule, "--model", "resnet50", *SIZE)
    renamed = ["conv1", *schedule["nodes"][1:]]
    assert "\"conv1\", not \"stem.conv2d.0\"" in refused({**schedule, "nodes": renamed})
    larger = [word if word != "8" else "16" for word in SIZE]
    assert "overlap" in refused(schedule, "--model", "resnet18", *larger)
    assert "not valid" in refused({**schedule, "operations": schedule["operations"][:-5]})
    assert "allocations" in refused({**schedule, "allocations": schedule["allocations"][:-5]})
    assert "bad.json" in refused(json.dumps(schedule)[:2000])
    assert "not a schedule" in refused({})


def test_profile_of_another_network(profile):
    done = train("--model", "resnet50", *SIZE, "--profile", profile, "--budget", "1GiB", "--local", code=3)
    assert "nodes" in done.stderr
    done = train("--model", "resnet18", *SIZE, "--batch", "9", "--profile", profile, "--budget", "1GiB", "--local",
                 code=3)
    assert "node 0" in done.stderr or "input" in done.stderr


def test_profile_with_other_alternatives(profile, tmp_path):
    """Kernels take the workspace they need: a profile that promises less is refused, one without alternatives is not."""
    given = json.loads(profile.read_text())
    at = next(v for v, node in enumerate(given["nodes"]) if node.get("alternatives"))
    path = tmp_path / "changed.json"
    for field, value in (("name", "winograd"), ("forward_workspace_bytes", 1), ("backward_workspace_bytes", 1)):
        changed = copy.deepcopy(given)
        changed["nodes"][at]["alternatives"][-1][field] = value
        path.write_text(json.dumps(changed))
        done = train(*KNOWN, "--profile", path, "--budget", "1GiB", "--local", code=3)
        assert f"node {at} of the profile" in done.stderr
    for node in given["nodes"]:
        node.pop("alternatives", None)
    path.write_text(json.dumps(given))
    train(*KNOWN, "--profile", path, "--budget", "1GiB", "--local", "--steps", "1")


@pytest.mark.skipif(SLOW > 1, reason="sanitizers reserve address space of their own")
def test_too_little_memory():
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    done = train("--model", "resnet18", "--batch", "64", "--budget", "100%", "--local", "--rounds", "1", code=3,
                 preexec_fn=limit)
    assert "bytes for" in done.stderr


class Vanishing(http.server.BaseHTTPRequestHandler):
    """Passes questions on to a real server, and is gone when the measurement comes."""
    real = None

    def pass_on(self, method):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/measurements"):
            threading.Thread(target=lambda: (self.server.shutdown(), self.server.server_close())).start()
            self.close_connection = True
            return
        answer = self.real.call(method, self.path, json.loads(body) if body else None, check=False)
        self.send_response(answer.status)
        for name in ("Content-Type", "Location"):
            if answer.headers[name]:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def do_GET(self):
        self.pass_on("GET")

    def do_POST(self):
        self.pass_on("POST")

    def log_message(self, *_):
        pass


def test_server_that_goes_away(rematd, tmp_path):
    handler = type("Handler", (Vanishing,), {"real": rematd})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever).start()
    done = train(*RESNET, "--budget", "90%", "--server", f"http://127.0.0.1:{server.server_port}", "--steps", "3",
                 "--timeout", "5", code=4, cwd=tmp_path)
    assert "after 3 steps" in done.stdout, "the training itself is told"
    assert "server" in done.stderr and list(tmp_path.iterdir()) == []


def test_threads():
    """Products on two threads: schedules still give the bits of storing everything, and the loss is one thread's."""
    words = ["--budget", "80%", "--local", "--steps", "2", "--exact", "--json"]
    one, two = (json.loads(train(*RESNET, *words, "--compare", "--threads", n).stdout) for n in (1, 2))
    assert all(run["equal"] and run["losses"] == two[0]["losses"] for run in two[1:])
    assert two[0]["losses"] == pytest.approx(one[0]["losses"], rel=1e-3)
    done = train(*RESNET, *words, "--threads", "0", code=2)
    assert "--threads" in done.stderr
