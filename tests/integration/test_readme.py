"""README says what is true: every command in it is run and prints what it shows, and the figures of its first table are
those of the committed measurement."""

import os
import re
import shlex
import subprocess

import pytest

from conftest import BUILD, ROOT, SLOW

TEXT = (ROOT / "README.md").read_text()


def examples():
    """(command, lines shown): of an indented block each line that begins with "$ ", and what is under it. Three dots
    stand for any lines."""
    for block in re.findall(r"(?:^(?:    .*)?\n)+", TEXT, re.M):
        lines = [line[4:] for line in block.splitlines()]
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                continue
            while line.endswith("\\"):
                line = line[:-1] + lines.pop(0)
            shown = []
            while lines and not lines[0].startswith("$ "):
                shown.append(lines.pop(0))
            yield line[2:], "\n".join(shown).strip("\n").splitlines()


EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def shell(rematd, tmp_path_factory):
    """A folder in which README's paths lead to what was built and to a service with the bundled profiles' home."""
    home = tmp_path_factory.mktemp("readme")
    (home / "clients").symlink_to(ROOT / "clients")
    (home / "build").symlink_to(BUILD)
    path = f"{BUILD / 'clients' / 'cli'}:{BUILD / 'server'}:{os.environ['PATH']}"
    env = {key: value for key, value in os.environ.items() if not key.startswith("REMAT")}

    def run(command):
        return subprocess.run(command.replace("http://127.0.0.1:7070", rematd.url), shell=True, cwd=home, text=True,
                              env=dict(env, PATH=path, REMAT_SERVER=rematd.url), capture_output=True, timeout=120 * SLOW)

    return run


@pytest.mark.skipif(SLOW > 1, reason="what is printed does not depend on the build")
@pytest.mark.parametrize("command,shown", EXAMPLES, ids=[" ".join(shlex.split(command)[:3]) for command, _ in EXAMPLES])
def test_command(shell, command, shown):
    done = shell(command)
    assert done.returncode == 0, done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    if command.startswith("curl"):
        assert '"type":"/problems' not in done.stdout
    if "..." not in shown and shown:
        assert len(printed) >= len(shown)
    for line, said in zip(printed, shown):
        if said == "...":
            return
        if not said.lstrip().startswith("solved in"):
            assert line.lstrip() == said.lstrip()


def test_there_are_examples():
    assert len(EXAMPLES) >= 8 and any("remat solve" in command for command, _ in EXAMPLES)


def measured():
    """{network: {row: (peak, step beside the plain one)}} of the PyTorch package's table."""
    rows = {}
    for line in (ROOT / "clients" / "pytorch" / "examples" / "twenty.txt").read_text().splitlines():
        found = re.match(r"(.{22}) (.{22})\s+(\d+) .*? ms +([\d.]+)", line)
        if found:
            rows.setdefault(found[1].strip(), {})[found[2].strip()] = int(found[3]), found[4]
    return rows


def test_the_first_table_is_what_was_measured():
    rows, said = measured(), re.findall(r"^\| (.*?) \| (\d+) %.*?, ([\d.]+).*? \| ([\d.]+).*? \| ([\d.]+) \|$", TEXT, re.M)
    assert len(said) >= 5
    for name, peak, step, same, smaller in said:
        plain, checkpointing = rows[name]["plain"], rows[name]["checkpointing"]
        assert float(peak) == round(100 * checkpointing[0] / plain[0]), name
        for figure, row in ((step, "checkpointing"), (same, "at checkpointing"), (smaller, "70%")):
            assert figure == rows[name][row][1], (name, row)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target
