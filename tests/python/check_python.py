# SPDX-License-Identifier: MIT
"""Runs the tests of the Python package, those of this folder's test_*.py, and prints TAP.

usage: check_python.py [NAME ...]     only tests whose name has one of these in it
env:   RNL_TEST_DEVICE  host, or cuda
"""
import faulthandler
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Tap(unittest.TestResult):
    nr = 0

    def tell(self, good, test, why=""):
        self.nr += 1
        # Of test_jobs.Jobs.test_a_value_comes_back: jobs: a value comes back
        module, _, name = test.id().split(".")[-3:]
        name = name.replace("test_", "", 1).replace("_", " ")
        module = module.replace("test_", "")
        print(f"{'ok' if good else 'not ok'} - {module}: {name}{why}", flush=True)

    def addSuccess(self, test):
        self.tell(True, test)

    def addSkip(self, test, reason):
        self.tell(True, test, f" # SKIP {reason}")

    def complain(self, test, err):
        print("".join(f"# {line}\n" for line in self._exc_info_to_string(err, test).splitlines()))
        self.tell(False, test)

    def addError(self, test, err):
        super().addError(test, err)
        if hasattr(test, "_testMethodName"):
            self.complain(test, err)
        else:				# a module that cannot be imported, a class's setup
            self.nr += 1
            print(f"# {err[1]!r}\nnot ok - {test}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.complain(test, err)


def tests_of(suite):
    for test in suite:
        yield from tests_of(test) if isinstance(test, unittest.TestSuite) else [test]


faulthandler.enable()
# What hangs says where, and ends.
faulthandler.dump_traceback_later(int(os.environ.get("TIMEOUT") or 600) * 9 // 10, exit=True)
sys.path.insert(0, HERE)
found = unittest.defaultTestLoader.discover(HERE, "test_*.py")
chosen = unittest.TestSuite(t for t in tests_of(found)
                            if not sys.argv[1:] or any(name in t.id() for name in sys.argv[1:]))
result = Tap()
chosen.run(result)
print(f"1..{result.nr}")
sys.exit(not result.nr or not result.wasSuccessful())
