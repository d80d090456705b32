# SPDX-License-Identifier: MIT
"""examples/http_server --processes: lost processes are replaced.  For check_http.py."""
import os
import signal
import subprocess
import time

import http_images as images
from http_checks import (BODIES, DEVICE, LINGER, SEED, Skip, check, check_with, is_code, noise,
                         same, server, until)
from http_client import (PATIENCE, SANITIZER, Broken, Connection, Server, Unanswered, ask, freeze,
                         request_bytes, state_of)
from http_failure import CRASHES, WORKERS, FailUnderLoad, crash, needs_a_device, says_why
from http_stop import StopUnderLoad

SUPERVISE = '--processes=1'


def is_gone(pid):
    return state_of('/proc/%d/stat' % pid) == 'Z'


def the_child(running):
    children = running.children()
    same(len(children), 1, 'children')
    return children[0]


def serves_again(running, lost):
    """Waits for a right answer by another process than @lost; no client is refused meanwhile.
    Returns the seconds."""
    body, want = BODIES[3]
    began = time.monotonic()
    while True:
        try:
            answer = ask(running.port, '/wc', body)
        except (Unanswered, Broken, ConnectionResetError):
            answer = None       # it reached the lost process
        if answer and answer.code == 200:
            same(answer.body, want, 'counts')
            if running.children() not in ([], [lost]):
                break
        assert time.monotonic() - began < PATIENCE, 'it does not serve again'
    assert is_gone(lost), 'process %d is still there' % lost
    the_child(running)
    return time.monotonic() - began


def stops_all(running):
    """Ends the server by a signal to the parent. Returns its standard error."""
    child = the_child(running)
    status, errors = running.stop()
    same(status, 0, 'exit status (%s)' % errors)
    assert is_gone(child), 'process %d is an orphan' % child
    return errors


# ---- the device fails ---------------------------------------------------------

@check
def a_process_that_failed_is_replaced_again_and_again():
    needs_a_device()
    # The crash hits a process with many loops that have just started.
    with server(LINGER, SUPERVISE, WORKERS, '--loops=32', CRASHES) as running:
        took = []
        for _ in range(3):
            lost = the_child(running)
            crash(running)
            took.append(serves_again(running, lost))
        print('# served again after %s s' % ', '.join('%.2f' % s for s in took))
        errors = stops_all(running)
        says_why(errors, 3)
        same(errors.count('leaves a failed device or a stuck worker: starting another'), 3, errors)


@check
def under_load_no_client_is_lost_when_a_process_is_replaced():
    needs_a_device()
    with server(LINGER, SUPERVISE, WORKERS, CRASHES) as running:
        load = FailUnderLoad(running, True)
        load.start()
        for _ in range(2):
            time.sleep(0.5)
            lost = the_child(running)
            crash(running)
            serves_again(running, lost)
        load.stop()
        status, errors = running.wait()
        print('# %s' % load)
        load.judge()
        same(status, 0, 'exit status')
        says_why(errors, 2)


@check
def a_kernel_with_an_illegal_address_ends_a_process_of_the_host_device():
    if DEVICE != 'host':
        raise Skip('here it is the device that fails')
    if SANITIZER:
        raise Skip('it would be a report of the sanitizer\'s')
    with server(SUPERVISE, CRASHES) as running:
        lost = the_child(running)
        connection = Connection(running.port)
        connection.send(request_bytes('/crash', b''))
        assert connection.ended(), 'it is answered'
        serves_again(running, lost)
        assert 'process %d was killed by signal 11' % lost in stops_all(running)


# ---- it is killed -------------------------------------------------------------

@check_with(SUPERVISE, ends=None)
def a_process_that_is_killed_is_replaced(running):
    for _ in range(2):
        lost = the_child(running)
        os.kill(lost, signal.SIGKILL)
        serves_again(running, lost)
    errors = stops_all(running)
    same(errors.count('was killed by signal 9'), 2, errors)


@check_with(SUPERVISE, ends=stops_all)
def clients_that_wait_to_be_accepted_are_served_by_the_next_process(running):
    body, want = BODIES[3]
    lost = the_child(running)
    freeze(lost)
    waiting = [Connection(running.port) for _ in range(20)]
    for connection in waiting:
        connection.send(request_bytes('/wc', body))
    os.kill(lost, signal.SIGKILL)
    for connection in waiting:
        answer = connection.answer()
        is_code(answer, 200)
        same(answer.body, want, 'counts')


@check_with(LINGER, SUPERVISE, CRASHES, '--workers=2', '--loops=1', ends=stops_all)
def sockets_that_a_lost_process_had_deafened_are_heard_again(running):
    lost = the_child(running)
    hangs, other = Connection(running.port), Connection(running.port)
    is_code(other.ask('/wc', b'one'), 200)
    # At its end the process waits for /hang; the answer shows that both have arrived.
    hangs.send(request_bytes('/wc', b'one') + request_bytes('/hang', b''))
    is_code(hangs.answer(), 200)
    os.kill(lost, signal.SIGTERM)
    while not other.ask('/wc', b'one').closes:
        pass
    os.kill(lost, signal.SIGKILL)
    serves_again(running, lost)


@check_with(SUPERVISE, ends=None)
def it_gives_up_when_fresh_processes_are_lost_too(running):
    killed_at = [time.monotonic()]
    while running.process.poll() is None:
        assert time.monotonic() < killed_at[0] + 5 * PATIENCE, 'it does not give up'
        for child in running.children():
            os.kill(child, signal.SIGKILL)
            until(lambda pid=child: is_gone(pid), 'it is not killed')
            killed_at.append(time.monotonic())
        time.sleep(0.01)
    status, errors = running.wait()
    same(status, 1, 'exit status')
    # There are more if, on a busy machine, a process lived for 10 s, which does not count as a
    # failure.
    lives = max(after - before for before, after in zip(killed_at, killed_at[1:]))
    nr_killed = errors.count('was killed by signal 9')
    assert nr_killed == 6 or (nr_killed > 6 and lives > 9), '%.1f s: %s' % (lives, errors)
    assert 'gives up: 6 processes in a row' in errors, errors


# ---- it ends ------------------------------------------------------------------

@check_with(LINGER, SUPERVISE, '--workers=2', ends=None)
def under_load_the_parent_ends_as_its_child_does(running):
    child = the_child(running)
    load = StopUnderLoad(running, BODIES, images.png(120, 90, noise(10800)), SEED)
    load.run(0.5)
    same(running.wait(), (0, ''), 'exit status and standard error')
    assert is_gone(child), 'an orphan'
    load.judge()


@check_with(SUPERVISE, ends=None)
def a_signal_to_the_child_ends_both(running):
    child = the_child(running)
    os.kill(child, signal.SIGINT)
    same(running.wait(), (0, ''), 'exit status and standard error')
    assert is_gone(child), 'an orphan'


@check_with(SUPERVISE, '--grace=1', ends=None)
def a_process_that_does_not_end_is_killed(running):
    child = the_child(running)
    freeze(child)
    status, errors = running.stop()
    same(status, 1, 'exit status')
    same(errors.count('process %d does not end' % child), 1, errors)
    assert is_gone(child), 'an orphan'


@check_with(SUPERVISE, ends=None)
def the_child_of_a_parent_that_is_killed_ends_too(running):
    child = the_child(running)
    is_code(ask(running.port, '/wc', b'one'), 200)
    running.signal(signal.SIGKILL)
    try:
        until(lambda: is_gone(child), 'an orphan')
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    same(running.wait()[0], -signal.SIGKILL, 'exit status')


@check_with(SUPERVISE, ends=None)
def a_signal_between_two_processes_ends_it(running):
    for number in range(1, 5):
        os.kill(the_child(running), signal.SIGKILL)
        until(lambda nr=number: running.errors.count(b'starting another') == nr, 'no message')
        if number < 4:
            until(running.children, 'no child')
    status, errors = running.stop()     # during a pause of 800 ms
    same(status, 0, 'exit status (%s)' % errors)
    same(running.children(), [], 'children')


@check
def a_process_that_cannot_start_is_not_started_again():
    with server() as busy:
        address = '127.0.0.1:%d' % busy.port
        for options, status, says in (
                (('--device=cuda:99',), 1, "no GPU answers as 'cuda:99'"),
                (('--listen=' + address,), 1, 'listening on %s: ' % address),
                (('--nope',), 2, "unrecognized option '--nope'")):
            ended = subprocess.run(
                [Server.PROGRAM, '--listen=127.0.0.1:0', '--device=' + DEVICE, SUPERVISE, *options],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            same(ended.returncode, status, 'exit status')
            same(ended.stdout, b'', 'standard output')
            errors = ended.stderr.decode()
            same(errors.count(says), 1, errors)
            assert 'starting another' not in errors, errors
        busy.stop()
