# SPDX-License-Identifier: MIT
"""Pools: workers, each with its own stream.

The C pool is destroyed when its jobs are done, no thread is in a call on the pool, and all memory
was put back. So an array of a closed pool is valid as long as it is used."""
from __future__ import annotations

import atexit
import contextlib
import errno
import itertools
import operator
import threading
import time
import warnings
import weakref
from types import TracebackType
from typing import (Any, Callable, Dict, Hashable, Iterable, Iterator, List, Optional, Sequence,
                    Set, Tuple, Type, Union)

from . import batcher as batchers, forks, map as maps, memory
from .barrier import Barrier, Order
from .batcher import Batcher
from .c import ffi, lib
from .errors import (Closed, Error, Expired, check, check_start, log, nanoseconds, on_worker, refusal,
                     wait)
from .job import Hold, Job, is_thread_of, wait_elsewhere
from .job_class import JobClass
from .loop import in_thread, refuse_in_loop, running_loop
from .options import Options, Submitter, number_of
from .queue import Queue

STUCK_S = 10.0		# a close that waits longer warns once
WHERE = ("function", "device", "hold")
HEALTH = ("ok", "overloaded", "stuck", "failed")

EXIT_TURN = 0.01	# seconds that the interpreter's exit waits for a pool in one turn

_pools: Set["Pool"] = set()		# the pools that are not closed; the interpreter's exit closes them
_numbers = itertools.count(1)	# numbers of the pools, used as their log_arg


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
    return bool(ret == 0)


def _bytes(text: Any, what: str) -> bytes:
    if not isinstance(text, str) or "\0" in text:
        raise TypeError(f"{what} is {text!r}; it must be a string")
    return text.encode()


# The number attributes of struct rnl_pool_attr that Pool() accepts.
_NUMBERS = {name for name, field in ffi.typeof("struct rnl_pool_attr").fields
            if field.type.kind == "primitive"} - {"size", "stream", "guard", "nr_cpus"}


class Pool(Submitter):
    """Workers that run Python functions, each on its own GPU stream, or on the host. A Pool is a
    concurrent.futures.Executor, and its jobs are futures.

    nr_workers: 0 means the number of CPUs, but at most 8 for each device.
    device: "cuda", "cuda:1", "cuda:all", "host"; "auto" is a GPU if one answers, else the host.
    name: the prefix of the threads' names. cpus: worker i runs on CPU cpus[i % len(cpus)].
    attributes: numbers of struct rnl_pool_attr: nr_class_workers, max_queued, max_in_flight, ...

    The streams are private: README.md has the reason. The end of `with`, or `async with`, closes
    the pool and waits for its jobs. The close cancels jobs that wait for their time or for space,
    and after an exception all jobs that have not started."""

    devices: List[Dict[str, Any]]
    on_host: bool

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
        self._pool = self
        self._born = forks.nr
        self._closed = False		# true once all jobs are done: further calls are refused
        self._closing: Any = threading.RLock()
        # One entry for each call in the library, and for each piece of memory that is lent out.
        # Lists, because append and pop are atomic, but += of a number is not.
        self._inside: List[None] = []
        self._lent: List[None] = []
        self._holds: "weakref.WeakSet[Hold]" = weakref.WeakSet()
        self._batchers: Dict[Any, Batcher] = {}	# those that exist in the library
        self._abandoned: List[Any] = []	# requests of interrupted calls, which the library uses
        with self._use("Pool()") as c:
            first = self._describe(c, 0)
            self.devices = [first, *(self._describe(c, i) for i in range(1, first["nr_devices"]))]
        self.on_host = not self.devices[0]["cuda"]
        self._nr_workers = self.stats()["nr_workers"]
        _pools.add(self)

    @staticmethod
    def _describe(c: Any, device: int) -> Dict[str, Any]:
        info = ffi.new("struct rnl_device_info *")
        info.size = ffi.sizeof(info[0])
        check(lib.rnl_device_describe(c, ffi.NULL, device, info), "Pool()")
        return _as_dict(info[0])

    # ---- calls on the pool, and its end ----

    def _is_mine(self, forks: Any = forks) -> bool:
        return self._born == forks.nr

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
            raise self._refusal(what)

    def _refusal(self, what: str) -> Error:
        return refusal(-errno.ESHUTDOWN if self._is_mine() else -errno.EOWNERDEAD, what)

    def _leave(self) -> None:
        self._inside.pop()
        if self._closed:
            self._end()

    def _end(self, lib: Any = lib) -> None:
        """Destroys the closed C pool if it is not in use any more; the last user does this."""
        if self._closed and not self._lent and not self._inside and self._is_mine():
            try:
                c = self._owned.pop()
            except IndexError:
                return
            while self._batchers:
                lib.rnl_batcher_destroy(self._batchers.popitem()[0])
            lib.rnl_pool_destroy(c)

    def close(self, timeout: Optional[float] = None, cancel: bool = False) -> None:
        """Refuses further jobs, and waits until all are done. cancel: jobs that have not started
        are cancelled. Raises TimeoutError after `timeout` seconds: the pool is closed, its jobs
        go on, and close() may be called again. Not on a worker of the pool."""
        if not self._is_mine() or self._closed:
            return
        left = nanoseconds(timeout, "Pool.close(): timeout")
        if left:
            refuse_in_loop("Pool.close()", "await pool.aclose(), or use `async with`")
        end = time.monotonic() + left / 1e9
        self._inside.append(None)	# a signal handler may close the pool meanwhile
        try:
            if not self._closing.acquire(timeout=min(left / 1e9, threading.TIMEOUT_MAX)
                                         if left >= 0 else -1):
                raise Expired(f"Pool.close(): another thread has been at it for {timeout} s")
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
        if is_thread_of(self) or lib.rnl_pool_drain(c, 0) == -errno.EBUSY:
            raise on_worker("Pool.close()")
        check(lib.rnl_pool_close(c), "Pool.close()")
        call = lib.rnl_pool_stop if cancel else lib.rnl_pool_drain
        soon = STUCK_S if timeout is None else min(timeout, STUCK_S)
        ret = wait(lambda ns: call(c, ns), soon, "Pool.close()")
        if ret == -errno.ETIMEDOUT and soon != timeout:
            warnings.warn(f"{self!r} has waited for {soon} s for the end of {self.unfinished()}. A hold "
                          "must be released", RuntimeWarning, stacklevel=3)
            ret = wait(lambda ns: call(c, ns), None if timeout is None else timeout - soon, "Pool.close()")
        if ret == -errno.ETIMEDOUT:
            raise Expired(f"Pool.close(): {len(self.unfinished())} jobs have not ended in time")
        check(ret, "Pool.close()")
        self._closed = True
        _pools.discard(self)

    async def aclose(self, timeout: Optional[float] = None, cancel: bool = False) -> None:
        """Like close(), while the loop goes on."""
        await in_thread(self.close, timeout, cancel)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Like close(), as executors have it. Without `wait` another thread waits for the jobs."""
        if wait or self._closed:
            self.close(cancel=cancel_futures)
            return
        with self._use("Pool.shutdown()") as c:
            check(lib.rnl_pool_close(c), "Pool.shutdown()")
            if cancel_futures:
                check(lib.rnl_pool_cancel(c), "Pool.shutdown()")
        threading.Thread(target=self.close, name="runnel-shutdown", daemon=True).start()

    def __enter__(self) -> "Pool":
        refuse_in_loop("The end of `with` a pool", "use `async with`")
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], _value: Optional[BaseException],
                 _tb: Optional[TracebackType]) -> None:
        self.close(cancel=kind is not None)

    async def __aenter__(self) -> "Pool":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], _value: Optional[BaseException],
                        _tb: Optional[TracebackType]) -> None:
        await self.aclose(cancel=kind is not None)

    # ---- jobs ----

    def job_class(self, name: str, **attributes: int) -> JobClass:
        """Makes a class of jobs. attributes: numbers of struct rnl_class_attr: priority, weight,
        max_queued, max_jobs, deadline_ns, nr_workers, ... Not on a worker with nr_workers."""
        return JobClass(self, name, attributes)

    def options(self, *, key: Optional[Hashable] = None, cls: Optional[JobClass] = None,
                device: Optional[int] = None, barrier: Optional[Barrier] = None,
                after: Union[None, Barrier, Iterable[Barrier]] = None,
                order: Optional[Order] = None, deadline: Optional[float] = None,
                at: Optional[float] = None, when: Optional[int] = None,
                queue: Optional[Queue] = None, timeout: Optional[float] = None) -> Options:
        """Returns an executor whose jobs have options: pool.options(key=k).submit(fn, ...).

        key: one worker runs all jobs with this key, in the order of their submits.
        cls: their class, of Pool.job_class(): a share, a priority, limits, workers of its own.
        device: number of the device in the pool. barrier: counts the jobs. after: a barrier, or
        several, whose jobs come first. order: of Pool.order().
        deadline: seconds; a job that has not started by then, or is still held then, raises Late.
        at: start time, of time.monotonic(), within a year.
        when: for a notice: SPACE or EMPTY.
        queue: the completion queue that gets the jobs when they are done.
        timeout: seconds to wait for space in a full pool before Full is raised; 0: no wait."""
        return Options(self, key, cls, device, barrier, after, order, deadline, at, when, queue,
                       timeout)

    def order(self, key: Hashable) -> Order:
        """Makes an order: its jobs have the key, and start in the order of their submits, even if
        they come after different barriers."""
        return Order(self, number_of(key))

    def batcher(self, fn: Optional[Callable[["batchers.Batch"], Any]], shape: Any, out_shape: Any = None,
                dtype: Any = "f4", out_dtype: Any = None, *, kernel: Any = None,
                resident: bool = False, shared: bool = False, cls: Optional[JobClass] = None,
                **numbers: int) -> Batcher:
        """Makes a batcher, which runs many small requests together: batcher.submit(row).

        fn(batch) is called on a worker for the requests that have come together: it reads
        batch.input and writes batch.out, arrays on the device whose first axis is the request; on
        the host they are numpy arrays. shape, dtype: of one request's row; out_shape, out_dtype: of
        its answer; None: no answer, or dtype.
        kernel: in place of fn (None): the address of a struct rnl_request_kernel of C or CUDA.
        resident: the kernel stays on the device while lone requests come close together; shared:
        also while other processes use the device. See RNL_BATCHER_RESIDENT in runnel/batch.h.
        cls: class of the batches. numbers: max_batch, max_in_flight, ... of struct rnl_batcher_attr.
        Not in a coroutine: page-locks memory. The end of the pool closes the batcher."""
        return Batcher(self, fn, (shape, dtype),
                       (out_shape, dtype if out_dtype is None else out_dtype), kernel,
                       resident * lib.RNL_BATCHER_RESIDENT | shared * lib.RNL_BATCHER_SHARED, cls,
                       numbers)

    def barrier(self) -> Barrier:
        """Returns a new barrier for jobs of this pool."""
        return Barrier(self)

    def map_array(self, fn: Callable[["maps.Chunk"], Any], array: Any, out: Any = None, *,
                  chunk: Optional[int] = None, halo: Tuple[int, int] = (0, 0),
                  copies_first: bool = False) -> "Job[Any]":
        """Streams an array through the workers: copies in, fn(chunk) and copies out overlap.

        The elements are the rows along the first axis. fn reads chunk.input and writes to
        chunk.out, which are on the device; on the host they are numpy arrays. out: an array with
        as many rows, or `array` itself; None for no output. chunk: rows of a chunk; None: the
        library chooses. halo: rows of the neighbours at the begin and at the end of a chunk's input.
        The returned job is done when the map has ended; its value is `out`."""
        return maps.start(self, fn, array, out, chunk, halo, copies_first)

    def cancel(self) -> int:
        """Cancels all jobs that have not started. Returns their number."""
        with self._use("Pool.cancel()") as c:
            return check(lib.rnl_pool_cancel(c), "Pool.cancel()")

    def drain(self, timeout: Optional[float] = None) -> None:
        """Waits until all accepted jobs are done, except jobs that wait for their time (at=) or for
        space (when=). Raises TimeoutError after `timeout` seconds."""
        with self._use("Pool.drain()") as c:
            if timeout != 0:
                refuse_in_loop("Pool.drain()", "await pool.adrain()")
            ret = wait_elsewhere(self, lambda ns: int(lib.rnl_pool_drain(c, ns)), timeout,
                                 "Pool.drain()")
        if ret == -errno.ETIMEDOUT:
            raise Expired(f"Pool.drain(): jobs are not done after {timeout} s")
        if ret == -errno.EBUSY:
            raise on_worker("Pool.drain()")
        check(ret, "Pool.drain()")

    async def adrain(self, timeout: Optional[float] = None) -> None:
        """Like drain(), while the loop goes on."""
        await in_thread(self.drain, timeout)

    def resize(self, nr_workers: int) -> None:
        """Changes the number of workers that are not a class's own, and waits until they serve, and
        leaving workers have done their jobs. Other threads may submit meanwhile."""
        refuse_in_loop("Pool.resize()", "await pool.aresize()")
        with self._use("Pool.resize()") as c:
            try:
                check_start(lambda: lib.rnl_pool_resize(c, nr_workers), self._log_arg,
                            "Pool.resize()")
            except (TypeError, OverflowError) as error:
                raise type(error)(f"Pool.resize(): nr_workers is {nr_workers!r}: {error}") from None
        self._nr_workers = nr_workers

    async def aresize(self, nr_workers: int) -> None:
        """Like resize(), while the loop goes on."""
        await in_thread(self.resize, nr_workers)

    # ---- memory ----

    def pinned(self, shape: Any, dtype: Any = "uint8", timeout: Optional[float] = None) -> Any:
        """Returns a numpy array in page-locked memory, not initialised, which the device accesses
        directly. When the last array that uses the memory is freed, the pool gets it back. At
        pinned_max, waits `timeout` seconds at most for returned memory, but not on a worker, and
        not in a coroutine."""
        return memory.pinned(self, shape, dtype, 0 if running_loop() else timeout)

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
                    return str(ffi.string(text).decode())
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
    given_up: Set[Pool] = set()
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
