"""The OpenAPI document as a manual: every field is described, numbers have a range, a name has one type, and every
call has an example, which is sent here and answered as the document says."""

import collections
import json
import re
import shutil
import subprocess
import time

import jsonschema
import pytest
from conftest import OPENAPI, ROOT, SLOW

SCHEMAS = OPENAPI["components"]["schemas"]
METHODS = ("get", "post", "delete")

# What is one thing here and another there on purpose: the profile's own words (its format), the letters of the
# snapshot equations, amounts that a request may also write as text, what may be null, and counts in lists.
SEVERAL_TYPES = {
    "budget": {"integer", "integer|string"}, "peak": {"integer", "integer|null", "integer|string"},
    "makespan": {"number", "null|number"}, "overhead": {"number", "null|number"},
    "device": {"string", "null|string", "object|string"}, "note": {"string", "null|string"}, "next": {"null|string", "string"},
    "id": {"string", "integer"}, "inputs": {"array"}, "outputs": {"array"}, "nodes": {"array", "integer"},
    "schedule": {"object", "string"}, "schedules": {"array", "integer"}, "options": {"array", "object"}, "source": {"object", "string"},
    "status": {"integer", "string"}, "eager": {"array", "null|object"}, "lazy": {"array", "object"},
    "minimal": {"array", "boolean"}, "capacity": {"integer", "integer|string"}, "size": {"integer", "object"}, "out": {"array"},
}


def fields():
    """(place, name, schema) of every property of every schema."""
    def walk(schema, place):
        for name, one in schema.get("properties", {}).items():
            yield place, name, one
            yield from walk(one, f"{place}.{name}")
        if isinstance(schema.get("items"), dict):
            yield from walk(schema["items"], place + "[]")
        for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for one in schema.get(key, []):
                yield from walk(one, place)
    for name, schema in SCHEMAS.items():
        yield from walk(schema, name)


def type_of(schema):
    if "$ref" in schema:
        return type_of(SCHEMAS[schema["$ref"].rsplit("/", 1)[1]])
    if "const" in schema or "enum" in schema:
        value = schema.get("const", (schema.get("enum") or [""])[0])
        return {str: "string", bool: "boolean", int: "integer"}[type(value)]
    for key in ("anyOf", "oneOf"):
        if key in schema and "type" not in schema:
            return "|".join(sorted({type_of(one) for one in schema[key]}))
    kinds = schema.get("type", "any")
    return "|".join(sorted(kinds)) if isinstance(kinds, list) else kinds


def test_every_field_is_described():
    assert OPENAPI["servers"] and OPENAPI["info"]["license"]
    for place, name, schema in fields():
        assert "$ref" in schema or schema.get("description", "").strip(), f"{place}.{name} has no description"
        signed = name in ("overhead", "gap", "minimum", "maximum", "lower", "upper")
        if schema.get("type") == "integer" or (schema.get("type") == "number" and not signed):
            assert "minimum" in schema, f"{place}.{name} has no range"
    seen = set()
    for path, item in OPENAPI["paths"].items():
        assert all(p["description"] and "schema" in p for p in item.get("parameters", [])), path
        for method in METHODS:
            if method not in item:
                continue
            call = item[method]
            assert call["summary"] and call["operationId"] not in seen, (method, path)
            seen.add(call["operationId"])
            assert all(p["description"] for p in call.get("parameters", [])), (method, path)
            assert all(answer["description"] for answer in call["responses"].values()), (method, path)
    text = json.dumps(OPENAPI)
    for name in SCHEMAS:
        assert f'"#/components/schemas/{name}"' in text, f"{name} is used by nobody"


def test_one_name_has_one_type():
    types = collections.defaultdict(set)
    for _, name, schema in fields():
        types[name].add(type_of(schema))
    for name, found in types.items():
        assert len(found) == 1 or found <= SEVERAL_TYPES.get(name, set()), f"{name} is {sorted(found)}"
    assert not {name for name in SEVERAL_TYPES if len(types[name]) < 2} - {"inputs", "outputs", "out", "next"}


def test_redocly_finds_nothing():
    tool = shutil.which("redocly")
    if not tool:
        pytest.skip("redocly is not there: npm install -g @redocly/cli")
    done = subprocess.run([tool, "lint", ROOT / "api" / "openapi.json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not re.search(r"\d+ warning", done.stdout + done.stderr), done.stdout + done.stderr


# ---- examples -------------------------------------------------------------------------------------------


def validate(schema, value):
    jsonschema.Draft202012Validator({**schema, "components": OPENAPI["components"]}).validate(value)


def examples():
    """(path, method, body or None) of every call, bodies by the name of the example."""
    for path, item in OPENAPI["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            content = item[method].get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                yield path, method, None
                continue
            assert content["examples"], f"{method} {path} has no example"
            for one in content["examples"].values():
                assert one["summary"]
                validate(content["schema"], one["value"])
                yield path, method, one["value"]


def shape(value):
    """The names in an answer; of lists those of the first item."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items() if name not in ("recomputed", "default")}
    return shape(value[0]) if isinstance(value, list) and value and isinstance(value[0], dict) else None


def parameters(path, method):
    return OPENAPI["paths"][path].get("parameters", []) + OPENAPI["paths"][path][method].get("parameters", [])


def fill_in(path, method, ids):
    """The call with the parameters of its examples. The id of a job is drawn, and that of a schedule is the digest of a
    question with the version of who answers: here they are those that are there."""
    query = []
    mine = ids.get(path.split("/")[2]) if path.startswith("/v1/") else None
    for one in parameters(path, method):
        if one["in"] == "path":
            path = path.replace("{%s}" % one["name"], mine or one["example"])
        elif "example" in one:
            query.append(f"{one['name']}={one['example']}")
    return path + ("?" + "&".join(query) if query else "")


def test_every_example_runs(make_service):
    service = make_service()
    calls = list(examples())
    order = {"post": 0, "get": 1, "delete": 2}
    calls.sort(key=lambda call: (order[call[1]], call[0] != "/v1/profiles", call[0].count("/")))
    ids = {}
    for path, method, body in calls:
        if method == "get" and "jobs" not in ids:  # for the calls that are about one
            known = next(p for p in parameters("/v1/profiles/{id}", "get"))["example"]
            asked = (service.post("/v1/schedules", {"profile_id": known, "budget": 13000000 + k, "wait": 0}) for k in range(50))
            ids["jobs"] = next(answer.json["job_id"] for answer in asked if answer.status == 202)  # not solved before it was said
            deadline = time.monotonic() + 60 * SLOW
            while service.get(f"/v1/jobs/{ids['jobs']}").json["state"] != "done":
                assert time.monotonic() < deadline
                time.sleep(0.02)
        answer = service.call(method.upper(), fill_in(path, method, ids), body)  # checks it against its schema
        if (method, path) == ("post", "/v1/schedules"):
            ids.setdefault("schedules", answer.json["schedule_id"])
        promised = OPENAPI["paths"][path][method]["responses"]
        wanted = {status for status in promised if status in ("200", "201", "204")}
        if (method, path) == ("post", "/v1/profiles"):
            wanted = {"201"}
        if path == "/page/{file}":  # its name changes with what is in it
            wanted = {"200", "404"}
        assert str(answer.status) in wanted, (method, path, answer.status, answer.body)
        example = promised[str(answer.status)].get("content", {}).get("application/json", {}).get("example")
        if example is not None:
            validate(promised[str(answer.status)]["content"]["application/json"]["schema"], example)
        if example is not None and body in (None, first_body(path, method)) and path not in ("/v1/solvers",):
            assert shape(answer.json) == shape(example), (method, path)
    every = {(path, method) for path, item in OPENAPI["paths"].items() for method in METHODS if method in item}
    assert {(path, method) for path, method, _ in calls} == every


def first_body(path, method):
    content = OPENAPI["paths"][path][method].get("requestBody", {}).get("content", {}).get("application/json")
    return next(iter(content["examples"].values()))["value"] if content else None


def test_the_profile_of_the_examples(rematd):
    """Its id is the digest of what it is, whatever the version."""
    known = rematd.post("/v1/profiles", first_body("/v1/profiles", "post")).json["profile_id"]
    ids = {p["example"] for item in OPENAPI["paths"].values() for p in item.get("parameters", []) if p["name"] == "id"}
    assert known in ids and all(re.fullmatch("[0-9a-f]+", one) for one in ids)


def test_query_parameters_are_those_of_the_document(rematd):
    """On every call an unknown one is refused by its name, and so is one that is given twice."""
    values = {"cursor": "", "limit": "7", "name": "x", "profile_id": "0" * 64, "solver": "rotor"}
    for path, item in OPENAPI["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            filled = path.replace("{kind}", "not-found").replace("{file}", "page.js")
            filled = filled.replace("{id}", "0" * (32 if "/jobs/" in path else 64))
            known = {p["name"] for p in parameters(path, method) if p["in"] == "query"}
            body = b"{}" if method == "post" else None
            for name in [*values, "colour", "%22"]:
                once = rematd.call(method.upper(), f"{filled}?{name}={values.get(name, 1)}", body)
                told = once.status == 400 and "no query parameter" in once.json["detail"] and name.replace("%22", '"') in once.json["detail"]
                assert told == (name not in known), (method, path, name, once.body)
                twice = rematd.call(method.upper(), f"{filled}?{name}={values.get(name, 1)}&{name}=2", body)
                assert twice.status == 400, (method, path, name)
                if name in known:
                    assert twice.json["field"] == name and "twice" in twice.json["detail"]
    for target in ("/v1/%zz", "/v1/profiles/%4", "/v1/profiles?name=%", "/v1/profiles?name=%g0", "/%", "/healthz?%0"):
        answer = rematd.get(target, check=False)
        assert answer.status == 400 and "two hex digits" in answer.json["detail"], (target, answer.body)


def test_a_number_past_all_integers_is_told_as_such(rematd):
    for digits in (str(2**63), "-" + str(2**63 + 1), "9" * 400, "1e999"):
        body = ('{"profile_id": "%s", "budget": %s}' % ("0" * 64, digits)).encode()
        answer = rematd.post("/v1/schedules", body)
        assert answer.status == 400 and "the number is too large" in answer.json["detail"], answer.body


def test_every_problem_is_explained(rematd):
    text = (ROOT / "api" / "api.h").read_text()
    kinds = re.findall(r'X\([A-Z_]+, "([a-z-]+)", (\d+), "([^"]+)"\)', text)
    assert len(kinds) > 20
    said = {kind: rematd.get(f"/problems/{kind}") for kind, _, _ in kinds}
    for kind, status, title in kinds:
        assert said[kind].status == 200 and said[kind].body.decode().startswith(f"{title} (HTTP {status})\n\n"), kind
        assert len(said[kind].body) > len(title) + 30
    assert len({answer.body for answer in said.values()}) == len(kinds)
    refused = rematd.get("/problems/none")
    assert refused.status == 404 and rematd.get(refused.json["type"]).status == 200
