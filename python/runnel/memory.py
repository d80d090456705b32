# SPDX-License-Identifier: MIT
"""Memory: pinned arrays, arrays on a device, scratch memory of one job.

Memory is returned to the pool when the last array or tensor that uses it is gone; the pool exists
until then."""
from __future__ import annotations

import ctypes
import errno
import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Dict, Optional, Set, Tuple

import numpy as np

from .c import called_by_c, ffi, lib
from .errors import Expired, check, wait
from .job import is_thread_of, running_job

if TYPE_CHECKING:
    from .pool import Pool

DL_CPU, DL_CUDA = 1, 2				# DLPack's types of devices
DL_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
DL_BYTES = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16), "b": (1,)}

_handed_out: Set[Any] = set()			# handles of arrays that DLPack consumers hold


def _shape(shape: Any, dtype: Any, what: str) -> Tuple[Tuple[int, ...], np.dtype, int]:
    """Returns the shape as a tuple, the dtype, and their size in bytes."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"{what}: dtype is {dtype}; objects of Python have no place in this memory")
    try:
        shape = tuple(map(operator.index, shape if np.iterable(shape) else (shape,)))
    except TypeError:
        raise TypeError(f"{what}: shape is {shape!r}; it must be a number or numbers") from None
    nbytes = math.prod(shape) * dtype.itemsize
    if min(shape, default=1) < 0 or not 0 < nbytes < 2**62:
        raise ValueError(f"{what}: shape {shape} of {dtype} has no bytes, or too many")
    return shape, dtype, nbytes


class DeviceArray:
    """An array in memory of a GPU, in C order. It has no arithmetic: pass it to
    torch.from_dlpack(), cupy.asarray(), numba.cuda.as_cuda_array(), or copy().

    Do this in the job that uses the array, or when that job is done: this class does not make
    another stream wait."""

    __slots__ = ("_memory", "ptr", "shape", "dtype", "nbytes", "ordinal", "__weakref__")

    def __init__(self, memory: Any, shape: Tuple[int, ...], dtype: np.dtype, ordinal: int):
        self._memory = memory			# keeps the memory
        self.ptr = int(ffi.cast("uintptr_t", memory))
        self.shape, self.dtype = shape, dtype
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.ordinal = ordinal			# CUDA's number of its device

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.ptr, False),
                "strides": None, "version": 3}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return DL_CUDA, self.ordinal

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        if copy:
            raise BufferError("DeviceArray.__dlpack__(): it makes no copy")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"DeviceArray.__dlpack__(): it is on {self.__dlpack_device__()}, and "
                              f"not on {tuple(dl_device)}")
        return _capsule(self, DL_CUDA, self.ordinal)

    def __repr__(self) -> str:
        return f"<runnel.DeviceArray {self.shape} of {self.dtype} on cuda:{self.ordinal}>"


def _capsule(array: DeviceArray, device_type: int, device_id: int) -> Any:
    """Returns a DLPack capsule, which keeps the array until its consumer is done."""
    code = DL_CODES.get(array.dtype.kind)
    if code is None or len(array.shape) > 32 or not array.dtype.isnative or \
            array.dtype.itemsize not in DL_BYTES[array.dtype.kind]:
        raise BufferError(f"DLPack has nothing for {len(array.shape)} dimensions of {array.dtype}")
    handle = ffi.new_handle(array)
    tensor = lib.py_tensor(array._memory, device_type, device_id, code, array.dtype.itemsize * 8,
                           len(array.shape), list(array.shape), handle)
    if not tensor:
        raise MemoryError("DeviceArray.__dlpack__()")
    _handed_out.add(handle)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    end = ffi.cast("uintptr_t", ffi.addressof(lib, "py_capsule_end"))
    return new(int(ffi.cast("uintptr_t", tensor)), b"dltensor", int(end))


@called_by_c()
def py_forget(owner: Any) -> None:
    _handed_out.discard(owner)


def host_array(memory: Any, shape: Tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns a numpy array over memory of the host; the array keeps the memory."""
    nbytes = math.prod(shape) * dtype.itemsize
    return np.frombuffer(ffi.buffer(memory, nbytes), dtype).reshape(shape)


def array_on(pool: "Pool", device: int, memory: Any, shape: Tuple[int, ...],
             dtype: np.dtype) -> Any:
    """Returns an array over memory of a device of the pool."""
    if pool.on_host:
        return host_array(memory, shape, dtype)
    return DeviceArray(memory, shape, dtype, pool.devices[device]["ordinal"])


# At the interpreter's end globals may be None: defaults keep what this needs, here and in Pool.
def _give_back(pool: "Pool", memory: Any, lib: Any = lib) -> None:
    try:
        if pool._is_mine():			# in a forked child the memory is not the pool's
            lib.rnl_memory_put(pool._c, memory)
    finally:					# Ctrl-C may interrupt here, too
        pool._lent.pop()
        pool._end()


def _lend(pool: "Pool", memory: Any, nbytes: int) -> Any:
    """Returns an owner of the memory, which puts it back at the end. The caller is in _use()."""
    pool._lent.append(None)
    return ffi.gc(memory, functools.partial(_give_back, pool), nbytes)


def pinned(pool: "Pool", shape: Any, dtype: Any, timeout: Optional[float]) -> np.ndarray:
    what = "Pool.pinned()"
    shape, dtype, nbytes = _shape(shape, dtype, what)
    bufp = ffi.new("void **")
    with pool._use(what) as c:
        ret = wait(lambda ns: -errno.ESHUTDOWN if pool._closed else
                   lib.rnl_memory_get(c, lib.RNL_PINNED, nbytes, bufp, ns),
                   0 if is_thread_of(pool) else timeout, what)
        if ret == -errno.ETIMEDOUT:
            raise Expired(f"{what}: {nbytes} bytes were not put back in {timeout} s")
        check(ret, f"{what} of {nbytes} bytes")
        memory = _lend(pool, bufp[0], nbytes)
    return host_array(memory, shape, dtype)


def device_array(pool: "Pool", shape: Any, dtype: Any, device: int) -> Any:
    what = "Pool.device_array()"
    shape, dtype, nbytes = _shape(shape, dtype, what)
    if not isinstance(device, int) or not 0 <= device < len(pool.devices):
        raise ValueError(f"{what}: device is {device!r}; the pool has 0 to {len(pool.devices) - 1}")
    memp = ffi.new("void **")
    with pool._use(what) as c:
        check(lib.rnl_memory_get(c, device, nbytes, memp, 0), f"{what} of {nbytes} bytes")
        memory = _lend(pool, memp[0], nbytes)
    return array_on(pool, device, memory, shape, dtype)


def scratch(shape: Any, dtype: Any = "uint8") -> Any:
    """In a job: an array in device memory that is gone when the job is done. Do not keep it."""
    shape, dtype, nbytes = _shape(shape, dtype, "scratch()")
    pool = running_job("scratch()")._pool
    memp = ffi.new("void **")
    check(lib.rnl_scratch(nbytes, memp), f"scratch() of {nbytes} bytes")
    return array_on(pool, lib.rnl_worker().device, memp[0], shape, dtype)
