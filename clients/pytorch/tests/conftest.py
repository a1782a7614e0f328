"""A real rematd on a free port, started by the fixtures of the integration tests."""

import importlib.util
import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))  # the package remat

_spec = importlib.util.spec_from_file_location("integration", ROOT / "tests" / "integration" / "conftest.py")
integration = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(integration)
BUILD, Service = integration.BUILD, integration.Service

torch.set_num_threads(1)  # sums in one order: bitwise equality is asked for


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("rematd")).start()
    yield running
    running.stop()


@pytest.fixture
def server(service, tmp_path, monkeypatch):
    """The service's address, with a cache of plans of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return service.url
