#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/pipeline: its report, its files, its picture, its options, its messages.
#
# env: PIPELINE   the program (examples/pipeline/pipeline; on the double tests/doubles/pipeline)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host fake cuda
[ "${have_LIBPNG:-yes}" = yes ] || { echo 'SKIP: pipeline is not built: there is no libpng'; exit 77; }
program=${PIPELINE:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/pipeline ||
	echo examples/pipeline/pipeline)}
. "$(dirname "$0")/../lib/harness.sh"
small='--images=3 --repeat=1 --scale=1'
# shellcheck disable=SC2086  # words
needs_device $small
n='[0-9]+\.[0-9]+'
limit="^stages $n, $n, $n ms; limit $n ms \(.*\); this run $n ms: [0-9]+ % of the limit\$"

# ---- the work ----------------------------------------------------------------
# shellcheck disable=SC2086
{
	works $small
	prints '^device: .*, 3 workers, private streams$'
	prints "^images:  3, 3 different: $n million pixels, 140 patches, [0-9]+ tokens\$"
	prints "^serial:  $n ms; 3 stages at the same time $n ms, $n times as fast\$"
	prints "$limit"
	works $small --stages=2 --stream=per-thread
	prints '^device: .*, 2 workers, per-thread streams$'
	works $small --stages=1 --depth=1
	prints '^serial: .*; 1 stage at the same time '
	works $small --serial
	prints_not '^serial'
	prints "$limit"
	works --images=7 --repeat=2 --scale=1 --depth=2
	prints '^images:  7, 7 different: '
	works --images=2 --repeat=1 --depth=64
	prints '^images:  2, 2 different: 1\.4 million pixels, '
}
ends 'gives the results of the serial reference, however many stages run at the same time'

lines() { sed -n 's/^0[0-9]-[^ ]* *//p' "$dir/out"; }	# of the images, without names
works --images=4 --repeat=1 --scale=1 --out="$dir/pictures"
rows 4 '^0[1-4]-generated +[0-9]+ x [0-9]+ +[0-9]+ patches +[0-9]+ tokens, [0-9]+ to [0-9]+ each$'
lines >"$dir/generated"
for what in input relevance patches; do
	for i in 1 2 3 4; do
		head -c 4 "$dir/pictures/0$i-generated-$what.png" | grep -qa PNG ||
			complain "$what of image $i is no PNG"
	done
done
[ "$(find "$dir/pictures" -type f | wc -l)" = 12 ] || complain 'other files are there'
ends 'writes a map of each image and its patches, and leaves nothing else'

mkdir "$dir/photos"
for i in 1 2 3 4; do cp "$dir/pictures/0$i-generated-input.png" "$dir/photos/$i.png"; done
works --images=4 --repeat=1 --scale=1 --out="$dir/again" "$dir/photos"
prints '^images:  4, 4 different: '
lines >"$dir/read"
cmp -s "$dir/generated" "$dir/read" || complain 'lines differ' "$dir/generated" "$dir/read"
cmp -s "$dir/pictures/02-generated-patches.png" "$dir/again/02-2-patches.png" || complain 'patches differ'
works --images=5 --repeat=1 --scale=1 "$dir/photos/3.png" "$dir/photos/1.png"
prints '^images:  5, 2 different: '
ends 'reads PNG files, and directories of them'

if command -v python3 >/dev/null; then
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$srcdir/tests/http python3 - "$dir" <<'IN'
import sys
import http_images as images

def level(x, y):
	return (x * y // 7 + x * 3) % 252

for color, depth, clear in images.FORMS:
	if depth >= 8:
		for by_adam7 in False, True:
			name = '%d-%d-%d%d.png' % (color, depth, clear, by_adam7)
			with open(sys.argv[1] + '/form-' + name, 'wb') as file:
				file.write(images.form((150, 100), level, color, depth, clear, by_adam7))
IN
	works --images=1 --repeat=1 --out="$dir/forms" "$dir/form-0-8-00.png"
	works --images=1 --repeat=1 --out="$dir/clear" "$dir/form-0-8-10.png"
	for file in "$dir"/form-*.png; do
		of=$(basename "$file" .png)
		case $of in *-1[01]) same=clear first=01-form-0-8-10 ;; *) same=forms first=01-form-0-8-00 ;; esac
		works --images=1 --repeat=1 --out="$dir/form" "$file"
		for what in relevance patches; do
			cmp -s "$dir/$same/$first-$what.png" "$dir/form/01-$of-$what.png" || complain "$what of $of differ"
		done
	done
	ends 'reads the same picture from every form of PNG, interlaced or not'
fi

works --images=1 --repeat=1 --scale=1 --out="$dir/pictures" --tokens=768
prints ' 12 patches +768 tokens, 64 to 64 each$'
works --images=1 --repeat=1 --scale=1 --out="$dir/pictures" --tokens=1000000
prints ' [0-9]+ tokens, 64 to 400 each$'
for relevance in entropy salience query balanced; do
	works --images=1 --repeat=1 --scale=1 --out="$dir/$relevance" --relevance=$relevance
done
works --images=1 --repeat=1 --scale=1 --out="$dir/other" --relevance=query --query=-1,0,0,0,0,0,0,0,0,0,0,1,-100
[ "$(cat "$dir"/*/01-generated-relevance.png | wc -c)" -gt 0 ] || complain 'no maps'
for one in entropy salience query balanced; do
	cmp -s "$dir/other/01-generated-relevance.png" "$dir/$one/01-generated-relevance.png" &&
		complain "the map of another query is that of $one"
done
ends 'gives tokens by relevance, 64 to 400 a patch, under the total'

works --images=6 --repeat=1 --scale=1 --svg="$dir/p.svg"
prints "^The timeline is in $dir/p\.svg\.\$"
[ "$(grep -c '<title>.*, image [1-6]: ' "$dir/p.svg")" = 36 ] || complain 'bars of the picture'
names_colours "$dir/p.svg"
[ "$(grep -c 'class="way"' "$dir/p.svg")" = 2 ] || complain 'panels of the picture'
works --images=6 --repeat=1 --scale=1 --svg="$dir/p.svg" --serial
[ "$(grep -c 'class="way"' "$dir/p.svg")" = 1 ] || complain 'panels of the serial picture'
if command -v python3 >/dev/null; then
	python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/p.svg" 2>"$dir/err" ||
		complain 'the picture is no XML'
fi
[ ! -e "$dir/p.svg.part" ] || complain 'half a picture is left'
ends 'draws a timeline'

# ---- mistakes ---------------------------------------------------------------
refuses "'4' is not good for --stages: give a number from 1 to 3" --stages=4
refuses "'0' is not good for --images: give a number from 1" --images=0
refuses "'9' is not good for --scale: give a number from 1 to 8" --scale=9
refuses "'63' is not good for --tokens: give a number from 64" --tokens=63
refuses "'no' is not good for --relevance: give entropy|salience|query|balanced" --relevance=no
for bad in '' 1 1,2,3,4,5,6,7,8,9,10,11,12 1,2,3,4,5,6,7,8,9,10,11,12,13,14 0,0,0,0,0,0,0,0,0,0,0,0,101; do
	refuses "'$bad' is not good for --query: give 13 numbers from -100 to 100" --query=$bad
done
refuses '--svg has an empty argument' --svg=
ends 'refuses mistakes, by their name'

bad() { fails 1 "$1" --device="$device" --images=1 --repeat=1 "$2" "${3:---scale=1}"; }	# bad TEXT ARG...
echo 'no picture' >"$dir/text.png"
bad "$dir/text.png: Not a PNG file" "$dir/text.png"
head -c 5000 "$dir/photos/2.png" >"$dir/short.png"
bad "$dir/short.png: " "$dir/short.png"
bad "$dir/none.png: No such file or directory" "$dir/none.png"
mkdir "$dir/empty"
bad "$dir/empty: it has no PNG files" "$dir/empty"
mkfifo "$dir/empty/fifo.png"
bad "$dir/empty/fifo.png: this is not a regular file" "$dir/empty"
bad 'its 12 patches have 768 tokens at least, which is more than --tokens=767' --tokens=767
bad "$dir/text.png/x: Not a directory" --out="$dir/text.png/x"
bad "$dir/text.png/01-generated-input.png: Not a directory" --out="$dir/text.png"
if command -v python3 >/dev/null; then
	python3 -c 'import struct, sys, zlib
head = b"IHDR" + struct.pack(">2I5B", 20000, 20000, 8, 2, 0, 0, 0)
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head +
	struct.pack(">I", zlib.crc32(head)) + struct.pack(">I", 9) + b"IDAT" + bytes(13))' "$dir/huge.png"
	bad "$dir/huge.png: 20000 x 20000 pixels are too many: at most 16384 on a side" "$dir/huge.png"
fi
ends 'says what is wrong with the input'

# shellcheck disable=SC2086
{
	gives 1 --device=cuda:999
	says "no GPU answers as 'cuda:999': use --device=host"
	gives 1 --device="$device" $small --svg="$dir/none/p.svg"
	says "$dir/none/p.svg: No such file or directory"
	[ ! -w /dev/full ] || {
		mkdir "$dir/full"
		ln -s /dev/full "$dir/full/01-generated-patches.png"
		gives 1 --device="$device" $small --out="$dir/full"
		says "$dir/full/01-generated-patches.png: No space left on device"
		gives 1 --device="$device" $small --svg=/dev/full
		says '/dev/full: No space left on device'
	}
	fails_on_full_disk --device="$device" $small
	[ -z "$fake" ] || for fails in cudaLaunchKernel:20:719:sticky cudaMemcpyAsync:9:2; do
		FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}fail=$fails" gives 1 --device=cuda $small
		says "$program_name: "
	done
}
ends 'says what failed'

has_options serial stages images depth tokens relevance query stream device seed scale repeat out svg
ends 'helps'
done_testing
