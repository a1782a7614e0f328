"""The CUDA backend as a user runs it: on the emulated device of tests/cuda, and the real one where there is none."""

import json
import os
import subprocess

import pytest
from conftest import BUILD, ROOT, SLOW

TRAIN = BUILD / "clients" / "executor" / "remat-train"
EMULATED = BUILD / "tests" / "cuda" / "remat-train-emulated"
LEFT_BEHIND = 96  # the emulation's: something was not given back
SMALL = ["--model", "resnet18", "--batch", "2", "--image", "32", "--width", "0.0625", "--classes", "4", "--rounds", "1",
         "--exact", "--local", "--steps", "2", "--backend", "cuda"]


def run(program, *words, code=0, **settings):
    environment = dict(os.environ, **{f"REMAT_EMULATED_{name.upper()}": str(value) for name, value in settings.items()})
    done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=300 * SLOW, env=environment)
    if code is not None:
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def test_compare_finds_no_difference():
    runs = json.loads(run(EMULATED, *SMALL, "--budget", "90%", "--compare", "--guard", "--json").stdout)
    assert [one["backend"] for one in runs] == ["cuda"] * 3 and "emulated" in runs[0]["device"]
    assert all(one["equal"] and one["losses"] == runs[0]["losses"] for one in runs[1:])
    assert runs[2]["arena"] < runs[0]["arena"]


def test_every_order_of_the_streams_gives_the_same():
    losses = [json.loads(run(EMULATED, *SMALL, "--budget", "100%", "--solver", "offload-all", "--link", "1TB/s", "--json",
                             seed=seed).stdout)["losses"] for seed in (1, 2, 3)]
    assert losses[0] == losses[1] == losses[2]


def test_overhead_and_link_are_measured():
    tiny = ["--model", "lstm", "--batch", "2", "--time", "2", "--width", "0.0625", *SMALL[10:]]
    said = run(EMULATED, *tiny, "--budget", "110%", "--overhead", "--link", "measured").stdout
    assert " of device's clock, predicted " in said and " % of the step beyond its calls\n  enqueued     after " in said
    answer = json.loads(run(EMULATED, *tiny, "--budget", "110%", "--overhead", "--link", "measured", "--json").stdout)
    assert 0 < answer["calls_step"] <= answer["step"] and 0 < answer["enqueued_step"] <= answer["wall_step"]
    assert answer["device_bytes"] == answer["arena"] and answer["library_bytes"] == 0
    assert answer["link"]["bandwidth"].endswith("GB/s")
    full = run(EMULATED, *tiny, "--budget", "110%", "--link", "measured", code=3, memory=100 << 20)
    assert "67108864 bytes twice on the host and the device" in full.stderr


def test_small_networks_are_aligned_for_the_device(rematd, tmp_path):
    """A service packs them to the byte unless it is told; kernels read four numbers at a time."""
    lstm = ["--model", "lstm", "--batch", "2", "--time", "8", "--width", "0.25"]
    path, packed = tmp_path / "profile.json", tmp_path / "packed.json"
    run(EMULATED, *lstm, "--backend", "cuda", "--rounds", "1", "--exact", "--profile-only", "-o", path)
    run(BUILD / "clients" / "cli" / "remat", "solve", "--local", "-b", "60%", "--alignment", "1", path, "-o", packed)
    losses = [json.loads(run(EMULATED, *lstm, "--backend", "cuda", "--steps", "2", "--json", *words).stdout)["losses"]
              for words in (["--schedule", packed], ["--profile", path, "--budget", "60%", "--server", rematd.url],
                            ["--profile", path, "--budget", "60%", "--local"])]
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("fault", [1, 5, 20, 60, 400, 2000])
def test_a_failing_call_is_said(fault):
    done = run(EMULATED, *SMALL, "--budget", "100%", code=None, fault=fault)
    assert done.returncode in (3, 5) and done.stdout == ""
    assert ": CUDA: " in done.stderr or ": cuBLAS: " in done.stderr or ": cuDNN: " in done.stderr


@pytest.mark.parametrize("settings, said", [
    ({"devices": 0}, "no CUDA device can be used: CUDA: no CUDA-capable device is detected"),
    ({"devices": -1}, "driver version is insufficient"),
    ({"memory": 1 << 20}, "bytes are free"),
    ({"memory": (32 << 20) + (100 << 10)}, "for parameters, gradients or states: "),
])
def test_refused(settings, said):
    done = run(EMULATED, *SMALL, "--budget", "100%", code=3, **settings)
    assert said in done.stderr and done.stdout == ""


def test_the_real_one_says_what_is_missing():
    """With a toolkit it compiles and links; what it says depends on the machine."""
    done = run(TRAIN, *SMALL, "--budget", "100%", code=None)
    if done.returncode == 0:
        assert "  device       cuda, " in done.stdout
        return
    assert done.returncode == 3 and done.stdout == ""
    assert "no CUDA device can be used: CUDA: " in done.stderr or "this build has no CUDA backend" in done.stderr


def test_table_of_predicted_and_measured():
    done = subprocess.run([str(ROOT / "tests" / "bench" / "train_table"), str(EMULATED), "--backend", "cuda", "--models",
                           "lstm", "--size", "--batch 2 --time 4 --width 0.125", "--budgets", "100.1,1", "--rounds", "1"],
                          capture_output=True, text=True, timeout=300 * SLOW)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| lstm")]
    assert len(rows) == 2 and "none: at least" in rows[1] and done.stdout.splitlines()[-1].startswith("Of 1 runs")


# ---- builds on machines that have less ----

def configure(tmp_path, *options):
    """As on a machine whose pkg-config knows jansson alone."""
    known = tmp_path / "known"
    known.mkdir()
    folder = subprocess.run(["pkg-config", "--variable", "pcfiledir", "jansson"], capture_output=True, text=True,
                            check=True).stdout.strip()
    (known / "jansson.pc").write_text(open(f"{folder}/jansson.pc").read())
    return subprocess.run(["meson", "setup", str(tmp_path / "build"), str(ROOT), "-Dcuda=disabled", *options],
                          capture_output=True, text=True, env=dict(os.environ, PKG_CONFIG_LIBDIR=str(known), CC="cc"))


def test_executor_alone(tmp_path):
    done = configure(tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "rematd is left out: there is no libmicrohttpd" in done.stdout
    assert "remat-train has no --server" in done.stdout
    targets = subprocess.run(["ninja", "-C", str(tmp_path / "build"), "-t", "targets", "all"], capture_output=True,
                             text=True, check=True).stdout
    assert "clients/executor/remat-train:" in targets and "server/rematd:" not in targets


@pytest.mark.parametrize("option, missing", [("server", "libmicrohttpd"), ("client", "libcurl")])
def test_what_is_asked_for_is_not_left_out(tmp_path, option, missing):
    done = configure(tmp_path, f"-D{option}=enabled")
    assert done.returncode != 0 and missing in done.stdout


def test_toolkit_that_is_not_there(tmp_path):
    done = subprocess.run([str(ROOT / "clients" / "executor" / "backends" / "cuda" / "find_toolkit"), str(tmp_path)],
                          capture_output=True, text=True)
    assert done.returncode == 1
    for name in ("nvcc", "cublas_v2.h", "cudnn.h", "libcudart.so"):
        assert name in done.stderr
