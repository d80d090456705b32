#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs all checks of this tree: `make check-all`.

usage: check_all.py [MINUTES [BUILD[:TESTS] ...]]

Runs each set that has not passed on the present sources, in each of its builds, and enters passed
sets in tests/passed.tab. So it may be stopped at any time, and continues there the next time. After
MINUTES it starts no more sets, and ends when the running sets have ended. The builds are in
build-all. TESTS is a pattern, like in plain:make/mutants-*.
The last line is the sum over the sets of this call; the status is 0 if each set has passed.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import sets
from sets import BUILDS, TARGETS, TOP

WORK = os.path.join(TOP, 'build-all')
TIMEOUT = 1200          # seconds of one set
# Packages in addition to those of `make deps check-all`.
PACKAGES = '''autoconf clang libclang-rt-dev g++ gcovr debhelper fakeroot lintian libc6-dev-i386 lib32gcc-12-dev
    gcc-aarch64-linux-gnu qemu-user-static'''


def heading(text):
    print(f'\n==== {text}  ({time.strftime("%H:%M:%S")})', flush=True)


def configured(build):
    """Returns the directory of a build; None if its compiler is not available."""
    how, where, cross = BUILDS[build], os.path.join(WORK, build), []
    if not shutil.which(how.compiler):
        print(f'SKIP: {build}: there is no {how.compiler}', flush=True)
        return None
    if build == 'aarch64':
        arm64 = os.path.join(WORK, 'arm64')
        if not os.path.isdir(arm64) and subprocess.run(['sh', os.path.join(TOP, 'tests/lib/cross_root.sh'), 'arm64', arm64,
                                                        'libc6-dev', 'liburcu-dev', 'check'], check=False).returncode:
            shutil.rmtree(arm64, ignore_errors=True)
            print('SKIP: aarch64: its packages cannot be had here', flush=True)
            return None
        how.env.update(TESTWRAP=f'qemu-aarch64-static -L {arm64}', PKG_CONFIG_SYSROOT_DIR=arm64,
                       PKG_CONFIG_LIBDIR=f'{arm64}/usr/lib/aarch64-linux-gnu/pkgconfig')
        cross = [f'CC=aarch64-linux-gnu-gcc --sysroot={arm64}', 'CXX=', 'PKG_CONFIG=pkg-config']
    os.makedirs(where, exist_ok=True)
    if not os.path.exists(os.path.join(where, 'config.mk')):
        subprocess.run([os.path.join(TOP, 'configure'), '-q', *cross, *how.configure], cwd=where, check=True,
                       env={**os.environ, **how.env})
    return where


def without_randomised_addresses():
    """Older ThreadSanitizers fail if the kernel randomises more address bits than they support."""
    fixed = ['setarch', '-R']
    return fixed if subprocess.run([*fixed, 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0 else []


def run_tests(build, where, names, stop_at):
    """Runs test files by tests/lib/run. Returns the name of the file with their results."""
    results = os.path.join(where, 'results')
    if os.path.exists(results):
        os.remove(results)
    env = {**os.environ, 'TIMEOUT': str(TIMEOUT), 'RESULTS': results, 'STOP_AT': str(int(stop_at)), **BUILDS[build].env}
    arguments = ['T=' + ' '.join(names)]
    if 'NOT' in env:
        arguments.append('NOT=' + env['NOT'])
    if build == 'coverage':
        env['GCOV_DIR'] = os.path.join(WORK, 'reached')
        arguments += sets.COVERAGE_FLAGS
    make = [*without_randomised_addresses(), 'make', '-C', where, '--no-print-directory', '-j2', *arguments]
    subprocess.run([*make, 'all', 'tests'], env=env, check=True, stdout=subprocess.DEVNULL)
    if time.time() < stop_at:
        subprocess.run([*make, 'check'], env=env, check=False)
    return results


def run_target(where, name, results):
    """Runs a target of make, which has passed if its status is 0."""
    began = time.time()
    done = subprocess.run(['make', '-C', where, '--no-print-directory', *TARGETS[name]], check=False, timeout=3600)
    with open(results, 'a', encoding='utf-8') as file:
        print(name, int(time.time() - began), int(not done.returncode), int(bool(done.returncode)), 0, file=file)


def simulate(where, names, stop_at):
    """Like run_tests(), by `make sim`, one after the other, because each takes all CPUs."""
    results, make = os.path.join(where, 'results'), ['make', '-C', where, '--no-print-directory']
    with open(results, 'w', encoding='utf-8') as file:
        subprocess.run([*make, '-s', '-j2', 'T=' + ' '.join(names), 'tests'], check=True)
        for name in names:
            if time.time() >= stop_at:
                break
            began = time.time()
            done = subprocess.run([*make, 'sim', 'T=' + name], check=False, stdout=subprocess.PIPE, text=True)
            # A missing program has no runs, which is not a pass.
            sums = re.findall(r'^(\d+) passed, (\d+) failed$', done.stdout, re.M)
            passed, failed = map(int, sums[-1]) if sums else (0, 0)
            failed += not passed + failed or (done.returncode and not failed)
            print(f'{"FAIL" if failed else "PASS"}  {name}: {done.stdout if failed else done.stdout.strip()}', flush=True)
            print(name, int(time.time() - began), passed, failed, 0, file=file, flush=True)
    return results


def counts(results):
    """Returns [passed, failed, skipped] of a file of results."""
    return [sum(column) for column in zip(*(row[2:] for row in sets.results_of(results)[1]))] or [0, 0, 0]


def todo(wanted):
    """Returns the sets of BUILD[:TESTS] that are left to run."""
    build, _, tests = wanted.partition(':')
    return [t for t in sets.todo(build) if sets.matches(t, [tests or '*'])]


def main(minutes='100000', *wanted):
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if subprocess.run(['sh', os.path.join(TOP, 'deps.sh'), *PACKAGES.split()], check=False).returncode:
        print('could not install all of it: going on', flush=True)
    stop_at, total, failed_builds = time.time() + 60 * float(minutes), [0, 0, 0], 0
    for each in wanted or BUILDS:
        build, names = each.split(':')[0], todo(each)
        if not names or time.time() >= stop_at:
            continue
        heading(f'{build}: {len(names)} sets')
        before, where = sets.state(), configured(build)
        if not where:
            continue
        results = os.path.join(where, 'results')
        try:
            if build == 'sim':
                simulate(where, names, stop_at)
            else:
                run_tests(build, where, [n for n in names if n not in TARGETS], stop_at)
            for name in [n for n in names if n in TARGETS]:
                if time.time() < stop_at:
                    run_target(where, name, results)
        except subprocess.CalledProcessError as error:
            print(f'FAIL  {build}: {" ".join(error.cmd)[:200]}: status {error.returncode}', flush=True)
            failed_builds += 1
        finally:
            if os.path.exists(results):
                total = [a + b for a, b in zip(total, counts(results))]
                if sets.state() == before:
                    sets.enter(build, results)
                else:
                    print('the sources changed meanwhile: nothing is entered', flush=True)
    left = {w: len(todo(w)) for w in wanted or BUILDS}
    heading('left: ' + (', '.join(f'{b} {n}' for b, n in left.items() if n) or 'nothing'))
    print(f'{total[0]} passed, {total[1] + failed_builds} failed, {total[2]} skipped')
    return bool(total[1] or failed_builds or any(left.values()))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
