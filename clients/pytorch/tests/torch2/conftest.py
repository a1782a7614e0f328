"""What needs torch.compile. The service is one that runs elsewhere, named by REMAT_TEST_SERVER, or one of this build."""

import sys
from pathlib import Path

import pytest

from remat import road

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if not road.available():
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def anew():
    import torch
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
