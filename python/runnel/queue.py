# SPDX-License-Identifier: MIT
"""Completion queues: jobs that are done come to an event loop.

asyncio's loops have one each, made by the first submit in a coroutine; its eventfd is in the loop
beside the sockets."""
from __future__ import annotations

import errno
import sys
import threading
from typing import Any, List, Optional

from _runnel import ffi, lib

from . import forks
from .errors import check, wait
from .job import Job, _live


class Queue:
    """Where jobs go when they are done: Pool.submit(..., queue=queue). One thread at a time reaps.

    For another event loop than asyncio's: fileno() is readable when reap() has jobs. With an
    edge-triggered poll, reap until it gives fewer than were asked for."""

    def __init__(self, loop: Any = None):
        cqp = ffi.new("struct rnl_cq **")
        check(lib.rnl_cq_create(cqp), "Queue()")
        self._c = cqp[0]
        self._born = forks.number()
        self.loop = loop		# the asyncio loop whose queue it is; None: none
        self._loop_thread = threading.get_ident()

    def fileno(self) -> int:
        return check(lib.rnl_cq_fd(self._c), "Queue.fileno()")

    def reap(self, most: int = 64) -> List[Job]:
        """The jobs that are done, `most` of them at most; it does not wait."""
        return self._take(lambda jobs: lib.rnl_cq_reap(self._c, jobs, most), most, "Queue.reap()")

    def wait(self, most: int = 64, timeout: Optional[float] = None) -> List[Job]:
        """As reap(), but waits for one job at least; none: `timeout` seconds have passed."""
        return self._take(lambda jobs: wait(lambda ns: lib.rnl_cq_wait(self._c, jobs, most, ns),
                                            timeout, "Queue.wait()"), most, "Queue.wait()")

    def _take(self, call, most: int, what: str) -> List[Job]:
        if not isinstance(most, int) or not 1 <= most <= 1 << 20:
            raise ValueError(f"{what}: most is {most!r}; it must be 1 to {1 << 20}")
        jobs = ffi.new("struct rnl_job *[]", most)
        nr = call(jobs)
        if nr == -errno.ETIMEDOUT:
            return []
        done = [ffi.from_handle(jobs[i].user) for i in range(check(nr, what))]
        for job in done:
            job._finish()
        return done

    def is_loop_of_this_thread(self) -> bool:
        return self.loop is not None and self._loop_thread == threading.get_ident()

    def __del__(self):
        # The jobs that use it keep it: so none is under way.
        if getattr(self, "_c", None) and self._born == forks.number():
            lib.rnl_cq_destroy(self._c)


_loops: dict = {}		# asyncio loop -> its queue


def sweep() -> None:
    """Forgets loops that have ended, once their jobs are done."""
    for loop, queue in list(_loops.items()):
        if loop.is_closed():
            while queue.reap():
                pass
            if not any(job._queue is queue for job in list(_live)):
                _loops.pop(loop, None)


def loop_queue() -> Optional[Queue]:
    """The queue of the event loop that runs in this thread; None: none runs."""
    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio else None
    if loop is None:
        return None
    queue = _loops.get(loop)
    if queue is None or queue._born != forks.number():
        sweep()
        queue = _loops[loop] = Queue(loop)
        loop.add_reader(queue.fileno(), queue.reap, 256)
    return queue
