# SPDX-License-Identifier: MIT
"""Classes of requests of examples/http_server: for check_http.py."""
import json
import os
import select
import signal
import threading
import time

import http_images as images
from http_checks import (BODIES, check, check_with, in_threads, is_code, noise, same, server,
                         until)
from http_client import PATIENCE, Connection, ask, request_bytes


def of(name):
    return ['X-Class: ' + name]


def is_refused_by(answer, name, says='full'):
    """Checks a 503 that names the class. Returns its Retry-After."""
    is_code(answer, 503)
    error = json.loads(answer.body)['error']
    assert 'class %s ' % name in error and says in error, error
    assert answer.headers['retry-after'].isdecimal(), answer.headers
    seconds = int(answer.headers['retry-after'])
    assert seconds >= 1, seconds
    return seconds


def figure(running, name, of_class, process=''):
    return running.metrics()['http_server_class_%s{%sclass="%s"}' % (name, process, of_class)]


def accepted(running, name):
    """Returns the number of jobs that the pool has accepted for the class."""
    return sum(value for key, value in running.metrics().items()
               if 'class_jobs_accepted_total' in key and 'class="%s"' % name in key)


# ---- a flood -------------------------------------------------------------------

@check_with('--class=flood:0:1:4:1', '--class=steady:0:1:8', '--workers=2', '--loops=2',
            '--slots=32', '--allow-crash', ends=None)
def a_full_class_refuses_its_own_requests_and_no_others(running):
    hang = request_bytes('/hang', b'', headers=of('flood'))
    inside = [Connection(running.port) for _ in range(4)]
    for connection in inside:       # one hangs, the others are queued
        connection.send(hang)
    until(lambda: figure(running, 'requests', 'flood') == 4, 'the class is not filled')
    refused, steady = 0, Connection(running.port)
    flood = [Connection(running.port) for _ in range(8)]
    for turn in range(30):
        for connection in flood:
            connection.send(request_bytes('/wc', b'flood', headers=of('flood')))
        body, want = BODIES[turn % len(BODIES)]
        answer = steady.ask('/wc', body, headers=of('steady'))
        same((answer.code, answer.body), (200, want), 'the steady answer')
        for connection in flood:
            is_refused_by(connection.answer(), 'flood')
            refused += 1
    same(figure(running, 'refused_total', 'flood'), refused, 'refused requests')
    same(figure(running, 'refused_total', 'steady'), 0, 'refused requests of the others')
    same(figure(running, 'requests', 'flood'), 4, 'its requests')
    is_code(ask(running.port, '/healthz'), 200)


@check_with('--class=flood:0:1:2:1', '--class=steady:0:1:4', '--workers=2', '--slots=16')
def under_a_flood_each_request_gets_one_answer_and_only_the_flood_is_refused(running):
    image = images.png(200, 200, noise(40000))
    lock, codes, over = threading.Lock(), {}, threading.Event()
    end = time.monotonic() + PATIENCE

    def flood(index):
        connection = Connection(running.port)
        while not over.is_set():
            answer = connection.ask('/sobel' if index % 2 else '/wc', image, headers=of('flood'))
            if answer.code != 200:
                is_refused_by(answer, 'flood')
            with lock:
                codes[answer.code] = codes.get(answer.code, 0) + 1

    def steady(index):
        connection, turn = Connection(running.port), index
        while turn < 60 or not (codes.get(503) and codes.get(200)):
            assert time.monotonic() < end, codes
            body, want = BODIES[turn % len(BODIES)]
            answer = connection.ask('/wc', body, headers=of('steady'))
            same((answer.code, answer.body), (200, want), 'the steady answer')
            turn += 1

    def work(index):
        try:
            if index >= 3:
                flood(index)
            else:
                steady(index)
        finally:
            if index == 0:
                over.set()

    in_threads(work, 13)
    metrics = running.settled()
    same(metrics['http_server_class_refused_total{class="flood"}'], codes[503], 'refused')
    same(metrics['http_server_class_refused_total{class="steady"}'], 0, 'others refused')


@check_with('--class=flood:0:1:1', '--slots=4', '--loops=1', '--max-body=64K', '--max-pixels=10000',
            '--memory=256K')
def bodies_of_one_class_leave_the_memory_of_the_others(running):
    long = request_bytes('/wc', bytes(65536), headers=of('flood'))
    first = Connection(running.port)
    first.send(long[:-1])
    until(lambda: running.metrics()['http_server_bytes_under_way'] == 65536, 'no body')
    second = Connection(running.port)
    second.send(long[:-1])
    answer = second.answer()
    is_code(answer, 503)
    assert 'memory' in json.loads(answer.body)['error'], answer.body
    is_code(ask(running.port, '/wc', bytes(65536)), 200)
    first.send(long[-1:])
    is_code(first.answer(), 200)


# ---- Retry-After ---------------------------------------------------------------

def begin_all(running, nr, name):
    """Sends @nr requests of the class, each on its own connection."""
    connections = [Connection(running.port) for _ in range(nr)]
    for connection in connections:
        connection.send(request_bytes('/wc', b'one', headers=of(name)))
    return connections


@check_with('--class=slow:0:1:50:0:1', '--loops=1', ends=None)
def retry_after_predicts_when_a_class_has_done_its_work(running):
    clients = {connection.socket: connection for connection in begin_all(running, 60, 'slow')}
    answers = []

    def is_refused():       # the class lets in 51, and one more a second
        for answered in select.select(clients, [], [], 1)[0]:
            answers.append(clients.pop(answered).answer())
        return any(answer.code == 503 for answer in answers)

    until(is_refused, 'none is refused')
    for answer in answers:
        if answer.code == 503:
            assert 30 <= is_refused_by(answer, 'slow') <= 51, answer.headers
        else:
            is_code(answer, 200)


@check_with('--class=slow:0:1:50:0:1', '--loops=1', '--deadline=2000')
def a_request_that_would_be_too_late_is_refused_at_once(running):
    refused = []

    def is_seen():
        for connection in begin_all(running, 20, 'slow'):
            answer = connection.answer()
            connection.close()
            if answer.code == 503:
                refused.append(is_refused_by(answer, 'slow', 'in time'))
            assert answer.code in (200, 503, 504), answer.code
        return refused

    until(is_seen, 'none is refused')
    is_code(ask(running.port, '/wc', b'other'), 200)


# ---- whose request it is -------------------------------------------------------

@check_with('--class=gold:-1', '--class=/wc:1:2', '--class=other:3:1:5')
def the_header_chooses_the_class_then_the_path(running):
    image = images.png(30, 20, noise(600))
    wanted = {'gold': 0, '/wc': 0, 'other': 0}
    for path, body, headers, name, jobs in (
            ('/wc', b'one', [], '/wc', 1), ('/wc', b'one', ['x-class: gold'], 'gold', 1),
            ('/sobel', image, [], 'other', 2), ('/sobel', image, of('gold'), 'gold', 2),
            ('/wc', b'one', of(' other '), 'other', 1)):
        is_code(ask(running.port, path, body, headers=headers), 200)
        wanted[name] += jobs
        same({name: accepted(running, name) for name in wanted}, wanted, 'jobs of classes')
    for headers in (of('silver'), of('Gold'), of(''), of('/wc'), of('gold') * 2, of('x' * 5000),
                    of('gold, other')):
        for body in (b'', b'one', bytes(100000)):
            answer = ask(running.port, '/wc', body, headers=headers)
            is_code(answer, 400)
            assert 'X-Class' in json.loads(answer.body)['error'], answer.body
    for path, code in (('/healthz', 200), ('/metrics', 200), ('/', 200), ('/nope', 404)):
        is_code(ask(running.port, path, headers=of('silver')), code)
    same(running.settled()['http_server_class_requests{class="gold"}'], 0, 'requests')


@check_with()
def without_classes_the_header_says_nothing(running):
    is_code(ask(running.port, '/wc', b'one', headers=of('silver')), 200)
    assert not any('http_server_class' in name for name in running.metrics())


# ---- processes -----------------------------------------------------------------

@check
def a_new_process_has_the_classes_too():
    many = ['--class=c%d:%d' % (i, i % 8 - 4) for i in range(16)]
    with server('--processes=2', *many) as running:
        def all_have():
            metrics = running.metrics()
            return all('http_server_class_requests{process="%d",class="%s"}' % (process, name)
                       in metrics for process in (0, 1) for name in ('c0', 'c15', 'other'))

        until(all_have, 'no figures of classes')
        for lost in running.children():
            os.kill(lost, signal.SIGKILL)
            until(lambda: lost not in running.children() and len(running.children()) == 2,
                  'it is not replaced')
            until(lambda: json.loads(ask(running.port, '/healthz').body)['well'] == 2, 'not well')
            until(all_have, 'no figures of classes')
            is_code(ask(running.port, '/wc', b'one', headers=of('c15')), 200)
            is_code(ask(running.port, '/wc', b'one', headers=of('c16')), 400)
        status, errors = running.stop()
        same(status, 0, 'status: %s' % errors)
