# SPDX-License-Identifier: MIT
"""What an empty job of Python costs, compared with ThreadPoolExecutor: many at once, by a submit each
and by map() (runnel: submit_many()), one by one, and awaited in asyncio. The function is int."""
import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import common
import runnel


def many(submit, nr):
    for job in [submit(int) for _ in range(nr)]:
        job.result()


def mapped(submit, nr):
    submit(int, ["0"] * nr)


def one_by_one(submit, nr):
    for _ in range(nr):
        submit(int).result()


def awaited(submit, nr):
    async def main():
        loop = asyncio.get_running_loop()
        for job in [submit(loop) for _ in range(nr)]:
            await job
    asyncio.run(main())


def main():
    args = common.options(__doc__, jobs=(20000, 20000, 200))
    print(f"{args.device}; us a job, medians of {args.runs}\n{'':24}{'runnel':>10}{'executor':>10}")
    for nr_workers in (1, 2, 4):
        with runnel.Pool(nr_workers, args.device) as pool, \
                ThreadPoolExecutor(nr_workers) as executor:
            for name, run, ours, theirs in (
                    ("many at once", many, pool.submit, executor.submit),
                    ("by one call", mapped,
                     lambda *args: [job.result() for job in pool.submit_many(*args)],
                     lambda *args: list(executor.map(*args))),
                    ("one by one", one_by_one, pool.submit, executor.submit),
                    ("awaited in asyncio", awaited, lambda loop: pool.submit(int),
                     lambda loop: loop.run_in_executor(executor, int))):
                took = {ours: [], theirs: []}
                for _ in range(args.runs):
                    for submit, times in took.items():
                        begin = time.perf_counter()
                        run(submit, args.jobs)
                        times.append((time.perf_counter() - begin) / args.jobs * 1e6)
                medians = [sorted(times)[len(times) // 2] for times in took.values()]
                print(f"{f'{name}, {nr_workers}':24}{medians[0]:10.1f}{medians[1]:10.1f}")


main()
