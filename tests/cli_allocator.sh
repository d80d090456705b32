#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/allocator: its table, its options, what it says when something is wrong.
#
# env: ALLOCATOR  the program (examples/allocator)
#      RNL_TEST_DEVICE  where it works (host)
set -u
export LC_ALL=C
ALLOCATOR=${ALLOCATOR:-examples/allocator}
device=${RNL_TEST_DEVICE:-host}
[ -x "$ALLOCATOR" ] || { echo "there is no $ALLOCATOR"; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/allocator.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
if ! "$ALLOCATOR" --device="$device" --requests=1 --repeat=1 >/dev/null 2>"$dir/err" &&
	grep -q 'no GPU answers' "$dir/err"; then
	echo "SKIP: allocator has no device $device here"
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
	"$ALLOCATOR" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
works() {	# works ARG...: says nothing else, and allocates nothing
	gives 0 --device="$device" --repeat=2 "$@"
	[ ! -s "$dir/err" ] || complain "$* has something to say"
	prints "^device calls during rnl_scratch's runs: 0, as it should be\$"
}
prints() {	# prints REGEX: in a line
	grep -qE -- "$1" "$dir/out" || complain "there is no line of: $1"
}
refuses() {	# refuses TEXT ARG...
	text=$1
	shift
	gives 2 "$@"
	grep -qF -- "$text" "$dir/err" || complain "$* does not say: $text"
	grep -qF "Try 'allocator --help'" "$dir/err" || complain "$* does not name --help"
	[ ! -s "$dir/out" ] || complain "$* prints nevertheless"
}
n='[0-9]+\.[0-9]+'
row=" +$n +[0-9]+ +-?$n \( *-?$n %\)\$"

# ---- the work ----------------------------------------------------------------
works --requests=300 --workers=2 --max=64K
prints '^device: .*, 2 workers$'
prints '^requests: +300, 4096 to 65536 bytes each \(--seed=1\), 64 under way$'
prints '^times: +medians of 2 runs, every reply checked$'
if [ "$device" = host ]; then
	prints "^malloc, free$row"
	prints '^cudaMallocAsync, cudaFreeAsync +- +- +-$'
else
	prints "^cudaMalloc, cudaFree$row"
	prints "^cudaMallocAsync, cudaFreeAsync$row"
fi
prints "^rnl_scratch +$n +[0-9]+\$"
ends 'prints the ways'

for requests in 1 63 64 65 200; do
	works --requests=$requests --seed=$requests --workers=1 --max=10k
	works --requests=$requests --seed=18446744073709551615 --workers=7
done
ends 'takes any number of requests'

works --requests=200 --min=1 --max=1
works --requests=200 --min=1 --max=5000
works --requests=200 --min=4097 --max=4097
works --requests=6 --min=1M --max=80M	# more than a worker keeps if nothing is said
prints '^requests: +6, 1048576 to 83886080 bytes each'
ends 'takes memory of any size'

# ---- what is wrong -----------------------------------------------------------
for bad in '' 0 -1 x 1x 1K 1000000001 99999999999999999999 ' 1'; do
	refuses "'$bad' is not good for --requests: give a number from 1 to 1000000000" \
		--requests="$bad"
done
for option in min max; do
	for bad in '' 0 -1 x 1G 1KB 1025M 99999999999999999999K; do
		refuses "'$bad' is not good for --$option: give a number from 1 to 1073741824, or" \
			--$option="$bad"
	done
done
refuses '--min=65536 is more than --max=4096' --min=64K --max=4K
refuses '--min=8388608 is more than --max=4194304' --min=8M
refuses "'0' is not good for --workers: give a number from 1 to 64" --workers=0
refuses "'65' is not good for --workers: give a number from 1 to 64" --workers=65
refuses "'0' is not good for --repeat: give a number from 1 to 1000" --repeat=0
refuses "'18446744073709551616' is not good for --seed: give a number from 0 to" \
	--seed=18446744073709551616
refuses "'gpu' is not good for --device: give auto, cuda, cuda:N or host" --device=gpu
refuses "'file' is too much: all arguments are options" file
refuses "allocator: unrecognized option '--what'" --what
refuses "allocator: option '--max' requires an argument" --max
ends 'refuses what is wrong, by its name'

gives 1 --device=cuda:999
grep -qF "no GPU answers as 'cuda:999': use --device=host" "$dir/err" || complain 'which device?'
if [ -w /dev/full ]; then
	"$ALLOCATOR" --device="$device" --requests=1 --repeat=1 >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when nothing can be written'
	grep -q '^allocator: .*standard output$' "$dir/err" || complain 'nothing can be written'
	"$ALLOCATOR" --help >/dev/full 2>"$dir/err"
	[ $? = 1 ] || complain 'status when the help cannot be written'
	grep -q '^allocator: .*standard output$' "$dir/err" || complain 'the help cannot be written'
fi
ends 'says what failed'

gives 0 --help
for option in requests workers min max seed device repeat help; do
	prints "^ +--${option}[ =]"
done
[ "$(grep -c '^ *--' "$dir/out")" = 8 ] || complain 'options that this test does not know'
ends 'helps'
echo "1..$nr"
