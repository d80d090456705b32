#!/bin/sh
# SPDX-License-Identifier: MIT
# Each explicit memory order of the library has a comment straight above it, each "pairs with [x]"
# names a label that a comment defines, no atomic is implicitly seq_cst, and tests/tree/mutants.tab
# says which test fails without it, or why none does.
. "$(dirname "$0")/../lib/harness.sh"
cd "$srcdir" || exit
files=$(ls src/*/*.[ch] | grep -v '^src/tool/')

check 'each order has a comment, and pairs with a label' awk '
function bad(why) { printf "%s:%d: %s\n", FILENAME, FNR, why; rc = 1 }
FNR == 1 { at = -9; prev = ";" }
match($0, /^[ \t\/*]*\[[a-z_]+\.[A-Za-z0-9]+\]/) {
	l = substr($0, RSTART, RLENGTH); sub(/^[ \t\/*]*/, "", l); def[l] = 1 }
{ t = $0; while (match(t, /pairs with \[[a-z_]+\.[A-Za-z0-9]+\]/)) {
	ref[substr(t, RSTART + 11, RLENGTH - 11)] = FILENAME ":" FNR
	t = substr(t, RSTART + RLENGTH) } }
/\/\*/ { inc = 1 }
inc { if (/\*\//) { inc = 0; at = FNR } next }
/memory_order_[a-z]/ || /(cmm_smp_[rw]*mb|rnl__full_barrier)\(/ { if (FNR - at > 1 && prev ~ /[;{}]$/) bad("ordering without a comment above it") }
/atomic_(load|store|exchange|fetch_[a-z]+|compare_exchange_[a-z]+)\(/ { bad("implicit seq_cst: use the _explicit form") }
NF { prev = $0; if (at == FNR - 1 && prev !~ /[;{}]$/) at = FNR }
END { for (r in ref) if (!(r in def)) { print ref[r] ": pairs with " r ", which no comment defines"; rc = 1 } exit rc }
' $files

cat $files | grep -oE '\[[a-z_]+\.[A-Z][0-9]\]' | tr -d '[]' | sort -u >"$dir/src"
sed -nE 's/^(each time: )?([a-z_]+)\.([A-Z][0-9](, [A-Z][0-9])*) .*\t.*\t.*/\2 \3/p' tests/tree/mutants.tab |
	awk '{ for (i = 2; i <= NF; i++) print $1 "." substr($i, 1, 2) }' | sort -u >"$dir/tab"
same 'each label has a row of mutants.tab, and each row its label' src tab
done_testing
