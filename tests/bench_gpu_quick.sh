#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/bench/gpu, the program of make bench-gpu: that it works, not how fast anything is.
# On the double of the CUDA runtime all of it runs; on a GPU a little of each line.
set -u
export LC_ALL=C
GPU=tests/bench/gpu DOUBLE=tests/bench/gpu_double
[ "${have_CUDA:-yes}" = yes ] || { echo 'configured without CUDA'; exit 77; }
[ -x "$DOUBLE" ] || { echo "there is no $DOUBLE"; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/gpu.XXXXXX") || exit 1
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
gives() {	# gives STATUS PROGRAM ARG...
	want=$1
	shift
	"$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
double() {	# the same on the double
	want=$1
	shift
	gives "$want" env LD_LIBRARY_PATH="$PWD/tests/fake_cudart" FAKE_CUDART="${FAKE-misuse=abort,junk}" \
		"$DOUBLE" "$@"
}
rows() {	# rows NR REGEX: so many lines are like that
	got=$(grep -cE -- "$2" "$dir/out")
	[ "$got" = "$1" ] || complain "$got lines of: $2, not $1"
}
says() { grep -qF -- "$1" "$dir/err" || complain "it does not say: $1"; }
refuses() {	# refuses TEXT ARG...
	text=$1
	shift
	double 2 "$@"
	says "$text"
	says "Try 'gpu --help'"
	[ ! -s "$dir/out" ] || complain "$* prints nevertheless"
}
v='[0-9.]+ \([^|]+\) +\|'	# a figure, and whose it is
n='- +\|'
all() {		# all J: every row is there, with figures of those whom it is about
	rows "$1" "^\| J per second, [0-9]+, (per-thread|private) +\| kJ/s +\| $v $n $v >= [0-9.]+ +\| (yes|no ) \|$"
	rows $(($1 / 2)) "^\| J per second, [0-9]+, private; a mutex pool +\| kJ/s +\| mutex pool|^\| J per second, .*; a mutex pool .*\(mutex pool, sync P[0-9]+ q64\)"
	rows 2 "^\| requests of 4 KB, [48] producers +\| k/s +\| $v $v $v >= 3000 +\|"
	rows 1 "^\| a lone request, p50, beside a plain job +\| us +\| $v $n $v <= [0-9.]+ +\|"
	rows 12 "^\| J, (one by one|1 ms later), .* \| us +\| $v $n $v <= [0-9.]+ +\| (yes|no ) \|$"
	rows 1 "^\| kernels of 5 ms in flight, 32 workers, mean +\| kernels +\| $v $v $v >= 27.0 +\|"
	rows 1 "^\| the same as CUDA is by default, mean +\| kernels +\| $v $n $n - +\| -   \|$"
	rows 2 "^\| urgent 10 us under a flood, p50, .* \| us +\| $v $n $v <= 200.0 +\|"
	rows 1 "^\| join of 16 workers: what it costs its caller +\| us +\| $v $n $v <= 10.0 +\|"
	rows 3 "^\| submits, (8|16|32) workers +\| M/s +\| $n $n $v"
	rows 3 "^\| J per second, (8|16|32) workers, 4 producers +\| kJ/s +\| $v $n $v"
	rows 1 "^\| CPU of an idle pool of 8 workers +\| % core +\| $v $n $v <= [0-9.]+ +\|"
	rows 1 "^\| CPU for each of 8 workers that wait +\| % core +\| $v $n $v <= 10.0 +\|"
	rows 1 "^\| [0-9]+ chunks of [0-9]+ KB in, kernel, out; 4 workers +\| ms +\| $v $v $v <= [0-9.]+ +\|"
	rows $(($1 / 2)) "^\| J per second, [0-9]+, traced, timing off +\| kJ/s +\| $n $v $v >= [0-9.]+ +\|"
	rows $(($1 / 2)) "^\| J per second, [0-9]+, traced, timing on +\| kJ/s +\| $n $v $v >= [0-9.]+ +\|"
	rows $(($1 / 2)) "^\| J per second, [0-9]+, traced, every job timed +\| kJ/s +\| $n $v $v - +\|"
	rows 1 '^gpu: [0-9]+ rows in [0-9]+ s$'
}

# ---- the table ---------------------------------------------------------------
double 0 --quick
[ ! -s "$dir/err" ] || complain 'it has something to say'
rows 1 '^gpu: runnel [0-9.]+ on .*, medians of 2 runs, '
all 4
ends 'prints every row, on the double'

double 0 --quick --lines=jobs --threads=2 --all
rows 2 '^    hand-written stream sync per job +[0-9.]+  [0-9.]+ to [0-9.]+$'
for mark in event 'event sync' flag; do
	rows 30 "^    hand-written $mark/(1|8|32) d[0-9]+ " 
done
ends 'tries every hand-written variant'

"$GPU" --quick >"$dir/out" 2>"$dir/err" </dev/null
status=$?
if [ $status = 77 ]; then
	says 'gpu: there is no device "cuda" here: '
	[ ! -s "$dir/out" ] || complain 'it prints nevertheless'
	ends 'without a GPU says so'
elif [ -x "$GPU" ]; then
	[ $status = 0 ] || complain "status on a GPU: $status"
	all 4
	ends 'prints every row, on the GPU'
fi

# ---- JSON, and what goes wrong -----------------------------------------------
double 0 --quick --runs=3 --lines=inflight,join --json="$dir/json"
if grep -q 'built without' "$dir/err"; then
	echo "SKIP: $(sed -n 1p "$dir/err")"
else
	[ "$(grep -cE '^ +"line": "(inflight|join)",$' "$dir/json")" = 5 ] || complain 'rows in the JSON'
	[ "$(grep -cE '^ +"variant": ' "$dir/json")" -ge 11 ] || complain 'variants in the JSON'
	double 1 --quick --lines=join --json=/nonexistent/file
	says 'gpu: /nonexistent/file could not be written'
	refuses '--json has no name of a file' --json=
	ends 'writes every run as JSON'
fi

FAKE=fail=cudaMemcpyAsync:2000:700 double 1 --quick --lines=latency,join
says 'gpu: latency, part 1 of 2: it ended with status 1'
rows 1 '^\| join of 16 workers: what it costs its caller '
ends 'a line that fails is told, and the others are measured'

# Hand-written code looks first in the one, runnel's producers in the other.
for line in jobs submit; do
	double 1 --quick --wrong --threads=2 --lines=$line
	says 'gpu: J number 1 in its memory: word 0 came out as 0x'
	rows 0 '(J per second|submits)'
done
double 1 --quick --seconds=1
says 'not begun, its seconds are over: 0'
ends 'a wrong result is an error and no figure; it comes to an end'

for bad in '' 0 16 x; do
	refuses "'$bad' is not good for --runs: give a number from 1 to 15" --runs="$bad"
done
for bad in '' 0 33 1, x 1x2; do
	refuses "'$bad' is not good for --threads: give up to 8 numbers" --threads="$bad"
done
for bad in '' host cuda: cuda:x cuda:1x; do
	refuses "'$bad' is not good for --device: give cuda or cuda:N" --device="$bad"
done
refuses "'speed' is not good for --lines: see --help for its names" --lines=jobs,speed
refuses "'file' is too much: all arguments are options" file
refuses "gpu: unrecognized option '--what'" --what
double 0 --help
rows 10 '^ *--'
ends 'refuses what is wrong, by its name; helps'
echo "1..$nr"
