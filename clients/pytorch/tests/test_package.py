"""What is installed: one version, and types."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import HERE, ROOT

import remat
from remat import devices
from remat.local import LIBRARY


@pytest.mark.core
def test_the_version_is_that_of_the_service():
    assert re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text())[1] == remat.__version__


def copied(folder):
    """A clone, as far as a wheel is made of it."""
    for name in ("solver", "api", "clients/local"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copytree(HERE.parent, folder / "clients" / "pytorch", ignore=shutil.ignore_patterns("__pycache__", "build", "tests"))
    return folder / "clients" / "pytorch"


def build(source, folder, **environment):
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "--no-index", "-w", str(folder), "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    wheel, = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "content")
    sources = {path.name for path in (HERE.parent / "remat").iterdir() if path.suffix in (".py", ".typed")}
    assert sources <= {path.name for path in (folder / "content" / "remat").iterdir()}
    return wheel.name, folder / "content", done.stdout + done.stderr


ALONE = """
import json, sys
sys.modules["torch"] = None  # as where it is not installed
import remat
from remat import local
assert local.connect().where == "in this process"
schedule = remat.solve(json.load(open(sys.argv[1])), "60%")
assert schedule["peak"] <= schedule["budget"]
assert remat.plan("gpt2", "t4", 1, sweep=False)["fits"]
try:
    remat.fit
except ImportError as error:
    print(error)
"""


needs_pip = pytest.mark.skipif(not all(map(importlib.util.find_spec, ("pip", "setuptools", "wheel"))), reason="there is no pip")


@needs_pip
@pytest.mark.core
@pytest.mark.skipif(not os.path.exists("/usr/include/jansson.h"), reason="libjansson-dev and nettle-dev are not there")
def test_a_wheel_solves_alone(tmp_path):
    """Without torch, server and environment, and with no library of the system but libc's own."""
    name, content, _ = build(copied(tmp_path), tmp_path / "wheel")
    assert re.fullmatch(rf"remat-{re.escape(remat.__version__)}-py3-none-linux_.*.whl", name)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REMAT_", "PYTHON"))}
    done = subprocess.run([sys.executable, "-c", ALONE, str(ROOT / "clients/profiles/gpt.flops.json")], cwd=content,
                          capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr
    assert "remat.fit needs torch (2.4 or later)" in done.stdout
    linked = subprocess.run(["ldd", content / "remat" / LIBRARY], capture_output=True, text=True, check=True).stdout
    for library, path in re.findall(r"(\S+) => (\S+)", linked):
        assert path.startswith(str(content)) or library.startswith(("libc.", "libm.", "libpthread.")), linked


@needs_pip
def test_a_wheel_without_a_compiler_says_so(tmp_path):
    name, content, said = build(copied(tmp_path), tmp_path / "wheel", CC="/nowhere/cc")
    assert name.endswith("-py3-none-any.whl") and "there is no C compiler" in said
    assert not (content / "remat" / LIBRARY).exists() and (content / "remat" / "devices.json").exists()


@pytest.mark.parametrize("name", ["here", "here.txt", "here.json"])
def test_an_entry_of_a_device_is_a_file_of_any_name(name, tmp_path):
    path = tmp_path / name
    path.write_text(json.dumps({**devices.find("a100-80gb"), "name": "mine"}))
    for given in (path, str(path)):
        assert devices.find(given)["name"] == "mine"


@pytest.mark.parametrize("content", [None, "no entry", "[1]", "{}"])
def test_what_is_no_entry_of_a_device(content, tmp_path):
    path = tmp_path / "here"
    if content is not None:
        path.write_text(content)
    with pytest.raises(remat.CaptureError, match="device"):
        devices.find(path)
