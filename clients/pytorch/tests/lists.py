"""Lists of runs of a joint profile: a judge of their peak that shares nothing with the service's, and random ones."""

import random


def needs(profile):
    """By node the producers and results that it reads, and how many results each node has."""
    place = {node["id"]: v for v, node in enumerate(profile["nodes"])}
    values = {}
    for node_id, v in place.items():
        values[node_id] = (v, 0)
        for k in range(1, len(profile["nodes"][v]["outputs"])):
            values[f"{node_id}:{k}"] = (v, k)
    return [[values[i] for i in node["inputs"] if i in values] for node in profile["nodes"]], values


def peak(profile, order):
    """Bytes alive at most: each result from its run to its last use before the node's next run, outputs to the end.
    Fails where a node runs before what it needs, or runs twice and must not."""
    reads, values = needs(profile)
    nodes = profile["nodes"]
    held = sum(i["bytes"] for i in profile["inputs"])
    latest, last_use = {}, {}
    for t, v in enumerate(order):
        for u, k in reads[v]:
            assert u in latest, f"{nodes[v]['id']} runs before {nodes[u]['id']}"
            last_use[latest[u], k] = t
        assert v not in latest or nodes[v].get("recompute") != "never", f"{nodes[v]['id']} runs twice"
        latest[v] = t
        for k in range(len(nodes[v]["outputs"])):
            last_use.setdefault((t, k), t)
    assert len(latest) == len(nodes)
    for name in profile["outputs"]:
        v, k = values[name]
        last_use[latest[v], k] = len(order)
    change = [0] * (len(order) + 2)
    for (t, k), end in last_use.items():
        size = nodes[order[t]]["outputs"][k]["bytes"]
        change[t] += size
        change[min(end, len(order)) + 1] -= size
    most, level = 0, held
    for t, v in enumerate(order):
        level += change[t]
        most = max(most, level + nodes[v]["workspace_bytes"])
    return most


def in_order(profile):
    return list(range(len(profile["nodes"])))


def dropping(profile, seed, share=0.5):
    """The profile's order; a part of what is needed far later is dropped, and made again, with what that needs, when
    it is."""
    rng = random.Random(seed)
    reads, _ = needs(profile)
    nodes = profile["nodes"]
    free = [v for v, node in enumerate(nodes) if node.get("recompute") != "never" and rng.random() < share]
    dropped, order, there = set(free), [], set()
    uses = {v: [t for t, r in enumerate(reads) if any(u == v for u, _ in r)] for v in range(len(nodes))}

    def make(v):
        for u, _ in reads[v]:
            if u not in there:
                make(u)
        order.append(v)
        there.add(v)

    for t in range(len(nodes)):
        if t not in there:
            make(t)
        for v in list(there & dropped):
            later = [use for use in uses[v] if use > t]
            if later and later[0] > t + 3:
                there.discard(v)
    return order


def shuffled(profile, seed):
    """Any order in which everything is there."""
    rng = random.Random(seed)
    reads, _ = needs(profile)
    left = [{u for u, _ in r} for r in reads]
    users = [[v for v, needed in enumerate(left) if u in needed] for u in range(len(left))]
    ready, order = [v for v, needed in enumerate(left) if not needed], []
    while ready:
        v = ready.pop(rng.randrange(len(ready)))
        order.append(v)
        for user in users[v]:
            left[user].discard(v)
            if not left[user]:
                ready.append(user)
    return order
