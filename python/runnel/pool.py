# SPDX-License-Identifier: MIT
"""Pools: workers, each with its own stream.

The C pool is destroyed when its jobs are done, no thread is in a call on the pool, and all memory
was put back. So an array of a closed pool is valid as long as it is used."""
from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import itertools
import operator
import threading
import time
import weakref
from typing import (Any, Callable, Dict, Hashable, Iterable, Iterator, List, Optional, Sequence,
                    Tuple, Union)

from _runnel import ffi, lib

from . import forks, map as maps, memory
from .barrier import Barrier
from .errors import Closed, check, check_start, log, nanoseconds, on_worker, refusal, wait
from .job import Job, is_stream_of, wait_elsewhere
from .job_class import JobClass
from .queue import Queue, chosen, loop_queue, sweep

SPACE, EMPTY = lib.RNL_SPACE, lib.RNL_EMPTY	# Pool.submit(when=)
MASK = 2**64 - 1
WHERE = ("function", "device", "hold")
HEALTH = ("ok", "overloaded", "stuck", "failed")

EXIT_TURN = 0.01	# seconds that the interpreter's exit waits for a pool in one turn

YEAR = 365 * 24 * 3600		# seconds; the limit for a job's start time

_pools: set = set()		# the pools that are not closed; the interpreter's exit closes them
_numbers = itertools.count(1)	# numbers of the pools, used as their log_arg


def worker_key(i: int) -> int:
    """Returns a key that selects worker i, modulo the number of workers."""
    i = operator.index(i)
    if not 0 <= i < lib.RNL_WORKERS_MAX:
        raise ValueError(f"worker_key(): i is {i!r}; it must be 0 to {lib.RNL_WORKERS_MAX - 1}")
    return MASK - i


def _as_dict(struct: Any) -> Dict[str, Any]:
    """Converts a struct of figures to a dict: numbers, text, and structs of numbers."""
    out = {}
    for name, field in ffi.typeof(struct).fields:
        value = getattr(struct, name)
        if field.type.kind == "struct":
            value = _as_dict(value)
        elif field.type.kind == "array":
            value = ffi.string(value).decode()
        if name not in ("size", "reserved") and field.type.kind != "pointer":
            out[name] = value
    return out


def describe(device: str = "auto") -> Dict[str, Any]:
    """Describes a device: "cuda:1", "host". `cuda` is 1 for a GPU, 0 for the host device."""
    info = ffi.new("struct rnl_device_info *")
    info.size = ffi.sizeof(info[0])
    check(lib.rnl_device_describe(ffi.NULL, _bytes(device, "describe(): device"), 0, info),
          f"describe({device!r})")
    return _as_dict(info[0])


def setup() -> bool:
    """Gives CUDA's streams more hardware queues (CUDA_DEVICE_MAX_CONNECTIONS=32). Call it first,
    before any use of CUDA. Returns false, and changes nothing, if other threads run already."""
    ret = lib.rnl_setup()
    if ret != -errno.EBUSY:
        check(ret, "setup()")
    return ret == 0


def _bytes(text: Any, what: str) -> bytes:
    if not isinstance(text, str) or "\0" in text:
        raise TypeError(f"{what} is {text!r}; it must be a string")
    return text.encode()


# The number attributes of struct rnl_pool_attr that Pool() accepts.
_NUMBERS = {name for name, field in ffi.typeof("struct rnl_pool_attr").fields
            if field.type.kind == "primitive"} - {"size", "stream", "guard", "nr_cpus"}


class Pool:
    """Workers that run Python functions, each on its own GPU stream, or on the host.

    nr_workers: 0 means the number of CPUs, but at most 8 for each device.
    device: "cuda", "cuda:1", "cuda:all", "host"; "auto" is a GPU if one answers, else the host.
    name: the prefix of the threads' names. cpus: worker i runs on CPU cpus[i % len(cpus)].
    attributes: numbers of struct rnl_pool_attr: nr_class_workers, max_queued, max_in_flight, ...

    The streams are private: README.md has the reason. The end of `with`, or `async with`, closes
    the pool and waits for its jobs. The close cancels jobs that wait for their time or for space,
    and after an exception all jobs that have not started."""

    def __init__(self, nr_workers: int = 0, device: str = "auto", *, name: str = "runnel",
                 cpus: Optional[Sequence[int]] = None, **attributes: int):
        unknown = sorted(set(attributes) - _NUMBERS)
        if "stream" in unknown:
            raise TypeError("Pool(): its streams are private. A per-thread stream has one handle "
                            "for all workers, and allocators mix up what has one handle")
        if unknown:
            raise TypeError(f"Pool(): there is no attribute {unknown[0]!r}; there are "
                            f"{', '.join(sorted(_NUMBERS))}")
        attr = ffi.new("struct rnl_pool_attr *")
        attr.size = ffi.sizeof(attr[0])
        attr.stream = lib.RNL_STREAM_PRIVATE
        keep = [ffi.new("char[]", _bytes(device, "Pool(): device")),
                ffi.new("char[]", _bytes(name, "Pool(): name"))]
        attr.device, attr.name = keep
        for key, value in {"nr_workers": nr_workers, **attributes}.items():
            try:
                setattr(attr, key, value)
            except (TypeError, OverflowError) as error:
                raise type(error)(f"Pool(): {key} is {value!r}: {error}") from None
        if cpus is not None:
            try:
                keep.append(ffi.new("uint16_t[]", list(cpus)))
            except (TypeError, OverflowError) as error:
                raise type(error)(f"Pool(): cpus is {cpus!r}: {error}") from None
            attr.cpus, attr.nr_cpus = keep[-1], len(cpus)
        poolp = ffi.new("struct rnl_pool **")
        attr.log, attr.log_arg = lib.py_log, ffi.cast("void *", next(_numbers))
        check_start(lambda: lib.rnl_pool_create(poolp, attr), attr.log_arg, "Pool()")
        self._log_arg = attr.log_arg
        self._owned = [poolp[0]]	# the thread that pops the pool destroys it
        self._c = poolp[0]
        self._born = forks.number()
        self._closed = False		# true once all jobs are done: further calls are refused
        self._closing = threading.RLock()
        # One entry for each call in the library, and for each piece of memory that is lent out.
        # Lists, because append and pop are atomic, but += of a number is not.
        self._inside: List[None] = []
        self._lent: List[None] = []
        self._holds: weakref.WeakSet = weakref.WeakSet()
        with self._use("Pool()") as c:
            first = self._describe(c, 0)
            self.devices = [first, *(self._describe(c, i) for i in range(1, first["nr_devices"]))]
        self.on_host = not self.devices[0]["cuda"]
        _pools.add(self)

    @staticmethod
    def _describe(c: Any, device: int) -> Dict[str, Any]:
        info = ffi.new("struct rnl_device_info *")
        info.size = ffi.sizeof(info[0])
        check(lib.rnl_device_describe(c, ffi.NULL, device, info), "Pool()")
        return _as_dict(info[0])

    # ---- calls on the pool, and its end ----

    def _is_mine(self) -> bool:
        return self._born == forks.number()

    @contextlib.contextmanager
    def _use(self, what: str) -> Iterator[Any]:
        """A context for calls on the C pool, which is not destroyed meanwhile."""
        self._enter(what)
        try:
            yield self._c
        finally:
            self._leave()

    def _enter(self, what: str) -> None:
        self._inside.append(None)
        if self._closed or not self._is_mine():
            self._leave()
            raise refusal(-errno.ESHUTDOWN if self._is_mine() else -errno.EOWNERDEAD, what)

    def _leave(self) -> None:
        self._inside.pop()
        if self._closed:
            self._end()

    def _end(self) -> None:
        """Destroys the closed C pool if it is not in use any more; the last user does this."""
        if self._closed and not self._lent and not self._inside and self._is_mine():
            try:
                c = self._owned.pop()
            except IndexError:
                return
            lib.rnl_pool_destroy(c)

    def close(self, timeout: Optional[float] = None, cancel: bool = False) -> None:
        """Refuses further jobs, and waits until all are done. cancel: jobs that have not started
        are cancelled. Raises TimeoutError after `timeout` seconds: the pool is closed, its jobs
        go on, and close() may be called again. Not on a worker of the pool."""
        if not self._is_mine() or self._closed:
            return
        left = nanoseconds(timeout, "Pool.close(): timeout")
        end = time.monotonic() + left / 1e9
        self._inside.append(None)	# a signal handler may close the pool meanwhile
        try:
            if not self._closing.acquire(timeout=min(left / 1e9, threading.TIMEOUT_MAX)
                                         if left >= 0 else -1):
                raise TimeoutError(f"Pool.close(): another thread has been at it for {timeout} s")
            if not self._closed:
                self._close(None if left < 0 else max(end - time.monotonic(), 0), cancel)
        finally:
            if self._closing._is_owned():	# Ctrl-C may have interrupted right after acquire()
                self._closing.release()
            self._leave()

    def _end_holds(self, error: BaseException) -> None:
        try:
            holds = list(self._holds)
        except RuntimeError:	# a worker has added a hold meanwhile: retried in the next turn
            return
        for hold in holds:
            if not hold._released:
                hold._release(error)

    def _close(self, timeout: Optional[float], cancel: bool) -> None:
        c = self._c
        if is_stream_of(self) or lib.rnl_pool_drain(c, 0) == -errno.EBUSY:
            raise on_worker("Pool.close()")
        check(lib.rnl_pool_close(c), "Pool.close()")
        call = lib.rnl_pool_stop if cancel else lib.rnl_pool_drain
        ret = wait(lambda ns: call(c, ns), timeout, "Pool.close()")
        if ret == -errno.ETIMEDOUT:
            raise TimeoutError(f"Pool.close(): {len(self.unfinished())} jobs have not ended in time")
        check(ret, "Pool.close()")
        self._closed = True
        _pools.discard(self)
        sweep()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: Any, _value: Any, _tb: Any) -> None:
        self.close(cancel=kind is not None)

    async def __aenter__(self) -> "Pool":
        return self

    async def __aexit__(self, kind: Any, _value: Any, _tb: Any) -> None:
        import asyncio
        close = functools.partial(self.close, cancel=kind is not None)
        await asyncio.get_running_loop().run_in_executor(None, close)	# the loop goes on

    # ---- jobs ----

    def job_class(self, name: str, **attributes: int) -> JobClass:
        """Makes a class of jobs. attributes: numbers of struct rnl_class_attr: priority, weight,
        max_queued, max_jobs, deadline_ns, nr_workers, ... Not on a worker with nr_workers."""
        return JobClass(self, name, attributes)

    def submit(self, fn: Callable, *args: Any, key: Optional[Hashable] = None,
               cls: Optional[JobClass] = None,
               device: Optional[int] = None, barrier: Optional[Barrier] = None,
               after: Union[None, Barrier, Iterable[Barrier]] = None,
               deadline: Optional[float] = None, at: Optional[float] = None, when: Optional[int] = None,
               queue: Optional[Queue] = None, timeout: Optional[float] = None) -> Job:
        """Submits fn(*args) to the workers, and returns the job. In a coroutine, `await job`.

        key: one worker runs all jobs with this key, in the order of their submits.
        cls: its class, of Pool.job_class(): a share, a priority, limits, workers of its own.
        device: number of the device in the pool. barrier: counts the job. after: a barrier, or
        several, whose jobs come first.
        deadline: seconds; a job that has not started by then, or is still held then, raises Late.
        at: start time, of time.monotonic(), within a year.
        when: for a notice: SPACE or EMPTY.
        queue: the completion queue that the job goes to when it is done.
        timeout: seconds to wait for space in a full pool before Full is raised; 0: no wait. Always
        0 on a worker, and in a coroutine without `queue`: a wait there would block all others."""
        if not callable(fn):
            raise TypeError(f"Pool.submit(): fn is {fn!r}; it must be a function")
        loop = None
        if queue is None:
            queue = loop = loop_queue()
        else:
            queue = chosen(queue, "Pool.submit()")
        if timeout is not None:
            nanoseconds(timeout, "Pool.submit(): timeout")
        self._enter("Pool.submit()")
        try:
            job = Job(self, fn, args, queue)
            try:
                more = (cls, device, barrier, after, deadline, at, when)
                plain = all(value is None for value in more)
                if not plain:
                    self._set(job, cls, device, barrier, after, deadline)
                ret = self._submit(job, plain, key, at, when,
                                   0 if loop or is_stream_of(self) else timeout)
            except BaseException:
                job._interrupted()
                raise
            if ret:
                job._end()
                raise refusal(ret, "Pool.submit()")
            return job
        finally:
            self._leave()

    def _set(self, job: Job, cls: Optional[JobClass], device: Optional[int],
             barrier: Optional[Barrier], after: Union[None, Barrier, Iterable[Barrier]], deadline: Optional[float]) -> None:
        c = job._c
        job._prepare()
        befores = list(after) if isinstance(after, (list, tuple)) else [] if after is None else [after]
        for name, given in (("barrier", barrier), *(("after", before) for before in befores)):
            if not isinstance(given, Barrier) and not (given is None and name == "barrier"):
                raise TypeError(f"Pool.submit(): {name} is {given!r}; it must be a runnel.Barrier")
        job._barrier, job._after = barrier, befores
        if cls is not None and (not isinstance(cls, JobClass) or cls._c is None):
            raise TypeError(f"Pool.submit(): cls is {cls!r}; it must be a class of Pool.job_class() that is "
                            "not closed")
        ret = lib.rnl_job_set_class(c, cls._c) if cls is not None else 0
        if not ret and device is not None:
            if not isinstance(device, int) or not 0 <= device < len(self.devices):
                raise ValueError(f"Pool.submit(): device is {device!r}; the pool has 0 to "
                                 f"{len(self.devices) - 1}")
            ret = lib.rnl_job_set_device(c, device)
        if not ret and barrier is not None:
            ret = lib.rnl_barrier_add(barrier._c, c)
        if not ret and len(befores) == 1:
            ret = lib.rnl_job_set_after(c, befores[0]._c)
        elif befores:
            more = job._more()
            job._kept.append(array := ffi.new("struct rnl_after[]", len(befores)))
            for i, before in enumerate(befores):
                array[i].barrier = before._c
            more.after, more.nr_after = array, len(befores)
        if not ret and deadline is not None:
            ret = lib.rnl_job_set_deadline(c, nanoseconds(deadline, "Pool.submit(): deadline"))
        check(ret, "Pool.submit()")

    def _submit(self, job: Job, plain: bool, key: Optional[Hashable], at: Optional[float],
                when: Optional[int], timeout: Optional[float]) -> int:
        """plain: the library's job is not initialised yet, because _set() was not called."""
        pool, c = self._c, job._c
        if key is not None:
            key = (key if isinstance(key, int) else hash(key)) & MASK
        if when is not None:
            if at is not None or key is not None or when not in (SPACE, EMPTY):
                raise ValueError("Pool.submit(): when is SPACE or EMPTY, and goes "
                                 "with neither key nor at")
            job._more().when = when
            return lib.rnl_submit(pool, c)
        if at is not None:
            now, seconds = time.monotonic(), at
            at = nanoseconds(seconds, "Pool.submit(): at")
            if seconds > now + YEAR:
                raise ValueError(f"Pool.submit(): at is {seconds!r}, more than a year from now; it "
                                 f"must be a time of time.monotonic(), which is {now:.1f} now")
            ret = 0 if key is None else lib.rnl_job_set_key(c, key)
            job._more().start_ns = at
            return ret or lib.rnl_submit(pool, c)
        ret = job._submit(pool, key, not plain)
        if ret != -errno.EAGAIN or timeout == 0:
            return ret
        ret = wait(lambda ns: lib.rnl_submit_wait(pool, c, ns), timeout, "Pool.submit()")
        return -errno.EAGAIN if ret == -errno.ETIMEDOUT else ret

    def barrier(self) -> Barrier:
        """Returns a new barrier for jobs of this pool."""
        return Barrier(self)

    def map(self, fn: Callable[["maps.Chunk"], Any], array: Any, out: Any = None, *,
            chunk: Optional[int] = None, halo: Tuple[int, int] = (0, 0), copies_first: bool = False,
            queue: Optional[Queue] = None) -> Job:
        """Streams an array through the workers: copies in, fn(chunk) and copies out overlap.

        The elements are the rows along the first axis. fn reads chunk.input and writes chunk.out,
        which are on the device; on the host they are numpy arrays. out: an array with as many rows,
        or `array` itself; None for no output. chunk: rows of a chunk; None: the library
        chooses. halo: rows of the neighbours at the begin and at the end of a chunk's input.
        The returned job is done when the map has ended; its value is `out`."""
        return maps.start(self, fn, array, out, chunk, halo, copies_first,
                          chosen(queue, "Pool.map()"))

    def cancel(self) -> int:
        """Cancels all jobs that have not started. Returns their number."""
        with self._use("Pool.cancel()") as c:
            return check(lib.rnl_pool_cancel(c), "Pool.cancel()")

    def drain(self, timeout: Optional[float] = None) -> None:
        """Waits until all accepted jobs are done, except jobs that wait for their time (at=) or for
        space (when=). Raises TimeoutError after `timeout` seconds."""
        with self._use("Pool.drain()") as c:
            ret = wait_elsewhere(self, lambda ns: lib.rnl_pool_drain(c, ns), timeout,
                                 "Pool.drain()")
        if ret == -errno.ETIMEDOUT:
            raise TimeoutError(f"Pool.drain(): jobs are not done after {timeout} s")
        if ret == -errno.EBUSY:
            raise on_worker("Pool.drain()")
        check(ret, "Pool.drain()")

    def resize(self, nr_workers: int) -> None:
        """Changes the number of workers that are not a class's own. Other threads may submit meanwhile."""
        with self._use("Pool.resize()") as c:
            try:
                check_start(lambda: lib.rnl_pool_resize(c, nr_workers), self._log_arg,
                            "Pool.resize()")
            except (TypeError, OverflowError) as error:
                raise type(error)(f"Pool.resize(): nr_workers is {nr_workers!r}: {error}") from None

    # ---- memory ----

    def pinned(self, shape: Any, dtype: Any = "uint8", timeout: Optional[float] = None) -> Any:
        """Returns a numpy array in page-locked memory, not initialised, which the device accesses
        directly. When the last array that uses the memory is freed, the pool gets it back. At
        pinned_max, waits `timeout` seconds at most for returned memory, but not on a worker."""
        return memory.pinned(self, shape, dtype, timeout)

    def device_array(self, shape: Any, dtype: Any = "uint8", device: int = 0) -> Any:
        """Returns an array in memory of a device, not initialised: a DeviceArray for torch, CuPy
        and Numba, on the host a numpy array. Drop the array only when no job uses it."""
        return memory.device_array(self, shape, dtype, device)

    # ---- figures ----

    def stats(self, worker: Optional[int] = None) -> Dict[str, Any]:
        """Returns struct rnl_pool_stats, of the pool or of one worker."""
        stats = ffi.new("struct rnl_pool_stats *")
        stats.size = ffi.sizeof(stats[0])
        with self._use("Pool.stats()") as c:
            one = lib.RNL_ALL_WORKERS if worker is None else operator.index(worker)
            check(lib.rnl_pool_read_stats(c, one, stats), "Pool.stats()")
        return _as_dict(stats[0])

    def health(self) -> Dict[str, Any]:
        """Returns struct rnl_health; `state` is "ok", "overloaded", "stuck" or "failed"."""
        health = self._health("Pool.health()", ())
        figures = dict(_as_dict(health[0]), state=HEALTH[health.state])
        del figures["max_unfinished"], figures["nr_unfinished"]
        return figures

    def _health(self, what: str, unfinished: Any) -> Any:
        health = ffi.new("struct rnl_health *", {"unfinished": unfinished or ffi.NULL,
                                                 "max_unfinished": len(unfinished)})
        health.size = ffi.sizeof(health[0])
        with self._use(what) as c:
            check(lib.rnl_pool_health(c, health), what)
        return health

    def metrics(self) -> str:
        """Returns all figures as text for Prometheus."""
        with self._use("Pool.metrics()") as c:
            size = 1 << 16
            while True:
                text = ffi.new("char[]", size)
                need = check(lib.rnl_pool_stats_text(c, ffi.NULL, text, size), "Pool.metrics()")
                if need < size:
                    return ffi.string(text).decode()
                size = need + 4096

    def unfinished(self) -> List[Dict[str, Any]]:
        """Returns the jobs that have started and are not done: each job's worker, its place (in the
        "function", on the "device" or kept by a "hold"), and the seconds spent there."""
        jobs = ffi.new("struct rnl_unfinished[]", 1024)
        health = self._health("Pool.unfinished()", jobs)
        return [{"worker": j.worker, "seconds": j.for_ns / 1e9, "where": WHERE[j.where]}
                for j in jobs[0:min(health.nr_unfinished, len(jobs))]]

    @contextlib.contextmanager
    def trace(self, path: str) -> Iterator[None]:
        """Traces the body of `with` to a file for https://ui.perfetto.dev and `runnel report`."""
        name = _bytes(path, "Pool.trace(): path")
        with self._use("Pool.trace()") as c:
            check(lib.rnl_trace_start(c, name, ffi.NULL), f"Pool.trace({path!r})")
        try:
            yield
        finally:
            if not self._closed:	# the end of the pool has ended the trace
                with self._use("Pool.trace()") as c:
                    check(lib.rnl_trace_stop(c), f"Pool.trace({path!r})")

    def __repr__(self) -> str:
        return f"<runnel.Pool on {self.devices[0]['name']}{', closed' if self._closed else ''}>"


def _at_exit() -> None:
    """Closes all pools before the interpreter ends: after that, no worker's call of Python returns.

    A job of one pool may wait for a job of another pool, and a function may still take a hold. So
    all pools are closed in turns, until no pool is left."""
    given_up: set = set()
    try:
        while True:
            pools = [pool for pool in list(_pools) if pool._is_mine() and pool not in given_up]
            if not pools:
                return
            for pool in pools:
                try:
                    pool._end_holds(Closed(errno.ESHUTDOWN, "the interpreter has ended"))
                    pool.close(EXIT_TURN, cancel=True)
                except TimeoutError:
                    continue
                except (Exception, SystemExit):	# raised by a callback
                    log.exception("the end of %r", pool)
                    given_up.add(pool)
    except KeyboardInterrupt:	# ends the wait for running functions
        return


atexit.register(_at_exit)
