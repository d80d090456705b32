#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/fan_out: its result, its length, a full disk.
program=${FAN_OUT:-examples/fan_out}
. "$(dirname "$0")/../lib/harness.sh"

works
prints '^10000 items, 80000 jobs, 0 wrong$'
ends 'ten thousand items fan out and in, and none is wrong'

if [ -c /dev/full ]; then
	"$program" >/dev/full 2>"$dir/err" && complain 'status 0 though nothing was written'
	says 'fan_out: standard output: '
	ends 'a full disk is an error'
fi

[ "$(wc -l <"$srcdir/examples/fan_out.c")" -lt 120 ] || complain 'it has 120 lines or more'
ends 'it is a short program'
done_testing
