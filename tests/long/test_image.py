"""The image of deploy/container, built by buildah without a daemon, on a Debian of debootstrap in place of the one that a registry
has; and run as what it names itself: no root, on a file system that is read-only but for its volume."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CERTIFICATES = pathlib.Path("/usr/local/share/ca-certificates")  # of a network that has its own
TOOLS = ("buildah", "debootstrap", "unshare", "mount")
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not all(map(shutil.which, TOOLS)), reason=f"root and {', '.join(TOOLS)} are needed")


@pytest.fixture(scope="module")
def buildah(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")

    def run(*words, **more):
        done = subprocess.run(["buildah", "--root", folder / "root", "--runroot", folder / "run", *words], text=True,
                              capture_output=True, env={**os.environ, "BUILDAH_ISOLATION": "chroot"}, **more)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout.strip()

    base, tree = folder / "base", folder / "tree"
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", base, "http://deb.debian.org/debian"], check=True, capture_output=True)
    if CERTIFICATES.is_dir():
        shutil.copytree(CERTIFICATES, base / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
    first = run("from", "scratch")
    run("add", "-q", first, base, "/")
    run("commit", "-q", first, "docker.io/library/debian:bookworm-slim")
    run("bud", "--pull-never", "--format", "docker", "-f", "deploy/container/Containerfile", "-t", "remat", ".", cwd=tree)
    yield run
    run("rm", "--all")
    run("rmi", "--all", "--force")


@pytest.fixture
def daemon(buildah):
    image = json.loads(buildah("inspect", "--type", "image", "localhost/remat"))["Docker"]["config"]
    tree = pathlib.Path(buildah("mount", buildah("from", "--pull-never", "localhost/remat")))
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (volume,) = image["Volumes"]
    settings = dict(word.split("=", 1) for word in image["Env"])
    settings["REMATD_LISTEN"] = f"127.0.0.1:{port}"
    script = """set -e; mount --bind "$1" "$1"; mount --bind "$2" "$1$3"; mount -o remount,bind,ro "$1"; user=$4; tree=$1; shift 4
                exec chroot --userspec="$user" "$tree" "$@\""""
    data = tree.parent / "volume"  # as a volume begins: a copy of what the image has there
    shutil.copytree(tree / volume.lstrip("/"), data)
    os.chown(data, *map(int, image["User"].split(":")))
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, "sh", tree, data, volume, image["User"], *image["Entrypoint"]],
                               env=settings, stderr=subprocess.PIPE, text=True)
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            break
        except OSError:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
    yield process, f"http://127.0.0.1:{port}", image
    process.terminate()
    assert process.wait(30) == 0


def test_it_solves_as_nobody_on_a_read_only_root(daemon):
    process, url, image = daemon
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    assert "\nUid:\t" + "\t".join([image["User"].split(":")[0]] * 4) in status
    with pytest.raises(OSError, match="Read-only"):
        pathlib.Path(f"/proc/{process.pid}/root/usr/bin/new").write_text("")
    profile = json.loads((ROOT / "clients/profiles/resnet50.chain.json").read_text())
    asked = urllib.request.Request(f"{url}/v1/schedules", json.dumps({"profile": profile, "budget": "60%", "wait": 60}).encode(),
                                   {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        assert answer.status == 200 and json.load(answer)["peak"] > 0
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "text/html"})) as page:
        assert b"<html" in page.read()


def test_it_says_what_is_in_it(daemon):
    process, _, _ = daemon
    root = pathlib.Path(f"/proc/{process.pid}/root")
    told = json.loads((root / "usr/share/remat/sbom.cdx.json").read_text())
    named = {(one["purl"].split("/")[0], one["name"], one["version"]) for one in told["components"]}
    query = ["chroot", root, "dpkg-query", "-W", "-f", "pkg:deb ${Package} ${Version}\n"]
    installed = {tuple(line.split()) for line in subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()}
    assert len(installed) > 80 and installed <= named
    locked = json.loads((ROOT / "clients/web/package-lock.json").read_text())["packages"]
    page = {("pkg:npm", name, locked[f"node_modules/{name}"]["version"]) for name in ("preact", "uplot", "d3-dag", "swagger-ui-dist")}
    assert {one[:2] for one in named - installed - page} == {("pkg:generic", "remat"), ("pkg:deb", "uthash-dev")} and page <= named
