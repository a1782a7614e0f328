"""Beside pyproject.toml: what a wheel has of the rest of the repository.

The solver, libremat-local.so, is compiled out of a clone into the wheel, which is then of one platform; jansson and nettle,
whose headers that takes (libjansson-dev, nettle-dev), lie beside it, so that it needs nothing but libc where it runs. Without
a C compiler, their headers or a clone it is left out, with a line that says so. The table of devices is a copy of the
service's.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = "libremat-local.so"
BESIDE = ("jansson", "nettle")
VERSION = re.search(r'^__version__ = "(.*)"', (HERE / "remat" / "__init__.py").read_text(), re.M)[1]
FLAGS = ["-std=gnu17", "-O3", "-fPIC", "-pthread", "-ffp-contract=off", "-fvisibility=hidden", "-ffunction-sections",
         "-D_GNU_SOURCE", f'-DREMAT_VERSION="{VERSION}"']
LINK = ["-shared", "-pthread", "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL", "-Wl,--as-needed", "-Wl,-rpath,$ORIGIN"]
CC = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"


def why_not():
    """Why there will be no solver in the wheel; empty where there will be."""
    if not (ROOT / "solver").is_dir() or not (ROOT / "clients" / "local").is_dir():
        return "this is no clone of the repository, which has its sources"
    probe = "\n".join(f"#include <{header}>" for header in ("jansson.h", "nettle/sha2.h"))
    try:
        done = subprocess.run([*CC.split(), "-E", "-x", "c", "-"], input=probe, capture_output=True, text=True)
    except OSError as error:
        return f"there is no C compiler ({error})"
    if done.returncode:
        return f"a header is not there: {done.stderr.splitlines()[0]} (libjansson-dev and nettle-dev have them)"
    return ""


WHY_NOT = why_not()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def sources():
    return sorted(path for folder in ("solver", "api", "clients/local") for path in (ROOT / folder).rglob("*.c"))


def embedded(folder):
    """Files of the repository as the elements of C arrays, by the name that a source includes: openapi.inc of openapi.json."""
    for source in (ROOT / "api").rglob("*.json"):
        run([sys.executable, ROOT / "api" / "embed.py", source, folder / f"{source.stem}.inc"])


def compile_library(target, folder):
    """Puts the library, and what it needs, into the folder target."""
    folder.mkdir(parents=True, exist_ok=True)
    embedded(folder)
    rooms = {True: [ROOT / "solver"], False: [folder, ROOT / "api", ROOT / "clients" / "local"]}  # of the solver, or not
    objects = [folder / (str(path.relative_to(ROOT)).replace("/", "-") + ".o") for path in sources()]

    def one(pair):
        includes = [ROOT / "solver" / "include", *rooms[ROOT / "solver" in pair[0].parents]]
        run([*CC.split(), *FLAGS, *(f"-I{path}" for path in includes), "-c", pair[0], "-o", pair[1]])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, zip(sources(), objects)))
    run([*CC.split(), *LINK, "-o", target / LIBRARY, *objects, *(f"-l{name}" for name in BESIDE), "-lm"])
    for name, path in re.findall(r"^\s*(lib\S+) => (/\S+)", run(["ldd", target / LIBRARY]), re.M):
        if name.startswith(tuple(f"lib{other}." for other in BESIDE)) and not (target / name).exists():
            shutil.copy2(path, target / name)


class WithRest(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib) / "remat"
        devices = ROOT / "api" / "plan" / "devices.json"
        if devices.exists():
            shutil.copy2(devices, target)
        if WHY_NOT:
            print(f"remat: the wheel has no solver of its own, and asks a server: {WHY_NOT}", file=sys.stderr)
            return
        compile_library(target, Path(self.build_lib).parent / "libremat-local")


class OfOnePlatform(Distribution):
    def has_ext_modules(self):
        return not WHY_NOT


try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:  # there is none, and no wheel is to be made
        bdist_wheel = None

COMMANDS = {}
if bdist_wheel is not None:
    class AnyPython(bdist_wheel):
        def get_tag(self):
            return ("py3", "none", super().get_tag()[2])

    COMMANDS["bdist_wheel"] = AnyPython

setup(cmdclass={"build_py": WithRest, **COMMANDS}, distclass=OfOnePlatform)
