#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/specialised: its table, its picture, its options, its messages.
#
# env: SPECIALISED  the program (examples/specialised/specialised)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host cuda
program=${SPECIALISED:-examples/specialised/specialised}
. "$(dirname "$0")/../lib/harness.sh"
small='--repeat=1 --passes=1 --slice=16K'
# shellcheck disable=SC2086  # words
needs_device $small --bytes=4
n='[0-9]+\.[0-9]+'
row=" +$n +$n +$n %\$" none=' +- +- +-$'
kernels() {	# kernels ROW: the rows of kernels with bulk copies, which a GPU may not support
	for kernel in specialised 'in clusters'; do
		for streams in one "workers'"; do prints "^$kernel +$streams$1"; done
	done
}
bulk=$none
grep -qE "^specialised +one$none" "$dir/out" || bulk=$row

# ---- the work ----------------------------------------------------------------
works --repeat=2 --bytes=1M --slice=64K --passes=3 --workers=3
prints '^device: .*, 3 workers, per-thread streams$'
prints '^work: +262144 words made by seed 1, fingerprints of [0-9]+ words; 16 slices of 64 KB, 3 times$'
prints '^times: +medians of 2 runs, every word checked'
for part in 'memory: rnl_copy\(\)' 'memory: plain' 'computing: plain'; do
	prints "^$part +workers' +$n +$n\$"
done
prints_not '^bus: '
prints "^limit, the longest part +$n +$n +100\.0 %\$"
for streams in one "workers'"; do prints "^plain +$streams$row"; done
kernels "$bulk"
if [ "$device" = host ]; then few=$none; else few=$row; fi
for streams in one "workers'"; do prints "^plain, few blocks +$streams$few"; done
prints "^The limit is the (memory|computing)\.  Nearest to it comes \"[a-z ]+\" on .*, at $n % of it\.\$"
[ "$device" != host ] || prints '^The host device runs the plain kernel alone'
ends 'prints the parts, the kernels, and how far each is from the limit'

# The program compares each word with a serial reference.  The sizes are around those of a tile, of
# two tiles and of a slice; there are more blocks than tiles, and fewer.
# shellcheck disable=SC2086
{
	sizes='4 8188 8K 16K 16388 48K 1000004' windows='4 8 64 252'
	[ "$device" = host ] || sizes='4 16388 1000004' windows='4 252'	# a GPU starts slowly
	for bytes in $sizes; do works $small --bytes=$bytes --window=256; done
	for window in $windows; do works $small --bytes=200K --window=$window --seed=$window; done
	prints ' made by seed 252, fingerprints of 252 words; '
	works $small --bytes=3M --slice=2M --blocks=1 --window=32 --workers=1
	works $small --bytes=3M --slice=2M --blocks=32 --window=32 --workers=2 --stream=private
	prints ', 2 workers, private streams$'
	works $small --bytes=300K --slice=48K --copies --workers=2
	prints ' times*, from the host and back$'
	prints "^bus: copies in and out +workers' +$n +$n\$"
}
ends 'is right for arrays, slices, windows and grids of any size'

printf 'abc' >"$dir/three"
: >"$dir/none"
cp "$program" "$dir/program"
# shellcheck disable=SC2086
{
	works $small "$dir/three"
	prints '^work: +4096 words from 1 file, '
	works $small --slice=512K --window=16 "$dir/three" "$dir/none" "$dir/program"
	prints ' words from 3 files, fingerprints of 16 words; '
}
# shellcheck disable=SC2086
"$program" <"$dir/program" --device="$device" $small --window=16 /dev/stdin >"$dir/out" 2>"$dir/err" ||
	complain 'status of a pipe'
ends 'takes files'

works --repeat=1 --passes=2 --bytes=128K --slice=16K --workers=3 --svg="$dir/kernels.svg"
prints "^The timeline is in $dir/kernels\.svg\.\$"
names_colours "$dir/kernels.svg"
panels=$(grep -cE "^(plain|plain, few blocks|specialised|in clusters) +(one|workers')$row" "$dir/out")
[ "$(grep -c '<title>worker' "$dir/kernels.svg")" = $((panels * 16)) ] || complain 'bars of the picture'
[ "$(grep -c 'class="way"' "$dir/kernels.svg")" = $panels ] || complain 'panels of the picture'
ends 'draws a timeline'

# ---- mistakes ---------------------------------------------------------------
refuses "'6' is not good for --window: give a multiple of 4" --window=6
refuses "'260' is not good for --window: give a number from 4 to 256" --window=260
refuses "'8K' is not good for --slice: give a multiple of 16384" --slice=8K
refuses "'3' is not good for --bytes: give a multiple of 4" --bytes=3
refuses "'0' is not good for --passes: give a number from 1 to 1000" --passes=0
refuses "'legacy' is not good for --stream: give per-thread|private" --stream=legacy
refuses '--svg has an empty argument' --svg=
ends 'refuses mistakes, by their name'

# shellcheck disable=SC2086
{
	fails 1 "no GPU answers as 'cuda:999': use --device=host" --device=cuda:999
	fails 1 "$dir/no: No such file or directory" --device="$device" $small "$dir/no"
	fails 1 "$dir: Is a directory" --device="$device" $small "$dir"
	fails 1 "$dir/none: the file is empty" --device="$device" $small "$dir/none"
	gives 1 --device="$device" $small --bytes=4 --svg="$dir/none/kernels.svg"
	says "$dir/none/kernels.svg: Not a directory"
	fails_on_full_disk --device="$device" $small --bytes=4
}
ends 'says what failed'

has_options bytes seed slice passes window blocks copies workers stream device repeat svg
ends 'helps'
done_testing
