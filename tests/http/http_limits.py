# SPDX-License-Identifier: MIT
"""Time limits of examples/http_server's clients, and immediate refusals: for check_http.py."""
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time

import http_images as images
from http_checks import (DEVICE, LINGER, check, check_with, is_code, noise, same, server, stops,
                         until)
from http_client import (PATIENCE, SANITIZER, Connection, Server, Unanswered, ask, chunked, freeze,
                         request_bytes)

# ---- time --------------------------------------------------------------------

def is_refused(connection, code, has_body=True):
    """Checks that the answer is an error, in the server's own format, and the last one."""
    answer = connection.answer(has_body)
    is_code(answer, code)
    same(answer.headers['content-type'], 'application/json', 'type')
    assert not has_body or json.loads(answer.body)['error'], answer.body
    assert answer.closes, answer.headers
    assert connection.ended(), 'it is not closed'
    return answer


def trickles(running, data):
    """Sends byte after byte until there is an answer."""
    connection = Connection(running.port)
    stop = threading.Event()

    def send():
        for at in range(len(data) - 1):
            if stop.wait(0.05):
                break
            connection.send(data[at:at + 1])

    sender = threading.Thread(target=send)
    sender.start()
    try:
        is_refused(connection, 408)
    finally:
        stop.set()
        sender.join()


@check
def clients_that_trickle_are_answered_408():
    body = request_bytes('/wc', bytes(100000))
    in_chunks = request_bytes('/wc', b'', headers=['Transfer-Encoding: chunked'])
    with server('--head-time=1') as running:
        trickles(running, b'GET /healthz HTTP/1.1\r\n' + b'A: b\r\n' * 10000)
        stops(running)
    with server('--request-time=1') as running:
        for data in (body, in_chunks + chunked(bytes(100000), 1)):
            trickles(running, data)
        stops(running)


@check_with('--idle-time=1')
def clients_that_are_silent_are_closed(running):
    new, served = Connection(running.port), None
    while not served:
        served = Connection(running.port)
        try:
            is_code(served.ask('/wc', b'one'), 200)
        except Unanswered:      # it was idle for too long
            served = None
    assert new.ended() and served.ended(), 'connections are left open'


@check_with('--request-time=%d' % (20 if SANITIZER else 2), '--max-body=16M', '--max-pixels=16M',
            '--slots=2')
def clients_that_do_not_take_their_answer_are_closed(running):
    # More than the kernel buffers for a client.
    image = images.pnm(5, 3500, 3500, noise(3500 * 3500))
    connection = Connection(running.port, takes=4096)
    # On a busy machine the answer may be a short one, which the kernel takes.
    connection.send(request_bytes('/sobel', image, headers=['Connection: close']))
    assert connection.more()
    until(lambda: running.metrics()['http_server_connections'] == 1, 'none is closed')
    running.settled()


def ends_with_tricklers(grace, linger):
    """@grace: in s; @linger: in ms, the time for which the server reads after an answer."""
    with server('--linger=%d' % linger, '--grace=%d' % grace) as running:
        data = request_bytes('/wc', bytes(10000))
        clients = [Connection(running.port) for _ in range(4)]
        for connection in clients:
            connection.send(request_bytes('/wc', b'one') + data[:20])
            is_code(connection.answer(), 200)
        running.signal()
        at = 20
        while running.process.poll() is None:
            # Data that a client sends after its answer would reset the connection and lose the
            # answer.
            answered = select.select([connection.socket for connection in clients], [], [], 0)[0]
            for connection in clients:
                if connection.socket not in answered:
                    connection.send(data[at:at + 1])
            at += 1
            time.sleep(0.02)
        ended = running.wait()
        if ended[0] == 0:
            for connection in clients:
                is_code(connection.answer(), 408)
        return ended


@check_with('--linger=100', ends=None)
def empty_lines_do_not_keep_it_from_ending(running):
    connection = Connection(running.port)
    is_code(connection.ask('/wc', b'one'), 200)
    running.signal()
    end = time.monotonic() + PATIENCE
    while running.process.poll() is None:
        assert time.monotonic() < end, 'it does not end'
        try:
            connection.send(b'\r\n')
        except OSError:
            break
        time.sleep(0.02)
    same(running.wait(), (0, ''), 'exit status and standard error')


@check
def clients_that_trickle_do_not_keep_it_from_ending():
    # A machine may be too busy for the shorter times.
    try:
        ended = ends_with_tricklers(4, 100)
    except Unanswered:
        ended = None
    if ended != (0, ''):
        ended = ends_with_tricklers(60, 7000)
    same(ended, (0, ''), 'exit status and standard error')


@check_with('--workers=1', '--slots=1', '--loops=1', '--max-body=16M', '--max-pixels=16M')
def slow_clients_hold_no_worker(running):
    # More than the kernel buffers for a client.
    image = images.pnm(5, 3000, 3000, noise(3000 * 3000))
    sending, reading = [], []
    for _ in range(3):
        sending.append(Connection(running.port))
        sending[-1].send(request_bytes('/sobel', image)[:-1])
        reading.append(Connection(running.port, takes=4096))
        reading[-1].send(request_bytes('/sobel', image))
        assert reading[-1].more()
    metrics = running.metrics()
    same(metrics['http_server_open'], 1 + len(reading), 'answers that are sent')
    same(metrics['http_server_slots_used'], 0, 'slots')
    is_code(ask(running.port, '/wc', b'one two'), 200)
    for connection in reading:
        is_code(connection.answer(), 200)
    for connection in sending:
        connection.send(image[-1:])
        is_code(connection.answer(), 200)


def slots_used(running):
    return running.metrics()['http_server_slots_used']


@check_with('--deadline=300', '--workers=1', '--slots=1', '--loops=1', '--allow-crash')
def the_deadline_bounds_the_answer_and_the_slot_comes_back(running):
    connection = Connection(running.port)
    is_code(connection.ask('/hang', b''), 504)      # hangs until it is cancelled
    until(lambda: slots_used(running) == 0, 'the slot stays used')
    # On a busy machine the next job may expire, too.
    until(lambda: connection.ask('/wc', b'one').code == 200, 'no answer')


def ends_with_a_stuck_worker(grace):
    """Returns the exit status and standard error."""
    with server('--deadline=300', '--workers=1', '--slots=4', '--loops=1', '--grace=%d' % grace,
                '--allow-crash') as running:
        hangs = Connection(running.port)

        def is_stuck():         # on a busy machine a worker may start no job in time
            is_code(hangs.ask('/hang', b'x'), 504)      # hangs forever
            return json.loads(ask(running.port, '/healthz').body)['stuck_workers'] == 1

        until(is_stuck, 'no worker hangs')
        is_code(ask(running.port, '/wc', b'one'), 504)
        is_code(hangs.ask('/metrics', method='HEAD'), 200)
        until(lambda: slots_used(running) == 1, 'the other slot stays used')
        return running.stop()


@check
def the_deadline_bounds_the_answer_whatever_a_worker_is_at():
    for grace in (4, 8, 16):
        status, errors = ends_with_a_stuck_worker(grace)
        # SIGALRM: its last messages took too long.
        if status != -signal.SIGALRM:
            break
    same(status, 1, 'exit status')
    assert '/hang is held by its function' in errors, errors


# ---- requests ----------------------------------------------------------------

@check_with('--max-body=64K')
def a_body_that_is_too_long_is_refused_before_it_comes(running):
    for headers in ([], ['Expect: 100-continue']):
        connection = Connection(running.port)
        connection.send(request_bytes('/wc', b'', headers=headers + ['Content-Length: 65537'])
                        .replace(b'Content-Length: 0\r\n', b''))
        is_refused(connection, 413)
    connection = Connection(running.port)
    connection.send(request_bytes('/wc', b'', headers=['Transfer-Encoding: chunked'])
                    + b'10001\r\n')
    is_refused(connection, 413)
    # The client reads the answer while it goes on sending.
    connection = Connection(running.port)
    connection.send(request_bytes('/wc', bytes(3000000)))
    is_refused(connection, 413)


# ---- the process -------------------------------------------------------------

@check
def other_signals_end_it_in_the_same_way_or_not_at_all():
    body = request_bytes('/wc', bytes(1000))
    for number, options in ((signal.SIGHUP, ()), (signal.SIGQUIT, ()),
                            (signal.SIGQUIT, ('--processes=1',))):
        # These tests may run under nohup themselves.
        with server(LINGER, *options,
                    before=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as running:
            slow = Connection(running.port)
            slow.send(request_bytes('/wc', b'one') + body[:-500])
            is_code(slow.answer(), 200)
            serving = running.children()[0] if options else running.pid
            freeze(serving)     # or the rest may be too late
            running.signal(signal.SIGUSR1)
            running.signal(signal.SIGUSR2)
            running.signal(number)
            slow.send(body[-500:])
            os.kill(serving, signal.SIGCONT)
            is_code(slow.answer(), 200)
            same(running.wait(), (0, ''), 'exit status and standard error')
    with server(LINGER, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as running:
        running.signal(signal.SIGHUP)
        is_code(ask(running.port, '/healthz'), 200)
        stops(running)


@check
def without_standard_descriptors_no_message_goes_to_a_client():
    found = socket.socket()
    found.bind(('127.0.0.1', 0))
    port = found.getsockname()[1]
    found.close()
    process = subprocess.Popen(
        [Server.PROGRAM, '--listen=127.0.0.1:%d' % port, '--device=' + DEVICE, '--workers=1',
         '--linger=100', '--deadline=0', '--allow-crash', '--grace=4'],
        preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
    try:
        until(lambda: socket.socket().connect_ex(('127.0.0.1', port)) == 0, 'it does not listen')
        hangs = Connection(port)
        clients = [hangs] + [Connection(port) for _ in range(4)]
        for connection in clients[1:]:
            is_code(connection.ask('/wc', b'one'), 200)
        hangs.send(request_bytes('/hang', b'x'))
        until(lambda: b'http_server_open 2\n' in clients[1].ask('/metrics').body,
              'the request does not come')
        process.send_signal(signal.SIGTERM)     # it prints a message at its end
        assert process.wait(PATIENCE) in (1, -signal.SIGALRM)
        for connection in clients:
            assert connection.ended(), connection.rest
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
