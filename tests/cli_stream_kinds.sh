#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/stream_kinds: its table, its picture, its options, what it says when something is wrong.
#
# env: KINDS    the program (examples/stream_kinds; on the double tests/stream_kinds_double)
#      RNL_TEST_DEVICE  where it works (host)
set -u
export LC_ALL=C
device=${RNL_TEST_DEVICE:-host} fake=${RNL_TEST_FAKE:-}
KINDS=${KINDS:-$([ "$fake" ] && echo tests/stream_kinds_double || echo examples/stream_kinds)}
[ -x "$KINDS" ] || { echo "there is no $KINDS"; exit 1; }
unset CUDA_DEVICE_MAX_CONNECTIONS
dir=$(mktemp -d "${TMPDIR:-/tmp}/kinds.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
if ! "$KINDS" --device="$device" --threads=2 --kernels=2 --ms=1 --repeat=1 >"$dir/out" 2>"$dir/err" &&
	grep -qE 'no GPU answers|without nvcc' "$dir/err"; then
	[ -z "$fake" ] || { cat "$dir/err"; exit 1; }	# the double is always there
	echo "SKIP: stream_kinds has no device $device here"
	exit 77
fi

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
	"$KINDS" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
works() {	# works ARG...: and says nothing else
	gives 0 --device="$device" "$@"
	[ ! -s "$dir/err" ] || complain "$* has something to say"
}
prints() {	# prints REGEX: in a line
	grep -qE -- "$1" "$dir/out" || complain "there is no line of: $1"
}
refuses() {	# refuses TEXT ARG...
	text=$1
	shift
	gives 2 "$@"
	grep -qF -- "$text" "$dir/err" || complain "$* does not say: $text"
	grep -qF "Try 'stream_kinds --help'" "$dir/err" || complain "$* does not name --help"
	[ ! -s "$dir/out" ] || complain "$* prints nevertheless"
}
row() { prints "^$1 +[0-9]+\.[0-9]+ +$2  "; }	# row WAY AT-ONCE
# lasts WAY KERNELS MS: no less than so many kernels one after the other.
lasts() {
	ms=$(sed -n "s/^$1  *\([0-9]*\)\.[0-9]* .*/\1/p" "$dir/out")
	[ "${ms:-0}" -ge $(($2 * $3)) ] || complain "$1 lasts less than $2 kernels of $3 ms"
}

# ---- the work ----------------------------------------------------------------
works --threads=3 --kernels=2 --ms=40 --repeat=1
prints '^work: +3 threads, each launches 2 kernels of 40 ms$'
prints "^times: +the device's own, of the median of 1 run\$"
if [ "$device" = host ]; then
	prints '^device: +host \(no GPU\)$'
	prints '^The host device has one kind of stream, a thread, and no legacy default stream:$'
	row 'one stream for all' 1
	lasts 'one stream for all' 6 40
	row 'a stream for each thread' 3
else
	prints '^device: .*, CUDA_DEVICE_MAX_CONNECTIONS=32$'
	row 'legacy default stream' 1
	lasts 'legacy default stream' 6 40
	for way in 'per-thread default streams' 'explicit blocking streams' 'explicit non-blocking streams'; do
		row "$way" 3
	done
	# Before the legacy call one round, the call alone, and a round behind it; else two rounds.
	row 'per-thread, one legacy call' 3
	lasts 'per-thread, one legacy call' 3 40
	row 'non-blocking, one legacy call' '[34]'
fi
prints '^runnel, a job for each worker +[0-9]+\.[0-9]+ +[0-9]+ '
ends 'what can be at the same time is, and what cannot is not'

works --threads=5 --kernels=3 --ms=1 --repeat=3 --svg="$dir/kinds.svg"
prints "^The timeline is in $dir/kinds\.svg\.\$"
if [ "$device" = host ]; then panels=3; else panels=7; fi
[ "$(grep -c '<title>thread' "$dir/kinds.svg")" = $((panels * 5 * 3)) ] || complain 'bars of the picture'
[ "$(grep -c 'class="way"' "$dir/kinds.svg")" = $panels ] || complain 'panels of the picture'
[ "$(wc -c <"$dir/kinds.svg")" -lt 200000 ] || complain 'size of the picture'
grep -qE '(href|src|url\()' "$dir/kinds.svg" && complain 'the picture needs something else'
if command -v python3 >/dev/null; then
	python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/kinds.svg" 2>"$dir/err" ||
		complain 'the picture is no XML'
fi
ends 'draws a timeline'

works --threads=2 --kernels=2 --ms=1 --repeat=2
works --threads=32 --kernels=8 --ms=1 --repeat=1
prints '^work: +32 threads, each launches 8 kernels of 1 ms$'
ends 'takes few threads and many'

# ---- what is wrong -----------------------------------------------------------
for bad in '' 0 1 33 x 2x ' 2' -2 99999999999999999999; do
	refuses "'$bad' is not good for --threads: give a number from 2 to 32" --threads="$bad"
done
refuses "'1' is not good for --kernels: give a number from 2 to 8" --kernels=1
refuses "'0' is not good for --ms: give a number from 1 to 1000" --ms=0
refuses "'100' is not good for --repeat: give a number from 1 to 99" --repeat=100
refuses "'gpu' is not good for --device: give auto, cuda, cuda:N or host" --device=gpu
refuses "--svg has no name of a file" --svg=
refuses "'file' is too much: all arguments are options" file
refuses "stream_kinds: unrecognized option '--what'" --what
refuses "stream_kinds: option '--threads' requires an argument" --threads
ends 'refuses what is wrong, by its name'

gives 1 --device=cuda:999
grep -qF "no GPU answers as 'cuda:999': use --device=host" "$dir/err" || complain 'which device?'
small='--threads=2 --kernels=2 --ms=1 --repeat=1'
gives 1 --device="$device" $small --svg="$dir/none/kinds.svg"
grep -qF "$dir/none/kinds.svg: No such file or directory" "$dir/err" || complain 'which file?'
if [ -w /dev/full ]; then
	gives 1 --device="$device" $small --svg=/dev/full
	grep -qF '/dev/full: No space left on device' "$dir/err" || complain 'the picture cannot be written'
	"$KINDS" --device="$device" $small >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when nothing can be written'
	grep -q '^stream_kinds: .*standard output$' "$dir/err" || complain 'nothing can be written'
	"$KINDS" --help >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when the help cannot be written'
	grep -q '^stream_kinds: .*standard output$' "$dir/err" || complain 'the help cannot be written'
fi
if [ "$fake" ]; then
	for fails in cudaStreamCreateWithFlags:5:2 cudaLaunchKernel:20:719:sticky cudaStreamSynchronize:9:719:sticky; do
		FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}fail=$fails" gives 1 --device=cuda $small
		grep -q '^stream_kinds: ' "$dir/err" || complain "$fails"
	done
fi
ends 'says what failed'

gives 0 --help
for option in threads kernels ms repeat device svg help; do
	prints "^ +--${option}[ =]"
done
[ "$(grep -c '^ *--' "$dir/out")" = 7 ] || complain 'options that this test does not know'
ends 'helps'
echo "1..$nr"
