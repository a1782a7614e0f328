"""Asks the service."""

import json
import math
import os
import re
import time
import urllib.error
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any, Dict, Optional, Union

from .errors import BudgetError, ServiceError

Budget = Union[int, str]

_SUFFIXES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_MOST = 2**53 - 1  # bytes: the largest whole number of JSON's that everybody reads as it is
_WAIT = 30  # seconds that one request waits for a solve


# ---- budgets ----

def parse_budget(budget: Budget) -> Budget:
    """Bytes, or a percentage of the store-all peak as it is. Raises BudgetError naming the budget."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float, str)):
        raise BudgetError(f"the budget is {budget!r}; it must be bytes, or a text: \"8GiB\", \"60%\"")
    amount = budget
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*|%)\s*", budget)
        if not match or match[2].lower() not in (*_SUFFIXES, "%"):
            raise BudgetError(f"the budget is {budget!r}; such as \"8GiB\", \"500MB\" or \"60%\" are understood")
        if match[2] == "%" and Decimal(match[1]) <= _MOST:
            return f"{match[1]}%"
        amount = int(Decimal(match[1]) * _SUFFIXES.get(match[2].lower(), 1))
    if amount > _MOST:
        raise BudgetError(f"the budget is {budget!r}; the most is {_MOST} bytes")
    if math.isnan(amount) or amount < 0 or amount != int(amount):
        raise BudgetError(f"the budget is {budget!r}; it must be a whole number of bytes, 0 or more")
    return int(amount)


def bytes_of(budget: Budget, whole: int) -> int:
    """A budget in bytes, where storing everything takes `whole`."""
    return int(whole * Decimal(budget[:-1]) / 100) if isinstance(budget, str) else int(budget)


def named_link(link: Union[str, Dict[str, Any]]) -> Dict[str, Any]:
    """As the service takes it, which knows the names: of "pcie4-x16", or "25GB/s", that."""
    return {"bandwidth" if link.endswith("/s") else "preset": link} if isinstance(link, str) else link


# ---- the service ----

class Client:
    """One service. Thread-safe: it holds nothing but the address and the token. where: schedules are solved, as words."""

    def __init__(self, server: Optional[str] = None, token: Optional[str] = None, timeout: float = 600.0) -> None:
        """server: its URL, or REMAT_SERVER, or http://127.0.0.1:7070; token: or REMAT_TOKEN; timeout: seconds that a schedule may take."""
        self.server = (server or os.environ.get("REMAT_SERVER") or "http://127.0.0.1:7070").rstrip("/")
        self.token = token or os.environ.get("REMAT_TOKEN")
        self.timeout, self.where = timeout, f"by {self.server}"

    def schedule(self, profile: Dict[str, Any], budget: Budget, solver: str = "auto", effort: str = "quick",
                 reserved: int = 0, link: Union[None, str, Dict[str, Any]] = None, in_flight: int = 1) -> Dict[str, Any]:
        """The schedule of a profile. reserved: bytes taken off the budget first; effort: "quick" or, where
        the solver is auto or interval, "thorough". in_flight: micro-batches at once, where it is a stage of a pipeline.

        Raises BudgetError (with minimum_budget) or ServiceError."""
        answer = self._call("POST", "/v1/schedules", {
            "profile": profile, "budget": budget, "solver": solver, "reserved": reserved, "layout": False, "wait": _WAIT,
            **({"link": named_link(link)} if link is not None else {}), **({"in_flight": in_flight} if in_flight > 1 else {}),
            **({"effort": effort} if effort != "quick" else {})})  # which other solvers refuse
        return self._wait(answer) if "job_id" in answer else answer

    def plan(self, question: Dict[str, Any]) -> Dict[str, Any]:
        """What POST /v1/plans answers: how a model trains on a device. Raises ServiceError."""
        while True:
            answer = self._call("POST", "/v1/plans", {"wait": _WAIT, **question})
            if "job_id" not in answer:
                return answer
            self._wait(answer)

    def _wait(self, job: Dict[str, Any]) -> Dict[str, Any]:
        deadline, pause = time.monotonic() + self.timeout, 0.05
        while job["state"] in ("queued", "running"):
            if time.monotonic() > deadline:
                raise ServiceError(f"{self.server}: no schedule after {self.timeout:g} s (job {job['job_id']} is "
                                   f"{job['state']}, {100 * job['progress']:.0f} % done)")
            time.sleep(pause)
            pause, job = min(2 * pause, 2.0), self._call("GET", f"/v1/jobs/{job['job_id']}")
        if "schedule_id" not in job:
            raise failure(self.server, job.get("problem", {}).get("status", 0), job.get("problem", {}))
        return self._call("GET", f"/v1/schedules/{job['schedule_id']}")

    def _call(self, method: str, path: str, body: Any = None) -> Dict[str, Any]:
        request = urllib.request.Request(self.server + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=_WAIT + 30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            try:
                with error:
                    problem = json.load(error)
            except ValueError:
                problem = None
            raise failure(self.server, error.code, problem if isinstance(problem, dict) else {}) from None
        except (OSError, ValueError) as error:
            raise ServiceError(f"{self.server} does not answer: {getattr(error, 'reason', error)}") from error


def failure(server: str, status: int, problem: Dict[str, Any]) -> Exception:
    detail = problem.get("detail") or problem.get("title") or "no reason was given"
    if problem.get("type") == "/problems/infeasible-budget" or problem.get("field") == "budget":
        return BudgetError(detail, problem.get("minimum_budget"))
    return ServiceError(f"{server} answers {status}: {detail}", status, problem.get("field"))


# ---- the cache ----

class Cache:
    """Schedules, and what was measured, in a directory, by a key; written whole or not at all."""

    def __init__(self, folder: Optional[Union[str, Path]] = None) -> None:
        """folder: or $XDG_CACHE_HOME/remat, or ~/.cache/remat."""
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.folder = Path(folder) if folder is not None else Path(home) / "remat"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"cache is {str(self.folder)!r}, which cannot be a folder: {error.strerror}") from error

    def get(self, key: str, *members: str) -> Optional[Dict[str, Any]]:
        """What was put, or None. A damaged file, or one without the members, is as none."""
        try:
            entry = json.loads((self.folder / f"{key}.json").read_text())
        except (OSError, ValueError):
            return None
        return entry if isinstance(entry, dict) and entry.keys() >= {*members} else None

    def put(self, key: str, entry: Dict[str, Any]) -> None:
        part = self.folder / f"{key}.{os.getpid()}.part"
        part.write_text(json.dumps(entry))
        part.replace(self.folder / f"{key}.json")
