# SPDX-License-Identifier: MIT
"""
Requests a second, latencies and memory of examples/http_server, for docs/measurements.md.

usage, where runnel was built: python3 http_figures.py [--runs=3] [--seconds=3] [--threads=2]
                               [--connections=64,512,2000] [--pixels=0] WAY ...

A WAY is options of the server that + joins: "handler=async", "gpus=0,1+loops=4"; without one, the
three handlers.  All ways take turns; a line of the table has the medians of its runs, and the
largest memory.  wrk posts to /wc, bodies of 1 KB and of 256 KB; with --pixels=32 it posts a grey
PNG of 32 x 32 pixels to /sobel instead.
env: HTTP_SERVER the program; RNL_TEST_DEVICE where it counts (host).
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from http_client import Server, ask
from http_images import png

TEXTS = {'1 KB': b'some words to count\n' * 51, '256 KB': b'some words to count\n' * 13107}
WAYS = ['handler=async', 'handler=sync', 'handler=thread']
HERE = os.path.dirname(os.path.abspath(__file__))


def memory_mb(pids):
    kb = 0
    for pid in pids:
        with open('/proc/%d/status' % pid) as status:
            kb += int(re.search(r'VmHWM:\s+(\d+) kB', status.read())[1])
    return kb / 1024


def wait_for_all(running):
    """Waits for all processes: the first one reports the port, the others may still start."""
    while True:
        says = json.loads(ask(running.port, '/healthz').body)
        if 'processes' not in says or says['well'] == len(says['processes']):
            return
        time.sleep(0.05)


def measure(way, path, body, connections, seconds, threads):
    """Returns requests per second, p50 and p99 in ms, MB, and the number of wrong answers."""
    slots = 2 * connections             # however the kernel distributes connections
    device = 'auto' if 'gpus=' in way else os.environ.get('RNL_TEST_DEVICE', 'host')
    options = ['--' + option for option in way.split('+')]
    with Server('--slots=%d' % slots, '--max-body=256K', '--max-pixels=64K', '--linger=100',
                *options, device=device) as running, tempfile.TemporaryDirectory() as folder:
        with open(folder + '/body', 'wb') as file:
            file.write(body)
        with open(folder + '/list', 'w') as file:
            file.write('%s/body -\n' % folder)
        wait_for_all(running)
        said = subprocess.run(
            [os.environ.get('WRK', 'wrk'), '-t%d' % threads, '-c%d' % connections,
             '-d%ds' % seconds,
             '--latency', '--timeout', '30s', '-s', HERE + '/http_post.lua',
             'http://127.0.0.1:%d%s' % (running.port, path), '--', folder + '/list'],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout.decode()
        figures = {name: float(value)
                   for name, value in re.findall(r'^figure ([a-z0-9_]+) ([-0-9.e+]+)$', said, re.M)}
        mb = memory_mb(running.children() or [running.pid])
        status, errors = running.stop()
        if status:
            raise SystemExit('the server ends with %d: %s' % (status, errors))
    wrong = sum(figures[name] for name in ('bad_status', 'connect', 'read', 'write', 'timeout'))
    return (figures['requests'] / figures['seconds'], figures['p50_us'] / 1e3,
            figures['p99_us'] / 1e3, mb, wrong)


def main():
    given = {'runs': 3, 'seconds': 3, 'threads': 2, 'connections': '64,512,2000', 'pixels': 0}
    ways = []
    for argument in sys.argv[1:]:
        found = re.fullmatch(r'--(\w+)=([0-9,]+)', argument)
        if argument.startswith('-') and not (found and found[1] in given):
            raise SystemExit(__doc__)
        if found:
            given[found[1]] = found[2]
        else:
            ways.append(argument)
    path, bodies, pixels = '/wc', TEXTS, int(given['pixels'])
    if pixels:
        path = '/sobel'
        bodies = {'%d x %d' % (pixels, pixels): png(pixels, pixels, os.urandom(pixels * pixels))}
    print('| connections, body | way | requests/s | p50 ms | p99 ms | MB | not answered right |')
    print('|---|---|---|---|---|---|---|')
    for connections in map(int, given['connections'].split(',')):
        for name, body in bodies.items():
            runs = {way: [] for way in ways or WAYS}
            for _ in range(int(given['runs'])):
                for way, rows in runs.items():
                    rows.append(measure(way, path, body, connections, int(given['seconds']),
                                        int(given['threads'])))
            for way, rows in runs.items():
                rate, p50, p99 = (statistics.median(row[i] for row in rows) for i in range(3))
                print('| %d, %s | %s | %.0f | %.2f | %.2f | %.0f | %d |' % (
                    connections, name, way.replace('+', ' '), rate, p50, p99,
                    max(row[3] for row in rows), sum(row[4] for row in rows)), flush=True)


main()
