# SPDX-License-Identifier: MIT
"""A pool as an executor of concurrent.futures, and what its users expect: arguments, contexts, errors
in place of silence, chains, orders, rows of jobs."""
import asyncio
import concurrent.futures
import contextvars
import functools
import threading
import time
import unittest
import unittest.mock

import numpy as np

import runnel
from runnel.job import _live
from shared import LONG, Gate, comes_true, error_of, pool


class Executor(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    def test_a_pool_is_an_executor_and_its_jobs_are_futures(self):
        self.assertIsInstance(self.pool, concurrent.futures.Executor)
        self.assertIsInstance(self.pool.options(key=1), concurrent.futures.Executor)
        self.assertIsInstance(self.pool.submit(int), concurrent.futures.Future)

    def test_wait_returns_when_all_or_the_first_or_a_failed_job_is_done(self):
        with Gate() as gate:
            blocked, quick = self.pool.submit(gate.wait), self.pool.submit(int)
            done, left = concurrent.futures.wait([blocked, quick], LONG,
                                                 concurrent.futures.FIRST_COMPLETED)
            self.assertEqual((done, left), ({quick}, {blocked}))
            fails = self.pool.submit(lambda: 1 / 0)
            done, _ = concurrent.futures.wait([blocked, fails], LONG,
                                              concurrent.futures.FIRST_EXCEPTION)
            self.assertIn(fails, done)
            done, left = concurrent.futures.wait([blocked], 0.01)
            self.assertEqual((done, left), (set(), {blocked}))
        done, left = concurrent.futures.wait([blocked, quick, fails], LONG)
        self.assertEqual((len(done), left), (3, set()))

    def test_wait_learns_of_a_cancel(self):
        with Gate() as gate:
            for _ in range(2):
                self.pool.submit(gate.wait)
            gate.await_entered(2)
            job = self.pool.submit(self.fail)
            timer = threading.Timer(0.05, job.cancel)
            timer.start()
            self.assertEqual(concurrent.futures.wait([job], LONG)[0], {job})
            timer.join()

    def test_as_completed_yields_jobs_as_they_are_done(self):
        with Gate() as gate:
            last = self.pool.submit(gate.wait, 1)
            jobs = [self.pool.submit(int) for _ in range(20)]
            order = []
            for job in concurrent.futures.as_completed([last, *jobs], LONG):
                order.append(job)
                if len(order) == 20:
                    gate.open()
            self.assertIs(order[-1], last)
            self.assertEqual(set(order[:-1]), set(jobs))

    def test_a_map_returns_values_in_order_and_takes_time_and_chunksize(self):
        self.assertEqual(list(self.pool.map(pow, range(50), [2] * 50, chunksize=7)),
                         [i * i for i in range(50)])
        with Gate() as gate:
            with self.assertRaises(concurrent.futures.TimeoutError):
                next(self.pool.map(gate.wait, [1], timeout=0.01))
        with self.assertRaises(ZeroDivisionError):
            list(self.pool.map(lambda x: 1 // x, [1, 0]))

    def test_run_in_executor_and_wrap_future_take_pools_and_jobs(self):
        async def main():
            loop = asyncio.get_running_loop()
            self.assertEqual(await loop.run_in_executor(self.pool, pow, 2, 5), 32)
            options = self.pool.options(key=7)
            self.assertEqual(await loop.run_in_executor(options, pow, 2, 6), 64)
            self.assertEqual(await asyncio.wrap_future(self.pool.submit(pow, 2, 7)), 128)
            with self.assertRaises(ZeroDivisionError):
                await loop.run_in_executor(self.pool, lambda: 1 / 0)

        asyncio.run(main())

    def test_shutdown_waits_or_does_not_and_may_cancel(self):
        p, gate = pool(1), Gate()
        job = p.submit(gate.wait, 3)
        gate.await_entered()
        queued = p.submit(self.fail)
        p.shutdown(wait=False, cancel_futures=True)
        with self.assertRaises(RuntimeError):		# as of other executors
            p.submit(int)
        self.assertTrue(comes_true(queued.cancelled))
        self.assertFalse(job.done())
        gate.open()
        self.assertEqual(job.result(LONG), 3)
        self.assertTrue(comes_true(lambda: not p._owned))	# another thread has ended the pool
        p.shutdown()
        p = pool(1)
        job = p.submit(time.sleep, 0.01)
        p.options(key=1).shutdown()
        self.assertTrue(job.done() and p._closed)

    def test_a_job_is_running_until_it_is_done(self):
        with Gate() as gate:
            jobs = [self.pool.submit(gate.wait) for _ in range(2)]
            gate.await_entered(2)
            queued = self.pool.submit(int)
            self.assertEqual([job.running() for job in (*jobs, queued)], [True, True, False])
            self.assertFalse(jobs[0].cancel())
        concurrent.futures.wait([*jobs, queued])
        self.assertFalse(jobs[0].running() or queued.running())

    def test_a_cancel_is_seen_at_once_and_its_callbacks_are_called(self):
        told = []
        with Gate() as gate:
            for _ in range(2):
                self.pool.submit(gate.wait)
            gate.await_entered(2)
            job = self.pool.submit(self.fail)
            job.add_done_callback(told.append)
            self.assertTrue(job.cancel() and job.cancel())
            self.assertEqual((told, job.cancelled(), job.done()), ([job], True, True))
        self.pool.drain(LONG)
        self.assertEqual(told, [job])
        self.assertNotIn(job, _live)

    def test_a_result_that_the_program_sets_stays(self):
        with Gate() as gate:
            job = self.pool.submit(gate.wait, 1)
            job.set_result(2)
            self.assertEqual(job.result(LONG), 2)
        self.pool.drain(LONG)
        self.assertEqual(job.result(), 2)
        with self.assertRaises(concurrent.futures.InvalidStateError):
            job.set_exception(ValueError())

    def test_all_arguments_are_the_functions(self):
        self.assertEqual(self.pool.submit(sorted, [1, 3], key=lambda x: -x).result(LONG), [3, 1])

        def takes(**kwargs):
            return kwargs

        names = {name: 1 for name in ("fn", "self", "key", "timeout", "device", "at", "when", "queue",
                                      "deadline", "barrier", "after", "cls", "order")}
        self.assertEqual(self.pool.submit(takes, **names).result(LONG), names)
        self.assertEqual(self.pool.options(key=1).submit(takes, **names).result(LONG), names)

    def test_a_job_runs_in_a_copy_of_its_submitters_context(self):
        var = contextvars.ContextVar("var", default="none")

        def look():
            seen = var.get()
            var.set("the job's")
            return seen

        var.set("mine")
        jobs = [self.pool.submit(look), *self.pool.submit_many(look, *[]), *self.pool.chain(look)]
        var.set("later")
        self.assertEqual([job.result(LONG) for job in jobs], ["mine"] * len(jobs))
        self.assertEqual(var.get(), "later")

    def test_a_coroutine_function_is_refused(self):
        async def fn(*_):
            self.fail()

        class Callable:
            async def __call__(self):
                pass

        for call in (lambda: self.pool.submit(fn), lambda: self.pool.submit_many(fn, [1]),
                     lambda: self.pool.chain(fn), lambda: self.pool.options(key=1).submit(fn)):
            with self.assertRaisesRegex(TypeError, "coroutine function.*plain"):
                call()
        for hidden in (functools.partial(fn), Callable()):
            self.assertRegex(str(error_of(self.pool.submit(hidden))), "coroutine function.*plain")

    def test_a_row_of_jobs_is_submitted_by_one_call(self):
        jobs = self.pool.submit_many(pow, range(300), [2] * 300)
        self.assertEqual([job.result(LONG) for job in jobs], [i * i for i in range(300)])
        seen = []
        for job in self.pool.submit_many(seen.append, range(100), keys=["one"] * 100):
            job.result(LONG)
        self.assertEqual(seen, list(range(100)))
        workers = self.pool.submit_many(lambda _: runnel.worker(), range(4),
                                        keys=[runnel.worker_key(i % 2) for i in range(4)])
        workers = [job.result(LONG) for job in workers]
        self.assertEqual((workers[:2], len(set(workers))), (workers[2:], 2))
        barrier = self.pool.barrier()
        jobs = self.pool.options(barrier=barrier).submit_many(int, ["1", "2"])
        barrier.wait(LONG)
        self.assertEqual([job.result(0) for job in jobs], [1, 2])
        self.assertEqual(self.pool.submit_many(int), [])
        with self.assertRaisesRegex(ValueError, "1 keys and 2 calls"):
            self.pool.submit_many(int, ["1", "2"], keys=[1])

    def test_a_row_waits_for_space_or_cancels_what_it_has_submitted(self):
        with pool(1, max_queued=4) as small:
            self.assertEqual([job.result(LONG) for job in small.submit_many(int, ["7"] * 50)], [7] * 50)
            with Gate() as gate:
                small.submit(gate.wait)
                gate.await_entered()
                ran = []
                with self.assertRaises(runnel.Full):
                    small.options(timeout=0).submit_many(ran.append, range(50))
        self.assertEqual(ran, [])
        self.assertFalse([job for job in list(_live) if job._pool is small])

    def test_a_chain_hands_values_on_on_one_worker(self):
        first, second, third = self.pool.chain(lambda: (1, runnel.worker()),
                                               lambda x: (x[0] + 1, x[1], runnel.worker()),
                                               lambda x: x[0] * 10 if x[1] == x[2] else x)
        self.assertEqual(third.result(LONG), 20)
        self.assertEqual((first.result(0)[0], second.result(0)[0]), (1, 2))
        self.assertEqual(self.pool.options(key=3).chain(int, str)[1].result(LONG), "0")
        self.assertRaises(TypeError, self.pool.chain)
        self.assertRaises(TypeError, self.pool.chain, int, 3)
        self.pool.drain(LONG)
        self.assertFalse([job for job in list(_live) if job._pool is self.pool])

    def test_a_failure_ends_the_rest_of_its_chain(self):
        jobs = self.pool.chain(lambda: 1 / 0, self.fail, self.fail)
        self.assertIsInstance(error_of(jobs[0]), ZeroDivisionError)
        self.assertIsInstance(error_of(jobs[1]), runnel.Cancelled)
        self.assertIsInstance(error_of(jobs[1]).__cause__, ZeroDivisionError)
        self.assertIsInstance(error_of(jobs[2]), runnel.Cancelled)

    def test_jobs_of_an_order_start_in_order_behind_different_barriers(self):
        order, seen = self.pool.order("collectives"), []
        with Gate() as gate:
            slow, fast = self.pool.barrier(), self.pool.barrier()
            self.pool.options(barrier=slow).submit(gate.wait)
            gate.await_entered()
            self.pool.options(barrier=fast).submit(int)
            jobs = [self.pool.options(after=slow, order=order).submit(seen.append, 1),
                    self.pool.options(after=fast, order=order).submit(seen.append, 2)]
            fast.wait(LONG)
            self.assertEqual(seen, [])
        concurrent.futures.wait(jobs, LONG)
        self.assertEqual(seen, [1, 2])
        with self.assertRaises(runnel.Error):
            self.pool.options(order=order, key="another").submit(int)
        del order, jobs
        self.assertTrue(comes_true(lambda: not [job for job in list(_live) if job._pool is self.pool]))

    def test_options_are_checked_when_they_are_made(self):
        for bad in ({"order": 1}, {"barrier": 1}, {"after": [1]}, {"queue": 1}, {"cls": "x"},
                    {"device": 9}, {"when": 3}, {"when": runnel.SPACE, "key": 1}, {"deadline": "x"}):
            with self.assertRaisesRegex((TypeError, ValueError), r"Pool.options\(\)"):
                self.pool.options(**bad)

    def test_a_class_that_admits_refuses_late_jobs(self):
        admits = self.pool.job_class("admits", flags=4)		# RNL_CLASS_ADMIT
        options = self.pool.options(cls=admits, deadline=1e-9)
        for _ in range(3):					# its estimate comes with runs
            self.pool.options(cls=admits).submit(time.sleep, 0.01).result(LONG)
        with self.assertRaises(runnel.Late):
            options.submit(time.sleep, 0.01)


class Loops(unittest.TestCase):
    def test_no_call_stops_a_loop(self):
        async def main():
            async with pool() as p:
                gate = Gate()
                barrier = p.barrier()
                job = p.options(barrier=barrier).submit(gate.wait)
                batcher = p.batcher(lambda batch: None, 1)
                classes = p.job_class("a class")
                for call, instead in ((job.result, "await the job"), (job.exception, "await the job"),
                                      (barrier.wait, "await the barrier"),
                                      (p.drain, "adrain"), (p.close, "aclose"), (p.shutdown, "aclose"),
                                      (p.__enter__, "async with"), (lambda: p.resize(3), "aresize"),
                                      (classes.close, "aclose"), (runnel.Queue().wait, "await"),
                                      (lambda: batcher([1]), "await batcher.submit")):
                    with self.assertRaisesRegex(RuntimeError, f"stop the event loop.*{instead}"):
                        call()
                for call in (job.result, barrier.wait, p.drain):	# these do not wait
                    with self.assertRaises(TimeoutError):
                        call(timeout=0) if call != job.result else call(0)
                asyncio.get_running_loop().call_later(0.01, gate.open)
                await asyncio.gather(p.adrain(LONG), barrier, self.wrap(job))
                self.assertIsNone(await barrier)
                barrier.wait()
                self.assertIsNone(job.result())
                await p.aresize(3)
                await classes.aclose()

        asyncio.run(asyncio.wait_for(main(), LONG))

    @staticmethod
    async def wrap(job):
        return await job

    def test_an_await_of_a_barrier_raises_its_failure(self):
        async def main():
            async with pool() as p:
                barrier, gate = p.barrier(), Gate()
                p.options(barrier=barrier).submit(lambda: gate.wait() or 1 / 0)
                asyncio.get_running_loop().call_later(0.01, gate.open)
                with self.assertRaisesRegex(runnel.Error, "ZeroDivisionError"):
                    await barrier

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_full_pool_of_memory_is_not_awaited_in_a_loop(self):
        async def main():
            async with pool(1, pinned_max=1 << 20) as p:
                kept = p.pinned(700000)
                with self.assertRaises(runnel.Error):
                    p.pinned(700000)
                del kept

        asyncio.run(main())


class Writers(unittest.TestCase):
    """Functions that write to what they get, and the mistakes with them."""

    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)
        self.array = np.arange(12, dtype="f4").reshape(4, 3)
        self.out = np.zeros_like(self.array)

    def fails(self, fn, text):
        for job in (self.pool.map_array(fn, self.array, self.out),
                    self.pool.batcher(fn, 3, 3).submit([1, 2, 3])):
            error = error_of(job)
            self.assertIsInstance(error, (TypeError, AttributeError))
            self.assertIn(text, str(error))

    def test_a_returned_result_is_refused(self):
        self.fails(lambda part: np.zeros(3), "which would be lost: it must write to its argument")

    def test_a_replaced_array_is_refused(self):
        def replaces(part):
            part.out = part.input

        self.fails(replaces, "out is read-only; write to the array: out[:] = ...")
