# SPDX-License-Identifier: MIT
"""Jobs: Python functions on workers, their results, and holds.

A job is done when its function has returned and the device has completed the issued work. Until
then `_live` keeps the job with its arguments. A worker reports the end by py_done(), or the job
goes to a completion queue."""
from __future__ import annotations

import errno
import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence

from _runnel import ffi, lib

from .errors import (Cancelled, Error, call_each, check, error_of, failed_by, log, on_worker,
                     refusal, wait)

if TYPE_CHECKING:
    from .barrier import Barrier
    from .pool import Pool
    from .queue import Queue

SWEEP_NS = 2_000_000	# interval of the checks in a wait for a job whose loop was closed

_live: dict = {}		# Job -> its cffi handle, which C passes to the callbacks
# .job: the job whose function runs on this thread; .torch_stream: the stream's handle and torch's
# object; .stream_of: the pool whose host stream this thread is.
_thread = threading.local()


class Job:
    """A submitted job, and its result. Pool.submit() makes it."""

    __slots__ = ("_c", "_pool", "_fn", "_args", "_kept", "_value", "_error", "_finished", "_step",
                 "_barrier", "_after", "_callbacks", "_queue", "_code", "_returned", "__weakref__")

    def __init__(self, pool: "Pool", fn: Optional[Callable], args: tuple = (),
                 queue: Optional["Queue"] = None):
        self._c = ffi.new("struct rnl_job *")
        self._pool = pool
        self._fn = fn
        self._args = args
        self._kept: List[Any] = []	# objects in use by the device or the library until the end
        self._value = self._error = None
        self._finished = False
        self._step = "under way" if fn is None else "not started"	# then "running", "returned"
        self._barrier: Optional["Barrier"] = None	# counts the job
        self._after: Sequence["Barrier"] = ()
        self._callbacks: List[Callable] = []
        self._queue = queue
        self._code: Optional[int] = None	# the library's result, once it is known
        self._returned = False		# true once its queue has returned the job
        if queue is not None:
            queue._jobs.add(self)
        _live[self] = ffi.new_handle(self)

    def _prepare(self) -> None:
        """Initialises the library's job, so that its other settings can be made."""
        ret = lib.py_prepare(self._c, self._fn is not None, *self._ends())
        if ret:
            self._end()
            raise refusal(ret, "a job")

    def _more(self) -> Any:
        """Gives the job a struct rnl_job_more, for its rarely used settings."""
        self._kept.append(more := ffi.new("struct rnl_job_more *"))
        lib.rnl_job_set_more(self._c, more)
        return more

    def _submit(self, pool: Any, key: Optional[int], prepared: bool) -> int:
        """Returns the library's code. One call, since each releases the interpreter's lock."""
        return lib.py_submit(pool, self._c, prepared, *self._ends(), key is not None, key or 0)

    def _ends(self) -> tuple:
        """Returns the handle, and the queue or NULL."""
        return _live[self], ffi.NULL if self._queue is None else self._queue._c

    def _end(self) -> None:
        """Forgets the job when the library does not use it any more: it was refused, or is done."""
        if self._queue is not None:
            self._queue._jobs.discard(self)
        _live.pop(self, None)

    def _interrupted(self) -> None:
        """Like _end(), unless the submit was accepted before the exception, such as Ctrl-C."""
        if lib.rnl_job_wait(self._c, 0) == -errno.EINVAL:
            self._end()

    def _fail(self, error: BaseException) -> None:
        """Stores the first exception of the job, and the first one of its barrier."""
        if self._error is None:
            self._error = error
        if self._barrier is not None and self._barrier._error is None:
            self._barrier._error = error

    def _finish(self) -> None:
        """Called when the job is done: drops its references, and calls the callbacks."""
        self._end()
        self._fn = self._args = self._kept = None
        self._finished = True
        self._call_callbacks()

    def _call_callbacks(self) -> None:
        """Calls all callbacks; raises SystemExit or KeyboardInterrupt after the last one."""
        if self._callbacks:
            call_each(iter(self._next_callback, None))

    def _next_callback(self) -> Optional[Callable[[], None]]:
        try:
            return functools.partial(self._call_back, self._callbacks.pop(0))
        except IndexError:		# no callback is left, or another thread calls the last one
            return None

    def _call_back(self, fn: Callable[["Job"], Any]) -> None:
        try:
            fn(self)
        except Exception:
            log.exception("a callback of %r raised", self)

    def done(self) -> bool:
        """Returns true if the job is done. A job with a queue is done when it was reaped."""
        self._is_left()
        ret = lib.rnl_job_wait(self._c, 0)
        return ret not in (-errno.ETIMEDOUT, -errno.EBUSY) and not check(ret, "Job.done()")

    def _is_left(self) -> bool:
        """Returns true if the job's loop was closed; then this call finishes its done jobs."""
        return self._queue is not None and not self._finished and self._queue.sweep_if_ended()

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the job, then returns its function's value or raises its exception.

        Raises TimeoutError if the job is not done in `timeout` seconds; Cancelled, Late or Error if
        the library ended it. Not on a worker of its pool; in a coroutine, `await job`."""
        error = self.exception(timeout)
        try:
            if error is not None:
                raise error
            return self._value
        finally:
            error = None		# avoids a cycle of the traceback and this frame

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the job, then returns the exception that result() raises, or None."""
        if self._queue is not None and self._queue.is_loop_of_this_thread() and not self.done():
            raise RuntimeError("Job.result() of a job that is not done would stop the event loop "
                               "for ever: await the job")
        code = self._code
        if code is None:
            self._await(timeout)
            code = self._c.result
        if code >= 0 or self._error is not None:
            return self._error
        cause = next((b._error for b in self._after if b._error is not None), None)
        if cause is not None and self._step != "returned" and \
                code in (-errno.ECANCELED, code_of(cause)):
            return failed_by(code, cause)
        error = error_of(code, "the job")
        device = self._c.device_error
        if device:
            error.strerror += f"; CUDA's error {device}"
        return error

    def _await(self, timeout: Optional[float]) -> None:
        def call(ns: int) -> int:
            return lib.rnl_job_wait(self._c, min(ns, SWEEP_NS) if self._is_left() else ns)

        self._pool._inside.append(None)
        try:
            ret = wait_elsewhere(self._pool, call, timeout, "Job.result()")
        finally:
            self._pool._leave()
        if ret == -errno.ETIMEDOUT:
            raise TimeoutError(f"{self!r} is not done after {timeout} s")
        if ret == -errno.EBUSY:
            raise on_worker("Job.result()", ". Use add_done_callback(), or a job after a barrier")
        check(ret, "Job.result()")

    def cancel(self) -> bool:
        """Cancels the job. Returns true if its function will not run: result() raises Cancelled.
        Returns false if it has started or is done; a running function can call is_cancelled()."""
        self._pool._inside.append(None)
        try:
            ret = lib.rnl_job_cancel(self._c)
        finally:
            self._pool._leave()
        if ret not in (-errno.EBUSY, -errno.EALREADY):
            check(ret, "Job.cancel()")
        return ret == 0

    def cancelled(self) -> bool:
        """Returns true if the job is done and was cancelled. A queued job is done within 10 ms
        after its cancel()."""
        return self.done() and isinstance(self.exception(), Cancelled)

    def add_done_callback(self, fn: Callable[["Job"], Any]) -> None:
        """Calls `fn(job)` when the job is done, or immediately if it is. fn runs on a worker, or on
        the thread that reaps the job; fn must not wait."""
        self._callbacks.append(fn)
        if self._finished:
            self._call_callbacks()

    def __await__(self):
        import asyncio
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def told() -> None:
            if not future.done():
                future.set_result(None)

        def on_done(_job: "Job") -> None:
            try:
                if self._queue is not None and self._queue.loop is loop and \
                        self._queue.is_loop_of_this_thread():
                    told()
                else:
                    loop.call_soon_threadsafe(told)
            except RuntimeError:	# the loop has ended
                pass

        self.add_done_callback(on_done)
        queue = self._queue		# the queue's loop may be closed, now or during the await
        is_others = queue is not None and queue.loop not in (None, loop) and not self._finished
        if is_others:
            queue.begin_await(loop)
        try:
            yield from future
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            if is_others:
                queue.end_await(loop)
        return self.result(0)

    def __repr__(self) -> str:
        name = getattr(self._fn, "__qualname__", None)
        state = "done" if self._finished else self._step
        return f"<runnel.Job{f' of {name}' if name else ''}, {state}>"


def code_of(error: BaseException) -> int:
    """Returns the library's code for an exception of a function."""
    code = error.errno if isinstance(error, Error) else None
    return -code if isinstance(code, int) and 0 < code < 2**31 else -errno.EIO


def is_stream_of(pool: "Pool") -> bool:
    """Returns true if this thread is a worker's stream on the host, which runs launched functions:
    there a wait for a job of the pool could wait for itself."""
    return getattr(_thread, "stream_of", None) is pool


def wait_elsewhere(pool: "Pool", call: Callable[[int], int], timeout: Optional[float],
                   what: str) -> int:
    """Like wait(), for jobs of a pool; returns -EBUSY on a host stream, like on a worker."""
    if not is_stream_of(pool):
        return wait(call, timeout, what)
    ret = call(0)
    return -errno.EBUSY if ret == -errno.ETIMEDOUT else ret


def call(job: Job, fn: Callable, args: tuple) -> tuple:
    """Calls a job's function on a worker. Returns its value, and 0 or its exception's code."""
    _thread.job = job
    try:
        return fn(*args), 0
    except BaseException as error:	# SystemExit as well: a worker does not end
        # Removes this frame, which refers to the job.
        tb = error.__traceback__
        error.__traceback__ = tb.tb_next if tb else None
        job._fail(error)
        return None, code_of(error)
    finally:
        _thread.job = None


@ffi.def_extern(error=-errno.EIO)
def py_run(c):
    job = ffi.from_handle(c.user)
    job._step = "running"
    job._value, code = call(job, job._fn, job._args)
    job._step = "returned"		# not done before its device work and its holds
    return code


@ffi.def_extern()
def py_done(c, result):
    job = ffi.from_handle(c.user)
    job._code = result
    try:
        job._finish()
    except BaseException:	# SystemExit as well: a worker does not end
        log.exception("a callback of %r raised", job)


def running_job(what: str) -> Job:
    """Returns the job whose function runs on this thread."""
    job = getattr(_thread, "job", None)
    if job is None:
        raise RuntimeError(f"{what} is for a job's function, on the thread that runs it")
    return job


def keep(*objects: Any) -> None:
    """Keeps objects until the job that runs on this thread, if any, is done."""
    job = getattr(_thread, "job", None)
    if job is not None:
        job._kept.extend(objects)


def is_cancelled() -> bool:
    """In a job's function: returns true if it should return early. For functions that take long."""
    job = running_job("is_cancelled()")
    return bool(check(lib.rnl_job_is_cancelled(job._c), "is_cancelled()"))


class Hold:
    """A hold, made by hold(): the job is not done until any thread releases the hold."""

    __slots__ = ("_c", "_job", "_released", "__weakref__")

    def __init__(self, job: Job):
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
        if sets:
            job._fail(error)
        self._released = True
        ret = lib.rnl_hold_release(self._c, code)
        if ret and sets:
            job._error = None
            if job._barrier is not None and job._barrier._error is error:
                job._barrier._error = None
        return ret

    def __del__(self):
        if not self._released and self._job._pool._is_mine():
            text = "a hold was dropped without a release: its job is cancelled"
            log.error("%s", text)
            self._release(Cancelled(errno.ECANCELED, text))


def hold() -> Hold:
    """In a job's function: takes a hold. The job is not done before any thread releases the hold;
    no worker waits for this."""
    return Hold(running_job("hold()"))
