# SPDX-License-Identifier: MIT
"""Batchers: many small requests that run together, by a function of Python or by a kernel."""
import asyncio
import concurrent.futures
import ctypes
import threading
import unittest

import numpy as np

import runnel
from runnel import batcher as batchers
from runnel.c import ffi
from runnel.job import _live
from shared import LONG, ON_HOST, Gate, comes_true, error_of, pool


def double(batch):
    if ON_HOST:
        np.multiply(batch.input, 2, out=batch.out)
    else:			# no kernel is here: the double of CUDA only copies
        runnel.copy(batch.out, batch.input)


SCALE = 2 if ON_HOST else 1


class Batchers(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    @unittest.skipUnless(ON_HOST, "on a GPU a launch calls the function")
    def test_a_launch_in_a_batch_or_a_chunk_says_that_it_is_launched_already(self):
        def launches(part):
            runnel.launch(np.multiply, part.input, 2, out=part.out)

        array = np.zeros((4, 3), "f4")
        for job in (self.pool.batcher(launches, 3, 3).submit(array[0]),
                    self.pool.map_array(launches, array, np.zeros_like(array))):
            with self.assertRaises(RuntimeError) as caught:
                job.result(LONG)
            self.assertIn("is launched already", str(caught.exception))

    def test_each_request_gets_its_own_answer(self):
        batcher = self.pool.batcher(double, (2, 3), (2, 3))
        rows = [np.full((2, 3), i, "f4") for i in range(500)]
        jobs = [batcher.submit(row) for row in rows]
        for row, job in zip(rows, jobs):
            self.assertTrue(np.array_equal(job.result(LONG), row * SCALE))
        stats = batcher.stats()
        self.assertEqual((stats["requests"], stats["failed"]), (500, 0))
        self.assertLessEqual(stats["batches"], 500)
        self.assertTrue(comes_true(lambda: not batcher._batches))

    def test_requests_that_come_together_run_together(self):
        sizes = []

        def fn(batch):
            sizes.append(batch.nr)
            double(batch)

        with pool(1) as p, Gate() as gate:
            batcher = p.batcher(fn, 4, 4, "i4")
            p.submit(gate.wait)
            gate.await_entered()
            jobs = [batcher.submit([i] * 4) for i in range(100)]
            gate.open()
            self.assertEqual([list(job.result(LONG)) for job in jobs],
                             [[i * SCALE] * 4 for i in range(100)])
        self.assertEqual(sum(sizes), 100)
        self.assertGreater(max(sizes), 10)

    def test_a_large_batch_is_copied_before_the_function_computes(self):
        batcher = self.pool.batcher(double, 1 << 16, 1 << 16, max_batch=4)
        jobs = [batcher.submit(np.full(1 << 16, i, "f4")) for i in range(20)]
        for i, job in enumerate(jobs):
            self.assertTrue((job.result(LONG) == i * SCALE).all())

    def test_a_call_waits_for_its_answer_in_many_threads(self):
        batcher, wrong = self.pool.batcher(double, 1, 1, "i8"), []

        def call(t):
            for i in range(100):
                if batcher([t * 1000 + i])[0] != (t * 1000 + i) * SCALE:
                    wrong.append((t, i))

        threads = [threading.Thread(target=call, args=(t,)) for t in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(wrong, [])

    def test_requests_are_futures_and_awaited(self):
        batcher = self.pool.batcher(double, 1, 1)
        jobs = [batcher.submit([i]) for i in range(10)]
        self.assertEqual(len(concurrent.futures.wait(jobs, LONG)[0]), 10)
        self.assertFalse(jobs[0].cancel())

        async def main():
            values = await asyncio.gather(*(batcher.submit([i]) for i in range(10)))
            self.assertEqual([float(value[0]) for value in values], [i * SCALE for i in range(10)])

        asyncio.run(main())

    def test_an_exception_is_that_of_all_requests_of_the_batch(self):
        def fails(batch):
            raise KeyError("boom")

        batcher = self.pool.batcher(fails, 1)
        for job in [batcher.submit([i]) for i in range(10)]:
            self.assertIsInstance(error_of(job), KeyError)
        with self.assertRaises(KeyError):
            batcher([1])
        self.assertEqual(self.pool.submit(int).result(LONG), 0)
        self.assertTrue(comes_true(lambda: not batcher._batches))

    def test_an_answer_is_optional_and_may_have_another_type(self):
        seen = []
        batcher = self.pool.batcher(lambda batch: seen.append(batch.out), 1)
        self.assertIsNone(batcher.submit([1]).result(LONG))
        self.assertEqual(seen, [None])

        def count(batch):
            if ON_HOST:
                batch.out[:] = batch.input.sum(axis=1)

        batcher = self.pool.batcher(count, 3, (), "f4", "i8")
        answer = batcher([1, 2, 3])
        self.assertEqual((answer.dtype, answer.shape), (np.int64, ()))
        if ON_HOST:
            self.assertEqual(int(answer), 6)

    def test_a_full_batcher_makes_requests_wait(self):
        with pool(1) as p, Gate() as gate:
            batcher = p.batcher(double, 1, 1, max_batch=1, slab_bytes=64, nr_slabs=1, max_slabs=1)
            p.submit(gate.wait)
            gate.await_entered()
            jobs = []
            with self.assertRaises(runnel.Full):
                for i in range(1000):
                    jobs.append(batcher.submit([i], timeout=0))
            with self.assertRaises(runnel.Full):
                batcher([1], timeout=0.01)
            threading.Timer(0.05, gate.open).start()
            jobs.append(batcher.submit([len(jobs)], timeout=LONG))
            self.assertEqual([float(job.result(LONG)[0]) for job in jobs],
                             [i * SCALE for i in range(len(jobs))])

    def test_a_call_that_is_not_answered_in_time_leaves_its_request(self):
        with pool(1) as p, Gate() as gate:
            batcher = p.batcher(double, 1, 1)
            p.submit(gate.wait)
            gate.await_entered()
            with self.assertRaises(TimeoutError):
                batcher([1], timeout=0.01)
            self.assertEqual(len(p._abandoned), 1)

    def test_a_closed_pool_refuses_requests(self):
        with pool(1) as p:
            batcher = p.batcher(double, 1, 1)
            job = batcher.submit([3])
        self.assertEqual(float(job.result(0)[0]), 3 * SCALE)
        for call in (lambda: batcher.submit([1]), lambda: batcher([1]), batcher.stats):
            self.assertRaises(runnel.Closed, call)
        self.assertFalse([job for job in list(_live) if job._pool is p])
        self.assertFalse(p._owned)

    def test_batches_of_a_class(self):
        cls = self.pool.job_class("requests", priority=-1)
        batcher = self.pool.batcher(double, 1, 1, cls=cls)
        self.assertEqual(float(batcher([4])[0]), 4 * SCALE)

    def test_wrong_arguments_are_named(self):
        batcher = self.pool.batcher(double, (2, 2), 1)
        for text, call in (("shape (3,)", lambda: batcher.submit([1, 2, 3])),
                           ("shape (3,)", lambda: batcher([1, 2, 3])),
                           ("one of them must be", lambda: self.pool.batcher(None, 1)),
                           ("one of them must be", lambda: self.pool.batcher(double, 1, kernel=1)),
                           ("one of them must be", lambda: self.pool.batcher(3, 1)),
                           ("it must be the address", lambda: self.pool.batcher(None, 1, kernel="x")),
                           ("no attribute 'size'", lambda: self.pool.batcher(double, 1, size=1)),
                           ("max_batch", lambda: self.pool.batcher(double, 1, max_batch=-1)),
                           ("max_batch", lambda: self.pool.batcher(double, 1, max_batch=1 << 20)),
                           ("cls is 1", lambda: self.pool.batcher(double, 1, cls=1)),
                           ("shape", lambda: self.pool.batcher(double, 0)),
                           ("objects", lambda: self.pool.batcher(double, 1, dtype=object)),
                           ("RNL_BATCHER_RESIDENT", lambda: self.pool.batcher(double, 1, resident=True))):
            with self.assertRaises((TypeError, ValueError, OverflowError, runnel.Error)) as caught:
                call()
            self.assertIn(text, str(caught.exception))

    @unittest.skipUnless(ON_HOST, "its kernel is a function of the host")
    def test_a_kernel_of_c_answers_requests(self):
        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        def square(address):
            view = ffi.cast("struct rnl_request_view *", address)
            ffi.cast("float *", view.out)[0] = ffi.cast("float *", getattr(view, "in"))[0] ** 2
            return 5		# a number of its own

        name = ffi.new("char[]", b"square")
        kernel = ffi.new("struct rnl_request_kernel *", {
            "name": name, "host": ffi.cast("int (*)(const struct rnl_request_view *)",
                                           ctypes.cast(square, ctypes.c_void_p).value)})
        for given in (kernel, int(ffi.cast("uintptr_t", kernel)),
                      ctypes.c_void_p(int(ffi.cast("uintptr_t", kernel)))):
            with pool(1) as p:
                batcher = p.batcher(None, 1, 1, kernel=given, resident=True, shared=True)
                self.assertEqual(float(batcher([3])[0]), 9)
                self.assertEqual(float(batcher.submit([4]).result(LONG)[0]), 16)
        self.assertEqual(batchers._address(kernel), int(ffi.cast("uintptr_t", kernel)))
