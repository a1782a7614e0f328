"""remat mcp: tools for agents, by lines as a client sends them. tests/browser/mcp.test.mjs uses the protocol's own SDK."""

import json
import subprocess

from conftest import BUILD, PROFILES, SLOW

REMAT = BUILD / "clients" / "cli" / "remat"
CHAIN = str(PROFILES / "gpt.cpu.chain.json")
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26", "capabilities": {},
                                                                       "clientInfo": {"name": "t", "version": "1"}}}


def talk(*messages, end="\n"):
    text = "\n".join(m if isinstance(m, str) else json.dumps(m) for m in messages) + end
    done = subprocess.run([REMAT, "mcp"], input=text, capture_output=True, text=True, timeout=120 * SLOW)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(name, number=1, **arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def used(name, **arguments):
    """(failed, text) of one call."""
    result = talk(HELLO, call(name, **arguments))[1]["result"]
    assert [c["type"] for c in result["content"]] == ["text"]
    return result["isError"], result["content"][0]["text"]


def test_it_says_what_it_has():
    hello, listed, pong = talk(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, "", "  ",
                               {"jsonrpc": "2.0", "id": "a", "method": "tools/list"}, {"jsonrpc": "2.0", "id": 2, "method": "ping"}, end="")
    assert hello["result"]["protocolVersion"] == "2025-03-26" and hello["result"]["serverInfo"]["name"] == "remat"
    assert listed["id"] == "a" and pong == {"jsonrpc": "2.0", "id": 2, "result": {}}  # the last line had no end
    tools = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert set(tools) == {"profile_check", "solve", "explain", "plan", "curve"}
    assert all(tool["description"] and tool["inputSchema"]["required"] for tool in tools.values())
    newer = dict(HELLO, params={"protocolVersion": "2099-01-01"})
    assert talk(newer)[0]["result"]["protocolVersion"] == "2025-06-18"


def test_what_is_wrong_is_said():
    answers = talk("{", "[]", '{"jsonrpc": "2.0", "id": 3}', {"jsonrpc": "2.0", "id": 4, "method": "tools/none"}, call("none", 5),
                   {"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"},
                   {"jsonrpc": "2.0", "id": 6, "result": {}}, {"jsonrpc": "2.0", "method": "notifications/cancelled"})
    assert [(a["id"], a["error"]["code"]) for a in answers] == [(None, -32700), (None, -32600), (3, -32600), (4, -32601), (5, -32602),
                                                                     (None, -32600)]
    for arguments, said in (({}, "profile is missing"), ({"profile": 3}, "profile must be a string"), ({"profile": "/none"}, "names no file"),
                            ({"profile": "/dev/zero"}, "is no regular file"), ({"profile": "/tmp"}, "is no regular file"),
                            ({"profile": CHAIN, "x": 1}, "x is not known")):
        failed, text = used("profile_check", **arguments)
        assert failed and said in text, (arguments, text)
    assert "is no regular file" in used("plan", model="/dev/stdin", batch=1, device="h100")[1]
    failed, text = used("solve", profile=CHAIN, budget="1KiB")
    assert failed and json.loads(text)["type"] == "/problems/infeasible-budget"
    failed, text = used("solve", profile=CHAIN, budget="60%", solver="--help")
    assert failed and "there is no solver" in text


def test_a_day_of_an_agent(tmp_path):
    file = tmp_path / "schedule.json"
    assert json.loads(used("profile_check", profile=CHAIN)[1])["nodes"] > 10
    for more in ({}, {"output": str(file)}):
        failed, text = used("solve", profile=CHAIN, budget="60%", **more)
        answer = json.loads(text)
        assert not failed and answer["verified"] and "operations" not in answer and len(text) < 20000
    kept = json.loads(file.read_text())
    assert kept["operations"] and kept["makespan"] == answer["makespan"]
    failed, text = used("explain", schedule=str(file), profile=CHAIN)
    assert not failed and "budget" in text and "forward" in text
    assert len(json.loads(used("curve", profile=CHAIN, points=5)[1])) == 5
    failed, text = used("plan", model="gpt2", batch=1, device="rtx4090")
    assert not failed and json.loads(text)["fits"] is True
    assert "did you mean gpt2-xl?" in used("plan", model="gpt2-xxl", batch=1, device="rtx4090")[1]
