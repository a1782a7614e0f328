"""One list of runs for many lengths: the joint graphs of one code for several shapes have the same operations, so that one's list may serve the others."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from . import sharing

APART = 0.02  # how much more of what storing everything takes a budget may be, than it was where a list was made
NEAR = 1.03  # of the time of storing everything, with which a list is as good as one of its own


class Known(NamedTuple):
    """A shape with its list. share: the budget, of what storing everything takes. structure: of the profile."""
    profile: Dict[str, Any]
    order: List[sharing.Run]
    share: float
    structure: Any


class Lists:
    """Those of one code."""

    def __init__(self, in_flight: int = 1) -> None:
        self._known: List[Known] = []
        self._in_flight = in_flight

    def costs(self, profile: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """The profile, whose costs are not known, with those of a shape that is nowhere smaller: its times as bytes are, its
        workspaces as they are, which is the most. None where there is no such shape."""
        larger = [k for k in self._of(profile) if _is_within(profile, k.profile)]
        if not larger:
            return None
        nearest = min(larger, key=lambda k: sum(map(_bytes, k.profile["nodes"]))).profile
        nodes = []
        for node, other in zip(profile["nodes"], nearest["nodes"]):
            part = _bytes(node) / _bytes(other) if _bytes(other) else 1.0
            nodes.append({**node, "time": other["time"] * part, "workspace_bytes": max(node["workspace_bytes"], other["workspace_bytes"])})
        return {**profile, "nodes": nodes}

    def take(self, profile: Dict[str, Any], budget: int) -> Optional[List[sharing.Run]]:
        """Of the lists that are within the budget the fastest; None where there is none, or one of its own would be so much faster that it is worth a solve."""
        known = self._of(profile)
        plain: List[sharing.Run] = list(range(len(profile["nodes"])))
        whole = self._peak(profile, plain)
        if known and whole <= budget:
            return plain
        fitting = [k for k in known if self._peak(profile, k.order) <= budget]
        if not fitting:
            return None
        best = min(fitting, key=lambda k: time_of(profile, k.order))
        return best.order if budget / whole - best.share <= APART or time_of(profile, best.order) <= NEAR * time_of(profile, plain) else None

    def add(self, profile: Dict[str, Any], order: Sequence[sharing.Run], budget: int, solved: bool) -> None:
        if not solved and any(_is_within(profile, k.profile) for k in self._of(profile)):
            return  # nothing that a larger one does not say
        whole = self._peak(profile, range(len(profile["nodes"])))
        shares = [k.share for k in self._known if k.order == list(order)]  # of where the list was made
        self._known.append(Known(profile, list(order), shares[0] if shares and not solved else budget / whole, _structure(profile)))

    def _peak(self, profile: Dict[str, Any], order: Sequence[sharing.Run]) -> int:
        return sharing.peak_in_flight(profile, order, self._in_flight)

    def _of(self, profile: Dict[str, Any]) -> List[Known]:
        structure = _structure(profile) if self._known else None
        return [k for k in self._known if k.structure == structure]


def time_of(profile: Dict[str, Any], order: Sequence[sharing.Run]) -> float:
    return sum(profile["nodes"][v]["time"] for v in order if not isinstance(v, sharing.Move))


def _structure(profile: Dict[str, Any]) -> Any:
    """By places: names are others where sizes were left open, and these come among the inputs."""
    place = {one["id"]: (kind, k) for kind in ("inputs", "nodes") for k, one in enumerate(profile[kind])}

    def placed(name: str) -> Any:
        return place[name.split(":")[0]], name.split(":")[1:]
    nodes = [(n["op"], [*map(placed, n["inputs"])], n.get("recompute"), len(n["outputs"])) for n in profile["nodes"]]
    return nodes, [*map(placed, profile["outputs"])]


def _bytes(node: Dict[str, Any]) -> int:
    return sum(output["bytes"] for output in node["outputs"])


def _is_within(profile: Dict[str, Any], other: Dict[str, Any]) -> bool:
    return all(a["bytes"] <= b["bytes"] for node, larger in zip(profile["nodes"], other["nodes"]) for a, b in zip(node["outputs"], larger["outputs"]))
