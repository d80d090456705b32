#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/api/refused.c has a case for each public function, or a reason why it has no case. The rule
# is tested on a copy without one of its names.
. "$(dirname "$0")/../lib/harness.sh"
map=$srcdir/src/runnel.map cases=$srcdir/tests/api/refused.c

# missing FILE: the public functions that the file does not name.
missing() {
	grep -oE '\brnl_[a-z0-9_]+\b' "$1" | sort -u >"$dir/named"
	tr -d ' \t;' <"$map" | grep -E '^rnl_[a-z0-9_]+$' | sort -u | comm -23 - "$dir/named"
}

missing "$cases" >"$dir/missing"
: >"$dir/none"
same 'each public function has a case, or a reason for none' none missing
sed 's/rnl_pool_health/rnl_pool_wealth/g' "$cases" >"$dir/copy.c"
missing "$dir/copy.c" >"$dir/missing"
echo rnl_pool_health >"$dir/want"
same 'a function without a case is named' want missing
done_testing
