# SPDX-License-Identifier: MIT
"""
HAProxy in front of three http_servers, by the example's configuration: for check_http.py.

The configuration is examples/http_server/haproxy.cfg, with other addresses, longer times, and
without the lines for which HAProxy has to be root.
"""
import csv
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import http_images as images
from http_checks import (BODIES, LINGER, SEED, SHORT, Skip, check, is_code, noise, same, server,
                         until)
from http_client import PATIENCE, Connection, ask, freeze, request_bytes
from http_failure import CRASHES, crash, needs_a_device
from http_load import Load
from http_sockets import listening, port_of
from http_stop import StopUnderLoad

CONFIGURATION = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             '../../examples/http_server/haproxy.cfg')
# Debian installs it in a directory of root's PATH.
HAPROXY = shutil.which('haproxy', path=os.environ.get('PATH', '') + ':/usr/sbin')
ROOTS = r'^\t(user|group|chroot) .*\n'
NAMES = ('s1', 's2', 's3')
ANSWERED = 200          # answers that pass between two events
LONGEST_S = 3600        # longer than all events
NO_CHECK = 4096         # bytes: more than the request of a health check


def needs_haproxy():
    if not HAPROXY:
        raise Skip('there is no haproxy: make deps check-http installs it')


def waiting_bytes(port):
    """Returns the largest number of bytes that a connection to that port has and its program has
    not read."""
    with open('/proc/net/tcp') as table:
        rows = [line.split() for line in table][1:]
    return max([int(row[4].split(':')[1], 16) for row in rows
                if row[1].endswith(':%04X' % port) and row[3] == '01'], default=0)


def replaced(text, old, new, count=1):
    """Replaces lines; fails if one is missing."""
    changed, nr = re.subn(old, new, text, flags=re.M)
    same(nr, count, 'lines like %r in haproxy.cfg' % old)
    return changed


class Balancer:
    """Three servers, and HAProxy in front of them."""

    def __init__(self, *options, timeout='%ds' % PATIENCE, stuck_serve=True):
        """@timeout: until a server with a request counts as hung.
        @stuck_serve: a server whose /healthz reports a stuck worker stays in use."""
        self.stuck_serve = stuck_serve
        self.options, self.timeout, self.servers, self.ports = options, timeout, {}, {}
        self.directory = tempfile.mkdtemp()
        self.control = self.directory + '/control'
        for name in NAMES:
            # A bound socket reserves the port for this server, also while the server is down.
            reserved = self.ports[name] = socket.socket()
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(('127.0.0.1', 0))
        self.process = None

    def __enter__(self):
        try:
            for name in NAMES:
                self.start(name)
            with listening() as own:
                self.port = port_of(own)
                self.process = subprocess.Popen([HAPROXY, '-f', self.configuration(own)],
                                                stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL,
                                                pass_fds=[own.fileno()])
            until(lambda: self.listens() or self.process.poll() is not None,
                  'haproxy does not start')
            for name in NAMES:
                self.await_state(name, 'UP')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for process in [self.process] + [each.process for each in self.servers.values()]:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        for reserved in self.ports.values():
            reserved.close()
        shutil.rmtree(self.directory)

    def configuration(self, own):
        with open(CONFIGURATION) as file:
            text = file.read()
        text = replaced(text, ROOTS, '', 3)
        text = replaced(text, r'/run/haproxy/admin\.sock', self.control)
        text = replaced(text, 'timeout server 15s', 'timeout server ' + self.timeout)
        # On a busy machine a server is slow, not lost.
        text = replaced(text, r'timeout (connect|check|client|http-request|queue) \d+s$',
                        r'timeout \1 %ds' % PATIENCE, 5)
        if self.stuck_serve:    # a worker without a CPU counts as stuck, too
            text = replaced(text, r'^\thttp-check send .*\n', r'\g<0>\thttp-check expect '
                            r'rstring "\"state\":\"(ok|overloaded|stuck)\""\n')
        text = replaced(text, r'bind 127\.0\.0\.1:8080$', 'bind fd@%d' % own.fileno())
        for number, name in enumerate(NAMES, 1):
            text = replaced(text, r'127\.0\.0\.1:808%d$' % number,
                            '127.0.0.1:%d' % port_of(self.ports[name]))
        with open(self.directory + '/haproxy.cfg', 'w') as file:
            file.write(text)
        return file.name

    def start(self, name):
        self.servers[name] = server('--listen=127.0.0.1:%d' % port_of(self.ports[name]),
                                    *self.options)

    def listens(self):
        try:
            return bool(self.tell('show info'))
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def tell(self, command):
        """Returns HAProxy's answer to a command of its runtime API."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE)
            control.connect(self.control)
            control.sendall(command.encode() + b'\n')
            return b''.join(iter(lambda: control.recv(1 << 16), b'')).decode()

    def set(self, name, state):
        same(self.tell('set server servers/%s state %s' % (name, state)).strip(), '', state)

    def figures(self, name):
        """Returns the figures of a server, or of the BACKEND."""
        lines = self.tell('show stat').lstrip('# ').splitlines()
        return next(row for row in csv.DictReader(lines)
                    if (row['pxname'], row['svname']) == ('servers', name))

    def figure(self, name, which):
        return int(self.figures(name)[which])

    def await_state(self, name, state):
        until(lambda: self.figures(name)['status'].split()[0] == state,
              '%s does not become %s' % (name, state))

    def await_answers(self, name):
        """Waits until a server has received new requests."""
        before = self.figure(name, 'stot')
        until(lambda: self.figure(name, 'stot') > before + ANSWERED // 10,
              'no requests for %s' % name)

    def held_by(self, path, body):
        """Sends a long request while all servers are frozen; the server that gets it stays frozen.
        Returns the connection, and the name of that server."""
        for each in self.servers.values():
            freeze(each.pid)
        before = {name: self.figure(name, 'scur') for name in NAMES}
        connection = Connection(self.port)
        connection.send(request_bytes(path, body))
        got = []
        until(lambda: got.extend(n for n in NAMES if self.figure(n, 'scur') > before[n]) or got,
              'no server has the request')
        # HAProxy may still be connecting, and a request that was not sent would prove nothing.
        until(lambda: waiting_bytes(port_of(self.ports[got[0]])) > NO_CHECK,
              'the request is not sent')
        for name in set(NAMES) - set(got):
            self.servers[name].signal(signal.SIGCONT)
            self.await_state(name, 'UP')
        return connection, got[0]

    def answers(self):
        """Returns the number of answers with a code of 200 to 299 of each server."""
        return {name: self.figure(name, 'hrsp_2xx') for name in NAMES}

    def ends(self):
        for name in NAMES:
            same(self.servers[name].stop(), (0, ''), 'exit status and errors of %s' % name)


class BalancedLoad(StopUnderLoad):
    """Clients that must not get errors or lose connections."""

    def __init__(self, balancer):
        image = images.png(120, 90, noise(10800))
        super().__init__(balancer, BODIES, image, SEED)
        answer = ask(balancer.port, '/sobel', image)
        is_code(answer, 200)
        self.edges = answer.body

    def await_answers(self):
        wanted = self.answers + ANSWERED
        until(lambda: self.wrong or self.answers > wanted, 'no answers')

    def stop(self):
        self.over = True
        self.join()

    def judge(self):
        if self.wrong:
            raise AssertionError('%d clients: %s' % (len(self.wrong), '; '.join(self.wrong[:5])))


# ---- the configuration ---------------------------------------------------------

@check
def haproxy_finds_its_configuration_valid():
    needs_haproxy()
    says = subprocess.run([HAPROXY, '-c', '-f', CONFIGURATION], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
    # [NOTICE], [WARNING], [ALERT].
    assert says.returncode == 0 and b'[' not in says.stdout, says.stdout


def answers_right(balancer, bodies):
    for body, want in bodies:
        answer = ask(balancer.port, '/wc', body)
        is_code(answer, 200)
        same(answer.body, want, 'counts')


# ---- one request ---------------------------------------------------------------

@check
def a_request_of_a_killed_server_is_answered_by_another():
    needs_haproxy()
    body, want = max(BODIES, key=lambda pair: len(pair[0]))
    same(len(body), 1 << 20, 'the longest body that a server takes')
    with Balancer() as balancer:
        connection, name = balancer.held_by('/wc', body)
        before = balancer.answers()
        balancer.servers[name].signal(signal.SIGKILL)
        answer = connection.answer()
        is_code(answer, 200)
        same(answer.body, want, 'counts')
        # HAProxy's counter depends on the state of the request to the lost server.
        gave = [each for each, nr in balancer.answers().items() if nr > before[each]]
        assert len(gave) == 1 and name not in gave, 'the answer is of %s, not of one but %s' % (
            gave, name)


@check
def a_request_of_a_hung_server_is_answered_by_another():
    needs_haproxy()
    body, want = max(BODIES, key=lambda pair: len(pair[0]))
    for timeout in (3, 10):     # on a busy machine other servers may also count as hung
        with Balancer(timeout='%ds' % timeout) as balancer:
            connection, _ = balancer.held_by('/wc', body)
            connection.socket.settimeout(PATIENCE + 5 * timeout)
            answer = connection.answer()
        if answer.code == 200:
            break
    is_code(answer, 200)
    same(answer.body, want, 'counts')


@check
def a_server_whose_device_has_failed_is_left():
    needs_haproxy()
    needs_a_device()
    with Balancer(CRASHES, stuck_serve=False) as balancer:
        crash(balancer.servers['s1'])
        answers_right(balancer, BODIES[:6])
        balancer.await_state('s1', 'DOWN')
        same(balancer.figures('s1')['check_code'], '503', 'answer to the health check')


@check
def a_request_that_is_not_listed_is_not_sent_twice():
    needs_haproxy()
    with Balancer(CRASHES) as balancer:
        def at_work():
            return [name for name in NAMES if balancer.servers[name].process.poll() is None and
                    balancer.servers[name].metrics()['http_server_slots_used']]

        connection = Connection(balancer.port)
        connection.send(request_bytes('/hang', b''))
        name, = until(at_work, 'no server has the request')
        balancer.servers[name].signal(signal.SIGKILL)
        balancer.servers[name].wait()
        is_code(connection.answer(), 502)
        same((balancer.figure('BACKEND', 'wretr'), balancer.figure('BACKEND', 'wredis')), (0, 0),
             'retries')
        same(at_work(), [], 'servers that have it, too')


@check
def a_request_that_a_full_server_refuses_goes_to_another():
    needs_haproxy()
    with Balancer('--slots=1', '--loops=1', CRASHES) as balancer:
        full = balancer.servers['s1']
        held = Connection(full.port)
        held.send(request_bytes('/hang', b''))
        until(lambda: full.metrics()['http_server_slots_used'] == 1, 'it does not come')
        until(lambda: answers_right(balancer, BODIES[:6]) or balancer.figure('s1', 'wretr'),
              'nothing is retried')


@check
def two_servers_that_are_lost_at_the_same_time_lose_no_request():
    needs_haproxy()
    with Balancer() as balancer:
        for name in ('s1', 's2'):
            balancer.servers[name].signal(signal.SIGKILL)
            balancer.servers[name].wait()
        answers_right(balancer, BODIES[:20])


# ---- under load ----------------------------------------------------------------

def servers_die(balancer, load, *names):
    """SIGKILL: the balancer stops using the servers, and uses them again when they are back."""
    for name in names:
        balancer.await_state(name, 'UP')
    downs = [balancer.figure(name, 'chkdown') for name in names]
    for name in names:
        balancer.servers[name].signal(signal.SIGKILL)
    for name in names:
        balancer.servers[name].wait()
        balancer.await_state(name, 'DOWN')
    load.await_answers()
    for name in names:
        balancer.start(name)
        balancer.await_state(name, 'UP')
        balancer.await_answers(name)
    for name, before in zip(names, downs):
        assert balancer.figure(name, 'chkdown') > before, 'the balancer did not see %s go' % name


def a_server_is_drained(balancer, load):
    """The server ends when it has no work left, so no request is retried."""
    balancer.set('s2', 'drain')
    until(lambda: balancer.figure('s2', 'scur') == 0, 's2 is not drained')
    served, retries = balancer.figure('s2', 'stot'), balancer.figure('s2', 'wretr')
    load.await_answers()
    same(balancer.servers['s2'].stop(), (0, ''), 'exit status and errors')
    same(balancer.figure('s2', 'stot'), served, 'requests of a drained server')
    balancer.start('s2')
    balancer.set('s2', 'ready')
    balancer.await_state('s2', 'UP')
    balancer.await_answers('s2')
    same(balancer.figure('s2', 'wretr'), retries, 'retries')


def a_server_ends_by_itself(balancer, load):
    """SIGTERM without a drain: the server answers its requests, and the balancer stops using it."""
    same(balancer.servers['s3'].stop(), (0, ''), 'exit status and errors')
    balancer.await_state('s3', 'DOWN')
    load.await_answers()
    balancer.start('s3')
    balancer.await_state('s3', 'UP')
    balancer.await_answers('s3')


def changes(balancer):
    load = BalancedLoad(balancer)
    load.start()
    try:
        load.await_answers()
        servers_die(balancer, load, 's1')
        servers_die(balancer, load, 's1', 's3')
        a_server_is_drained(balancer, load)
        a_server_ends_by_itself(balancer, load)
    finally:
        load.stop()
    load.judge()
    print('# %d answers right, %d retries' % (load.answers, balancer.figure('BACKEND', 'wretr')))


def changes_beside_wrk(balancer):
    load = Load(balancer, BODIES)
    with tempfile.TemporaryDirectory() as directory:
        wrk = load.wrk(directory, LONGEST_S)
        try:
            changes(balancer)
        finally:
            wrk.send_signal(signal.SIGINT)      # ends wrk
            load.read_figures(wrk)
            wrk.wait()
    load.judge_figures('overloaded')
    print('# wrk: %d answers right, p99 %.1f ms, the longest %.1f ms' % (
        load.figures['requests'], load.figures['p99_us'] / 1e3, load.figures['max_us'] / 1e3))


@check
def under_load_no_request_is_lost_when_servers_die_drain_and_end():
    needs_haproxy()
    with Balancer(LINGER) as balancer:
        if SHORT:
            changes(balancer)
        else:
            changes_beside_wrk(balancer)
        balancer.ends()
