# SPDX-License-Identifier: MIT
"""Asks an HTTP module of examples/modules for checksums.

usage: ask.py one PORT HOW TEXT     prints the answer's code and body, or "gone"
       ask.py load PORT HOW FILE    until FILE exists, four clients compare each answer with zlib's
                                    checksum; prints the number of right answers and of those 503
HOW: post, the text is the body; or get, it is the path
"""
import os
import random
import string
import sys
import threading
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'http'))
from http_client import Unanswered, ask as http_ask

LETTERS = string.ascii_letters.encode()


def ask(port, how, text):
    if how == 'get':
        return http_ask(port, '/' + text.decode())
    return http_ask(port, '/adler', text)


def client(port, how, stop, seed, counts):
    rng = random.Random(seed)
    try:
        while not os.path.exists(stop):
            text = bytes(rng.choice(LETTERS) for _ in range(rng.randint(1, 2000)))
            answer = ask(port, how, text)
            if answer.code == 503:
                counts['busy'] += 1
            elif (answer.code, answer.body) == (200, b'%08x\n' % zlib.adler32(text)):
                counts['right'] += 1
            else:
                raise AssertionError('%d %r for %d bytes' % (answer.code, answer.body, len(text)))
    except BaseException as error:
        counts['wrong'] = '%s %s' % (type(error).__name__, error)


def load(port, how, stop):
    seed = int(os.environ.get('SEED') or os.getpid())
    counts = [{'right': 0, 'busy': 0} for _ in range(4)]
    threads = [threading.Thread(target=client, args=(port, how, stop, seed + i, counts[i])) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for count in counts:
        if 'wrong' in count:
            sys.exit('SEED=%d: %s' % (seed, count['wrong']))
    print(sum(count['right'] for count in counts), 'right', sum(count['busy'] for count in counts), 'busy')


def main():
    what, port, how, text = sys.argv[1:]
    if what == 'load':
        load(int(port), how, text)
    else:
        try:
            answer = ask(int(port), how, text.encode())
            print(answer.code, answer.body.decode().rstrip())
        except (Unanswered, OSError):
            print('gone')


main()
