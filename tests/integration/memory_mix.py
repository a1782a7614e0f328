"""Requests that take memory, in mixes; and what of it a daemon holds."""

import http.client
import json
import pathlib
import random
import socket
import threading
import time

MIB = 1 << 20


def chain(n, seed):
    """Of n nodes, as text: to make it must cost less than to read it."""
    nodes = [{"id": f"s{i}", "inputs": [f"s{i - 1}"] if i else [], "forward_time": 1 + i * seed % 97,
              "output_bytes": 1000 + i * seed % 999} for i in range(n)]
    return json.dumps({"format": "remat-profile/1", "name": f"chain {n} {seed}", "nodes": nodes}).encode()


def star(n, seed):
    nodes = [{"id": f"b{i}", "inputs": [], "forward_time": 1 + i % seed, "output_bytes": 10 + i % 9} for i in range(n)]
    nodes.append({"id": "loss", "inputs": [one["id"] for one in nodes], "forward_time": 1, "output_bytes": 1})
    return json.dumps({"format": "remat-profile/1", "name": f"star {n}", "nodes": nodes}).encode()


def resident(pid):
    """Bytes: now, and at most since the last call."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
    return tuple(int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))


class Asker:
    """Asks a daemon what a mix, {kind: weight}, holds, from a number of threads, until a time."""

    def __init__(self, service, sizes, seed=1):
        self.service, self.draw, self.failures, self.statuses = service, random.Random(seed), [], {}
        self.bodies = [chain(n, seed + 3) for n in sizes] + [star(sizes[0] // 2, 5)]
        posted = [self.call("POST", "/v1/profiles", body) for body in self.bodies]  # the largest may be refused
        self.ids = [told["profile_id"] for status, told in posted if status < 300]
        self.table = [self.call("POST", "/v1/profiles", chain(n, 11))[1]["profile_id"] for n in (150, 200, 250)]
        self.known = []

    def call(self, method, path, body=None, read=True):
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=300)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", "Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        if answer.status not in (200, 201, 202, 404, 413, 422, 503):
            self.failures.append((method, path, answer.status, text[:300]))
        if answer.status == 503 and not answer.headers["Retry-After"]:
            self.failures.append((method, path, "503 without Retry-After"))
        return answer.status, json.loads(text) if answer.headers["Content-Encoding"] is None and text else None

    def ask(self, body):
        return self.call("POST", "/v1/schedules", json.dumps({"wait": 20, **body}).encode())

    def one(self, kind, draw):
        profile_id = draw.choice(self.ids)
        if kind == "post":
            self.call("POST", "/v1/profiles", draw.choice(self.bodies).replace(b'"chain', b'"c%d' % draw.randrange(10**6), 1))
        elif kind == "store-all":
            self.ask({"profile_id": profile_id, "budget": f"{draw.randint(100, 200)}.{draw.randint(0, 999):03}%", "solver": "store-all",
                      "layout": draw.random() < 0.5})
        elif kind == "table":
            self.ask({"profile_id": draw.choice(self.table), "budget": f"{draw.randint(40, 90)}%", "solver": "rotor",
                      "options": {"slots": draw.choice([500, 1000, 1500, 2000, 3000])}})
        elif kind == "auto":
            self.ask({"profile_id": draw.choice(self.table), "budget": f"{draw.randint(40, 90)}.{draw.randint(0, 99):02}%"})
        elif kind == "search":  # of 10,000 nodes and more, where there is room for it
            self.ask({"profile_id": profile_id, "budget": f"{draw.randint(40, 90)}.{draw.randint(0, 99):02}%"})
        elif kind == "again":  # out of the store
            for path in ("", "/timeline", "/explanation"):
                if self.known:
                    self.call("GET", f"/v1/schedules/{draw.choice(self.known)}{path}")
        elif kind == "profile":
            self.call("GET", f"/v1/profiles/{profile_id}")
        elif kind == "tradeoff":
            self.call("POST", "/v1/tradeoffs", json.dumps({"profile_id": profile_id, "points": 50, "solver": "store-all", "wait": 20}).encode())
        elif kind == "slow" and self.known:
            with socket.create_connection(("127.0.0.1", self.service.port)) as one:
                one.sendall(f"GET /v1/schedules/{draw.choice(self.known)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                time.sleep(draw.random() * 3)

    def run(self, mix, threads, seconds):
        """The most bytes that were resident."""
        end, kinds, weights = time.monotonic() + seconds, list(mix), list(mix.values())
        _, stored = self.call("GET", "/v1/schedules?limit=50")
        self.known = [one["schedule_id"] for one in (stored or {"schedules": []})["schedules"]]
        resident(self.service.process.pid)

        def ask(seed):
            draw = random.Random(seed)
            while time.monotonic() < end and not self.failures:
                try:
                    self.one(draw.choices(kinds, weights)[0], draw)
                except OSError as error:
                    self.failures.append(repr(error))

        running = [threading.Thread(target=ask, args=(self.draw.random(),)) for _ in range(threads)]
        for one in running:
            one.start()
        most = 0
        while any(one.is_alive() for one in running):
            time.sleep(0.1)
            most = max(most, *resident(self.service.process.pid))
        return most


KINDS = ("post", "store-all", "table", "auto", "search", "again", "profile", "tradeoff", "slow")


def allowed(limit, workers):
    return limit + 256 * MIB + 16 * MIB * workers
