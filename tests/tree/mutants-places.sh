#!/bin/sh
# SPDX-License-Identifier: MIT
# Each row of tests/tree/mutants.tab finds the place in src/ that it breaks, and its tests exist.
exec sh "${srcdir:-.}/tests/tree/mutants" -n
