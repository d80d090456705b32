# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: the module in C, and the version, which is that of runnel.h."""
import os
import re
import sys
import sysconfig

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from binding import include_dir, read  # noqa: E402

NUMBERS = re.findall(r"^#define RNL_VERSION_\w+ (\d+)", read(include_dir(), "runnel.h"), re.M)

# Free-threaded interpreters have no stable ABI: each of their versions needs a wheel of its own.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(version=".".join(NUMBERS), cffi_modules=["binding.py:builder"],
      options={"bdist_wheel": {"py_limited_api": "cp39"}} if STABLE else {})
