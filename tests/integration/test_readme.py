"""README and the pages it leads to say what is true: every command in them is run, by somebody who did no more than they
said before it, and prints what they show; the figures of the first table are those of the committed measurement."""

import os
import re
import shlex
import subprocess

import pytest

from conftest import BUILD, ROOT, SLOW

PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "solver/README.md", "clients/README.md")}
TEXT = PAGES["README.md"]
QUICKSTART = "deploy/quickstart"  # makes build-quickstart and starts a daemon; run on bare machines, see tests/long/results.md


def examples(text):
    """(command, lines shown): of an indented block each line that begins with "$ ", and what is under it. Three dots
    stand for any lines."""
    for block in re.findall(r"(?:^(?:    .*)?\n)+", text, re.M):
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


def differs(printed, shown):
    """Fails where a command's lines are not those of the page."""
    if shown and "..." not in map(str.strip, shown):
        assert len(printed) >= len(shown)
    for line, said in zip(printed, shown):
        if said.strip() == "...":
            return
        if not said.lstrip().startswith("solved in"):
            assert line.lstrip() == said.lstrip()


EXAMPLES = [(page, *one) for page, text in PAGES.items() for one in examples(text)]


def said_before(page, command):
    """What of the page changes the shell of who follows it."""
    before = [line for name, line, _ in EXAMPLES if name == page]
    return [line for line in before[:before.index(command)] if line.startswith("export ")]


@pytest.fixture(scope="module")
def shell(rematd, tmp_path_factory):
    """Runs a command of a page in a folder in which its paths lead to what was built, and the default server is one with an
    empty store. Of the first page there is no more than quickstart leaves; the others say that remat is on the PATH."""
    home = tmp_path_factory.mktemp("readme")
    (home / "clients").symlink_to(ROOT / "clients")
    env = {key: value for key, value in os.environ.items() if not key.startswith("REMAT")}

    def run(page, command):
        (home / "build-quickstart").unlink(missing_ok=True)
        (home / "build").unlink(missing_ok=True)
        first = page == "README.md"
        before = [line for name, line, _ in EXAMPLES if name == page]
        if not first:
            (home / "build").symlink_to(BUILD)
        elif QUICKSTART in before[:before.index(command)]:
            (home / "build-quickstart").symlink_to(BUILD)
        path = os.environ["PATH"] if first else f"{BUILD / 'clients' / 'cli'}:{os.environ['PATH']}"
        script = "\n".join([*said_before(page, command), command]).replace("http://127.0.0.1:7070", rematd.url)
        return subprocess.run(script, shell=True, cwd=home, text=True, env=dict(env, PATH=path, REMAT_SERVER=rematd.url),
                              capture_output=True, timeout=120 * SLOW)

    return run


@pytest.mark.skipif(SLOW > 1, reason="what is printed does not depend on the build")
@pytest.mark.parametrize("page,command,shown", EXAMPLES, ids=[" ".join(shlex.split(line)[:3]) for _, line, _ in EXAMPLES])
def test_command(shell, page, command, shown):
    if command == QUICKSTART:
        return
    done = shell(page, command)
    assert done.returncode == 0, done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    if command.startswith("curl"):
        assert '"type":"/problems' not in done.stdout
    differs(printed, shown)


def test_there_are_examples():
    assert len(EXAMPLES) >= 8 and any("remat solve" in command for _, command, _ in EXAMPLES)


def test_the_first_page_is_short_and_begins_by_itself():
    """1,500 words; nothing before quickstart; quickstart ends by saying what the page says to do next."""
    assert len(TEXT.split()) <= 1500
    first, second = [command for page, command, _ in EXAMPLES if page == "README.md"][:2]
    assert first == QUICKSTART and second == 'export PATH="$PWD/build-quickstart/clients/cli:$PATH"'
    said = (ROOT / QUICKSTART).read_text()
    assert "folder=$PWD/build-quickstart" in said and 'export PATH="$folder/clients/cli:\\$PATH"' in said
    assert (ROOT / "clients/web/page.png").stat().st_size < 100_000


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


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES[page]):
        assert (ROOT / page).parent.joinpath(target).exists(), target
