#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/bench/rates, the program of make bench: that it works, not how fast anything is.
#
# env: RATES    the program (tests/bench/rates)
set -u
export LC_ALL=C
RATES=${RATES:-tests/bench/rates}
[ -x "$RATES" ] || { echo "there is no $RATES"; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/rates.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
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
	"$RATES" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
rows() {	# rows NR REGEX: so many lines are like that
	got=$(grep -cE -- "$2" "$dir/out")
	[ "$got" = "$1" ] || complain "$got lines of: $2, not $1"
}
holds() {	# holds NR REGEX: the same of the JSON, which is too long to show
	got=$(grep -cE -- "$2" "$dir/json")
	[ "$got" = "$1" ] || complain "the JSON has $got lines of: $2, not $1"
}
says() { grep -qF -- "$1" "$dir/err" || complain "it does not say: $1"; }
refuses() {	# refuses TEXT ARG...
	text=$1
	shift
	gives 2 "$@"
	says "$text"
	says "Try 'rates --help'"
	[ ! -s "$dir/out" ] || complain "$* prints nevertheless"
}
f=' +[0-9.]+\*?'

# ---- the table ---------------------------------------------------------------
gives 0 --quick --rounds=1 --only=runnel,mutex
[ ! -s "$dir/err" ] || complain 'it has something to say'
rows 1 '^rates: medians of 1 round, [0-9]+ CPUs, load [0-9.]+ at the start; 20000 jobs of throughput, '
rows 2 '; workers x producers$'
rows 2 '^ +1x1 +2x2 *$'
rows 2 "^ +p50 +p99 +later p50 +later p99 *\$"
for peer in 'runnel rnl_submit' 'mutex \+ condvar'; do
	rows 6 "^$peer$f$f($f$f)? *\$"
	rows 2 "^$peer$f$f$f$f *\$"
done
[ "$(grep -cE '[0-9]\*' "$dir/out")" -ge 6 ] || complain 'some columns have no least figure'
rows 0 '(GLib|libuv|oneTBB|OpenMP|wfcq)'
ends 'prints a row for each peer'

gives 0 --quick --rounds=1 --measures=throughput --configs=3x2
rows 2 '^ +3x2 *$'
for peer in 'runnel rnl_submit_many' 'GLib GThreadPool' 'libuv uv_queue_work' 'oneTBB task_group' \
	'OpenMP task' 'bare cds_wfcq \+ futex'; do
	grep -qE "^$peer: not built, " "$dir/out" || rows 2 "^$peer$f *\$"
done
sed -n 's/^\(.*: not built\), /# \1: /p' "$dir/out"
gone=$(sed -n 's/: not built, .*//p' "$dir/out" | sed -n '1s/ .*//p' | tr '[:upper:]' '[:lower:]')
if [ "$gone" ]; then
	gives 1 --quick --only="${gone#one}"
	says 'rates: there is nothing to measure'
fi
ends 'measures all that is built, and tells what is not'

# ---- counts ------------------------------------------------------------------
for peer in runnel runnel_many mutex; do
	gives 1 --quick --only=$peer --wrong=twice
	says "rates: $peer: job 0 of 20000 ran 2 times instead of 1"
	[ ! -s "$dir/out" ] || complain 'it prints figures of wrong counts'
	gives 1 --quick --only=$peer --wrong=lost
	says "rates: $peer: job 19999 of 20000 ran 0 times instead of 1"
	[ ! -s "$dir/out" ] || complain 'it prints figures of wrong counts'
done
gives 1 --quick --only=wfcq --wrong=lost
says 'rates: wfcq: job 19999 of 20000 ran 0 times instead of 1'
ends 'a job that runs twice, or never, is an error and no figure'

# ---- JSON --------------------------------------------------------------------
"$RATES" --quick --rounds=2 --only=runnel,mutex,wfcq --json="$dir/json" >"$dir/out" 2>"$dir/err"
status=$?
if grep -q 'built without' "$dir/err"; then
	[ $status = 2 ] || complain "status without jansson: $status"
	echo "SKIP: $(sed -n 1p "$dir/err")"
else
	[ $status = 0 ] || complain "status of --json: $status"
	# 8 cells for each pool, 4 of them for the queue that has no wait; two figures each.
	holds 20 '^ +"peer": "(runnel|mutex|wfcq)"'
	for figure in median min max; do holds 40 "^ +\"$figure\": [0-9.e+-]+,\$"; done
	holds 40 '^ +"rounds": \[$'
	gives 1 --quick --json=/nonexistent/file
	says 'rates: /nonexistent/file: No such file or directory'
	refuses '--json has no name of a file' --json=
	ends 'writes every figure as JSON'
fi

# ---- what is wrong -----------------------------------------------------------
for bad in '' 0 -1 x 7x 1001 99999999999999999999; do
	refuses "'$bad' is not good for --rounds: give a number from 1 to 1000" --rounds="$bad"
done
refuses "'100000001' is not good for --jobs" --jobs=100000001
refuses "'63' is not good for --jobs: give 64 at least" --jobs=63
for bad in '' 1 1x 0x1 1x0 x1 65x1 1x65 1x1, ,1x1 1x1x1 1-1; do
	refuses "'$bad' is not good for --configs: give workers x producers, from 1 to 64" --configs="$bad"
done
refuses '16 at most' --configs=1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1
refuses "'65' is not good for --workers: give a number from 1 to 64" --workers=65
refuses "'0' is not good for --latency-workers: give a number from 1 to 64" --latency-workers=0
refuses "'' is not good for --only: see --help for its names" --only=
refuses "'qt' is not good for --only: see --help for its names" --only=runnel,qt
refuses "'run' is not good for --only" --only=run
refuses "'speed' is not good for --measures: see --help for its names" --measures=speed
refuses "'maybe' is not good for --wrong: give twice or lost" --wrong=maybe
refuses "'file' is too much: all arguments are options" file
refuses "rates: unrecognized option '--what'" --what
refuses "rates: option '--jobs' requires an argument" --jobs
refuses "rates: option '--quick' doesn't allow an argument" --quick=1
ends 'refuses what is wrong, by its name'

gives 0 --help
for option in rounds jobs configs workers latency-workers only measures json quick help; do
	rows 1 "^ +--${option}[ =]"
done
rows 10 '^ *--'
if [ -w /dev/full ]; then
	"$RATES" --quick --rounds=1 --only=mutex --measures=forkjoin >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when nothing can be written'
	says 'rates: standard output: '
	"$RATES" --help >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when the help cannot be written'
	says 'rates: standard output: '
fi
ends 'helps; tells when nothing can be written'
echo "1..$nr"
