#!/bin/sh
# SPDX-License-Identifier: MIT
# A user's program under ThreadSanitizer, by gcc and clang, with the ordinary shared library and the
# archive: accesses that the library orders are no races there, and the user's races are reported.
. "$(dirname "$0")/../lib/harness.sh"
[ -z "${sanitizer:-}" ] || skip_all "the library is built with -fsanitize=$sanitizer; this is about an ordinary one"
unset TSAN_OPTIONS
# ThreadSanitizer's shadow memory and a randomised address space may conflict.
fixed=$(setarch -R echo setarch -R 2>/dev/null)
libs=$($PKG_CONFIG --static --libs ./runnel.pc | tr ' ' '\n' | grep -vx -- -lrunnel | tr '\n' ' ')

for cc in gcc clang; do
	echo 'int main(void) { return 0; }' >"$dir/empty.c"
	$cc -fsanitize=thread -o "$dir/empty" "$dir/empty.c" 2>/dev/null && $fixed "$dir/empty" ||
		{ echo "SKIP: $cc makes no program with -fsanitize=thread"; continue; }
	for source in jobs work races; do
		$cc -std=gnu11 -g -O1 -Wall -Wextra -Werror -fsanitize=thread -I"$srcdir/include" -pthread \
			-c -o "$dir/$source.o" "$srcdir/tests/package/races/$source.c" >"$dir/out" 2>"$dir/err" ||
			complain "$source.c does not compile"
	done
	ends "it is compiled, by $cc"
	for way in "librunnel.a $libs" 'librunnel.so -Wl,-rpath,.'; do
		with="$cc, ${way%% *}"
		# shellcheck disable=SC2086  # words
		$cc -fsanitize=thread -pthread -o "$dir/races" "$dir"/jobs.o "$dir"/work.o "$dir"/races.o $way \
			>"$dir/out" 2>"$dir/err" || complain 'it does not link'
		check "what the library orders is no race: $with" $fixed timeout 300 "$dir/races" ordered
	done
	check "nor is it while a trace runs: $with" $fixed timeout 300 "$dir/races" traced "$dir/trace.json"
	for race in jobs barrier submit other callback map; do
		$fixed timeout 300 "$dir/races" race $race >"$dir/out" 2>"$dir/err"
		[ $? = 66 ] && grep -q 'ThreadSanitizer: data race' "$dir/err" || complain "no race is reported: $race"
	done
	ends "a race of the user's is reported: $with"
done
done_testing
