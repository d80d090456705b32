# SPDX-License-Identifier: MIT
"""The programs of python/examples, each shortly: they check what they compute."""
import importlib.util
import os
import subprocess
import sys
import unittest

from shared import DEVICE, LONG, ON_HOST

KERNELS = importlib.util.find_spec("torch") and not os.environ.get("RNL_TEST_FAKE")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/examples")


@unittest.skipUnless(os.path.isdir(FOLDER), "the examples are not here")
@unittest.skipUnless(ON_HOST or KERNELS, "on a GPU they need kernels of torch")
class Examples(unittest.TestCase):
    def ends_well(self, name, *rows):
        program = os.path.join(FOLDER, name)
        run = subprocess.run([sys.executable, program, f"--device={DEVICE}", "--quick"],
                             capture_output=True, text=True, timeout=4 * LONG)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        for row in rows:
            self.assertRegex(run.stdout, row)

    def test_empty_job(self):
        self.ends_well("empty_job.py", "many at once, 4 +[0-9.]+ +[0-9.]+",
                       "awaited in asyncio, 1 ")

    def test_inference(self):
        self.ends_well("inference.py", "one (thread|stream) +[0-9.]+ ms", "runnel, 2 workers +[0-9.]+ ms")

    def test_loader(self):
        self.ends_well("loader.py", "no reading ahead +[0-9.]+ ms",
                       "runnel, 2 workers that read +[0-9.]+ ms")

    def test_buckets(self):
        self.ends_well("buckets.py", "adding at the end +[0-9.]+ ms",
                       "runnel, overlapped +[0-9.]+ ms")

    def test_a_wrong_option_is_named(self):
        run = subprocess.run([sys.executable, os.path.join(FOLDER, "loader.py"), "--ahead=0"],
                             capture_output=True, text=True, timeout=LONG)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--ahead is 0", run.stderr)
