# SPDX-License-Identifier: MIT
"""Work that a job issues to its stream: copies, fills, and functions of the program.

Issued work happens later, in order, and before the job is done. The objects that a job copies are
kept until then."""
from __future__ import annotations

import errno
import functools
import math
import re
from typing import TYPE_CHECKING, Any, Callable, Tuple

import numpy as np

from .c import called_by_c, ffi, lib
from .errors import Error, check, refusal
from .job import _thread, call, keep, running_job

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")


def _area(thing: Any, writes: bool, what: str) -> Tuple[Any, int, Any]:
    """Returns the address and the bytes of an array or a buffer, and the object that keeps it."""
    if getattr(getattr(thing, "dtype", None), "hasobject", False) or \
            isinstance(thing, memoryview) and "O" in re.sub(":[^:]*:", "", thing.format):
        raise TypeError(f"{what}: it has objects of Python, whose references a copy does not count")
    face = getattr(thing, "__cuda_array_interface__", None)
    if face is None:
        try:
            area = ffi.from_buffer(thing, require_writable=writes)
        except (TypeError, ValueError, BufferError) as error:
            raise type(error)(f"{what}: {error}; it must be an array or a buffer in one piece"
                              f"{', and not read-only' if writes else ''}") from None
        return area, len(area), area
    ptr, readonly = face["data"]
    size = int(np.dtype(face["typestr"]).itemsize)
    if writes and readonly:
        raise ValueError(f"{what}: it is read-only")
    strides = face.get("strides")
    nbytes = math.prod(face["shape"]) * size
    if strides is not None and nbytes:
        step = size
        for length, stride in zip(reversed(face["shape"]), reversed(strides)):
            if length > 1 and stride != step:
                raise ValueError(f"{what}: it must be in one piece, in C's order")
            step *= length
    return ffi.cast("void *", ptr), nbytes, thing


def _in_job(what: str) -> None:
    """Refuses calls in callbacks: they run on a worker, too, but nothing would keep the objects."""
    if getattr(_thread, "job", None) is None:
        raise Error(errno.ENODEV, f"{what}: this thread runs no job's function; call it in a job")


def _issued(ret: int, what: str) -> None:
    if ret:
        raise refusal(ret, what)


def copy(dst: Any, src: Any) -> None:
    """In a job: copies between arrays and buffers of the host and of devices, of the same size, on
    the job's stream. The call returns before the copy has happened; the job is done after the
    copy."""
    _in_job("copy()")
    to = of = kept_to = kept_of = None
    try:
        to, size, kept_to = _area(dst, True, "copy(): dst")
        of, src_size, kept_of = _area(src, False, "copy(): src")
        if size != src_size:
            raise ValueError(f"copy(): dst has {size} bytes, and src has {src_size}")
        _issued(lib.rnl_copy(to, of, size), "copy()")
        keep(kept_to, kept_of)
    finally:
        # An exception keeps this frame. Before 3.12.7 the collector crashes if a memoryview with
        # exports is in a cycle: github.com/python/cpython/issues/77894.
        to = of = kept_to = kept_of = None


def fill(dst: Any, value: int) -> None:
    """In a job: sets each byte of device memory, or of a pinned array, on the job's stream."""
    _in_job("fill()")
    if not isinstance(value, int) or not 0 <= value <= 255:
        raise ValueError(f"fill(): value is {value!r}; it must be 0 to 255, for each byte")
    to = kept = None
    try:
        to, size, kept = _area(dst, True, "fill(): dst")
        ret = lib.rnl_fill(to, value, size)
        if ret == -errno.EINVAL:
            raise Error(-ret, "fill(): dst is neither memory of the job's device nor a pinned array: "
                        "fill one of these, and copy() from it")
        _issued(ret, "fill()")
        keep(kept)
    finally:
        to = kept = None		# like in copy()


def launch(fn: "Callable[P, Any]", *args: "P.args", **kwargs: "P.kwargs") -> None:
    """In a job: runs the work of fn(*args, **kwargs) in the order of the job's stream.

    On a GPU fn is called immediately, and issues its work to stream(). On the host fn is the work:
    the stream's thread calls it after the copies that the job has issued before. So a job that
    copies and then computes with numpy must launch the computing function."""
    job = running_job("launch()")
    if not job._pool.on_host:
        fn(*args, **kwargs)
        return
    if getattr(job, "_fn", None) is None:
        raise RuntimeError("launch(): the function of a batch or of an array's chunk is launched already: "
                           "call the computing function itself")
    hold = ffi.new("struct rnl_hold *")		# released with the result of fn
    check(lib.rnl_job_hold(job._c, hold), "launch()")
    ret = launch_on_host(job, functools.partial(fn, *args, **kwargs), (),
                         lambda code: lib.rnl_hold_release(hold, code))
    if ret:
        lib.rnl_hold_release(hold, ret)
    _issued(ret, "launch()")


def launch_on_host(job: Any, fn: Callable[..., Any], args: Tuple[Any, ...],
                   told: Callable[[int], Any]) -> int:
    """Issues a call of fn, followed by told(code), to the host stream. The job keeps both."""
    handle = ffi.new_handle((job, fn, args, told))
    job._keep(handle)
    return int(lib.py_launch(handle))


@called_by_c()
def py_kernel(handle: Any) -> None:
    job, fn, args, told = ffi.from_handle(handle)
    _thread.pool = job._pool
    told(call(job, fn, *args))
