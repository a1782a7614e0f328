"""Joint graphs without a server: the answers are the server's."""

import os

import pytest
import torch
from conftest import BUILD
from models import MODELS
from steps import step

import remat
from remat import local

LIBRARY = BUILD / "clients" / "local" / local.LIBRARY


@pytest.mark.skipif(not LIBRARY.exists(), reason="this build has no libremat-local")
def test_a_fit_without_a_server(server, tmp_path, monkeypatch):
    monkeypatch.delenv("REMAT_SERVER", raising=False)
    monkeypatch.setenv("REMAT_LOCAL_LIBRARY", str(LIBRARY))
    model, inputs = MODELS["mlp"]()
    remat.fit(model, inputs, "80%", cache=tmp_path)
    schedule = model.forward.schedule
    assert schedule["peak"] <= schedule["budget"] and isinstance(model.forward.backend.client, local.Local)
    there = local.connect(server).schedule_joint(model.forward.profile, model.forward.budget)
    assert schedule["operations"] == there["operations"] and schedule["schedule_id"] == there["schedule_id"]
