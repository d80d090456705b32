# SPDX-License-Identifier: MIT
"""How examples/http_server ends: for check_http.py."""
import os
import signal
import time

import http_images as images
from http_checks import (BODIES, LINGER, SEED, SHORT, check, check_with, is_code, noise, same,
                         server, stops)
from http_client import PATIENCE, Connection, Unanswered, ask, freeze, request_bytes
from http_load import Load
from http_stop import StopUnderLoad

@check_with(LINGER, ends=None)
def sigint_and_a_second_signal_end_it_too(running):
    ask(running.port, '/wc', b'one')
    running.signal(signal.SIGINT)
    running.signal()
    running.signal(signal.SIGINT)
    same(running.wait(), (0, ''), 'exit status and standard error')


@check_with(LINGER, ends=None)
def connections_not_yet_accepted_are_answered_before_it_ends(running):
    body, want = BODIES[3]
    freeze(running.pid)
    waiting = [Connection(running.port) for _ in range(40)]
    for connection in waiting:
        connection.send(request_bytes('/wc', body))
    running.signal()
    running.signal(signal.SIGCONT)
    for connection in waiting:
        answer = connection.answer()
        is_code(answer, 200)
        same(answer.body, want, 'counts')
        assert connection.ended(), answer.headers
    same(running.wait(), (0, ''), 'exit status and standard error')


@check
def answers_that_take_long_are_waited_for():
    image = images.pnm(5, 900, 900, noise(810000))
    answered = 'http_server_answers_total{route="/sobel",code="200"}'
    with server('--linger=1', '--workers=1') as running:
        waiting = [Connection(running.port) for _ in range(8)]
        for connection in waiting:
            connection.send(request_bytes('/sobel', image))
        # On a busy machine some clients are answered before others have connected.
        came, end = 0, time.monotonic() + PATIENCE
        while came < len(waiting):
            metrics = running.metrics()
            assert time.monotonic() < end, 'requests that did not come: %r' % metrics
            came = metrics['http_server_open'] - 1 + metrics.get(answered, 0)
        running.signal()
        for connection in waiting:
            answer = connection.answer()
            is_code(answer, 200)
            same(images.decode_size(answer.body), (900, 900), 'size')
        same(running.wait(), (0, ''), 'exit status and standard error')


def answers_slow_requests(linger):
    """@linger: in ms; the pieces arrive faster."""
    with server('--linger=%d' % linger) as running:
        body, want = BODIES[3]
        data = request_bytes('/wc', body)
        slow, idle = Connection(running.port), Connection(running.port)
        is_code(idle.ask('/wc', b'one'), 200)
        slow.send(request_bytes('/wc', b'one') + data[:20])     # its answer shows that both arrived
        is_code(slow.answer(), 200)
        running.signal()
        for at in range(20, len(data), len(data) // 6 + 1):
            time.sleep(0.4e-3 * linger)
            slow.send(data[at:at + len(data) // 6 + 1])
        same(slow.answer().body, want, 'counts')
        assert idle.ended(), 'the idle connection is not closed'
        same(running.wait(), (0, ''), 'exit status and standard error')


@check
def a_request_that_comes_slowly_is_answered_before_it_ends():
    try:
        answers_slow_requests(500)
    except Unanswered:          # the machine is too busy to send the pieces in time
        answers_slow_requests(10000)


def await_jobs(running, number):
    while not any(name.startswith('rnl_jobs_unfinished') and value == number
                  for name, value in running.metrics().items()):
        time.sleep(0.01)


def hangs(body, grace):
    """Sends a request that holds the only worker, and one that is queued after it; then ends the
    server, in @grace seconds; in the last quarter the pool is stopped. Returns whether both
    requests that can be answered are, the exit status and standard error."""
    with server('--grace=%d' % grace, '--workers=1', '--allow-crash') as running:
        held, queued = Connection(running.port), Connection(running.port)
        held.send(request_bytes('/hang', body))
        await_jobs(running, 1)
        queued.send(request_bytes('/wc', b'one'))
        await_jobs(running, 2)
        running.signal()
        try:
            for connection in (queued,) if body else (queued, held):
                is_code(connection.answer(), 503)
        except Unanswered:
            return False, running.wait()
        return True, running.wait()


# A machine may be too busy for the shorter graces.
GRACES = (4, 8, 32)


@check
def a_handler_that_asks_ends_before_the_grace():
    for grace in GRACES:
        ended = hangs(b'', grace)
        if ended == (True, (0, '')):
            break
    same(ended, (True, (0, '')), 'answers, exit status and standard error')


@check
def a_handler_that_hangs_is_named_when_the_grace_is_over():
    for grace in GRACES:
        answered, (status, errors) = hangs(b'x', grace)
        # SIGALRM: its last messages took too long. 2: a loop had not closed its answered
        # connections.
        if answered and status != -signal.SIGALRM and ' is over: 2 requests' not in errors:
            break
    assert answered, errors
    same(status, 1, 'exit status')
    assert '/hang is held by its function for ' in errors, errors
    assert 'the grace of %d s is over: 1 requests' % grace in errors, errors


@check
def under_load_every_request_is_answered_before_it_ends():
    for number in range(1 if SHORT else 10):
        with server(LINGER, '--workers=2') as running:
            load = StopUnderLoad(running, BODIES, images.png(120, 90, noise(10800)), SEED + number)
            load.run(0.5)
            same(running.wait(), (0, ''), 'exit status and standard error')
            load.judge()
            print('# %s' % load)


@check_with(LINGER, '--handler=sync', ends=None)
def under_load_sync_ends_in_the_same_way(running):
    load = StopUnderLoad(running, BODIES, images.png(120, 90, noise(10800)), SEED)
    load.run(0.5)
    same(running.wait(), (0, ''), 'exit status and standard error')
    load.judge()


def under_the_load_of_wrk_all_is_right_and_memory_flat():
    with server(LINGER) as running:
        load = Load(running, BODIES)
        load.run(float(os.environ.get('HTTP_SECONDS', 20)))
        print('# %s' % load)
        load.judge()
        running.settled()
        stops(running)
