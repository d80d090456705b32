# SPDX-License-Identifier: MIT
"""Completion queues: jobs that are done come to an event loop.

asyncio's loops have one each, made by the first submit in a coroutine; its eventfd is in the loop
beside the sockets."""
from __future__ import annotations

import errno
import sys
import threading
from typing import Any, Dict, List, Optional, Tuple

from _runnel import ffi, lib

from . import forks
from .errors import Error, check, wait
from .job import Job, _live


class Queue:
    """Where jobs go when they are done: Pool.submit(..., queue=queue). One thread at a time reaps.

    For another event loop than asyncio's: fileno() is readable when reap() has jobs. With an
    edge-triggered poll, reap until it gives fewer than were asked for. Reap until all jobs are
    back: a queue that is dropped before stays, with them."""

    def __init__(self, loop: Any = None):
        cqp = ffi.new("struct rnl_cq **")
        check(lib.rnl_cq_create(cqp), "Queue()")
        self._c = cqp[0]
        self._born = forks.number()
        self.loop = loop		# the asyncio loop whose queue it is; None: none
        self._loop_thread = threading.get_ident()
        # thread -> jobs, and arrays for more of them
        self._given: Dict[int, Tuple[List[Job], tuple]] = {}
        self._left: List[Job] = []	# not returned
        self._tokens = [None]

    def fileno(self) -> int:
        return check(lib.rnl_cq_fd(self._c), "Queue.fileno()")

    def reap(self, most: int = 64) -> List[Job]:
        """The jobs that are done, `most` of them at most; it does not wait."""
        return self._take(self._reap, most, "Queue.reap()")

    def wait(self, most: int = 64, timeout: Optional[float] = None) -> List[Job]:
        """As reap(), but waits for one job at least; none: `timeout` seconds have passed."""
        return self._take(lambda jobs, nr: wait(lambda ns: lib.rnl_cq_wait(self._c, jobs, nr, ns),
                                                timeout, "Queue.wait()"), most, "Queue.wait()")

    def _reap(self, jobs: Any, nr: int) -> int:
        return lib.rnl_cq_reap(self._c, jobs, nr)

    def _take(self, call, most: int, what: str) -> List[Job]:
        if not isinstance(most, int) or not 1 <= most <= 1 << 20:
            raise ValueError(f"{what}: most is {most!r}; it must be 1 to {1 << 20}")
        me = threading.get_ident()
        while True:
            array = ffi.new("struct rnl_job *[]", most)
            self._given[me] = self._known(me), (*self._arrays(me), array)
            try:
                # What an exception has left comes first, and no wait is for it.
                nr = (self._reap if self._left or self._known(me) else call)(array, most)
                self._finish(me)
            finally:
                self._forget(me, array)
            if self._left or nr <= 0:
                break			# else a signal's handler has reaped them
        if nr < 0 and not self._left:
            return [] if nr == -errno.ETIMEDOUT else check(nr, what)
        if len(self._left) > most:
            done = self._left[:most]
            del self._left[:most]
            return done
        done, self._left = self._left, []
        return done

    # A signal's handler, or Ctrl-C, may come between any two steps, and may reap; so may a callback,
    # and other threads when the library's call is over. What the library gives is first in an array
    # of this call and thread, then in the thread's list, then this call's, which finishes it, then
    # in the queue's list of what was not returned.

    def _finish(self, me: int) -> None:
        """Finishes what the library has given to this thread; the first exception comes behind."""
        jobs, first = self._known(me), None
        try:
            self._given[me] = [], self._arrays(me)
            for job in [*self._left, *jobs]:
                try:
                    job._finish()
                except BaseException as error:
                    first = first or error
        finally:
            self._given[me] = [], self._arrays(me)
            self._left.extend(jobs)
        try:
            if first is not None:
                raise first
        finally:
            first = None

    def _known(self, me: int) -> List[Job]:
        jobs, arrays = self._given.get(me, ([], ()))
        full = [array for array in arrays if array[0]]
        if full:
            jobs = [*jobs, *(ffi.from_handle(c.user) for array in full for c in array if c)]
            self._given[me] = jobs, tuple(array for array in arrays
                                          if not any(array is other for other in full))
        return jobs

    def _arrays(self, me: int) -> tuple:
        """The arrays of this thread's calls that the library has not filled."""
        return self._given[me][1] if me in self._given else ()

    def _forget(self, me: int, array: Any) -> None:
        """The end of a call. A full array is Ctrl-C's, and stays."""
        jobs, arrays = self._given.get(me, ([], ()))
        arrays = tuple(other for other in arrays if other is not array or array[0])
        if jobs or arrays:
            self._given[me] = jobs, arrays
        else:
            self._given.pop(me, None)

    def is_loop_of_this_thread(self) -> bool:
        return self.loop is not None and self._loop_thread == threading.get_ident() and \
            not self.loop.is_closed()

    def has_ended(self) -> bool:
        """Whether its loop was closed: then nobody reaps it but sweep()."""
        return self.loop is not None and self.loop.is_closed()

    def sweep_if_ended(self) -> bool:
        ended = self.has_ended()
        if ended:
            sweep()
        return ended

    def move(self, loop: Any) -> None:
        """The loop that runs here takes the place of one that was closed."""
        try:
            token = self._tokens.pop()	# one loop of several
        except IndexError:
            return
        try:
            if self.has_ended():
                self._loop_thread, self.loop = threading.get_ident(), loop
                loop.add_reader(self.fileno(), self._reap_moved)
        finally:
            self._tokens.append(token)

    def _reap_moved(self) -> None:
        self.reap(256)
        if not self.is_used():
            self.loop.remove_reader(self.fileno())
            for loop, queue in list(_loops.items()):
                if queue is self:
                    _loops.pop(loop, None)

    def is_used(self) -> bool:
        return any(job._queue is self for job in list(_live))

    def __del__(self):
        # The jobs that use it keep it: so none is under way.
        if getattr(self, "_c", None) and self._born == forks.number():
            lib.rnl_cq_destroy(self._c)


_loops: dict = {}		# asyncio loop -> its queue


def sweep() -> None:
    """Finishes jobs whose loop was closed, and forgets loops that have none."""
    for loop, queue in list(_loops.items()):
        if queue._born != forks.number():
            _loops.pop(loop, None)
        elif queue.has_ended():
            try:
                while queue.reap(256):
                    pass
            except Error as error:
                if error.errno != errno.EBUSY:	# another thread is at it
                    raise
            if queue.has_ended() and not queue.is_used():
                _loops.pop(loop, None)


def chosen(queue: Any, what: str) -> Optional[Queue]:
    """The caller's queue, or that of its loop, or none."""
    if queue is None:
        return loop_queue()
    if not isinstance(queue, Queue):
        raise TypeError(f"{what}: queue is {queue!r}; it must be a runnel.Queue")
    return queue


def loop_queue() -> Optional[Queue]:
    """The queue of the event loop that runs in this thread; None: none runs."""
    # While another thread imports asyncio, the module has not all of its names.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    loop = running() if running else None
    if loop is None:
        return None
    queue = _loops.get(loop)
    if queue is None or queue._born != forks.number():
        sweep()
        queue = _loops[loop] = Queue(loop)
        loop.add_reader(queue.fileno(), queue.reap, 256)
    return queue
