# SPDX-License-Identifier: MIT
"""Pinned arrays, device arrays, scratch, copies, DLPack, streams, maps."""
import ctypes
import errno
import gc
import os
import sys
import types
import unittest
import unittest.mock
import weakref

import numpy as np

import runnel
from runnel import memory
from shared import LONG, ON_HOST, Gate, comes_true, pool


class Memory(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    def run_job(self, fn, *args, **how):
        return self.pool.options(**how).submit(fn, *args).result(LONG)

    def test_a_pinned_array_is_numpys_and_goes_back(self):
        a = self.pool.pinned((3, 5), "f4")
        a[:] = 7
        self.assertEqual((a.shape, a.dtype, float(a.sum())), ((3, 5), np.float32, 105.0))
        self.assertGreater(self.pool.stats()["pinned_used"], 0)
        part = a[1, 2:]
        del a
        gc.collect()
        self.assertGreater(self.pool.stats()["pinned_used"], 0)
        del part
        gc.collect()
        self.assertEqual(self.pool.stats()["pinned_used"], 0)

    def test_arrays_outlive_their_pool(self):
        p = pool(1)
        a, d = p.pinned(1000), p.device_array(1000)
        p.close(LONG)
        a[:] = 5
        self.assertEqual(int(a.sum()), 5000)
        self.assertTrue(p._owned)		# the C pool
        del a, d
        gc.collect()
        self.assertFalse(p._owned)		# it has ended with them

    def test_pinned_waits_for_what_others_put_back(self):
        with pool(1, pinned_max=1 << 20) as p:
            a = p.pinned(700000)
            with self.assertRaises(TimeoutError):
                p.pinned(700000, timeout=0.01)
            with self.assertRaises(runnel.Error):
                p.pinned(1 << 24)
            del a
            gc.collect()
            self.assertEqual(p.pinned(700000, timeout=LONG).nbytes, 700000)

    def test_copies_go_there_and_back(self):
        a = np.arange(1000, dtype="i4")
        pinned, back = self.pool.pinned(1000, "i4"), np.zeros(1000, "i4")
        pinned[:] = a
        device = self.pool.device_array(1000, "i4")

        def job():
            scratch = runnel.scratch(1000, "i4")
            runnel.copy(scratch, pinned)
            runnel.copy(device, scratch)
            runnel.copy(back, device)

        self.run_job(job)
        self.assertTrue(np.array_equal(a, back))

    def test_fills_are_in_order_with_copies(self):
        pinned, back = self.pool.pinned(64), bytearray(64)

        def job():
            runnel.fill(pinned, 9)
            runnel.copy(back, pinned)

        self.run_job(job)
        self.assertEqual(back, bytes([9] * 64))

    @unittest.skipUnless(ON_HOST, "it stops the host's stream")
    def test_what_a_job_copies_lives_until_the_copy_has_happened(self):
        device, back, seen = self.pool.device_array(1 << 16), np.zeros(1 << 16, "u1"), []

        def job():
            runnel.launch(gate.wait)
            array = self.pool.pinned(1 << 16)
            array[:] = 3
            seen.append(weakref.ref(array))
            runnel.copy(device, array)
            runnel.copy(back, device)

        with Gate() as gate:
            copied = self.pool.submit(job)
            gate.await_entered()
            self.assertTrue(comes_true(lambda: seen and [h["where"] for h in self.pool.unfinished()] not in
                                       ([], ["function"])))
            gc.collect()
            self.assertIsNotNone(seen[0]())
        copied.result(LONG)
        self.assertTrue((back == 3).all())
        self.assertTrue(comes_true(lambda: gc.collect() is not None and seen[0]() is None))

    def test_wrong_arguments_are_named(self):
        a, b = np.zeros(4, "f4"), np.zeros(5, "f4")
        frozen = np.zeros(4, "f4")
        frozen.flags.writeable = False
        for text, call in (("dst has 16 bytes, and src has 20", lambda: runnel.copy(a, b)),
                           ("dst", lambda: runnel.copy(a[::2], a[:2])),
                           ("src", lambda: runnel.copy(a, 3)),
                           ("dst", lambda: runnel.copy(frozen, a)),
                           ("objects", lambda: runnel.copy(np.array([None]), np.array([None]))),
                           ("objects", lambda: runnel.copy(a, memoryview(np.array([None, None])))),
                           ("dst has 16 bytes, and src has 32", lambda: runnel.copy(
                               a, memoryview(np.zeros(4, [("Open", "f8")])))),
                           ("value is 256", lambda: runnel.fill(a, 256)),
                           ("dst is neither memory of", lambda: runnel.fill(a, 0)),
                           ("shape", lambda: runnel.scratch(0)),
                           ("shape", lambda: runnel.scratch("x")),
                           ("objects", lambda: runnel.scratch(2, object))):
            error = self.pool.submit(call).exception(LONG)
            self.assertIn(text, str(error))
        for text, call in (("runs no job's function", lambda: runnel.copy(a, a.copy())),
                           ("runs no job's function", lambda: runnel.fill(a, 0)),
                           ("is for a job's function", lambda: runnel.scratch(4)),
                           ("is for a job's function", lambda: runnel.launch(int)),
                           ("is for a job's function", runnel.stream),
                           ("shape", lambda: self.pool.pinned((2, -1))),
                           ("device is 3", lambda: self.pool.device_array(4, device=3))):
            with self.assertRaises((runnel.Error, RuntimeError, ValueError)) as caught:
                call()
            self.assertIn(text, str(caught.exception))

    def test_a_callback_copies_nothing(self):
        a = self.pool.pinned(100)
        errors = []

        def copy(_job):
            for call in lambda: runnel.copy(a, a), lambda: runnel.fill(a, 1):
                try:
                    call()
                except runnel.Error as error:
                    errors.append(str(error))

        self.pool.submit(int).add_done_callback(copy)
        self.assertTrue(comes_true(lambda: len(errors) == 2))
        self.assertIn("runs no job's function", errors[0])

    def test_a_launched_function_does_not_wait_for_its_own_pool(self):
        errors, barrier = [], self.pool.barrier()

        def waits():
            for call in job.result, self.pool.drain, self.pool.close, barrier.wait:
                try:
                    call()
                except runnel.Error as error:
                    errors.append(error.errno)

        over = self.pool.submit(lambda: 7)
        over.result(LONG)
        with Gate() as gate:
            job = self.pool.options(barrier=barrier).submit(gate.wait)
            self.run_job(runnel.launch, waits)
        self.assertEqual(errors, [errno.EBUSY] * 4)
        self.run_job(runnel.launch, lambda: errors.append(over.result()))	# it is no wait
        self.assertEqual(errors[4:], [7])

    def test_a_launched_function_does_not_wait_for_space(self):
        with pool(1, max_queued=2, pinned_max=1 << 22) as p, Gate() as gate:
            errors, arrays = [], []

            def fill():
                for call in (lambda: p.submit(int), lambda: arrays.append(p.pinned(1 << 20))):
                    try:
                        while len(arrays) < 100:
                            call()
                    except runnel.Error as error:
                        errors.append(error.errno)

            def job():
                runnel.launch(fill)
                gate.wait()		# the queue stays full

            one = p.submit(job)
            self.assertTrue(comes_true(lambda: len(errors) == 2))
            gate.open()
            one.result(LONG)
            del arrays[:]
            self.assertEqual(errors, [errno.EAGAIN, errno.ENOMEM])

    def test_a_launched_function_is_in_order_with_copies(self):
        a = np.arange(1 << 18, dtype="i4")
        out = np.zeros_like(a)

        def double(x):
            if ON_HOST:
                x *= 2

        def job():
            scratch = runnel.scratch(a.shape, a.dtype)
            runnel.copy(scratch, a)
            runnel.launch(double, scratch)
            runnel.copy(out, scratch)

        for _ in range(20):
            self.run_job(job)
            self.assertTrue(np.array_equal(out, a * 2 if ON_HOST else a))

    def test_an_exception_of_a_launched_function_is_the_jobs(self):
        barrier = self.pool.barrier()
        job = self.pool.options(barrier=barrier).submit(runnel.launch, lambda: 1 / 0)
        self.assertIsInstance(job.exception(LONG), ZeroDivisionError)
        with self.assertRaises(runnel.Error):
            barrier.wait(LONG)

    def test_dlpack_hands_memory_out_and_keeps_it(self):
        a = self.pool.device_array((4, 3), "f4")
        if ON_HOST:
            a[:] = 2
            b = np.from_dlpack(a)
            del a
            gc.collect()
            self.assertEqual((b.shape, float(b.sum())), ((4, 3), 24.0))
            return
        self.assertEqual(a.__dlpack_device__(), (2, 0))
        face = a.__cuda_array_interface__
        self.assertEqual((face["shape"], face["typestr"], face["data"]),
                         ((4, 3), "<f4", (a.ptr, False)))
        with self.assertRaises(BufferError):
            a.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            a.__dlpack__(dl_device=(1, 0))
        for dtype in ">i4", "g":	# the consumer would read something else
            with self.assertRaises(BufferError):
                self.pool.device_array(3, dtype).__dlpack__()
        with self.assertRaises((BufferError, RuntimeError)):	# numpy's own refusal
            np.from_dlpack(a)
        gc.collect()
        self.assertEqual(len(memory._handed_out), 0)
        capsule = a.__dlpack__(stream=1)
        self.assertIn('"dltensor"', repr(capsule))
        self.assertEqual(len(memory._handed_out), 1)
        del a
        gc.collect()
        self.assertEqual(len(self.pool._lent), 1)	# the capsule has it
        del capsule
        gc.collect()
        self.assertEqual((len(memory._handed_out), len(self.pool._lent)), (0, 0))

    def test_streams_are_private_and_each_workers_own(self):
        handles = {self.pool.options(key=runnel.worker_key(i)).submit(runnel.stream).result(LONG)
                   for i in (0, 1)}
        if ON_HOST:
            self.assertEqual(handles, {None})
        else:
            self.assertEqual(len(handles), 2)
            self.assertFalse(handles & {0, 1, 2, None})

    @unittest.skipUnless(os.environ.get("RNL_TEST_FAKE"), "it calls the double of CUDA's runtime")
    def test_after_work_on_the_shared_stream_its_handle_is_not_given_out(self):
        runtime = ctypes.CDLL(os.environ["LD_LIBRARY_PATH"].split(":")[0] + "/libcudart.so")
        device = self.pool.device_array(64)

        def stray():
            return runtime.cudaMemsetAsync(ctypes.c_void_p(device.ptr), 1, ctypes.c_size_t(64),
                                           ctypes.c_void_p(2))

        def is_noticed():	# not if the worker looks when the device has passed the work
            self.assertEqual(self.run_job(stray), 0)
            return self.pool.stats()["guard"]["strays"]

        with self.assertLogs("runnel", "WARNING"):
            self.assertTrue(comes_true(is_noticed))
        self.assertEqual(self.pool.stats()["guard"]["strays"], 1)
        error = self.pool.submit(runnel.stream).exception(LONG)
        self.assertIsInstance(error, runnel.Error)
        self.assertIn("per-thread default stream", str(error))

    def test_wraps_are_of_the_jobs_stream(self):
        made = []

        class Stream:
            def __init__(self, handle):
                self.handle = handle
                made.append(handle)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        torch, cupy, numba = (types.ModuleType(name) for name in ("torch", "cupy", "numba"))
        torch.cuda = types.SimpleNamespace(ExternalStream=Stream, stream=lambda stream: stream)
        cupy.cuda = types.SimpleNamespace(ExternalStream=Stream)
        numba.cuda = types.SimpleNamespace(external_stream=Stream)
        with unittest.mock.patch.dict(sys.modules, torch=torch, cupy=cupy, numba=numba):
            def job():
                with runnel.torch_stream(), runnel.cupy_stream():
                    stream = runnel.numba_stream()
                return runnel.stream(), getattr(stream, "handle", stream)

            key = runnel.worker_key(0)
            handle, numbas = self.run_job(job, key=key)
            self.assertEqual(made, [] if ON_HOST else [handle] * 3)
            self.assertEqual(numbas, 0 if ON_HOST else handle)
            self.run_job(job, key=key)
            self.assertEqual(made[3:], [] if ON_HOST else [handle] * 2)	# torch's is kept
            other, _ = self.run_job(job, key=runnel.worker_key(1))
            self.assertEqual(made[5:], [] if ON_HOST else [other] * 3)	# by each worker


class Maps(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)
        self.array = np.arange(50000 * 3, dtype="f4").reshape(-1, 3)

    def test_a_map_takes_each_row_once(self):
        out = np.zeros_like(self.array)

        def double(c):
            if ON_HOST:
                np.multiply(c.input, 2, out=c.out)
            else:
                runnel.copy(c.out, c.input)

        job = self.pool.map_array(double, self.array, out, chunk=777)
        self.assertIs(job.result(LONG), out)
        self.assertTrue(np.array_equal(out, self.array * (2 if ON_HOST else 1)))

    def test_a_map_in_place_with_the_librarys_chunks(self):
        want = self.array + (1 if ON_HOST else 0)

        def add(c):
            if ON_HOST:
                c.out += 1

        self.assertIs(self.pool.map_array(add, self.array, self.array).result(LONG), self.array)
        self.assertTrue(np.array_equal(self.array, want))

    @unittest.skipUnless(ON_HOST, "it computes with numpy")
    def test_halos_are_the_neighbours(self):
        x = np.random.default_rng(1).random(10001)
        out = np.empty_like(x)

        def smooth(c):
            padded = np.pad(c.input, (1 - c.before, 1 - c.after), mode="edge")
            c.out[:] = (padded[:-2] + padded[1:-1] + padded[2:]) / 3

        self.pool.map_array(smooth, x, out, chunk=100, halo=(1, 1)).result(LONG)
        padded = np.pad(x, 1, mode="edge")
        self.assertTrue(np.allclose(out, (padded[:-2] + padded[1:-1] + padded[2:]) / 3))

    def test_an_exception_ends_the_map(self):
        def fails(c):
            raise KeyError(c.index)

        self.assertIsInstance(self.pool.map_array(fails, self.array, chunk=10).exception(LONG), KeyError)
        self.assertEqual(self.pool.submit(int).result(LONG), 0)

    def test_a_map_without_rows_is_done(self):
        self.assertIsNone(self.pool.map_array(self.fail, self.array[:0]).result(LONG))

    def test_wrong_arguments_are_named(self):
        for text, args, options in (("fn is 3", (3, self.array), {}),
                                    ("array must be", (int, [1, 2]), {}),
                                    ("array must be", (int, self.array.T), {}),
                                    ("out has 2 rows", (int, self.array, self.array[:2]), {}),
                                    ("chunk is 0", (int, self.array), {"chunk": 0}),
                                    ("halo", (int, self.array), {"halo": 1}),
                                    ("halo", (int, self.array), {"halo": (20, 0), "chunk": 10}),
                                    ("rows without bytes", (int, self.array[:, :0]), {})):
            with self.assertRaises((TypeError, ValueError, runnel.Error)) as caught:
                self.pool.map_array(*args, **options)
            self.assertIn(text, str(caught.exception))
