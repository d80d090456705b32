# SPDX-License-Identifier: MIT
"""Sockets that a parent passes to examples/http_server, like systemd. For check_http.py."""
import os
import shutil
import signal
import socket
import subprocess
import threading

from http_checks import (BODIES, DEVICE, LINGER, Skip, check, in_threads, is_code, same, server,
                         stops, until)
from http_client import PATIENCE, Connection, Server, ask, passing, request_bytes
from http_supervise import SUPERVISE, serves_again, stops_all, the_child

BODY = 3        # of BODIES: short


def listening(family=socket.AF_INET, kind=socket.SOCK_STREAM, host='127.0.0.1'):
    passed = socket.socket(family, kind)
    passed.bind((host, 0))
    if kind == socket.SOCK_STREAM:
        passed.listen(socket.SOMAXCONN)
    return passed


def port_of(passed):
    return passed.getsockname()[1]


@check
def one_socket_that_is_passed_serves_all_loops():
    with listening() as passed:
        with server('--loops=2', '--slots=2', '--workers=4', '--allow-crash',
                    sockets=[passed]) as running:
            same(running.port, port_of(passed), 'port')
            held = Connection(running.port)
            held.send(request_bytes('/hang', b''))
            # That loop has no slot left, so the other loop gives all answers.
            until(lambda: running.metrics()['http_server_slots_used'] == 1,
                  'the request does not come')
            until(lambda: ask(running.port, '/wc', b'one').code == 200,
                  'one loop accepts all connections')
            held.reset()
            running.process.kill()
            running.wait()


@check
def under_load_loops_that_share_a_socket_answer_all():
    def work(index):
        for body, want in BODIES[index::8]:
            answer = ask(running.port, '/wc', body)
            is_code(answer, 200)
            same(answer.body, want, 'counts of %d bytes' % len(body))

    with listening() as passed:
        with server('--loops=5', sockets=[passed]) as running:
            in_threads(work, 8)
            stops(running)


@check
def several_sockets_that_are_passed_are_all_served():
    passed = [listening() for _ in range(3)]
    with server('--loops=4', sockets=passed) as running:
        for each in passed:
            is_code(ask(port_of(each), '/wc', b'one'), 200)
        stops(running)
    for each in passed:
        each.close()


@check
def connections_to_a_socket_that_is_passed_wait_for_the_next_process():
    body, want = BODIES[BODY]
    with listening() as passed:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with server(LINGER, sockets=[passed]) as running:
                is_code(ask(running.port, '/wc', body), 200)
                running.signal(how)
                running.wait()
            waiting = [Connection(port_of(passed)) for _ in range(10)]
            for connection in waiting:
                connection.send(request_bytes('/wc', body))
            with server(LINGER, sockets=[passed]) as running:
                for connection in waiting:
                    answer = connection.answer()
                    is_code(answer, 200)
                    same(answer.body, want, 'counts')
                stops(running)


@check
def a_lost_process_hands_a_socket_that_is_passed_to_the_next_one():
    with listening() as passed:
        with server(SUPERVISE, sockets=[passed]) as running:
            lost = the_child(running)
            os.kill(lost, signal.SIGKILL)
            serves_again(running, lost)
            stops_all(running)


@check
def processes_share_a_socket_that_is_passed():
    with listening() as passed:
        with server('--processes=3', '--loops=2', sockets=[passed]) as running:
            same(running.port, port_of(passed), 'port')
            for body, want in BODIES[:50]:
                answer = ask(running.port, '/wc', body)
                is_code(answer, 200)
                same(answer.body, want, 'counts of %d bytes' % len(body))
            stops(running)


@check
def sockets_for_another_process_are_left_alone():
    with listening() as passed:
        os.environ.update(LISTEN_PID='1', LISTEN_FDS='1')
        try:
            with server() as running:
                assert running.port != port_of(passed), 'it took the socket'
                is_code(ask(running.port, '/wc', b'one'), 200)
                stops(running)
        finally:
            del os.environ['LISTEN_PID'], os.environ['LISTEN_FDS']


def refused(sockets, number=None):
    """Returns the server's messages when it does not start."""
    before, fds = passing(sockets, number)
    ended = subprocess.run(before + [Server.PROGRAM, '--loops=2', '--device=' + DEVICE],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                           pass_fds=fds, check=False)
    same(ended.returncode, 1, 'exit status (%s)' % ended.stderr)
    same(ended.stdout, b'', 'standard output')
    return ended.stderr.decode()


@check
def sockets_that_do_not_listen_are_refused():
    with listening() as good:
        for number in ('', 'x', '0', '-1', '3', '1x', '99999999999999999999'):
            says = refused([good], number)
            assert "LISTEN_FDS is '%s': pass 1 to 2 sockets" % number in says, says
        says = refused([good], '2')         # there is no second socket
        assert 'descriptor 4 of LISTEN_FDS is not a TCP listener' in says, says
        for bad in (socket.socket(), listening(kind=socket.SOCK_DGRAM),
                    socket.socketpair()[0], open('/dev/null')):
            with bad:
                says = refused([good, bad])
                assert 'descriptor 4 of LISTEN_FDS is not a TCP listener' in says, says


@check
def systemd_socket_activate_starts_it_for_the_first_connection():
    activate = shutil.which('systemd-socket-activate')
    if not activate or DEVICE != 'host':
        raise Skip('there is no systemd-socket-activate' if not activate else 'host is enough')
    body, want = BODIES[BODY]
    # A bound socket reserves the port for the other one.
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(('127.0.0.1', 0))
        program = subprocess.Popen(
            [activate, '--listen=127.0.0.1:%d' % port_of(reserved), Server.PROGRAM,
             '--device=host', '--deadline=0', '--grace=150'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert b'Listening on' in program.stderr.readline(), 'it does not listen'
            answer = ask(port_of(reserved), '/wc', body)
            same(answer.body, want, 'counts')
            program.terminate()
            errors = program.communicate(timeout=PATIENCE)[1]
            same(program.returncode, 0, 'exit status (%s)' % errors)
        finally:
            program.kill()
            program.wait()


# ---- standard output -----------------------------------------------------------

@check
def a_full_standard_output_is_reported_at_once_and_by_the_exit_status():
    if not os.access('/dev/full', os.W_OK):
        raise Skip('there is no /dev/full')
    for options, nr in (((), 1), (('--processes=2',), 2)):
        with listening() as passed, open('/dev/full', 'wb') as full:
            first, fds = passing([passed])
            process = subprocess.Popen(
                first + [Server.PROGRAM, '--device=' + DEVICE, '--linger=100', '--deadline=0',
                         *options], stdout=full, stderr=subprocess.PIPE, pass_fds=fds)
            watch = threading.Timer(PATIENCE, process.kill)
            watch.start()
            try:
                for _ in range(nr):     # before the server's end
                    assert process.stderr.readline().endswith(
                        b': standard output: No space left on device\n'), 'no message'
                is_code(ask(port_of(passed), '/wc', b'one'), 200)
                process.send_signal(signal.SIGTERM)
                same(process.communicate(timeout=PATIENCE)[1], b'', 'more messages')
                same(process.returncode, 1, 'exit status')
            finally:
                watch.cancel()
                process.kill()
                process.wait()
