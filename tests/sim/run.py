#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs test programs on the simulated machine, each with many seeds.

usage: run.py SEED SEEDS HOW CASE DEVICES PROGRAM...

The seeds are SEED and the following ones.  HOW is a way to explore (random, priorities, bounded,
starved); if empty, the seed draws it.  CASE is one test; if empty, all tests run.  DEVICES are
"host" and "fake", the CUDA device on the double of CUDA's runtime; tests of the double need "fake".
A failure is printed once, with its schedule and the command that repeats it.  The last line counts
the runs of programs.

env: SIM_FAULTS and SIM_MEMORY, read by the simulation; FIRST: ends at the first failure.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

KEPT = 'HOME PATH RNL_STRESS_SECONDS RNL_TEST_SCALE SIM_FAULTS SIM_HASH SIM_MEMORY TMPDIR'.split()
LIMIT = 300             # seconds of one program with one seed
# Arguments of programs without Check: {} is the device; those with CUDA kernels get only the host.
ARGUMENTS = {
    'torture': '--device={}',
    'examples/allocator': '--device={} --repeat=1 --requests=200',
    'examples/overlap': '--device=host --repeat=1 --chunks=16 --chunk=4K --rounds=1',
    'examples/specialised': '--device=host --repeat=1 --bytes=64K --slice=16K --window=4',
    'examples/stream_kinds': '--device=host --repeat=1 --threads=4 --ms=1',
}
# Unit tests and stress tests make fewer rounds, by these factors; the duration of a stress test.
FEWER, STORMS_FEWER, SECONDS = '20', '200', '0.01'
FAILED = re.compile(r'^\S+?:\d+:[FE]:(\w+):')
# The reason for the end of a run: failures that differ only in numbers are one failure.
REASON = re.compile(r'^torture: seed \d+, round \d+: (.*)|^sim: (.*?): seed', re.MULTILINE)


def name_of(program):
    """Returns api/hold for tests/api/hold, examples/overlap for examples/overlap/overlap."""
    return re.sub(r'(\w+)/\1$', r'\1', program.replace('tests/', '', 1))


def runs_on(program, device):
    arguments = ARGUMENTS.get(name_of(program), '')
    return '--device=host' not in arguments if device == 'fake' else '/fake' not in program


def environment(program, device, seed, how, case):
    # No MAKEFLAGS: the environment's length moves the stack, and some addresses are hashed.
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env.setdefault('RNL_STRESS_SECONDS', SECONDS)
    env |= {'SIM_SEED': str(seed), 'RNL_TEST_DEVICE': 'host', 'CK_DEFAULT_TIMEOUT': str(LIMIT),
            'FAKE_CUDART': 'absent=100'}     # no GPU
    if device == 'fake':
        env |= {'RNL_TEST_DEVICE': 'cuda', 'RNL_TEST_FAKE': '1', 'FAKE_CUDART': 'misuse=abort,junk'}
    if '/unit/' in program or '/stress/' in program:
        env.setdefault('RNL_TEST_SCALE', STORMS_FEWER if '/stress/' in program else FEWER)
    for name, value in (('SIM_HOW', how), ('CK_RUN_CASE', case)):
        if value:
            env[name] = value
    return env


def run(program, device, seed, how, case):
    """Returns (the failure, the output) of one program on one device with one seed."""
    # With fixed addresses, a program that hashes them behaves the same each time.
    command = ['setarch', '-R', './' + program]
    command += ARGUMENTS.get(name_of(program), '').format('cuda' if device == 'fake' else 'host').split()
    if program.endswith('/torture'):
        command.append(f'--seed={seed}')
    try:
        done = subprocess.run(command, env=environment(program, device, seed, how, case),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                              timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as late:
        return ["it does not end"], (late.stdout or b'').decode(errors='replace')
    failed = [m[1] for m in map(FAILED.match, done.stdout.split('\n')) if m]
    failed = [f for f in failed if f'KNOWN TO FAIL: {f}:' not in done.stdout]
    if done.returncode not in (0, 77) and not failed:
        why = REASON.search(done.stdout)
        failed = [re.sub(r'\d+', 'N', why[1] or why[2]) if why else f'exit status {done.returncode}']
    return failed, done.stdout


def main(seed, seeds, how, case, devices, *programs):
    shown, passed, bad = set(), 0, 0
    given = [f'{name}={value!r}' for name, value in
             (('HOW', how), ('FAULTS', os.environ.get('SIM_FAULTS')), ('MEMORY', os.environ.get('SIM_MEMORY'))) if value]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        todo = [(p, d, s) for s in range(int(seed), int(seed) + int(seeds)) for p in programs
                for d in devices.split() if runs_on(p, d)]
        for (program, device, at), (failed, out) in zip(todo, pool.map(lambda t: run(*t, how, case), todo)):
            passed += not failed
            bad += bool(failed)
            name = name_of(program)
            for test in failed:
                if (program, device, test) in shown:
                    continue
                shown.add((program, device, test))
                print(f'FAIL  {name} {test}:', ' '.join(['make sim', f'T={name}', f'DEVICE={device}', f'SEED={at}', *given]))
                print('      | ' + out.strip().replace('\n', '\n      | '), flush=True)
            if failed and os.environ.get('FIRST'):
                pool.shutdown(wait=False, cancel_futures=True)
                break
    print(f'{passed} passed, {bad} failed')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
