#!/bin/sh
# SPDX-License-Identifier: MIT
# make fuzz, for some seconds: the kept inputs, and others by chance, do no harm.
#
# env: FUZZ_CC is configure's clang with libFuzzer
[ "${have_HTTP:-yes}" = yes ] || { echo 'SKIP: http_server is not built: configure says why'; exit 77; }
[ "${FUZZ_CC:-}" ] || { echo 'SKIP: there is no clang with libFuzzer'; exit 77; }
exec sh "$(dirname "$0")/../fuzz/run" "${RNL_FUZZ_SECONDS:-6}" form image request
