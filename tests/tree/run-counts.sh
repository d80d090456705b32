#!/bin/sh
# SPDX-License-Identifier: MIT
# The counts of tests/lib/run for tests that pass, fail, skip and are known to fail.
srcdir=$(cd "${srcdir:-.}" && pwd) || exit
. "$srcdir/tests/lib/harness.sh"

mkdir "$dir/tests" "$dir/build" || exit 1
cat >"$dir/tests.c" <<'IN'
#include "suite.h"

/* suite.c asks the library for devices other than the host. */
int rnl_device_describe(const char *device, struct rnl_device_info *info)
{
	(void)device;
	(void)info;
	return 0;
}
const char *rnl_strerror(int error)
{
	(void)error;
	return "";
}

TEST(one_that_passes) { }
#ifdef SKIPS
TEST(one_that_skips) { test_skip("a reason"); }
#endif
#ifdef FAILS
TEST(one_that_fails) { ck_abort_msg("it fails"); }
#endif
#ifdef KNOWN
TEST(one_that_is_known_to_fail, .known_to_fail = "a reason") { ck_abort_msg("as ever"); }
TEST(one_that_is_known_to_crash, .known_to_fail = "another reason") { abort(); }
#endif
#ifdef MENDED
TEST(one_that_passes_again, .known_to_fail = "a reason that is gone") { }
#endif
#ifdef HANGS
TEST(one_that_is_known_to_hang, .known_to_fail = "it waits", .timeout_s = 1) { pause(); }
#endif
IN
# counted STATUS SUM FLAG ...: checks the runner's status and last line for a program with these
# tests
counted() {
	want=$1 sum=$2
	shift 2
	# shellcheck disable=SC2046,SC2086 # words
	(cd "$dir/build" && ${CC:-cc} -o ../tests/some "$@" -D_GNU_SOURCE -I"$srcdir/tests/lib" -I"$srcdir/include" \
		../tests.c "$srcdir/tests/lib/suite.c" $(${PKG_CONFIG:-pkg-config} --cflags --libs check) \
		-pthread >../out 2>../err) || complain "it cannot be compiled: $*"
	(cd "$dir" && RESULTS= STOP_AT= RNL_TEST_SCALE=0.1 sh "$srcdir/tests/lib/run" tests/some >out 2>err)
	got=$?
	[ $got = "$want" ] || complain "status with $*: $got, not $want"
	[ "$(tail -n 1 "$dir/out")" = "$sum" ] || complain "the last line with $* is not: $sum"
}

${PKG_CONFIG:-pkg-config} --exists check || skip_all 'there is no Check'
counted 0 '1 passed, 0 failed, 1 skipped' -DSKIPS
prints '^ +SKIP: a reason$'
counted 1 '1 passed, 1 failed, 0 skipped' -DFAILS
ends 'passes, failures and skips are counted'

counted 0 '1 passed, 0 failed, 2 skipped' -DKNOWN
prints '^ +KNOWN TO FAIL: one_that_is_known_to_fail: a reason$'
prints '^ +KNOWN TO FAIL: one_that_is_known_to_crash: another reason$'
counted 0 '1 passed, 0 failed, 1 skipped' -DHANGS
prints '^ +KNOWN TO FAIL: one_that_is_known_to_hang: it waits$'
ends 'a test that is known to fail and fails is shown, and counted as skipped'

counted 1 '1 passed, 1 failed, 3 skipped' -DKNOWN -DFAILS -DSKIPS
prints 'KNOWN TO FAIL: one_that_is_known_to_fail'
ends 'the failure of another test beside it is a failure'

counted 1 '1 passed, 1 failed, 0 skipped' -DMENDED
prints 'MENDED: one_that_passes_again: it passes, so take its .known_to_fail away$'
counted 1 '1 passed, 1 failed, 2 skipped' -DKNOWN -DMENDED
ends 'a test that is known to fail and passes is a failure'
done_testing
