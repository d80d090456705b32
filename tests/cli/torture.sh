#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/torture/torture, the program of make torture: a short run finds no error, and a run with an
# error reports it.
#
# env: RNL_TEST_DEVICE, RNL_TEST_SCALE as for all tests; RNL_TORTURE_SECONDS of the short run (6);
#	TORTURE the program (tests/torture/torture; with the double tests/doubles/torture)
#
# devices: host fake cuda
case ${RNL_TEST_FAKE:-} in '') program=tests/torture/torture ;; *) program=tests/doubles/torture ;; esac
program=${TORTURE:-$program}
. "$(dirname "$0")/../lib/harness.sh"
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
kinds=$(sed -n '/^#define WRONGS/,/^$/p' "$(dirname "$0")/../torture/torture.h" | grep -c 'X([A-Z]')

# ---- a short run ---------------------------------------------------------------
gives 0 --device="$device" --seconds="${RNL_TORTURE_SECONDS:-6}"
[ $got != 77 ] || skip_all "$(cat "$dir/out")"
silent
rows "$kinds" '^ +0  '
rows 1 "^torture: seed [0-9]+, device $device.* s: [1-9][0-9]* rounds, [1-9][0-9]* jobs, "
rows 1 '^torture: .* [1-9][0-9]* replayed, '
sed -n 's/^torture: .* rounds, /# &/p' "$dir/out"
ends 'a short run finds no error'

# ---- an error --------------------------------------------------------------------
for seconds in 2 20 200; do	# the time may be over before a GPU has started
	"$program" --device="$device" --seconds=$seconds --seed=7 --round=3 --makers=jobs --wrong \
		>"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = 0 ] || break
done
[ $got = 1 ] || complain "status with wrong data: $got"
rows 1 '^ +[1-9][0-9]*  jobs with wrong data$'
rows 1 '^ +0  accepted jobs that never ended$'
says 'torture: seed 7, round '
ends 'an error is counted and told, and the status is 1'

# ---- its end ---------------------------------------------------------------------
rm -f "$dir/out"	# after its first line the program can be interrupted
"$program" --device="$device" --seconds=3600 >"$dir/out" 2>"$dir/err" </dev/null &
pid=$!
until grep -qs '^torture: seed' "$dir/out"; do kill -0 "$pid" || break; sleep 0.1; done
kill -INT "$pid"
wait "$pid" || complain 'it did not end well'
pid=
rows "$kinds" '^ +0  '
rows 1 '^torture: seed .* rounds, '
ends 'an interrupt ends it after the current round, with its histogram'

# ---- the command line ---------------------------------------------------------------
fails 2 "'soon' is not good for --seconds: give a number from 1 to 100000000" --seconds=soon
fails 2 "'-1' is not good for --seed: give a number from 0 to 18446744073709551615" --seed=-1
fails 2 "'0' is not good for --round: give a number from 1 to 18446744073709551615" --round=0
for bad in none '' cuda: cuda:x cuda:1x; do
	fails 2 "'$bad' is not good for --device: give host, cuda or cuda:N" --device="$bad"
done
for bad in none '' jobs, chains,none; do
	fails 2 "'${bad##*,}' is not good for --makers: see --help" --makers="$bad"
done
fails 2 "'now' is unexpected" now
fails 2 "Try 'torture --help'" --fast
gives 0 --help
rows 1 '^Usage: torture \[OPTION\]'
ends 'refuses mistakes in the command line'

if [ -w /dev/full ]; then
	fails_on_full_disk --help
	fails_on_full_disk --device="$device" --seconds=1
	ends 'a report that cannot be written is no success'
fi
done_testing
