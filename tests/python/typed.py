# SPDX-License-Identifier: MIT
"""What mypy --strict knows of the package: test_types.py runs it on this file. Each line with an
ignore is a mistake, and mypy complains of an ignore that it does not need."""
import asyncio
import concurrent.futures
from typing import List, Tuple

import runnel


def length(text: str, times: int = 1) -> int:
    return len(text) * times


def right(pool: runnel.Pool) -> List[int]:
    job: runnel.Job[int] = pool.submit(length, "four", times=2)
    future: "concurrent.futures.Future[int]" = job
    executor: concurrent.futures.Executor = pool.options(key="k", deadline=1.0)
    texts: runnel.Job[str] = pool.options(key=1).submit(str, 5)
    chain: Tuple[runnel.Job[int], runnel.Job[str]] = pool.chain(lambda: 3, str)
    many: List[runnel.Job[int]] = pool.submit_many(length, ["a", "b"])
    values: List[int] = list(pool.map(length, ["a", "b"], timeout=1))
    name: str = texts.result(1.0) + chain[1].result()
    executor.shutdown()
    return [job.result(), future.result(), len(name), *values, *(each.result() for each in many)]


async def awaited(pool: runnel.Pool, barrier: runnel.Barrier) -> int:
    await barrier
    await asyncio.get_running_loop().run_in_executor(pool, length, "text")
    return await pool.submit(length, "text")


def wrong(pool: runnel.Pool) -> None:
    pool.submit(length)  # type: ignore[call-arg]
    pool.submit(length, 4)  # type: ignore[arg-type]
    pool.submit(length, "four", key=2)  # type: ignore[call-arg]
    pool.options(keys=2)  # type: ignore[call-arg]
    pool.submit(length, "four").result().upper()  # type: ignore[attr-defined]
    job: runnel.Job[str] = pool.submit(length, "four")  # type: ignore[arg-type]
    print(job)
