#!/bin/sh
# SPDX-License-Identifier: MIT
# Each row of tests/tree/mutants.tab finds the place in src/ that it breaks, and its tests are there.
exec sh "${srcdir:-.}/tests/tree/mutants" -n
