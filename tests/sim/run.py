#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs test programs on the simulated machine, each with many seeds.

usage: run.py SEED SEEDS HOW CASE PROGRAM...

The seeds are SEED and those that follow it.  HOW is a way to explore (random, priorities, bounded,
starved) and CASE one test; empty: what the seed draws, and all tests.  A failure is shown once, with
its schedule and the command that repeats it.  The last line is the sum of the runs of programs.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

LIMIT = 300             # seconds of one program with one seed
# A test that loops makes that many times fewer rounds, and one that lasts takes so many seconds.
FEWER, STORMS_FEWER, SECONDS = '20', '200', '0.01'
FAILED = re.compile(r'^\S+?:\d+:[FE]:(\w+):')


def run(program, seed, how, case):
    """(what failed, the output): of one program with one seed."""
    env = {'RNL_TEST_SCALE': STORMS_FEWER if '/stress/' in program else FEWER, 'RNL_STRESS_SECONDS': SECONDS, **os.environ, 'SIM_SEED': str(seed), 'RNL_TEST_DEVICE': 'host', 'CK_DEFAULT_TIMEOUT': str(LIMIT)}
    for name, value in (('SIM_HOW', how), ('CK_RUN_CASE', case)):
        if value:
            env[name] = value
    # A program that hashes addresses is the same each time then.
    try:
        done = subprocess.run(['setarch', '-R', './' + program], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace', timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as late:
        return ["it does not end"], str(late.stdout or "")
    failed = [m[1] for m in map(FAILED.match, done.stdout.split('\n')) if m]
    failed = [f for f in failed if f'KNOWN TO FAIL: {f}:' not in done.stdout]
    if done.returncode not in (0, 77) and not failed:
        failed = [f'exit status {done.returncode}']
    return failed, done.stdout


def main(seed, seeds, how, case, *programs):
    shown, passed, bad = set(), 0, 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        todo = [(p, s) for s in range(int(seed), int(seed) + int(seeds)) for p in programs]
        for (program, at), (failed, out) in zip(todo, pool.map(lambda t: run(*t, how, case), todo)):
            passed += not failed
            bad += bool(failed)
            name = program.replace('tests/', '', 1)
            for test in failed:
                if (program, test) in shown:
                    continue
                shown.add((program, test))
                print(f'FAIL  {name} {test}: make sim T={name} SEED={at}' + (f' HOW={how}' if how else ''))
                print('      | ' + out.strip().replace('\n', '\n      | '), flush=True)
    print(f'{passed} passed, {bad} failed')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
