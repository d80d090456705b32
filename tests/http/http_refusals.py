# SPDX-License-Identifier: MIT
"""Requests that examples/http_server refuses, and pressure on it: for check_http.py."""
import os
import socket
import subprocess
import threading
import time

import http_images as images
from http_checks import (RANDOM, SHORT, check, check_with, in_threads, is_code, noise, same, server,
                         stops)
from http_client import PATIENCE, Connection, Server, ask, chunked, request_bytes

# ---- requests ----------------------------------------------------------------

@check_with()
def broken_images_are_400(running):
    good = images.png(30, 20, noise(600))
    grey = images.pnm(5, 30, 20, noise(600))
    broken = [b'', b'x', b'P', b'P5', b'P6\n', b'P4\n8 8\n' + bytes(8), b'GIF89a' + bytes(99),
              good[:8], good[:20], good[:-20], good[:len(good) // 2], good[:40] + b'!' + good[41:],
              images.png(0, 0, b''), images.png(30, 20, noise(300)),
              grey[:-1], grey.replace(b'255', b'65535'), grey.replace(b'255', b'0'),
              grey.replace(b'30 20', b'30'), grey.replace(b'30 20', b'-30 20'),
              grey.replace(b'30 20', b'0 20'), grey.replace(b'30 20', b'99999999999 20'),
              b'P53 3 255 ' + bytes(9),
              b'P5 30 20 255', b'P5 30 20 255\n', b'P5 #' + b'x' * 5000]
    for file in broken:
        is_code(ask(running.port, '/sobel', file), 400)
    is_code(ask(running.port, '/sobel', good), 200)


@check_with('--max-body=64K', '--max-pixels=10000')
def images_and_bodies_too_large_are_413(running):
    is_code(ask(running.port, '/wc', b'x' * 65536), 200)
    is_code(ask(running.port, '/wc', b'x' * 65537), 413)
    is_code(ask(running.port, '/wc', b'x' * 9000000), 413)
    connection = Connection(running.port)
    connection.send(request_bytes('/wc', b'', headers=['Transfer-Encoding: chunked'])
                    + chunked(b'x' * 70000, 5000))
    is_code(connection.answer(), 413)
    is_code(ask(running.port, '/sobel', images.pnm(5, 100, 100, noise(10000))), 200)
    is_code(ask(running.port, '/sobel', images.pnm(5, 101, 100, noise(10100))), 413)
    is_code(ask(running.port, '/sobel', images.png(100, 101, bytes(10100))), 413)
    # Bombs: the size in the header is enough to refuse them.
    is_code(ask(running.port, '/sobel', b'P5\n16000 16000\n255\n'), 413)
    is_code(ask(running.port, '/sobel', images.png(60000, 60000, b'')), 413)
    is_code(ask(running.port, '/sobel', images.png(1, 17000, bytes(17000))), 413)


@check_with()
def unknown_paths_are_404_and_other_methods_405(running):
    is_code(ask(running.port, '/index.html'), 404)
    is_code(ask(running.port, '/wc/'), 404)
    is_code(ask(running.port, '/nope', b'body'), 404)
    for path, method, allow in (('/wc', 'GET', 'POST'), ('/sobel', 'PUT', 'POST'),
                                ('/metrics', 'POST', 'GET, HEAD'),
                                ('/', 'POST', 'GET, HEAD'), ('/live', 'PUT', 'GET, HEAD'),
                                ('/healthz', 'DELETE', 'GET, HEAD')):
        answer = ask(running.port, path, b'', method=method)
        is_code(answer, 405)
        same(answer.headers['allow'], allow, 'Allow')
    connection = Connection(running.port)
    for path, code in (('/healthz', 200), ('/metrics', 200), ('/wc', 405), ('/nope', 404)):
        answer = connection.ask(path, method='HEAD')
        is_code(answer, code)
    is_code(connection.ask('/healthz'), 200)


@check_with()
def requests_that_are_no_http_do_no_harm(running):
    in_chunks = b'POST /wc HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n'
    for data in (b'\r\n\r\n', b'GET\r\n\r\n', b'\0' * 1000, b'POST /wc HTTP/1.1\r\n' * 9,
                 b'GET / HTTP/1.1\r\nA: ' + b'x' * 99999, b'BREW /wc HTTP/1.1\r\n\r\n',
                 b'POST /wc HTTP/1.1\r\nContent-Length: -1\r\n\r\n',
                 b'POST /wc HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n',
                 in_chunks + b'zz\r\n', in_chunks + b'f' * 16 + b'\r\n'):
        connection = Connection(running.port, timeout=0.1)
        connection.send(data)
        try:
            connection.more()
        except OSError:
            pass
        connection.close()
    is_code(ask(running.port, '/wc', b'still there'), 200)


@check_with()
def images_with_random_damage_do_no_harm(running):
    kinds = [images.png(30, 20, noise(600)), images.png(30, 20, noise(1800), 2),
             images.pnm(5, 30, 20, noise(600)), images.pnm(6, 30, 20, noise(1800))]
    codes = {200: 0, 400: 0, 413: 0}
    connection = Connection(running.port)
    for _ in range(200 if SHORT else 3000):
        file = bytearray(RANDOM.choice(kinds))
        for _ in range(RANDOM.randint(1, 4)):
            file[RANDOM.randrange(min(len(file), RANDOM.choice((60, 5000))))] = \
                RANDOM.randrange(256)
        file = file[:RANDOM.choice((len(file), RANDOM.randrange(len(file))))]
        answer = connection.ask('/sobel', bytes(file))
        codes[answer.code] += 1
    assert codes[400], codes


# ---- pressure ----------------------------------------------------------------

def until_seen(running, code, headers=None):
    """Sends many requests at a time until an answer has the code; all others must be 200."""
    image = images.pnm(5, 900, 900, noise(810000))
    seen = threading.Event()
    end = time.monotonic() + PATIENCE

    def work(index):
        connection = Connection(running.port)
        while not seen.is_set():
            if time.monotonic() > end:
                raise AssertionError('no %d in %d s' % (code, PATIENCE))
            answer = connection.ask('/sobel', image) if index % 2 else \
                connection.ask('/wc', b'x' * 20000)
            if answer.code == code:
                for name, value in (headers or {}).items():
                    same(answer.headers[name], value, name)
                seen.set()
            elif answer.code != 200:
                raise AssertionError('code %d' % answer.code)
        connection.close()

    in_threads(work, 8)
    while ask(running.port, '/wc', b'calm').code != 200:
        assert time.monotonic() < end, 'it does not recover'


@check_with('--slots=2', '--loops=2', '--workers=1', '--deadline=0')
def without_a_free_slot_it_is_503_with_retry_after(running):
    until_seen(running, 503, {'retry-after': '1'})
    metrics = running.settled()
    assert metrics['http_server_slots'] == 2, metrics


@check_with('--queue=1', '--workers=1', '--deadline=0')
def a_full_queue_is_503_with_retry_after(running):
    until_seen(running, 503, {'retry-after': '1'})
    running.settled()


@check_with('--deadline=1', '--workers=1')
def a_job_that_is_not_started_by_its_deadline_is_504(running):
    until_seen(running, 504)
    running.settled()


@check_with('--workers=2')
def clients_that_leave_do_no_harm(running):
    image = images.png(300, 300, noise(90000))
    for index in range(60 if SHORT else 400):
        connection = Connection(running.port)
        data = request_bytes('/sobel', image) if index % 3 else request_bytes('/wc', image)
        size = RANDOM.choice((len(data), len(data), RANDOM.randrange(len(data))))
        connection.send(data[:size])
        if index % 2:
            connection.reset()
        else:
            connection.close()
    running.settled()
    is_code(ask(running.port, '/wc', b'still there'), 200)


@check_with('--max-body=64K')
def clients_that_never_read_are_not_kept_in_memory(running):
    """Endless requests without reads of the answers: the server holds a bounded number."""
    before = running.rss_kb()
    connection = Connection(running.port, timeout=1)
    data = request_bytes('/sobel', images.pnm(5, 200, 300, noise(60000))) * 20
    try:
        for _ in range(40 if SHORT else 100):
            connection.socket.sendall(data)
    except socket.timeout:
        pass
    grown = running.rss_kb() - before
    connection.reset()
    running.settled()
    # Socket buffers belong to the kernel; sanitizers keep freed memory.
    assert os.environ.get('sanitizer') or grown < 20000, 'grown by %d kB' % grown


# ---- options -----------------------------------------------------------------

WRONG_CLASSES = {
    ':0': b'NAME', 'n' * 32 + ':0': b'NAME', 'a@b:0': b'NAME', 'a"b:0': b'NAME',
    '/metrics:0': b'path', 'a': b'NAME:PRIORITY', 'a:': b'PRIORITY', 'a:x': b'PRIORITY',
    'a:-5': b'PRIORITY', 'a:4': b'PRIORITY', 'a:+1': b'PRIORITY', 'a:1x': b'PRIORITY',
    'a:-': b'PRIORITY',
    'a:0:': b'WEIGHT', 'a:0:0': b'WEIGHT', 'a:0:10001': b'WEIGHT', 'a:0:1:0': b'LIMIT',
    'a:0:1:65537': b'LIMIT', 'a:0:1:1:-1': b'JOBS', 'a:0:1:1:65537': b'JOBS',
    'a:0:1:1:0:99999999999999999999': b'PER_SECOND', 'a:0:1:1:0:0:': b'follow',
    'a:0 a:1': b'twice', 'other:0 other:0': b'twice', 'a:0:1:64': b'--slots',
    'a:0:1:60 b:0:1:4': b'--slots',
    ' '.join('c%d:0' % i for i in range(17)): b'16',
}

def program(*arguments, stdout=subprocess.PIPE):
    return subprocess.run([Server.PROGRAM, *arguments], stdout=stdout,
                          stderr=subprocess.PIPE, timeout=PATIENCE, check=False)


@check
def options_are_checked():
    same(program('--help').returncode, 0, 'status of --help')
    assert b'--listen=' in program('--help').stdout
    if os.access('/dev/full', os.W_OK):
        with open('/dev/full', 'wb') as full:
            ended = program('--help', stdout=full)
        same(ended.returncode, 1, 'status of --help that cannot be written')
        assert b'standard output' in ended.stderr, ended.stderr
    for arguments, says in ((['--nope'], b'nope'), (['extra'], b'extra'), (['--slots'], b'slots'),
                            (['--slots=0'], b'--slots'), (['--slots=x'], b'--slots'),
                            (['--max-body=1T'], b'--max-body'), (['--max-body=-1'], b'--max-body'),
                            (['--handler=no'], b'--handler'), (['--stream=no'], b'--stream'),
                            (['--device=tpu'], b'--device'), (['--listen=1.2.3.4'], b'--listen'),
                            (['--memory=1M'], b'--memory'), (['--idle-time=0'], b'--idle-time'),
                            (['--listen=1.2.3.4:99999'], b'--listen'),
                            (['--listen=:1'], b'--listen'),
                            *(([*('--class=' + one for one in classes.split())], says)
                              for classes, says in WRONG_CLASSES.items())):
        ended = program(*arguments)
        same((ended.returncode, ended.stdout), (2, b''), 'status of %s' % arguments)
        assert says in ended.stderr and b'--help' in ended.stderr, ended.stderr
    with server() as running:
        ended = program('--listen=127.0.0.1:%d' % running.port, '--device=host')
        same(ended.returncode, 1, 'status')
        assert b'Address already in use' in ended.stderr, ended.stderr
        stops(running)
