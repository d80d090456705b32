# SPDX-License-Identifier: MIT
"""Completion queues, which pass done jobs to event loops other than asyncio's."""
from __future__ import annotations

import collections
import errno
import os
import select
from typing import Any, Callable, Deque, List, Optional

from . import forks
from .errors import nanoseconds, refusal
from .job import Job
from .loop import refuse_in_loop


class Queue:
    """A queue that gets jobs when they are done: Pool.options(queue=queue).submit(...).

    For event loops other than asyncio's: fileno() is readable when reap() has jobs. With an
    edge-triggered poll, reap until fewer jobs than requested are returned."""

    def __init__(self) -> None:
        self._born = forks.nr
        self._done: Deque[Job[Any]] = collections.deque()
        self._is_armed = True		# the next job makes the descriptor readable
        self._ends = os.pipe()
        for fd in self._ends:
            os.set_blocking(fd, False)

    def fileno(self) -> int:
        return self._ends[0]

    def reap(self, most: int = 64) -> List[Job[Any]]:
        """Returns at most `most` jobs that are done; does not wait."""
        return self._take(most, "Queue.reap()")

    def wait(self, most: int = 64, timeout: Optional[float] = None) -> List[Job[Any]]:
        """Like reap(), but waits for at least one job; returns [] after `timeout` seconds."""
        what = "Queue.wait()"
        left = nanoseconds(timeout, f"{what}: timeout")
        done = self._take(most, what)
        if not done and left:
            refuse_in_loop(what, "await the jobs, submitted without a queue")
            poll = select.poll()
            poll.register(self, select.POLLIN)
            poll.poll(None if left < 0 else min(left / 1e6, 2**31 - 1))
            done = self._take(most, what)
        return done

    def _take(self, most: int, what: str) -> List[Job[Any]]:
        if not isinstance(most, int) or most < 1:
            raise ValueError(f"{what}: most is {most!r}; it must be 1 at least")
        if self._born != forks.nr:
            raise refusal(-errno.EOWNERDEAD, what)
        try:
            os.read(self._ends[0], 64)
        except BlockingIOError:
            pass
        self._is_armed = True		# first: a job that comes after the last look is told
        done: List[Job[Any]] = []
        try:
            while self._done and len(done) < most:
                done.append(self._done.popleft())
        except IndexError:		# another thread reaps, too
            pass
        if self._done:
            self._tell()
        return done

    def _put(self, job: Job[Any]) -> None:
        self._done.append(job)
        if self._is_armed:
            self._tell()

    def _tell(self) -> None:
        self._is_armed = False
        os.write(self._ends[1], b"x")

    def __del__(self, close: Callable[[int], None] = os.close) -> None:	# os may be None at the end
        for fd in getattr(self, "_ends", ()):
            close(fd)
