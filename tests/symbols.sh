#!/bin/sh
# The exported set is exactly the map, the map exactly the header, and the
# archive defines nothing global outside our prefix, but what NVTX's header does, hidden.
header=$srcdir/include/runnel.h map=$srcdir/src/runnel.map rc=0
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit

sed -n 's/^RNL_API .*[ *]\(rnl_[a-z0-9_]*\)(.*/\1/p' "$header" | sort >"$dir/header"
awk '/global:/ { g = 1; next } /local:/ || /}/ { g = 0 }
     g { gsub(/[ \t;]/, ""); if ($0) print }' "$map" | sort >"$dir/map"
$NM -D --defined-only "librunnel.so.$VERSION" |
	awk '$2 ~ /[TDBRWV]/ { sub(/@.*/, "", $3); print $3 }' |
	grep -vE '^(__?(asan|ubsan|tsan|odr_asan|sanitizer)|_(init|fini)$)' | sort >"$dir/so"
$NM --defined-only librunnel.a | awk '$2 ~ /[TDBRWVC]/ && $3 !~ /^(rnl_|__odr_asan|nvtx|InitializeInjectionNvtx)/ { print $3 }' |
	sort >"$dir/a"

# same NAME WANT HAVE
same() {
	if diff -u "$dir/$2" "$dir/$3" >"$dir/diff"; then echo "ok - $1"
	else echo "not ok - $1"; cat "$dir/diff"; rc=1; fi
}
: >"$dir/none"
same 'the map is what the header declares' header map
same 'the shared library exports what the map says' map so
same 'the archive keeps to our prefix' none a
[ -s "$dir/header" ] || { echo 'not ok - the header declares something'; rc=1; }
exit $rc
