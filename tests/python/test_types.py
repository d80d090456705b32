# SPDX-License-Identifier: MIT
"""The types of the package, by mypy --strict."""
import importlib.util
import os
import subprocess
import sys
import unittest

import runnel
from shared import LONG

HERE = os.path.dirname(os.path.abspath(__file__))


@unittest.skipUnless(importlib.util.find_spec("mypy"), "it needs mypy")
class Types(unittest.TestCase):
    def test_mypy_accepts_what_is_right_and_finds_each_mistake(self):
        package = os.path.dirname(os.path.dirname(os.path.abspath(runnel.__file__)))
        installed = "-packages" in package		# then mypy finds the package itself
        run = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--no-incremental",
             f"--python-executable={sys.executable}", "--follow-imports=silent", os.path.join(HERE, "typed.py")],
            env={**os.environ, "MYPYPATH": "" if installed else package}, capture_output=True,
            text=True, timeout=4 * LONG, cwd=HERE)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
