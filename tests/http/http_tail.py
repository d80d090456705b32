# SPDX-License-Identifier: MIT
"""
The tail of one tenant's answers while another one floods examples/http_server, for
docs/measurements.md.

usage, where runnel was built: python3 http_tail.py [--runs=3] [--seconds=5] [--flood=256]
                               [--rate=20] [--side=64] [--workers=2]

The steady tenant posts 1 KB to /wc, --rate times a second on four connections. The flood is wrk,
which posts a picture of --side x --side pixels to /sobel on --flood connections, and sends again
as soon as it is answered, whatever Retry-After says. A time counts from when the request was due.
All ways take turns: the steady tenant alone; with the flood; with the flood and classes for both;
the same, and the flood has one worker at a time. A line has the medians of its runs, and the sums
of the counts.
env: HTTP_SERVER the program; RNL_TEST_DEVICE the device (host).
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from http_client import Connection, Server
from http_images import pnm

CLIENTS = 4
TEXT = b'some words to count\n' * 51
CLASSES = ('--class=steady:0:1:8', '--class=flood:0:1:32')
WAYS = {
    'alone': (False, ()),
    'flood': (True, ()),
    'flood, classes': (True, CLASSES),
    'flood, classes, JOBS 1': (True, (CLASSES[0], CLASSES[1] + ':1')),
}
HERE = os.path.dirname(os.path.abspath(__file__))


def start_flood(running, folder, given):
    """Starts wrk with the header of the flood."""
    with open(folder + '/body', 'wb') as file:
        file.write(pnm(5, given['side'], given['side'], os.urandom(given['side'] ** 2)))
    with open(folder + '/list', 'w') as file:
        file.write('%s/body -\n' % folder)
    return subprocess.Popen(
        [os.environ.get('WRK', 'wrk'), '-t1', '-c%d' % given['flood'], '-d%ds' % given['seconds'],
         '--latency', '--timeout', '30s', '-H', 'X-Class: flood', '-s', HERE + '/http_post.lua',
         'http://127.0.0.1:%d/sobel' % running.port, '--', folder + '/list'],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def send_steadily(running, index, given, times, refused):
    """One client: a request at each time that is due, also after a late answer."""
    connection, begin = Connection(running.port), time.monotonic()
    for turn in range(index, given['rate'] * given['seconds'], CLIENTS):
        due = begin + turn / given['rate']
        time.sleep(max(0, due - time.monotonic()))
        answer = connection.ask('/wc', TEXT, headers=['X-Class: steady'])
        if answer.code == 200:
            times.append(time.monotonic() - due)
        else:
            refused.append(answer.code)


def measure(way, given):
    """Returns p50, p99 and the maximum in ms; the steady requests, those not answered with 200;
    the flood's answers a second, those of them that are not 200."""
    floods, classes = WAYS[way]
    times, refused, figures = [], [], {'requests': 0, 'bad_status': 0, 'seconds': 1}
    with Server('--workers=%d' % given['workers'], '--max-pixels=%d' % given['side'] ** 2,
                '--linger=100', *classes, device=os.environ.get('RNL_TEST_DEVICE', 'host')) \
            as running, tempfile.TemporaryDirectory() as folder:
        flood = start_flood(running, folder, given) if floods else None
        clients = [threading.Thread(target=send_steadily,
                                    args=(running, i, given, times, refused))
                   for i in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        if flood:
            said = flood.communicate()[0].decode()
            figures = {name: float(value) for name, value in
                       re.findall(r'^figure ([a-z0-9_]+) ([-0-9.e+]+)$', said, re.M)}
        status, errors = running.stop()
        if status or not times:
            raise SystemExit('the server ends with %d: %s' % (status, errors))
    times = [1e3 * seconds for seconds in sorted(times)]
    return (times[len(times) // 2], times[len(times) * 99 // 100], times[-1],
            len(times) + len(refused), len(refused),
            figures['requests'] / figures['seconds'], figures['bad_status'] / figures['seconds'])


def main():
    given = {'runs': 3, 'seconds': 5, 'flood': 256, 'rate': 20, 'side': 64, 'workers': 2}
    for argument in sys.argv[1:]:
        found = re.fullmatch(r'--(\w+)=([0-9]+)', argument)
        if not found or found[1] not in given:
            raise SystemExit(__doc__)
        given[found[1]] = int(found[2])
    print('| way | p50 ms | p99 ms | longest ms | refused | flood: 200/s | not 200/s |')
    print('|---|---|---|---|---|---|---|')
    runs = {way: [] for way in WAYS}
    for _ in range(given['runs']):
        for way, rows in runs.items():
            rows.append(measure(way, given))
    for way, rows in runs.items():
        middle = [statistics.median(row[i] for row in rows) for i in range(7)]
        print('| %s | %.2f | %.2f | %.1f | %d of %d | %.0f | %.0f |' % (
            way, middle[0], middle[1], middle[2], sum(row[4] for row in rows),
            sum(row[3] for row in rows), middle[5] - middle[6], middle[6]), flush=True)


main()
