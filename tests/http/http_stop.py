# SPDX-License-Identifier: MIT
"""
Load on examples/http_server until it has ended: for check_http.py.

For each client, until the end:

  - while the server stops, connecting may be refused, but no established connection is lost;
  - a complete request gets one complete answer, 200, with the right body;
  - an answer that says "Connection: close" is the last one, and then the connection ends;
  - without such an answer, a connection is closed only if it was idle for IDLE_S (the server's
  --linger): a request sent at that moment may get no answer, as HTTP allows.
"""
import socket
import struct
import threading
import time

from http_client import PATIENCE, Broken, Connection, Unanswered, request_bytes

CLIENTS = 24
IDLE_S = 0.25
LAST_DATA_RECV = 52     # the offset of tcpi_last_data_recv in struct tcp_info


def silence_of(sock):
    """Returns the seconds since the last data from the server, or the connect, by the kernel's
    clock."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
    return struct.unpack_from('I', info, LAST_DATA_RECV)[0] / 1000


class StopUnderLoad:
    failed = False          # True: the server has reported that its device has failed
    over = False            # True: clients end after their current request

    def __init__(self, running, bodies, image, seed):
        self.running = running
        self.bodies = [pair for pair in bodies if len(pair[0]) <= 200000]
        self.image, self.edges, self.seed = image, None, seed
        self.wrong, self.clients = [], []
        self.answers = self.late_answers = self.refused = self.idle = 0
        self.stopping = False
        self.lock = threading.Lock()

    def __str__(self):
        return ('%d answers, %d of them after the signal; %d clients refused, %d closed idle'
                % (self.answers, self.late_answers, self.refused, self.idle))

    def count(self, name):
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)

    def judge_answer(self, answer, want, failed):
        """@failed: self.failed before the request was sent."""
        if failed or answer.code != 200 or (want and answer.body != want):
            raise Broken('%d %.100r' % (answer.code, answer.body))

    def may_close_idle(self):
        return self.stopping

    def one(self, connection, index, turn):
        """Sends a request. Returns True if the connection stays open."""
        failed = self.failed
        if (index + turn) % 7 == 0:
            path, body, want = '/sobel', self.image, self.edges
        else:
            body, want = self.bodies[(self.seed + index * 31 + turn) % len(self.bodies)]
            path = '/wc'
        connection.send(request_bytes(path, body))
        connection.idle_s = silence_of(connection.socket)
        answer = connection.answer()
        self.judge_answer(answer, want, failed)
        self.count('answers')
        if self.stopping:
            self.count('late_answers')
        if answer.closes:
            if not connection.ended():
                raise Broken('not closed')
        return not answer.closes

    def client(self, index):
        """Half of the clients keep their connections, the others connect for each request."""
        connection, turn = None, 0
        while not self.over:
            if not connection:
                try:
                    connection = Connection(self.running.port)
                except ConnectionRefusedError:
                    if not self.stopping:
                        raise
                    self.count('refused')
                    return
            try:
                goes_on = self.one(connection, index, turn)
            except Unanswered:
                if not (connection.idle_s > IDLE_S and self.may_close_idle()):
                    raise
                self.count('idle')
                goes_on = False
            turn += 1
            if not goes_on or index % 2:
                connection.close()
                connection = None

    def guarded(self, index):
        try:
            self.client(index)
        except Exception as error:          # pylint: disable=broad-except
            self.wrong.append('client %d: %s %s%s' % (
                index, type(error).__name__, error, ', stopping' if self.stopping else ''))

    def run(self, seconds):
        self.start()
        time.sleep(seconds)
        self.stop()

    def start(self):
        self.clients = [threading.Thread(target=self.guarded, args=(i,)) for i in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def stop(self):
        self.stopping = True
        self.running.signal()
        self.join()

    def join(self):
        for client in self.clients:
            client.join(PATIENCE)
        if any(client.is_alive() for client in self.clients):
            self.wrong.append('clients hang')

    def judge(self):
        if self.wrong:
            raise AssertionError('%d clients: %s' % (len(self.wrong), '; '.join(self.wrong[:5])))
        if not self.late_answers or self.refused != CLIENTS:
            raise AssertionError('there was no load: %s' % self)
