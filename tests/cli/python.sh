#!/bin/sh
# SPDX-License-Identifier: MIT
# The Python package in its source tree: tests/python, and the programs of python/examples.
#
# devices: host fake cuda
. "$(dirname "$0")/../lib/harness.sh"
[ "${have_PYTHON:-no}" = yes ] || skip_all 'there is no Python with cffi, numpy and Python.h'
case ${sanitizer:-} in
thread) skip_all 'ThreadSanitizer does not know the lock of the interpreter' ;;
*address*)	# Python does not free its memory at exit
	LD_PRELOAD=$($CC -print-file-name=libasan.so) ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
	export LD_PRELOAD ASAN_OPTIONS ;;
esac
export PYTHONPATH="$srcdir/python:$PWD/python" PYTHONDONTWRITEBYTECODE=1
[ "$device" = host ] || [ "$fake" ] || $PYTHON -c 'import runnel; runnel.describe("cuda")' 2>/dev/null ||
	skip_all 'no GPU answers'
$PYTHON "$srcdir/tests/python/check_python.py"
