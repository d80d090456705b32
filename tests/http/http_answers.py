# SPDX-License-Identifier: MIT
"""The right answers of examples/http_server: for check_http.py."""
import random
import threading

import http_images as images
from http_checks import (BODIES, DEVICE, SEED, SHORT, check, check_with, in_threads, is_code, noise,
                         picture, same, server, stops)
from http_client import Connection, ask, chunked, request_bytes

# ---- counts ------------------------------------------------------------------

def counts_all(running):
    def work(index):
        mine = BODIES[:]
        random.Random(SEED + index).shuffle(mine)
        connection = Connection(running.port)
        for body, want in mine:
            answer = connection.ask('/wc', body)
            is_code(answer, 200)
            same(answer.body, want, 'counts of %d bytes' % len(body))
            same(answer.headers['content-type'], 'application/json', 'type')
        connection.close()

    in_threads(work, 4)


@check_with()
def counts_are_those_of_wc_for_many_bodies_at_a_time(running):
    counts_all(running)


@check_with('--handler=sync')
def the_sync_handler_answers_the_same(running):
    counts_all(running)
    edges_all(running)


@check_with('--stream=private', '--loops=1', '--workers=3')
def private_streams_answer_the_same(running):
    counts_all(running)


@check_with()
def bodies_in_chunks_and_on_request_are_counted(running):
    body, want = max(BODIES[:5])
    connection = Connection(running.port)
    for size in (1000, 16384, 1 << 20):
        connection.send(request_bytes('/wc', b'', headers=['Transfer-Encoding: chunked'])
                        + chunked(body, size))
        same(connection.answer().body, want, 'counts')
    connection.send(request_bytes('/wc', body, headers=['Expect: 100-continue'])[:-len(body)])
    same(connection.socket.recv(100), b'HTTP/1.1 100 Continue\r\n\r\n', 'first answer')
    connection.send(body)
    same(connection.answer().body, want, 'counts')


@check_with()
def requests_sent_at_once_are_answered_in_their_order(running):
    connection = Connection(running.port)
    mine = [pair for pair in BODIES if len(pair[0]) < 40000][:40]
    sender = threading.Thread(target=connection.send, args=(
        b''.join(request_bytes('/wc', body) for body, _ in mine),))
    sender.start()
    for body, want in mine:
        same(connection.answer().body, want, 'counts of %d bytes' % len(body))
    sender.join()


# ---- edges -------------------------------------------------------------------

def edges_of(running, file):
    answer = ask(running.port, '/sobel', file)
    is_code(answer, 200)
    same(answer.headers['content-type'], 'image/png', 'type')
    return images.decode_png(answer.body)


def edges_all(running):
    sizes = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 3), (31, 8), (32, 8), (33, 9), (97, 61)]
    for width, height in sizes:
        for pixels in (noise(width * height), picture(width, height)):
            want = (width, height, images.sobel(width, height, pixels))
            for file in (images.png(width, height, pixels), images.pnm(5, width, height, pixels)):
                same(edges_of(running, file), want, 'edges of %d x %d' % (width, height))
    rgb = noise(3 * 64 * 40)
    want = (64, 40, images.sobel(64, 40, images.grey_of_rgb(rgb)))
    same(edges_of(running, images.pnm(6, 64, 40, rgb)), want, 'edges of a PPM')


@check_with()
def edges_are_those_computed_here(running):
    in_threads(lambda index: edges_all(running), 1 if SHORT else 4)


@check
def small_images_of_many_clients_are_their_own():
    sizes = [(1, 1), (7, 3), (32, 32), (100, 100), (128, 128), (129, 128), (200, 150)]
    rounds = 3 if SHORT else 20

    def work(index):
        connection = Connection(running.port)
        for turn in range(rounds):
            width, height = sizes[(index + turn) % len(sizes)]
            pixels = noise(width * height)
            answer = connection.ask('/sobel', images.pnm(5, width, height, pixels))
            is_code(answer, 200)
            same(images.decode_png(answer.body),
                 (width, height, images.sobel(width, height, pixels)), 'edges')
        connection.close()

    for options in ((), ('--max-batch=2',), ('--max-batch=0',)):
        with server('--workers=2', *options) as running:
            in_threads(work, len(sizes))
            metrics = running.settled()
            if DEVICE != 'host' and options != ('--max-batch=0',):
                # All images except the two large sizes.
                same(metrics['http_server_small_images_total'], 5 * rounds, 'small images')
            else:
                assert 'http_server_small_images_total' not in metrics, metrics
            stops(running)


@check_with()
def every_kind_of_png_is_read(running):
    """Grey pictures in other formats have the same edges."""
    width, height = 40, 30
    grey = picture(width, height)
    want = (width, height, images.sobel(width, height, grey))
    triple = bytes(sample for sample in grey for _ in range(3))
    opaque = bytes(sample for g in grey for sample in (g, g, g, 255))
    kinds = {
        'RGB': images.png(width, height, triple, 2),
        'RGBA': images.png(width, height, opaque, 6),
        'grey with alpha': images.png(width, height, bytes(s for g in grey for s in (g, 255)), 4),
        'palette': images.png(width, height, grey, 3, palette=bytes(
            sample for index in range(256) for sample in (index,) * 3)),
        '16 bits': images.png(width, height, bytes(s for g in grey for s in (g, g)), 0, 16),
    }
    for name, file in kinds.items():
        same(edges_of(running, file), want, name)


@check_with()
def a_picture_has_the_same_edges_in_every_form_of_png(running):
    """8 sizes, 26 forms: grey, RGB, palette, alpha, a transparent colour; 1 to 16 bits a sample.
    Each form is tested interlaced and not interlaced."""
    wants = {}
    for size in ((1, 1), (2, 3), (4, 5), (7, 8), (8, 8), (9, 17), (33, 20), (64, 64)):
        for color, depth, clear in images.FORMS:
            top = 1 << min(depth, 8)
            seed = noise(4 + 8 * 8)
            levels = [[seed[x // 8 + y // 8 * 8] * (x ^ y | 1) % (top - (depth == 8))
                       for x in range(size[0])] for y in range(size[1])]
            grey = bytes(value * 255 // (top - 1) for row in levels for value in row)
            want = wants.setdefault((size, grey), images.sobel(*size, grey))
            for by_adam7 in (False, True):
                file = images.form(size, lambda x, y, of=levels: of[y][x], color, depth,
                                   clear, by_adam7)
                same(edges_of(running, file), (*size, want), 'edges of %d x %d: color type %d, '
                     '%d bits%s%s' % (*size, color, depth, ', tRNS' * clear,
                                      ', interlaced' * by_adam7))


@check_with('--slots=1', '--loops=1')
def transparent_pixels_are_black_and_not_those_of_another_image(running):
    clear = images.png(64, 48, bytes(4 * 64 * 48), 6)
    edges_of(running, images.pnm(5, 64, 48, noise(64 * 48)))
    same(edges_of(running, clear), (64, 48, bytes(64 * 48)), 'edges of nothing')


# ---- the server's metrics ---------------------------------------------------------

@check_with()
def metrics_count_the_answers(running):
    for _ in range(3):
        ask(running.port, '/wc', b'one')
    ask(running.port, '/sobel', b'no image')
    ask(running.port, '/nope')
    ask(running.port, '/wc')
    is_code(ask(running.port, '/healthz'), 200)
    metrics = running.settled()
    answers = 'http_server_answers_total{route="%s",code="%d"}'
    for route, code, want in (('/wc', 200, 3), ('/sobel', 400, 1), ('other', 404, 1),
                              ('/wc', 405, 1), ('/healthz', 200, 1)):
        same(metrics.get(answers % (route, code)), want, '%s %d' % (route, code))
    same(metrics['http_server_slots'], 128, 'slots')
    assert any('pool="http"' in name for name in metrics), metrics


@check_with()
def healthz_tells_the_state_of_the_pool(running):
    answer = ask(running.port, '/healthz')
    is_code(answer, 200)
    assert answer.body.startswith(b'{"state":"ok",'), answer.body
