"""Bad input: always a 4xx problem that names the place; the process lives and leaks nothing."""

import copy
import ctypes
import ctypes.util
import gzip
import http.client
import json
import random
import socket
import threading
import zlib

import pytest

from conftest import SLOW, profile

GOOD = {"format": "remat-profile/1", "name": "small", "inputs": [{"id": "x", "bytes": 4}],
        "states": [{"id": "rng", "bytes": 16}],
        "nodes": [{"id": "a", "inputs": ["x"], "forward_time": 1, "output_bytes": 8, "reads": ["rng"],
                   "writes": ["rng"], "alternatives": [{"name": "other", "forward_time": 2}]},
                  {"id": "b", "inputs": ["a"], "forward_time": 1, "output_bytes": 0}]}


def changed(path, value):
    document = copy.deepcopy(GOOD)
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def field(path):
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


NODE = ("nodes", 0)
WRONG = [
    (("format",), "remat-profile/2"), (("format",), KeyError), (("name",), ""), (("name",), "n" * 201),
    (("name",), 5), (("name",), "a\tb"), (("time_unit",), "weeks"), (("nodes",), []), (("nodes",), {}),
    (("nodes",), KeyError), (("source",), "text"), (("color",), "red"),
    (("inputs", 0, "bytes"), -1), (("inputs", 0, "bytes"), 0.5), (("inputs", 0, "bytes"), 2**53),
    (("inputs", 0, "bytes"), KeyError), (("inputs", 0, "bytes"), "4"), (("inputs", 0, "gradient_bytes"), 1e300),
    (("inputs", 0, "weight"), 3), (("states", 0, "bytes"), -5), (("states", 0, "id"), ""),
    ((*NODE, "id"), KeyError), ((*NODE, "id"), "i" * 201), ((*NODE, "forward_time"), -0.001),
    ((*NODE, "forward_time"), KeyError), ((*NODE, "forward_time"), None), ((*NODE, "forward_time"), "fast"),
    ((*NODE, "backward_time"), -1), ((*NODE, "output_bytes"), -1), ((*NODE, "output_bytes"), 1.5),
    ((*NODE, "output_bytes"), 9007199254740992), ((*NODE, "saved_bytes"), True),
    ((*NODE, "gradient_bytes"), []), ((*NODE, "forward_workspace_bytes"), -1),
    ((*NODE, "backward_workspace_bytes"), 1e16), ((*NODE, "save_workspace_bytes"), {}),
    ((*NODE, "backward_uses_inputs"), 1), ((*NODE, "in_place"), "yes"), ((*NODE, "foward_time"), 1),
    ((*NODE, "alternatives", 0, "name"), ""), ((*NODE, "alternatives", 0, "speed"), 1),
    ((*NODE, "alternatives", 0, "forward_time"), -1),
]


@pytest.mark.parametrize("path,value", WRONG, ids=lambda v: str(v)[:40])
def test_wrong_field_is_named(rematd, path, value):
    answer = rematd.post("/v1/profiles", changed(path, value))
    assert answer.status == 400, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json
    assert problem["type"] == "/problems/invalid-profile"
    assert problem["field"] == field(path) and field(path) in problem["detail"]
    inside = rematd.post("/v1/schedules", {"profile": changed(path, value), "budget": 100})
    assert inside.status == 400 and inside.json["field"] == "profile." + field(path)


def test_wrong_graphs(rematd):
    def node(name, *inputs):
        return {"id": name, "inputs": list(inputs), "forward_time": 1, "output_bytes": 1}

    def answer(*nodes):
        got = rematd.post("/v1/profiles", {"format": "remat-profile/1", "name": "graph", "nodes": list(nodes)})
        assert got.status == 400
        return got.json

    cycle = answer(node("a", "c"), node("b", "a"), node("c", "b"), node("loss", "c"))
    assert "cycle" in cycle["detail"] and cycle["field"] == "nodes[0].inputs[0]"
    itself = answer(node("a", "a"), node("b", "a"))
    assert "cycle" in itself["detail"] and '"a"' in itself["detail"]
    order = answer(node("b", "a"), node("a"), node("loss", "b"))
    assert "topological order" in order["detail"] and '"b"' in order["detail"]
    twins = answer(node("a"), node("b", "a"), node("a", "b"))
    assert twins["field"] == "nodes[2].id" and twins["detail"] == 'nodes[2].id: the id "a" is used twice, by nodes[0] too'
    assert '"nobody"' in answer(node("a", "nobody"))["detail"]
    sinks = answer(node("a"), node("b", "a"), node("loss", "a"))
    assert '"b"' in sinks["detail"] and "sink" in sinks["detail"]
    heavy = answer(dict(node("a"), output_bytes=2**53 - 1), dict(node("b", "a"), output_bytes=2**53 - 1))
    assert "2^53" in heavy["detail"]
    state = dict(node("a"), reads=["rng"])
    assert '"rng"' in answer(state)["detail"]


NOT_JSON = [b"", b"{", b"[1,2", b"nonsense", b"\xff\xfe", b'{"a":1}x', b'{"a":1,"a":2}', b'{"a":"\xc3"}',
            b'{"a":"\\u0000"}', b"NaN", b'{"budget":NaN}', b'{"budget":1e999}', b"[" * 10000, b"[" * 10000 + b"]" * 10000,
            b'{"a":' * 10000 + b"1" + b"}" * 10000, b'{"format":"remat-profile/1","x":' + b"9" * 5000 + b"}",
            b"1", b"null", b'"text"', b"[]", "\ufeff{}".encode()]


def test_what_was_sent_is_named(rematd):
    """An index that is none is told as it stood; what a profile has none of has no range; an id that is none is no empty list."""
    graph = {"format": "remat-profile/1", "name": "graph", "nodes": [
        {"id": name, "inputs": inputs, "forward_time": 1, "output_bytes": 1} for name, inputs in (("a", []), ("loss", ["a"]))]}
    for operation, said in ((["F", 0.5], "from 0 to 1, not 0.5"), (["F", 1e18], "from 0 to 1, not 1e18"), (["B", 7], "from 0 to 1, not 7"),
                            (["F", "x"], 'from 0 to 1, not "x"'), (["D", "input", 0], "the profile has no graph input"),
                            (["S", 0, 0], "the profile has no state"), (["F"], "")):
        answer = rematd.post("/v1/simulations", {"profile": graph, "operations": [operation]})
        assert answer.status == 400 and answer.json["field"] == "operations[0]" and said in answer.json["detail"], answer.body
    answer = rematd.get("/v1/schedules?profile_id=zz")
    assert answer.status == 400 and answer.json["field"] == "profile_id" and '"zz"' in answer.json["detail"]


@pytest.mark.parametrize("path", ["/v1/profiles", "/v1/schedules", "/v1/tradeoffs", "/v1/simulations"])
@pytest.mark.parametrize("body", NOT_JSON, ids=lambda b: repr(b[:20]))
def test_wrong_json(rematd, path, body):
    answer = rematd.post(path, body)
    assert answer.status == 400, answer.body
    assert answer.json["detail"]


BAD_REQUESTS = [
    ({}, "budget"), ({"budget": 5}, "profile_id"), ({"profile_id": "zz", "budget": 5}, "profile_id"),
    ({"profile_id": "A" * 64, "budget": 5}, "profile_id"), ({"budget": -1}, "budget"),
    ({"budget": "12 parsecs"}, "budget"), ({"budget": "-5GiB"}, "budget"), ({"budget": "9999999999TiB"}, "budget"),
    ({"budget": None}, "budget"), ({"budget": 1.5}, "budget"), ({"budget": "0x10"}, "budget"),
    ({"budget": "1e5"}, "budget"), ({"budget": "inf"}, "budget"), ({"budget": 10, "reserved": 11}, "reserved"),
    ({"budget": 5, "reserved": "5%"}, "reserved"), ({"budget": 5, "solver": "magic"}, "solver"),
    ({"budget": 5, "solver": 3}, "solver"), ({"budget": 5, "wait": -1}, "wait"), ({"budget": 5, "wait": 1e9}, "wait"),
    ({"budget": 5, "options": {"slots": 5}}, "options"), ({"budget": 5, "wat": 1}, "wat"),
    ({"budget": 5, "solver": "store-all", "options": {"nothing": 5}}, "options.nothing"),
    ({"budget": 5, "profile": {}}, "profile_id"),
]


@pytest.mark.parametrize("body,place", BAD_REQUESTS, ids=lambda v: str(v)[:40])
def test_wrong_requests(rematd, body, place):
    if "profile_id" not in body and place != "profile_id":
        body = dict(body, profile_id=rematd.push("vgg19.chain")["profile_id"])
    elif place == "profile_id" and "profile" in body:
        body = dict(body, profile_id="0" * 64)
    answer = rematd.post("/v1/schedules", body)
    assert answer.status == 400, answer.body
    assert answer.json["field"] == place


def test_wrong_operations(rematd):
    profile_id = rematd.push("vgg19.chain")["profile_id"]
    for operations in ([5], [[]], [["Q", 0]], [["F"]], [["F", -1]], [["F", 10**9]], [["F", 0.5]], [["F", "x"]],
                       [["F", 0, 0]], [["D", "input", 99]], [["D", "nowhere", 0]], [["S", 0]], [["S", 0, 0]],
                       [["X", "saved", 1]], [{"F": 0}]):
        answer = rematd.post("/v1/simulations", {"profile_id": profile_id, "operations": [["F", 0]] + operations})
        assert answer.status == 400 and answer.json["field"] == "operations[1]", answer.body
    for link in ({}, {"bandwidth": 5}, {"bandwidth": "fast"}, {"bandwidth": "12 parsecs/s"}, {"to_host": 3},
                 {"bytes_per_time_unit": -1}, {"bytes_per_time_unit": 1, "latency": -1},
                 {"bandwidth": "1GB/s", "bytes_per_time_unit": 1}, {"bytes_per_time_unit": 1, "x": 1}):
        answer = rematd.post("/v1/simulations", {"profile_id": profile_id, "operations": [], "link": link})
        assert answer.status == 400 and answer.json["field"].startswith("link"), answer.body


def test_unknown_things(rematd):
    for path in ("/v1/profiles/" + "0" * 64, "/v1/schedules/" + "0" * 64, "/v1/jobs/" + "0" * 32,
                 "/v1/schedules/" + "0" * 64 + "/timeline", "/v1/profiles/short", "/v2/profiles", "/v1/profiles/",
                 "/..%2f..%2fetc/passwd", "/%00", "/" + "a" * 8000):
        answer = rematd.get(path)
        assert answer.status == 404 and answer.json["type"] == "/problems/not-found"
    answer = rematd.post("/v1/schedules", {"profile_id": "0" * 64, "budget": 5})
    assert answer.status == 404 and answer.json["field"] == "profile_id"


def test_wrong_media(rematd):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""):
        answer = rematd.post("/v1/profiles", b"{}", headers={"Content-Type": kind})
        assert answer.status == 415 and answer.json["field"] == "Content-Type"
    assert rematd.post("/v1/profiles", GOOD, headers={"Content-Type": "application/json; charset=utf-8"}).status < 300
    for coding, body in (("gzip", b"not gzip"), ("zstd", b"not zstd"), ("br", b"{}"), ("gzip", b"")):
        assert rematd.post("/v1/profiles", body, headers={"Content-Encoding": coding}).status == 400


def test_large_bodies(make_service):
    service = make_service("--max-body", "1MiB")
    answer = service.post("/v1/profiles", b" " * (2 << 20))
    assert answer.status == 413 and answer.json["type"] == "/problems/too-large"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(b" " * (200 << 20)) + packer.flush()
    assert len(bomb) < 1 << 20
    assert service.post("/v1/profiles", bomb, headers={"Content-Encoding": "gzip"}).status == 413
    assert service.get("/healthz").status == 200


def zstd(data):
    library = ctypes.CDLL(ctypes.util.find_library("zstd"))
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(2 * len(data) + 1000)
    n = library.ZSTD_compress(out, ctypes.c_size_t(len(out)), data, ctypes.c_size_t(len(data)), 3)
    return out.raw[:n]


@pytest.mark.parametrize("coding, encode", [("gzip", gzip.compress), ("zstd", zstd)])
def test_encoded_bodies_up_to_the_limit(make_service, coding, encode):
    limit = 1 << 20
    service = make_service("--max-body", str(limit))
    text = json.dumps(profile("resnet50.chain")).encode()

    def send(body):
        return service.post("/v1/profiles", body, headers={"Content-Encoding": coding}).status

    assert send(encode(text.ljust(limit))) in (200, 201)
    assert send(encode(text.ljust(limit + 1))) == 413
    whole = encode(text)
    for n in (1, 10, len(whole) // 2, len(whole) - 1):
        assert send(whole[:n]) == 400
    assert send(whole + b"x") == 400
    assert send(whole) in (200, 201)
    if coding == "gzip":  # RFC 1952: members stand one after the other
        assert send(encode(text[:500]) + encode(text[500:])) in (200, 201)
        assert send(encode(text.ljust(limit)) + encode(b" ")) == 413


def test_hundred_megabytes(rematd):
    """Larger than the limit, honestly announced or in chunks: a 413 that its sender gets to read."""
    body = b" " * (100 << 20)
    answer = rematd.post("/v1/profiles", body, timeout=120)
    assert answer.status == 413
    connection = http.client.HTTPConnection("127.0.0.1", rematd.port, timeout=120 * SLOW)
    pieces = (body[:1 << 20] for _ in range(100))
    connection.request("POST", "/v1/profiles", pieces, {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    # An announcement beyond all measure is not waited for.
    with socket.create_connection(("127.0.0.1", rematd.port), timeout=60 * SLOW) as raw:
        raw.sendall(b"POST /v1/profiles HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 99999999999999\r\n\r\n")
        assert raw.recv(100).split()[1] == b"413"
    assert rematd.get("/healthz").status == 200


def raw_status(service, request):
    with socket.create_connection(("127.0.0.1", service.port), timeout=30 * SLOW) as raw:
        answer = b""
        try:
            raw.sendall(request)
            raw.shutdown(socket.SHUT_WR)
            while chunk := raw.recv(65536):
                answer += chunk
        except OSError:  # refused before all of it was sent
            pass
    return int(answer.split()[1]) if answer else None


def test_unclear_framing(make_service):
    rematd = make_service("--idle-seconds", "2")
    head = b"POST /v1/profiles HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert raw_status(rematd, head + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") == 400
    assert raw_status(rematd, head + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x") == 400
    assert raw_status(rematd, b"GET /healthz HTTP/1.1\r\n\r\n") == 400  # no Host
    assert raw_status(rematd, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") in (400, None)
    assert raw_status(rematd, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 40000 + b"\r\n\r\n") in (431, None)
    assert rematd.get("/healthz").status == 200


def test_clients_that_go_away(rematd):
    """Cut off in the middle of the head, of the body, of the wait, of the answer."""
    body = json.dumps(profile("resnet50.flops")).encode()
    head = (b"POST /v1/profiles HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(body)).encode() + b"\r\n\r\n")
    whole = head + body
    for cut in (1, 30, len(head), len(head) + 1000, len(whole) - 1, len(whole)):
        with socket.create_connection(("127.0.0.1", rematd.port)) as raw:
            raw.sendall(whole[:cut])
    assert rematd.get("/healthz").status == 200


def test_mutated_profiles(rematd):
    """Bytes of a good request flipped, cut and doubled at random: never a 5xx, never a crash."""
    base = bytearray(json.dumps(GOOD).encode())
    draw = random.Random(7)
    statuses = set()
    connection = http.client.HTTPConnection("127.0.0.1", rematd.port, timeout=60 * SLOW)
    for _ in range(1500 if SLOW == 1 else 300):
        body = bytearray(base)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(body))
            kind = draw.randrange(4)
            if kind == 0:
                body[at] = draw.randrange(256)
            elif kind == 1:
                del body[at:at + draw.randint(1, 20)]
            elif kind == 2:
                body[at:at] = body[at:at + draw.randint(1, 40)]
            else:
                body[at:at] = draw.choice([b"-", b"9" * 30, b"null", b'"', b"[", b"}", b"1e308", b",", b"\\"])
            if not body:
                body = bytearray(b" ")
        connection.request("POST", draw.choice(["/v1/profiles", "/v1/schedules"]), bytes(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        statuses.add(response.status)
    connection.close()
    assert statuses <= {200, 201, 400}


def test_hostile_names(rematd):
    names = ["<script>alert(1)</script>", "'; DROP TABLE profiles; --", 'quote " and \\ backslash', "\u202egnirts",
             "\U0001f4a9" * 200, "%s%s%n", "${jndi:x}", "name\u00a0with space"]
    for i, name in enumerate(names):
        document = copy.deepcopy(GOOD)
        document["name"] = name
        document["nodes"][0]["id"] = name
        document["nodes"][1]["inputs"] = [name]
        document["inputs"][0]["bytes"] = i
        summary = rematd.post("/v1/profiles", document).json
        assert summary["name"] == name
        schedule = rematd.post("/v1/schedules", {"profile_id": summary["profile_id"], "budget": "100%"}).json
        assert schedule["nodes"][0] == name
        found = rematd.get("/v1/profiles?limit=1000").json["profiles"]
        assert name in [p["name"] for p in found]
        # The longest messages cut user text; they must stay UTF-8 and JSON.
        bad = copy.deepcopy(document)
        bad["nodes"][1]["inputs"] = [name + "?"]
        assert rematd.post("/v1/profiles", bad).status == 400


def test_bad_input_beside_good_work(rematd):
    """Eight clients at once, half of them hostile; the others get their answers."""
    summary = rematd.push("vgg19.chain")
    failures = []

    def work(seed):
        draw = random.Random(seed)
        for i in range(30):
            if seed % 2:
                answer = rematd.post("/v1/profiles", draw.choice(NOT_JSON))
                if answer.status != 400:
                    failures.append(answer.body)
            else:
                answer = rematd.post("/v1/schedules", {"profile_id": summary["profile_id"],
                                                       "budget": f"{70 + (seed * 30 + i) % 30}%"})
                if answer.status != 200:
                    failures.append(answer.body)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
