# SPDX-License-Identifier: MIT
"""Batchers: many small requests that run together."""
from __future__ import annotations

import ctypes
import errno
import itertools
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from . import memory, work
from .c import called_by_c, ffi, lib
from .errors import Expired, check, error_of, on_worker, refusal, wait
from .job import DONE, Job, _live, call, is_thread_of
from .job_class import JobClass
from .loop import refuse_in_loop, running_loop
from .map import Part, call_writer

if TYPE_CHECKING:
    from .pool import Pool

# The attributes of struct rnl_batcher_attr that Pool.batcher() accepts as numbers.
_NUMBERS = {"max_batch", "max_in_flight", "slab_bytes", "nr_slabs", "max_slabs", "devices",
            "nr_mailboxes"}


class Batch(Part):
    """Requests that run together: rows of arrays on the device. It is valid during the function's
    call and the work that the function issues. `out` is None if the batcher has no `out_shape`."""

    __slots__ = ("nr",)

    nr: int			# requests

    def __init__(self, c: Any, batcher: "Batcher"):
        device = lib.rnl_worker().device
        self._set(nr=c.nr, out=None, input=memory.array_on(
            batcher._pool, device, ffi.cast("void *", getattr(c, "in")), (c.nr, *batcher._shape),
            batcher._dtype))
        if batcher._out_bytes:
            self._set(out=memory.array_on(batcher._pool, device, c.out,
                                          (c.nr, *batcher._out_shape), batcher._out_dtype))


class _Running:
    """A batch whose function was called: what it keeps, and its exception. Stands for a job."""

    _c = ffi.NULL

    def __init__(self, pool: "Pool", nr: int):
        self._pool, self.left = pool, nr
        self._error: Optional[BaseException] = None
        self._kept: List[Any] = []

    def _keep(self, *objects: Any) -> None:
        self._kept.extend(objects)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error


class _Request(Job[Any]):
    """A request as a job; its value is a copy of the output."""

    def __init__(self, batcher: "Batcher"):
        super().__init__(batcher._pool, None)
        self._batcher = batcher
        self._request = ffi.new("struct rnl_request *")
        self._c = ffi.addressof(self._request, "job")

    def _done(self, code: int) -> None:
        batch = self._batcher._batch_of(code)
        if batch is not None and batch._error is not None:
            self._fail(batch._error)
        elif code >= 0:
            self._value = self._batcher._output(self._request.out)
        lib.rnl_request_release(self._request)
        super()._done(code)

    def _await(self, timeout: Optional[float], what: str) -> bool:
        """Waits for _done(), which has the output."""
        with self._condition:
            longest = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            return bool(self._condition.wait_for(lambda: self._state in DONE, longest))

    def cancel(self) -> bool:
        """Returns false: a committed request runs."""
        return False


class Batcher:
    """Runs many small requests together; made by Pool.batcher()."""

    def __init__(self, pool: "Pool", fn: Optional[Callable[[Batch], Any]], rows: Tuple[Any, Any],
                 outs: Tuple[Any, Any], kernel: Any, flags: int, cls: Optional[JobClass],
                 numbers: Dict[str, int]):
        what = "Pool.batcher()"
        unknown = sorted(set(numbers) - _NUMBERS)
        if unknown:
            raise TypeError(f"{what}: there is no attribute {unknown[0]!r}; there are "
                            f"{', '.join(sorted(_NUMBERS))}")
        if (fn is None) == (kernel is None) or not (fn is None or callable(fn)):
            raise TypeError(f"{what}: fn is {fn!r} and kernel is {kernel!r}; one of them must be a "
                            "function, or the address of a kernel")
        if cls is not None and not isinstance(cls, JobClass):
            raise TypeError(f"{what}: cls is {cls!r}; it must be a runnel.JobClass")
        self._pool, self._fn = pool, fn
        self._shape, self._dtype, self._bytes = memory._shape(*rows, what)
        self._out_shape: Tuple[int, ...] = ()
        self._out_dtype, self._out_bytes = np.dtype("u1"), 0
        if outs[0] is not None:
            self._out_shape, self._out_dtype, self._out_bytes = memory._shape(*outs, what)
        self._batches: Dict[int, _Running] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._handle = ffi.new_handle(self)
        attr = ffi.new("struct rnl_batcher_attr *")
        attr.size, attr.flags = ffi.sizeof(attr[0]), flags
        attr.in_bytes, attr.out_bytes = self._bytes, self._out_bytes
        if fn is not None:
            # Other libraries get arrays in device memory, not in page-locked memory of the host.
            copies = 0 if pool.on_host else lib.RNL_BATCHER_ALWAYS_COPY
            attr.flags |= lib.RNL_BATCHER_STATUS | copies
            attr.fn, attr.arg = ffi.addressof(lib, "py_run_batch"), self._handle
        else:
            attr.kernel = ffi.cast("struct rnl_request_kernel *", _address(kernel))
        if cls is not None:
            attr.cls = cls._c
        for key, value in numbers.items():
            try:
                setattr(attr, key, value)
            except (TypeError, OverflowError) as error:
                raise type(error)(f"{what}: {key} is {value!r}: {error}") from None
        batcherp = ffi.new("struct rnl_batcher **")
        with pool._use(what) as c:
            check(lib.rnl_batcher_create(batcherp, c, attr), what)
        self._c = batcherp[0]
        pool._batchers[self._c] = self

    # ---- on a worker ----

    def _run(self, c: Any) -> int:
        """Calls the function for a batch. Each request's status is the batch's number: by it the
        request finds the batch's exception, and the last one ends what the batch keeps."""
        number, running = next(self._numbers) % 2**31, _Running(self._pool, c.nr)
        self._batches[number] = running
        args = self._fn, Batch(c, self)
        if self._pool.on_host:		# launched, so it runs after the copies
            ret = work.launch_on_host(running, call_writer, args, lambda code: None)
        else:
            call(running, call_writer, *args)
            ret = 0
        numbers = np.full(c.nr, number, "i4")
        ret = ret or lib.rnl_copy(c.status, ffi.from_buffer(numbers), numbers.nbytes)
        if ret:
            del self._batches[number]
        return int(ret)

    def _batch_of(self, status: int) -> Optional[_Running]:
        running = self._batches.get(status)
        if running is not None:
            with self._lock:
                running.left -= 1
                if not running.left:
                    del self._batches[status]
        return running

    def _output(self, out: Any) -> Any:
        """Returns a copy of a request's output, or None."""
        if not self._out_bytes:
            return None
        copy = np.empty(self._out_shape, self._out_dtype)
        ffi.memmove(ffi.from_buffer(copy), out, self._out_bytes)
        return copy

    # ---- for the program ----

    def submit(self, row: Any, timeout: Optional[float] = None) -> "Job[Any]":
        """Commits a request; returns its job, whose value is the answer, a numpy array. Waits at most
        `timeout` seconds for space, then raises Full; 0: no wait, as always in a coroutine and on a
        worker."""
        job = _Request(self)
        try:
            is_short = running_loop() is not None or is_thread_of(self._pool)
            self._commit(job._request, row, id(job), 0 if is_short else timeout)
        except BaseException:
            if lib.rnl_request_release(job._request) != -errno.EBUSY:	# else it is under way
                _live.discard(job)
            raise
        return job

    def __call__(self, row: Any, timeout: Optional[float] = None) -> Any:
        """Returns the answer to a request, and waits for it. Faster than submit(row).result(),
        above all with a resident kernel. In a coroutine `await batcher.submit(row)`."""
        refuse_in_loop("A batcher's call", "await batcher.submit(row)")
        if is_thread_of(self._pool):
            raise on_worker("Batcher()")
        request = ffi.new("struct rnl_request *")
        try:
            self._commit(request, row, 0, timeout)
            job = ffi.addressof(request, "job")
            ret = wait(lambda ns: int(lib.rnl_job_wait(job, ns)), timeout, "Batcher()")
            if ret == -errno.ETIMEDOUT:
                raise Expired(f"the request is not done after {timeout} s")
            code = check(ret, "Batcher()") or request.job.result
            batch = self._batch_of(code)
            if batch is not None and batch._error is not None:
                raise batch._error
            if code < 0:
                raise error_of(code, "the request")
            return self._output(request.out)
        finally:
            if lib.rnl_request_release(request) == -errno.EBUSY:
                self._pool._abandoned.append(request)	# its memory is in use until it is done

    def _commit(self, request: Any, row: Any, user: int, timeout: Optional[float]) -> None:
        what = "Batcher.submit()"
        array = np.ascontiguousarray(row, self._dtype)
        if array.shape != self._shape:
            raise ValueError(f"{what}: row has the shape {array.shape}; it must be {self._shape}")
        pool = self._pool
        pool._enter(what)
        try:
            ret = lib.py_request(self._c, request, user, ffi.from_buffer(array), array.nbytes, 0)
            if ret == -errno.EAGAIN and timeout != 0:
                ret = wait(lambda ns: int(lib.py_request(self._c, request, user,
                           ffi.from_buffer(array), array.nbytes, ns)), timeout, what)
                ret = -errno.EAGAIN if ret == -errno.ETIMEDOUT else ret
            if ret:
                raise refusal(ret, what)
        finally:
            pool._leave()

    def stats(self) -> Dict[str, Any]:
        """Returns struct rnl_batcher_stats."""
        stats = ffi.new("struct rnl_batcher_stats *")
        stats.size = ffi.sizeof(stats[0])
        with self._pool._use("Batcher.stats()"):
            if self._c not in self._pool._batchers:
                raise refusal(-errno.ESHUTDOWN, "Batcher.stats()")
            check(lib.rnl_batcher_read_stats(self._c, stats), "Batcher.stats()")
        return {name: getattr(stats, name) for name, _ in ffi.typeof(stats[0]).fields
                if name not in ("size", "reserved")}


def _address(kernel: Any) -> int:
    """Returns the address of a kernel: a number, a pointer of cffi, or a c_void_p of ctypes."""
    if isinstance(kernel, ffi.CData):
        kernel = int(ffi.cast("uintptr_t", kernel))
    kernel = kernel.value if isinstance(kernel, ctypes.c_void_p) else kernel
    if not isinstance(kernel, int) or kernel <= 0:
        raise TypeError(f"Pool.batcher(): kernel is {kernel!r}; it must be the address of a struct "
                        "rnl_request_kernel")
    return kernel


@called_by_c(-errno.EIO)
def py_batch(c: Any) -> int:
    return int(ffi.from_handle(c.arg)._run(c))
