# SPDX-License-Identifier: MIT
"""runnel: a pool of workers, each with its own GPU stream, or on the host.

    with runnel.Pool(4) as pool:
        jobs = [pool.submit(fn, i) for i in range(1000)]
        values = [job.result() for job in jobs]

A Pool is an executor of concurrent.futures, and its jobs are futures.

README.md of this package lists the files; the terms are those of the C library's headers."""
from .barrier import Barrier, Order
from .batcher import Batch, Batcher
from .c import lib as _lib
from .errors import Cancelled, Closed, Error, Full, Late
from .job import Hold, Job, hold, is_cancelled, trace_id
from .job_class import JobClass
from .map import Chunk
from .memory import DeviceArray, scratch
from .options import EMPTY, SPACE, Options, worker_key
from .pool import Pool, describe, setup
from .queue import Queue
from .stream import cupy_stream, numba_stream, stream, torch_stream, worker
from .work import copy, fill, launch

_version = _lib.rnl_version()
__version__ = f"{_version >> 16}.{_version >> 8 & 255}.{_version & 255}"

__all__ = ["Barrier", "Batch", "Batcher", "Cancelled", "Chunk", "Closed", "DeviceArray", "EMPTY",
           "Error", "Full", "Hold", "Job", "JobClass", "Late", "Options", "Order", "Pool", "Queue",
           "SPACE", "copy", "cupy_stream",
           "describe", "fill", "hold", "is_cancelled", "launch", "numba_stream", "scratch",
           "setup", "stream", "torch_stream", "trace_id", "worker", "worker_key"]
