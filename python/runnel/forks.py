# SPDX-License-Identifier: MIT
"""Counts the forks before this process, to detect objects that belong to its parent."""
import os

_forks = 0


def number() -> int:
    return _forks


def _count() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count)
