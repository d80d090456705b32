# SPDX-License-Identifier: MIT
"""The stream of the worker that runs a job, for torch, CuPy and Numba.

A job does not wait for work on other streams. So its GPU work must be in one of these contexts,
which must end in the job: a handle belongs to a worker, and the next job may run on another."""
from __future__ import annotations

import contextlib
import errno
from typing import Any, ContextManager, Optional

from .c import ffi, lib
from .errors import Error
from .job import _thread

SHARED = (1, 2)		# cudaStreamLegacy, cudaStreamPerThread: handles that all threads have


def worker() -> Optional[int]:
    """Returns the index of the worker that this thread is, or None."""
    index = lib.rnl_worker().index
    return index if index >= 0 else None


def stream() -> Optional[int]:
    """In a job: returns the handle of its stream, a cudaStream_t, or None on the host device."""
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
    """In a job: `with torch_stream():` makes torch use the job's stream. No effect on the host."""
    handle = stream()
    if handle is None:
        return contextlib.nullcontext()
    import torch  # type: ignore[import-not-found, unused-ignore]
    kept = getattr(_thread, "torch_stream", None)
    if kept is None or kept[0] != handle:	# kept, since making one takes longer than a launch
        kept = _thread.torch_stream = handle, torch.cuda.ExternalStream(handle)
    context: ContextManager[Any] = torch.cuda.stream(kept[1])
    return context


def cupy_stream() -> ContextManager[Any]:
    """In a job: `with cupy_stream():` makes CuPy use the job's stream. No effect on the host."""
    handle = stream()
    if handle is None:
        return contextlib.nullcontext()
    import cupy  # type: ignore[import-not-found, unused-ignore]
    context: ContextManager[Any] = cupy.cuda.ExternalStream(handle)
    return context


def numba_stream() -> Any:
    """In a job: returns the stream for kernel[grid, block, numba_stream()], or 0 on the host."""
    handle = stream()
    if handle is None:
        return 0
    from numba import cuda  # type: ignore[import-not-found, unused-ignore]
    return cuda.external_stream(handle)
