# SPDX-License-Identifier: MIT
"""asyncio: wakes coroutines that await jobs, and refuses calls that would stop a loop."""
from __future__ import annotations

import collections
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Deque, Optional

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

_thread = threading.local()	# .inbox: of the loop that this thread ran last


def running_loop() -> Optional["asyncio.AbstractEventLoop"]:
    """Returns the event loop that runs in this thread, or None; does not import asyncio."""
    # While another thread imports asyncio, the module may lack this name.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return running() if running else None


def refuse_in_loop(what: str, instead: str) -> None:
    """Raises RuntimeError in a thread that runs an event loop."""
    if running_loop() is not None:
        raise RuntimeError(f"{what} would stop the event loop while it waits; {instead}")


async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
    """Makes a call that waits in another thread, while the loop goes on."""
    import asyncio
    return await asyncio.get_running_loop().run_in_executor(None, call, *args)


class Inbox:
    """The futures of a loop whose jobs are done; one call of the loop wakes all of them."""

    def __init__(self, loop: "asyncio.AbstractEventLoop"):
        self._loop = weakref.ref(loop)
        self._done: Deque["asyncio.Future[None]"] = collections.deque()
        self._is_called = False		# the loop will call _wake()

    def put(self, future: "asyncio.Future[None]") -> None:
        self._done.append(future)
        loop = self._loop()
        if not self._is_called and loop is not None:
            self._is_called = True
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:	# the loop was closed
                pass

    def _wake(self) -> None:
        self._is_called = False		# first: a put() after the last popleft() calls again
        while self._done:
            future = self._done.popleft()
            if not future.done():
                future.set_result(None)


def future_of(job: "Future[Any]") -> "asyncio.Future[None]":
    """Returns a future of the running loop that is done when the job is."""
    loop = running_loop()
    if loop is None:
        raise RuntimeError("no event loop runs in this thread; use result()")
    inbox = getattr(_thread, "inbox", None)
    if inbox is None or inbox._loop() is not loop:
        inbox = _thread.inbox = Inbox(loop)
    future = loop.create_future()
    job.add_done_callback(lambda _: inbox.put(future))
    return future
