# SPDX-License-Identifier: MIT
"""The page of examples/http_server, its forms and its figures, by raw HTTP: for check_http.py."""
import json
import re
import time

import http_images as images
from http_checks import (DEVICE, RANDOM, SHORT, check_with, counts, in_threads, is_code, noise,
                         picture, same, stops)
from http_client import PATIENCE, Connection, ask

# ---- the page ------------------------------------------------------------------

@check_with()
def the_page_allows_itself_alone(running):
    nonces = set()
    for _ in range(2):
        answer = ask(running.port, '/')
        is_code(answer, 200)
        policy = dict(part.split(' ', 1) for part in
                      answer.headers['content-security-policy'].split('; '))
        nonce = re.fullmatch(r"'nonce-([0-9a-f]{32})'", policy['script-src'])[1]
        same(policy['style-src'], policy['script-src'], 'policy of styles')
        same(policy['default-src'], "'none'", 'policy of all else')
        tags = re.findall(r'<(?:script|style)\b[^>]*>', answer.body.decode())
        same([re.findall('nonce="(.*)"', tag) for tag in tags], [[nonce]] * 2, 'nonces')
        nonces.add(nonce)
    same(len(nonces), 2, 'nonces of two answers')
    for name, value in (('content-type', 'text/html; charset=utf-8'),
                        ('x-content-type-options', 'nosniff'), ('cache-control', 'no-store')):
        same(answer.headers[name], value, name)
    is_code(Connection(running.port).ask('/?a=query', method='HEAD'), 200)


@check_with()
def the_page_names_nothing_elsewhere(running):
    page = ask(running.port, '/').body.decode()
    same(set(re.findall(r'https?://([^/<\s]*)', page)), {'HOST:PORT'}, 'addresses')
    named = re.findall(r'(?:src|href|action)="([^"]*)"', page)
    same([name for name in named if not re.match(r'/\w|data:,$', name)], [], 'names')
    same(re.findall(r'@import|url\(|import\(', page), [], 'imports')


@check_with()
def the_pages_say_what_they_belong_to_and_have_no_dead_link(running):
    for path in '/', '/docs':
        answer = ask(running.port, path)
        is_code(answer, 200)
        same(answer.headers['content-type'], 'text/html; charset=utf-8', 'type of ' + path)
        page = answer.body.decode()
        policy = answer.headers['content-security-policy']
        same(set(re.findall('nonce="(.*)"', page)),
             set(re.findall("'nonce-([0-9a-f]{32})'", policy)), 'nonces of ' + path)
        assert re.search(r'an example of runnel, a pool of worker threads', page, re.I), path
        links = re.findall('<a href="([^"]*)"', page)
        assert ('/docs' in links) == (path == '/') and links, links
        for link in links:
            is_code(ask(running.port, link), 200)
    assert '](' not in page and '`' not in page and '**' not in page, 'Markdown is left'


def luminance(colour):
    parts = [int(colour[at] * 2 if len(colour) == 4 else colour[2 * at - 1:2 * at + 1], 16) / 255
             for at in (1, 2, 3)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
              for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Returns the contrast as defined by WCAG 2."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@check_with()
def the_colours_of_the_page_can_be_read(running):
    page = ask(running.port, '/').body.decode()
    schemes = re.findall(r':root \{(.*?)\}', page, re.S)
    same(len(schemes), 2, 'schemes')
    for scheme in schemes:
        colours = dict(re.findall(r'--(\w+): (#\w+);', scheme))
        for name, ground, least in (
                *((name, ground, 4.5) for name in ('text', 'quiet', 'well', 'ill', 'words')
                  for ground in ('ground', 'sheet')),
                *((name, 'track', 3) for name in ('words', 'edges', 'png'))):
            found = contrast(colours[name], colours[ground])
            assert found >= least, '%s on %s: %.2f' % (name, ground, found)


# ---- forms ---------------------------------------------------------------------

B = 'xYz'
HEAD = 'Content-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png'


def part(content, head=HEAD, boundary=B):
    return b'--%s\r\n%s\r\n\r\n%s\r\n' % (boundary.encode(), head.encode(), content)


def form(content, head=HEAD, boundary=B):
    return part(content, head, boundary) + b'--%s--\r\n' % boundary.encode()


def post_form(running, path, body, kind='multipart/form-data; boundary=' + B):
    return ask(running.port, path, body, headers=['Content-Type: ' + kind])


@check_with()
def a_form_with_a_picture_is_answered_with_its_edges(running):
    width, height = 97, 61
    grey = picture(width, height)
    want = (width, height, images.sobel(width, height, grey))
    for file in (images.png(width, height, grey), images.pnm(5, width, height, grey)):
        answer = post_form(running, '/sobel', form(file))
        is_code(answer, 200)
        same(answer.headers['content-type'], 'image/png', 'type')
        same(images.decode_png(answer.body), want, 'edges')


@check_with()
def a_form_of_any_shape_that_the_standard_has_is_read(running):
    longest = "0'()+_,-./:=?" + 'b' * 57
    inside = b'a\r\n--xYzA\r\n--xY\r\n--xYz-\r\n\r\n--x\r\n'
    for content in (b'one two\r\nthree', b'', b'\r\n', b'--', inside, noise(30000)):
        for body, kind in (
                (form(content), B),
                (form(content), '"%s"' % B),
                (form(content), B + ' ; charset="a;b"'),
                (b'preamble\r\n' + form(content) + b'epilogue\r\n--xYz\r\n', B),
                (form(content)[:-2], B),
                (form(content).replace(b'--xYz\r\n', b'--xYz \t\r\n', 1), B),
                (form(content, boundary=longest), '"%s"' % longest),
                (form(content, 'content-disposition: form-data; name=text'), B)):
            answer = post_form(running, '/wc', body, 'Multipart/FORM-data; BOUNDARY=' + kind)
            is_code(answer, 200)
            same(answer.body, counts(content), 'counts of %r' % body[:200])
    same(post_form(running, '/wc', b'--', 'multipart/form-database').body, counts(b'--'),
         'another type')


@check_with()
def a_form_that_is_broken_is_400_and_says_how(running):
    good = form(b'one')
    empty = HEAD.replace('a.png', '')
    broken = [('boundary', good, 'multipart/form-data'),
              ('boundary', good, 'multipart/form-data; charset=utf-8'),
              *(('boundary', good, 'multipart/form-data; boundary' + value) for value in
                ('', '=', '=""', '="', '="xYz', '=x@z', '="xYz "', '=' + 'x' * 71)),
              ('not in the body', b'', None), ('not in the body', b'one', None),
              ('empty', good[1:], None),
              ('not in the body', good.replace(b'--xYz', b'--xYZ'), None),
              ('not in the body', b'x' + good.replace(b'\r\n--', b'\n--'), None),
              ('empty', b'--xYz--\r\n', None), ('empty', b'--xYz--', None),
              ('cut off', good[:-6], None), ('cut off', good[:len(good) // 2], None),
              ('cut off', b'--xYz\r\n', None), ('cut off', b'--xYz\r\n--xYz--\r\n', None),
              ('cut off', part(b'one').rstrip(), None),
              ('several fields', part(b'one') + good, None),
              ('several fields', part(b'') * 9 + good, None),
              ('no file was chosen', form(b'', empty), None),
              ('cut off', (b'\r\n--xYz' + b' ' * 100) * 9000 + good[:-6], None),
              ('several fields', b'\r\n--xYz\r\n\r\n' * 80000, None)]
    for says, body, kind in broken:
        answer = post_form(running, '/wc', body, kind or 'multipart/form-data; boundary=' + B)
        is_code(answer, 400)
        assert says in json.loads(answer.body)['error'], (says, answer.body, body[:100])
    is_code(post_form(running, '/sobel', form(b'one')), 400)
    is_code(post_form(running, '/wc', form(b'x' * (1 << 20))), 413)
    is_code(post_form(running, '/wc', good), 200)
    running.settled()


@check_with('--slots=2')
def forms_with_random_damage_do_no_harm(running):
    good = form(images.png(30, 20, noise(600)))
    codes = {200: 0, 400: 0, 413: 0}
    connection = Connection(running.port)
    for _ in range(200 if SHORT else 3000):
        file = bytearray(good)
        for _ in range(RANDOM.randint(1, 4)):
            at = RANDOM.randrange(len(file))
            file[at:at + RANDOM.randrange(3)] = RANDOM.choice(
                (b'', b'\r', b'\r\n', b'-', b'--xYz', b'\r\n--xYz--', noise(1)))
        answer = connection.ask('/sobel', bytes(file[:RANDOM.choice((1 << 20, at))]), headers=[
            'Content-Type: multipart/form-data; boundary=' + B])
        codes[answer.code] += 1
    # The number of forms that are valid by chance depends on the seed.
    assert codes[400], codes
    head = 'Content-Type: multipart/form-data; boundary=' + B
    is_code(connection.ask('/sobel', good, headers=[head]), 200)
    running.settled()


# ---- figures -------------------------------------------------------------------

def live_of(running):
    """Returns the data of the only process from /live."""
    answer = ask(running.port, '/live')
    is_code(answer, 200)
    process, = json.loads(answer.body)['processes']
    return process


def worked(process, kind):
    """Returns the workers that had jobs of a kind in the last seconds."""
    return [i for i, worker in enumerate(process['timeline']['workers'])
            if worker.get(kind, '').strip('0')]


def load_once(running):
    image = images.png(120, 90, picture(120, 90))

    def work(_):
        connection = Connection(running.port)
        for _ in range(20):
            is_code(connection.ask('/wc', b'some words ' * 5000), 200)
            is_code(connection.ask('/sobel', image), 200)
        connection.close()

    in_threads(work, 4)


def load_all(running):
    """Makes load until the timeline shows each kind: on a busy machine entries may expire before.
    Returns the number of requests of each path."""
    end = time.monotonic() + PATIENCE
    for times in range(1, 100):
        load_once(running)
        if all(worked(live_of(running), kind) for kind in ('words', 'edges', 'png')):
            return 80 * times
        assert time.monotonic() < end, live_of(running)


@check_with('--workers=3')
def live_figures_are_those_of_the_requests(running):
    before = live_of(running)
    same((before['pid'], before['state'], before['workers']), (running.pid, 'ok', 3), 'process')
    same((worked(before, 'words'), before['overlap']['jobs']), ([], 0), 'work of nobody')
    nr = load_all(running)
    after = live_of(running)
    same((after['answers']['/wc'], after['answers']['/sobel']), ({'200': nr}, {'200': nr}),
         'answers')
    same(sum(after['times']['answers']), 2 * nr, 'timed answers')
    same(len(after['times']['answers']), len(after['times']['bounds_us']) + 1, 'buckets')
    same(after['began_us'], before['began_us'], 'begin')
    same((after['queued'], after['in_flight'], after['slots_used']), (0, 0, 0), 'jobs now')
    same(after['timeline']['of'], 'worker', 'rows')
    overlap = after['overlap']
    each = 3 if DEVICE == 'host' else 4     # plus a batch
    assert overlap['jobs'] <= each * nr, overlap
    assert overlap['busy_us'] <= overlap['sum_us'], overlap
    metrics = running.settled()
    for route in ('/wc', '/sobel'):
        buckets = [value for name, value in metrics.items() if name.startswith(
            'http_server_answer_seconds_bucket{route="%s",' % route)]
        same(buckets, sorted(buckets), 'cumulative buckets')
        same(buckets[-1], metrics['http_server_answer_seconds_count{route="%s"}' % route],
             'answers in buckets')
        same(buckets[-1], nr, 'timed answers')


def the_timeline_is_empty(running):
    """Waits until the timeline is empty, some seconds after the last job."""
    end = time.monotonic() + PATIENCE
    while True:
        process = live_of(running)
        # A short job may still count in the overlap, but be too short for a column.
        left = any(process['timeline']['workers']), process['overlap']['jobs']
        if left == (False, 0):
            break
        assert time.monotonic() < end, 'after its last job there is still %s' % (left,)
        time.sleep(0.1)


@check_with()
def the_timeline_forgets(running):
    load_all(running)
    the_timeline_is_empty(running)


@check_with('--loops=1')
def a_batch_of_small_pictures_has_a_span(running):
    """One job decodes, one encodes; on a device there is a batch between them."""
    end = time.monotonic() + PATIENCE
    while True:
        began = time.monotonic()
        answer = ask(running.port, '/sobel', images.png(4, 4, bytes(16)))
        is_code(answer, 200)
        jobs = live_of(running)['overlap']['jobs']
        if time.monotonic() - began < 2:    # else the first job may be too old
            break
        assert time.monotonic() < end, 'it is too slow'
        the_timeline_is_empty(running)
    same(jobs, 2 if DEVICE == 'host' else 3, 'jobs')


@check_with('--handler=sync', '--loops=2')
def with_sync_the_timeline_has_loops(running):
    nr = load_all(running)
    process = live_of(running)
    same((process['timeline']['of'], len(process['timeline']['workers'])), ('loop', 2), 'rows')
    same(sum(process['times']['answers']), 2 * nr, 'timed answers')


@check_with('--loops=4', ends=None)
def live_figures_are_read_while_workers_work(running):
    """Many readers and many writers, for ThreadSanitizer."""
    def work(index):
        if index % 2:
            load_once(running)
            return
        for _ in range(10 if SHORT else 50):
            process = live_of(running)
            same(len(process['timeline']['workers']), process['workers'], 'rows')

    in_threads(work, 4)
    same(live_of(running)['answers']['/wc'], {'200': 160}, 'answers')
    stops(running)
