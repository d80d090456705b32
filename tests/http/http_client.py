# SPDX-License-Identifier: MIT
"""A strict HTTP client, and examples/http_server as a child process: for check_http.py."""
import glob
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

SANITIZER = os.environ.get('sanitizer', '')
# The factor by which this build is slower than usual.
SCALE = float(os.environ.get('RNL_TEST_SCALE') or 1)
# Sanitizers and busy machines are slow.
PATIENCE = 120 if SANITIZER or SCALE > 1 else 30


class Unanswered(Exception):
    """The connection ended before the first byte of an answer."""


class Broken(Exception):
    """The received bytes are not one complete HTTP/1.1 answer."""


class Answer:
    def __init__(self, code, headers, body):
        self.code, self.headers, self.body = code, headers, body

    @property
    def closes(self):
        return self.headers.get('connection', '').lower() == 'close'


def request_bytes(path, body=None, method=None, headers=()):
    lines = ['%s %s HTTP/1.1' % (method or ('GET' if body is None else 'POST'), path), 'Host: test']
    if body is not None and not any(h.lower().startswith('transfer-encoding') for h in headers):
        lines.append('Content-Length: %d' % len(body))
    lines += headers
    return ('\r\n'.join(lines) + '\r\n\r\n').encode() + (body or b'')


def chunked(body, size):
    out = b''
    for at in range(0, len(body), size):
        part = body[at:at + size]
        out += b'%x\r\n%s\r\n' % (len(part), part)
    return out + b'0\r\n\r\n'


class Connection:
    """One connection; requests one after the other."""

    def __init__(self, port, timeout=PATIENCE, takes=None):
        """@takes: approximate number of bytes that are received before they are read."""
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        if takes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, takes)
        self.socket.connect(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b''

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes the connection with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
        self.socket.close()

    def send(self, data):
        """A server may answer, and close, before it has read everything."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def ask(self, path, body=None, method=None, headers=()):
        self.send(request_bytes(path, body, method, headers))
        return self.answer(method != 'HEAD')

    def more(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b''
        self.rest += data
        return bool(data)

    def ended(self):
        """Returns True if the server closes the connection without sending more."""
        try:
            return not self.more() and not self.rest
        except socket.timeout:
            return False

    def answer(self, has_body=True):
        while b'\r\n\r\n' not in self.rest:
            if not self.more():
                if not self.rest:
                    raise Unanswered()
                raise Broken('ended in the head: %r' % self.rest)
        head, self.rest = self.rest.split(b'\r\n\r\n', 1)
        lines = head.decode('latin-1').split('\r\n')
        status = re.fullmatch(r'HTTP/1\.1 (\d\d\d) \S.*', lines[0])
        if not status:
            raise Broken('status line: %r' % lines[0])
        headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(': ')
            if not colon or name.lower() in headers:
                raise Broken('header: %r' % line)
            headers[name.lower()] = value
        if status[1] == '100':
            return self.answer(has_body)
        if not has_body:
            return Answer(int(status[1]), headers, b'')
        if 'content-length' not in headers:
            raise Broken('no Content-Length')
        length = int(headers['content-length'])
        while len(self.rest) < length:
            if not self.more():
                raise Broken('ended in the body')
        body, self.rest = self.rest[:length], self.rest[length:]
        return Answer(int(status[1]), headers, body)


def ask(port, path, body=None, **more):
    """Sends one request on a new connection."""
    connection = Connection(port)
    try:
        return connection.ask(path, body, **more)
    finally:
        connection.close()


def state_of(path):
    """Returns the state letter of a process or a thread from its stat file; Z if it has ended."""
    try:
        with open(path) as stat:
            return stat.read().rsplit(')', 1)[1].split()[0]
    except OSError:
        return 'Z'


def freeze(pid):
    """Stops a process, until SIGCONT. Its threads run for a moment after the signal, so this waits
    for each: no thread accepts a connection after the return."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + PATIENCE
    while any(state_of(path) not in 'TZ' for path in glob.glob('/proc/%d/task/*/stat' % pid)):
        assert time.monotonic() < end, 'process %d does not stop' % pid
        time.sleep(0.001)


# Executes a program and passes sockets to it, like systemd: argv is their number (LISTEN_FDS),
# their descriptors, and the program with its arguments.
PASS = """
import fcntl, os, sys
number, fds, command = sys.argv[1], sys.argv[2].split(), sys.argv[3:]
copies = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 3 + len(fds)) for fd in fds]
for at, fd in enumerate(copies):
    os.dup2(fd, 3 + at)
os.closerange(3 + len(fds), 1024)
os.execve(command[0], command, {**os.environ, 'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': number})
"""


def passing(sockets, number=None):
    """Returns the prefix of a command, and Popen()'s pass_fds."""
    fds = [s.fileno() for s in sockets]
    number = str(len(fds)) if number is None else number
    return [sys.executable, '-c', PASS, number, ' '.join(map(str, fds))], fds


class Server:
    """The program, from its start until stop()."""

    PROGRAM = os.environ.get('HTTP_SERVER', 'examples/http_server/http_server')

    def __init__(self, *options, device='host', before=None, sockets=()):
        """@before: called in the new process before the program starts.
        @sockets: listening sockets, which the program uses instead of opening one."""
        first, fds = passing(sockets) if sockets else ([], [])
        self.process = subprocess.Popen(
            first + [self.PROGRAM, '--listen=127.0.0.1:0', '--device=' + device, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=before, pass_fds=fds)
        self.errors = b''
        self.reader = threading.Thread(target=self._read_errors, daemon=True)
        self.reader.start()
        self.says = self.process.stdout.readline().decode()
        found = re.fullmatch(r'listening on http://127\.0\.0\.1:(\d+) \(device .+, '
                             r'\d+ loops, \d+ workers\)\n', self.says)
        if not found:
            self.process.kill()
            self.process.wait()
            self.reader.join()
            raise RuntimeError('the server does not start: %r %r' % (self.says, self.errors))
        memory = self.process.stdout.readline().decode()
        self.bound_kb = int(re.match(r'memory: at most (\d+) MB', memory)[1]) * 1024
        self.port = int(found[1])
        self.pid = self.process.pid

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors += line

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self, timeout=PATIENCE):
        """Returns the exit status and the standard error."""
        status = self.process.wait(timeout)
        self.reader.join()
        return status, self.errors.decode(errors='replace')

    def stop(self):
        self.signal()
        return self.wait()

    def children(self):
        """Returns the pids of its live children."""
        pids = []
        for name in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open('/proc/%s/stat' % name) as stat:
                    state, parent = stat.read().rsplit(')', 1)[1].split()[:2]
            except OSError:             # ended meanwhile
                continue
            if int(parent) == self.pid and state != 'Z':
                pids.append(int(name))
        return pids

    def rss_kb(self):
        with open('/proc/%d/status' % self.pid) as status:
            return int(re.search(r'VmRSS:\s+(\d+) kB', status.read())[1])

    def cpu_seconds(self):
        with open('/proc/%d/stat' % self.pid) as stat:
            fields = stat.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def metrics(self):
        """Returns { 'name{labels}': value }; every line must be well formed."""
        answer = ask(self.port, '/metrics')
        values = {}
        for line in answer.body.decode().splitlines():
            if re.fullmatch(r'# (HELP|TYPE) [a-z_]+ .+', line):
                continue
            sample = re.fullmatch(r'([a-zA-Z_:]+(?:\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})?) '
                                  r'([-+.e0-9]+|[+-]Inf|NaN)', line)
            if not sample or sample[1] in values:
                raise Broken('metrics: %r' % line)
            values[sample[1]] = float(sample[2])
        return values

    def settled(self):
        """Waits until the metrics' request is the only open one. Returns the metrics."""
        end = time.monotonic() + PATIENCE
        while True:
            metrics = self.metrics()
            if metrics['http_server_open'] == 1 and metrics['http_server_slots_used'] == 0:
                return metrics
            if time.monotonic() > end:
                raise Broken('requests stay open: %r' % metrics)
            time.sleep(0.02)
