"""What is installed: one version, and types."""

import importlib.util
import re
import subprocess
import sys
import zipfile

import pytest
from conftest import HERE, ROOT

import remat


def test_the_version_is_that_of_the_service():
    assert re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text())[1] == remat.__version__


@pytest.mark.skipif(not importlib.util.find_spec("setuptools"), reason="there are no setuptools")
def test_the_wheel_has_every_file_and_its_types(tmp_path):
    """Built by the backend that pyproject.toml names, from a copy."""
    (tmp_path / "source").mkdir()
    subprocess.run(["cp", "-r", *(str(HERE.parent / name) for name in ("pyproject.toml", "README.md", "remat")),
                    str(tmp_path / "source")], check=True)
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=tmp_path / "source", capture_output=True,
                          text=True)
    if "bdist_wheel" in done.stderr and done.returncode:
        pytest.skip("this setuptools needs the package wheel to make one")
    assert done.returncode == 0, done.stderr
    wheel = tmp_path / done.stdout.split()[-1]
    assert wheel.name == f"remat-{remat.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {f"remat/{path.name}" for path in (HERE.parent / "remat").iterdir() if path.suffix in (".py", ".typed")}
    assert sources <= names and "remat/py.typed" in names
