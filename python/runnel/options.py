# SPDX-License-Identifier: MIT
"""What submits functions: an executor's submit() and map(), rows and chains of jobs, options."""
from __future__ import annotations

import concurrent.futures
import errno
import time
from typing import (TYPE_CHECKING, Any, Callable, Hashable, Iterable, List, Optional,
                    Tuple, TypeVar, Union, cast, overload)

from . import forks
from .barrier import Barrier, Order
from .c import ffi, lib
from .errors import check, nanoseconds, refusal, wait
from .job import CO_COROUTINE, KEY_NONE, Job, _live, is_coroutine, is_thread_of, trace_id
from .job_class import JobClass
from .loop import running_loop
from .queue import Queue

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    from .pool import Pool

    P = ParamSpec("P")

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

py_submit, quick_submit = lib.py_submit, lib.quick_submit
SPACE, EMPTY = lib.RNL_SPACE, lib.RNL_EMPTY	# Pool.options(when=)
MASK = 2**64 - 1
YEAR = 365 * 24 * 3600		# seconds; the limit for a job's start time


def number_of(key: Hashable) -> int:
    """Returns the library's number for a key."""
    return (key if isinstance(key, int) else hash(key)) & MASK


def is_async(fn: Any) -> bool:
    """Returns true for a function that is defined by `async def`."""
    code = getattr(fn, "__code__", None)
    return code is not None and getattr(code, "co_flags", 0) & CO_COROUTINE != 0


def refused_function(fn: Any, what: str) -> TypeError:
    return is_coroutine(fn) if callable(fn) else \
        TypeError(f"{what}: fn is {fn!r}; it must be a function")


def worker_key(i: int) -> int:
    """Returns a key that selects worker i, modulo the number of workers."""
    if not isinstance(i, int) or not 0 <= i < lib.RNL_WORKERS_MAX:
        raise ValueError(f"worker_key(): i is {i!r}; it must be 0 to {lib.RNL_WORKERS_MAX - 1}")
    return MASK - i


class Submitter(concurrent.futures.Executor):
    """A Pool, or Pool.options(): both are executors of concurrent.futures."""

    _pool: "Pool"
    _key: int = KEY_NONE
    _is_plain = True		# no option but the key
    _timeout: Optional[float] = None

    def submit(self, fn: "Callable[P, T]", /, *args: "P.args", **kwargs: "P.kwargs") -> Job[T]:
        """Submits fn(*args, **kwargs) to the workers, and returns the job. In a coroutine, `await job`.

        A full pool makes it wait, except on a thread of the pool, and in a coroutine: there it
        raises Full, because a wait would block all others."""
        pool = self._pool
        if not callable(fn) or is_async(fn):
            raise refused_function(fn, "Pool.submit()")
        inside = pool._inside
        inside.append(None)
        try:
            if pool._closed or pool._born != forks.nr:
                raise pool._refusal("Pool.submit()")
            job = Job(pool, fn, args, kwargs)
            try:
                if self._is_plain and not trace_id.get():
                    # An idle worker starts the job now, and takes the interpreter's lock. Else a
                    # release would let a busy one take it, for which this thread would then wait.
                    submit = quick_submit if len(_live) > pool._nr_workers else py_submit
                    ret = submit(pool._c, job._c, id(job), self._key)
                else:
                    self._prepare(job, self._key)
                    ret = lib.rnl_submit(pool._c, job._c)
                if ret:
                    self._wait_for_space(job, ret)
            except BaseException:
                job._interrupted()
                raise
            return job
        finally:
            inside.pop()
            if pool._closed:
                pool._end()

    def submit_many(self, fn: Callable[..., T], /, *iterables: Iterable[Any],
                    keys: Optional[Iterable[Hashable]] = None) -> List[Job[T]]:
        """Submits fn(*args) for args of zip(*iterables) by one call, and returns the jobs: the
        submits do not share the interpreter's lock with the first jobs. keys: one for each job. If
        the pool has no space for all, and the call must not wait, it cancels those it has submitted."""
        what = "Pool.submit_many()"
        calls = list(zip(*iterables))
        numbers = [self._key] * len(calls) if keys is None else [number_of(key) for key in keys]
        if len(numbers) != len(calls):
            raise ValueError(f"{what}: there are {len(numbers)} keys and {len(calls)} calls")
        if not callable(fn) or is_async(fn):
            raise refused_function(fn, what)
        pool = self._pool
        jobs: List[Job[T]] = []
        pool._enter(what)
        try:
            for args, key in zip(calls, numbers):
                jobs.append(job := Job(pool, fn, args))
                self._prepare(job, key)
            ret = lib.rnl_submit_many(pool._c, [job._c for job in jobs], len(jobs))
            for job in jobs[max(ret, 0):]:
                ret = min(ret, 0) or lib.rnl_submit(pool._c, job._c)
                if ret:
                    self._wait_for_space(job, ret)
                ret = 0
            return jobs
        except BaseException:
            for job in jobs:
                job._interrupted()
                if job in _live:
                    job.cancel()
            raise
        finally:
            pool._leave()

    @overload
    def chain(self, first: Callable[[], A], second: Callable[[A], B], /) -> Tuple[Job[A], Job[B]]: ...

    @overload
    def chain(self, first: Callable[[], A], second: Callable[[A], B], third: Callable[[B], C],
              /) -> Tuple[Job[A], Job[B], Job[C]]: ...

    @overload
    def chain(self, first: Callable[[], A], second: Callable[[A], B], third: Callable[[B], C],
              fourth: Callable[[C], D], /) -> Tuple[Job[A], Job[B], Job[C], Job[D]]: ...

    @overload
    def chain(self, *fns: Callable[..., Any]) -> Tuple[Job[Any], ...]: ...

    def chain(self, *fns: Callable[..., Any]) -> Tuple[Job[Any], ...]:
        """Submits functions as a chain: one worker runs one after the other, on one stream, and
        nothing waits in between. The first function has no arguments; each later one gets the value
        of the one before, whose device work may still go on, on the same stream. If one fails, the
        later jobs raise Cancelled."""
        if not fns:
            raise TypeError("Pool.chain(): there is no function")
        pool = self._pool
        pool._enter("Pool.chain()")
        jobs: List[Job[Any]] = []
        try:
            for fn in fns:
                if not callable(fn) or is_async(fn):
                    raise refused_function(fn, "Pool.chain()")
                jobs.append(job := Job(pool, fn))
                if len(jobs) == 1:
                    self._prepare(job, self._key)
                else:
                    self._prepare_later(job)
                    job._before = jobs[-2]
                    check(lib.rnl_job_set_then(jobs[-2]._c, job._c), "Pool.chain()")
            ret = lib.rnl_submit(pool._c, jobs[0]._c)
            if ret:
                self._wait_for_space(jobs[0], ret)
            return tuple(jobs)
        except BaseException:
            if jobs and lib.rnl_job_wait(jobs[0]._c, 0) == -errno.EINVAL:
                _live.difference_update(jobs)
            raise
        finally:
            pool._leave()

    def _prepare(self, job: Job[Any], key: int) -> None:
        """Initialises the library's job, with all options."""
        job._prepare(key)

    def _prepare_later(self, job: Job[Any], key: int = KEY_NONE) -> None:
        """Initialises a later job of a chain."""
        job._prepare(key)

    def _wait_for_space(self, job: Job[Any], ret: int) -> None:
        """Submits a job whose submit returned -EAGAIN, as soon as there is space; else raises."""
        is_short = running_loop() is not None or is_thread_of(self._pool)
        if ret == -errno.EAGAIN and self._timeout != 0 and not is_short:
            ret = wait(lambda ns: int(lib.rnl_submit_wait(self._pool._c, job._c, ns)), self._timeout,
                       "Pool.submit()")
            ret = -errno.EAGAIN if ret == -errno.ETIMEDOUT else ret
        if ret:
            _live.discard(job)
            raise refusal(ret, "Pool.submit()")


class Options(Submitter):
    """A pool's submits with options, made by Pool.options(). It may be used for any number of
    jobs, by any thread."""

    def __init__(self, pool: "Pool", key: Optional[Hashable], cls: Optional[JobClass],
                 device: Optional[int], barrier: Optional[Barrier],
                 after: Union[None, Barrier, Iterable[Barrier]], order: Optional[Order],
                 deadline: Optional[float], at: Optional[float], when: Optional[int],
                 queue: Optional[Queue], timeout: Optional[float]):
        what = "Pool.options()"
        self._pool = pool
        self._key = KEY_NONE if key is None else number_of(key)
        afters = [after] if isinstance(after, Barrier) or not isinstance(after, Iterable) else \
            list(after)
        self._after: List[Barrier] = [] if after is None else cast(List[Barrier], afters)
        for name, given, kind in (("barrier", barrier, Barrier), ("order", order, Order),
                                  ("queue", queue, Queue), ("cls", cls, JobClass),
                                  *(("after", each, Barrier) for each in self._after)):
            if not isinstance(given, kind) and (given is not None or name == "after"):
                raise TypeError(f"{what}: {name} is {given!r}; it must be a runnel.{kind.__name__}")
        if device is not None and (not isinstance(device, int) or not 0 <= device < len(pool.devices)):
            raise ValueError(f"{what}: device is {device!r}; the pool has 0 to "
                             f"{len(pool.devices) - 1}")
        if when is not None and (when not in (SPACE, EMPTY) or key is not None or at is not None):
            raise ValueError(f"{what}: when is SPACE or EMPTY, and goes with neither key nor at")
        if at is not None:
            now, seconds = time.monotonic(), at
            at = nanoseconds(seconds, f"{what}: at")
            if seconds > now + YEAR:
                raise ValueError(f"{what}: at is {seconds!r}, more than a year from now; it "
                                 f"must be a time of time.monotonic(), which is {now:.1f} now")
        if timeout is not None:
            nanoseconds(timeout, f"{what}: timeout")
        self._cls, self._device, self._barrier, self._order = cls, device, barrier, order
        self._deadline = None if deadline is None else nanoseconds(deadline, f"{what}: deadline")
        self._at, self._when, self._queue, self._timeout = at, when, queue, timeout
        self._is_plain = not self._after and all(
            value is None for value in (cls, device, barrier, order, deadline, at, when, queue))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shuts the pool down."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def _prepare(self, job: Job[Any], key: int) -> None:
        self._prepare_later(job, key)
        c, ret = job._c, 0
        if self._cls is not None:
            if self._cls._c is None:
                raise TypeError(f"Pool.submit(): {self._cls!r} is closed")
            ret = lib.rnl_job_set_class(c, self._cls._c)
        if not ret and self._device is not None:
            ret = lib.rnl_job_set_device(c, self._device)
        job._after = self._after
        if not ret and len(self._after) == 1:
            ret = lib.rnl_job_set_after(c, self._after[0]._c)
        check(ret, "Pool.submit()")
        if self._order or self._at or self._when or len(self._after) > 1:
            self._set_more(job, job._more())

    def _set_more(self, job: Job[Any], more: Any) -> None:
        more.start_ns, more.when = self._at or 0, self._when or 0
        if self._order is not None:
            job._keep(self._order)
            more.order = self._order._c
        if len(self._after) > 1:
            array = ffi.new("struct rnl_after[]", [{"barrier": each._c} for each in self._after])
            job._keep(array)
            more.after, more.nr_after = array, len(self._after)

    def _prepare_later(self, job: Job[Any], key: int = KEY_NONE) -> None:
        job._prepare(key)
        job._queue, job._barrier, ret = self._queue, self._barrier, 0
        if self._barrier is not None:
            ret = lib.rnl_barrier_add(self._barrier._c, job._c)
        if not ret and self._deadline is not None:
            ret = lib.rnl_job_set_deadline(job._c, self._deadline)
        check(ret, "Pool.submit()")
