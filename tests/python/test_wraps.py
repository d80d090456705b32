# SPDX-License-Identifier: MIT
"""torch, CuPy and Numba in jobs, on a GPU: what they allocate, compute and free at once on several
workers is each job's own."""
import importlib.util
import os
import unittest

import numpy as np

import runnel
from shared import LONG, ON_HOST, pool

NR_JOBS, NR_WORKERS, LENGTH = 400, 4, 1 << 16
REAL = not ON_HOST and not os.environ.get("RNL_TEST_FAKE")


def needs(name):
    return unittest.skipUnless(REAL and importlib.util.find_spec(name), f"it needs a GPU and {name}")


def computed(x, i):
    """Arrays that live for one step: an allocator that mixes streams up gives them to others."""
    for step in range(8):
        x = x * 3 + (i + step)
    return x


class Wraps(unittest.TestCase):
    def setUp(self):
        self.pool = pool(NR_WORKERS)
        self.addCleanup(self.pool.close, LONG, True)
        self.ins = [self.pool.pinned(LENGTH, "i8") for _ in range(NR_JOBS)]
        self.outs = [self.pool.pinned(LENGTH, "i8") for _ in range(NR_JOBS)]
        for i, array in enumerate(self.ins):
            array[:] = np.arange(LENGTH) + i
        for array in self.outs:
            array[:] = -1

    def all_right(self, job):
        for one in [self.pool.submit(job, i) for i in range(NR_JOBS)]:
            one.result(LONG)
        wrong = [i for i in range(NR_JOBS)
                 if not np.array_equal(self.outs[i], computed(self.ins[i], i))]
        self.assertEqual(wrong, [])

    def takes_device_arrays(self, wrap, take):
        def job(i):
            array = self.pool.device_array(LENGTH, "i8")
            runnel.copy(array, self.ins[i])
            with wrap():
                runnel.copy(self.outs[i], computed(take(array), i))

        self.all_right(job)

    @needs("torch")
    def test_torchs_arrays_are_each_jobs_own(self):
        import torch
        torch.cuda.init()

        def job(i):
            with runnel.torch_stream():
                x = torch.from_numpy(self.ins[i]).to("cuda", non_blocking=True)
                torch.cuda._sleep(20000)	# what is freed below is still used
                torch.from_numpy(self.outs[i]).copy_(computed(x, i), non_blocking=True)

        self.all_right(job)

    @needs("torch")
    def test_torch_takes_a_device_array(self):
        import torch
        self.takes_device_arrays(runnel.torch_stream, torch.from_dlpack)

    @needs("cupy")
    def test_cupys_arrays_are_each_jobs_own(self):
        import cupy
        self.takes_device_arrays(runnel.cupy_stream, cupy.asarray)

    @needs("cupy")
    def test_cupy_takes_a_device_array_by_dlpack(self):
        import cupy
        self.takes_device_arrays(runnel.cupy_stream, cupy.from_dlpack)

    @needs("numba")
    def test_numbas_kernels_are_in_the_jobs_order(self):
        from numba import cuda

        @cuda.jit
        def compute(x, i):
            at = cuda.grid(1)
            if at < x.size:
                for step in range(8):
                    x[at] = x[at] * 3 + (i + step)

        def job(i):
            array = self.pool.device_array(LENGTH, "i8")
            runnel.copy(array, self.ins[i])
            compute[(LENGTH + 255) // 256, 256, runnel.numba_stream()](
                cuda.as_cuda_array(array), i)
            runnel.copy(self.outs[i], array)

        self.all_right(job)
