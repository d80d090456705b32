# SPDX-License-Identifier: MIT
"""Images and their edges, computed in a slow and simple way: for check_http.py."""
import struct
import zlib

SIGNATURE = b'\x89PNG\r\n\x1a\n'


def chunk(kind, data):
    """A chunk of a PNG."""
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


def png(width, height, samples, color=0, depth=8, palette=None):
    """A PNG of bytes of samples; color: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA."""
    row = len(samples) // height if height else 0
    data = b''.join(b'\0' + samples[at:at + row] for at in range(0, len(samples), row or 1))
    head = struct.pack('>IIBBBBB', width, height, depth, color, 0, 0, 0)
    return (SIGNATURE + chunk(b'IHDR', head) + (chunk(b'PLTE', palette) if palette else b'') +
            chunk(b'IDAT', zlib.compress(data)) + chunk(b'IEND', b''))


# Start of each pass, and its steps: across and down.
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
         (0, 1, 1, 2))


def packed(samples, depth):
    """Returns a row of the samples."""
    if depth == 16:
        return struct.pack('>%dH' % len(samples), *samples)
    row = bytearray((len(samples) * depth + 7) // 8)
    for at, sample in enumerate(samples):
        row[at * depth // 8] |= sample << (8 - depth - at * depth % 8)
    return bytes(row)


def png_of(size, pixel, color, depth, by_adam7=False, chunks=b''):
    """A PNG of any form; pixel(x, y): its samples."""
    (width, height), data = size, b''
    for x0, y0, right, down in ADAM7 if by_adam7 else ((0, 0, 1, 1),):
        for y in range(y0, height, down):
            row = [sample for x in range(x0, width, right) for sample in pixel(x, y)]
            if row:
                data += b'\0' + packed(row, depth)
    head = struct.pack('>IIBBBBB', width, height, depth, color, 0, 0, by_adam7)
    return (SIGNATURE + chunk(b'IHDR', head) + chunks + chunk(b'IDAT', zlib.compress(data)) +
            chunk(b'IEND', b''))


DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
FORMS = [(color, depth, clear) for color, depths in DEPTHS.items() for depth in depths
         for clear in ((False, True) if color < 4 else (False,))]


def form(size, level, color, depth, clear, by_adam7):
    """A grey picture as a PNG of that form; level(x, y) is below 2 ** min(depth, 8), and not 255 if
    depth is 8.  @clear: pixels of level 0 are transparent by a tRNS chunk.  Else the picture is
    opaque, though it may have an alpha channel."""
    top, chunks = (1 << depth) - 1, b''
    channels = {0: 1, 2: 3, 3: 1, 4: 1, 6: 3}[color]
    white = 40478 if depth == 16 else top if depth == 8 else 0      # no other pixel has it

    def sample(x, y):
        value = level(x, y)
        if clear and not value:
            return white
        if depth < 16:
            return value
        # Any lower byte that rounds to the same 8 bits; with colours libpng is less exact.
        lower = 0 if color & 2 else (x * 37 + y * 11) % 255 - 127
        return min(max(value * 257 + lower, 0), top)

    def pixel(x, y):
        return (sample(x, y),) * channels + ((top,) if color & 4 else ())

    if color == 3:
        white = 0
        greys = [255 if clear and not value else value * 255 // top for value in range(top + 1)]
        chunks += chunk(b'PLTE', bytes(grey for grey in greys for _ in range(3)))
        chunks += chunk(b'tRNS', bytes([0])) if clear else b''
    elif clear:
        chunks += chunk(b'tRNS', struct.pack('>%dH' % channels, *(white,) * channels))
    return png_of(size, pixel, color, depth, by_adam7, chunks)


def interlaced(width, height, noise):
    """A grey PNG by Adam7; noise(n): n samples."""
    data = b''
    for x, y, right, down in ADAM7:
        columns, rows = -(-(width - x) // right), -(-(height - y) // down)
        if columns > 0:
            data += b''.join(b'\0' + noise(columns) for _ in range(rows))
    head = struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 1)
    return (SIGNATURE + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(data)) +
            chunk(b'IEND', b''))


def with_chunks(file, chunks):
    """Returns the PNG with the chunks inserted after its header."""
    return file[:33] + chunks + file[33:]


def pnm(kind, width, height, samples, header='P%d\n# a comment\n%d %d\n255\n'):
    return (header % (kind, width, height)).encode() + samples


def decode_size(file):
    """Returns width and height of a complete PNG."""
    if file[:8] != SIGNATURE or file[-12:] != chunk(b'IEND', b''):
        raise ValueError('no whole PNG')
    return struct.unpack_from('>II', file, 16)


def decode_png(file):
    """Returns width, height, and the bytes of a PNG with 8 bits of grey; raises ValueError."""
    if file[:8] != SIGNATURE:
        raise ValueError('no PNG')
    at, data, head = 8, b'', None
    while at < len(file):
        length, = struct.unpack_from('>I', file, at)
        kind, part = file[at + 4:at + 8], file[at + 8:at + 8 + length]
        if struct.unpack_from('>I', file, at + 8 + length)[0] != zlib.crc32(kind + part):
            raise ValueError('checksum')
        if kind == b'IHDR':
            head = struct.unpack('>IIBBBBB', part)
        if kind == b'IDAT':
            data += part
        at += 12 + length
    width, height, depth, color, _, _, interlaced = head
    if kind != b'IEND' or (depth, color, interlaced) != (8, 0, 0):
        raise ValueError('not 8 bits of grey')
    data, pixels, above = zlib.decompress(data), bytearray(), bytearray(width)
    if len(data) != height * (width + 1):
        raise ValueError('size')
    for y in range(height):
        rule, row = data[y * (width + 1)], bytearray(data[y * (width + 1) + 1:][:width])
        for x in range(width):
            left, up = (row[x - 1] if x else 0), above[x]
            corner = above[x - 1] if x else 0
            if rule == 4:
                p = left + up - corner
                _, _, add = min((abs(p - left), 0, left), (abs(p - up), 1, up),
                                (abs(p - corner), 2, corner))
            else:
                add = (0, left, up, (left + up) // 2)[rule]
            row[x] = (row[x] + add) & 255
        pixels += row
        above = row
    return width, height, bytes(pixels)


def sobel(width, height, pixels):
    def at(x, y):
        x, y = min(max(x, 0), width - 1), min(max(y, 0), height - 1)
        return pixels[y * width + x]

    weights = ((-1, 1), (0, 2), (1, 1))
    edges = bytearray()
    for y in range(height):
        for x in range(width):
            across = sum(w * (at(x + 1, y + d) - at(x - 1, y + d)) for d, w in weights)
            down = sum(w * (at(x + d, y + 1) - at(x + d, y - 1)) for d, w in weights)
            edges.append(min(255, abs(across) + abs(down)))
    return bytes(edges)


def grey_of_rgb(samples):
    """Converts to grey by the rule of ppmtopgm."""
    return bytes((299 * samples[i] + 587 * samples[i + 1] + 114 * samples[i + 2] + 500) // 1000
                 for i in range(0, len(samples), 3))
