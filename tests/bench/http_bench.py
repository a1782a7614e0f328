#!/usr/bin/python3
"""The hot path: processor time of a cached GET beside nginx sending the same bytes from a file, and
the p99 of a cached GET while two long solves run.

    tests/bench/http_bench.py BUILD        needs wrk and nginx; prints one line a figure

Both servers answer one wrk thread on eight kept connections, in turn, five times: the figure is
user and system time of the server's process for each answer, medians, and the median of the pairs'
ratios. nginx has one worker, sendfile, an open file cache, no access log, and sends the headers that
rematd sends."""

import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

PROFILES = pathlib.Path(__file__).parents[2] / "clients" / "profiles"
PORT, NGINX_PORT = 7300, 7301
ROUNDS, SECONDS = 5, 2
NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=1000;
    default_type application/json;
    client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{
        listen 127.0.0.1:{port}; root {folder};
        add_header X-Request-Id $request_id; add_header X-Content-Type-Options nosniff;
        add_header Cache-Control "public, max-age=31536000, immutable";
    }}
}}
"""


class Client:
    def __init__(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)

    def get(self, path):
        self.connection.request("GET", path)
        return self.connection.getresponse().read()

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())

    def schedule(self, profile, **question):
        profile_id = self.post("/v1/profiles", profile)["profile_id"]
        answer = self.post("/v1/schedules", {"profile_id": profile_id, **question})
        return "/v1/schedules/" + answer["schedule_id"]


def chain(n, seed=0):
    nodes = [{"id": f"block{i}", "inputs": [f"block{i - 1}" if i else "x"], "forward_time": 100 + (i * 31 + seed) % 7,
              "output_bytes": 1000000 + i * 37 % 1000 * 100} for i in range(n)]
    return {"format": "remat-profile/1", "name": f"chain of {n}", "inputs": [{"id": "x", "bytes": 100}], "nodes": nodes}


def seconds_of(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def microseconds_per_answer(process, port, path):
    before = seconds_of(process)
    said = subprocess.run(["wrk", "-t1", "-c8", f"-d{SECONDS}s", f"http://127.0.0.1:{port}{path}"],
                          capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in said, said
    return 1e6 * (seconds_of(process) - before) / int(re.search(r"(\d+) requests in", said).group(1))


def beside_nginx(client, rematd, folder):
    paths = [client.schedule(json.loads((PROFILES / f"{name}.json").read_text()), budget="50%")
             for name in ("resnet50.chain", "vit-b16.flops")]
    paths += [client.schedule(chain(n), budget="40%", solver="chen-sqrt") for n in (500, 1000)]
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=NGINX_PORT))
    master = subprocess.Popen(["nginx", "-c", folder / "nginx.conf"])
    time.sleep(1)
    worker = int(subprocess.check_output(["pgrep", "-P", str(master.pid)]))
    for path in paths:
        body = client.get(path)
        (folder / path.rsplit("/", 1)[1]).write_bytes(body)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(microseconds_per_answer(rematd, PORT, path))
            theirs.append(microseconds_per_answer(worker, NGINX_PORT, "/" + path.rsplit("/", 1)[1]))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        print(f"cached GET of {len(body)} bytes: rematd {statistics.median(ours):.1f} us, nginx "
              f"{statistics.median(theirs):.1f} us, ratio {ratio:.2f}", flush=True)
    master.terminate()
    master.wait()


def p99(client, path, n=2000):
    """Milliseconds, on one kept connection."""
    took = []
    for _ in range(n):
        start = time.perf_counter()
        client.get(path)
        took.append(1e3 * (time.perf_counter() - start))
        time.sleep(0.0005)
    return statistics.quantiles(took, n=100)[98]


def beside_solves(client):
    """Windows without and with the solves in turn: what else the machine does meets both alike."""
    path = client.schedule(json.loads((PROFILES / "resnet50.chain.json").read_text()), budget="50%")
    quiet, loud = [], []
    for turn in range(5):
        quiet.append(p99(client, path))
        jobs = []
        for k in range(2):
            profile_id = client.post("/v1/profiles", chain(500, seed=1 + 2 * turn + k))["profile_id"]
            jobs.append(client.post("/v1/schedules", {"profile_id": profile_id, "budget": "40%", "solver": "rotor",
                                                      "options": {"slots": 4000}, "wait": 0})["job_id"])
        loud.append(p99(client, path))
        states = [json.loads(client.get(f"/v1/jobs/{job}"))["state"] for job in jobs]
        assert states == ["running", "running"], states
        for job in jobs:
            client.connection.request("DELETE", f"/v1/jobs/{job}")
            client.connection.getresponse().read()
            while json.loads(client.get(f"/v1/jobs/{job}"))["state"] == "running":
                time.sleep(0.01)
    print(f"p99 of a cached GET: {statistics.median(quiet):.3f} ms, beside two solves {statistics.median(loud):.3f} ms, "
          f"ratio {statistics.median(b / a for a, b in zip(quiet, loud)):.2f}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        rematd = subprocess.Popen([pathlib.Path(sys.argv[1]) / "server" / "rematd", "--listen", f"127.0.0.1:{PORT}",
                                   "--store", folder / "store.db", "--log-level", "error"])
        time.sleep(1)
        try:
            client = Client()
            beside_solves(client)
            beside_nginx(client, rematd.pid, folder)
        finally:
            rematd.terminate()
            rematd.wait()


if __name__ == "__main__":
    main()
