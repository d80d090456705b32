# SPDX-License-Identifier: MIT
"""Maps, which stream a large array through the workers, chunk by chunk."""
from __future__ import annotations

import errno
import math
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

import numpy as np

from _runnel import ffi, lib

from . import memory, work
from .errors import refusal, wait
from .job import Job, call

if TYPE_CHECKING:
    from .pool import Pool
    from .queue import Queue


class Rows:
    """The arrays of a map; the map's elements are rows along the first axis."""

    def __init__(self, pool: "Pool", fn: Callable, array: Any, out: Any):
        self.pool, self.fn = pool, fn
        self.shape, self.dtype, self.row_bytes = self._rows(array, "array")
        self.out_shape, self.out_dtype, self.out_row_bytes = (None, None, 0) if out is None else \
            self._rows(out, "out")
        if out is not None and len(out) != len(array):
            raise ValueError(f"Pool.map(): out has {len(out)} rows, and array has {len(array)}")
        self.job: Job = None		# set before the map starts

    @staticmethod
    def _rows(array: Any, what: str) -> Tuple[Tuple[int, ...], Any, int]:
        if not isinstance(array, np.ndarray) or array.ndim < 1 or array.dtype.hasobject or \
                not array.flags.c_contiguous:
            is_array = isinstance(array, np.ndarray)
            raise TypeError(f"Pool.map(): {what} must be a numpy array of numbers in one piece, in "
                            f"C's order, with one axis at least; it is {type(array).__name__}"
                            f"{f' of {array.dtype}, strides {array.strides}' if is_array else ''}")
        if what == "out" and not array.flags.writeable:
            raise ValueError("Pool.map(): out is read-only")
        row_bytes = math.prod(array.shape[1:]) * array.itemsize
        if not row_bytes:
            raise ValueError(f"Pool.map(): {what} has rows without bytes: it is {array.shape}")
        return array.shape[1:], array.dtype, row_bytes


class Chunk:
    """A part of a map's array, on the device. It is valid during the function's call and the work
    that the function issues."""

    __slots__ = ("index", "first", "nr", "before", "after", "input", "out")

    def __init__(self, c: Any, rows: Rows):
        device = lib.rnl_worker().device
        self.index = c.index				# of the chunk, from 0
        self.first, self.nr = c.first, c.nr		# first row in the array; number of rows
        self.before, self.after = c.before, c.after	# rows of the halos
        start = ffi.cast("char *", getattr(c, "in")) - c.before * rows.row_bytes
        # Includes the halos: self.input[self.before:] begins with row `first`.
        self.input = memory.array_on(rows.pool, device, ffi.cast("void *", start),
                                     (c.before + c.nr + c.after, *rows.shape), rows.dtype)
        # Rows `first` to `first + nr - 1` of the output; None if the map has no output.
        self.out = memory.array_on(rows.pool, device, c.out, (c.nr, *rows.out_shape),
                                   rows.out_dtype) if rows.out_row_bytes else None


@ffi.def_extern(error=-errno.EIO)
def py_chunk(c):
    rows = ffi.from_handle(c.arg)
    if rows.job._error is not None:
        return -errno.ECANCELED
    chunk = Chunk(c, rows)
    if rows.pool.on_host:		# launched, so it runs after the copy of the chunk
        return work.launch_on_host(rows.job, rows.fn, (chunk,), lambda code: None)
    return call(rows.job, rows.fn, (chunk,))[1]


def start(pool: "Pool", fn: Callable, array: Any, out: Any, chunk: Optional[int],
          halo: Tuple[int, int], copies_first: bool, queue: Optional["Queue"]) -> Job:
    if not callable(fn):
        raise TypeError(f"Pool.map(): fn is {fn!r}; it must be a function")
    if chunk is not None and (not isinstance(chunk, (int, np.integer)) or not 0 < chunk < 2**63):
        raise ValueError(f"Pool.map(): chunk is {chunk!r}; it must be a number of rows, or None")
    if not isinstance(halo, tuple) or len(halo) != 2 or \
            not all(isinstance(rows, int) and rows >= 0 for rows in halo):
        raise ValueError(f"Pool.map(): halo is {halo!r}; it must be two numbers of rows")
    rows = Rows(pool, fn, array, out)
    barrier = pool.barrier()
    handle = ffi.new_handle(rows)
    c = ffi.new("struct rnl_map *")
    c.flags = lib.RNL_MAP_COPIES_FIRST if copies_first else 0
    c.arg, c.nr, c.chunk = handle, len(array), int(chunk or 2**64 - 1)
    c.halo_before, c.halo_after = halo
    c.in_bytes, c.out_bytes = rows.row_bytes, rows.out_row_bytes
    areas = [ffi.from_buffer(array)]
    setattr(c, "in", areas[0])
    if out is not None:
        areas.append(ffi.from_buffer(out, require_writable=True))
        c.out = areas[1]
    with pool._use("Pool.map()") as c_pool:
        rows.job = job = Job(pool, None, (), queue)
        job._prepare()
        job._value = out
        job._kept += [barrier, rows, handle, areas]
        ret = lib.py_map_start(c_pool, c, barrier._c)
        if not ret:
            ret = lib.rnl_barrier_notify(barrier._c, job._c)
            if ret:		# without notify() wait here: the map uses the arrays until its end
                wait(lambda ns: lib.rnl_barrier_wait(barrier._c, ns), None, "Pool.map()")
    if ret:
        job._end()
        raise refusal(ret, "Pool.map()")
    return job
