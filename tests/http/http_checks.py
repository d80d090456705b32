# SPDX-License-Identifier: MIT
"""Common parts of the checks of examples/http_server: for check_http.py."""
import functools
import glob
import os
import random
import subprocess
import sys
import threading
import time

from http_client import PATIENCE, Server

SHORT = '--short' in sys.argv
DEVICE = os.environ.get('RNL_TEST_DEVICE', 'host')
SEED = int(os.environ.get('HTTP_SEED', time.time_ns() % 1000000))
RANDOM = random.Random(SEED)
CHECKS = []
LINGER = '--linger=500'


class Skip(Exception):
    """The reason why a check cannot run here."""


def check(function):
    CHECKS.append(function)
    return function


def server(*options, **more):
    """Returns a server that ends soon; a check of the end passes LINGER. Only checks of the grace,
    or of another time limit, use short limits: on a busy machine other checks would reach them.
    After a failure the grace is a fifth, PATIENCE."""
    return Server('--linger=100', '--max-pixels=1M', '--deadline=0', '--grace=%d' % (5 * PATIENCE),
                  '--head-time=600', '--request-time=600', '--idle-time=600',
                  *options, device=DEVICE, **more)


def same(got, want, what):
    if got != want:
        raise AssertionError('%s: %.200r, not %.200r' % (what, got, want))


def stops(running):
    same(running.stop(), (0, ''), 'exit status and standard error')


def check_with(*options, ends=stops, **more):
    """Makes a function of a server a check; @ends: what ends the server; None: the function."""
    def of(function):
        @functools.wraps(function)
        def with_server():
            with server(*options, **more) as running:
                function(running)
                if ends:
                    ends(running)
        return check(with_server)
    return of


def is_code(answer, code):
    same(answer.code, code, 'code (%.100r)' % answer.body)


def until(condition, what):
    """Waits until a condition is true; @what is the error message. Returns its value."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.01)
    return value


def counts(body):
    """Returns the expected answer, computed by wc."""
    words = subprocess.run(['wc', '-lwc'], input=body, stdout=subprocess.PIPE, check=True,
                           env={**os.environ, 'LC_ALL': 'C'}).stdout.split()
    return b'{"lines":%s,"words":%s,"bytes":%s}\n' % tuple(words)


def real_bodies():
    """Returns files and generated bodies, each at most a megabyte, the server's limit."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
    files = sorted(glob.glob(top + '/src/*/*.c') + glob.glob('/usr/share/common-licenses/*'))
    if SHORT:
        files = files[::6]
    bodies = [open(name, 'rb').read(1 << 20) for name in files + ['/bin/ls', sys.executable]]
    bodies += [b'', b' ' * 50000, b'\n' * 16385, b'x', b'x' * 16384, b'a ' * 40000]
    for size in (1, 15, 16, 17, 16383, 16384, 16385, 32768, 100000, 1 << 20):
        bodies.append(RANDOM.randbytes(size))
        bodies.append(bytes(RANDOM.choices(b'ab \n\t\x01', k=min(size, 200000))))
    return [(body, counts(body)) for body in bodies]


BODIES = []


def in_threads(work, nr):
    """Calls work(index) in nr threads; the first exception is raised here."""
    failed = []

    def run(index):
        try:
            work(index)
        except BaseException as error:      # pylint: disable=broad-except
            failed.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(nr)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def noise(size):
    return RANDOM.randbytes(size)


def picture(width, height):
    """Returns a picture with flat areas and edges."""
    return bytes((x * 7 ^ y * 3) & 0xf0 if x + y > width // 2 else 30
                 for y in range(height) for x in range(width))
