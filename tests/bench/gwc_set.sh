#!/bin/sh
# SPDX-License-Identifier: MIT
# gwc over a large set of files in the page cache, compared with the best feed rate, and with wc.
#
#	sh tests/bench/gwc_set.sh [DEVICE [GB]]		cuda, 20; after make and make benches
#
# The set is made in ${TMPDIR:-/tmp} from copies of the source tree's text, 64 files per GB; each is
# read once before, so it is in the page cache.
set -eu
device=${1:-cuda} gb=${2:-20} GWC=${GWC:-examples/gwc/gwc} BENCH=${BENCH:-tests/bench/bench}
src=$(dirname "$0")/../..
[ -x "$GWC" ] && [ -x "$BENCH" ] || { echo 'first: make && make benches' >&2; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/gwc_set.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
# 16 MB of text, then as many copies.
while [ "$(cat "$dir/text" 2>/dev/null | wc -c)" -lt 16000000 ]; do
	cat "$src"/src/*/*.[ch] "$src"/docs/*.md "$src"/include/*.h "$src"/include/*/*.h >>"$dir/text"
done
head -c 15625000 "$dir/text" >"$dir/0" && rm "$dir/text"
n=$((gb * 64)) i=1
while [ "$i" -lt "$n" ]; do
	cp "$dir/0" "$dir/$i"
	i=$((i + 1))
done
cat "$dir"/* >/dev/null
cpus=$(nproc)
for threads in "$((cpus > 1 ? cpus / 2 : 1))" "$cpus"; do
	"$BENCH" --rows=feed --device="$device" --threads="$threads" --runs=3 "$dir"/*
done
for producers in '' 4 8 12; do
	for run in 1 2 3; do
		printf 'gwc%s: ' "${producers:+ --producers=$producers}"
		"$GWC" --device="$device" ${producers:+--producers=$producers} --stats \
			"$dir"/* 2>&1 | grep counted:
	done
done
# Only wc, on a sixteenth of the files.
set -- "$dir"/1*
printf 'wc -lw of %d files: ' $#
start=$(date +%s%N)
wc -lw "$@" | tail -n 1
echo "$# files of 15.625 MB in $((($(date +%s%N) - start) / 1000000)) ms: $((15625 * $# / (($(date +%s%N) - start) / 1000000))) MB/s"
