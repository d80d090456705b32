#!/bin/sh
# Every explicit ordering has a comment directly above it, every "pairs with
# [x]" names a label some comment defines, and no atomic is implicitly seq_cst.
# usage: mo-pairs.sh FILE...
exec awk '
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
' "$@"
