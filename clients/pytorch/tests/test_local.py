"""The solver in this process gives the answers of the server, and its errors."""

import copy
import ctypes
import json
import signal
import threading

import pytest
from conftest import BUILD, ROOT
from models import mlp, vgg
from steps import assert_same, step

import remat
from remat import local
from remat.client import Client

LIBRARY = BUILD / "clients" / "local" / local.LIBRARY
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="this build has no libremat-local")


@pytest.fixture
def here(monkeypatch):
    monkeypatch.delenv("REMAT_SERVER", raising=False)
    monkeypatch.setenv("REMAT_LOCAL_LIBRARY", str(LIBRARY))
    return local.connect()


def timeless(schedule):
    return {name: value for name, value in schedule.items() if name not in ("solve_seconds", "created")}


def test_answers_are_those_of_the_server(here, service, server):
    there = Client(service.url)
    for make in (mlp, vgg):
        profile = remat.profile(*make(), repeats=1)
        for budget, solver in (("100%", "auto"), ("80%", "interval"), ("70%", "auto"), ("1%", "auto")):
            found = []
            for each in (here, there):
                try:
                    found.append(timeless(each.schedule(profile, budget, solver)))
                except (remat.BudgetError, remat.ServiceError) as error:
                    found.append((type(error), str(error).replace(each.server, "")))
            assert found[0] == found[1], (make, budget, solver)
    operations = here.schedule(profile, "100%")["operations"]
    for each in (operations, operations[1:]):
        found = [client._call("POST", "/v1/simulations", {"profile": profile, "operations": each}) for client in (here, there)]
        assert found[0] == found[1] and found[0]["valid"] == (each is operations)


@pytest.mark.core
def test_a_pipeline_is_planned_to_its_end(here, service):
    question = {"model": "gpt2", "device": "t4", "batch": 16, "parallel": {"mesh": {"pp": 2}, "microbatches": 4}}
    found, expected = here.plan(question), Client(service.url).plan(question)
    assert found["fits"] and {name: found[name] for name in ("step_seconds", "pipeline")} == {name: expected[name] for name in ("step_seconds", "pipeline")}


@pytest.mark.core
def test_who_answers(here, monkeypatch):
    assert isinstance(here, local.Local) and isinstance(local.connect("local"), local.Local)
    assert not isinstance(local.connect("http://127.0.0.1:9"), local.Local)
    monkeypatch.setenv("REMAT_SERVER", "http://127.0.0.1:9")
    assert local.connect().server == "http://127.0.0.1:9"
    monkeypatch.delenv("REMAT_SERVER")
    monkeypatch.setenv("REMAT_LOCAL_LIBRARY", "/nowhere")
    assert local.connect().server == "http://127.0.0.1:7070"
    with pytest.raises(remat.ServiceError, match="there is no libremat-local.so"):
        local.connect("local")


@pytest.mark.core
def test_errors(here):
    for path, body, message in (("/v1/schedules", b"{", "400"), ("/v1/schedules", b'{"budget": 1}', "profile"),
                                ("/v1/nothing", b"{}", "404"), ("/v1/schedules", b'{"budget": 1, "wish": 2}', "wish"),
                                ("/v1/schedules", b'{"budget": 1, "profile": {"nodes": []}}', "profile")):
        with pytest.raises(remat.ServiceError, match=message):
            here._post(path, body)
    profile = remat.profile(*mlp(), repeats=1)
    impatient = local.Local(LIBRARY, timeout=-1)
    with pytest.raises(remat.ServiceError, match="no schedule after"):
        impatient.schedule(profile, "70%")


def test_one_true_ends_a_call():
    profile = json.loads((ROOT / "clients/profiles/gpt.flops.json").read_text())
    text, status, calls = json.dumps({"profile": profile, "budget": "40%"}).encode(), ctypes.c_int(), []

    def progress(_, fraction):
        calls.append(fraction)
        return len(calls) == 3

    library = local._library(LIBRARY)
    library.remat_local_free(library.remat_local_post(b"/v1/schedules", text, len(text), local._Progress(progress), None,
                                                      ctypes.byref(status)))
    assert status.value == 409
    assert calls == sorted(calls) and calls[0] >= 0


@pytest.mark.parametrize("after", [0.0, 0.002, 0.1, 0.3])
def test_ctrl_c_is_not_lost(here, after):
    profile = json.loads((ROOT / "clients/profiles/gpt.flops.json").read_text())
    timer = threading.Timer(after, signal.raise_signal, (signal.SIGINT,))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            here.schedule(profile, "40%", effort="thorough")
        timer.join()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.core
def test_what_a_handler_raises_is_not_lost(here):
    """As schedulers of clusters have it: a time limit is SIGALRM or SIGUSR1 and an exception of the job's own."""
    class Preempted(Exception):
        pass

    def handler(*_):
        raise Preempted

    profile = json.loads((ROOT / "clients/profiles/gpt.flops.json").read_text())
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Preempted):
            here.schedule(profile, "40%", effort="thorough")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert here.schedule(profile, "60%")["peak"] > 0


@pytest.mark.core
def test_fit_without_a_server(here, tmp_path):
    model, inputs = vgg()
    plain = copy.deepcopy(model)
    remat.fit(model, inputs, "100%", cache=tmp_path)
    assert model.forward.schedule["peak"] <= model.forward.schedule["budget"]
    assert_same(step(model, inputs, 0), step(plain, inputs, 0))
