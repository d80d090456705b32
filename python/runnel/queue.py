# SPDX-License-Identifier: MIT
"""Completion queues, which pass done jobs to an event loop.

Each asyncio loop has one, made by the first submit in a coroutine; the loop polls the queue's
eventfd."""
from __future__ import annotations

import collections
import errno
import os
import sys
import threading
from typing import Any, Dict, List, Optional, Set

from _runnel import ffi, lib

from . import forks
from .errors import Error, call_each, check, refusal, wait
from .job import Job

LOOK_S = 0.02		# interval of checks in an await of another loop's job: is that loop closed?
ONE = (1).to_bytes(8, sys.byteorder)	# a write of this makes an eventfd readable


class Queue:
    """A queue that gets jobs when they are done: Pool.submit(..., queue=queue).

    One call reaps at a time: a concurrent call, for example in a signal handler, raises Error
    (EBUSY). A callback may reap.

    For event loops other than asyncio's: fileno() is readable when reap() has jobs. With an
    edge-triggered poll, reap until fewer jobs than requested are returned. Reap until all jobs are
    back: a queue that is dropped earlier stays in memory, with its jobs."""

    def __init__(self, loop: Any = None):
        cqp = ffi.new("struct rnl_cq **")
        check(lib.rnl_cq_create(cqp), "Queue()")
        self._c = cqp[0]
        self._born = forks.number()
        self.loop = loop		# the asyncio loop of the queue, or None
        self._loop_thread = threading.get_ident()
        self._jobs: Set[Job] = set()	# the jobs that will come to this queue
        self._turn: Dict[None, Any] = {}	# the frame of the call that reaps
        self._given: Any = None		# an array that the library fills, then a list of its jobs
        self._left: collections.deque = collections.deque()	# reaped, but not returned yet
        self._awaits: Dict[Any, int] = {}	# other loops -> their number of awaits
        self._looks: Set[Any] = set()	# other loops with a timer for _look()

    def fileno(self) -> int:
        return check(lib.rnl_cq_fd(self._c), "Queue.fileno()")

    def reap(self, most: int = 64) -> List[Job]:
        """Returns at most `most` jobs that are done; does not wait."""
        return self._take(lambda jobs, nr: lib.rnl_cq_reap(self._c, jobs, nr, 0), most, "Queue.reap()")

    def wait(self, most: int = 64, timeout: Optional[float] = None) -> List[Job]:
        """Like reap(), but waits for at least one job; returns [] after `timeout` seconds."""
        def reap(jobs: Any, nr: int) -> int:
            return wait(lambda ns: lib.rnl_cq_reap(self._c, jobs, nr, ns) or -errno.ETIMEDOUT,
                        timeout, "Queue.wait()")

        return self._take(reap, most, "Queue.wait()")

    # Ctrl-C may interrupt between any two steps here, and a callback may reap or exit. So the
    # library stores jobs in an array of the queue, and each job is in the array or in _left until
    # it is returned. To finish a job twice has no effect.

    def _take(self, call, most: int, what: str) -> List[Job]:
        if not isinstance(most, int) or not 1 <= most <= 1 << 20:
            raise ValueError(f"{what}: most is {most!r}; it must be 1 to {1 << 20}")
        if self._born != forks.number():
            raise refusal(-errno.EOWNERDEAD, what)
        done: List[Job] = []
        try:
            nr = self._fill(call, most, what)
            call_each([job._finish for job in list(self._left)])
            while len(done) < most:
                try:
                    job = self._left.popleft()
                except IndexError:
                    break
                if not job._returned:
                    job._returned = True
                    done.append(job)
        except BaseException:
            for job in done:
                job._returned = False
            self._left.extendleft(reversed(done))
            raise
        finally:
            if self._left or self._given is not None:
                os.write(self.fileno(), ONE)	# makes it readable again
        if not done and nr < 0 and nr != -errno.ETIMEDOUT:
            raise refusal(nr, what)
        return done

    def _fill(self, call, most: int, what: str) -> int:
        """Reaps jobs of the library, and adds them to _left. If _left has jobs already, it does not
        wait."""
        try:
            if self._turn.setdefault(None, sys._getframe()) is not sys._getframe():
                self._end_stale_turn()
                if self._turn.setdefault(None, sys._getframe()) is not sys._getframe():
                    raise refusal(-errno.EBUSY, what)
            self._settle()
            array = self._given = ffi.new("struct rnl_job *[]", most)
            nr = lib.rnl_cq_reap(self._c, array, most, 0) if self._left else call(array, most)
            self._settle()
            return nr
        finally:
            if self._turn.get(None) is sys._getframe():
                del self._turn[None]

    def _end_stale_turn(self) -> None:
        """Ends the turn of a call that Ctrl-C interrupted in its last steps: its frame ended."""
        holder = self._turn.get(None)
        for frame in sys._current_frames().values():
            while frame is not None and frame is not holder:
                frame = frame.f_back
            if frame is not None:
                return
        if self._turn.get(None) is holder:
            self._turn.pop(None, None)

    def _settle(self) -> None:
        given = self._given
        if given is None:
            return
        if not isinstance(given, list):
            given = self._given = [ffi.from_handle(c.user) for c in given if c]
        self._left.extend(given)
        self._given = None

    # ---- asyncio's loops ----

    def is_loop_of_this_thread(self) -> bool:
        return self.loop is not None and self._loop_thread == threading.get_ident() and \
            not self.loop.is_closed()

    def has_ended(self) -> bool:
        """Returns true if the queue's loop was closed; then only sweep() reaps the queue."""
        return self.loop is not None and self.loop.is_closed()

    def sweep_if_ended(self) -> bool:
        ended = self.has_ended()
        if ended:
            sweep()
        return ended

    def begin_await(self, loop: Any) -> None:
        """Notes an await in another loop than the queue's loop, which may be closed."""
        self._awaits[loop] = self._awaits.get(loop, 0) + 1
        if loop not in self._looks:
            self._looks.add(loop)
            self._look(loop)

    def end_await(self, loop: Any) -> None:
        self._awaits[loop] -= 1
        if not self._awaits[loop]:
            del self._awaits[loop]

    def _look(self, loop: Any) -> None:
        """Makes @loop the queue's loop if the queue's own loop was closed."""
        if self.has_ended() and loop in self._awaits:
            with _moves:
                if self.has_ended():
                    loop.add_reader(self.fileno(), self._reap_moved)
                    self._loop_thread, self.loop = threading.get_ident(), loop
        if self.loop is loop:
            self._reap_moved()
        elif loop in self._awaits:
            loop.call_later(LOOK_S, self._look, loop)
        else:
            self._looks.discard(loop)

    def _reap_moved(self) -> None:
        try:
            self.reap(256)
        except Error as error:
            if error.errno != errno.EBUSY:	# a sweep reaps now, and may take the last job
                raise
            self.loop.call_later(LOOK_S, self._reap_moved)
        if self._jobs:
            return
        self.loop.remove_reader(self.fileno())
        self._looks.discard(self.loop)
        for loop, queue in list(_loops.items()):
            if queue is self:
                _loops.pop(loop, None)

    def __del__(self):
        # Jobs keep a reference to their queue, so no job of it is under way.
        if getattr(self, "_c", None) and self._born == forks.number():
            lib.rnl_cq_destroy(self._c)


_loops: dict = {}		# asyncio loop -> its queue
_moves = threading.Lock()	# a holder calls no callback


def _forked() -> None:
    global _moves
    _moves = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def sweep() -> None:
    """Finishes jobs whose loop was closed, and forgets closed loops without jobs."""
    for loop, queue in list(_loops.items()):
        if queue._born != forks.number():
            _loops.pop(loop, None)
        elif queue.has_ended():
            try:
                while queue.has_ended() and queue.reap(256):
                    pass
            except Error as error:
                if error.errno != errno.EBUSY:	# another thread reaps now
                    raise
            if queue.has_ended() and not queue._jobs:
                _loops.pop(loop, None)


def chosen(queue: Any, what: str) -> Optional[Queue]:
    """Returns the given queue, or the queue of the running loop, or None."""
    if queue is None:
        return loop_queue()
    if not isinstance(queue, Queue):
        raise TypeError(f"{what}: queue is {queue!r}; it must be a runnel.Queue")
    return queue


def loop_queue() -> Optional[Queue]:
    """Returns the queue of the event loop that runs in this thread, or None."""
    # While another thread imports asyncio, the module may lack this name.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    loop = running() if running else None
    if loop is None:
        return None
    queue = _loops.get(loop)
    if queue is None or queue._born != forks.number():
        sweep()
        queue = Queue(loop)
        loop.add_reader(queue.fileno(), queue.reap, 256)
        _loops[loop] = queue
    return queue
