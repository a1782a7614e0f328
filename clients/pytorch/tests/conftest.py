"""A real rematd on a free port, started by the fixtures of the integration tests."""

import importlib.util
import os
import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))  # the package remat

BUILD = pathlib.Path(os.environ.get("REMAT_BUILD", ROOT / "build"))
if "REMAT_TEST_SERVER" not in os.environ:  # a service of another's needs nothing of what starts one
    _spec = importlib.util.spec_from_file_location("integration", ROOT / "tests" / "integration" / "conftest.py")
    integration = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(integration)
    Service = integration.Service

torch.set_num_threads(1)  # sums in one order: bitwise equality is asked for


class Elsewhere:
    """A service that this process did not start."""

    def __init__(self, url):
        self.url = url


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    if "REMAT_TEST_SERVER" in os.environ:
        yield Elsewhere(os.environ["REMAT_TEST_SERVER"])
        return
    running = Service(tmp_path_factory.mktemp("rematd")).start()
    yield running
    running.stop()


@pytest.fixture
def server(service, tmp_path, monkeypatch):
    """The service's address, with a cache of plans of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return service.url


def pytest_configure(config):
    config.addinivalue_line("markers", "core: of those that run without --long")


@pytest.fixture(autouse=True)
def from_nothing():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
