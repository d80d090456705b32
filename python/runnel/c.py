# SPDX-License-Identifier: MIT
"""The module that cffi makes of the library's headers and of binding.c; it has no types."""
from typing import Any

import _runnel  # type: ignore[import-not-found, unused-ignore]

ffi: Any = _runnel.ffi
lib: Any = _runnel.lib
