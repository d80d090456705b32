# SPDX-License-Identifier: MIT
"""How often this process was forked off another one: what a parent made is not a child's."""
import os

_forks = 0


def number() -> int:
    return _forks


def _count() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count)
