"""Lines of the user's code, to be named in messages."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from types import FrameType, TracebackType
from typing import Optional

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(__file__) + os.sep
_CAPTURE = os.path.join(_HERE, "capture.py")
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep


def of_torch(file: str) -> bool:
    return file.startswith(_TORCH)


@functools.lru_cache(maxsize=None)
def is_users(file: str) -> bool:
    """Whether a file is neither of torch, nor of this package, nor of Python itself."""
    if file.startswith((_TORCH, _HERE, "<frozen", "<eval_with_key>", "<string>")):
        return False
    return not file.startswith(_STANDARD) or "site-packages" in file or "dist-packages" in file


def current() -> str:
    """ (file:line) of the innermost code of the user that runs, or nothing."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        if frame.f_code.co_filename == _CAPTURE:
            return ""  # whoever asked for it
        frame = frame.f_back
    return "" if frame is None else f" ({frame.f_code.co_filename}:{frame.f_lineno})"


def of_error(error: BaseException) -> str:
    """ (file:line) of the innermost code of the user that an error went through, or nothing."""
    found, trace = "", error.__traceback__  # type: str, Optional[TracebackType]
    while trace is not None:
        if is_users(trace.tb_frame.f_code.co_filename):
            found = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found
