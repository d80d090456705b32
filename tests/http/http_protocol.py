# SPDX-License-Identifier: MIT
"""How examples/http_server reads HTTP, by RFC 9112 and RFC 9110, wherever the bytes of a request
are cut: for check_http.py."""
from http_checks import RANDOM, check, check_with, is_code, same, server, stops
from http_client import Connection, chunked, request_bytes
from http_limits import is_refused

CUTS_MAX = 400      # a longer request is tried with some cuts only

CHUNKED = b'POST /wc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
# Requests and the status that refuses them; many could be read differently by a proxy.
REFUSED = {
    b'GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\nHost: a,b\r\n\r\n': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: b\r\n'
    b'Content-Length: 3\r\n\r\n': 417,
    # Refused before the body arrives.
    b'POST /nope HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n': 404,
    b'POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n': 405,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\none': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\none': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\none': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nContent-Length: ' + b'9' * 40 + b'\r\n\r\n': 413,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n': 501,
    b'POST /wc HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none!\r\n': 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n' + b'f' * 17: 413,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;' + b'x' * 20000: 400,
    b'POST /wc HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n': 417,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n': 400,
    b'GET /heal\0thz HTTP/1.1\r\nHost: a\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nA: b\nc: d\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n': 400,
    b'GET /healthz HTTP/1.1\r\n\r\n': 400,
    b'GET healthz HTTP/1.1\r\nHost: a\r\n\r\n': 400,
    b'GET http:///healthz HTTP/1.1\r\nHost: a\r\n\r\n': 400,
    b'GET /healthz\r\nHost: a\r\n\r\n': 400,
    b'GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n': 505,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\n' + b'A: b\r\n' * 100 + b'\r\n': 431,
    b'GET /healthz HTTP/1.1\r\nHost: a\r\nA: ' + b'x' * 20000: 431,
}
REFUSED.update({b'GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n' % host: 400 for host in (
    b'a/b', b'a?b', b'a#b', b'a@b', b'a"b', b'a\\b', b'a\xe4', b'a%', b'a%4', b'a%4g', b':80',
    b'[::', b'[', b'[]', b'[:::]', b'[::1]a', b'[1.2.3.4]', b'[::%1]', b'::1', b'a:b', b'a:-1',
    b'a:65536', b'x:99999999', b'a:80:80', b'a:80 ,b')})
REFUSED.update({b'GET %s HTTP/1.1\r\nHost: a\r\n\r\n' % target: 400 for target in (
    b'/h\xc3\xa4', b'/\x80', b'/healthz?\xff', b'/healthz#a', b'http://a\xff/', b'http://a@b/',
    b'http://[::/healthz', b'http://a:99999/healthz', b'http://:80/healthz', b'http://?a')})
REFUSED.update({CHUNKED + chunks: code for chunks, code in (
    (b'5 5\r\n', 400), (b'5 x\r\n', 400), (b'5 \r5', 400), (b' 5\r\n', 400), (b'+5\r\n', 400),
    (b'0x5\r\n', 400), (b'5;a=\x01\r\n', 400), (b'5;a=\x7f\r\n', 400), (b'5\n', 400),
    (b'5;a\n', 400), (b'3\r\none\n', 400),
    (b'0\r\nno colon\r\n\r\n', 400), (b'0\r\n: a\r\n\r\n', 400), (b'0\r\nA : b\r\n\r\n', 400),
    (b'0\r\nA: b\r\n c\r\n\r\n', 400), (b'0\r\n A: b\r\n\r\n', 400), (b'0\r\nA: \x01\r\n\r\n', 400),
    (b'0\r\nA: \x7f\r\n\r\n', 400), (b'0\r\nA: b\nc: d\r\n\r\n', 400),
    (b'0\r\nA\xe4: b\r\n\r\n', 400),
    (b'0\r\nA: b\rc\r\n\r\n', 400),
    # Too much data is 413; errors after it are not checked.
    (b'100001\r\n', 413), (b'fffffffff x\r\n', 413), (b'f' * 30 + b'\r\n', 413),
    (b'3\r\none\r\nffffe\r\n', 413), (b'10000g\r\n', 400))})
REFUSED.update({b'POST /wc HTTP/1.1\r\n%s\r\nHost: a\r\nContent-Length: 3\r\n\r\none' % coding: 415
                for coding in (
                    b'Content-Encoding: gzip', b'content-encoding:x',
                    b'Content-Encoding: identity, br',
                    b'Content-Encoding: identity\r\nContent-Encoding: gzip')})
REFUSED[CHUNKED.replace(b'Host', b'Content-Encoding: gzip\r\nHost')] = 415
# Answers to HEAD have no body.
REFUSED.update({
    b'HEAD /healthz HTTP/2.0\r\nHost: a\r\n\r\n': 505,
    b'HEAD /healthz HTTP/1.1\r\nHost: a\r\nA: ' + b'x' * 20000: 431,
    b'HEAD /healthz HTTP/1.1\r\nHost: a\r\n' + b'A: b\r\n' * 100 + b'\r\n': 431,
    b'HEAD /healthz HTTP/1.1\r\n\r\n': 400,
    b'HEAD /heal\0thz HTTP/1.1\r\nHost: a\r\n\r\n': 400,
    b'HEAD /healthz HTTP/1.1 \r\nHost: a\r\n\r\n': 400,
    b'HEAD healthz HTTP/1.1\r\nHost: a\r\n\r\n': 400,
    b'HEAD /healthz HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n': 417,
    b'HEAD /nope HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n': 404,
    b'HEAD /wc HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n': 405,
})
TAKEN = (
    b'GET http://a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    b'GET https://a?b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    b'GET /healthz HTTP/1.0\r\n\r\n',
    b'\r\n\r\nGET /healthz?a=b HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n',
    b'GET http://a/healthz HTTP/1.1\r\nhost:a\r\nA:\t b \xe4 \r\nConnection:close\r\n\r\n',
    b'POST /wc HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nConnection: close\r\n\r\n'
    b'3;a=b\r\none\r\n1 \r\n \r\n0\r\nA: b\r\n\r\n',
    CHUNKED.replace(b'Host', b'Content-Encoding: identity\r\nConnection: close\r\nHost')
    + b'0003\t;a="b;\xe4"\r\none\r\n00\r\nA:\r\nb-C: \td\xe4 \r\n\r\n',
    b'\r\nGET /healthz?a=%41;[]{}|^ HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n',
    b'GET http://[::1]:80/healthz HTTP/1.1\r\nHost: [fe80::1:2.3.4.5]:\r\n'
    b'Connection: close\r\n\r\n',
    b'GET http://a%41.b:/healthz HTTP/1.1\r\nHost: a_b-c.~!$&\'()*+;=%20:65535\r\n'
    b'Connection: close\r\n\r\n',
    b'GET /healthz HTTP/1.1\r\nHost: 1.2.3.4:00080\r\nContent-Encoding: gzip\r\n'
    b'Connection: close\r\n\r\n',
)



class Cutter:
    """Sends bytes in parts; the server, which has one loop, reads each part before the next one is
    sent."""

    def __init__(self, running):
        self.running, self.other = running, Connection(running.port)

    def has_read(self):
        # The first answer may precede the read; the second one is from a later turn of the loop.
        for _ in range(2):
            is_code(self.other.ask('/nope', method='HEAD'), 404)

    def send(self, parts):
        """Returns the connection."""
        connection = Connection(self.running.port)
        for part in parts[:-1]:
            connection.send(part)
            self.has_read()
        connection.send(parts[-1])
        return connection


def cuts(data):
    """Returns the data in one part, byte by byte, and in two parts, cut anywhere."""
    places = range(1, len(data))
    if len(data) > CUTS_MAX:
        places = sorted(RANDOM.sample(places, 20)) + [len(data) - 1]
    return ([[data]] + [[data[i:i + 1] for i in range(len(data))]] * (len(data) <= CUTS_MAX) +
            [[data[:at], data[at:]] for at in places])


def in_every_cut(data, looks_at):
    """@looks_at: checks the answers to the data, on a connection."""
    with server('--loops=1') as running:
        cutter = Cutter(running)
        for each in data:
            for parts in cuts(each):
                connection = cutter.send(parts)
                try:
                    looks_at(each, connection)
                except Exception as error:
                    raise AssertionError('%r, first part %r: %r' % (
                        each[:150], parts[0][:150], error)) from error
                connection.close()
        stops(running)


@check
def requests_that_could_be_read_in_two_ways_are_refused_wherever_they_are_cut():
    def is_refused_so(data, connection):
        is_head = data.startswith(b'HEAD ')
        answer = is_refused(connection, REFUSED[data], not is_head)
        if answer.code == 415:
            same(answer.headers['accept-encoding'], 'identity', 'Accept-Encoding')

    in_every_cut(REFUSED, is_refused_so)


@check
def requests_that_are_right_are_taken_wherever_they_are_cut():
    def is_taken(_, connection):
        is_code(connection.answer(), 200)
        assert connection.ended(), 'it is not closed'

    in_every_cut(TAKEN, is_taken)


@check
def requests_are_the_same_wherever_they_are_cut():
    def are_answered(_, connection):
        same(connection.answer().body, b'{"lines":0,"words":2,"bytes":7}\n', 'counts')
        is_code(connection.answer(), 200)

    in_every_cut([request_bytes('/wc', b'', headers=['Transfer-Encoding: chunked', 'A: b'])
                  + chunked(b'one two', 3) + b'\r\n\r\n' + request_bytes('/healthz')],
                 are_answered)


@check_with('--head-time=1')
def the_answer_to_a_slow_head_request_has_no_body(running):
    connection = Connection(running.port)
    connection.send(b'HEAD /healthz HT')
    is_refused(connection, 408, False)


@check_with('--loops=1', '--connections=2')
def half_an_empty_line_leaves_a_connection_idle(running):
    """The connection that was idle for longest gives its place to another client."""
    first = Connection(running.port)
    is_code(first.ask('/wc', b'one'), 200)
    first.send(b'\r')
    other = Cutter(running)         # uses the other place
    other.has_read()
    second = Connection(running.port)
    is_code(second.ask('/wc', b'one'), 200)
    assert first.ended(), 'it is not closed'
    other.other.close()
