#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Computes the sources that each test has reached, in a build for coverage.

usage: reach.py REACHED BUILD [--write]

REACHED has a folder for each test and device, with its counts (GCOV_PREFIX). Their sum is put into
BUILD, for gcovr. --write also adds the results to tests/gate/reach.tab: a row for each source; "by"
lists the tests that reach it, or "but" the tests that do not, if these are fewer. A row never loses
a test: remove the table to rebuild it.
"""
import os
import shutil
import struct
import subprocess
import sys

import sets

FUNCTION, ARCS = 0x01000000, 0x01a10000     # tags of gcc's .gcda


def has_run(path):
    """Returns True if a count in a .gcda file is not 0."""
    with open(path, 'rb') as file:
        data = file.read()
    at = 16      # after magic, version, stamp and checksum
    while at + 8 <= len(data):
        tag, length = struct.unpack_from('<Ii', data, at)
        at += 8
        if tag == ARCS and length > 0 and any(data[at:at + length]):
            return True
        # A negative length means that all counts are 0 and not stored.
        at += max(length, 0)
    return False


def main(reached, build, write=''):
    by_test, known = sets.reached()
    total = os.path.join(build, 'total')
    shutil.rmtree(total, ignore_errors=True)
    build = os.path.realpath(build)
    for folder, _, names in sorted(os.walk(reached)):
        if not any(name.endswith('.gcda') for name in names):
            continue
        # FOLDER/KIND/TEST.DEVICE/the build's path/src/room
        kind, test, path = os.path.relpath(folder, reached).split(os.sep, 2)
        test = f'{kind}/{test.split(".")[0]}'
        room = os.path.relpath('/' + path, build)
        for name in names if test in by_test and room.startswith('src/') else ():
            source = f'{room}/{name[:-5]}.c'
            if source in sets.files() and has_run(os.path.join(folder, name)):
                by_test[test].add(source)
    for kind in sorted(os.listdir(reached)):
        for test in sorted(os.listdir(os.path.join(reached, kind))):
            one = os.path.join(reached, kind, test) + build + '/src'
            if not os.path.isdir(one):
                continue
            if os.path.isdir(total):
                subprocess.run(['gcov-tool', 'merge', '-o', total + '~', total, one], check=True,
                               stdout=subprocess.DEVNULL)
                shutil.rmtree(total)
                os.rename(total + '~', total)
            else:
                shutil.copytree(one, total)
    for folder, _, names in os.walk(total):
        for name in names:
            shutil.copy(os.path.join(folder, name), os.path.join(build, 'src', os.path.relpath(folder, total), name))
    if write == '--write':
        table(by_test)
    return 0


def table(by_test):
    lines = ['# SPDX-License-Identifier: MIT',
             '# Which tests reach a source, as `make check-all` saw them: those "by" which it is, or all "but" these.']
    for source in sorted(set().union(*by_test.values())):
        by = sorted(t for t in by_test if source in by_test[t])
        but = sorted(set(by_test) - set(by))
        lines.append(f'{source}\tby\t{" ".join(by)}' if len(by) <= len(but) else f'{source}\tbut\t{" ".join(but)}')
    with open(os.path.join(sets.TOP, sets.REACH), 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
