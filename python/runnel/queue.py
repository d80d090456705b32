# SPDX-License-Identifier: MIT
"""Completion queues: jobs that are done come to an event loop.

asyncio's loops have one each, made by the first submit in a coroutine; its eventfd is in the loop
beside the sockets."""
from __future__ import annotations

import errno
import sys
import threading
from typing import Any, Dict, List, Optional

from _runnel import ffi, lib

from . import forks
from .errors import check, wait
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
        self._taken: Dict[int, tuple] = {}	# thread -> jobs, and an array for more of them

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
        jobs = self._known(me)
        more = most - len(jobs)
        if more > 0:
            array = ffi.new("struct rnl_job *[]", more)
            self._taken[me] = jobs, array
            nr = (self._reap if jobs else call)(array, more)
            if nr < 0 and not jobs:
                del self._taken[me]
                return [] if nr == -errno.ETIMEDOUT else check(nr, what)
            jobs = self._known(me)
        first = None
        try:
            del self._taken[me]		# a callback may reap
            for job in jobs:
                try:
                    job._finish()
                except BaseException as error:
                    first = first or error
            if first is not None:
                raise first
        except BaseException:		# all are finished, or will be, and the next reap gives them
            self._taken[me] = jobs, ()
            raise
        finally:
            first = None
        return jobs

    def _known(self, thread: int) -> List[Job]:
        """What the library has given to this thread, and was not returned: an exception came."""
        jobs, array = self._taken.get(thread, ([], ()))
        if array:
            jobs = jobs + [ffi.from_handle(c.user) for c in array if c]
            self._taken[thread] = jobs, ()
        return jobs

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
        """Another loop takes the place of one that was closed."""
        with _sweeps:
            self._loop_thread, self.loop = threading.get_ident(), loop
        loop.add_reader(self.fileno(), self.reap, 256)

    def __del__(self):
        # The jobs that use it keep it: so none is under way.
        if getattr(self, "_c", None) and self._born == forks.number():
            lib.rnl_cq_destroy(self._c)


_loops: dict = {}		# asyncio loop -> its queue
_sweeps = threading.RLock()	# a callback may sweep


def sweep() -> None:
    """Finishes jobs whose loop was closed, and forgets loops that have none."""
    with _sweeps:
        for loop, queue in list(_loops.items()):
            if queue._born != forks.number():
                _loops.pop(loop, None)
            elif queue.has_ended():
                while queue.reap():
                    pass
                if not any(job._queue is queue for job in list(_live)):
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
