# SPDX-License-Identifier: MIT
"""Classes of jobs: which of a pool's jobs start next."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from .c import ffi, lib
from .errors import check
from .loop import in_thread, refuse_in_loop

if TYPE_CHECKING:
    from .pool import Pool

# The attributes of struct rnl_class_attr that Pool.job_class() accepts.
_NUMBERS = {name for name, field in ffi.typeof("struct rnl_class_attr").fields
            if field.type.kind == "primitive"} - {"size"}


class JobClass:
    """A class of a pool's jobs, made by Pool.job_class(): Pool.options(cls=...) names it."""

    __slots__ = ("_c", "_pool", "name", "__weakref__")

    def __init__(self, pool: "Pool", name: str, attributes: Dict[str, int]):
        unknown = sorted(set(attributes) - _NUMBERS)
        if unknown:
            raise TypeError(f"Pool.job_class(): there is no attribute {unknown[0]!r}; there are "
                            f"{', '.join(sorted(_NUMBERS))}")
        attr = ffi.new("struct rnl_class_attr *")
        attr.size = ffi.sizeof(attr[0])
        text = ffi.new("char[]", name.encode())
        attr.name = text
        for key, value in attributes.items():
            try:
                setattr(attr, key, value)
            except (TypeError, OverflowError) as error:
                raise type(error)(f"Pool.job_class(): {key} is {value!r}: {error}") from None
        classp = ffi.new("struct rnl_class **")
        with pool._use("Pool.job_class()") as c:
            check(lib.rnl_class_create(classp, c, attr), "Pool.job_class()")
        self._c, self._pool, self.name = classp[0], pool, name

    def close(self) -> None:
        """Refuses further jobs of the class, and waits until its jobs are done. The end of the pool
        closes its classes, too. Not on a worker of the pool."""
        refuse_in_loop("JobClass.close()", "await cls.aclose()")
        c, self._c = self._c, None
        if c is None:
            return
        with self._pool._use("JobClass.close()"):
            lib.rnl_class_destroy(c)

    async def aclose(self) -> None:
        """Like close(), while the loop goes on."""
        await in_thread(self.close)

    def stats(self) -> Dict[str, Any]:
        """Returns the figures of struct rnl_class_stats."""
        stats = ffi.new("struct rnl_class_stats *")
        stats.size = ffi.sizeof(stats[0])
        with self._pool._use("JobClass.stats()"):
            check(lib.rnl_class_read_stats(self._c, stats), "JobClass.stats()")
        return {name: getattr(stats, name) for name, _ in ffi.typeof(stats[0]).fields if name != "size"}

    def wait_s(self) -> float:
        """Predicts how many seconds a job that is submitted now would wait."""
        ns = ffi.new("uint64_t *")
        with self._pool._use("JobClass.wait_s()"):
            check(lib.rnl_class_wait(self._c, ns), "JobClass.wait_s()")
        return float(ns[0] / 1e9)
