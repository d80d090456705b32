# SPDX-License-Identifier: MIT
"""Pools: attributes, ends, figures, barriers."""
import concurrent.futures
import gc
import os
import re
import tempfile
import threading
import time
import unittest
import weakref

import runnel
from runnel import barrier as barriers
from runnel.job import _live
from shared import DEVICE, LONG, ON_HOST, Gate, comes_true, error_of, pool


class Pools(unittest.TestCase):
    def test_a_wrong_attribute_is_named(self):
        for what, attributes in (("nr_workers", {"nr_workers": 1025}),
                                 ("nr_workers", {"nr_workers": "x"}),
                                 ("max_queued", {"max_queued": -1}),
                                 ("max_in_flight", {"max_in_flight": 1001}),
                                 ("'workers'", {"workers": 1}), ("device", {"device": "gpu"}),
                                 ("device", {"device": 3}), ("name", {"name": b"x"}),
                                 ("cpus", {"cpus": ["a"]}),
                                 ("private", {"stream": 0})):
            with self.assertRaises((TypeError, OverflowError, runnel.Error),
                                   msg=attributes) as caught:
                runnel.Pool(**{"device": DEVICE, **attributes})
            self.assertIn(what, str(caught.exception))

    def test_a_device_that_is_not_there_is_said(self):
        with self.assertRaises(runnel.Error) as caught:
            runnel.Pool(1, "cuda:15")
        self.assertIn("Pool()", str(caught.exception))
        self.assertIn("there is no cuda:15", str(caught.exception))

    def test_why_a_worker_could_not_start_is_said_by_the_refused_call(self):
        for _ in range(5):
            with self.assertLogs("runnel", "ERROR"):
                with self.assertRaisesRegex(runnel.Error, r"cpus\[0\] is 1023, where the process"):
                    pool(cpus=[1023])
        cpu = min(os.sched_getaffinity(0))
        with pool(1, cpus=[cpu, 1023]) as p:
            with self.assertLogs("runnel", "ERROR"):
                with self.assertRaisesRegex(runnel.Error, r"worker 1: cpus\[1\] is 1023"):
                    p.resize(2)
            self.assertEqual(p.submit(int).result(LONG), 0)

    def test_a_pool_says_where_it_is(self):
        with pool() as p:
            self.assertEqual(p.on_host, ON_HOST)
            self.assertEqual(p.devices[0]["name"], runnel.describe(DEVICE)["name"])
            self.assertIn(p.devices[0]["name"], repr(p))

    def test_with_waits_for_all_jobs(self):
        done = []
        with pool() as p:
            for i in range(100):
                p.submit(done.append, i)
        self.assertEqual(sorted(done), list(range(100)))

    def test_with_waits_for_no_time_of_a_job(self):
        with pool(1) as p, Gate() as gate:
            p.submit(gate.wait)
            job = p.options(at=time.monotonic() + 1000).submit(self.fail)
        self.assertTrue(job.cancelled())

    def test_an_exception_in_with_cancels_what_has_not_started(self):
        ran = []
        with self.assertRaises(ZeroDivisionError):
            with pool(1) as p, Gate() as gate:
                p.submit(gate.wait)
                gate.await_entered()
                jobs = [p.submit(ran.append, i) for i in range(100)]
                p.cancel()
                1 / 0
        self.assertTrue(all(job.cancelled() for job in jobs))
        self.assertEqual(ran, [])

    def test_a_closed_pool_refuses_every_call(self):
        p = pool()
        p.close(LONG)
        p.close()
        for call in (lambda: p.submit(int), p.stats, p.health, p.metrics, p.unfinished, p.drain, p.cancel,
                     p.barrier, lambda: p.pinned(1), lambda: p.device_array(1),
                     lambda: p.resize(1)):
            with self.assertRaises(runnel.Closed):
                call()

    def test_a_close_ends_in_time_and_may_be_repeated(self):
        p = pool(1)
        with Gate() as gate:
            job = p.submit(gate.wait, 3)
            gate.await_entered()
            with self.assertRaisesRegex(TimeoutError, "1 jobs"):
                p.close(0.01)
            with self.assertRaises(runnel.Closed):
                p.submit(int)
        p.close(LONG)
        self.assertEqual(job.result(), 3)

    def test_a_wait_on_a_worker_is_refused_and_says_why(self):
        with pool() as p, Gate() as gate:
            barrier = p.barrier()
            p.options(barrier=barrier).submit(gate.wait)
            gate.await_entered()
            for call in (p.close, p.drain, lambda: p.resize(3), barrier.wait):
                error = p.submit(call).exception(LONG)
                self.assertIsInstance(error, runnel.Error)
                self.assertIn("on a worker of the pool: the worker would wait", str(error))
            self.assertEqual(p.submit(int).result(LONG), 0)	# close() has not closed it

    def test_threads_that_are_in_calls_survive_a_close(self):
        for _ in range(20):
            p, wrong, started = pool(2, max_queued=8), [], threading.Barrier(5)

            def use():
                started.wait(LONG)
                try:
                    while True:
                        p.submit(int)
                        p.stats()
                        p.pinned(100)
                except runnel.Closed:
                    pass
                except BaseException as error:
                    wrong.append(error)

            threads = [threading.Thread(target=use) for _ in range(4)]
            for thread in threads:
                thread.start()
            started.wait(LONG)
            p.close(LONG)
            for thread in threads:
                thread.join(LONG)
            self.assertEqual((wrong, [t for t in threads if t.is_alive()]), ([], []))

    def test_a_pool_ends_when_the_last_call_on_it_has_returned(self):
        p = pool()
        with p._use("a call"):
            p.close(LONG)
            self.assertTrue(p._owned)		# the C pool
        self.assertFalse(p._owned)

    def test_a_resize_goes_on_beside_jobs(self):
        with pool(1) as p:
            jobs = [p.submit(int) for _ in range(100)]
            p.resize(3)
            self.assertEqual(p.stats()["nr_workers"], 3)
            self.assertEqual([job.result(LONG) for job in jobs], [0] * 100)
            with self.assertRaisesRegex(runnel.Error, "nr_workers"):
                p.resize(1025)

    def test_figures_count_what_happened(self):
        with pool(1) as p:
            for job in [p.submit(int) for _ in range(5)]:
                job.result(LONG)
            p.drain(LONG)
            stats = p.stats()
            self.assertEqual((stats["accepted"], stats["done"], stats["failed"]), (5, 5, 0))
            self.assertEqual(p.stats(0)["done"], 5)
            self.assertEqual(p.health()["state"], "ok")
            self.assertIn("rnl", p.metrics())
            with Gate() as gate:
                p.submit(gate.wait)
                gate.await_entered()
                self.assertTrue(comes_true(lambda: [h["where"] for h in p.unfinished()] == ["function"]))

    def test_a_trace_is_written(self):
        with tempfile.TemporaryDirectory() as folder, pool() as p:
            path = os.path.join(folder, "trace.json")
            with p.trace(path):
                p.submit(int).result(LONG)
            self.assertGreater(os.path.getsize(path), 100)
            with self.assertRaisesRegex(runnel.Error, "nowhere"):
                with p.trace("/nowhere/trace.json"):
                    self.fail("it began")

    def test_jobs_have_the_trace_id_of_their_context(self):
        with tempfile.TemporaryDirectory() as folder, pool() as p:
            path = os.path.join(folder, "trace.json")
            with p.trace(path):
                p.submit(int).result(LONG)
                token = runnel.trace_id.set(bytes(range(16)))
                try:
                    jobs = [p.submit(p.submit, int).result(LONG), p.options(at=time.monotonic()).submit(int),
                            *p.submit_many(int, "12"), *p.chain(int, str), p.submit(int)]
                    concurrent.futures.wait(jobs, LONG)
                    runnel.trace_id.set(b"short")
                    with self.assertRaisesRegex(ValueError, "must be 16 bytes"):
                        p.submit(int)
                finally:
                    runnel.trace_id.reset(token)
                p.submit(int).result(LONG)
            with open(path, "rb") as file:
                ids = re.findall(rb'"trace_id":"(\w+)"', file.read())
            self.assertEqual(ids, [bytes(range(16)).hex().encode()] * (len(jobs) + 1))


class Barriers(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    def test_a_wait_ends_when_all_jobs_are_done(self):
        barrier, done = self.pool.barrier(), []
        with Gate() as gate:
            self.pool.options(barrier=barrier).submit(lambda: (gate.wait(), done.append(1)))
            with self.assertRaises(TimeoutError):
                barrier.wait(0.01)
        for _ in range(10):
            self.pool.options(barrier=barrier).submit(done.append, 1)
        barrier.wait(LONG)
        self.assertEqual(len(done), 11)

    def test_a_job_after_a_barrier_comes_after_its_jobs(self):
        barrier = self.pool.barrier()
        before = [self.pool.options(barrier=barrier).submit(int) for _ in range(20)]
        self.pool.options(after=barrier).submit(lambda: None).result(LONG)
        self.assertTrue(all(job.done() for job in before))

    def test_a_close_that_waits_for_a_hold_warns(self):
        holds, closing, usual = [], pool(), runnel.pool.STUCK_S
        closing.submit(lambda: holds.append(runnel.hold()))
        runnel.pool.STUCK_S = 0.05
        try:
            with self.assertWarns(RuntimeWarning) as caught:
                self.assertRaises(TimeoutError, closing.close, 0.2)
        finally:
            runnel.pool.STUCK_S = usual
        self.assertIn("'where': 'hold'", str(caught.warning))
        holds[0].release()
        closing.close(LONG)

    def test_a_job_after_a_barrier_reads_the_results_of_its_jobs(self):
        for i in range(50):
            barrier = self.pool.barrier()
            squares = [self.pool.options(barrier=barrier).submit(pow, k, 2) for k in range(5)]
            other = self.pool.submit(int)
            after = self.pool.options(after=barrier).submit(
                lambda: (sum(job.result() for job in squares), [job.exception() for job in squares]))
            self.assertEqual(after.result(LONG), (30, [None] * 5))
            other.result(LONG)

    def test_a_failure_is_the_barriers(self):
        barrier = self.pool.barrier()
        with Gate() as gate:
            def fails():
                gate.wait()
                raise ValueError("boom")

            self.pool.options(barrier=barrier).submit(fails)
            after = self.pool.options(after=barrier).submit(self.fail)
            notice = barrier.notify()
        with self.assertRaises(runnel.Error) as caught:
            barrier.wait(LONG)
        self.assertIsInstance(after.exception(LONG), runnel.Cancelled)
        for error in (caught.exception, after.exception(LONG), notice.exception(LONG)):
            self.assertIn("a job of the barrier failed: ValueError('boom')", str(error))
            self.assertIsInstance(error.__cause__, ValueError)

    def test_a_barrier_tells_what_its_first_failure_was(self):
        barrier = self.pool.barrier()
        with Gate() as gate:
            for _ in range(2):
                self.pool.submit(gate.wait)
            gate.await_entered(2)
            job = self.pool.options(barrier=barrier).submit(self.fail)
            self.assertTrue(job.cancel())
            self.assertIsInstance(error_of(job), runnel.Cancelled)
            self.assertTrue(comes_true(lambda: job not in _live))	# the barrier knows it
        self.pool.options(barrier=barrier).submit(lambda: 1 / 0).exception(LONG)
        with self.assertRaises(runnel.Cancelled) as caught:
            barrier.wait(LONG)
        self.assertIsNone(caught.exception.__cause__)

    def test_a_notice_tells_the_end_of_all(self):
        barrier = self.pool.barrier()
        jobs = [self.pool.options(barrier=barrier).submit(int) for _ in range(20)]
        barrier.notify().result(LONG)
        self.assertTrue(all(job.done() for job in jobs))

    def test_barriers_that_nobody_has_are_freed_when_their_jobs_are_done(self):
        with Gate() as gate:
            for _ in range(20):
                self.pool.options(barrier=self.pool.barrier()).submit(gate.wait)
            gate.open()
            self.pool.drain(LONG)
        gc.collect()
        last = [self.pool.barrier() for _ in range(100)]
        self.assertEqual(len(barriers._dropped), 0)
        seen = weakref.ref(last.pop())
        self.assertIsNone(seen())

    def test_a_join_is_for_jobs(self):
        barrier = self.pool.barrier()
        with self.assertRaisesRegex(RuntimeError, "jobs"):
            barrier.join()
        self.assertIsNone(self.pool.submit(barrier.join).result(LONG))
        with Gate() as gate:
            self.pool.options(barrier=barrier).submit(gate.wait)
            gate.await_entered()
            error = self.pool.submit(barrier.join).exception(LONG)
        self.assertIn("not issued", str(error))

    def test_a_barrier_of_another_pool_is_refused(self):
        with pool() as other:
            with self.assertRaises(runnel.Error):
                self.pool.options(barrier=other.barrier()).submit(int)
