# SPDX-License-Identifier: MIT
"""Exceptions for the library's return values, and waits that Ctrl-C interrupts."""
from __future__ import annotations

import concurrent.futures
import errno
import logging
import math
import sys
import threading
import time
from typing import Any, Callable, Dict, Optional

from .c import called_by_c, ffi, lib

log = logging.getLogger("runnel")
log.addHandler(logging.NullHandler())		# without a handler of the program nothing is printed
_said = threading.local()			# .text: the library's last error in this thread
_heard: Dict[Any, Optional[str]] = {}	# log_arg of a pool whose workers start now: its last error, of any thread

SLICE_NS = 50_000_000		# a wait returns to Python at this interval, to handle Ctrl-C


class Error(OSError):
    """A call of the library, or a job, failed. `errno` is the library's code."""


class Full(Error):
    """The pool, or one of its resources, is full. This is temporary: try again later."""


class Closed(Error, RuntimeError):
    """The pool was closed. (An executor of the standard library raises RuntimeError.)"""


class Cancelled(Error, concurrent.futures.CancelledError):
    """The job was cancelled, or a job of the barrier before it failed, and its function did not
    run; or the job's hold was dropped without a release."""


class Late(Error):
    """The job did not start, or its holds were not released, by its deadline; or its submit was
    refused because it would be late (a class that admits)."""


if sys.version_info >= (3, 11):
    Expired = TimeoutError
else:
    class Expired(TimeoutError, concurrent.futures.TimeoutError):
        """A wait's time is over."""


_CLASSES = {errno.EAGAIN: Full, errno.ESHUTDOWN: Closed, errno.ECANCELED: Cancelled,
            errno.ETIMEDOUT: Late, errno.ETIME: Late}
_OWNER = "; it is of the process that forked this one: create a pool in this process"


def error_of(code: int, what: str, text: Optional[str] = None) -> Error:
    """Returns the exception for a negative code; `what` names the call, or the job."""
    text = text or ffi.string(lib.rnl_strerror(code)).decode()
    return _CLASSES.get(-code, Error)(
        -code, f"{what}: {text}{_OWNER if code == -errno.EOWNERDEAD else ''}")


def failed_by(code: int, cause: BaseException) -> Error:
    """Returns the exception for the code of a barrier with a job that raised `cause`."""
    error = error_of(code, "a job of the barrier failed", repr(cause))
    error.__cause__ = cause
    return error


def on_worker(call: str, advice: str = "") -> Error:
    """Returns the exception for a wait on a worker of the pool."""
    return Error(errno.EBUSY, f"{call} on a worker of the pool: the worker would wait for itself"
                 f"{advice}")


def refusal(code: int, what: str, heard: Optional[str] = None) -> Error:
    """Like error_of(), for a call that this thread has just made: the library has logged the
    reason of -EINVAL. heard: the pool's last error message, from any thread."""
    said, _said.text = getattr(_said, "text", None), None
    return error_of(code, what, heard or (said if code == -errno.EINVAL else None))


def check(ret: int, what: str) -> int:
    """Returns the return value of a call of the library; raises if it is negative."""
    if ret < 0:
        raise refusal(ret, what)
    return ret


def check_start(call: Callable[[], int], log_arg: Any, what: str) -> None:
    """check(call()), for a call that starts workers, whose threads log why one could not start."""
    _heard[log_arg] = None
    try:
        ret = call()
    finally:
        heard = _heard.pop(log_arg, None)
    if ret == -errno.EBUSY:
        raise on_worker(what)
    if ret < 0:
        raise refusal(ret, what, heard)


def nanoseconds(seconds: Optional[float], what: str) -> int:
    """Converts seconds for the library; None means for ever."""
    if seconds is None:
        return -1
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"{what} is {seconds!r}; it must be seconds, or None for ever")
    if seconds < 0 or math.isnan(seconds):
        raise ValueError(f"{what} is {seconds!r}; it must not be negative")
    return int(min(seconds * 1e9, 2**62))


def wait(call: Callable[[int], int], timeout: Optional[float], what: str) -> int:
    """Calls `call(timeout_ns)` until it returns another value than -ETIMEDOUT, or time is over.

    The interpreter's lock is free during a call. A signal does not end a wait of the library, so
    each call is short: the main thread soon raises KeyboardInterrupt."""
    left = nanoseconds(timeout, f"{what}: timeout")
    end = time.monotonic_ns() + left
    while True:
        ret = call(SLICE_NS if left < 0 else min(left, SLICE_NS))
        if ret != -errno.ETIMEDOUT:
            return ret
        if left >= 0:
            left = max(end - time.monotonic_ns(), 0)
            if not left:
                return ret


@called_by_c()
def py_log(arg: Any, level: int, msg: Any) -> None:
    text = ffi.string(msg).decode(errors="replace")
    if level == lib.RNL_LOG_ERROR:
        _said.text = text
        if arg in _heard:
            _heard[arg] = text
    log.log((logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)[level], "%s", text)


@called_by_c()
def py_enter() -> None:
    pass


lib.quick_begin()
