#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/patterns.md: its code compiles, runs on the host device and is right; each pattern names a
# common mistake of tutorials; its blocks have about ten lines.
. "$(dirname "$0")/../lib/harness.sh"
page=$srcdir/docs/patterns.md

# ---- the code --------------------------------------------------------------------
awk -v dir="$dir" '/^```c$/ { n++; code = 1; next } /^```$/ { code = 0 } code { print > (dir "/block" n) }' "$page"
blocks=$(grep -c '^```c$' "$page")
[ "$blocks" -ge 10 ] || complain "the page has $blocks blocks"
for i in $(seq "$blocks"); do
	cat "$dir/block$i"
done >"$dir/blocks.h"
ends 'the page has blocks of code'
# shellcheck disable=SC2086  # words
check 'the code of the page compiles' $CC -std=gnu11 -Wall -Wextra -Werror $CFLAGS ${sanitizer:+-fsanitize=$sanitizer} \
	-I"$srcdir/include" -I"$dir" -pthread -o "$dir/patterns" "$srcdir/tests/package/patterns.c" \
	-L. -lrunnel -Wl,-rpath,"$PWD"
check 'the code of the page is right' timeout 60 "$dir/patterns"

# ---- the page --------------------------------------------------------------------
for i in $(seq "$blocks"); do
	[ "$(wc -l <"$dir/block$i")" -le 20 ] || complain "block $i is long"
done
ends 'no block is much longer than ten lines'
awk '/^## / { if (section && !wrong) print section; section = $0; wrong = 0 }
	/What tutorials get wrong|What they get wrong/ { wrong = 1 } END { if (!wrong) print section }' "$page" >"$dir/out"
[ ! -s "$dir/out" ] || complain 'a pattern does not say what tutorials get wrong'
ends 'each pattern says what tutorials get wrong'
done_testing
