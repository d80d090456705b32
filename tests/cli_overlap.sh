#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/overlap: its table, its options, what it says when something is wrong.
#
# env: OVERLAP    the program (examples/overlap)
#      RNL_TEST_DEVICE  where it works (host)
set -u
export LC_ALL=C
OVERLAP=${OVERLAP:-examples/overlap}
device=${RNL_TEST_DEVICE:-host}
[ -x "$OVERLAP" ] || { echo "there is no $OVERLAP"; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/overlap.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
if ! "$OVERLAP" --device="$device" --chunks=1 --chunk=4 --repeat=1 >/dev/null 2>"$dir/err" &&
	grep -q 'no GPU answers' "$dir/err"; then
	echo "SKIP: overlap has no device $device here"
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
	"$OVERLAP" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
works() {	# works ARG...: and says nothing else
	gives 0 --device="$device" --repeat=2 "$@"
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
	grep -qF "Try 'overlap --help'" "$dir/err" || complain "$* does not name --help"
	[ ! -s "$dir/out" ] || complain "$* prints nevertheless"
}
n='[0-9]+\.[0-9]+'
row=" +$n +$n +$n % +$n\$"
none=' +- +- +- +-$'

# ---- the work ----------------------------------------------------------------
works --chunks=10 --chunk=1M --workers=2
prints '^device: .*, 2 workers, per-thread streams$'
prints '^work: +10 chunks of 1 MB, page-locked; kernel of [1-9][0-9]* rounds$'
prints '^times: +medians of 2 runs, every result checked'
for stage in 'copies in' kernels 'copies out'; do prints "^$stage +$n +$n\$"; done
prints "^limit, the longest stage +$n +$n +100\.0 % +$n\$"
prints "^serial, one stream +$n +$n +$n % +1\.00\$"
if [ "$device" = host ]; then legacy=$none; else legacy=$row; fi
prints "^legacy default stream$legacy"
for order in 'chunk by chunk' 'copies first'; do
	prints "^rnl_map, $order$row"
	prints "^rnl_map, $order, timed: 10\.5 MB in, 10\.5 MB out, 10 chunks, [1-9][0-9]* jobs;\$"
done
prints "^    in $n ms, kernels $n ms, out $n ms: together [0-9]+ % of the time, the longest"
ends 'prints stages, ways and reports'

works --chunks=7 --chunk=100K --in-place
prints ', page-locked, in place;'
works --chunks=7 --chunk=100K --pageable
prints ', pageable;'
prints "^    CPUs took $n ms to fill page-locked memory, $n ms to empty it\$"
works --chunks=7 --chunk=100K --pageable --in-place
prints ', pageable, in place;'
works --chunks=7 --chunk=100K --halo=100 --in-place
prints "^rnl_map, chunk by chunk, timed: 0\.7 MB in, "
works --chunks=7 --chunk=4K --halo=1024 --pageable
prints "^rnl_map, chunk by chunk, timed: 0\.1 MB in, 0\.0 MB out, "
works --chunks=7 --chunk=100K --callbacks
prints ', page-locked, by callbacks;'
prints "^    CPUs took $n ms to fill page-locked memory, $n ms to empty it\$"
works --chunks=7 --chunk=100K --callbacks=sparse --halo=1000
prints ', page-locked, by sparse callbacks;'
works --chunks=7 --chunk=100K --rounds=17
prints 'kernel of 17 rounds$'
works --chunks=7 --chunk=100K --stream=private
prints ', private streams$'
works --chunks=7 --chunk=100K --stream=per-thread
prints ', per-thread streams$'
ends 'works in place, from pageable memory, with halos, by callbacks, on private streams'

works --chunks=5 --chunk=10K --order=chunk
prints "^rnl_map, chunk by chunk$row"
prints "^rnl_map, copies first$none"
works --chunks=5 --chunk=10K --order=copies
prints "^rnl_map, chunk by chunk$none"
prints "^rnl_map, copies first$row"
ends 'tries one order alone'

for workers in 1 3 8; do
	works --chunks=1 --chunk=4 --workers=$workers
	works --chunks=2 --chunk=1028 --workers=$workers
	works --chunks=65 --chunk=4k --workers=$workers
	prints "^work: +65 chunks of 4096 bytes, "
	works --chunks=3 --chunk=3m --workers=$workers --repeat=1
	prints "^work: +3 chunks of 3 MB, "
done
ends 'takes chunks of any size, by any number of workers'

# What the trace sees is what rnl_map() measures, at events next to the trace's: within 3 %,
# unless a stream's thread is interrupted between the two, which is not so five times.
agrees() {
	awk '/^    by rnl_map: / { own = $(NF - 4) } /^    by the trace: / { seen = $(NF - 4) }
		END { exit !(own > 0 && (own > seen ? own - seen : seen - own) <= 0.03 * own) }' "$dir/out"
}
for try in 1 2 3 4 5; do
	works --chunks=24 --chunk=1M --workers=3 --trace="$dir/trace.json"
	agrees && break
done
agrees || complain 'the trace does not agree with rnl_map()'
prints "^    all three at once for $n ms, $n times as fast as one job after another\$"
works --chunks=9 --chunk=1M --order=copies --trace="$dir/trace.json"
prints "^rnl_map, copies first, traced to .*trace\.json:\$"
ends 'traces a run, and finds the overlap in it that the program measures itself'

# ---- what is wrong -----------------------------------------------------------
for bad in '' 0 -1 x 1x 1K 1048577 99999999999999999999 ' 1'; do
	refuses "'$bad' is not good for --chunks: give a number from 1 to 1048576" --chunks="$bad"
done
for bad in '' 0 3 1001 x 1G 1KB 1025M 2000000000 99999999999999999999K -4; do
	refuses "'$bad' is not good for --chunk: give a multiple of 4" --chunk="$bad"
done
refuses "'0' is not good for --workers: give a number from 1 to 64" --workers=0
refuses "'65' is not good for --workers: give a number from 1 to 64" --workers=65
refuses "'0' is not good for --repeat: give a number from 1 to 1000" --repeat=0
refuses "'legacy' is not good for --stream: give per-thread or private" --stream=legacy
refuses "'-1' is not good for --halo: give a number from 1 to" --halo=-1
refuses "--halo=1025 is more than a chunk has" --halo=1025 --chunk=4K
refuses "'both' is not good for --order: give chunk or copies" --order=both
refuses "'gpu' is not good for --device: give auto, cuda, cuda:N or host" --device=gpu
refuses "'cuda:' is not good for --device: give auto, cuda, cuda:N or host" --device=cuda:
refuses "'dense' is not good for --callbacks: give sparse, or nothing" --callbacks=dense
gives 1 --device="$device" --chunks=1 --chunk=4K --repeat=1 --trace=/no/such/directory/t.json
grep -qF 'overlap: /no/such/directory/t.json: ' "$dir/err" || complain 'which trace?'
gives 1 --device="$device" --chunks=1 --chunk=4K --repeat=1 --trace=/dev/null
grep -qF 'overlap: /dev/null: a trace is written to a regular file' "$dir/err" || complain 'why no trace?'
refuses '--trace has no name of a file' --trace=
refuses "'file' is too much: all arguments are options" file
refuses "overlap: unrecognized option '--what'" --what
refuses "overlap: option '--chunks' requires an argument" --chunks
refuses "overlap: option '--pageable' doesn't allow an argument" --pageable=1
ends 'refuses what is wrong, by its name'

gives 1 --device=cuda:999
grep -qF "no GPU answers as 'cuda:999': use --device=host" "$dir/err" || complain 'which device?'
gives 1 --device="$device" --chunks=1048576 --chunk=1024M
grep -qF 'page-locked: out of memory (try fewer --chunks)' "$dir/err" ||
	complain 'what is too much?'
if [ -w /dev/full ]; then
	"$OVERLAP" --device="$device" --chunks=1 --repeat=1 >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when nothing can be written'
	grep -q '^overlap: .*standard output$' "$dir/err" || complain 'nothing can be written'
	"$OVERLAP" --help >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when the help cannot be written'
	grep -q '^overlap: .*standard output$' "$dir/err" || complain 'the help cannot be written'
fi
ends 'says what failed'

gives 0 --help
for option in chunks chunk workers stream device order pageable in-place halo callbacks rounds repeat trace help; do
	prints "^ +--${option}[[ =]"
done
[ "$(grep -c '^ *--' "$dir/out")" = 14 ] || complain 'options that this test does not know'
ends 'helps'
echo "1..$nr"
