"""Requests mutated with their structure in mind: never a 5xx but a 503 that says when to come back, every answer as
the OpenAPI document promises, no crash and, with AddressSanitizer, no leak.

Seeds are good requests of every kind, among them one of every solver with all its options on every shape.

REMAT_MUTATIONS: how many requests (default 1500); REMAT_SEED: of the draw (default 1)."""

import collections
import copy
import gzip
import http.client
import json
import os
import random
import re
import socket

from conftest import ROOT, SLOW, Answer, profile

N = int(os.environ.get("REMAT_MUTATIONS", 1500))
SEED = int(os.environ.get("REMAT_SEED", 1))

SMALL = {"format": "remat-profile/1", "name": "small", "time_unit": "us", "source": {"note": "by hand"},
         "inputs": [{"id": "x", "bytes": 4, "gradient_bytes": 2}], "states": [{"id": "rng", "bytes": 16}],
         "nodes": [{"id": "a", "op": "conv", "inputs": ["x"], "forward_time": 1, "backward_time": 2.5,
                    "output_bytes": 8, "saved_bytes": 3, "forward_workspace_bytes": 1, "reads": ["rng"],
                    "writes": ["rng"], "alternatives": [{"name": "slow", "forward_time": 2, "saved_bytes": 1}]},
                   {"id": "b", "inputs": ["a"], "forward_time": 1, "output_bytes": 8, "in_place": True},
                   {"id": "c", "inputs": ["b"], "forward_time": 3, "output_bytes": 6, "backward_uses_output": False},
                   {"id": "d", "inputs": ["c"], "forward_time": 1, "output_bytes": 4, "gradient_bytes": 9},
                   {"id": "loss", "inputs": ["d"], "forward_time": 1, "output_bytes": 0}]}
GRAPH = copy.deepcopy(SMALL)
GRAPH["nodes"][3]["inputs"] = ["c", "a"]

JOIN = {"format": "remat-profile/1", "name": "join", "time_unit": "us", "nodes": [
    *({"id": f"b{i}{k}", "inputs": [f"b{i}{k - 1}"] if k else [], "forward_time": 1, "output_bytes": 3 + i} for i in range(3)
      for k in range(2)), {"id": "loss", "inputs": ["b01", "b11", "b21"], "forward_time": 1, "output_bytes": 0}]}
JOINT = {"format": "remat-profile/1", "graph": "joint", "name": "joint", "time_unit": "us", "inputs": [{"id": "x", "bytes": 4}],
         "states": [{"id": "rng", "bytes": 16}], "outputs": ["g", "d"], "nodes": [
             {"id": "a", "inputs": ["x"], "time": 2, "outputs": [{"bytes": 8}, {"bytes": 2}], "reads": ["rng"], "writes": ["rng"]},
             {"id": "b", "inputs": ["a"], "time": 3, "output_bytes": 9, "workspace_bytes": 1, "keep": True},
             {"id": "c", "inputs": ["a:1"], "time": 1, "output_bytes": 6, "alternatives": [{"name": "slow", "time": 2}]},
             {"id": "d", "inputs": ["b", "c"], "time": 2, "output_bytes": 3, "recompute": "never"},
             {"id": "g", "inputs": ["d", "a"], "time": 1, "output_bytes": 5}]}

# What a value may turn into. "raw:" goes into the text as it stands.
VALUES = [None, True, False, 0, -1, 1, 2, 0.5, 1e-9, 1e308, 2**31, 2**32, 2**53 - 1, 2**53, 2**63, -2**63, 2**64, "",
          "0", "50%", "0%", "100.0000001%", "1e3%", "-1%", "5GiB", "99999999TiB", "a", "x" * 201, "x" * 5000, "\u0000",
          "\u202e\U0001f4a9", "%s%n", "../../etc/passwd", "'; --", [], {}, [[]], [None], {"a": {}}, "auto", "rotor",
          "join", "lowerset", "pofo", "revolve", 5e-324, 1e-300, 65536, 10**7, "raw:NaN", "raw:-Infinity", "raw:1e999", "raw:-0", "raw:0.1e-400",
          "raw:00", "raw:+1", "raw:" + "9" * 400, "raw:" + "[" * 70 + "]" * 70, "raw:\"\\ud800\"", "raw:\"\\u00zz\""]


def seeds(service):
    """(method, path, body) of good requests; everything they name exists."""
    profile_id = service.post("/v1/profiles", SMALL).json["profile_id"]
    graph_id = service.post("/v1/profiles", GRAPH).json["profile_id"]
    asked = service.post("/v1/schedules", {"profile_id": profile_id, "budget": "90%"}).json
    job_id = service.post("/v1/schedules", {"profile_id": profile_id, "budget": "95%", "solver": "rotor",
                                            "wait": 0}).headers["Location"].split("/")[-1]
    one = f"/v1/schedules/{asked['schedule_id']}"
    link = {"to_host": "12GB/s", "to_device": 5, "latency": 0.5, "shared": True}
    cases = json.loads((ROOT / "tests" / "data" / "snapshots_small.json").read_text())["cases"]
    snapshots = [{k: v for k, v in case.items() if k not in ("kind", "name", "note", "expected")}
                 for case in cases if case["kind"] != "states"]
    posts = [("/v1/profiles", SMALL), ("/v1/profiles", GRAPH), ("/v1/profiles", JOINT), ("/v1/profiles", profile("lstm100.chain")),
             ("/v1/schedules", {"profile_id": profile_id, "budget": "80%", "reserved": 1, "solver": "auto", "wait": 5}),
             ("/v1/schedules", {"profile": SMALL, "budget": 60, "solver": "rotor", "options": {"slots": 50},
                                "link": link, "layout": {"alignment": 8}, "wait": 5}),
             ("/v1/schedules", {"profile_id": graph_id, "budget": "75%", "solver": "lowerset", "layout": False}),
             ("/v1/schedules", {"profile": SMALL, "budget": 3, "solver": "join", "options": {"model": "pebble"}}),
             ("/v1/tradeoffs", {"profile_id": profile_id, "points": 20, "solver": "rotor", "wait": 5}),
             ("/v1/tradeoffs", {"profile": GRAPH, "budgets": [30, "50%", "1KiB"], "link": {"preset": "pcie3-x16"}}),
             ("/v1/simulations", {"profile_id": profile_id, "operations": asked["operations"], "link": link}),
             ("/v1/simulations", {"profile": JOINT, "operations": [["F", 0], ["F", 1], ["D", "output", 0, 1], ["F", 2]]}),
             ("/v1/simulations", {"profile": GRAPH, "operations": [["F", 0], ["D", "input", 0], ["S", 0, 1]]}),
             (one + "/measurements", {"step_time": 12.5, "peak": "3MiB", "steps": 10, "device": "cpu", "note": "n"})]
    for solver in service.get("/v1/solvers").json["solvers"]:
        options = {option["name"]: option["default"] for option in solver["options"]}
        for document in (SMALL, GRAPH, JOIN, JOINT):
            body = {"profile": document, "solver": solver["name"], "options": options, "link": link, "wait": 5}
            posts += [("/v1/schedules", dict(body, budget="80%")), ("/v1/tradeoffs", dict(body, points=5))]
    posts += [("/v1/snapshots", body) for body in snapshots[:6] * 5]
    posts += [("/v1/layouts", {"buffers": [{"id": "a", "lower": 0, "upper": 2, "size": 1024}, {"lower": 1, "upper": 3.5, "size": 7}],
                               "alignment": 256, "capacity": "4KiB"})] * 10
    step = {"device": "t4", "optimizer": "adafactor", "precision": "float16", "parallel": {"kind": "zero2", "ranks": 4}, "wait": 5,
            "network": "nvlink3+hdr", "node_ranks": 2}
    posts += [("/v1/plans", {"model": "resnet18", "batch": 2, "image": 64, "sweep": False, **step}),
              ("/v1/plans", {"profile": SMALL, "parameters": 100, "offload": True, "measured_on": "l4", **step}),
              ("/v1/plans", {"model": "llama3.2-1b", "batch": 1, "sequence": 64, "layers": 1, "sweep": False, "kernels": "fused",
                             "sizes": {"hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 100, "experts": 2,
                                       "experts_per_token": 1, "tied": True}, "network": "1GB/s@5us+edr", "node_ranks": 2,
                             **step, "autocast": True, "parallel": {"mesh": {"dp": 4, "shard": 2, "cp": 2}, "prefetch": False}}),
              ("/v1/plans", {"config": {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
                                        "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 128, "vocab_size": 100,
                                        "max_position_embeddings": 64, "_name_or_path": "tiny"}, "batch": 1, "sweep": False, **step})] * 5
    posts += [("/v1/simulations", {"profile_id": profile_id, "operations": asked["operations"], "link": link})] * 10
    gets = [one + "/explanation", "/v1/devices", "/v1/models", "/v1/profiles?limit=2&name=small&cursor=", f"/v1/profiles/{profile_id}", one, one + "/timeline",
            one + "/measurements?limit=3&cursor=", f"/v1/schedules?profile_id={profile_id}&solver=rotor&limit=5",
            "/v1/jobs", f"/v1/jobs/{job_id}", "/v1/solvers", "/healthz", "/readyz", "/metrics", "/openapi.json", "/"]
    return [("POST", *post) for post in posts], [("GET", path, None) for path in gets]


def places(tree, path=()):
    yield path
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def mutate_tree(draw, tree):
    """One change: a value, a key, an order, a length, or two places that trade what they hold."""
    spots = [path for path in places(tree) if path]
    if not spots:
        return draw.choice(VALUES)
    path = draw.choice(spots)
    parent, key = at(tree, path[:-1]), path[-1]
    kind = draw.randrange(8)
    if kind <= 1:
        parent[key] = copy.deepcopy(draw.choice(VALUES))
    elif kind == 2:
        del parent[key]
    elif kind == 3 and isinstance(parent, dict):
        parent[draw.choice([str(key) + "s", str(key).upper(), "", "__proto__", "profile", "options", "wait"])] = \
            parent.pop(key)
    elif kind == 3:
        parent[key:key] = [copy.deepcopy(parent[key]) for _ in range(draw.choice([1, 2, 50]))]
    elif kind == 4:
        parent[key] = copy.deepcopy(at(tree, draw.choice(spots)))
    elif kind == 5 and isinstance(parent, list):
        draw.shuffle(parent)
    elif isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
        parent[key] = draw.choice([parent[key] + 1, parent[key] - 1, -parent[key], parent[key] * 2**40,
                                   parent[key] / 3, parent[key] * 1000])
    elif isinstance(parent[key], str) and parent[key]:
        text, cut = parent[key], draw.randrange(len(parent[key]))
        parent[key] = draw.choice([text[:cut], text[cut:], text + text, text[:cut] + "\u00e9" + text[cut:]])
    else:
        parent[key] = [parent[key]]
    return tree


def to_text(draw, tree):
    text = json.dumps(tree, ensure_ascii=draw.random() < 0.5)
    text = re.sub(r'"raw:((?:[^"\\]|\\.)*)"', lambda found: json.loads(f'"{found[1]}"'), text)
    return text.encode("utf-8", "surrogatepass")


def mutate_bytes(draw, data):
    data = bytearray(data)
    if not data:
        return b" "
    spot, kind = draw.randrange(len(data)), draw.randrange(4)
    if kind == 0:
        data[spot] = draw.randrange(256)
    elif kind == 1:
        del data[spot:spot + draw.choice([1, 1, 5, len(data)])]
    elif kind == 2:
        data[spot:spot] = data[spot:spot + draw.choice([1, 10, 1000])]
    else:
        data[spot:spot] = draw.choice([b'"', b"{", b"]", b",", b"\\u", b"\xc0\xaf", b"\x00", b"1e5", b"//"])
    return bytes(data)


def mutate_path(draw, path):
    kind = draw.randrange(6)
    if kind == 0:
        return re.sub("[0-9a-f]{32,}", lambda found: draw.choice([found[0].upper(), found[0][:-1], found[0] + "0",
                                                                  "0" * len(found[0]), "z" * 64]), path)
    if kind == 1:
        return path + draw.choice(["/", "//", "/..", "%2f", "?", "?limit=-1", "?limit=0", "?limit=9999999999999999",
                                   "?limit=1&limit=2", "?cursor=%ff%00", "?cursor=" + "A" * 600, "?name=%", "?name=%zz",
                                   "?x=1", "?&&==", "?name=" + "%F0%9F%92%A9" * 60, "#there"])
    if kind == 2 and "=" in path:
        return re.sub("=[^&]*", lambda _: "=" + draw.choice(["", "-5", "1e9", "%00", "a%26b", "0x10", "9" * 30]),
                      path)
    if kind == 3:
        spot = draw.randrange(1, len(path) + 1)
        return path[:spot] + draw.choice(["%41", "%00", "a", "/", ";", "..", "%C3%28"]) + path[spot:]
    return path


def headers(draw, body):
    """The lines of a head, some of them strange; the framing stays what it says."""
    lines = {"Host": "localhost"}
    if body is not None:
        lines["Content-Type"] = "application/json"
        lines["Content-Length"] = str(len(body))
    if draw.random() < 0.3:
        name, values = draw.choice([
            ("Content-Type", ["text/html", "", "application/json;charset=latin1", "application/" + "j" * 3000]),
            ("Content-Encoding", ["gzip", "zstd", "br", "gzip, gzip", "identity", ""]),
            ("Accept-Encoding", ["gzip", "zstd", "gzip;q=0", "*", "zstd;q=0.5, gzip;q=1.000", ",,;q=", "x" * 900]),
            ("If-None-Match", ["*", '""', '"' + "0" * 64 + '"', 'W/"x"', "nonsense", '"' * 500]),
            ("Authorization", ["Bearer", "Bearer x", "Basic eDp5", "Bearer " + "remat_" * 300]),
            ("X-Request-Id", ["", "a" * 500, "<b>", "id\u00e9", "a b", "%00"]),
            ("Range", ["bytes=0-10", "bytes=5-1"]), ("Accept", ["text/html", "application/xml;q=0", "*/*;q=2"]),
            ("Traceparent", ["00-" + "0" * 32 + "-" + "0" * 16 + "-01", "garbage"]),
            ("Cookie", ["a=b; " * 100]), ("X-HTTP-Method-Override", ["DELETE"]), ("Expect", ["100-continue", "200-ok"]),
            ("Connection", ["close", "upgrade", "keep-alive, nonsense"]), ("Upgrade", ["h2c", "websocket"])])
        lines[name] = draw.choice(values)
    return lines


def draw_request(draw, posts, gets):
    method, path, body = draw.choice(posts if draw.random() < 0.8 else gets)
    if body is not None:
        tree = copy.deepcopy(body)
        for _ in range(draw.choice([0, 1, 1, 1, 2, 3, 6])):
            tree = mutate_tree(draw, tree) if isinstance(tree, (dict, list)) else tree
        body = to_text(draw, tree)
        if draw.random() < 0.1:
            body = mutate_bytes(draw, body)
    if draw.random() < (0.6 if method == "GET" else 0.05):
        path = mutate_path(draw, path)
    if draw.random() < 0.05:
        method = draw.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW"])
    lines = headers(draw, body)
    if lines.get("Content-Encoding") == "gzip" and body is not None and draw.random() < 0.7:
        body = gzip.compress(body) if draw.random() < 0.7 else mutate_bytes(draw, gzip.compress(body))
        lines["Content-Length"] = str(len(body))
    return method, path, lines, body or b""


def send(service, method, path, lines, body):
    """The answer to exactly these bytes; None if the connection was closed without one."""
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=60 * SLOW) as raw:
        raw.sendall(head.encode() + body)
        response = http.client.HTTPResponse(raw, method=method)
        try:
            response.begin()
            return Answer(response.status, response.headers, response.read())
        except http.client.RemoteDisconnected:
            return None


def describe(number, method, path, lines, body, answer):
    return f"request {number} (seed {SEED}): {method} {path} {lines} {body[:3000]!r}: " + \
           (f"{answer.status} {answer.body[:500]!r}" if answer else "no answer")


def test_mutated_requests(make_service):
    service = make_service("--workers", "2", "--solve-seconds", "5", "--memory-limit", "256MiB", "--max-body", "1MiB")
    posts, gets = seeds(service)
    draw, statuses, routes = random.Random(SEED), collections.Counter(), collections.Counter()
    for number in range(N):
        method, path, lines, body = draw_request(draw, posts, gets)
        answer = send(service, method, path, lines, body)
        story = describe(number, method, path, lines, body, answer)
        assert service.process.poll() is None, story
        statuses[answer.status if answer else None] += 1
        assert answer is not None and answer.headers["X-Request-Id"], story
        routes[path.split("?")[0].split("/")[2] if path.count("/") > 1 else path, answer.status // 100] += 1
        assert answer.status < 500 or answer.status == 503 and int(answer.headers["Retry-After"]) > 0, story
        try:
            service.check(method, path, answer)
        except Exception as wrong:
            raise AssertionError(f"{story}\n{wrong}") from wrong
    print(dict(statuses))
    assert service.get("/readyz").status == 200
    # The mutations did reach the work, and were not all refused at the door.
    for name in ("profiles", "schedules", "tradeoffs", "simulations", "snapshots"):
        assert routes[name, 2] > N / 500 and routes[name, 4] > N / 500, (name, routes)
    assert not [line for line in service.log_lines() if line["level"] == "error"]
    assert service.metric("remat_verification_failures_total") == 0
