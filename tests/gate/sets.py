#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Finds the tests that have passed on the present sources, and the tests that have to run.

usage:
    sets.py chosen BUILD SECONDS    the tests that the gate runs in that build, on one line
    sets.py todo BUILD              the tests that have not passed in that build
    sets.py check checks that the tables only name existing files and tests

A set is a test file, on all its devices. tests/passed.tab has a row for each set: the SHA-256 of
its inputs, and the builds in which it passed with them, with its seconds. Only `make check-all`
writes it. The inputs are the files that tests/gate/inputs.tab names for the set, and each file that
no row names: headers, the Makefile, new files. Comments of C count only for tests that read them.
tests/gate/reach.tab has the sources that a test reaches, measured by `make coverage`.
"""
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PASSED, REACH, INPUTS = 'tests/passed.tab', 'tests/gate/reach.tab', 'tests/gate/inputs.tab'
MUTANTS = 'tests/tree/mutants.tab'
# The tests that coverage runs, and reach.tab has.
COUNTED = ('unit/*', 'api/*', 'stress/*')
UNKNOWN_SECONDS = 20        # of a test that never passed in any build
# How much longer a test takes in a build than in the plain one.
SLOWER = {'asan': 3, 'tsan': 4, 'coverage': 2, 'aarch64': 4}
READ_COMMENTS = ('tree/*', 'package/*')
C_FILE = re.compile(r'.*[.](c|h|cu|cuh|cpp|hpp|pml)')
C_TOKEN = re.compile(r'''("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|/[*].*?[*]/|//[^\n]*|[ \t]*\n\s*|[ \t]+''', re.S)


class Build:
    """A way to build, and the tests that check-all runs in it."""

    def __init__(self, configure, tests, but=(), env=None, compiler='gcc', inputs=''):
        self.configure, self.compiler, self.inputs = configure, compiler, inputs
        self.tests, self.but, self.env = tests.split(), tuple(but), env or {}

    def runs(self, name):
        return matches(name, self.tests) and not matches(name, self.but)

    def sha(self):
        """Returns the hash of what its sets share besides their inputs."""
        version = 'none'
        if shutil.which(self.compiler):
            version = subprocess.run([self.compiler, '--version'], stdout=subprocess.PIPE, text=True,
                                     check=True).stdout.split('\n', maxsplit=1)[0]
        flags = [f'{name}={os.environ.get(name, "")}' for name in ('CFLAGS', 'CPPFLAGS', 'LDFLAGS')]
        own = [sha for name, sha in sorted(codes().items()) if fnmatch.fnmatchcase(name, self.inputs)]
        return digest('\n'.join([version, *self.configure, *flags, *own]).encode())


CORE_OF_ARM = '''unit/eventcount unit/device unit/hist unit/inflight unit/latch unit/nontemporal unit/park unit/pinned
    unit/queue unit/rounds unit/tally api/after api/barrier api/batch api/cancel api/chain api/close api/copy api/cq
    api/deadline api/hold api/job api/keyed api/map api/order api/pool api/resize api/submit'''
NO_DOUBLE = ['unit/fake*']      # the double of CUDA's runtime needs CUDA's headers
BUILDS = {
    # First: it finds the sources that the other builds' sets reach.
    'coverage': Build(['CC=gcc', '--enable-werror'],
                      'unit/* api/* stress/* cli/causes cli/lint cli/report cli/tool cli/top cli/torture cli/trace '
                      'package/cuda-units package/nvtx make/coverage', but=['unit/orders'], env={'RNL_TEST_SCALE': '3'}),
    'plain': Build(['--enable-werror'], '*', but=['make/coverage'], env={'RNL_FUZZ_SECONDS': '54'}),
    'nocuda': Build(['--enable-werror', '--with-cuda=no'],
                    'unit/* api/pool api/misuse package/install package/symbols package/unload package/legacy-stream',
                    but=NO_DOUBLE, env={'RNL_TEST_SCALE': '3'}),
    # Its counters start near their wrap: docs/counters.md.
    'clang': Build(['CC=clang', 'CXX=clang++', 'CPPFLAGS=-DRNL__NEAR_WRAP', '--enable-werror', '--with-cuda=no'],
                   'unit/* api/*', but=NO_DOUBLE, env={'RNL_TEST_SCALE': '3'}, compiler='clang'),
    'asan': Build(['--enable-werror', '--with-cuda=auto', '--enable-sanitizer=address,undefined'], '*',
                  but=['tree/*', 'make/*', 'modules/*']),
    # Tests that compute for long in one thread, or have no threads of ours, only run in asan.
    'tsan': Build(['CC=clang', '--enable-werror', '--with-cuda=auto', '--enable-sanitizer=thread'], '*',
                  but=['tree/*', 'make/*', 'modules/*', 'cli/bench_*', 'cli/causes', 'cli/lint', 'cli/report',
                       'package/headers', 'package/install', 'package/manual'],
                  env={'RNL_TORTURE_SECONDS': '30', 'NOT': 'fake:unit/countdown fake:cli/http host:cli/buckets '
                       'host:cli/loader host:cli/pipeline host:cli/tool'}, compiler='clang'),
    'aarch64': Build(['--host=aarch64-linux-gnu', '--enable-werror', '--with-cuda=no', '--without-mpi'], CORE_OF_ARM,
                     env={'NOT': 'cuda:%', 'RNL_TEST_SCALE': '10'}, compiler='aarch64-linux-gnu-gcc'),
    # `make sim` runs its tests.
    'sim': Build(['--enable-werror', '--with-cuda=auto', '--enable-simulation'], 'unit/* api/* stress/*',
                 but=['unit/countdown', 'unit/cpus', 'unit/orders', 'unit/symbol', 'unit/weak'], inputs='tests/sim/*'),
}
COVERAGE_FLAGS = ['CFLAGS=-O0 -g --coverage -fprofile-update=atomic', 'CPPFLAGS=-D_exit=exit', 'LDFLAGS=--coverage',
                  'file_maps=']
# Sets of check-all that are targets of make in the plain build: the arguments of `make`.
MUTANT_PARTS, FUZZES = 24, 'calls form image lint options report request top trace'.split()
TARGETS = {'make/coverage': ['coverage-report', 'coverage_dir=.', 'REACHED=../reached', 'REACH=--write'],
           'make/http': ['check-http'],
           'make/sim-torture': ['sim', 'T=torture', 'SEEDS=1000', 'DEVICE=host'],
           **{f'make/torture-{d}': ['torture', f'DEVICE={d}', 'SECONDS=180'] for d in ('host', 'fake')},
           **{f'make/fuzz-{f}': ['fuzz', f'FUZZES={f}', 'FUZZ_SECONDS=60'] for f in FUZZES},
           **{f'make/mutants-{n}': ['check-mutants', f'PART={n}/{MUTANT_PARTS}', 'KEEP=../mutants']
              for n in range(1, MUTANT_PARTS + 1)}}


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def rows(path):
    """Yields the rows of a table as lists of columns; a missing file has no rows."""
    path = os.path.join(TOP, path)
    if not os.path.exists(path):
        return
    with open(path, encoding='utf-8') as table:
        for line in table:
            if line.strip() and not line.startswith('#'):
                yield line.rstrip('\n').split('\t')


@lru_cache(None)
def files():
    """Returns {source file: SHA-256 of its contents}, also in a copy without .git."""
    names = subprocess.run(['sh', os.path.join(TOP, 'dist.sh'), '--list'], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split('\n')
    found = {}
    for name in names:
        path = os.path.join(TOP, name)
        # Files that check-all writes are not inputs.
        if name not in ('', PASSED, REACH) and os.path.isfile(path):
            with open(path, 'rb') as file:
                found[name] = digest(file.read())
    return found


def code_of(text):
    """Returns a C file's text without comments and indentation."""
    def part(found):
        return found[1] or ('\n' if found[0].isspace() and '\n' in found[0] else ' ')

    return C_TOKEN.sub(part, C_TOKEN.sub(part, text))


@lru_cache(None)
def codes():
    """Returns {source file: SHA-256 of its contents without C's comments}."""
    found = dict(files())
    for name in filter(C_FILE.fullmatch, found):
        with open(os.path.join(TOP, name), encoding='utf-8') as file:
            found[name] = digest(code_of(file.read()).encode())
    return found


def state():
    """Returns the hash of all sources as they are now."""
    for cached in (files, codes, tests, reached, inputs, sha_of):
        cached.cache_clear()
    return digest(repr(sorted(files().items())).encode())


@lru_cache(None)
def tests():
    """Returns the names of all sets."""
    names = []
    for name in files():
        kind = re.fullmatch(r'tests/((?:unit|api|stress)/\w[\w-]*)\.c|'
                            r'tests/((?:cli|modules(?!/lib\.)|package|tree)/\w[\w-]*)\.sh', name)
        if kind:
            names.append(kind[1] or kind[2])
    return sorted(names + list(TARGETS))


@lru_cache(None)
def reached():
    """Returns {test: sources that it reaches}, and the sources that some test reaches."""
    counted = [t for t in tests() if matches(t, COUNTED) and BUILDS['coverage'].runs(t)]
    by_test, known = {t: set() for t in counted}, set()
    for source, how, *names in rows(REACH):
        names = set(names[0].split()) if names else set()
        known.add(source)
        for test in counted:
            if (test in names) == (how == 'by'):
                by_test[test].add(source)
    return by_test, known


def mutants_of(test):
    """Returns the rows of a part of mutants.tab, like make check-mutants; [] for other tests."""
    part = re.fullmatch(r'make/mutants-(\d+)', test)
    return list(rows(MUTANTS))[int(part[1]) - 1::MUTANT_PARTS] if part else []


def catchers_of(mutants, build):
    """Returns the tests that catch these rows of mutants.tab in a build."""
    return {c.split(':', 1)[1] for *_, how in mutants for c in how.split() if c.startswith(build + ':')}


@lru_cache(None)
def inputs():
    """Returns {test: its files} without the files of all tests, and the files of all tests."""
    own, named = {t: set() for t in tests()}, set()
    by_test, known = reached()
    for patterns, globs in rows(INPUTS):
        for test in tests():
            if not matches(test, patterns.split()):
                continue
            for glob in globs.split():
                if glob == '@reached':
                    own[test] |= by_test[test] if test in by_test else known
                    continue
                glob = glob.replace('{}', os.path.basename(test))
                own[test].update(f for f in files() if fnmatch.fnmatchcase(f, glob))
        # A row for all files does not name any of them.
        if globs.split() != ['*']:
            named.update(f for g in globs.split() for f in files() if fnmatch.fnmatchcase(f, g.replace('{}', '*')))
    for test in own:
        for build, where in (('plain', 'tests/{}.c'), ('tsan', 'tests/{}.c'), ('fake', 'tests/{}.c'),
                             ('model', 'tests/model/{}.pml')):
            own[test] |= {where.format(c.split(':')[0]) for c in catchers_of(mutants_of(test), build)}
    unreached = {f for f in files() if re.match(r'src/(?!tool/).*[.]c$', f)} - known
    return own, set(files()) - named | unreached


@lru_cache(None)
def sha_of(test):
    own, shared = inputs()
    shas = files() if matches(test, READ_COMMENTS) else codes()
    lines = [f'{name} {shas[name]}' for name in sorted((own[test] | shared) & set(shas))]
    return digest('\n'.join(lines + [str(row) for row in mutants_of(test)]).encode())


def passed_rows():
    """Returns ({build: SHA-256}, {test: (SHA-256, {build: seconds})})."""
    builds, sets = {}, {}
    for name, sha, *where in rows(PASSED):
        if name.startswith('build '):
            builds[name.split()[1]] = sha
        else:
            sets[name] = sha, {b: int(s) for b, s in (w.split('=') for w in where[0].split())} if where else {}
    return builds, sets


def write_passed(builds, sets):
    lines = ['# SPDX-License-Identifier: MIT',
             '# What has passed: written by `make check-all` (tests/gate/sets.py).  A set is a test file; then the',
             '# SHA-256 of its inputs, and the builds in which it passed with these, with its seconds.']
    lines += [f'build {name}\t{sha}' for name, sha in sorted(builds.items())]
    lines += [f'{name}\t{sha}\t{" ".join(f"{b}={s}" for b, s in sorted(where.items()))}'
              for name, (sha, where) in sorted(sets.items()) if where]
    new = os.path.join(TOP, PASSED + '~')
    with open(new, 'w', encoding='utf-8') as table:
        table.write('\n'.join(lines) + '\n')
    os.replace(new, os.path.join(TOP, PASSED))


def todo(build):
    """Returns the tests that have not passed in a build with their present inputs."""
    builds, sets = passed_rows()
    same = builds.get(build) == BUILDS[build].sha()

    def has_passed(test):
        sha, where = sets.get(test, ('', {}))
        return same and sha == sha_of(test) and build in where

    return [t for t in tests() if BUILDS[build].runs(t) and not has_passed(t)]


def results_of(path):
    """Returns (begun tests, [(ended test, seconds, passed, failed, skipped)]) of a file of
    tests/lib/run."""
    with open(path, encoding='utf-8') as lines:
        lines = [line.split() for line in lines]
    return {line[0] for line in lines}, [(line[0], *map(int, line[1:])) for line in lines if line[1:]]


def enter(build, results):
    """Enters the sets of a build that passed on each device; returns the number of the others."""
    def test_of(name):
        return name if name in tests() else name.rpartition('.')[0]

    builds, sets = passed_rows()
    began, ended = results_of(results)
    bad = {test_of(name) for name in began - {name for name, *_ in ended}}
    bad |= {test_of(name) for name, _, _, failed, _ in ended if failed}
    seconds = dict.fromkeys(bad, 0)
    for name, took, *_ in ended:
        seconds[test_of(name)] = seconds.get(test_of(name), 0) + took
    if builds.get(build) != BUILDS[build].sha():
        for _, where in sets.values():
            where.pop(build, None)
        builds[build] = BUILDS[build].sha()
    for test, took in seconds.items():
        if test in tests():
            sha, where = sets.get(test, ('', {}))
            if sha != sha_of(test):
                where = {}
            where.pop(build, None)
            if test not in bad:
                where[build] = took
            sets[test] = sha_of(test), where
    write_passed(builds, {t: s for t, s in sets.items() if t in tests()})
    return len(bad)


# ---- the gate --------------------------------------------------------------------

# Tests that a build of the gate always runs, in addition to the catchers of mutants.tab's rows.
ALWAYS = {'plain': ['tree/[!m]*', 'tree/memory-order', 'tree/mutants-places', 'package/headers', 'package/symbols'],
          'asan': [], 'tsan': [], 'coverage': [], 'aarch64': [], 'sim': ['api/bounds']}
# Tests that it runs if they have not passed.
IF_CHANGED = {'plain': ['*'], 'asan': ['unit/*', 'api/*'], 'tsan': ['unit/*', 'api/*', 'stress/*'],
              'coverage': ['*'], 'aarch64': ['*'], 'sim': ['api/*', 'stress/*']}
# ThreadSanitizer is for what changed in these rooms.
ROOMS_OF_THREADS = re.compile(r'src/(pool|job|worker|sys|batch)/')


def seconds_in(build):
    """Returns {test: its seconds}, estimated from the plain build's for a test that has not passed."""
    sets = passed_rows()[1]

    def seconds_of(test):
        where = sets.get(test, ('', {}))[1]
        return where.get(build, where.get('plain', UNKNOWN_SECONDS) * SLOWER.get(build, 1))

    return {t: seconds_of(t) for t in tests()}


def chosen(build, budget):
    """Returns (tests that the gate runs in a build, changed tests that are left to check-all). It
    runs the core, then the tests that have not passed with their present inputs, the quickest
    first, for that many seconds."""
    core = {t for t in tests() if t in catchers_of(rows(MUTANTS), build) or matches(t, ALWAYS[build])}
    changed = [t for t in todo(build) if matches(t, IF_CHANGED[build]) and t not in core and t not in TARGETS]
    if build == 'tsan':
        by_test, _ = reached()
        changed = [t for t in changed if any(ROOMS_OF_THREADS.match(f) for f in by_test.get(t, ()))]
    seconds = seconds_in(build)
    left = budget - sum(seconds[t] for t in core)
    run, skipped = sorted(core), []
    for test in sorted(changed, key=lambda t: (seconds[t], t)):
        left -= seconds[test]
        (run if left >= 0 else skipped).append(test)
    return run, skipped


def check():
    """Checks that each row names existing files and tests, and that each test has inputs; returns
    the errors."""
    wrong = []
    for patterns, globs in rows(INPUTS):
        for pattern in patterns.split():
            if not any(fnmatch.fnmatchcase(t, pattern) for t in tests()):
                wrong.append(f'{INPUTS}: no test is called {pattern}')
        for glob in globs.split():
            if glob[0] != '@' and not any(fnmatch.fnmatchcase(f, glob.replace('{}', '*')) for f in files()):
                wrong.append(f'{INPUTS}: no file is called {glob}')
    wrong += [f'{REACH}: {s}: "{how}" is neither by nor but' for s, how, *_ in rows(REACH) if how not in ('by', 'but')]
    own, _ = inputs()
    wrong += [f'{INPUTS}: {t} has no inputs' for t in tests() if not own[t]]
    return wrong


def main(command, *args):
    if command == 'chosen':
        run, left = chosen(args[0], int(args[1]))
        print(' '.join(run))
        print(f'{args[0]}: {len(run)} of {len(tests())} sets run; {len(left)} more have changed, and are left '
              f'to make check-all{": " if left else ""}{" ".join(left)}', file=sys.stderr)
    elif command == 'todo':
        print(' '.join(todo(args[0])))
    elif command == 'check':
        wrong = check()
        print('\n'.join(wrong))
        return bool(wrong)
    else:
        sys.exit(f"sets.py: no command '{command}'")
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
