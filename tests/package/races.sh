#!/bin/sh
# SPDX-License-Identifier: MIT
# A user's program under ThreadSanitizer, by gcc and clang, with the ordinary shared library and the
# archive: what the library orders is no race there, and a race of the user's is reported.
. "$(dirname "$0")/../lib/harness.sh"
[ -z "${sanitizer:-}" ] || skip_all "the library is built with -fsanitize=$sanitizer; this is about an ordinary one"
unset TSAN_OPTIONS
# ThreadSanitizer's shadow memory and a randomised address space may get in each other's way.
fixed=$(setarch -R echo setarch -R 2>/dev/null)
libs=$($PKG_CONFIG --static --libs ./runnel.pc | tr ' ' '\n' | grep -vx -- -lrunnel | tr '\n' ' ')

for cc in gcc clang; do
	echo 'int main(void) { return 0; }' >"$dir/empty.c"
	$cc -fsanitize=thread -o "$dir/empty" "$dir/empty.c" 2>/dev/null && $fixed "$dir/empty" ||
		{ echo "SKIP: $cc makes no program with -fsanitize=thread"; continue; }
	for way in 'librunnel.so -Wl,-rpath,.' "librunnel.a $libs"; do
		with="$cc, ${way%% *}"
		# shellcheck disable=SC2086  # words
		check "it is built: $with" $cc -std=gnu11 -g -O1 -Wall -Wextra -Werror -fsanitize=thread \
			-I"$srcdir/include" -pthread -o "$dir/races" "$srcdir"/tests/package/races/*.c $way
		check "what the library orders is no race: $with" $fixed timeout 300 "$dir/races" ordered
		check "nor is it while a trace runs: $with" $fixed timeout 300 "$dir/races" traced "$dir/trace.json"
		for race in jobs barrier submit other callback map; do
			$fixed timeout 300 "$dir/races" race $race >"$dir/out" 2>"$dir/err"
			[ $? = 66 ] && grep -q 'ThreadSanitizer: data race' "$dir/err" || complain "no race is reported: $race"
		done
		ends "a race of the user's is reported: $with"
	done
done
done_testing
