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


def test_the_version_is_that_of_the_service():
    assert re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text())[1] == remat.__version__


@pytest.mark.skipif(not importlib.util.find_spec("setuptools"), reason="there are no setuptools")
@pytest.mark.parametrize("with_library", [False, True])
def test_the_wheel_has_every_file_and_its_types(with_library, tmp_path):
    """Built by the backend that pyproject.toml names, from a copy; with a build folder for one platform, the solver in it."""
    source, build = tmp_path / "clients" / "pytorch", tmp_path / "build"
    for name in ("clients/pytorch/pyproject.toml", "clients/pytorch/README.md", "clients/pytorch/setup.py",
                 "api/plan/devices.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(HERE.parent / "remat", source / "remat", ignore=shutil.ignore_patterns("__pycache__"))
    (build / "clients" / "local").mkdir(parents=True)
    (build / "clients" / "local" / LIBRARY).write_bytes(b"library")
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    environment = {**{k: v for k, v in os.environ.items() if k != "REMAT_BUILD"}, **({"REMAT_BUILD": str(build)} if with_library else {})}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=source, capture_output=True, text=True, env=environment)
    if "bdist_wheel" in done.stderr and done.returncode:
        pytest.skip("this setuptools needs the package wheel to make one")
    assert done.returncode == 0, done.stderr
    wheel = tmp_path / done.stdout.split()[-1]
    assert re.fullmatch(rf"remat-{re.escape(remat.__version__)}-py3-none-{'linux_.*' if with_library else 'any'}.whl", wheel.name)
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {f"remat/{path.name}" for path in (HERE.parent / "remat").iterdir() if path.suffix in (".py", ".typed")}
    assert sources <= names and {"remat/py.typed", "remat/devices.json"} <= names
    assert (f"remat/{LIBRARY}" in names) == with_library


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
