#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/stream_kinds: its table, its picture, its options, its messages.
#
# env: KINDS    the program (examples/stream_kinds/stream_kinds; on the double
#               tests/doubles/stream_kinds)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host fake cuda
program=${KINDS:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/stream_kinds ||
	echo examples/stream_kinds/stream_kinds)}
. "$(dirname "$0")/../lib/harness.sh"
unset CUDA_DEVICE_MAX_CONNECTIONS
small='--threads=2 --kernels=2 --ms=1 --repeat=1'
# shellcheck disable=SC2086  # words
needs_device $small
row() { prints "^$1 +[0-9]+\.[0-9]+ +$2  "; }	# row WAY KERNELS-AT-ONCE
lasts() {	# lasts WAY KERNELS MS: at least the time of KERNELS kernels one after the other
	ms=$(sed -n "s/^$1  *\([0-9]*\)\.[0-9]* .*/\1/p" "$dir/out")
	[ "${ms:-0}" -ge $(($2 * $3)) ] || complain "$1 lasts less than $2 kernels of $3 ms"
}

# ---- the work ----------------------------------------------------------------
# On a busy machine a thread may be late, so each try has longer kernels.
case $device in host) at_once=2 ways='plain|runnel' ;; *) at_once=5 ways='per-thread|explicit|non-blocking' ;; esac
for long in 40 250 1000 1000; do
	works --threads=3 --kernels=2 --ms=$long --repeat=1
	[ "$(grep -cE "^($ways).* [34]  " "$dir/out")" != $at_once ] || break
done
prints "^work: +3 threads, each launches 2 kernels of $long ms\$"
prints "^times: +the device's own, of the median of 1 run\$"
if [ "$device" = host ]; then
	prints '^device: +host \(no GPU\)$'
	prints '^The host device has one kind of stream, a thread, and no legacy default stream:$'
	row 'one stream for all' 1
	lasts 'one stream for all' 6 $long
	row 'plain threads, without a pool' 3
	row 'runnel, a pool of workers' 3
else
	prints '^device: .*, CUDA_DEVICE_MAX_CONNECTIONS=32$'
	row 'legacy default stream' 1
	lasts 'legacy default stream' 6 $long
	for way in 'per-thread default streams' 'explicit blocking streams' 'explicit non-blocking streams'; do
		row "$way" 3
	done
	# A round of kernels, then the legacy call alone, then a round; non-blocking: two rounds.
	row 'per-thread, one legacy call' 3
	lasts 'per-thread, one legacy call' 3 $long
	row 'non-blocking, one legacy call' '[34]'
fi
prints '^runnel, a pool of workers +[0-9]+\.[0-9]+ +[0-9]+ '
ends 'kernels overlap on the streams that allow it, and on no others'

works --threads=5 --kernels=3 --ms=1 --repeat=3 --svg="$dir/kinds.svg"
prints "^The timeline is in $dir/kinds\.svg\.\$"
if [ "$device" = host ]; then panels=3; else panels=7; fi
[ "$(grep -c '<title>thread' "$dir/kinds.svg")" = $((panels * 5 * 3)) ] || complain 'bars of the picture'
[ "$(grep -c 'class="way"' "$dir/kinds.svg")" = $panels ] || complain 'panels of the picture'
[ "$(wc -c <"$dir/kinds.svg")" -lt 200000 ] || complain 'size of the picture'
names_colours "$dir/kinds.svg"
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
if has_terminal; then
	on_terminal "'$program' --device=$device --threads=2 --kernels=2 --ms=10 --repeat=20"
	prints '^measuring +[#.]{30} +[0-9]+ % +[0-9.]+ runs/s +[0-9]+ s left'
	ends 'shows progress on a terminal'
fi

# ---- mistakes ---------------------------------------------------------------
refuses "'1' is not good for --threads: give a number from 2 to 32" --threads=1
refuses "'1' is not good for --kernels: give a number from 2 to 8" --kernels=1
refuses "'0' is not good for --ms: give a number from 1 to 1000" --ms=0
refuses "'100' is not good for --repeat: give a number from 1 to 99" --repeat=100
refuses "--svg has an empty argument" --svg=
ends 'refuses mistakes, by their name'

# shellcheck disable=SC2086
{
	gives 1 --device=cuda:999
	says "no GPU answers as 'cuda:999': use --device=host"
	gives 1 --device="$device" $small --svg="$dir/none/kinds.svg"
	says "$dir/none/kinds.svg: No such file or directory"
	[ ! -w /dev/full ] || {
		gives 1 --device="$device" $small --svg=/dev/full
		says '/dev/full: No space left on device'
	}
	fails_on_full_disk --device="$device" $small
	[ -z "$fake" ] || for fails in cudaStreamCreateWithFlags:5:2 cudaLaunchKernel:20:719:sticky \
		cudaStreamSynchronize:9:719:sticky; do
		FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}fail=$fails" gives 1 --device=cuda $small
		says "$program_name: "
	done
}
ends 'says what failed'

has_options threads kernels ms repeat device svg
ends 'helps'
done_testing
