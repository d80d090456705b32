# SPDX-License-Identifier: MIT
"""Bounds of the memory that clients of examples/http_server use: for check_http.py."""
import os
import re
import resource
import signal
import struct
import time
import zlib

import http_images as images
from http_checks import (DEVICE, RANDOM, SHORT, Skip, check, check_with, in_threads, is_code, noise,
                         same, server, until)
from http_client import SANITIZER, Connection, Unanswered, ask, freeze, request_bytes

MEGABYTE = 1 << 20
FIGURES = MEGABYTE              # answers to /metrics, which --memory does not bound


# ---- images ------------------------------------------------------------------

def zeros(megabytes):
    """Returns zeros with the best compression."""
    to = zlib.compressobj(9)
    return b''.join(to.compress(bytes(MEGABYTE)) for _ in range(megabytes)) + to.flush()


@check_with('--workers=1')
def small_images_that_ask_for_much_cost_little(running):
    good = images.png(30, 20, noise(600))
    header = good[:33]
    end = images.chunk(b'IEND', b'')
    many = 100 if SHORT else 900
    refused = {
        'a text of 2 GB': header + struct.pack('>I', 2**31 - 1) + b'zTXt' + b'abc',
        'a text behind the end': good[:-12] + struct.pack('>I', 2**31 - 1) + b'zTXt',
        'much more data than pixels': header + images.chunk(b'IDAT', zeros(many)) + end,
        'an interlaced one': (images.interlaced(16, 16, noise)[:33] +
                              images.chunk(b'IDAT', zeros(many)) + end),
        'a large palette': images.with_chunks(good, images.chunk(b'PLTE', bytes(3 * 300))),
        'an unknown critical chunk': images.with_chunks(good, images.chunk(b'NOPE', bytes(9))),
    }
    texts = images.chunk(b'zTXt', b'key\0\0' + zeros(8)) * 100
    profile = images.chunk(b'iCCP', b'name\0\0' + zeros(many))
    is_code(ask(running.port, '/sobel', good), 200)
    before, cpu = running.rss_kb(), running.cpu_seconds()
    for name, file in refused.items():
        answer = ask(running.port, '/sobel', file)
        assert answer.code == 400, '%s: %d %r' % (name, answer.code, answer.body)
    for file in (images.with_chunks(good, texts), images.with_chunks(good, profile)):
        is_code(ask(running.port, '/sobel', file), 200)
    grown, cpu = running.rss_kb() - before, running.cpu_seconds() - cpu
    assert SANITIZER or grown < 30000, 'grown by %d kB' % grown
    # Inflating all data would take seconds.
    assert SANITIZER or cpu < 0.5, '%.1f CPU seconds' % cpu


@check_with('--workers=1')
def interlaced_images_are_read(running):
    """Interlaced rows have seven passes: the data's size is computed for each."""
    for width, height in ((1, 1), (2, 3), (4, 4), (5, 9), (33, 17), (300, 200)):
        is_code(ask(running.port, '/sobel', images.interlaced(width, height, noise)), 200)


# ---- connections -------------------------------------------------------------

def fills(running, nr):
    """Connects @nr clients, each with a part of a request."""
    clients = []
    for _ in range(nr):     # one after the other: an idle client would be closed for the last one
        clients.append(Connection(running.port))
        clients[-1].send(request_bytes('/wc', b'one') + request_bytes('/wc', b'one')[:-1])
        is_code(clients[-1].answer(), 200)
    return clients


@check_with('--connections=8', '--loops=1')
def more_clients_than_connections_wait_and_are_served(running):
    inside = fills(running, 8)
    waiting = [Connection(running.port) for _ in range(20)]
    for connection in waiting:
        connection.send(request_bytes('/metrics'))
    for connection in inside:
        connection.send(b'e')
        is_code(connection.answer(), 200)
        connection.close()
    for connection in waiting:
        body = connection.answer().body
        there = int(re.search(rb'\nhttp_server_connections (\d+)\n', body)[1])
        assert there <= 8, there
        connection.close()


@check_with('--connections=8', '--loops=1')
def idle_clients_make_space_for_others(running):
    idle, others = [], []
    for connections in (idle, others):
        for _ in range(8):
            connections.append(Connection(running.port))
            is_code(connections[-1].ask('/wc', b'one'), 200)
    assert all(connection.ended() for connection in idle)


@check_with('--connections=8', '--loops=1')
def a_client_whose_request_lies_unread_is_not_closed_for_others(running):
    idle = []
    for _ in range(7):
        idle.append(Connection(running.port))
        is_code(idle[-1].ask('/wc', b'one'), 200)
    freeze(running.pid)
    time.sleep(0.2)         # by its clock the first client was idle beyond --linger
    other = Connection(running.port)
    for connection in (idle[0], other):
        connection.send(request_bytes('/wc', b'two'))
    running.signal(signal.SIGCONT)
    for connection in (idle[0], other):
        is_code(connection.answer(), 200)


@check_with('--connections=4', '--loops=1', ends=None)
def a_full_server_ends_and_answers_those_that_wait(running):
    inside = fills(running, 4)
    waiting = Connection(running.port)
    waiting.send(request_bytes('/wc', b'two'))
    running.signal()
    is_code(waiting.answer(), 200)
    for connection in inside:
        connection.close()
    same(running.wait(), (0, ''), 'exit status and standard error')


@check
def without_descriptors_it_waits_says_so_once_and_goes_on():
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    if DEVICE != 'host' or os.environ.get('RNL_TEST_FAKE'):
        raise Skip('CUDA needs descriptors of its own')
    # With two loops, one may take all clients before the other accepts its first client.
    with server('--loops=1', before=few) as running:
        clients = [Connection(running.port) for _ in range(80)]
        until(lambda: b'accepting a connection: Too many open' in running.errors, 'no message')
        cpu = running.cpu_seconds()
        time.sleep(1)
        cpu = running.cpu_seconds() - cpu
        assert cpu < 0.5, '%.1f CPU seconds in one' % cpu
        clients[0].send(request_bytes('/wc', b'one'))
        is_code(clients[0].answer(), 200)
        for connection in clients[:-1]:
            connection.close()
        is_code(clients[-1].ask('/wc', b'one'), 200)
        status, errors = running.stop()
        same((status, errors.count('accepting')), (0, 1), 'status and messages: ' + errors)


# ---- bytes -------------------------------------------------------------------

def under_way(running):
    return running.metrics()['http_server_bytes_under_way']


def settles(running):
    running.settled()
    until(lambda: under_way(running) == 0, 'bytes stay under way')


@check_with('--memory=4M', '--slots=4', '--max-pixels=64K')
def partial_bodies_are_bounded_together(running):
    nr, size = (60, 300000) if SHORT else (400, MEGABYTE)
    limit = 4 * MEGABYTE
    clients = [Connection(running.port) for _ in range(nr)]
    codes = []

    def send(index):
        for connection in clients[index::8]:
            connection.send(request_bytes('/wc', bytes(size))[:-1])

    in_threads(send, 8)
    until(lambda: under_way(running) > limit - 2 * size, 'the memory does not fill')
    most = running.rss_kb()
    assert under_way(running) <= limit + FIGURES
    # The server does not know CUDA's memory.
    assert SANITIZER or DEVICE != 'host' or most < running.bound_kb, '%d kB' % most
    for connection in clients:
        connection.send(b'\0')
        answer = connection.answer()
        codes.append(answer.code)
        if answer.code == 503:
            assert b'in use' in answer.body and answer.closes, answer.body
        connection.close()
    assert set(codes) == {200, 503}, codes
    settles(running)


@check_with('--memory=40M', '--slots=2', '--max-body=16M', '--max-pixels=16M')
def answers_that_are_not_read_are_bounded_together(running):
    # More than the kernel buffers for a client.
    image = images.pnm(5, 3500, 3500, noise(3500 * 3500))
    clients, codes = [Connection(running.port, takes=4096) for _ in range(5)], []
    for connection in clients:
        connection.send(request_bytes('/sobel', image))
        assert connection.more()
    assert 20 * MEGABYTE < under_way(running) <= 40 * MEGABYTE + FIGURES
    assert SANITIZER or DEVICE != 'host' or running.rss_kb() < running.bound_kb
    for connection in clients:
        codes.append(connection.answer().code)
        connection.close()
    assert set(codes) == {200, 503}, codes
    settles(running)


@check_with('--max-body=4M')
def all_slots_have_space_for_a_larger_body(running):
    body = bytes(4 * MEGABYTE)
    is_code(ask(running.port, '/wc', body), 200)
    is_code(ask(running.port, '/wc', body + b'x'), 413)


class Crowd:
    """Clients of all kinds, for a time; measures the server's memory meanwhile."""

    def __init__(self, running, seconds):
        self.running, self.most_kb, self.answers = running, 0, 0
        self.end = time.monotonic() + seconds

    def polite(self, index):
        image = images.pnm(5, 300, 300, noise(90000))
        while time.monotonic() < self.end:
            try:
                answer = ask(self.running.port, *(('/sobel', image) if index % 2 else
                                                  ('/wc', bytes(200000))))
            except Unanswered:      # refused, but the connection ended before the client read it
                continue
            assert answer.code in (200, 503), answer.code
            self.answers += 1

    def rude(self):
        """Sends parts of requests, and reads no answers."""
        image = request_bytes('/sobel', images.pnm(5, 500, 500, noise(250000)))
        clients = []
        while time.monotonic() < self.end:
            connection = Connection(self.running.port)
            clients.append(connection)
            connection.send(image[:RANDOM.choice((len(image), RANDOM.randrange(len(image))))])
            if len(clients) > 40:
                clients.pop(0).reset()
        for connection in clients:
            connection.close()

    def watch(self):
        while time.monotonic() < self.end:
            self.most_kb = max(self.most_kb, self.running.rss_kb())
            time.sleep(0.05)

    def work(self, index):
        if index == 0:
            self.watch()
        elif index < 4:
            self.rude()
        else:
            self.polite(index)


@check_with('--slots=8', '--max-pixels=256K', '--max-body=256K', '--memory=16M',
            '--connections=200')
def a_crowd_of_all_kinds_takes_no_more_memory_than_the_server_said(running):
    seconds = 3 if SHORT else float(os.environ.get('HTTP_SECONDS', 20))
    # Small limits, so the bound is reached and small.
    crowd = Crowd(running, seconds)
    in_threads(crowd.work, 10)
    print('# %d answers; memory %d kB at most, of %d kB' % (
        crowd.answers, crowd.most_kb, running.bound_kb))
    assert crowd.answers
    assert SANITIZER or DEVICE != 'host' or crowd.most_kb < running.bound_kb
    settles(running)
