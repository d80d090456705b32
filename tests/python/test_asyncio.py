# SPDX-License-Identifier: MIT
"""asyncio: jobs, barriers and pools in an event loop; and queues, for other loops."""
import asyncio
import select
import sys
import threading
import types
import unittest
import unittest.mock

import runnel
from runnel.job import _live
from shared import LONG, Gate, comes_true, pool


class Asyncio(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    def run_in_loop(self, main):
        async def bounded():
            return await asyncio.wait_for(main(), LONG)
        return asyncio.run(bounded())

    def test_thousands_of_jobs_are_awaited(self):
        async def one(i):
            return await self.pool.submit(lambda: i)

        async def main():
            return await asyncio.gather(*(one(i) for i in range(5000)))

        self.assertEqual(self.run_in_loop(main), list(range(5000)))

    def test_the_loop_goes_on_while_jobs_run(self):
        async def main():
            with Gate() as gate:
                job = self.pool.submit(gate.wait, 1)
                for _ in range(10):
                    await asyncio.sleep(0.001)
                self.assertFalse(job.done())
                gate.open()
                return await job

        self.assertEqual(self.run_in_loop(main), 1)

    def test_an_exception_comes_to_the_coroutine(self):
        async def main():
            with self.assertRaises(ZeroDivisionError):
                await self.pool.submit(lambda: 1 / 0)

        self.run_in_loop(main)

    def test_a_cancelled_task_cancels_its_queued_job(self):
        async def main():
            with Gate() as gate:
                for _ in range(2):
                    self.pool.submit(gate.wait)
                gate.await_entered(2)
                job = self.pool.submit(self.fail)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(self.wrap(job), 0.01)
                while not job.done():
                    await asyncio.sleep(0.001)
                self.assertTrue(job.cancelled())
                with self.assertRaises(runnel.Cancelled):	# no end of this task
                    await job

        self.run_in_loop(main)

    @staticmethod
    async def wrap(job):
        return await job

    def test_a_job_that_a_thread_submitted_is_awaited(self):
        with Gate() as gate:
            job = self.pool.submit(gate.wait, 5)

            async def main():
                asyncio.get_running_loop().call_later(0.01, gate.open)
                return await job, await job

            self.assertEqual(self.run_in_loop(main), (5, 5))

    def test_asyncio_waits_for_jobs_as_the_readme_says(self):
        async def main():
            def jobs():
                return [self.pool.submit(int) for _ in range(3)]

            self.assertEqual(await asyncio.gather(*jobs()), [0] * 3)
            self.assertEqual([await each for each in asyncio.as_completed(jobs())], [0] * 3)
            self.assertEqual(await asyncio.shield(self.pool.submit(int)), 0)
            done, pending = await asyncio.wait([asyncio.ensure_future(job) for job in jobs()])
            self.assertEqual(([task.result() for task in done], pending), ([0] * 3, set()))

        self.run_in_loop(main)

    def test_the_loop_goes_on_while_a_pool_ends(self):
        async def main():
            box = []
            async with pool() as p:
                job = p.submit(lambda: box.append(runnel.hold()))
                while not box:
                    await asyncio.sleep(0.001)
                asyncio.get_running_loop().call_later(0.01, lambda: box.pop().release())
            with self.assertRaises(runnel.Closed):
                p.submit(int)
            await job

        self.run_in_loop(main)

    def test_result_in_the_loop_says_what_to_do(self):
        async def main():
            with Gate() as gate:
                job = self.pool.submit(gate.wait)
                with self.assertRaisesRegex(RuntimeError, "await the job"):
                    job.result()
            await job

        self.run_in_loop(main)

    def test_another_thread_waits_for_a_job_of_the_loop(self):
        async def main():
            job = self.pool.submit(lambda: 9)
            return await asyncio.get_running_loop().run_in_executor(None, job.result, LONG)

        self.assertEqual(self.run_in_loop(main), 9)

    def test_a_full_pool_is_awaited_by_a_notice(self):
        async def main():
            async with pool(1, max_queued=4) as small:
                gate = Gate()
                job = small.submit(gate.wait)
                gate.await_entered()
                with self.assertRaises(runnel.Full):
                    for _ in range(20):
                        small.submit(int)
                notice = small.options(when=runnel.SPACE).submit(lambda: "room")
                gate.open()
                await job
                return await notice

        self.assertEqual(self.run_in_loop(main), "room")

    def test_a_map_and_a_barrier_are_awaited(self):
        async def main():
            barrier = self.pool.barrier()
            jobs = [self.pool.options(barrier=barrier).submit(int) for _ in range(10)]
            await barrier.notify()
            self.assertTrue(all([await job == 0 for job in jobs]))

        self.run_in_loop(main)

    def test_a_loop_that_ended_before_its_jobs_leaves_nothing(self):
        with Gate() as gate:
            async def main():
                self.pool.submit(gate.wait)
                gate.await_entered()

            self.run_in_loop(main)
        self.pool.drain(LONG)
        self.assertFalse([job for job in list(_live) if job._pool is self.pool])

    def left_jobs(self, nr):
        """Jobs whose loop has ended before it was told of them."""
        with Gate() as gate:
            async def main():
                return [self.pool.submit(gate.wait, 2**i) for i in range(nr)]

            jobs = asyncio.run(main())
        self.pool.drain(LONG)
        return jobs

    def test_jobs_of_a_loop_that_has_ended_are_done_and_waited_for(self):
        self.assertTrue(comes_true(lambda jobs=self.left_jobs(3): all(job.done() for job in jobs)))
        self.assertEqual([job.result(LONG) for job in self.left_jobs(3)], [1, 2, 4])
        job, values = self.left_jobs(4)[3], []
        thread = threading.Thread(target=lambda: values.append(job.result(LONG)))
        thread.start()
        thread.join(LONG)
        self.assertEqual(values, [8])

    def test_another_loop_awaits_jobs_of_one_that_has_ended(self):
        with Gate() as gate:
            async def submit():
                return self.pool.submit(gate.wait, 1), self.pool.submit(gate.wait, 2)

            async def wait(job):
                asyncio.get_running_loop().call_later(0.01, gate.open)
                return await asyncio.wait_for(self.wrap(job), LONG)

            first, second = asyncio.run(submit())
            self.assertEqual(asyncio.run(wait(first)), 1)
        self.assertEqual(second.result(LONG), 2)

    def test_a_loop_awaits_jobs_of_one_that_ends_meanwhile(self):
        with Gate() as gate:
            jobs, both = [], threading.Barrier(2)

            async def submit():
                jobs.append(self.pool.submit(gate.wait, 1))
                both.wait(LONG)

            async def wait():
                both.wait(LONG)
                asyncio.get_running_loop().call_later(0.01, gate.open)
                return await asyncio.wait_for(self.wrap(jobs[0]), LONG)

            thread = threading.Thread(target=asyncio.run, args=[submit()])
            thread.start()
            self.assertEqual(asyncio.run(wait()), 1)
            thread.join(LONG)

    def test_a_callback_of_a_left_job_may_take_a_lock_that_a_submitter_has(self):
        lock, entered, done = threading.Lock(), threading.Event(), []
        first, second = self.left_jobs(2)

        def take(_job):
            entered.set()
            with lock:
                done.append(1)

        first.add_done_callback(take)
        with lock:
            thread = threading.Thread(target=first.result, args=[LONG], daemon=True)
            thread.start()
            self.assertTrue(entered.wait(LONG))
            self.assertTrue(comes_true(second.done))	# it looks at ended loops, too
        thread.join(LONG)
        self.assertEqual(done, [1])

    def test_loops_of_many_threads_end_before_their_jobs(self):
        errors = []

        async def main():
            for _ in range(20):
                self.pool.submit(int)

        def run():
            try:
                for _ in range(100):
                    asyncio.run(main())
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(errors, [])
        self.pool.close(LONG)
        self.assertFalse([job for job in list(_live) if job._pool is self.pool])
        self.assertFalse(self.pool._owned)	# destroyed

    def test_a_submit_while_another_thread_imports_asyncio(self):
        half = types.ModuleType("asyncio")	# it has no names yet
        with unittest.mock.patch.dict(sys.modules, asyncio=half):
            self.assertEqual(self.pool.submit(int).result(LONG), 0)

    def test_each_threads_loop_has_a_queue_of_its_own(self):
        results = []

        def thread(i):
            async def main():
                return sum([await job for job in [self.pool.submit(lambda: i) for _ in range(200)]])
            results.append((i, self.run_in_loop(main)))

        threads = [threading.Thread(target=thread, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(LONG)
        self.assertEqual(sorted(results), [(i, i * 200) for i in range(3)])


class Queues(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    def test_a_queue_is_readable_when_jobs_are_done(self):
        queue = runnel.Queue()
        with Gate() as gate:
            job = self.pool.options(queue=queue).submit(gate.wait, 4)
            self.assertEqual(queue.reap(), [])
            self.assertEqual(queue.wait(timeout=0.01), [])
            gate.open()
            self.assertTrue(select.select([queue], [], [], LONG)[0])
            self.assertEqual(queue.reap(), [job])
        self.assertEqual(job.result(0), 4)

    def test_a_wait_takes_all_jobs_in_the_end(self):
        queue = runnel.Queue()
        jobs = {self.pool.options(queue=queue).submit(int) for _ in range(300)}
        while jobs:
            done = queue.wait(100, LONG)
            self.assertTrue(done)
            jobs -= set(done)

    def test_a_queue_outlives_its_name_while_jobs_need_it(self):
        with Gate() as gate:
            job = self.pool.options(queue=runnel.Queue()).submit(gate.wait)
        queue = job._queue
        self.assertTrue(comes_true(lambda: queue.reap() == [job]))

    def test_a_queue_gets_jobs_whatever_their_callbacks_do(self):
        queue = runnel.Queue()
        with unittest.mock.patch.object(sys, "unraisablehook", lambda _: None), Gate() as gate:
            jobs = [self.pool.options(queue=queue).submit(gate.wait) for _ in range(2)]
            for job in jobs:
                job.add_done_callback(lambda _: sys.exit())
            gate.open()
            self.assertTrue(comes_true(lambda: len(queue._done) == 2))
        self.assertEqual(set(queue.reap()), set(jobs))

    def test_threads_reap_each_job_once(self):
        queue, back = runnel.Queue(), []

        def reap():
            while len(back) < 300:
                back.extend(queue.wait(3, 0.01))

        threads = [threading.Thread(target=reap) for _ in range(3)]
        for thread in threads:
            thread.start()
        jobs = [self.pool.options(queue=queue).submit(int) for _ in range(300)]
        for thread in threads:
            thread.join(LONG)
        self.assertEqual((len(back), set(back)), (300, set(jobs)))

    def test_what_was_not_reaped_keeps_the_queue_readable(self):
        queue = runnel.Queue()
        jobs = [self.pool.options(queue=queue).submit(int) for _ in range(3)]
        self.pool.drain(LONG)
        for job in jobs:
            self.assertTrue(select.select([queue], [], [], 0)[0])
            self.assertEqual(len(queue.reap(1)), 1)
        self.assertEqual(queue.reap(), [])
        self.assertFalse(select.select([queue], [], [], 0)[0])

    def test_wrong_arguments_are_named(self):
        with self.assertRaisesRegex(ValueError, "most is 0"):
            runnel.Queue().reap(0)
