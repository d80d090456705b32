#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares examples/gwc with wc, byte for byte, over every regular file of some
# trees and over one file of 3 GB, and times both: wc once, with the files in
# the page cache as far as they fit, gwc as the median of three runs.
#
# usage, where runnel was built: sh tests/bench/gwc_trees.sh [DEVICE[,DEVICE] [TREE ...]]
# DEVICE: host (the default), cuda, auto.  TREE: /usr/bin /usr/share/doc /usr/include.
# env: GWC the program; TMPDIR where there is room for 3 GB.
set -eu
export LC_ALL=C
gwc=${GWC:-examples/gwc/gwc} devices=$(echo "${1:-host}" | tr , ' ')
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- /usr/bin /usr/share/doc /usr/include
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
rc=0

# median COMMAND ...: seconds, output to $tmp/out.
median() {
	for _ in 1 2 3; do
		start=$(date +%s%N)
		"$@" >"$tmp/out" 2>"$tmp/err" || { cat "$tmp/err" >&2; return 1; }
		echo $(($(date +%s%N) - start))
	done | sort -n | sed -n 2p
}

# compare NAME LIST: wc once and gwc on each device, over a list whose names end in NUL.
compare() {
	start=$(date +%s%N)
	wc --files0-from="$2" >"$tmp/want"
	ns_wc=$(($(date +%s%N) - start))
	bytes=$(tail -n 1 "$tmp/want" | awk '{ print $3 }')
	for device in $devices; do
		ns=$(median "$gwc" --device="$device" --files0-from="$2")
		same=same
		cmp -s "$tmp/want" "$tmp/out" || { same=DIFFERENT rc=1; diff "$tmp/want" "$tmp/out" | head -n 5 >&2; }
		awk -v n="$1" -v f="$(tr -cd '\0' <"$2" | wc -c)" -v b="$bytes" -v w="$ns_wc" \
		    -v d="$device" -v g="$ns" -v s=$same 'BEGIN {
			printf "%-14s %6d files %7.1f MB  wc %6.1f MB/s  gwc on %-5s %7.1f MB/s %5.1f x  %s\n",
			n, f, b / 1e6, b * 1e3 / w, d, b * 1e3 / g, w / g, s }'
	done
}

echo "wc: $(wc --version | head -n 1); devices: $devices"
for tree; do
	find -L "$tree" -type f -readable -print0 >"$tmp/list" 2>/dev/null || :
	compare "$tree" "$tmp/list"
done
# Text with words and lines across every border of chunks.
awk 'BEGIN { srand(1); for (i = 0; i < 400000; i++) { s = ""; n = int(rand() * 24);
	for (j = 0; j < n; j++) s = s substr("loremipsumdolorsitamet", 1 + int(rand() * 9), int(rand() * 12)) (rand() < .1 ? "\t" : " ");
	print s } }' >"$tmp/seed"
copies=$((3000000000 / $(wc -c <"$tmp/seed") + 1))
for _ in $(seq $copies); do cat "$tmp/seed"; done >"$tmp/3GB"
printf '%s\0' "$tmp/3GB" >"$tmp/list"
compare '3 GB of text' "$tmp/list"
exit $rc
