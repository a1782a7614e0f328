"""A real rematd per test module, and a small client that checks every answer against the OpenAPI document."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("REMAT_BUILD", ROOT / "build"))
PROFILES = ROOT / "clients" / "profiles"
SLOW = 10 if os.environ.get("REMAT_SLOW_BUILD") else 1
signal.signal(signal.SIGINT, signal.default_int_handler)  # `tests/run &` ignores it, and all that is started here would
OPENAPI = json.loads((ROOT / "api" / "openapi.json").read_text())


def some(cases):
    """All with tests/run --long, else every second one: of cases that take seconds each and differ in a network or a shape."""
    return list(cases)[::1 if os.environ.get("REMAT_LONG") else 2]


def profile(name):
    return json.loads((PROFILES / f"{name}.json").read_text())


def schema_of(path, method, status, content_type):
    """The schema the document promises for an answer; fails when it promises none."""
    for pattern, item in OPENAPI["paths"].items():
        if re.fullmatch(re.sub(r"\{id\}", "[0-9a-f]+", pattern), path):
            if method not in item:
                return None
            answers = item[method]["responses"]
            if str(status) not in answers and status in (400, 403, 411, 417, 421, 431, 503, 505):
                status = "default"  # what any request may get
            assert str(status) in answers, f"{method} {path}: {status} is not in the document"
            content = answers[str(status)].get("content", {})
            assert not content_type or content_type in content, f"{method} {path} {status}: {content_type}"
            return content.get(content_type, {}).get("schema") if content_type else None
    return None


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Service:
    """A rematd process on a store of its own."""

    program = BUILD / "server" / "rematd"

    def __init__(self, folder, *arguments, env=None):
        self.folder, self.arguments = pathlib.Path(folder), list(arguments)
        self.store = self.folder / "store.db"
        self.env = dict(os.environ, **(env or {}))
        self.process = None
        self.logs = []

    def start(self):
        log = self.folder / f"log{len(self.logs)}"
        self.logs.append(log)
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [str(self.program), "--listen", "127.0.0.1:0", "--store", str(self.store),
                 *self.arguments], stderr=stderr, env=self.env)
        deadline = time.monotonic() + 30 * SLOW
        while time.monotonic() < deadline:
            for line in log.read_bytes().splitlines():
                if line.startswith(b"{") and b'"listening"' in line:
                    self.port = json.loads(line)["port"]
                    return self
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"rematd did not start: {log.read_text()}")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def log_lines(self):
        return [json.loads(line) for log in self.logs for line in log.read_bytes().splitlines()
                if line.startswith(b"{")]

    def stop(self):
        """SIGTERM; the exit status must be 0 and nothing may leak (sanitizers exit otherwise)."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60 * SLOW)
        assert self.process.returncode == 0, self.logs[-1].read_text()[-4000:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def call(self, method, path, body=None, headers=None, check=True, timeout=60):
        """One request on a connection of its own. dict and list bodies become JSON."""
        sent = dict(headers or {})
        if path in ("/v1/schedules", "/v1/tradeoffs") and isinstance(body, dict):
            body = {"wait": 50 * SLOW, **body}  # or a solve becomes a job that no test asked for, where a machine has much to do
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        finally:
            connection.close()
        if check:
            self.check(method, path, answer)
        return answer

    @staticmethod
    def check(method, path, answer):
        assert answer.headers["X-Request-Id"]
        kind = (answer.headers["Content-Type"] or "").split(";")[0]
        coded = answer.headers["Content-Encoding"]
        if method in ("HEAD",) or answer.status in (204, 304) or coded:
            return
        schema = schema_of(path.split("?")[0], method.lower(), answer.status, kind)
        if schema and "json" in kind:
            jsonschema.Draft202012Validator({**schema, "components": OPENAPI["components"]}).validate(answer.json)

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body, **more):
        return self.call("POST", path, body, **more)

    def push(self, name):
        answer = self.post("/v1/profiles", profile(name))
        assert answer.status in (200, 201), answer.body
        return answer.json

    def metric(self, name):
        for line in self.get("/metrics").body.decode().splitlines():
            if line.rsplit(" ", 1)[0] == name:
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")

    def metric_becomes(self, name, value, seconds=10):
        """Whether it does: a connection that its peer closed is counted until the daemon has read of it."""
        end = time.monotonic() + seconds * SLOW
        while self.metric(name) != value:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def command(self, *words):
        """rematd check / backup on this store."""
        return subprocess.run([str(self.program), *words, "--store", str(self.store)],
                              capture_output=True, text=True, timeout=60 * SLOW)


@pytest.fixture
def make_service(tmp_path):
    made = []

    def make(*arguments, **more):
        folder = tmp_path / f"service{len(made)}"
        folder.mkdir()
        made.append(Service(folder, *arguments, **more).start())
        return made[-1]

    yield make
    for service in made:
        if service.process.poll() is None:
            service.stop()
        shutil.rmtree(service.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def rematd(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("rematd")).start()
    yield service
    service.stop()
    assert not [line for line in service.log_lines() if line["level"] == "error"]


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
