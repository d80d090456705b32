# SPDX-License-Identifier: MIT
"""What the tests of the package share."""
import os
import subprocess
import sys
import threading
import time

import runnel

DEVICE = os.environ.get("RNL_TEST_DEVICE", "host")
ON_HOST = DEVICE == "host"
# Seconds: the limit of waits that should end, long enough for a busy machine.
LONG = 60 * float(os.environ.get("RNL_TEST_SCALE", 1))


def pool(nr_workers=2, **attributes):
    return runnel.Pool(nr_workers, DEVICE, **attributes)


class Gate:
    """Jobs that call gate.wait() stay on their workers until gate.open() or the end of a `with`."""

    def __init__(self):
        self.entered = threading.Semaphore(0)
        self._open = threading.Event()

    def wait(self, value=None):
        self.entered.release()
        if not self._open.wait(LONG):
            raise TimeoutError("nobody opened the gate")
        return value

    def await_entered(self, nr=1):
        for _ in range(nr):
            assert self.entered.acquire(timeout=LONG)

    def open(self):
        self._open.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()


def error_of(job):
    """The exception that result() of a job raises."""
    try:
        return job.exception(LONG)
    except runnel.Cancelled as error:
        return error


def comes_true(condition):
    """Whether a condition comes true in time."""
    end = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def program(text):
    """Starts a Python program in its own process; it can use `runnel`, `pool` and `Gate`."""
    head = ("import os, signal, sys, threading, time\n"
            f"sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
            "import runnel\nfrom shared import Gate, comes_true, pool\n")
    # Since 3.12 Python warns of each fork() of a process that has threads.
    return subprocess.Popen([sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c",
                             head + text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def ended(process, send=""):
    """Status, output and messages of a program that ends by itself."""
    try:
        out, err = process.communicate(send, timeout=LONG)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"it hangs: {process.communicate()}") from None
    return process.returncode, out, err
