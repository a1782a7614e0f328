"""remat, the command: the real binary, in-process (--local) and against a real rematd."""

import json
import os
import pty
import random
import re
import select
import shutil
import subprocess
import time

import pytest

from conftest import BUILD, PROFILES, ROOT, SLOW

REMAT = BUILD / "clients" / "cli" / "remat"
REMATD = BUILD / "server" / "rematd"
CLI = ROOT / "clients" / "cli"
CHAIN = PROFILES / "resnet50.chain.json"
GRAPH = PROFILES / "unet.flops.json"
NOWHERE = "http://127.0.0.1:1"
OK, NO, USAGE, INPUT, SERVER, INTERNAL = range(6)
COMMANDS = ["profile", "solve", "curve", "plan", "calibrate", "show", "trace", "simulate", "layout", "snapshots", "jobs", "solvers",
            "mcp", "version"]


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("REMAT") and k not in ("NO_COLOR", "TERM")}
    return {**env, "TERM": "xterm", **more}


def remat(*arguments, code=OK, stdin="", env=None, **more):
    done = subprocess.run([str(REMAT), *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          env=environment(**(env or {})), timeout=120 * SLOW, **more)
    assert done.returncode == code, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def answer(*arguments, **more):
    done = remat(*arguments, "--json", **more)
    assert done.stderr == ""
    return json.loads(done.stdout)


def problem(*arguments, code):
    """The problem document on stderr; nothing may be on stdout."""
    done = remat(*arguments, "--json", code=code)
    assert done.stdout == ""
    document = json.loads(done.stderr)
    assert document["type"].startswith("/problems/") and document["title"] and document["detail"]
    return document


def on_terminal(*arguments, env=None):
    """What the command shows when stdout and stderr are a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(REMAT), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=slave,
                               stderr=slave, env=environment(**(env or {})))
    os.close(slave)
    shown, deadline = b"", time.monotonic() + 120 * SLOW
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait(10) == 0, shown
    return shown.decode()


def random_chain(nodes, seed=1):
    """Costs without any pattern: the table of a chain of n nodes takes time in n cubed."""
    nodes = nodes if SLOW == 1 else nodes // 2
    draw = random.Random(seed)
    chain = [{"id": f"n{i}", "inputs": [f"n{i - 1}" if i else "x"], "forward_time": draw.randint(1, 100),
              "output_bytes": draw.randint(1, 10**6), "saved_bytes": draw.randint(0, 10**6)}
             for i in range(nodes)]
    chain.append({"id": "loss", "inputs": [f"n{nodes - 1}"], "forward_time": 1, "output_bytes": 0})
    return {"format": "remat-profile/1", "name": f"random{nodes}.{seed}",
            "inputs": [{"id": "x", "bytes": 5}], "nodes": chain}


@pytest.fixture
def write(tmp_path):
    def write_file(name, value):
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path
    return write_file


@pytest.fixture
def there(rematd):
    """Runs the command against the server."""
    return lambda *arguments, **more: remat(*arguments, "--server", rematd.url, **more)


@pytest.fixture
def asked(rematd):
    return lambda *arguments, **more: answer(*arguments, "--server", rematd.url, **more)


# ---- in this process ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.json")), ids=lambda p: p.stem)
def test_bundled_profiles_are_valid_and_solved_at_their_store_all_peak(path):
    summary = answer("profile", "check", path)
    assert re.fullmatch("[0-9a-f]{64}", summary["profile_id"])
    assert summary["nodes"] == len(json.loads(path.read_text())["nodes"])
    assert summary["name"] in remat("profile", "check", path).stdout
    schedule = answer("solve", "--local", "--budget", "100%", "--solver", "store-all",
                      "--no-layout", path)
    assert schedule["verified"] and schedule["overhead"] == 0
    assert schedule["peak"] == summary["store_all"]["peak"] == schedule["budget"]


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.chain.json")), ids=lambda p: p.stem)
def test_a_solved_chain_replays_to_what_was_promised(path, tmp_path):
    least = answer("curve", "--local", "--points", 2, path)
    assert [point["feasible"] for point in least] == [True, True]
    budget = (least[0]["budget"] + least[1]["budget"]) // 2
    file = tmp_path / "schedule.json"
    shown = remat("solve", "--local", "--budget", budget, path, "-o", file).stdout
    schedule = json.loads(file.read_text())
    assert schedule["verified"] and schedule["peak"] <= budget and schedule["schedule_id"] in shown
    replayed = answer("simulate", "--local", path, file)
    assert replayed["valid"]
    assert (replayed["makespan"], replayed["peak"]) == (schedule["makespan"], schedule["peak"])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_local_uses_all_cores_and_answers_the_same():
    question = ["solve", "-b", "50%", GRAPH]
    first = min(os.sched_getaffinity(0))
    alone = answer(*question, "--local", preexec_fn=lambda: os.sched_setaffinity(0, {first}))
    with subprocess.Popen([str(REMAT), *map(str, question), "--local", "--json"], stdout=subprocess.PIPE,
                          env=environment()) as process:
        threads, text = 0, b""
        while process.poll() is None and threads < 3:  # this one, that of the solve, and its team
            try:
                threads = max(threads, len(os.listdir(f"/proc/{process.pid}/task")))
            except FileNotFoundError:
                break
        text = process.stdout.read()
    answered = json.loads(text)
    assert threads >= 3 and answered == {**alone, **{k: answered[k] for k in ("created", "solve_seconds")}}


def test_curve_falls():
    points = answer("curve", "--local", "--points", 30, CHAIN)
    assert len(points) == 30 and all(point["peak"] <= point["budget"] for point in points)
    makespans = [point["makespan"] for point in points]
    assert makespans == sorted(makespans, reverse=True) and points[-1]["overhead"] == 0
    shown = remat("curve", "--local", "--points", 30, CHAIN).stdout
    assert len(re.findall(r"^ +\S+ [KMG]iB +\S+ [KMG]iB +\S+ ms", shown, re.M)) == 30
    assert "█" in shown and "overhead over budget" in shown


def test_curve_of_given_budgets():
    points = answer("curve", "--local", "--budgets", "1MiB,60%,4294967296,5GiB", CHAIN)
    assert [point["feasible"] for point in points] == [False, True, True, True]
    assert [point["budget"] for point in points[2:]] == [4 << 30, 5 << 30]
    assert "none found" in remat("curve", "--local", "--budgets", "1MiB,60%", CHAIN).stdout
    remat("curve", "--local", "--budgets", "1MiB", CHAIN, code=NO)


def test_amounts_are_read_as_by_the_service():
    ids = {answer("solve", "--local", "--budget", text, CHAIN)["schedule_id"]
           for text in ("4294967296", "4GiB", "4 gib", "4096MiB", "4.0GiB")}
    assert len(ids) == 1
    reserved = answer("solve", "--local", "--budget", "5GiB", "--reserved", "1GiB", CHAIN)
    assert reserved["budget"] == 4 << 30 and reserved["schedule_id"] in ids


def test_solver_and_its_options():
    assert answer("solve", "--local", "-b", "80%", "--solver", "chen-sqrt", CHAIN)["solver"] == "chen-sqrt"
    names = [solver["name"] for solver in answer("solvers", "--local")["solvers"]]
    shown = remat("solvers", "--local").stdout
    assert "rotor" in names and all(name in shown for name in names)
    remat("solve", "--local", "-b", "80%", "--solver", "rotor", "--option", "nonsense=1", CHAIN, code=INPUT)
    remat("solve", "--local", "-b", "80%", "--option", "slots=1", CHAIN, code=INPUT)


def test_standard_input():
    text = CHAIN.read_text()
    assert answer("profile", "check", "-", stdin=text) == answer("profile", "check", CHAIN)
    schedule = remat("solve", "--local", "--json", "-b", "60%", "-", stdin=text).stdout
    assert remat("simulate", "--local", CHAIN, "-", stdin=schedule).stdout.startswith("valid")
    assert "budget" in remat("show", "--profile", CHAIN, "-", stdin=schedule).stdout


def test_json_and_output_file(tmp_path):
    file = tmp_path / "out.json"
    assert remat("solve", "--local", "--json", "-b", "60%", "-o", file, CHAIN).stdout == ""
    assert json.loads(file.read_text())["verified"]
    assert answer("--json", "version")["version"] in remat("--version").stdout


# ---- show -----------------------------------------------------------------------------------------------


@pytest.fixture
def solved(tmp_path):
    file = tmp_path / "solved.json"
    remat("solve", "--local", "-b", "60%", "-o", file, CHAIN)
    return file


def test_show_draws_memory_under_the_budget(solved):
    shown = remat("show", "--profile", CHAIN, solved).stdout
    schedule = json.loads(solved.read_text())
    lines = shown.splitlines()
    budget = next(line for line in lines if line.endswith("budget"))
    assert budget.split("┤")[0].strip() == f"{schedule['budget'] / 2**30:.2f} GiB" and "╌╌╌" in budget
    rows = [line.split("│")[1] for line in lines if "│" in line]
    assert len(rows) >= 8 and "█" in rows[-1] and "█" not in rows[0]
    assert {len(line) for line in rows} == {len(rows[0])} and max(map(len, lines)) <= 80
    strip = next(line.strip() for line in lines if re.fullmatch(r" +[frb ]+", line) and "fb" in line)
    assert strip[0] == "f" and "r" in strip and strip[-1] == "b"


def test_show_lists_operations(solved):
    operations = json.loads(solved.read_text())["operations"]
    short = remat("show", "--profile", CHAIN, solved).stdout.split("operations  (")[1]
    every = remat("show", "--all", "--profile", CHAIN, solved).stdout.split("operations  (")[1]
    listed = re.findall(r"^  ([FABDXOPSR]) (\d+)", every, re.M)
    assert listed == [(kind, str(index)) for kind, index in operations]
    assert 4 < len(re.findall(r"^  [FAB] ", short, re.M)) < len(operations) / 2 and "layer1_2" in short


def test_show_in_plain_characters(solved):
    assert remat("show", "--ascii", "--all", "--profile", CHAIN, solved).stdout.isascii()
    assert remat("curve", "--ascii", "--local", CHAIN).stdout.isascii()


def test_show_without_a_timeline_says_so(solved):
    done = remat("show", "--server", NOWHERE, solved)
    assert "--profile" in done.stderr and "memory\n" not in done.stdout and "operations" in done.stdout


def test_show_says_nothing_of_the_timeline_of_what_is_no_schedule():
    done = remat("show", "-", stdin="{}", code=INPUT)
    assert done.stderr == "remat show: this is not a schedule: it needs the arrays operations and nodes\n"


def test_show_refuses_what_is_no_schedule(solved, write):
    remat("show", "--profile", PROFILES / "vgg19.chain.json", solved, code=INPUT)
    schedule = json.loads(solved.read_text())
    schedule["operations"].pop(0)
    remat("show", "--profile", CHAIN, write("cut.json", schedule), code=NO)
    for number, text in enumerate(["{}", "[]", "3", '{"operations": [], "nodes": 1}',
                                   '{"nodes": ["a"], "operations": [["F", 7]]}',
                                   '{"nodes": ["a"], "operations": [["F", -1]]}',
                                   '{"nodes": ["a"], "operations": [["Q", 0]]}',
                                   '{"nodes": ["a"], "operations": [["S", 0]]}',
                                   '{"nodes": ["a"], "operations": [["F", 0]], "memory_during": [1, 2]}']):
        remat("show", "--server", NOWHERE, write(f"{number}.json", text), code=INPUT)


def test_names_cannot_move_the_cursor(write):
    text = json.dumps({"nodes": ["a\u001b[2J\n"], "operations": [["F", 0]], "solver": "x"})
    shown = remat("show", "--server", NOWHERE, write("evil.json", text)).stdout
    assert "\x1b" not in shown and "a?[2J?" in shown


# ---- simulate -------------------------------------------------------------------------------------------


def test_simulate_says_what_is_wrong(solved, write):
    schedule = json.loads(solved.read_text())
    at = next(i for i, operation in enumerate(schedule["operations"]) if operation[0] == "B")
    broken = schedule["operations"][:at] + schedule["operations"][at + 1:]
    file = write("broken.json", broken)
    done = remat("simulate", "--local", CHAIN, file, code=NO)
    assert "not valid: operation" in done.stdout
    assert answer("simulate", "--local", CHAIN, file, code=NO)["valid"] is False
    remat("simulate", "--local", CHAIN, write("odd.json", [["F", 999]]), code=INPUT)
    remat("simulate", "--local", CHAIN, write("none.json", {}), code=INPUT)


# ---- exit codes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [
    [], ["dance"], ["--nope"], ["solve"], ["solve", CHAIN], ["solve", "-b"], ["solve", "-b", "1GiB"],
    ["solve", "-b", "4Gx", CHAIN], ["solve", "-b", "-1", CHAIN], ["solve", "-b", "1e9", CHAIN],
    ["solve", "-b", "1", "--reserved", "50%", CHAIN], ["solve", "-b", "1", "--wait", "soon", CHAIN],
    ["solve", "-b", "1", "--wait", "-1", CHAIN], ["solve", "-b", "1", "--option", "slots", CHAIN],
    ["solve", "-b", "1", "--local", "ab" * 32], ["solve", "-b", "1", "--server", "ftp://x", CHAIN],
    ["solve", "-b", "1", "--points", "3", CHAIN], ["curve", CHAIN, CHAIN],
    ["curve", "--points", "1", CHAIN], ["curve", "--points", "2.5", CHAIN],
    ["curve", "--points", "9", "--budgets", "1", CHAIN], ["curve", "--budgets", "1GiB,,2", CHAIN],
    ["show"], ["simulate", CHAIN], ["simulate", "-", "-"], ["profile"], ["profile", "eat", CHAIN],
    ["profile", "list", "--limit", "0"], ["profile", "list", "x"], ["jobs", "show"], ["jobs", "eat", "x"],
    ["solvers", "x"], ["version", "--server", "x"],
], ids=lambda a: " ".join(map(str, a)).replace(str(PROFILES), "..")[:60])
def test_wrong_command_lines(arguments):
    done = remat(*arguments, code=USAGE)
    assert done.stdout == "" and "--help' says more" in done.stderr
    assert problem(*arguments, code=USAGE)["type"] == "/problems/usage"


@pytest.mark.parametrize("words, named", [
    ("solve --local --server x -b 60% P", "--server does nothing beside --local"),
    ("--timeout 3 solve --local -b 60% P", "--timeout does nothing beside --local"),
    ("solve --local --wait 3 -b 60% P", "--wait does nothing beside --local"),
    ("curve --local --wait 3 P", "--wait does nothing beside --local"),
    ("simulate --local --server x P P", "--server does nothing beside --local"),
    ("snapshots --local --timeout 3 P", "--timeout does nothing beside --local"),
    ("solvers --local --server x", "--server does nothing beside --local"),
    ("plan resnet18 --device h100 --local --server x", "--server does nothing beside --local"),
    ("curve --local --points 3 --ascii --json P", "--ascii does nothing beside --json"),
    ("plan resnet18 --device h100 --timeout 3", "--timeout needs --server"),
    ("plan resnet18 --device h100 --wait 3", "--wait needs --server"),
    ("plan resnet18 --device h100 --no-prefetch", "--no-prefetch needs --parallel"),
    ("plan resnet18 --device h100 --parallel ddp --ranks 2 --no-prefetch", "--no-prefetch does nothing beside --parallel"),
    ("plan resnet18 --device h100 --parallel zero3 --ranks 2 --view-buckets", "--view-buckets does nothing beside --parallel"),
    ("solve --local -b 60% --no-layout --alignment 64 P", "--alignment does nothing beside --no-layout"),
    ("solve --local -b 60% --whole-device --reserved 64 P", "--reserved does nothing beside --whole-device"),
    ("solve --local -b 60% --optimizer sgd P", "--optimizer needs --whole-device"),
    ("solve --local -b 60% --device h100 P", "--device needs --whole-device"),
    ("solve --local -b 60% --parameters 9 P", "--parameters needs --whole-device"),
    ("solve --local -b 60% --whole-device --parameters 9 --ranks 2 P", "--ranks needs --parallel"),
    ("solve --local -b 60% --whole-device --parameters 9 --parallel zero2 --ranks 2 --view-buckets P",
     "--view-buckets does nothing beside --parallel"),
    ("plan P --device h100 --parameters 9 --no-sweep", "--no-sweep does nothing beside a PROFILE"),
    ("curve --local --points 3 --budgets 1GiB P", "--points does nothing beside --budgets"),
    ("show --json --all P", "--all does nothing beside --json"), ("show --json --ascii P", "--ascii does nothing beside --json"),
    ("show --json --profile P P", "--profile does nothing beside --json"),
    ("show --server x --profile P P", "--server does nothing beside --profile and a file"),
    ("show --timeout 1 --json P", "--timeout does nothing beside --json and a file"),
    ("profile check --name x P", "--name does nothing beside profile check"),
    ("profile check --server x P", "--server does nothing beside profile check"),
    ("profile import --limit 3 P", "--limit does nothing beside profile import"),
    ("profile push --cursor x P", "--cursor does nothing beside profile push"),
    ("profile show --name x P", "--name does nothing beside profile show"),
    ("jobs show --limit 3 abcd", "--limit does nothing beside jobs show"),
    ("jobs cancel --cursor x abcd", "--cursor does nothing beside jobs cancel"),
    ("--server x version", "--server does nothing beside version"),
    ("--timeout 3 calibrate", "--timeout does nothing beside calibrate"), ("help solve curve", "help takes one command"),
])
def test_options_that_do_nothing_are_refused(words, named):
    done = remat(*(str(CHAIN) if word == "P" else word for word in words.split()), code=USAGE)
    assert named in done.stderr.splitlines()[0] and done.stdout == ""


@pytest.mark.parametrize("text, place", [
    ("", "JSON"), ("{", "line 1"), ("[" * 10000, "deep"), ("\xff\xfe", "JSON"), ("{}", "format"),
    ('{"format": "remat-profile/9", "name": "x", "nodes": []}', "format"),
    ('{"format": "remat-profile/1", "name": "x", "nodes": [], "colour": 1}', "colour"),
    ('{"format": "remat-profile/1", "name": "x", "nodes": [{"id": "a", "forward_time": -1, '
     '"output_bytes": 1}]}', "forward_time"),
    ('{"format": "remat-profile/1", "name": "x", "nodes": [{"id": "a", "inputs": ["a"], '
     '"forward_time": 1, "output_bytes": 1}]}', "a"),
])
def test_bad_profiles(text, place, write):
    file = write("bad.json", text)
    for command in (["profile", "check"], ["solve", "--local", "-b", "1GiB"], ["curve", "--local"]):
        assert place in remat(*command, file, code=INPUT).stderr
        assert problem(*command, file, code=INPUT)["status"] == 400


@pytest.mark.parametrize("path, code, said", [
    ("", INTERNAL, 'cannot write "": No such file'), ("-", INPUT, "- is no file"), ("/", INTERNAL, "Is a directory"),
    ("/nowhere/x", INTERNAL, "No such file"),
])
def test_output_is_checked_before_the_work(path, code, said):
    """The profile that is not there is not missed: what takes long comes after."""
    assert said in remat("solve", "--local", "-b", "50%", "/no/profile.json", "-o", path, code=code).stderr


def test_an_output_that_is_new_is_tried_and_taken_away(tmp_path):
    missing, link = tmp_path / "missing", tmp_path / "link"
    words = ["solve", "--local", "-b", "50%", "/no/profile.json", "-o"]
    assert "cannot write" in remat(*words, f"{missing}/", code=INTERNAL).stderr
    link.symlink_to(missing / "x")
    assert "cannot write" in remat(*words, link, code=INTERNAL).stderr
    missing.mkdir()
    assert "/no/profile.json" in remat(*words, link, code=INPUT).stderr
    assert link.is_symlink() and not list(missing.iterdir())


def test_closed_streams_stay_closed(there, rematd):
    """Their numbers were the next file's or socket's: what was printed went to the server, with exit code 0."""
    for closed in (">&-", "<&- >&-", "<&- >&- 2>&-"):
        done = subprocess.run(["sh", "-c", f'exec "$0" solvers --server {rematd.url} {closed}', str(REMAT)],
                              capture_output=True, text=True, timeout=60 * SLOW)
        assert done.returncode == INTERNAL and done.stdout == "", closed
        assert "Bad file descriptor" in done.stderr or "2>" in closed
    done = subprocess.run(["sh", "-c", f'exec "$0" solve --local -b 60% {CHAIN} -o /dev/stdout >&-', str(REMAT)],
                          capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == INTERNAL and "cannot write /dev/stdout" in done.stderr
    assert remat("--json=3", code=USAGE).stderr.startswith("remat: --json takes no value")


def test_files_that_cannot_be_read_or_written(tmp_path):
    assert "No such file" in remat("profile", "check", tmp_path / "none", code=INPUT).stderr
    assert "directory" in remat("profile", "check", tmp_path, code=INPUT).stderr
    done = remat("solve", "--local", "-b", "60%", CHAIN, "-o", tmp_path / "no" / "where", code=INTERNAL)
    assert "cannot write" in done.stderr
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(REMAT), "solvers", "--local"], stdout=full, stderr=subprocess.PIPE,
                              env=environment())
    assert done.returncode == INTERNAL and b"No space left" in done.stderr


def test_infeasible_budget_names_the_least_that_would_do():
    document = problem("solve", "--local", "-b", "1MiB", CHAIN, code=NO)
    assert document["type"] == "/problems/infeasible-budget" and document["field"] == "budget"
    least = document["minimum_budget"]
    assert answer("solve", "--local", "-b", least, CHAIN)["peak"] == least
    assert problem("solve", "--local", "-b", least - 1, CHAIN, code=NO)["minimum_budget"] == least
    assert f"--budget {least} (" in remat("solve", "--local", "-b", "1MiB", CHAIN, code=NO).stderr
    beside = remat("solve", "--local", "-b", "2MiB", "--reserved", "1MiB", CHAIN, code=NO).stderr
    assert f"--budget {least + 2**20} (" in beside
    answer("solve", "--local", "-b", least + 2**20, "--reserved", "1MiB", CHAIN)


def test_solver_that_does_not_accept():
    document = problem("solve", "--local", "-b", "90%", "--solver", "rotor", GRAPH, code=INPUT)
    assert document["type"] == "/problems/solver-does-not-accept" and "node" in document["detail"]


@pytest.mark.parametrize("arguments", [
    ["solve", "-b", "60%", CHAIN], ["curve", CHAIN], ["show", "ab" * 32], ["profile", "push", CHAIN],
    ["profile", "list"], ["profile", "show", "ab" * 32], ["jobs"], ["solvers"],
], ids=lambda a: "-".join(word for word in map(str, a) if word.isalpha()))
def test_no_server(arguments):
    assert "no server can be reached" in remat(*arguments, "--server", NOWHERE, code=SERVER).stderr
    assert problem("--server", NOWHERE, *arguments, code=SERVER)["type"] == "/problems/no-answer"
    assert NOWHERE in remat(*arguments, code=SERVER, env={"REMAT_SERVER": NOWHERE}).stderr


# ---- terminal -------------------------------------------------------------------------------------------


def test_colours_are_for_terminals_only(solved):
    command = ["show", "--profile", CHAIN, solved]
    assert "\x1b[" not in remat(*command).stdout
    assert "\x1b[34m" in on_terminal(*command)
    assert "\x1b" not in on_terminal(*command, env={"NO_COLOR": "1"})
    assert "\x1b" not in on_terminal(*command, env={"TERM": "dumb"})


def test_progress_is_for_terminals_only(write):
    file = write("long.json", random_chain(130))
    shown = on_terminal("solve", "--local", "-b", "50%", file)
    assert re.search(r"\r\x1b\[Krotor .* \d+ %", shown) and "makespan" in shown
    assert remat("solve", "--local", "-b", "50%", file).stderr == ""


# ---- help, manual, completion ---------------------------------------------------------------------------


def test_every_command_explains_itself():
    general = remat("--help").stdout
    assert general == remat("help").stdout == remat("-h").stdout and "exit codes" in general
    for command in COMMANDS:
        assert command in general
        text = remat(command, "--help").stdout
        assert text == remat("help", command).stdout and text.startswith("usage: remat " + command)
        assert max(map(len, text.splitlines())) <= 84
    remat("help", "dance", code=USAGE)


def help_options():
    return set(re.findall(r"--[a-z0-9-]+", "".join(remat(c, "--help").stdout for c in COMMANDS)))


def check_manual_page(page, words):
    source = page.read_text().replace("\\-", "-")
    for word in words | {"EXIT STATUS", "EXAMPLES"}:
        assert word in source, word
    assert re.match(r'(\.\\".*\n)*\.TH %s 1 ' % page.stem.upper(), page.read_text())
    assert re.findall(r"^\.SH (.*)$", source, re.M)[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert not re.search(r"[^\x00-\x7f]|[ \t]$", page.read_text(), re.M)
    renderers = [["groff", "-man", "-ww", "-Tutf8"], ["man", "--warnings", "-l"], ["mandoc", "-Wwarning"]]
    for renderer in renderers:
        if shutil.which(renderer[0]):
            done = subprocess.run([*renderer, str(page)], capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="100"))
            assert done.returncode == 0 and done.stderr == "", (renderer, done.stderr)


def test_manual_page_renders_and_names_every_option():
    check_manual_page(CLI / "remat.1", help_options() | {*COMMANDS, "REMAT_SERVER", "REMAT_TOKEN", "NO_COLOR"})


def test_manual_page_of_the_daemon_and_its_help():
    def rematd(*arguments):
        return subprocess.run([REMATD, *arguments], capture_output=True, text=True, timeout=60)

    said = rematd("--help").stdout
    commands = {"check", "backup", "migrate", "prune", "token"}
    check_manual_page(ROOT / "server" / "rematd.1", set(re.findall(r"--[a-z0-9-]+", said)) | commands)
    for command in commands:
        assert rematd(command, "--help").stdout == said, command
    for wrong in (["backup", "--store", "x.db"], ["backup"], ["prune"], ["prune", "--keep-bytes", "--store"]):
        assert rematd(*wrong).returncode == 2 and "needs" in rematd(*wrong).stderr, wrong
    missing = rematd("prune", "--keep-bytes", "1", "--store", "/tmp/no/store.db")
    assert missing.returncode == 1 and "No such file" in missing.stderr


def complete(*words):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _remat; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script, "bash", str(CLI / "remat.bash"), *words], text=True,
                          capture_output=True, timeout=60,
                          env=environment(PATH=f"{REMAT.parent}:{os.environ['PATH']}"))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


def test_completion():
    assert subprocess.run(["bash", "-n", str(CLI / "remat.bash")], capture_output=True).stderr == b""
    assert set(complete("remat", "")) == {*COMMANDS, "help"}
    assert complete("remat", "sim") == ["simulate"]
    assert complete("remat", "profile", "") == ["check", "push", "list", "show", "import"]
    assert complete("remat", "--server", "http://x", "jobs", "c") == ["cancel"]
    assert complete("remat", "solve", "--bu") == ["--budget"]
    assert {"auto", "rotor"} <= set(complete("remat", "solve", "--solver", ""))
    for command in COMMANDS:
        named = set(re.findall(r"--[a-z0-9-]+", remat(command, "--help").stdout.split("example")[0]))
        named -= {"--budgets"} if command == "solve" else set()
        offered = set(complete("remat", command, "--"))
        assert offered <= named and named - offered <= {"--local", "--budget", "--profile"}, command


# ---- against a server -----------------------------------------------------------------------------------


def test_push_list_show(there, asked):
    for name in ("gpt.chain", "vgg19.chain"):
        assert "least budget" in there("profile", "push", PROFILES / f"{name}.json").stdout
    assert "already" in there("profile", "push", PROFILES / "gpt.chain.json").stdout
    summary = answer("profile", "check", PROFILES / "gpt.chain.json")
    stored = asked("profile", "show", summary["profile_id"])
    for member in ("profile_id", "name", "kind", "nodes", "edges", "store_all"):
        assert stored[member] == summary[member]
    first = asked("profile", "list", "--limit", 1)
    assert len(first["profiles"]) == 1 and first["next"]
    second = asked("profile", "list", "--limit", 1, "--cursor", first["next"])
    assert second["profiles"] != first["profiles"]
    assert summary["profile_id"] in there("profile", "list").stdout
    assert "More: --cursor" in there("profile", "list", "--limit", 1).stdout
    only = asked("profile", "list", "--name", summary["name"])["profiles"]
    assert [profile["profile_id"] for profile in only] == [summary["profile_id"]]


def test_the_server_answers_what_local_answers(asked):
    for budget in ("50%", "3GiB", "100%"):
        here = answer("solve", "--local", "-b", budget, CHAIN)
        answered = asked("solve", "-b", budget, CHAIN)
        for member in set(here) - {"solve_seconds", "created"}:
            assert here[member] == answered[member], member
    assert answer("curve", "--local", "--points", 12, CHAIN) == asked("curve", "--points", 12, CHAIN)
    toy = ("--solver", "join", "--option", "model=pebble", PROFILES / "join-4-10-12.json")
    rows = answer("curve", "--local", *toy)
    assert [row["budget"] for row in rows] == list(range(7, 30)) and rows == asked("curve", *toy)
    assert "     9 slots     9 slots        74 units" in remat("curve", "--local", *toy).stdout
    assert answer("solvers", "--local") == asked("solvers")


def test_ask_by_id_and_show(there, asked, tmp_path):
    file = tmp_path / "schedule.json"
    assert re.search("just now|out of a stored table", there("solve", "-b", "55%", "-o", file, CHAIN).stdout)
    schedule = json.loads(file.read_text())
    again = there("solve", "-b", "55%", schedule["profile_id"])
    assert "remembered" in again.stdout and schedule["schedule_id"] in again.stdout
    shown = there("show", schedule["schedule_id"]).stdout
    assert "█" in shown and "╌ budget" in shown
    here = remat("show", "--profile", CHAIN, file).stdout
    assert here == shown == there("show", file).stdout
    assert asked("show", schedule["schedule_id"]) == schedule
    assert " ms  " in there("curve", "--points", 3, schedule["profile_id"]).stdout
    assert "valid" in there("simulate", schedule["profile_id"], file).stdout
    assert asked("simulate", CHAIN, file) == answer("simulate", "--local", CHAIN, file)


def test_refusals_of_the_server(there, rematd):
    there("solve", "-b", "60%", "ab" * 32, code=INPUT)
    there("show", "ab" * 32, code=INPUT)
    there("jobs", "show", "ab" * 16, code=INPUT)
    there("jobs", "show", "../solvers", code=INPUT)
    there("solve", "-b", "60%", "--solver", "nobody", CHAIN, code=INPUT)
    there("solve", "-b", "60%", "--solver", "rotor", GRAPH, code=INPUT)
    document = problem("--server", rematd.url, "solve", "-b", "1MiB", CHAIN, code=NO)
    assert document["minimum_budget"] > 1 << 20 and document["status"] == 422
    there("simulate", CHAIN, "-", stdin='[["F", 0]]', code=NO)
    there("profile", "push", "-", stdin='{"format": "remat-profile/1"}', code=INPUT)


def test_waiting_and_jobs(asked, there, write):
    started = asked("solve", "-b", "50%", "--wait", 0, write("job.json", random_chain(60, seed=2)))
    job = started["job_id"]
    deadline = time.monotonic() + 60 * SLOW
    while (state := asked("jobs", "show", job))["state"] in ("queued", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert state["state"] == "done" and state["progress"] == 1
    assert state["schedule_id"] in there("jobs", "show", job).stdout
    assert "verified" in there("show", state["schedule_id"]).stdout
    assert job in [one["job_id"] for one in asked("jobs")["jobs"]] and job[:12] in there("jobs", "list").stdout


def test_giving_up_and_cancelling(asked, there, write):
    file = write("long.json", random_chain(260, seed=3))
    done = there("solve", "-b", "50%", "--wait", 0.3, file, code=SERVER)
    job = re.search(r"remat jobs show (\S+)'", done.stdout).group(1)
    assert asked("jobs", "show", job)["state"] in ("queued", "running")
    asked("jobs", "cancel", job)
    deadline = time.monotonic() + 30 * SLOW
    while (state := asked("jobs", "show", job))["state"] in ("queued", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert state["state"] == "cancelled"


def test_long_solves_are_followed(asked, rematd, write):
    file = write("medium.json", random_chain(140, seed=4))
    shown = on_terminal("solve", "--server", rematd.url, "-b", "50%", file)
    assert re.search(r"\r\x1b\[K(queued|running)\S* .* \d+ %", shown) and "verified" in shown
    assert len(asked("curve", "--points", 5, file)) == 5


def test_snapshots_here_and_there(rematd):
    fragment = {"variables": ["a", "b"], "Req": ["b"], "out_C": ["a"], "use_Cbar": ["a"], "out_Cbar": ["a"],
                "out_Dbar": ["b"]}
    here = answer("snapshots", "--local", "-", stdin=json.dumps(fragment))
    there = answer("snapshots", "--server", rematd.url, "-", stdin=json.dumps(fragment))
    assert here == there and here["Snp0"] == ["a"] and here["minimal_count"] == 3
    assert "cheapest" in remat("snapshots", "--local", "-", stdin=json.dumps(fragment)).stdout
    wrong = dict(fragment, proposals=[{"Snp": ["a"]}])
    refused = remat("snapshots", "--local", "-", stdin=json.dumps(wrong), code=1)
    assert "NOT valid" in refused.stdout
    remat("snapshots", "--local", "-", stdin='{"variables": 5}', code=3)
    remat("snapshots", code=2)
    leaf = {"use": ["a"], "out": ["a"]}
    nest = {"variables": ["a"], "parts": [leaf, {"parts": [leaf, leaf]}, leaf]}
    assert "checkpoint 1.0" in remat("snapshots", "--local", "-", stdin=json.dumps(nest)).stdout
