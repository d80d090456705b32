# SPDX-License-Identifier: MIT
"""Jobs: Python functions on workers, their results, and holds.

A job is a concurrent.futures.Future. It is done when its function has returned and the device has
completed the issued work. Until then `_live` keeps the job with its arguments. A worker calls
_run(), and _done() when the job is done."""
from __future__ import annotations

import concurrent.futures
import errno
import sys
import threading
from contextvars import ContextVar, copy_context
from concurrent.futures._base import (CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING,
                                      RUNNING)
from types import CoroutineType
from typing import (TYPE_CHECKING, Any, Callable, Generator, List, Mapping, Optional, Sequence,
                    Set, Tuple, TypeVar)

from .c import ffi, lib
from .errors import (Cancelled, Error, Expired, check, error_of, failed_by, log, on_worker,
                     refusal, wait)
from .loop import future_of, refuse_in_loop

if TYPE_CHECKING:
    from .barrier import Barrier
    from .pool import Pool
    from .queue import Queue

T = TypeVar("T")

# Without the interpreter's lock nothing orders a look for waiters after a change of the state.
FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()
JOB = ffi.typeof("struct rnl_job *")
DONE = (FINISHED, CANCELLED, CANCELLED_AND_NOTIFIED)
NONE: Mapping[str, Any] = {}
KEY_NONE = 2**64 - 1 - lib.RNL_WORKERS_MAX	# RNL_KEY_NONE
CO_COROUTINE = 0x80		# of a code object's flags: `async def`

# 16 bytes, a W3C trace-id say, which traces show with the jobs that are submitted in this context.
# A job's function runs in a copy of the context, so the jobs that it submits have the same id.
trace_id: ContextVar[bytes] = ContextVar("runnel.trace_id", default=b"")

_live: Set["Job[Any]"] = set()	# jobs whose memory the library uses
# .job: the job whose function runs on this thread; .pool: the pool whose thread this is, a worker,
# a host stream or the timer thread; .torch_stream: the stream's handle and torch's object.
_thread = threading.local()


class _OnDemand:
    """An attribute of Future that Job makes at the first use, because making it takes as long as
    the rest of a short job. Whoever waits for a job, or adds a callback, uses it."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make

    def __set_name__(self, _owner: Any, name: str) -> None:
        self._name = name

    def __get__(self, job: Any, _owner: Any) -> Any:
        job._is_watched = True
        return job.__dict__.setdefault(self._name, self._make())


class Job(concurrent.futures.Future[T]):
    """A submitted job, and its result. Pool.submit() makes it."""

    # Those of Future, whose __init__() is not called.
    _state = PENDING
    _result: Any = None
    _exception: Optional[BaseException] = None
    _condition: Any = _OnDemand(threading.Condition)
    _waiters: Any = _OnDemand(list)
    _done_callbacks: Any = _OnDemand(list)

    _is_watched = FREE_THREADED	# false: none of these was made, so nobody is told of the end
    _is_told = False
    _value: Any = None		# of the function, once it has returned
    _error: Optional[BaseException] = None
    _has_returned = False
    _before: Optional["Job[Any]"] = None	# in its chain: the job whose value is the argument
    _barrier: Optional["Barrier"] = None	# counts the job
    _after: Sequence["Barrier"] = ()
    _queue: Optional["Queue"] = None
    _kept: Optional[List[Any]] = None	# objects in use by the device or the library until the end

    _fn: Any
    _args: Any
    _kwargs: Any
    _context: Any

    def __init__(self, pool: "Pool", fn: Optional[Callable[..., T]], args: Tuple[Any, ...] = (),
                 kwargs: Mapping[str, Any] = NONE):
        self._c = ffi.new(JOB)
        self._pool = pool
        self._fn = fn
        self._args = args
        self._kwargs = kwargs
        self._context = copy_context()
        _live.add(self)

    def _prepare(self, key: int = KEY_NONE) -> None:
        """Initialises the library's job, so that its other settings can be made."""
        ret = lib.quick_prepare(self._c, self._fn is not None, id(self), key)
        if ret:
            raise refusal(ret, "a job")
        if trace_id.get():
            self._more()

    def _more(self) -> Any:
        """Gives the job a struct rnl_job_more, for its rarely used settings."""
        more = ffi.new("struct rnl_job_more *")
        number = trace_id.get()
        if number and (not isinstance(number, bytes) or len(number) != 16):
            raise ValueError(f"runnel.trace_id is {number!r}; it must be 16 bytes")
        more.trace_id = number
        self._keep(more)
        lib.rnl_job_set_more(self._c, more)
        return more

    def _keep(self, *objects: Any) -> None:
        if self._kept is None:
            self._kept = []
        self._kept.extend(objects)

    def _interrupted(self) -> None:
        """Forgets the job, unless the submit was accepted before the exception, such as Ctrl-C."""
        if lib.rnl_job_wait(self._c, 0) == -errno.EINVAL:
            _live.discard(self)

    def _fail(self, error: BaseException) -> None:
        """Stores the first exception of the job, and the first one of its barrier."""
        if self._error is None:
            self._error = error
        if self._barrier is not None and self._barrier._error is None:
            self._barrier._error = error

    # ---- on a worker ----

    def _run(self) -> int:
        """Calls the function. Returns 0, or its exception's code."""
        if self._state == PENDING:	# the library's start and cancel exclude each other
            self._state = RUNNING
        _thread.pool, _thread.job = self._pool, self
        args = self._args if self._before is None else (self._before._value,)
        try:
            value = self._value = self._context.run(self._fn, *args, **self._kwargs)
            if type(value) is CoroutineType:
                value.close()
                raise is_coroutine(self._fn)
            return 0
        except BaseException as error:	# SystemExit as well: a worker does not end
            return failure(self, error)
        finally:
            _thread.job = None
            self._has_returned = True	# but not done before its device work and its holds

    def _done(self, code: int) -> None:
        """Called once, when the library does not use the job any more."""
        _live.discard(self)
        _thread.pool = self._pool	# a callback must not wait
        queue = self._queue
        try:
            self._end(code)
        finally:
            if self._kept is not None or self._before is not None:
                self._kept = self._before = None
            if queue is not None:
                queue._put(self)

    def _end(self, code: int) -> None:
        """Ends the future. A thread that waits does so, too, and the first one counts."""
        error = self._error
        if code < 0 and error is None:
            error = self._error_of(code)
        self._fn = self._args = self._kwargs = self._context = None
        try:
            if error is not None or self._is_watched:
                self._finish(error)
                return
            self._result, self._state = self._value, FINISHED
            if self._is_watched:		# somebody has come meanwhile
                self._tell()
        finally:
            error = None		# avoids a cycle of the traceback and this frame

    def _finish(self, error: Optional[BaseException]) -> None:
        try:
            if error is None:
                self.set_result(self._value)
            elif isinstance(error, _CancelledJob):
                self._cancel()
            else:
                self.set_exception(error)
        except concurrent.futures.InvalidStateError:	# ended, cancelled, or set by the program
            pass
        finally:
            error = None

    def _tell(self) -> None:
        with self._condition:
            if self._is_told:
                return
            self._is_told = True
            for waiter in self._waiters:
                waiter.add_result(self)
            self._condition.notify_all()
        self._invoke_callbacks()  # type: ignore[attr-defined, unused-ignore]

    def _error_of(self, code: int) -> BaseException:
        before = self._before
        causes = [b._error for b in self._after] + [before._error if before else None]
        cause = next((error for error in causes if error is not None), None)
        if cause is not None and not self._has_returned and \
                code in (-errno.ECANCELED, code_of(cause)):
            return failed_by(code, cause)
        if code == -errno.ECANCELED and not self._has_returned:
            return _CancelledJob(-code, CANCELLED_TEXT)
        error = error_of(code, "the job")
        device = self._c.device_error
        if device:
            error.strerror = f"{error.strerror}; CUDA's error {device}"
        return error

    def _cancel(self) -> None:
        with self._condition:
            if self._state != PENDING:
                return
            self._state = CANCELLED_AND_NOTIFIED
            for waiter in self._waiters:  # type: ignore[attr-defined, unused-ignore]
                waiter.add_cancelled(self)
            self._condition.notify_all()
        self._invoke_callbacks()  # type: ignore[attr-defined, unused-ignore]

    # ---- for the program ----

    def done(self) -> bool:
        """Returns true if the job is done, or will not run because it was cancelled."""
        if self._state in DONE:
            return True
        if not self._pool._is_mine():
            raise refusal(-errno.EOWNERDEAD, "Job.done()")
        return False

    def result(self, timeout: Optional[float] = None) -> T:
        """Waits for the job, then returns its function's value or raises its exception.

        Raises TimeoutError if the job is not done in `timeout` seconds; Cancelled, Late or Error if
        the library ended it. On a worker of its pool only in a job after its barrier; in a coroutine,
        `await job`."""
        if self._state != FINISHED:
            if self._is_before_this():
                if self._error is not None:
                    raise self._error
                return self._value  # type: ignore[no-any-return]
            self._wait(timeout, "Job.result()")
        if self._exception is None:
            return self._result  # type: ignore[no-any-return]
        return super().result(0)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the job, then returns the exception of its function, or None. Raises Cancelled
        if the job was cancelled."""
        if self._state != FINISHED:
            if self._is_before_this():
                return self._error
            self._wait(timeout, "Job.exception()")
        return self._exception

    def _is_before_this(self) -> bool:
        """Returns true in the function of a job after this one's barrier. This job has run then, and
        its device work precedes, but nobody may have been told of its end yet."""
        this: Optional[Job[Any]] = getattr(_thread, "job", None)
        return this is not None and self._has_returned and self._barrier in this._after

    def _wait(self, timeout: Optional[float], what: str) -> None:
        if not self.done():
            if timeout is None or timeout > 0:
                refuse_in_loop(what, "await the job")
                if is_thread_of(self._pool):
                    raise on_worker(what, ". Use add_done_callback(), or a job after a barrier")
            if not self._await(None if timeout is None else max(timeout, 0), what):
                raise Expired(f"{self!r} is not done after {timeout} s")
        if self._state != FINISHED:
            raise Cancelled(errno.ECANCELED, CANCELLED_TEXT)

    def _await(self, timeout: Optional[float], what: str) -> bool:
        """Waits in the library, which wakes this thread without the interpreter's lock."""
        ret = wait(lambda ns: 0 if self._state in DONE else int(lib.rnl_job_wait(self._c, ns)),
                   timeout, what)
        if ret != -errno.ETIMEDOUT and self._state not in DONE:
            self._end(check(ret, what) or self._c.result)
        return self._state in DONE

    def cancel(self) -> bool:
        """Cancels the job. Returns true if its function will not run: result() raises Cancelled.
        Returns false if it has started or is done; a running function can call is_cancelled()."""
        if self._state in DONE:
            return self._state != FINISHED
        self._pool._inside.append(None)
        try:
            ret = lib.rnl_job_cancel(self._c)
        finally:
            self._pool._leave()
        if ret not in (-errno.EBUSY, -errno.EALREADY):
            check(ret, "Job.cancel()")
        if ret == 0:
            self._cancel()
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            future = future_of(self)
            try:
                yield from future
            finally:
                if future.cancelled():
                    self.cancel()
        return self.result(0)

    def __repr__(self) -> str:
        name = getattr(self._fn, "__qualname__", None)
        state = {PENDING: "not started" if self._fn else "under way", FINISHED: "done",
                 RUNNING: "returned" if self._has_returned else "running"}.get(self._state, "cancelled")
        return f"<runnel.Job{f' of {name}' if name else ''}, {state}>"


CANCELLED_TEXT = "the job was cancelled"


class _CancelledJob(Cancelled):
    """The library ended the job by a cancel."""


def is_coroutine(fn: Any) -> TypeError:
    return TypeError(f"{fn!r} is a coroutine function, whose call runs nothing; a job runs a plain "
                     "function: await the coroutine in the loop, or submit(asyncio.run, fn(...))")


def code_of(error: BaseException) -> int:
    """Returns the library's code for an exception of a function."""
    code = error.errno if isinstance(error, Error) else None
    return -code if isinstance(code, int) and 0 < code < 2**31 else -errno.EIO


def is_thread_of(pool: "Pool") -> bool:
    """Returns true on a worker of the pool, its timer thread, and a worker's stream on the host,
    which runs launched functions: there a wait for a job of the pool could wait for itself."""
    return getattr(_thread, "pool", None) is pool


def wait_elsewhere(pool: "Pool", call: Callable[[int], int], timeout: Optional[float],
                   what: str) -> int:
    """Like wait(), for jobs of a pool; returns -EBUSY on a thread of the pool."""
    if not is_thread_of(pool):
        return wait(call, timeout, what)
    ret: int = call(0)
    return -errno.EBUSY if ret == -errno.ETIMEDOUT else ret


def failure(job: Any, error: BaseException) -> int:
    """Stores what a job's function raised; returns the library's code."""
    tb = error.__traceback__
    error.__traceback__ = tb.tb_next if tb else None	# the first frame refers to the job
    job._fail(error)
    return code_of(error)


def call(job: Any, fn: Callable[..., Any], *args: Any) -> int:
    """Calls a function of a job, on a worker. Returns 0, or its exception's code."""
    _thread.job = job
    try:
        fn(*args)
        return 0
    except BaseException as error:	# SystemExit as well: a worker does not end
        return failure(job, error)
    finally:
        _thread.job = None


def running_job(what: str) -> Any:
    """Returns the job whose function runs on this thread."""
    job = getattr(_thread, "job", None)
    if job is None:
        raise RuntimeError(f"{what} is for a job's function, on the thread that runs it")
    return job


def keep(*objects: Any) -> None:
    """Keeps objects until the job that runs on this thread, if any, is done."""
    job = getattr(_thread, "job", None)
    if job is not None:
        job._keep(*objects)


def is_cancelled() -> bool:
    """In a job's function: returns true if it should return early. For functions that take long."""
    job = running_job("is_cancelled()")
    return bool(check(lib.rnl_job_is_cancelled(job._c), "is_cancelled()"))


class Hold:
    """A hold, made by hold(): the job is not done until any thread releases the hold."""

    __slots__ = ("_c", "_job", "_released", "__weakref__")

    def __init__(self, job: Any):
        self._released = True		# until rnl_job_hold() succeeds
        self._job = job
        self._c = ffi.new("struct rnl_hold *")
        check(lib.rnl_job_hold(job._c, self._c), "hold()")
        self._released = False
        job._pool._holds.add(self)

    def release(self, error: Optional[BaseException] = None) -> None:
        """Releases the hold. If an exception is given, the job fails with this exception.

        Raises Error if the hold was released before (EALREADY), or ended by the job's deadline
        (ESTALE)."""
        if error is not None and not isinstance(error, BaseException):
            raise TypeError(f"Hold.release(): error is {error!r}; it must be an exception, or None")
        check(self._release(error), "Hold.release()")

    def _release(self, error: Optional[BaseException]) -> int:
        job = self._job
        code = code_of(error) if error is not None else 0
        sets = error is not None and not self._released and job._error is None
        if error is not None and sets:
            job._fail(error)
        self._released = True
        ret: int = lib.rnl_hold_release(self._c, code)
        if ret and sets:
            job._error = None
            if job._barrier is not None and job._barrier._error is error:
                job._barrier._error = None
        return ret

    def __del__(self) -> None:
        if not self._released and self._job._pool._is_mine():
            text = "a hold was dropped without a release: its job is cancelled"
            log.error("%s", text)
            self._release(Cancelled(errno.ECANCELED, text))


def hold() -> Hold:
    """In a job's function: takes a hold. The job is not done before any thread releases the hold;
    no worker waits for this."""
    return Hold(running_job("hold()"))
