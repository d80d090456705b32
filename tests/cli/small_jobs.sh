#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/small_jobs: its table, its picture, its checks, its options, its messages.
#
# env: SMALL_JOBS  the program (examples/small_jobs/small_jobs; on the double
#               tests/doubles/small_jobs)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host fake cuda
program=${SMALL_JOBS:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/small_jobs ||
	echo examples/small_jobs/small_jobs)}
. "$(dirname "$0")/../lib/harness.sh"
needs_device --ms=1
ways='single gathered replayed batched resident'
n='[0-9]+\.[0-9]+'
has_row() { prints "^$1 +$n [#.]{19} +$n +$n #*-*\.*\$"; }	# has_row WAY

# ---- the work ----------------------------------------------------------------
works --ms=40 --workers=3 --picture="$dir/small.svg"
prints '^device:  .*, 3 workers, per-thread streams$'
prints '^work:    4096 bytes to the device, a kernel, 4096 bytes back; every answer checked$'
prints '^rate:    2 producers keep 512 requests under way, for 40 ms$'
prints '^latency: of one request at a time, for 40 ms$'
prints '^way +thousand/s +p50, us +p99, us$'
for way in $ways; do has_row $way; done
prints '^[a-z]+ +[0-9.]+ #{19} '
[ "$(awk '/^[a-z]+ +[0-9.]+ [#.]+ / { print length }' "$dir/out" | uniq)" = 78 ] || complain 'the columns are not aligned'
awk '/^[a-z]+ +[0-9.]+ [#.]+ / && !($2 > 0 && $4 > 0 && $5 >= $4) { exit 1 }' "$dir/out" || complain 'a figure is wrong'
# The ways use what they are named after.
prints '^single    [^%]*$'
prints '^gathered  .*: [1-9][0-9]* %$'
prints '^replayed  .*: [1-9][0-9]* %$'
prints "^batched   .*, $n on average\$"
[ "$(wc -l <"$dir/out")" -le 24 ] || complain 'it does not fit on a screen'
ends 'measures each way, by the means that the way is named after'

prints "^The picture is in $dir/small\.svg\.\$"
for way in $ways; do
	[ "$(grep -c "<text class=\"name\".*>$way</text>" "$dir/small.svg")" = 2 ] || complain "rows of $way in the picture"
done
for bar in rate p50 p99; do
	[ "$(grep -c "<rect class=\"$bar\"" "$dir/small.svg")" = 5 ] || complain "bars of $bar in the picture"
done
grep -q 'prefers-color-scheme: dark' "$dir/small.svg" || complain 'the picture has no dark mode'
grep -qE '(href|src|url\()' "$dir/small.svg" && complain 'the picture needs something else'
if command -v python3 >/dev/null; then
	python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/small.svg" 2>"$dir/err" ||
		complain 'the picture is no XML'
fi
ends 'draws a bar chart'

# On a busy machine requests may not follow each other closely, so it may take some runs.
for try in $(seq 30); do
	works --ms=40 --only=resident
	grep -qE '^resident  .*; lone ones: [1-9][0-9]* % resident$' "$dir/out" && break
done
prints "^resident  .*, $n on average; lone ones: [1-9][0-9]* % resident\$"
ends 'answers lone requests by a resident kernel'

for way in $ways; do
	works --ms=1 --only=$way --bytes=64 --producers=1 --under-way=1
	has_row $way
	rows 1 " $n [#.]+ "
	works --ms=1 --only=$way --bytes=64K --producers=3 --under-way=100 --workers=1 --stream=private
	prints '^work:    65536 bytes to the device'
	prints '^device:  .*, 1 workers, private streams$'
done
works --ms=1 --bytes=1088 --producers=64 --under-way=1024 --workers=8
ends 'takes requests of any size, few and many, each way alone'

for signal in INT TERM; do
	: >"$dir/out"
	"$program" --device="$device" --ms=60000 >"$dir/out" 2>"$dir/err" &
	until grep -q '^latency' "$dir/out" || ! kill -0 $!; do sleep 0.1; done
	kill -$signal $!
	wait $!
	got=$?
	[ $got = 130 ] || complain "status after SIG$signal: $got"
	says 'small_jobs: interrupted after 0 of 5 ways'
	prints_not '^way '
done
ends 'ends by Ctrl-C'

# ---- mistakes ---------------------------------------------------------------
for bad in '' 0 63 100 65K 128K 4KB -64; do
	refuses "'$bad' is not good for --bytes: give a multiple of 64 up to 65536" --bytes="$bad"
done
refuses "'0' is not good for --workers: give a number from 1 to 64" --workers=0
refuses "'65' is not good for --producers: give a number from 1 to 64" --producers=65
refuses "'1025' is not good for --under-way: give a number from 1 to 1024" --under-way=1025
refuses '--producers=3 are more than --under-way=2 requests' --producers=3 --under-way=2
refuses "'0' is not good for --ms: give a number from 1 to 60000" --ms=0
refuses "'legacy' is not good for --stream: give per-thread|private" --stream=legacy
refuses "'batch' is not good for --only: give one of single, gathered, replayed, batched, resident" --only=batch
refuses "'x' is unexpected: give only options" x
refuses '--picture has an empty argument' --picture=
ends 'refuses mistakes, by their name'

fails 1 "no GPU answers as 'cuda:999': use --device=host" --device=cuda:999
gives 1 --device="$device" --ms=1 --picture="$dir/none/small.svg"
says "small_jobs: $dir/none/small.svg: No such file or directory"
[ ! -w /dev/full ] || {
	gives 1 --device="$device" --ms=1 --picture=/dev/full
	says 'small_jobs: /dev/full: No space left on device'
}
fails_on_full_disk --device="$device" --ms=1
ends 'says what failed'

if [ "$fake" ]; then
	for way in $ways; do
		FAKE_MIX=wrong gives 1 --device=cuda --ms=60000 --only=$way
		says "small_jobs: $way: a wrong answer: word 1023 is 0x"
		FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}fail=any:2000:719:sticky" gives 1 --device=cuda --ms=60000 --only=$way
		says "small_jobs: $way: "
	done
	ends 'checks each answer, and says which way failed'
fi

has_options bytes workers stream producers under-way ms only device picture
ends 'helps'
done_testing
