#!/bin/sh
# SPDX-License-Identifier: MIT
# The exported set is exactly the map, the map exactly the headers, with "Since: X.Y" for the node
# RNL_X.Y, and the archive defines no global symbol outside our prefix, except hidden ones of NVTX's
# header and of <sys/sdt.h>.
. "$(dirname "$0")/../lib/harness.sh"
map=$srcdir/src/runnel.map

find "$srcdir/include" -name '*.h' -exec cat {} + >"$dir/headers"
awk 'match($0, /Since: [0-9.]+/) { since = substr($0, RSTART + 7, RLENGTH - 7) }
     /^RNL_API / && match($0, /rnl_[a-z0-9_]*\(/) { print substr($0, RSTART, RLENGTH - 1), since }' "$dir/headers" | sort >"$dir/since"
awk '/^RNL_/ { node = substr($1, 5) } /global:/ { g = 1; next } /local:/ || /}/ { g = 0 }
     g { gsub(/[ \t;]/, ""); if ($0) print $0, node }' "$map" | sort >"$dir/node"
for list in since:header node:map; do cut -d ' ' -f 1 "$dir/${list%:*}" >"$dir/${list#*:}"; done
$NM -D --defined-only "librunnel.so.$VERSION" |
	awk '$2 ~ /[TDBRWV]/ { sub(/@.*/, "", $3); print $3 }' |
	grep -vE '^(__?(asan|ubsan|tsan|odr_asan|sanitizer)|_(init|fini)$)' | sort >"$dir/so"
$NM --defined-only librunnel.a | awk '$2 ~ /[TDBRWVC]/ && $3 !~ /^(rnl_|__odr_asan|nvtx|InitializeInjectionNvtx|_\.stapsdt\.base)/ { print $3 }' |
	sort >"$dir/a"

: >"$dir/none"
[ -s "$dir/header" ] || complain 'the headers declare nothing'
same 'the map is what the headers declare' header map
same 'a function is in the node of its Since:' since node
same 'the shared library exports what the map says' map so
same 'the archive keeps to our prefix' none a
done_testing
