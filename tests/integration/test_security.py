"""Tokens, TLS, limits, slow clients, configuration, and the socket that systemd hands over."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import time

import pytest

from conftest import BUILD, SLOW, profile
from test_service import big_chain

REMATD = BUILD / "server" / "rematd"


def token_command(path, *words):
    return subprocess.run([str(REMATD), "token", *words, "--tokens", str(path)], capture_output=True, text=True,
                          timeout=60 * SLOW)


def make_token(path, name, scopes, *limits):
    made = token_command(path, "add", name, scopes, *limits)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def wait_for_log(service, message, count=1):
    deadline = time.monotonic() + 10 * SLOW
    while sum(line["message"] == message for line in service.log_lines()) < count:
        assert time.monotonic() < deadline, message
        time.sleep(0.01)


def test_tokens_and_scopes(make_service, tmp_path):
    path = tmp_path / "tokens.json"
    read, solve, admin = (make_token(path, name, scopes) for name, scopes in
                          (("reader", "read"), ("solver", "solve,read"), ("boss", "read,solve,admin")))
    text = path.read_text()
    assert len({read, solve, admin}) == 3 and not any(t in text for t in (read, solve, admin))
    assert path.stat().st_mode & 0o777 == 0o600
    service = make_service("--tokens", str(path))
    document = profile("vgg19.chain")
    for open_path in ("/healthz", "/readyz", "/"):
        assert service.get(open_path).status == 200
    for headers in ({}, bearer("remat_" + "0" * 64), {"Authorization": f"Basic {read}"}, bearer(""),
                    bearer(read + "0"), bearer(read[:-1])):
        answer = service.get("/v1/profiles", headers=headers)
        assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json["type"] == "/problems/unauthorized"
    for path_, method in (("/v1/profiles", "POST"), ("/metrics", "GET"), ("/openapi.json", "GET"),
                          (f"/v1/schedules/{'0' * 64}", "GET"), (f"/v1/jobs/{'0' * 32}/events", "GET")):
        assert service.call(method, path_, document if method == "POST" else None).status == 401
    assert service.get("/v1/profiles", headers=bearer(read)).status == 200
    answer = service.post("/v1/profiles", document, headers=bearer(read))
    assert answer.status == 403 and "solve" in answer.json["detail"]
    created = service.post("/v1/profiles", document, headers=bearer(solve))
    assert created.status == 201
    one = f"/v1/profiles/{created.json['profile_id']}"
    assert service.call("DELETE", one, headers=bearer(solve)).status == 403
    assert service.call("DELETE", one, headers=bearer(admin)).status == 204
    log = service.logs[-1].read_text()
    assert not any(t in log for t in (read, solve, admin))


def test_revoked_at_once(make_service, tmp_path):
    path = tmp_path / "tokens.json"
    kept, gone = make_token(path, "kept", "read"), make_token(path, "gone", "read")
    service = make_service("--tokens", str(path))
    assert service.get("/v1/profiles", headers=bearer(gone)).status == 200
    assert token_command(path, "revoke", "gone").returncode == 0
    assert token_command(path, "revoke", "gone").returncode == 1
    new = make_token(path, "new", "read")
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "reloaded")
    assert service.get("/v1/profiles", headers=bearer(gone)).status == 401
    assert service.get("/v1/profiles", headers=bearer(kept)).status == 200
    assert service.get("/v1/profiles", headers=bearer(new)).status == 200
    path.write_text("{\"tokens\": [{}]}")  # a broken file changes nothing
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "not reloaded")
    assert service.get("/v1/profiles", headers=bearer(kept)).status == 200
    listed = token_command(path, "list")
    assert listed.returncode == 1 and "tokens[0]" in listed.stderr


def test_token_command_refuses_nonsense(tmp_path):
    path = tmp_path / "tokens.json"
    for words in ((), ("add",), ("add", "x"), ("add", "x", "write"), ("add", "x", "read", "rate=-1"),
                  ("add", "x", "read", "speed=1"), ("revoke",), ("burn", "x")):
        assert token_command(path, *words).returncode == 2, words
    for name in ("", "a b", "é", "x" * 65, "../x"):
        assert token_command(path, "add", name, "read").returncode in (1, 2)
    make_token(path, "twice", "read")
    assert token_command(path, "add", "twice", "read").returncode == 1
    assert "twice" in token_command(path, "list").stdout


def test_rates(make_service, tmp_path):
    path = tmp_path / "tokens.json"
    slow, quick = make_token(path, "slow", "read", "rate=5"), make_token(path, "quick", "read")
    service = make_service("--tokens", str(path))
    statuses = [service.get("/v1/profiles", headers=bearer(slow)).status for _ in range(30)]
    assert statuses[:10] == [200] * 10 and statuses.count(429) >= 10
    refused = service.get("/v1/profiles", headers=bearer(slow))
    assert refused.json["type"] == "/problems/rate-limited" and int(refused.headers["Retry-After"]) >= 1
    assert all(service.get("/v1/profiles", headers=bearer(quick)).status == 200 for _ in range(30))
    assert service.get("/healthz").status == 200
    time.sleep(1.1)
    assert service.get("/v1/profiles", headers=bearer(slow)).status == 200


def test_limits_of_an_address(make_service):
    service = make_service("--address-jobs", "2", "--workers", "1", "--address-connections", "5")
    statuses = []
    for seed in range(4):
        body = {"profile": big_chain(300, seed), "budget": "50%", "solver": "rotor", "wait": 0}
        statuses.append(service.post("/v1/schedules", body))
    assert [a.status for a in statuses] == [202, 202, 429, 429]
    assert "2 unfinished" in statuses[2].json["detail"] and statuses[2].headers["Retry-After"]
    for answer in statuses[:2]:
        service.call("DELETE", f"/v1/jobs/{answer.json['job_id']}")
    deadline = time.monotonic() + 20 * SLOW
    while any(j["state"] in ("queued", "running") for j in service.get("/v1/jobs").json["jobs"]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert service.post("/v1/schedules", dict(body, budget="60%", wait=0)).status == 202
    open_ones = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(12)]
    time.sleep(0.3)
    alive = 0
    for one in open_ones:
        one.settimeout(2 * SLOW)
        try:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            alive += one.recv(100).startswith(b"HTTP/1.1 200")
        except OSError:
            pass
        one.close()
    assert 1 <= alive <= 5


def test_limits_of_a_profile(make_service):
    service = make_service("--max-nodes", "100", "--max-edges", "150")
    assert service.post("/v1/profiles", big_chain(100)).status == 201
    answer = service.post("/v1/profiles", big_chain(101))
    assert answer.status == 413 and "101 nodes" in answer.json["detail"] and "100" in answer.json["detail"]
    wide = {"format": "remat-profile/1", "name": "wide", "nodes": [
        {"id": f"n{i}", "inputs": [f"n{k}" for k in range(i)], "forward_time": 1, "output_bytes": 1} for i in range(19)]}
    answer = service.post("/v1/profiles", wide)
    assert answer.status == 413 and f"{19 * 18 // 2} edges" in answer.json["detail"]


def test_a_client_that_trickles_is_cut_off(make_service):
    """A byte now and then keeps a connection from being silent, not from being slow."""
    service = make_service("--idle-seconds", "2", "--receive-seconds", "2")
    one = socket.create_connection(("127.0.0.1", service.port))
    one.settimeout(0.2)
    one.sendall(b"POST /v1/profiles HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
    start, closed = time.monotonic(), False
    while time.monotonic() - start < 45 * SLOW and not closed:
        try:
            one.sendall(b" ")
            closed = one.recv(1) == b""
        except socket.timeout:
            pass
        except OSError:
            closed = True
    assert closed and 3 < time.monotonic() - start < 20 * SLOW
    assert service.get("/healthz").status == 200


def certificate(folder, name):
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


def https_get(port, path, trust):
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30 * SLOW,
                                             context=ssl.create_default_context(cafile=str(trust)))
    connection.request("GET", path, headers={"Accept-Encoding": "identity"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_tls_and_a_new_certificate(make_service, tmp_path):
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(first[0].read_bytes())
    key.write_bytes(first[1].read_bytes())
    service = make_service("--tls-cert", str(cert), "--tls-key", str(key))
    assert https_get(service.port, "/healthz", first[0])[0] == 200
    status, body = https_get(service.port, "/openapi.json", first[0])
    assert status == 200 and json.loads(body)["openapi"].startswith("3.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        https_get(service.port, "/healthz", second[0])
    cert.write_bytes(second[0].read_bytes())  # the key is still the old one: refused, nothing changes
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "not reloaded")
    assert https_get(service.port, "/healthz", first[0])[0] == 200
    key.write_bytes(second[1].read_bytes())
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "reloaded")
    assert https_get(service.port, "/healthz", second[0])[0] == 200
    plain = socket.create_connection(("127.0.0.1", service.port))
    plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert not plain.recv(100).startswith(b"HTTP/1.1 200")
    plain.close()


def test_wrong_files_stop_the_start(tmp_path):
    cert, _ = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "other")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for words, said in (((["--tls-cert", str(cert)]), "belong together"),
                        (["--tls-cert", str(cert), "--tls-key", str(other)], "not that of the certificate"),
                        (["--tls-cert", "/none", "--tls-key", str(other)], "/none"),
                        (["--tokens", "/none.json"], "/none.json"), (["--tokens", str(broken)], "broken.json"),
                        (["--config", "/none.conf"], "cannot be read")):
        done = subprocess.run([str(REMATD), "--check-config", *words], capture_output=True, text=True, timeout=60 * SLOW)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)


def test_configuration_file(make_service, tmp_path):
    file = tmp_path / "rematd.conf"
    file.write_text("# comment\nlog-level = warning   # quiet\naddress-rate=3\n\nworkers = 1\n")
    service = make_service("--config", str(file), "--log-level", "info")  # the flag wins
    statuses = [service.get("/v1/solvers").status for _ in range(40)]
    assert 429 in statuses
    file.write_text("address-rate = 0\nworkers = 2\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "reloaded")
    assert all(service.get("/v1/solvers").status == 200 for _ in range(40))
    assert any(line.get("setting") == "workers" for line in service.log_lines())  # needs a restart
    for line, said in (("nonsense", "line 1"), ("speed = 3", "not a setting"), ("workers = many", "not a number"),
                       ("config = other.conf", "names no other file"), ("workers = 1\0 2", "NUL"),
                       ("workers = 1\nworkers = 2", "line 2: \"workers\" is set twice")):
        file.write_text(line + "\n")
        done = subprocess.run([str(REMATD), "--check-config", "--config", str(file)], capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr
    file.write_text("workers = lots\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for_log(service, "not reloaded")
    assert service.get("/v1/solvers").status == 200


def events(service, job_id, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60 * SLOW)
    connection.request("GET", f"/v1/jobs/{job_id}/events", headers=headers or {})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/event-stream", answer.read()
    name = None
    for line in answer:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text[7:]
        elif text.startswith("data: "):
            yield name, json.loads(text[6:])
    connection.close()


def test_events_of_a_solve(make_service):
    service = make_service("--workers", "1")
    body = {"profile": big_chain(300), "budget": "50%", "solver": "rotor", "options": {"slots": 700}, "wait": 0}
    job = service.post("/v1/schedules", body).json["job_id"]
    seen = list(events(service, job))
    assert [name for name, _ in seen[:-1]] == ["progress"] * (len(seen) - 1) and seen[-1][0] == "end"
    progress = [job["progress"] for _, job in seen]
    assert progress == sorted(progress) and progress[-1] == 1 and seen[-1][1]["state"] == "done"
    assert len(seen) >= 3
    again = list(events(service, job))  # after its end: the end alone
    assert len(again) == 1 and again[0][0] == "end"
    service.stop()
    service.start()
    stored = list(events(service, job))  # from the store
    assert len(stored) == 1 and stored[0][1]["schedule_id"] == seen[-1][1]["schedule_id"]
    assert service.get(f"/v1/jobs/{'0' * 32}/events").status == 404


def test_events_of_a_cancelled_solve_and_of_a_stop(make_service):
    service = make_service("--workers", "1", "--stop-seconds", "0")
    bodies = [{"profile": big_chain(400, seed), "budget": "50%", "solver": "rotor", "wait": 0} for seed in (1, 2)]
    first, second = (service.post("/v1/schedules", body).json["job_id"] for body in bodies)
    stream = events(service, first)
    assert next(stream)[0] == "progress"
    service.call("DELETE", f"/v1/jobs/{first}")
    last = list(stream)[-1]
    assert last[0] == "end" and last[1]["state"] == "cancelled"
    watched = events(service, second)
    assert next(watched)[0] == "progress"
    gone = events(service, second)
    next(gone)
    gone.close()  # a client that goes away in the middle
    service.stop()
    list(watched)


def test_socket_handed_over(tmp_path):
    """As systemd does it: the socket is fd 3, and connections made before the start are answered."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(tmp_path / "notify"))
    notify.settimeout(30 * SLOW)
    early = socket.create_connection(("127.0.0.1", port))
    early.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    command = ["sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\" 3<&0 </dev/null", "sh", str(REMATD),
               "--listen", "127.0.0.1:1", "--store", str(tmp_path / "store.db")]
    process = subprocess.Popen(command, stdin=listener.fileno(), stderr=(tmp_path / "log").open("wb"),
                               env=dict(os.environ, NOTIFY_SOCKET=str(tmp_path / "notify")))
    try:
        early.settimeout(30 * SLOW)
        assert early.recv(100).startswith(b"HTTP/1.1 200")
        assert notify.recv(100) == b"READY=1"
        process.send_signal(signal.SIGTERM)
        assert notify.recv(100) == b"STOPPING=1"
        assert process.wait(30 * SLOW) == 0
        waiting = socket.create_connection(("127.0.0.1", port))  # the socket is still there
        waiting.close()
    finally:
        process.kill()
        listener.close()


def test_old_versions_of_tls_are_refused(make_service, tmp_path):
    cert, key = certificate(tmp_path, "one")
    service = make_service("--tls-cert", str(cert), "--tls-key", str(key))

    def version(least, most, ciphers="ALL:@SECLEVEL=0"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers(ciphers)
        context.minimum_version, context.maximum_version = least, most
        with socket.create_connection(("127.0.0.1", service.port), timeout=10 * SLOW) as raw:
            with context.wrap_socket(raw) as secure:
                return secure.version(), secure.cipher()[0]

    V = ssl.TLSVersion
    assert version(V.TLSv1_3, V.TLSv1_3)[0] == "TLSv1.3"
    name, cipher = version(V.TLSv1_2, V.TLSv1_2)
    assert name == "TLSv1.2" and cipher.startswith("ECDHE") and ("GCM" in cipher or "CHACHA20" in cipher)
    for old in (V.TLSv1, V.TLSv1_1):
        with pytest.raises((ssl.SSLError, OSError)):
            version(old, old)
    for weak in ("AES128-SHA256:@SECLEVEL=0", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA"):  # no forward secrecy, or CBC
        with pytest.raises((ssl.SSLError, OSError)):
            version(V.TLSv1_2, V.TLSv1_2, weak)


def test_large_bodies_over_tls(make_service, tmp_path):
    """Both ways, on one connection, larger than what records and buffers hold."""
    cert, key = certificate(tmp_path, "one")
    service = make_service("--tls-cert", str(cert), "--tls-key", str(key))
    connection = http.client.HTTPSConnection("127.0.0.1", service.port, timeout=60 * SLOW,
                                             context=ssl.create_default_context(cafile=str(cert)))
    document = big_chain(20000)
    for _ in range(3):
        connection.request("POST", "/v1/profiles", json.dumps(document), {"Content-Type": "application/json"})
        posted = connection.getresponse()
        known = json.loads(posted.read())["profile_id"]
        connection.request("GET", f"/v1/profiles/{known}", headers={"Accept-Encoding": "identity"})
        answer = connection.getresponse()
        assert json.loads(answer.read())["profile"]["nodes"] == document["nodes"]
    connection.close()


def test_check_config_refuses_nonsense(tmp_path):
    """What would fail, or mean something else than it says, at the start."""
    file, good = tmp_path / "file", ["--listen", "127.0.0.1:0", "--store", str(tmp_path / "new" / "store.db")]
    file.write_text("text")

    def check(*words):
        return subprocess.run([str(REMATD), "--check-config", *good, *words], capture_output=True, text=True, timeout=60 * SLOW)

    assert check().returncode == 0 and not (tmp_path / "new").exists()
    for words, said in ((["--listen", "127.0.0.1"], "ADDRESS:PORT"), (["--listen", "127.0.0.1:"], "ADDRESS:PORT"),
                        (["--listen", "127.0.0.1:99999"], "65535"), (["--listen", "127.0.0.1:65536"], "65535"),
                        (["--listen", "127.0.0.1:-1"], "ADDRESS:PORT"), (["--listen", "127.0.0.1:http"], "ADDRESS:PORT"),
                        (["--listen", "300.1.2.3:80"], "300.1.2.3"), (["--listen", "no such name:80"], "no such name"),
                        (["--store", str(tmp_path)], "not a file"), (["--store", f"{file}/store.db"], "store"),
                        (["--store", "/dev/null/x"], "store"), (["--store", "/dev/null"], "not a file"),
                        (["--store", f"{tmp_path}/none/"], "folder"),
                        (["--workers", "1.5"], "whole"), (["--workers", "4KB"], "whole"), (["--workers", "1e2"], "1e2"),
                        (["--workers", "0"], "0"), (["--max-nodes", "12.0"], "whole"), (["--memory-limit", "1048576.5"], "whole"),
                        (["--memory-limit", "-1"], "-1"), (["--memory-limit", "50%"], "50%"), (["--cache-bytes", "inf"], "inf")):
        done = check(*words)
        assert done.returncode == 2 and said in done.stderr and not done.stdout.startswith("Traceback"), (words, done)
    loop, idle = tmp_path / "loop", tmp_path / "idle.json"
    loop.symlink_to(loop)
    idle.write_text(json.dumps({"tokens": [{"name": "a", "scopes": [], "sha256": "a" * 64, "created": "x", "rate": 0, "jobs": 0}]}))
    for words, said in ((["--listen", "192.0.2.1:80"], "no address of this machine"), (["--listen", ":-1"], "ADDRESS:PORT"),
                        (["--listen", "1.2.3.4.5:80"], "1.2.3.4.5"), (["--listen", "http://127.0.0.1:80"], "http"),
                        (["--listen", " 127.0.0.1:80"], " 127.0.0.1"), (["--listen", "127.0.0.1:+80"], "ADDRESS:PORT"),
                        (["--store", str(file)], "not a store"), (["--store", ":memory:"], "lost"),
                        (["--store", "mysql://x/y"], "postgresql"), (["--store", "http://x/y"], "postgresql"),
                        (["--store", str(loop)], "symbolic links"), (["--config", str(tmp_path)], "cannot be read"),
                        (["--tokens", str(tmp_path)], "expected"), (["--tokens", str(file)], "expected"),
                        (["--tokens", str(loop)], "symbolic links"), (["--tokens", str(idle)], "no scopes"),
                        (["--host", "http://a.example"], "list of names"), (["--host", "a.example:80"], "list of names"),
                        (["--host", "*.example"], "list of names"), (["--host", "a.example,-"], "list of names"),
                        (["--host", "[::1]"], "list of names"), (["--host", "a/b"], "list of names"),
                        (["--host", ","], "list of names"), (["--host", "a b"], "list of names"),
                        (["--host", "a,,b"], "list of names"), (["--host", "a,"], "list of names"),
                        (["--memory-limit", "9999TB"], "too large"), (["--workers", "99999999999999999999"], "too large"),
                        (["--memory-limit", "9999XB"], "not a number"), (["--host", "b\u00fccher.example"], "list of names"),
                        (["--host", "a."], "list of names"), (["--max-body", "1GiB", "--body-memory", "2MiB"], "body-memory"),
                        (["--memory-limit", "4096TiB"], "may use"), (["--memory-limit", "nan"], "nan"),
                        (["--cache-bytes", "1e9"], "1e9"), (["--body-memory", "0"], "0"), (["--max-body", "0.5"], "whole"),
                        (["--workers", "-1"], "-1"), (["--workers", "1e9"], "1e9"), (["--workers", "0x4"], "0x4"),
                        (["--address-rate", "-1"], "-1"), (["--lease-seconds", "0"], "0"), (["--log-level", "INFO"], "INFO")):
        done = check(*words)
        assert done.returncode == 2 and said in done.stderr, (words, done)
    for words in (["--memory-limit", "1.5GiB"], ["--listen", "[::1]:65535"], ["--listen", "localhost:0"], ["--listen", ":0"],
                  ["--host", "a.example, b.example"], ["--host", "*"], ["--host", "10.0.0.1,fe80::1"]):
        assert check(*words).returncode == 0, (words, check(*words).stderr)


def test_workers_are_those_of_the_control_group(tmp_path):
    """In a container the machine's cores are not all to be had."""
    def setting(name, before=""):
        said = subprocess.run(["sh", "-c", f"{before} exec {REMATD} --check-config --store {tmp_path}/store.db"],
                              capture_output=True, text=True, check=True).stdout
        return int(re.search(f"^{name} = (.*)$", said, re.M)[1])

    assert 1 <= setting("workers") <= len(os.sched_getaffinity(0))
    assert setting("workers", "taskset -cp 0 $$ >/dev/null;") == 1
    group = pathlib.Path("/sys/fs/cgroup") / ("cpu" if pathlib.Path("/sys/fs/cgroup/cpu").is_dir() else "") / f"remat-{os.getpid()}"
    try:
        group.mkdir()
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text("100000 100000")
        else:
            (group / "cpu.cfs_quota_us").write_text("100000")
    except OSError:
        pytest.skip("control groups cannot be made here")
    try:
        assert setting("workers", f"echo $$ >{group}/cgroup.procs;") == 1
    finally:
        group.rmdir()


def test_a_job_belongs_to_its_askers(make_service, tmp_path):
    """A token takes back what it asked, and sees its own jobs; admin cancels for all, and sees all."""
    path = tmp_path / "tokens.json"
    one, other, boss = (make_token(path, name, scopes) for name, scopes in
                        (("one", "solve,read"), ("other", "solve,read"), ("boss", "read,admin")))
    service = make_service("--tokens", str(path), "--workers", "1", "--stop-seconds", "0")
    long = {"profile": big_chain(400), "budget": "50%", "solver": "rotor", "options": {"slots": 3000}, "wait": 0}
    shared = {service.post("/v1/schedules", long, headers=bearer(token)).json["job_id"] for token in (one, other)}
    assert len(shared) == 1
    shared = shared.pop()
    own = service.post("/v1/schedules", {**long, "budget": "60%"}, headers=bearer(one)).json["job_id"]

    def seen(token):
        return {job["job_id"] for job in service.get("/v1/jobs", headers=bearer(token)).json["jobs"]}

    def delete(job, token):
        return service.call("DELETE", f"/v1/jobs/{job}", headers=bearer(token))

    assert seen(one) == seen(boss) == {shared, own} and seen(other) == {shared}
    refused = delete(own, other)
    assert refused.status == 403 and "admin" in refused.json["detail"]
    assert delete(shared, one).json["state"] in ("queued", "running") and seen(one) == {own}
    assert delete(shared, one).status == 403  # it has taken back what it asked
    assert service.get(f"/v1/jobs/{shared}", headers=bearer(boss)).json["asked"] == 1
    again = service.post("/v1/schedules", long, headers=bearer(one)).json["job_id"]
    assert again == shared
    assert delete(shared, boss).status == 200
    deadline = time.monotonic() + 20 * SLOW
    while service.get(f"/v1/jobs/{shared}", headers=bearer(other)).json["state"] != "cancelled":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert delete(own, one).status == 200
    service.stop()
    service.start()  # of the store: who asked first is known
    assert seen(other) <= {shared} and own in seen(one) and own in seen(boss)
