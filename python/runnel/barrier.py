# SPDX-License-Identifier: MIT
"""Barriers, which join jobs, and orders."""
from __future__ import annotations

import collections
import errno
from typing import TYPE_CHECKING, Any, Deque, Generator, Optional

from .c import ffi, lib
from .errors import Error, Expired, check, error_of, failed_by, on_worker
from .job import Job, code_of, wait_elsewhere
from .loop import refuse_in_loop

if TYPE_CHECKING:
    from .pool import Pool

# Dropped barriers that a worker still uses: it updates a job's barrier after Job._done().
_dropped: Deque[Any] = collections.deque()


def _sweep() -> None:
    """Frees dropped barriers. Each new barrier checks two of them, so their number stays small."""
    for _ in range(2):
        try:
            c = _dropped.popleft()
        except IndexError:
            return
        if lib.rnl_barrier_wait(c, 0):
            _dropped.append(c)


class Barrier:
    """Counts jobs of one pool from their submit (barrier=) until they are done. Other jobs can come
    after the barrier (after=), threads can wait() for it, and coroutines can await it."""

    __slots__ = ("_c", "_pool", "_error", "__weakref__")

    def __init__(self, pool: "Pool"):
        _sweep()
        self._pool = pool
        self._error: Optional[BaseException] = None	# the first exception of a counted job
        self._c = ffi.new("struct rnl_barrier *")
        with pool._use("Barrier()") as c:
            check(lib.rnl_barrier_init(self._c, c), "Barrier()")

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all counted jobs are done. Raises Error if a job failed, with the exception
        of the job's function as __cause__, and TimeoutError after `timeout` seconds. After a
        failure use a new barrier: jobs after this one would be cancelled."""
        self._pool._inside.append(None)
        try:
            if timeout != 0 and lib.rnl_barrier_wait(self._c, 0) == -errno.ETIMEDOUT:
                refuse_in_loop("Barrier.wait()", "await the barrier")
            ret = wait_elsewhere(self._pool, lambda ns: int(lib.rnl_barrier_wait(self._c, ns)),
                                 timeout, "Barrier.wait()")
        finally:
            self._pool._leave()
        if ret == -errno.ETIMEDOUT:
            raise Expired(f"jobs of the barrier are not done after {timeout} s")
        if ret == -errno.EBUSY:
            raise on_worker("Barrier.wait()", ". Submit a job after the barrier")
        check(ret, "Barrier.wait()")
        ret = self._c.result
        if ret < 0:
            if self._error is not None and code_of(self._error) == ret:
                raise failed_by(ret, self._error)
            raise error_of(ret, "a job of the barrier")

    def __await__(self) -> Generator[Any, None, None]:
        return self.notify().__await__()

    def notify(self) -> "Job[None]":
        """Returns a job that is done when the jobs that the barrier counts now are done; no worker
        runs it. If a counted job failed, it fails like the first of these: see wait()."""
        job: Job[None] = Job(self._pool, None)
        try:
            job._prepare()
            job._after = (self,)
            with self._pool._use("Barrier.notify()"):
                ret = lib.rnl_barrier_notify(self._c, job._c)
            check(ret, "Barrier.notify()")
        except BaseException:
            job._interrupted()
            raise
        return job

    def join(self) -> None:
        """In a job: makes the job's stream wait, on the device, for all counted jobs. No thread
        waits; the counted jobs must be issued."""
        if lib.rnl_worker().index < 0:
            raise RuntimeError("Barrier.join() is for jobs; other threads wait()")
        ret = lib.rnl_barrier_join(self._c)
        if ret == -errno.EBUSY:
            raise Error(errno.EBUSY, "Barrier.join(): jobs of the barrier are not issued, and a "
                        "worker does not wait. Submit a job after the barrier")
        check(ret, "Barrier.join()")

    # At the interpreter's end the module's globals may be None: the defaults keep what this needs.
    def __del__(self, lib: Any = lib, dropped: Deque[Any] = _dropped) -> None:
        # In a forked child the barrier is kept, because the parent's jobs remain.
        if getattr(self, "_c", None) and lib.rnl_barrier_wait(self._c, 0) != 0:
            dropped.append(self._c)


class Order:
    """Jobs of one key that start in the order of their submits, even if they come after different
    barriers. Made by Pool.order(); submits name it (order=)."""

    __slots__ = ("_c", "_pool", "__weakref__")

    def __init__(self, pool: "Pool", key: int):
        self._pool = pool
        c = ffi.new("struct rnl_order *")
        with pool._use("Pool.order()") as c_pool:
            check(lib.rnl_order_init(c, c_pool, key), "Pool.order()")
        self._c = c

    def __del__(self, lib: Any = lib) -> None:
        # The jobs keep the order, so all of them are done: this does not wait for them.
        if getattr(self, "_c", None):
            lib.rnl_order_fini(self._c)
