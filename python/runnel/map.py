# SPDX-License-Identifier: MIT
"""Maps, which stream a large array through the workers, chunk by chunk."""
from __future__ import annotations

import errno
import math
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

import numpy as np

from .c import called_by_c, ffi, lib
from . import memory, work
from .errors import refusal, wait
from .job import Job, _live, call

if TYPE_CHECKING:
    from .pool import Pool


class Rows:
    """The arrays of a map; the map's elements are rows along the first axis."""

    def __init__(self, pool: "Pool", fn: Callable[[Any], Any], array: Any, out: Any):
        self.pool, self.fn = pool, fn
        self.shape, self.dtype, self.row_bytes = self._rows(array, "array")
        self.out_shape: Tuple[int, ...] = ()
        self.out_dtype, self.out_row_bytes = np.dtype("u1"), 0
        if out is not None:
            self.out_shape, self.out_dtype, self.out_row_bytes = self._rows(out, "out")
        if out is not None and len(out) != len(array):
            raise ValueError(f"Pool.map_array(): out has {len(out)} rows, and array has {len(array)}")
        self.job: Job[Any] = Job(pool, None)

    @staticmethod
    def _rows(array: Any, what: str) -> Tuple[Tuple[int, ...], Any, int]:
        if not isinstance(array, np.ndarray) or array.ndim < 1 or array.dtype.hasobject or \
                not array.flags.c_contiguous:
            is_array = isinstance(array, np.ndarray)
            raise TypeError(f"Pool.map_array(): {what} must be a numpy array of numbers in one piece, in "
                            f"C's order, with one axis at least; it is {type(array).__name__}"
                            f"{f' of {array.dtype}, strides {array.strides}' if is_array else ''}")
        if what == "out" and not array.flags.writeable:
            raise ValueError("Pool.map_array(): out is read-only")
        row_bytes = math.prod(array.shape[1:]) * array.itemsize
        if not row_bytes:
            raise ValueError(f"Pool.map_array(): {what} has rows without bytes: it is {array.shape}")
        return array.shape[1:], array.dtype, row_bytes


class Part:
    """What a function gets: arrays on the device. The attributes are read-only."""

    __slots__ = ("input", "out")

    input: Any
    out: Any		# None if there is no output

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not getattr(self, name, self):		# `part.out += 1` assigns, too
            raise AttributeError(f"{type(self).__name__}.{name} is read-only; write to the array: "
                                 "out[:] = ...")


def call_writer(fn: Callable[[Any], Any], part: Part) -> None:
    """Calls a function that writes to part.out; refuses one that returns its result."""
    value = fn(part)
    if value is not None and value is not part.out:
        raise TypeError(f"{fn!r} returned {type(value).__name__}, which would be lost: it must write "
                        "to its argument, out[:] = ..., and return None")


class Chunk(Part):
    """A part of a map's array, on the device. It is valid during the function's call and the work
    that the function issues."""

    __slots__ = ("index", "first", "nr", "before", "after")

    index: int			# of the chunk, from 0
    first: int			# first row in the array
    nr: int			# number of rows
    before: int			# rows of the halos
    after: int

    def __init__(self, c: Any, rows: Rows):
        device = lib.rnl_worker().device
        start = ffi.cast("char *", getattr(c, "in")) - c.before * rows.row_bytes
        # Includes the halos: self.input[self.before:] begins with row `first`.
        input = memory.array_on(rows.pool, device, ffi.cast("void *", start),
                                (c.before + c.nr + c.after, *rows.shape), rows.dtype)
        # Rows `first` to `first + nr - 1` of the output; None if the map has no output.
        out = memory.array_on(rows.pool, device, c.out, (c.nr, *rows.out_shape),
                              rows.out_dtype) if rows.out_row_bytes else None
        self._set(index=c.index, first=c.first, nr=c.nr, before=c.before, after=c.after,
                  input=input, out=out)


@called_by_c(-errno.EIO)
def py_chunk(c: Any) -> int:
    rows = ffi.from_handle(c.arg)
    if rows.job._error is not None:
        return -errno.ECANCELED
    args = rows.fn, Chunk(c, rows)
    if rows.pool.on_host:		# launched, so it runs after the copy of the chunk
        return work.launch_on_host(rows.job, call_writer, args, lambda code: None)
    return call(rows.job, call_writer, *args)


def start(pool: "Pool", fn: Callable[[Chunk], Any], array: Any, out: Any, chunk: Optional[int],
          halo: Tuple[int, int], copies_first: bool) -> Job[Any]:
    if not callable(fn):
        raise TypeError(f"Pool.map_array(): fn is {fn!r}; it must be a function")
    if chunk is not None and (not isinstance(chunk, (int, np.integer)) or not 0 < chunk < 2**63):
        raise ValueError(f"Pool.map_array(): chunk is {chunk!r}; it must be a number of rows, or None")
    if not isinstance(halo, tuple) or len(halo) != 2 or \
            not all(isinstance(rows, int) and rows >= 0 for rows in halo):
        raise ValueError(f"Pool.map_array(): halo is {halo!r}; it must be two numbers of rows")
    barrier = pool.barrier()
    rows = Rows(pool, fn, array, out)
    job = rows.job
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
    with pool._use("Pool.map_array()") as c_pool:
        job._prepare()
        job._value = out
        job._keep(barrier, rows, handle, areas)
        ret = lib.py_map_start(c_pool, c, barrier._c)
        if not ret:
            ret = lib.rnl_barrier_notify(barrier._c, job._c)
            if ret:		# without notify() wait here: the map uses the arrays until its end
                wait(lambda ns: int(lib.rnl_barrier_wait(barrier._c, ns)), None, "Pool.map_array()")
    if ret:
        _live.discard(job)
        raise refusal(ret, "Pool.map_array()")
    return job
