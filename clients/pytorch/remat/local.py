"""The service's answers without a service: libremat-local, which a build of rematd makes, in this process."""

import ctypes
import functools
import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from .client import Budget, Client, failure, parse_budget
from .errors import ServiceError

LIBRARY = "libremat-local.so"
LOCAL = "local"  # as the server: no other


def path() -> Optional[Path]:
    """REMAT_LOCAL_LIBRARY, or beside this file, where a wheel has it. None where there is none."""
    given = os.environ.get("REMAT_LOCAL_LIBRARY")
    found = Path(given) if given else Path(__file__).with_name(LIBRARY)
    return found if found.exists() else None


def connect(server: Optional[str] = None, token: Optional[str] = None) -> Client:
    """Who answers: the server that is given, or REMAT_SERVER; without either this process, where the library is there, else
    http://127.0.0.1:7070. "local" is this process. Raises ServiceError where that has no library."""
    given, file = server or os.environ.get("REMAT_SERVER"), path()
    if given == LOCAL and file is None:
        raise ServiceError(f"there is no {LIBRARY}: this package was built where there was no C compiler, or without the "
                           "headers of jansson and nettle; or name one in REMAT_LOCAL_LIBRARY")
    return Local(file) if file is not None and given in (None, "", LOCAL) else Client(given, token)


def solve(profile: Dict[str, Any], budget: Budget, *, server: Optional[str] = None, token: Optional[str] = None, **more: Any) -> Dict[str, Any]:
    """The schedule of a profile (a document, remat-profile/1) within a budget: bytes, "8GiB", or "60%" of what storing
    everything takes. more: solver, effort, reserved, link. Raises BudgetError (with minimum_budget), ServiceError."""
    return connect(server, token).schedule(profile, parse_budget(budget), **more)


def plan(model: str, device: str, batch: int, *, server: Optional[str] = None, token: Optional[str] = None, **more: Any) -> Dict[str, Any]:
    """Whether a model of the table trains on a device of the table, and how fast. more: as the members of POST /v1/plans. Raises ServiceError."""
    return connect(server, token).plan({"model": model, "device": device, "batch": batch, **more})


_Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_double)


@functools.lru_cache(maxsize=None)
def _library(file: Path) -> Any:
    """Raises ServiceError where it cannot be loaded."""
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise ServiceError(f"{file} cannot be loaded: {error}") from error
    library.remat_local_post.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, _Progress, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    library.remat_local_post.restype = ctypes.c_void_p
    library.remat_local_free.argtypes = [ctypes.c_void_p]
    library.remat_local_free.restype = None
    return library


class Local(Client):
    """A service in this process, that remembers nothing. Thread-safe. Ctrl-C, and whatever else a handler of a signal raises, ends a solve."""

    def __init__(self, file: Path, timeout: float = 600.0) -> None:
        self.server, self.token, self.timeout, self.where, self._file = LOCAL, None, timeout, "in this process", file

    def _call(self, method: str, path: str, body: Any = None) -> Dict[str, Any]:
        return self._post(path, json.dumps(body).encode())

    def _post(self, path: str, text: bytes) -> Dict[str, Any]:
        library, status = _library(self._file), ctypes.c_int()
        stopped: List[BaseException] = []
        answers: List[Optional[int]] = []
        deadline = time.monotonic() + self.timeout

        def progress(_: Any, fraction: float) -> int:
            if time.monotonic() > deadline:
                stopped.append(ServiceError(f"{LOCAL}: no schedule after {self.timeout:g} s"))
            return len(stopped)

        def solve() -> None:
            answers.append(library.remat_local_post(path.encode(), text, len(text), _Progress(progress), None, ctypes.byref(status)))

        # what is raised in a callback of ctypes is lost: this thread waits, and handlers of signals raise here
        thread = threading.Thread(target=solve, name="remat solves")
        thread.start()
        try:
            thread.join()
        except BaseException as error:
            stopped.append(error)
            thread.join()
        answer = answers[0]
        if stopped:
            library.remat_local_free(answer)
            raise stopped[0]
        if not answer:
            raise ServiceError(f"{self._file}: out of memory")
        try:
            found = json.loads(ctypes.string_at(answer))
        finally:
            library.remat_local_free(answer)
        if status.value != 200:
            raise failure(LOCAL, status.value, found)
        return found
