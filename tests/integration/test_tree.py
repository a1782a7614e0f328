"""The tree keeps its shape: rooms, arrows between them, format."""

import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

TOP = {"meson.build", "meson_options.txt", "README.md", "LICENSE", "server", "solver", "storage", "api", "clients",
       "tests", "deploy"}
LIBC = {"ctype.h", "errno.h", "float.h", "immintrin.h", "inttypes.h", "limits.h", "math.h", "stdarg.h", "stdbool.h",
        "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h",
        "sys/mman.h"}  # the last one for madvise, a hint


def sources(folder):
    return [path for path in (ROOT / folder).rglob("*.[ch]")]


def includes(path):
    return re.findall(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', path.read_text(), re.M)


def test_top_level():
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith((".", "build"))}
    assert found == TOP


def test_solver_uses_libc_and_libm_only():
    for path in sources("solver"):
        for kind, name in includes(path):
            assert kind == '"' or name in LIBC, f"{path.relative_to(ROOT)} includes <{name}>"
            assert not name.startswith(("api", "server", "storage")), path


@pytest.mark.parametrize("room,forbidden", [("solver", ["api.h", "storage.h", "engine.h"]),
                                            ("storage", ["api.h", "engine.h", "service.h"]),
                                            ("api", ["storage.h", "engine.h", "service.h", "remat_client.h"]),
                                            ("clients", ["storage.h", "engine.h", "service.h"]),
                                            ("clients/terminal", ["cli.h"]),
                                            ("clients/executor", ["cli.h"]),
                                            ("clients/executor/runner", ["net.h", "networks.h", "backend.h",
                                                                         "model.h", "training.h", "train.h"]),
                                            ("clients/executor/networks", ["remat_exec.h", "backend.h", "model.h",
                                                                           "training.h", "train.h"]),
                                            ("clients/executor/backends", ["networks.h", "model.h", "training.h",
                                                                           "train.h"]),
                                            ("clients/executor/training", ["networks.h", "train.h", "terminal.h"]),
                                            ("server", ["remat_client.h", "cli.h"])])
def test_arrows_run_one_way(room, forbidden):
    for path in sources(room):
        names = {name for _, name in includes(path)}
        assert not names & set(forbidden), f"{path.relative_to(ROOT)}: {names & set(forbidden)}"


def test_format():
    """Releases of clang-format differ; the tree is kept in that of Debian 12."""
    tool = shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if "version 14." not in version:
        pytest.skip("clang-format 14 is not here")
    files = [str(p) for room in ("solver", "storage", "api", "server", "clients", "tests") for p in sources(room)]
    done = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def test_python_lint():
    if not shutil.which("flake8"):
        pytest.skip("flake8 is not here")
    done = subprocess.run(["flake8", "clients", "tests", "deploy", "api"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[:2000]


# Of the rooms of solver/ which may know which; everybody knows include/.
SOLVER_ARROWS = {"model": set(), "bound": {"model"}, "search": {"bound", "model"}, "start": {"model"},
                 "pipeline": {"model"}, "plan": {"start", "model"}, "papers": {"start", "model"},
                 "answer": {"start", "search", "bound", "model"}}


def test_the_rooms_of_the_solver_know_whom_they_may():
    done = subprocess.run([sys.executable, ROOT / "tests/architecture"], capture_output=True, text=True, check=True)
    arrows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert len(arrows) > 20
    for source, target in arrows:
        if source.startswith("solver/") and target != "solver/include":
            room, other = source.split("/")[1], target.split("/")[-1]
            assert target.startswith("solver/") and other in SOLVER_ARROWS[room], f"{source} knows {target}"


def test_the_picture_of_the_architecture_is_of_this_tree():
    drawn = set(re.findall(r"<title>([\w/]+)&#45;&gt;([\w/]+)</title>", (ROOT / ".github/architecture.svg").read_text()))
    done = subprocess.run([sys.executable, ROOT / "tests/architecture"], capture_output=True, text=True, check=True)
    assert drawn == {tuple(line.split()[:2]) for line in done.stdout.splitlines()}


def test_nobody_outside_of_papers_says_pebble():
    """But the registry, the wire and the page, which serve questions of that model."""
    said = []
    for room in ("solver", "storage", "server", "clients"):
        for path in (ROOT / room).rglob("*"):
            inside = path.relative_to(ROOT).parts[:2]
            if (path.suffix in (".c", ".h", ".cu", ".py") and inside not in (("solver", "papers"), ("clients", "web"))
                    and re.search("pebble", path.read_text(), re.I)):
                said.append(str(path.relative_to(ROOT)))
    assert said == []


def test_a_warning_of_a_newer_compiler_stops_no_installation():
    """Warnings are errors where this tree is tested, and only there: Debian 13's compiler warns of more than Debian 12's."""
    assert "werror" not in (ROOT / "meson.build").read_text()
    assert "-Dwerror=true" in (ROOT / "tests/run").read_text()
