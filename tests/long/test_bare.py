"""The first page, line by line, by a reader with a bare Debian (debootstrap, minbase), git and sudo: each of its commands is run as
it stands, in one shell, and prints what the page shows; each way to install is gone, and puts on the PATH what it says; the page is
opened in a real browser. `-k 12` or `-k 13` takes one of the two."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from conftest import ROOT  # noqa: E402
from test_readme import QUICKSTART, TEXT, differs, examples  # noqa: E402

CERTIFICATES = pathlib.Path("/usr/local/share/ca-certificates")  # of a network that has its own
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
SERVICE = "http://127.0.0.1:7070/"
TOOLS = ("chromium", "debootstrap", "git", "mount", "unshare")
WAYS = {way: (command, programs) for way, command, programs in re.findall(r"^\| (.*?) \| `(.*?)` \| (.*?) \|$", TEXT, re.M)}
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not all(map(shutil.which, TOOLS)), reason=f"root and {', '.join(TOOLS)} are needed")


class Reader:
    """A shell of one who may sudo, in a system of his own; he says yes to apt."""

    def __init__(self, root, log):
        self.log, self.read = log, 0
        trusts = [f"{name}={BUNDLE}" for name in ("NODE_EXTRA_CA_CERTS", "PIP_CERT")] if CERTIFICATES.is_dir() else []
        script = """mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && mount -t tmpfs tmp "$1/tmp" && root=$1 && shift
                    exec chroot --userspec=reader:reader "$root" env -i HOME=/home/reader USER=reader LANG=C.UTF-8 "$@" bash"""
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", script, "sh", root,
             "PATH=/usr/local/bin:/usr/bin:/bin", *trusts], stdin=subprocess.PIPE, stdout=log.open("wb"), stderr=subprocess.STDOUT, text=True)
        self.types("cd ~/remat")

    def types(self, line, seconds=1800):
        """What it prints; fails where it fails."""
        began = time.monotonic()
        self.process.stdin.write(f"{{ {line}\n}} </dev/null; status=$?; echo; echo \"@done $status\"\n")
        self.process.stdin.flush()
        while True:
            text = self.log.read_bytes()[self.read:].decode(errors="replace")
            end = re.search(r"\n@done (\d+)\n", text)
            if end:
                break
            assert self.process.poll() is None and time.monotonic() < began + seconds, text[-3000:]
            time.sleep(0.1)
        self.read += len(text.encode())
        print(f"{time.monotonic() - began:6.1f} s  {line}")
        assert end[1] == "0", f"{line}\n{text[-3000:]}"
        return text[:end.start()]

    def leaves(self):
        """With all that he started: the shell is the first process of a name space."""
        pid = self.process.pid
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        self.process.wait()


def made(root, release):
    """A bare system with a clone in the folder of a user reader, who may sudo."""
    subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", release, root, "http://deb.debian.org/debian"],
                   check=True, capture_output=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
    (root / "etc/apt/apt.conf.d/99yes").write_text('APT::Get::Assume-Yes "true";\n')
    if CERTIFICATES.is_dir():
        shutil.copytree(CERTIFICATES, root / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    subprocess.run(["chroot", root, "sh", "-ec", """apt-get -qq update; apt-get -qq install --no-install-recommends git sudo ca-certificates
        useradd --create-home --shell /bin/bash reader; echo 'reader ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/reader"""],
                   check=True, capture_output=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})
    clone = root / "home/reader/remat"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    subprocess.run(["chroot", root, "chown", "-R", "reader:reader", "/home/reader"], check=True)


@pytest.fixture(params=[pytest.param("bookworm", id="12"), pytest.param("trixie", id="13")])
def reader(request, tmp_path):
    try:
        urllib.request.urlopen(SERVICE).close()
        pytest.skip(f"something answers at {SERVICE} already")
    except OSError:
        pass
    root = tmp_path / "root"
    one = None
    try:
        made(root, request.param)
        one = Reader(root, tmp_path / "log")
        yield one
    finally:
        if one:
            one.leaves()
        shutil.rmtree(root, ignore_errors=True)


def seen(address):
    """What a browser shows there in the end."""
    return subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom", address],
                          check=True, capture_output=True, text=True, timeout=300).stdout


def installs(reader, way):
    """Goes one way of the table, and looks for what it puts on the PATH."""
    command, programs = WAYS[way]
    reader.types(command)
    for name in re.findall(r"`(remat[a-z-]*)`", programs):
        assert "remat" in reader.types(f"{name} --version" if name != "remat" else "remat version")


def test_the_first_page_is_true_on_a_bare_machine(reader):
    shown = list(examples(TEXT))
    assert shown[0][0] == QUICKSTART and WAYS["to look first"][0] == QUICKSTART
    for command, lines in shown:
        printed = reader.types(command)
        differs([line.rstrip() for line in printed.splitlines()], lines)
        assert "remat-train" not in command or "loss " in printed
    assert any("verified" in line for _, lines in shown for line in lines) and any("remat-train" in command for command, _ in shown)
    page = seen(SERVICE)
    assert "resnet50-chain" in page or "resnet50" in page
    assert "swagger" in seen(f"{SERVICE}docs").lower()
    reader.types("kill $(cat build-quickstart/rematd.pid)")

    installs(reader, "Debian 12 or later, Ubuntu 24.04 or later")
    reader.types("sudo install -d -o remat -g remat /var/lib/remat")  # as systemd does
    reader.types("sudo -u remat rematd --config /etc/remat/rematd.conf --store /var/lib/remat/store.db 2>/tmp/rematd.log & daemon=$!")
    reader.types("for _ in $(seq 100); do curl -fs http://127.0.0.1:7070/readyz && break; sleep 0.1; done")
    reader.types("remat solve clients/profiles/vgg19.chain.json --budget 80%")
    reader.types("sudo sh -c \"kill $(cat /proc/$daemon/task/$daemon/children)\"; wait $daemon")
    reader.types("sudo test -e /var/lib/remat/store.db")
    reader.types("sudo DEBIAN_FRONTEND=noninteractive apt-get purge remat && ! test -e /var/lib/remat && ! test -e /etc/remat")
    reader.types("hash -r; ! command -v rematd")

    installs(reader, "source")
    if "not reached" in reader.types("curl -fs --max-time 10 -o /dev/null https://pypi.org/simple/setuptools/ || echo not reached"):
        print("PyPI is not reached: pip builds with Debian's setuptools and wheel")
        reader.types("sudo apt-get install python3-setuptools-whl python3-wheel-whl")
        reader.types("export PIP_NO_INDEX=1 PIP_FIND_LINKS=/usr/share/python-wheels")
    installs(reader, "Python")
    assert "0.2" in reader.types("""python -c 'import json, remat
print(remat.__version__, remat.solve(json.load(open("clients/profiles/resnet50.chain.json")), "60%", server="local")["peak"])'""")
    assert reader.types("git status --porcelain").strip() == ""
