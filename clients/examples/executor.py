"""Runs a schedule of remat on buffers of the sizes that its profile names: all that an executor has to do, without any
framework. Where a bytearray is made, yours calls a kernel; the order, and what is alive when, are these.

    python3 executor.py http://127.0.0.1:7070 profile.json 60%
"""

import json
import sys
import urllib.request


class Memory(dict):
    """What is alive, by its name."""
    now = peak = 0

    def make(self, key, size):
        assert key not in self, f"{key} is made twice"
        self[key] = bytearray(size)
        self.now += size
        self.peak = max(self.peak, self.now)

    def free(self, key):
        self.now -= len(self.pop(key))


def run(profile, schedule):
    """The peak. Nodes in place, which overwrite an input, are left out here."""
    nodes, inputs, memory, host = profile["nodes"], profile.get("inputs", []), Memory(), {}
    results = [[one["bytes"] for one in n.get("outputs", [])] or [n["output_bytes"]] for n in nodes]
    value = {x["id"]: ("input", k) for k, x in enumerate(inputs)}
    value |= {n["id"] + f":{k}" * (k > 0): ("out", v, k) for v, n in enumerate(nodes) for k in range(len(results[v]))}
    read = {value[i] for n in nodes for i in n["inputs"]}
    last = {(k, n): at for at, (letter, k, n, *_) in enumerate(o + [None] for o in schedule["operations"]) if letter == "R"}
    for k, one in enumerate(inputs):
        memory.make(("input", k), one["bytes"])
    for at, (letter, *rest) in enumerate(schedule["operations"]):
        if letter in "FAB":
            node, v = nodes[rest[0]], rest[0]
            cost = node | next((a for a in node.get("alternatives", []) if a["name"] in rest[1:]), {})
            forward = cost.get("forward_workspace_bytes", cost.get("workspace_bytes", 0))
            work = {"F": forward, "A": cost.get("save_workspace_bytes", forward), "B": cost.get("backward_workspace_bytes", 0)}
            assert not node.get("in_place")
            needs = [value[i] for i in node["inputs"]] if letter != "B" or cost.get("backward_uses_inputs", True) else []
            needs += [("out", v, 0)] if letter == "B" and cost.get("backward_uses_output", True) else []
            assert all(key in memory for key in needs), (at, letter, node["id"])
        if letter in "FA":
            for k, size in enumerate(results[v]):
                memory.make(("out", v, k), size)
            if letter == "A":
                memory.make(("saved", v), cost.get("saved_bytes", 0))
        elif letter == "B":
            for kind, i, *_ in [value[i] for i in node["inputs"]] + [("out", v)] * (("out", v, 0) not in read):  # the loss's own
                size = inputs[i].get("gradient_bytes", 0) if kind == "input" else nodes[i].get("gradient_bytes", nodes[i]["output_bytes"])
                if ("gradient", kind, i) not in memory:  # else this consumer adds to it
                    memory.make(("gradient", kind, i), size)
        if letter in "FAB":
            memory.make("workspace", work[letter])
            memory.free("workspace")
        if letter == "B":
            memory.free(("gradient", "out", v))
            host.pop(("saved", v), None)
            if ("saved", v) in memory:
                memory.free(("saved", v))
        elif letter in "SR":
            if letter == "S":
                memory.make(("state", *rest), profile["states"][rest[0]]["bytes"])
            elif last[tuple(rest)] == at:
                memory.free(("state", *rest))
        elif letter in "DXOP":
            key = ("saved", rest[0]) if letter == "X" else ("out", rest[0], 0) if len(rest) == 1 else \
                ("out", *rest[1:]) if rest[0] == "output" else tuple(rest)
            if letter == "O":
                host[key] = bytes(memory[key])  # beside what is computed; a D of it waits for the copy
            elif letter == "P":
                memory.make(key, len(host[key]))
            else:
                memory.free(key)
    return memory.peak


if __name__ == "__main__":
    server, file, budget = sys.argv[1:]
    with open(file, encoding="utf-8") as text:
        question = {"profile": json.load(text), "budget": budget}
    request = urllib.request.Request(server + "/v1/schedules", json.dumps(question).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        told = json.load(answer)
    peak = run(question["profile"], told)
    print(f"{len(told['operations'])} operations, peak {peak} bytes; told {told['peak']}")
    sys.exit(peak != told["peak"])
