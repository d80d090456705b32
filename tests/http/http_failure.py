# SPDX-License-Identifier: MIT
"""examples/http_server when its device fails permanently: for check_http.py."""
import json
import time

import http_images as images
from http_checks import (BODIES, DEVICE, LINGER, SEED, Skip, check, is_code, noise, same,
                         server)
from http_client import PATIENCE, SCALE, Broken, Connection, Unanswered, ask, request_bytes
from http_stop import StopUnderLoad

WORKERS = '--workers=8'
CRASHES = '--allow-crash'
# The limit is two periods of the watchdog, of 100 ms each. A busy machine may exceed it, so one of
# the tries within PATIENCE must be in time.
DEFINITE_S = 0.2 * SCALE
HAS_FAILED = b'the device has failed'


def needs_a_device():
    if DEVICE == 'host':
        raise Skip('the host device does not fail: its process dies')


class FailUnderLoad(StopUnderLoad):
    """Like the base class, but an answer may be 503 if the device has failed."""

    def __init__(self, running, fresh):
        """@fresh: another process takes over, and may answer 200 after the failure."""
        image = images.png(120, 90, noise(10800))
        super().__init__(running, BODIES, image, SEED)
        answer = ask(running.port, '/sobel', image)
        is_code(answer, 200)
        self.edges, self.fresh, self.unavailable = answer.body, fresh, 0

    def __str__(self):
        return '%s; %d times 503' % (super().__str__(), self.unavailable)

    def judge_answer(self, answer, want, failed):
        if answer.code != 503:
            super().judge_answer(answer, want, failed and not self.fresh)
        elif HAS_FAILED in answer.body:
            self.count('unavailable')
        else:
            raise Broken('503 %.100r' % answer.body)

    def may_close_idle(self):
        return self.stopping or self.fresh

    def judge(self):
        super().judge()
        assert self.unavailable, 'no client met the failure: %s' % self


def crash(running, health=None):
    """Makes the device fail. Returns the seconds until /healthz, asked on the connection @health,
    reports the failure."""
    began = time.monotonic()
    connection = Connection(running.port)
    connection.send(request_bytes('/crash', b''))
    while health:
        answer = health.ask('/healthz')
        # On a busy machine a worker may be stuck meanwhile.
        if answer.code == 503 and json.loads(answer.body)['state'] != 'stuck':
            break
        assert answer.code in (200, 503), answer.code
        assert time.monotonic() - began < PATIENCE, 'the device does not fail'
    seconds = time.monotonic() - began
    if health:
        says = json.loads(answer.body)
        same((says['state'], says['device_error']), ('failed', 700), 'state')
        assert HAS_FAILED.decode() in says['reason'] and '700' in says['reason'], says
    answer = connection.answer()
    is_code(answer, 503)
    assert HAS_FAILED in answer.body, answer.body
    return seconds


def check_failed(running):
    """Checks the answers of a server that stays after its device has failed."""
    connection = Connection(running.port)
    for path, body in (('/wc', b'one'), ('/wc', b''), ('/sobel', images.pnm(5, 3, 3, noise(9))),
                       ('/crash', b'')):
        answer = connection.ask(path, body)
        is_code(answer, 503)
        assert HAS_FAILED in answer.body and 'retry-after' in answer.headers, answer.body
    is_code(connection.ask('/healthz'), 503)
    is_code(connection.ask('/healthz', method='HEAD'), 503)
    is_code(connection.ask('/nope'), 404)
    metrics = running.metrics()
    assert 3 in (value for name, value in metrics.items() if 'health' in name), metrics


def says_why(errors, lines):
    """Checks for the library's message, which each process prints once."""
    reason = 'failed (CUDA error 700): every job gets -EIO'
    same(errors.count(reason), lines, 'reasons in: ' + errors)


@check
def there_is_no_crash_unless_allowed():
    with server() as running:
        is_code(ask(running.port, '/crash', b''), 404)
        same(running.stop(), (0, ''), 'exit status and standard error')
    with server(CRASHES) as running:
        is_code(ask(running.port, '/crash'), 405)
        same(running.stop(), (0, ''), 'exit status and standard error')


@check
def healthz_tells_of_a_failure_within_200_ms():
    needs_a_device()
    took, began = [], time.monotonic()
    while min(took, default=PATIENCE) > DEFINITE_S and time.monotonic() - began < PATIENCE:
        with server(WORKERS, CRASHES) as running:
            is_code(ask(running.port, '/wc', b'one'), 200)
            health = Connection(running.port)
            is_code(health.ask('/healthz'), 200)
            took.append(crash(running, health))
            check_failed(running)
            status, errors = running.stop()
            same(status, 0, 'exit status')
            says_why(errors, 1)
    print('# from the request to 503: %s ms' % ', '.join('%.0f' % (s * 1000) for s in took))
    assert min(took) <= DEFINITE_S, 'never within %.1f s' % DEFINITE_S


def fails_under_load(*options):
    """Returns the server's standard error."""
    needs_a_device()
    with server(LINGER, WORKERS, CRASHES, *options) as running:
        load = FailUnderLoad(running, False)
        load.start()
        time.sleep(0.5)
        seconds = crash(running, Connection(running.port))
        load.failed = True
        check_failed(running)
        time.sleep(0.2)
        began = time.monotonic()
        load.stop()
        status, errors = running.wait()
        print('# %s; %.0f ms to 503 under load, %.1f s to end' % (
            load, seconds * 1000, time.monotonic() - began))
        load.judge()
        assert status == 0, 'exit status %s: %s' % (status, errors)
        return errors


@check
def under_load_a_failure_is_503_and_nothing_is_wrong():
    says_why(fails_under_load(), 1)


@check
def under_load_sync_fails_in_the_same_way():
    # No job of a worker fails, so the library prints no message.
    same(fails_under_load('--handler=sync'), '', 'standard error')


def leaves(linger):
    with server('--linger=%d' % linger, '--exit-on-failure', CRASHES) as running:
        idle, slow = Connection(running.port), Connection(running.port)
        is_code(idle.ask('/wc', b'one'), 200)
        data = request_bytes('/wc', b'x' * 100)
        slow.send(data[:-50])
        crash(running)
        slow.send(data[-50:])
        answer = slow.answer()
        is_code(answer, 503)
        assert slow.ended() and idle.ended(), 'connections are left open'
        status, errors = running.wait()
        same(status, 75, 'exit status')
        says_why(errors, 1)


@check
def a_server_that_is_to_leave_exits_with_75():
    needs_a_device()
    try:
        leaves(500)
    except Unanswered:          # the machine is too busy to send the rest in time
        leaves(10000)


@check
def with_sync_it_exits_with_75_too():
    needs_a_device()
    with server('--handler=sync', '--exit-on-failure', CRASHES) as running:
        crash(running)
        status, errors = running.wait()
        same((status, errors), (75, ''), 'exit status and standard error')


def leaves_a_client(grace, linger):
    """Returns the exit status and standard error."""
    with server('--exit-on-failure', '--grace=%d' % grace, '--linger=%d' % linger,
                CRASHES) as running:
        slow = Connection(running.port)
        slow.send(request_bytes('/wc', b'x' * 10000)[:-9900])
        began = time.monotonic()
        crash(running)
        while running.process.poll() is None:
            slow.send(b'x')
            time.sleep(0.05)
            assert time.monotonic() - began < PATIENCE, 'it does not end'
        return running.wait()


@check
def a_server_that_is_to_leave_does_not_wait_for_clients():
    needs_a_device()
    # A failure cuts --grace to a fifth. A server too busy to read for --linger drops the client.
    for grace in (10, 40):
        status, errors = leaves_a_client(grace, grace * 190)
        if status == 1:
            break
    same(status, 1, 'exit status')
    assert 'the grace of %d s is over' % (grace // 5) in errors, errors
