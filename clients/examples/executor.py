"""Runs a schedule of remat on buffers of the sizes that its profile names: all that an executor has to do, without any framework.
Where a bytearray is made, yours calls a kernel.     python3 executor.py http://127.0.0.1:7070 60% <profile.json"""
import json
import sys
import urllib.request


def run(profile, schedule):
    """The peak. Nodes in place, which overwrite an input, are left out here."""
    nodes, operations, memory, host, values, gradients, peak = profile["nodes"], schedule["operations"], {}, {}, {}, {}, 0
    workspaces = {"F": ("forward_", ""), "A": ("save_", "forward_"), "B": ("backward_",)}  # whose bytes: the first that a node has
    for k, one in enumerate(profile.get("inputs", [])):
        values[one["id"]], gradients["input", k] = ("input", k), one.get("gradient_bytes", 0)
        memory["input", k] = bytearray(one["bytes"])
    results = [node.get("outputs") or [{"bytes": node["output_bytes"]}] for node in nodes]
    for v, node in enumerate(nodes):
        values |= {node["id"] + f":{k}" * (k > 0): ("output", v, k) for k in range(len(results[v]))}
        gradients["output", v, 0] = node.get("gradient_bytes", results[v][0]["bytes"])
    read = {values[i] for node in nodes for i in node.get("inputs", [])}
    for at, (letter, *rest) in enumerate(operations):
        made, gone = {}, []  # what this operation makes, with the bytes of each, and what it frees
        if letter in "FAB":
            v, own, node = rest[0], ("output", rest[0], 0), nodes[rest[0]]
            assert not node.get("in_place"), f"{node['id']} is in place, which is left out here"
            cost = node | next((a for a in node.get("alternatives", []) if a["name"] in rest[1:]), {})
            inputs = [values[i] for i in node.get("inputs", [])]
            needs = inputs if letter != "B" else inputs * cost.get("backward_uses_inputs", True) + [own] * cost.get("backward_uses_output", True)
            assert all(key in memory for key in needs), (at, letter, node["id"])
            made["workspace"] = next((cost[k + "workspace_bytes"] for k in workspaces[letter] if k + "workspace_bytes" in cost), 0)
            if letter == "B":  # of the loss its own gradient too; to what is there already, this consumer adds
                wanted = [key for key in inputs + [own] * (own not in read) if ("gradient", key) not in memory]
                made |= {("gradient", key): gradients[key] for key in wanted}
            else:
                made |= {("output", v, k): one["bytes"] for k, one in enumerate(results[v])}
            if letter == "A":
                made["saved", v] = cost.get("saved_bytes", 0)
            gone = ["workspace"] + [key for key in (("gradient", own), ("saved", v)) if letter == "B" and key in memory | made]
        else:
            kind = ["saved"] * (letter == "X") + ["state"] * (letter in "SR")  # else it is named, or an output
            key = (*kind, *rest) if kind or len(rest) > 1 else ("output", *rest, 0)
            if letter in "SP":
                made[key] = profile["states"][rest[0]]["bytes"] if letter == "S" else len(host[key])
            elif letter == "O":
                host[key] = bytes(memory[key])  # beside what is computed; a D of it waits for the copy
            elif letter in "DX" or ["R", *rest] not in operations[at + 1:]:  # the last R of a version
                gone = [key]
        assert memory.keys().isdisjoint(made), (at, letter, "makes what is there")
        memory |= {key: bytearray(size) for key, size in made.items()}
        peak = max(peak, sum(map(len, memory.values())))
        for key in gone:
            del memory[key]
    return peak


if __name__ == "__main__":
    server, budget = sys.argv[1:]
    question = {"profile": json.load(sys.stdin), "budget": budget}
    request = urllib.request.Request(server + "/v1/schedules", json.dumps(question).encode(), {"Content-Type": "application/json"})
    told = json.load(urllib.request.urlopen(request))
    print(f"{len(told['operations'])} operations, peak {run(question['profile'], told)} bytes; told {told['peak']}")
