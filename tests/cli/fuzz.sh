#!/bin/sh
# SPDX-License-Identifier: MIT
# make fuzz, for some seconds: the corpus and random inputs cause no failure.
#
# env: FUZZ_CC is configure's clang with libFuzzer; FUZZES are the programs;
#      RNL_FUZZ_SECONDS, for all of them together
[ -z "${sanitizer:-}" ] || { echo 'SKIP: a build without sanitizers fuzzes, with some of its own'; exit 77; }
[ "${FUZZ_CC:-}" ] || { echo 'SKIP: there is no clang with libFuzzer'; exit 77; }
# shellcheck disable=SC2086  # words
exec sh "$(dirname "$0")/../fuzz/run" "${RNL_FUZZ_SECONDS:-18}" ${FUZZES:?}
