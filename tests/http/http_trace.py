# SPDX-License-Identifier: MIT
"""The header traceparent of examples/http_server, by W3C Trace Context level 1, and the trace ids of its
jobs: for check_http.py."""
import json
import os
import re
import tempfile

import http_images as images
from http_checks import RANDOM, check, check_with, is_code, picture, same, server, stops
from http_client import ask

TRACE, SPAN = '4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'
VALID = '00-%s-%s-01' % (TRACE, SPAN)
# Valid headers, and the flags of the answer.
FOLLOWED = {
    VALID: '01', VALID[:-1] + '0': '00', VALID[:-2] + 'ff': '01', VALID[:-2] + 'fe': '00',
    'cc' + VALID[2:]: '01', 'fe' + VALID[2:] + '-': '01', '01' + VALID[2:] + '-what-follows': '01',
    ' \t%s\t ' % VALID: '01',
}
BROKEN = (
    '', '0', '-', '00', '00-', VALID[:-1], VALID[:-2], VALID[:-3], VALID + '-', VALID + '-00', VALID + '0',
    '0' + VALID, VALID[1:], 'ff' + VALID[2:], 'FE' + VALID[2:], '0x' + VALID[2:], '.0' + VALID[2:],
    VALID.upper(), VALID.replace('b', 'B'), VALID.replace('-', '_'), VALID.replace('-', ''),
    VALID.replace(TRACE, '0' * 32), VALID.replace(SPAN, '0' * 16), VALID.replace(TRACE, TRACE[1:]),
    VALID.replace(TRACE, TRACE + '0'), VALID.replace(SPAN, SPAN[1:]), VALID.replace(SPAN, SPAN + '0'),
    VALID.replace('4', 'g'), VALID[:-2] + '0.', VALID[:-2] + '.0', 'cc' + VALID[2:] + '.', 'cc' + VALID[2:] + '0',
    VALID + ',' + VALID, '\xe4' * 55, VALID * 200)


def answered(running, *headers, path='/wc', body=b'one', code=200):
    """Returns trace id, span id and flags of an answer."""
    answer = ask(running.port, path, body, headers=['traceparent: ' + h for h in headers])
    is_code(answer, code)
    found = re.fullmatch('00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])', answer.headers['traceparent'])
    assert found, 'traceparent is %r' % answer.headers['traceparent']
    assert found[1] != '0' * 32 and found[2] != '0' * 16, 'an id is zero'
    return found.groups()


@check_with()
def a_trace_goes_on_with_a_span_of_its_own(running):
    seen = {SPAN}
    for header, flags in FOLLOWED.items():
        trace, span, its_flags = answered(running, header)
        same((trace, its_flags), (TRACE, flags), 'trace and flags of %r' % header)
        assert span not in seen, 'a span has the id of another one'
        seen.add(span)
    # Refused requests, too.
    same(answered(running, VALID, path='/nope', code=404)[0], TRACE, 'trace')
    same(answered(running, VALID, path='/wc', body=None, code=405)[0], TRACE, 'trace')
    same(answered(running, VALID, path='/sobel', code=400)[0], TRACE, 'trace')


@check_with()
def an_invalid_traceparent_begins_a_trace(running):
    seen = {TRACE}
    mutated = [VALID[:at] + RANDOM.choice('gG.;_~ x') + VALID[at + 1:] for at in range(len(VALID) - 1)]
    for headers in [()] + [(h,) for h in (*BROKEN, *mutated)] + [(VALID, VALID), (VALID, '')]:
        trace, _, flags = answered(running, *headers)
        same(flags, '00', 'flags of %r' % (headers,))
        assert trace not in seen, '%r: the trace is not a new one' % (headers,)
        seen.add(trace)


def ids_in(name):
    """Returns the trace ids of a trace's jobs, in order."""
    with open(name, encoding='utf-8', errors='replace') as file:
        return sorted(event['args']['trace_id'] for event in json.load(file)
                      if 'trace_id' in event.get('args', ()))


@check
def jobs_have_the_trace_ids_of_their_requests():
    with tempfile.TemporaryDirectory() as directory:
        name = os.path.join(directory, 'trace.json')
        with server('--trace=' + name) as running:
            words = answered(running, VALID)[0]
            edges = answered(running, path='/sobel', body=images.pnm(5, 9, 9, picture(9, 9)))[0]
            stops(running)
        # One job counts words; a first one decodes, a second one encodes.
        same(ids_in(name), sorted([words, edges, edges]), 'ids in the trace')
        with server('--trace=' + name, '--processes=1') as running:
            words = answered(running, VALID)[0]
            stops(running)
        same(ids_in(name + '.0'), [words], 'ids in the trace')
