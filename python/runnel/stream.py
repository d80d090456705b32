# SPDX-License-Identifier: MIT
"""The stream of the worker that runs a job, for torch, CuPy and Numba.

Work that goes elsewhere is not waited for: so a job wraps what it does. The wrap stays inside of
the job: a handle belongs to its worker, and the next job may run on another one."""
from __future__ import annotations

import contextlib
import errno
from typing import Any, ContextManager, Optional

from _runnel import ffi, lib

from .errors import Error
from .job import _thread

SHARED = (1, 2)		# cudaStreamLegacy, cudaStreamPerThread: handles that all threads have


def worker() -> Optional[int]:
    """The index of the worker that this thread is; None: it is no worker."""
    index = lib.rnl_worker().index
    return index if index >= 0 else None


def stream() -> Optional[int]:
    """In a job: the handle of its stream, a cudaStream_t; None on the host device."""
    if worker() is None:
        raise RuntimeError("stream() is for a job's function: another thread has no stream")
    handle = int(ffi.cast("uintptr_t", lib.rnl_stream()))
    if handle in SHARED:
        raise Error(errno.ENOTSUP, "stream(): a job of this pool has left work on the per-thread "
                    "default stream, and so the pool calls jobs with that stream, whose handle is "
                    "the same in all threads. Name stream() in each call to CUDA; logger runnel "
                    "says more")
    return handle or None


def torch_stream() -> ContextManager[Any]:
    """In a job: `with torch_stream():` torch works on the job's stream. On the host: as ever."""
    handle = stream()
    if handle is None:
        return contextlib.nullcontext()
    import torch
    kept = getattr(_thread, "torch_stream", None)
    if kept is None or kept[0] != handle:	# to make one takes longer than to launch a graph
        kept = _thread.torch_stream = handle, torch.cuda.ExternalStream(handle)
    return torch.cuda.stream(kept[1])


def cupy_stream() -> ContextManager[Any]:
    """In a job: `with cupy_stream():` CuPy works on the job's stream. On the host: nothing."""
    handle = stream()
    if handle is None:
        return contextlib.nullcontext()
    import cupy
    return cupy.cuda.ExternalStream(handle)


def numba_stream() -> Any:
    """In a job: the stream for kernel[grid, block, numba_stream()]; 0 on the host device."""
    handle = stream()
    if handle is None:
        return 0
    from numba import cuda
    return cuda.external_stream(handle)
