"""A server that lies: answers of the daemon, mutated, for every command of the CLI and so for the C library. The command
ends with a documented code, no sanitizer reports, no escape sequence comes through, and no figure of a schedule is
printed that a replay does not give.

REMAT_MUTATIONS: a tenth of it is how many answers (default 300); REMAT_SEED: of the draw (default 1)."""

import concurrent.futures
import copy
import http.server
import json
import os
import random
import subprocess
import threading
import urllib.parse

import pytest

from conftest import BUILD, SLOW
from test_mutations import GRAPH, JOIN, SMALL, mutate_bytes, mutate_tree, to_text

N = int(os.environ.get("REMAT_MUTATIONS", 3000)) // 10 // SLOW
SEED = int(os.environ.get("REMAT_SEED", 1))
REMAT = BUILD / "clients" / "cli" / "remat"
LIES = ("makespan", "peak", "overhead", "store_all_makespan", "store_all_peak", "arena", "recomputed_time", "lower_bound",
        "gap", "budget", "alignment", "profile_id", "requested_solver")


class Liar:
    """Answers GET and POST with what `answers` says for the path, whoever asks."""

    def __init__(self):
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = urllib.parse.urlsplit(self.path).path.split("/")  # "", number of the mutant, "v1", ..
                status, body = liar.mutants[int(parts[1])].get("/".join(parts[2:]), (404, b'{"title": "none"}'))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("X-Remat-Cache", "hit")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.mutants = {}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def liar():
    one = Liar()
    yield one
    one.server.shutdown()
    one.server.server_close()


def questions(service, folder):
    """(command, path that is lied about, genuine answers by path) of calls that go well."""
    calls = []
    profiles = [service.post("/v1/profiles", document).json["profile_id"] for document in (SMALL, GRAPH, JOIN)]
    whole = {f"v1/profiles/{known}": service.get(f"/v1/profiles/{known}").json for known in profiles}
    listed = service.get("/v1/profiles").json
    for document, known in zip((SMALL, GRAPH, JOIN), profiles):
        file = folder / f"{document['name']}-{known[:4]}.json"
        file.write_text(json.dumps(document))
        for more, options in ((), {}), (("--link", "pcie3-x16"), {"link": {"preset": "pcie3-x16"}}), \
                (("--no-layout",), {"layout": False}):
            asked = service.post("/v1/schedules", {"profile_id": known, "budget": "90%", **options}).json
            own = {**whole, "v1/schedules": asked, f"v1/schedules/{asked['schedule_id']}": asked}
            calls += [(("solve", "-b", "90%", *more, file), "v1/schedules", own),
                      (("solve", "-b", "90%", "--json", *more, known), "v1/schedules", own),
                      (("solve", "-b", "90%", *more, known), f"v1/profiles/{known}", own),
                      (("show", asked["schedule_id"]), f"v1/schedules/{asked['schedule_id']}", own)]
        listing = folder / f"list-{known[:4]}.json"
        listing.write_text(json.dumps(asked["operations"]))
        curve = service.post("/v1/tradeoffs", {"profile_id": known, "points": 5}).json
        calls += [(("curve", "--points", "5", file), "v1/tradeoffs", {**whole, "v1/tradeoffs": curve}),
                  (("simulate", known, listing), f"v1/profiles/{known}", whole),
                  (("profile", "show", known), f"v1/profiles/{known}", whole),
                  (("simulate", known[:12], listing), "v1/profiles", {**whole, "v1/profiles": listed})]
    own_model = service.push("join-4-10-12")["profile_id"]
    whole[f"v1/profiles/{own_model}"] = service.get(f"/v1/profiles/{own_model}").json
    toy = service.post("/v1/schedules", {"profile_id": own_model, "budget": 12, "solver": "join",
                                         "options": {"model": "pebble"}}).json
    assert toy["model"] == "pebble"
    calls += [(("solve", "-b", "12", "--solver", "join", "--option", "model=pebble", own_model), "v1/schedules",
               {**whole, "v1/schedules": toy}),
              (("show", toy["schedule_id"]), f"v1/schedules/{toy['schedule_id']}",
               {**whole, f"v1/schedules/{toy['schedule_id']}": toy})]
    job = service.post("/v1/schedules", {"profile_id": profiles[0], "budget": "97%", "wait": 0})
    job = service.get(job.headers["Location"]).json
    calls += [(("jobs", "show", job["job_id"]), f"v1/jobs/{job['job_id']}", {f"v1/jobs/{job['job_id']}": job}),
              (("jobs", "list"), "v1/jobs", {"v1/jobs": service.get("/v1/jobs").json}),
              (("profile", "list"), "v1/profiles", {"v1/profiles": listed}),
              (("solvers",), "v1/solvers", {"v1/solvers": service.get("/v1/solvers").json}),
              (("show", asked["schedule_id"][:8]), "v1/schedules", {**own, "v1/schedules": service.get("/v1/schedules").json})]
    return calls


def run(liar, number, command, answers):
    """The command, asking a server of these answers: (status, body) by path."""
    liar.mutants[number] = answers
    env = {name: value for name, value in os.environ.items() if not name.startswith("REMAT")}
    done = subprocess.run([REMAT, command[0], "--server", f"{liar.url}/{number}", *command[1:]], capture_output=True, env=env,
                          stdin=subprocess.DEVNULL, timeout=30 * SLOW)
    del liar.mutants[number]
    story = (command, done.returncode, done.stdout[-1500:], done.stderr[-1500:], answers)
    assert done.returncode in (0, 1, 2, 3, 4) and b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, story
    assert b"\x1b" not in done.stdout + done.stderr, story
    return done


def plain(answers):
    return {path: (200, json.dumps(tree).encode()) for path, tree in answers.items()}


def mutant(draw, tree):
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        tree = mutate_tree(draw, tree)
    body = to_text(draw, tree)
    return mutate_bytes(draw, body) if draw.random() < 0.2 else body


def test_mutated_answers(rematd, liar, tmp_path):
    calls, draw = questions(rematd, tmp_path), random.Random(SEED)
    for number, (command, _, answers) in enumerate(calls):  # as they are, they are taken
        done = run(liar, -1 - number, command, plain(answers))
        assert done.returncode == 0, (command, done.stderr)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ends = lie_often(pool, liar, calls, draw)
    print(ends)
    assert sum(ends.values()) == N and ends.get(4, 0) > N / 4


def lie_often(pool, liar, calls, draw):
    ends = {}
    made = []
    for number in range(N):
        command, path, answers = draw.choice(calls)
        lied = {**plain(answers), path: (draw.choice([200, 200, 200, 200, 202, 400, 503]), mutant(draw, copy.deepcopy(answers[path])))}
        if lied[path][0] == 503:
            command = (command[0], "--timeout", "0.2", *command[1:])
        made.append((command, path, answers, lied, pool.submit(run, liar, number, command, lied)))
    for command, path, answers, lied, end in made:
        done = end.result()
        ends[done.returncode] = ends.get(done.returncode, 0) + 1
        if done.returncode == 0 and command[0] == "solve" and "--json" in command and path == "v1/schedules" and lied[path][0] == 200:
            told, true = json.loads(done.stdout), answers[path]
            for name in ("makespan", "peak", "budget", "profile_id"):
                assert told["operations"] != true["operations"] or told[name] == pytest.approx(true[name], rel=1e-8), (name, told)
    return ends


@pytest.mark.parametrize("name", LIES)
def test_each_lie_is_told(rematd, liar, tmp_path, name):
    """One figure at a time is wrong: the command says which, and prints none."""
    known = rematd.post("/v1/profiles", SMALL).json["profile_id"]
    asked = rematd.post("/v1/schedules", {"profile_id": known, "budget": "90%"}).json
    honest = {f"v1/profiles/{known}": rematd.get(f"/v1/profiles/{known}").json, f"v1/schedules/{asked['schedule_id']}": asked}
    assert isinstance(asked[name], (int, float, str)), name
    wrong = {**asked, name: {"profile_id": "0" * 64, "requested_solver": "rotor", "alignment": 3}.get(name) or
             (asked[name] + 1 if isinstance(asked[name], int) else asked[name] * 2 + 1)}
    lies = plain({**honest, "v1/schedules": wrong})
    done = run(liar, 0, ("solve", "-b", "90%", known), lies)
    assert done.returncode == 4 and name.encode() in done.stderr and not done.stdout, done
    text = run(liar, 0, ("solve", "-b", "90%", "--json", known), lies)
    assert text.returncode == 4 and not text.stdout and name in json.loads(text.stderr)["detail"]
    if name not in ("requested_solver", "budget", "profile_id"):  # which only who asked knows
        lies = plain({**honest, f"v1/schedules/{asked['schedule_id']}": wrong})
        assert run(liar, 0, ("show", asked["schedule_id"]), lies).returncode == 4


def test_lists_and_addresses_that_are_wrong(rematd, liar):
    known = rematd.post("/v1/profiles", SMALL).json["profile_id"]
    asked = rematd.post("/v1/schedules", {"profile_id": known, "budget": "90%"}).json
    first, second = [i for i, (_, kind, *_) in enumerate(asked["allocations"]) if kind in ("input", "out")][:2]
    moved = copy.deepcopy(asked["allocations"])
    moved[second][3] = moved[first][3]  # both are alive
    far = copy.deepcopy(asked["allocations"])
    far[first][3] += asked["budget"]
    for change, word in (({"operations": []}, b"not valid"), ({"operations": asked["operations"][1:]}, b"not valid"),
                         ({"operations": [["F", 0]] + asked["operations"]}, b"not valid"), ({"allocations": moved}, b"overlap"),
                         ({"allocations": far}, b"arena"), ({"allocations": asked["allocations"][:-1]}, b"allocations"),
                         ({"nodes": asked["nodes"][::-1]}, b"another network"), ({"nodes": []}, b"another network"),
                         ({"model": "pebble"}, b""), ({"link": {"bytes_per_time_unit": 1}}, b"link")):
        lies = plain({f"v1/profiles/{known}": rematd.get(f"/v1/profiles/{known}").json, "v1/schedules": {**asked, **change}})
        done = run(liar, 0, ("solve", "-b", "90%", known), lies)
        assert done.returncode == 4 and word in done.stderr and not done.stdout, (change, done)


def test_another_profile_than_its_id(rematd, liar):
    """A server that changes the profile, too, is found out by the profile's id."""
    known = rematd.post("/v1/profiles", SMALL).json["profile_id"]
    other = copy.deepcopy(rematd.get(f"/v1/profiles/{known}").json)
    other["profile"]["nodes"][0]["forward_time"] = 7
    asked = rematd.post("/v1/schedules", {"profile_id": known, "budget": "90%"}).json
    lies = plain({f"v1/profiles/{known}": other, "v1/schedules": asked})
    done = run(liar, 0, ("solve", "-b", "90%", known), lies)
    assert done.returncode == 4 and b"another id" in done.stderr and not done.stdout


def test_simulate_of_files_asks_nobody(tmp_path):
    (tmp_path / "p.json").write_text(json.dumps(SMALL))
    (tmp_path / "s.json").write_text('[["F", 0]]')
    done = subprocess.run([REMAT, "simulate", "--server", "http://127.0.0.1:1", tmp_path / "p.json", tmp_path / "s.json"],
                          capture_output=True, timeout=30 * SLOW)
    assert done.returncode == 1 and b"not valid" in done.stdout
