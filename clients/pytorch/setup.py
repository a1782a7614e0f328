"""Beside pyproject.toml: what a wheel has of the rest of the repository.

REMAT_BUILD, a build folder of rematd, puts libremat-local.so into it; the wheel is then of one platform. The table of
devices is a copy of api/plan/devices.json.
"""

import os
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
BUILD = os.environ.get("REMAT_BUILD")
LIBRARY = Path(BUILD) / "clients" / "local" / "libremat-local.so" if BUILD else None


class WithRest(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib) / "remat"
        for source in filter(None, (LIBRARY, HERE.parents[1] / "api" / "plan" / "devices.json")):
            shutil.copy2(source, target)


class OfOnePlatform(Distribution):
    def has_ext_modules(self):
        return LIBRARY is not None


try:
    from wheel.bdist_wheel import bdist_wheel

    class AnyPython(bdist_wheel):
        def get_tag(self):
            return ("py3", "none", super().get_tag()[2])

    COMMANDS = {"bdist_wheel": AnyPython}
except ImportError:  # newer setuptools have their own
    COMMANDS = {}

setup(cmdclass={"build_py": WithRest, **COMMANDS}, distclass=OfOnePlatform)
