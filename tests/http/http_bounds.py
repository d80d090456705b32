# SPDX-License-Identifier: MIT
"""What clients may cost examples/http_server in memory and in time: for check_http.py."""
import struct
import zlib

import http_images as images
from http_checks import SHORT, check, is_code, noise, server, stops
from http_client import SANITIZER, ask

# ---- images ------------------------------------------------------------------

MEGABYTE = 1 << 20


def zeros(megabytes):
    """Compressed as far as it goes."""
    to = zlib.compressobj(9)
    return b''.join(to.compress(bytes(MEGABYTE)) for _ in range(megabytes)) + to.flush()


@check
def small_images_that_ask_for_much_cost_little():
    good = images.png(30, 20, noise(600))
    header = good[:33]
    end = images.chunk(b'IEND', b'')
    many = 100 if SHORT else 900
    refused = {
        'a text of 2 GB': header + struct.pack('>I', 2**31 - 1) + b'zTXt' + b'abc',
        'a text behind the end': good[:-12] + struct.pack('>I', 2**31 - 1) + b'zTXt',
        'much more data than pixels': header + images.chunk(b'IDAT', zeros(many)) + end,
        'an interlaced one': (images.interlaced(16, 16, noise)[:33] +
                              images.chunk(b'IDAT', zeros(many)) + end),
        'a large palette': images.with_chunks(good, images.chunk(b'PLTE', bytes(3 * 300))),
        'an unknown critical chunk': images.with_chunks(good, images.chunk(b'NOPE', bytes(9))),
    }
    texts = images.chunk(b'zTXt', b'key\0\0' + zeros(8)) * 100
    profile = images.chunk(b'iCCP', b'name\0\0' + zeros(many))
    with server('--workers=1') as running:
        is_code(ask(running.port, '/sobel', good), 200)
        before, cpu = running.rss_kb(), running.cpu_seconds()
        for name, file in refused.items():
            answer = ask(running.port, '/sobel', file)
            assert answer.code == 400, '%s: %d %r' % (name, answer.code, answer.body)
        for file in (images.with_chunks(good, texts), images.with_chunks(good, profile)):
            is_code(ask(running.port, '/sobel', file), 200)
        grown, cpu = running.rss_kb() - before, running.cpu_seconds() - cpu
        assert SANITIZER or grown < 30000, 'grown by %d kB' % grown
        # Inflating all of it takes seconds.
        assert SANITIZER or cpu < 0.5, '%.1f CPU seconds' % cpu
        stops(running)


@check
def interlaced_images_are_read():
    """Their rows come in seven passes: the data's size is counted for each."""
    with server('--workers=1') as running:
        for width, height in ((1, 1), (2, 3), (4, 4), (5, 9), (33, 17), (300, 200)):
            is_code(ask(running.port, '/sobel', images.interlaced(width, height, noise)), 200)
        stops(running)
