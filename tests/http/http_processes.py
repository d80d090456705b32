# SPDX-License-Identifier: MIT
"""examples/http_server --processes=N: the losses if one of several processes dies, and renewals by
SIGHUP without losses. For check_http.py."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

import http_images as images
from http_checks import (BODIES, DEVICE, LINGER, SEED, Skip, check, check_with, is_code, noise,
                         same, server, until)
from http_client import (PATIENCE, SANITIZER, Broken, Connection, Server, Unanswered, ask, freeze,
                         request_bytes)
from http_failure import CRASHES
from http_stop import StopUnderLoad
from http_supervise import is_gone

THREE = '--processes=3'
NR = 3


def health(running):
    answer = ask(running.port, '/healthz')
    return answer.code, json.loads(answer.body)


def ups(running):
    """Returns which processes serve, by the metrics of any process."""
    values = running.metrics()
    return [values['http_server_process_up{process="%d"}' % i] == 1 for i in range(NR)]


def all_serve(running, without=()):
    """Waits until all processes serve and have new pids. Returns their pids."""
    pids = []

    def they_do():
        says = health(running)[1]
        pids[:] = [place['pid'] for place in says['processes']]
        return says['well'] == NR and not set(pids) & set(without)

    until(they_do, 'not all serve')
    return pids


def slots(running):
    """Returns the slots of each process; None: not reported yet."""
    values = running.metrics()
    return [values.get('http_server_slots{process="%d"}' % i) for i in range(NR)]


def ends(running):
    pids = running.children()
    status, errors = running.stop()
    same(status, 0, 'exit status (%s)' % errors)
    assert all(map(is_gone, pids)), 'an orphan of %r' % pids
    return errors


def counts_right(connection):
    body, want = BODIES[3]
    answer = connection.ask('/wc', body)
    is_code(answer, 200)
    same(answer.body, want, 'counts')


# ---- a lost process -----------------------------------------------------------------

@check_with(THREE, ends=None)
def with_one_of_three_processes_only_its_own_connections_are_lost(running):
    pids = all_serve(running)
    kept = []

    def each_has_some():        # besides this client's; a slow process gets none
        kept.append(Connection(running.port))
        counts_right(kept[-1])
        values = running.metrics()
        return len(kept) > 30 and all(
            values.get('http_server_connections{process="%d"}' % i, 0) > 1 for i in range(NR))

    until(each_has_some, 'a process has no connections')
    os.kill(pids[1], signal.SIGKILL)
    until(lambda: is_gone(pids[1]), 'it is not killed')
    lost = 0
    for connection in kept:
        try:
            counts_right(connection)
        except (Unanswered, Broken, ConnectionError):
            lost += 1
    assert 0 < lost < len(kept), '%d of %d connections are lost' % (lost, len(kept))
    now = all_serve(running, [pids[1]])
    assert [now[0], now[2]] == [pids[0], pids[2]], (pids, now)
    assert 'process %d was killed by signal 9' % pids[1] in ends(running)


@check_with(THREE, ends=ends)
def connections_to_a_process_that_does_not_serve_are_served_by_the_others(running):
    all_serve(running)
    lost = 0
    # After some short lives the pause before the next start is long.
    while lost < 6 or ups(running)[2]:
        pid = health(running)[1]['processes'][2]['pid']
        until(lambda: ups(running)[2] or health(running)[1]['processes'][2]['pid'] != pid,
              'it does not come back')
        pid = health(running)[1]['processes'][2]['pid']
        if pid in running.children():
            os.kill(pid, signal.SIGKILL)
            until(lambda gone=pid: is_gone(gone), 'it is not killed')
            lost += 1
    tried = 0
    while not ups(running)[2]:
        for _ in range(10):         # a third of them reach the sockets of the lost process
            counts_right(Connection(running.port))
        tried += 10
    print('# %d connections were served before it was back' % tried)
    all_serve(running)


@check_with(THREE, CRASHES, '--stuck=10', '--grace=20', ends=None)
def a_process_that_hangs_is_replaced_and_the_others_serve(running):
    before = all_serve(running)
    hanging = Connection(running.port)
    hanging.send(request_bytes('/hang', b''))
    until(lambda: set(running.children()) != set(before), 'it is not replaced')
    counts_right(Connection(running.port))
    try:
        is_code(hanging.answer(), 503)
    except Unanswered:
        pass
    all_serve(running)
    assert 'a worker does not come back from a request for 10 s' in ends(running)


@check_with(THREE, '--stuck=10', ends=None)
def a_process_that_shows_no_life_is_replaced(running):
    pids = all_serve(running)
    freeze(pids[0])
    until(lambda: is_gone(pids[0]), 'it is not killed')
    all_serve(running, [pids[0]])
    assert 'process %d: loop' % pids[0] in ends(running)


# ---- one process answers for all -----------------------------------------------------------

@check_with(THREE, '--loops=1', ends=ends)
def any_process_tells_of_all(running):
    pids = all_serve(running)
    nr_asked = 0

    def answers_of_each():
        """None: who tells of them does not know of all yet."""
        values = running.metrics()
        name = 'http_server_answers_total{process="%d",route="/wc",code="200"}'
        answers = [values.get(name % i, 0) for i in range(NR)]
        return answers if sum(answers) == nr_asked else None

    def several_answer():       # on a busy machine one may answer all requests
        nonlocal nr_asked
        for _ in range(30):
            counts_right(Connection(running.port))
        nr_asked += 30
        answers = until(answers_of_each, 'not all answers are counted')
        return sum(nr > 0 for nr in answers) > 1

    until(several_answer, 'one process answers all')
    text = ask(running.port, '/metrics').body.decode()
    heads = [line for line in text.splitlines() if line.startswith('#')]
    same(len(heads), len(set(heads)), 'heads')

    def all_are_well():         # on a busy machine a heartbeat may be late
        code, says = health(running)
        same((code, len(says['processes'])), (200, NR), 'health')
        return says['state'] == 'ok'

    until(all_are_well, 'not all are well')

    def live():
        return json.loads(ask(running.port, '/live').body)['processes']

    until(lambda: sorted(one['pid'] for one in live()) == sorted(pids), 'not all are live')
    until(lambda: sum(one['answers'].get('/wc', {}).get('200', 0) for one in live()) ==
          nr_asked, 'not all answers are live')
    freeze(pids[2])
    os.kill(pids[2], signal.SIGKILL)
    until(lambda: health(running)[1]['state'] == 'degraded' or
          health(running)[1]['processes'][2]['pid'] != pids[2], 'it is not told')
    all_serve(running)


# ---- SIGHUP -------------------------------------------------------------------------

@check_with(THREE, LINGER, ends=None)
def a_renewal_under_load_loses_nothing(running):
    before = all_serve(running)
    load = StopUnderLoad(running, BODIES, images.png(120, 90, noise(10800)), SEED)
    load.may_close_idle = lambda: True
    load.start()
    running.signal(signal.SIGHUP)
    until(lambda: not set(before) & set(running.children()), 'the old ones stay')
    all_serve(running)
    load.stop()
    same(running.wait(), (0, ''), 'exit status and standard error')
    print('# %s' % load)
    load.judge()


@check
def a_renewal_reads_the_options_again():
    with tempfile.NamedTemporaryFile('w+') as options:
        options.write('# of a test\n\nslots=16\nprocesses=3\n')
        options.flush()
        with server('@' + options.name) as running:
            pids = all_serve(running)
            until(lambda: slots(running) == [16] * NR, 'slots')
            options.write('slots=32\n')
            options.flush()
            running.signal(signal.SIGHUP)
            pids = all_serve(running, pids)
            until(lambda: slots(running) == [32] * NR, 'slots')
            options.write('loops=7\n')         # more loops than sockets
            options.flush()
            running.signal(signal.SIGHUP)
            until(lambda: b'does not begin to serve' in running.errors, 'no message')
            same(all_serve(running), pids, 'processes')
            ends(running)


@check
def a_place_whose_old_process_dies_in_a_renewal_is_served_by_the_others():
    with tempfile.TemporaryDirectory() as folder:
        name = folder + '/options'
        with open(name, 'w') as options:
            options.write('slots=16\n')
        with server(THREE, '@' + name) as running:
            pids = all_serve(running)
            os.rename(name, folder + '/kept')
            os.mkfifo(name)                     # a fresh process waits for it
            running.signal(signal.SIGHUP)
            until(lambda: len(running.children()) == NR + 1, 'no process begins')
            os.kill(pids[0], signal.SIGKILL)
            until(lambda: not ups(running)[0], 'it still serves')
            for _ in range(30):
                counts_right(Connection(running.port))
            os.rename(folder + '/kept', name)
            for pid in set(running.children()) - set(pids):
                os.kill(pid, signal.SIGKILL)
            all_serve(running, pids[:1])
            ends(running)


@check
def two_renewals_end_with_the_last_options():
    with tempfile.NamedTemporaryFile('w+') as options:
        with server(THREE, '@' + options.name) as running:
            pids = all_serve(running)
            for slots_wanted in (16, 32, 48):
                options.write('slots=%d\n' % slots_wanted)
                options.flush()
                running.signal(signal.SIGHUP)
                until(lambda: set(running.children()) - set(pids), 'no process begins')
            until(lambda: slots(running) == [48] * NR, 'slots')
            ends(running)


@check
def a_fresh_process_that_ends_well_ends_no_other():
    with tempfile.NamedTemporaryFile('w+') as options:
        with server(THREE, '@' + options.name) as running:
            pids = all_serve(running)
            options.write('help\n')
            options.flush()
            os.kill(pids[1], signal.SIGKILL)
            until(lambda: running.errors.count(b'starting another') > 1, 'none was started')
            counts_right(Connection(running.port))
            options.truncate(0)
            all_serve(running, pids[1:2])
            ends(running)


@check
def without_a_reader_of_its_messages_the_parent_goes_on():
    reading, writing = os.pipe()
    with server(THREE, before=lambda: os.dup2(writing, 2)) as running:
        os.close(writing)
        os.close(reading)
        pids = all_serve(running)
        os.kill(pids[1], signal.SIGKILL)
        all_serve(running, pids[1:2])
        ends(running)


@check
def a_program_that_does_not_start_replaces_none():
    if SANITIZER:
        raise Skip('the copy of the program does not find its library')
    with tempfile.TemporaryDirectory() as folder:
        copy, program = folder + '/http_server', Server.PROGRAM
        real = os.path.realpath(program)
        shutil.copy(real, copy)
        paths = os.path.dirname(os.path.dirname(os.path.dirname(real)))
        os.environ['LD_LIBRARY_PATH'] = ':'.join(
            filter(None, [paths, os.environ.get('LD_LIBRARY_PATH')]))
        Server.PROGRAM = copy
        try:
            with server(THREE) as running:
                pids = all_serve(running)
                os.remove(copy)
                running.signal(signal.SIGHUP)
                until(lambda: b'all processes stay' in running.errors, 'no message')
                with open(copy, 'w') as script:
                    script.write('#!/bin/false\n')
                os.chmod(copy, 0o755)
                running.signal(signal.SIGHUP)
                until(lambda: b'does not begin to serve' in running.errors, 'no message')
                same(all_serve(running), pids, 'processes')
                counts_right(Connection(running.port))
                os.remove(copy)
                shutil.copy(real, copy)
                running.signal(signal.SIGHUP)
                until(lambda: not set(pids) & set(running.children()), 'the old ones stay')
                all_serve(running)
                ends(running)
        finally:
            Server.PROGRAM = program


@check_with(THREE, ends=None)
def a_signal_of_a_stranger_is_no_order_to_leave(running):
    """SIGUSR1, SIGUSR2 and SIGHUP to a process that a parent started change nothing."""
    pids = all_serve(running)
    for pid in pids:
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            os.kill(pid, number)
    for _ in range(30):
        counts_right(Connection(running.port))
    same(all_serve(running), pids, 'processes')
    running.signal(signal.SIGHUP)       # an order of the parent still works
    until(lambda: not set(pids) & set(running.children()), 'the old ones stay')
    all_serve(running, pids)
    same(ends(running), '', 'messages')


# ---- the command line ----------------------------------------------------------------

@check
def gpus_that_are_wrong_are_refused():
    for options, status, says in (
            (('--gpus=0,0',), 2, 'a GPU is named twice'),
            (('--gpus=0,',), 2, 'give all, or numbers of GPUs, such as 0,1'),
            (('--gpus=some',), 2, 'give all, or numbers of GPUs, such as 0,1'),
            (('--gpus=0', '--processes=2'), 2, '--processes is for the host'),
            (('--gpus=0', '--device=host'), 2, 'leave --device out'),
            (('--gpus=63',), 1, "no GPU answers as 'cuda:63'"),
            (('@/nonexistent/file',), 2, '/nonexistent/file: No such file or directory'),
            (('--grace=0',), 2, 'give a number from 1 to 3600'),
            (('--processes=17',), 2, 'give a number from 1 to 16')):
        ended = subprocess.run([Server.PROGRAM, '--listen=127.0.0.1:0', *options],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                               check=False)
        same(ended.returncode, status, 'exit status of %r (%r)' % (options, ended.stderr))
        same(ended.stdout, b'', 'standard output')
        assert says in ended.stderr.decode(), ended.stderr
    if DEVICE == 'host':
        return
    with Server('--gpus=all', '--linger=100', '--deadline=0', '--grace=150',
                device='auto') as running:
        counts_right(Connection(running.port))
        ends(running)
