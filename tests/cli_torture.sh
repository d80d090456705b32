#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/torture, the program of make torture: a short run finds nothing wrong, and one in
# which something is wrong tells it.
#
# env: RNL_TEST_DEVICE, RNL_TEST_SCALE as for all tests; TORTURE  the program (tests/torture)
set -u
export LC_ALL=C
TORTURE=${TORTURE:-tests/torture}
device=${RNL_TEST_DEVICE:-host}
[ -x "$TORTURE" ] || { echo "there is no $TORTURE"; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/torture.XXXXXX") || exit 1
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

# ---- the harness -------------------------------------------------------------
nr=0
wrong=0		# of the checks since the last test ended
ends() {	# ends NAME: all checks since the last one were the test NAME
	nr=$((nr + 1))
	if [ $wrong = 0 ]; then echo "ok $nr - $1"; else echo "not ok $nr - $1"; fi
	wrong=0
}
complain() {	# complain TEXT: and what the program said
	wrong=$((wrong + 1))
	echo "# $1"
	sed 's/^/#   /' "$dir/out" "$dir/err"
}
gives() {	# gives STATUS ARG...
	want=$1
	shift
	"$TORTURE" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
rows() {	# rows NR REGEX: so many lines are like that
	got=$(grep -cE -- "$2" "$dir/out")
	[ "$got" = "$1" ] || complain "$got lines of: $2, not $1"
}
says() { grep -qF -- "$1" "$dir/err" || complain "it does not say: $1"; }
kinds=$(sed -n '/^#define WRONGS/,/^$/p' "$(dirname "$0")/torture.h" | grep -c 'X([A-Z]')

# ---- a short run ---------------------------------------------------------------
"$TORTURE" --device="$device" --seconds=6 >"$dir/out" 2>"$dir/err" </dev/null
rc=$?
if [ $rc = 77 ]; then
	cat "$dir/out"
	exit 77
fi
[ $rc = 0 ] || complain "status $rc"
[ ! -s "$dir/err" ] || complain 'it has something to say'
rows "$kinds" '^ +0  '
rows 1 "^torture: seed [0-9]+, device $device.* s: [1-9][0-9]* rounds, [1-9][0-9]* jobs, "
sed -n 's/^torture: .* rounds, /# &/p' "$dir/out"
ends 'in a short run all that is promised is kept'

# ---- what is wrong ---------------------------------------------------------------
# A long round first: the time may be over when a GPU has started.
gives 1 --device="$device" --seconds=2 --seed=7 --round=3 --wrong
rows 1 '^ +[1-9][0-9]*  jobs with wrong data$'
rows 1 '^ +0  accepted jobs that never ended$'
says 'torture: seed 7, round '
ends 'what is wrong is counted and told, and the status is 1'

# ---- its end ---------------------------------------------------------------------
rm -f "$dir/out"	# what it says there, it says when it hears of interrupts
"$TORTURE" --device="$device" --seconds=3600 >"$dir/out" 2>"$dir/err" </dev/null &
pid=$!
until grep -qs '^torture: seed' "$dir/out"; do kill -0 "$pid" || break; sleep 0.1; done
kill -INT "$pid"
wait "$pid" || complain 'it did not end well'
pid=
rows "$kinds" '^ +0  '
rows 1 '^torture: seed .* rounds, '
ends 'an interrupt ends it after the round that is on, with its histogram'

# ---- the command line ---------------------------------------------------------------
gives 2 --seconds=soon
says "'soon' is not good for --seconds: give a number from 1 to 100000000"
gives 2 --seed=-1
says "'-1' is not good for --seed: give a number from 0 to 18446744073709551615"
gives 2 --round=0
says "'0' is not good for --round: give a number from 1 to 18446744073709551615"
for bad in none '' cuda: cuda:x cuda:1x; do
	gives 2 --device="$bad"
	says "'$bad' is not good for --device: give host, cuda or cuda:N"
done
gives 2 now
says "'now' is too much"
gives 2 --fast
says "Try 'torture --help'"
gives 0 --help
rows 1 '^Usage: torture \[OPTION\]'
ends 'a command line that is wrong is told'

if [ -w /dev/full ]; then
	for args in --help "--device=$device --seconds=1"; do
		"$TORTURE" $args >/dev/full 2>"$dir/err"
		[ $? = 1 ] || complain "status of $args when nothing can be written"
		says 'standard output'
	done
	ends 'a report that cannot be written is no success'
fi
echo "1..$nr"
