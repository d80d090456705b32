#!/bin/sh
# docs/patterns.md: its code compiles, runs on the host device and is right; each pattern says what
# tutorials get wrong; its blocks are about ten lines.
. "$(dirname "$0")/../lib/harness.sh"
page=$srcdir/docs/patterns.md
find "$srcdir/include" -name '*.h' -exec cat {} + >"$dir/headers" || exit

# ---- the code --------------------------------------------------------------------
# A block that uses what no header declares is left out: the library of this branch may be older.
awk -v dir="$dir" '/^```c$/ { n++; code = 1; next } /^```$/ { code = 0 } code { print > (dir "/block" n) }' "$page"
blocks=$(grep -c '^```c$' "$page")
[ "$blocks" -ge 10 ] || complain "the page has $blocks blocks"
: >"$dir/blocks.h"
has='' missing=''
for i in $(seq "$blocks"); do
	lacks=''
	for name in $(grep -ohE '\b(rnl_[a-z_]+|RNL_[A-Z_]+)\b' "$dir/block$i" | sort -u); do
		if grep -qw "$name" "$dir/headers"; then has="$has -DHAS_$name"; else lacks="$lacks $name"; fi
	done
	[ "$lacks" ] || cat "$dir/block$i" >>"$dir/blocks.h"
	missing=$missing$lacks
done
ends 'the page has blocks of code'
[ -z "$missing" ] || echo "SKIP: the headers have no$missing"
# shellcheck disable=SC2086  # words
check 'the code of the page compiles' $CC -std=gnu11 -Wall -Wextra -Werror $CFLAGS ${sanitizer:+-fsanitize=$sanitizer} \
	$has -I"$srcdir/include" -I"$dir" -pthread -o "$dir/patterns" "$srcdir/tests/package/patterns.c" \
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
