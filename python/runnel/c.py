# SPDX-License-Identifier: MIT
"""The module that cffi makes of the library's headers and of binding.c; it has no types."""
from typing import Any, Callable, Optional, TypeVar, cast

import _runnel  # type: ignore[import-not-found, unused-ignore]

ffi: Any = _runnel.ffi
lib: Any = _runnel.lib

F = TypeVar("F", bound=Callable[..., Any])


def called_by_c(error: Optional[int] = None) -> Callable[[F], F]:
    """Makes a function that C calls by its name; error: what C gets if it raises."""
    return cast(Callable[[F], F], ffi.def_extern(error=error))
