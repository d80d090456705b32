# SPDX-License-Identifier: MIT
"""
wrk's load on examples/http_server, and the server's memory and CPU time: for check_http.py.

wrk posts mixed bodies on 64 connections and looks each answer up among the right ones
(http_post.lua). It cannot assign answers to requests. So a few slower clients also run, and compare
each answer with the right answer for their body.
"""
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

from http_client import SANITIZER, Connection

CONNECTIONS = 64
SAMPLE_S = 0.2
FLAT = 0.05


class Load:
    def __init__(self, running, bodies):
        self.running, self.bodies = running, [b for b in bodies if len(b[0]) <= 200000]
        self.wrong, self.checked, self.rss = [], 0, []
        self.figures, self.cpu = {}, 0
        self.over = threading.Event()

    def __str__(self):
        f = self.figures
        half = self.second_half()
        return ('%d requests/s, p50 %.2f ms, p99 %.2f ms, %.1f CPU seconds in %.1f s, '
                '%d answers 503; memory %d to %d kB; %d answers compared one by one' % (
                    f['requests'] / f['seconds'], f['p50_us'] / 1e3, f['p99_us'] / 1e3, self.cpu,
                    f['seconds'], f['overloaded'], min(half), max(half), self.checked))

    def second_half(self):
        return self.rss[len(self.rss) // 2:]

    def client(self, index):
        try:
            connection, turn = Connection(self.running.port), index
            while not self.over.is_set():
                body, want = self.bodies[turn % len(self.bodies)]
                answer = connection.ask('/wc', body)
                if answer.code != 503 and (answer.code != 200 or answer.body != want):
                    self.wrong.append('%d %.100r' % (answer.code, answer.body))
                self.checked += 1
                turn += 1
                time.sleep(0.005)
        except Exception as error:          # pylint: disable=broad-except
            self.wrong.append('%s %s' % (type(error).__name__, error))

    def wrk(self, directory, seconds):
        if not shutil.which(os.environ.get('WRK', 'wrk')):
            raise AssertionError('there is no wrk: make deps check-http installs it')
        with open(directory + '/list', 'wb') as index:
            for number, (body, want) in enumerate(self.bodies):
                with open('%s/%d' % (directory, number), 'wb') as file:
                    file.write(body)
                index.write(b'%s/%d %s' % (directory.encode(), number, want))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'http_post.lua')
        return subprocess.Popen(
            [os.environ.get('WRK', 'wrk'), '-t2', '-c%d' % CONNECTIONS, '-d%ds' % seconds,
             '--latency', '--timeout', '30s', '-s', script,
             'http://127.0.0.1:%d/wc' % self.running.port, '--', directory + '/list', 'check'],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def read_figures(self, wrk):
        said = wrk.stdout.read().decode()
        for name, value in re.findall(r'^figure ([a-z0-9_]+) ([-0-9.e+]+)$', said, re.M):
            self.figures[name] = float(value)
        if 'requests' not in self.figures:
            raise AssertionError('wrk: ' + said)

    def run(self, seconds):
        clients = [threading.Thread(target=self.client, args=(i,)) for i in range(2)]
        with tempfile.TemporaryDirectory() as directory:
            before = self.running.cpu_seconds()
            wrk = self.wrk(directory, seconds)
            for client in clients:
                client.start()
            while wrk.poll() is None:
                self.rss.append(self.running.rss_kb())
                time.sleep(SAMPLE_S)
            self.cpu = self.running.cpu_seconds() - before
            self.over.set()
            for client in clients:
                client.join()
            self.read_figures(wrk)

    def judge_figures(self, *others):
        for name in ('wrong', 'errors', 'connect', 'read', 'write', 'timeout', *others):
            if self.figures[name]:
                raise AssertionError('wrk saw %d %s' % (self.figures[name], name))
        if not self.figures['requests']:
            raise AssertionError('there was no load')

    def judge(self):
        if self.wrong:
            raise AssertionError('%d wrong answers: %s' % (len(self.wrong), self.wrong[:3]))
        self.judge_figures()
        if not self.checked:
            raise AssertionError('there was no load')
        half = sorted(self.second_half())
        middle = half[len(half) // 2]
        if not SANITIZER and (half[0] < middle * (1 - FLAT) or half[-1] > middle * (1 + FLAT)):
            raise AssertionError('memory is not flat: %d, %d, %d kB' % (half[0], middle, half[-1]))
