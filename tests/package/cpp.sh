#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel.hpp, by g++ and clang++: values, exceptions, cancels, ends, holds, barriers and queues; the
# header is silent, and has at most 300 lines.
. "$(dirname "$0")/../lib/harness.sh"
for cxx in $(cxx_compilers); do
	# shellcheck disable=SC2086  # words
	check "it is built without a warning, by $cxx" $cxx -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Wshadow \
		-Wundef -Wold-style-cast -Wnon-virtual-dtor -Werror ${sanitizer:+-fsanitize=$sanitizer} -I"$srcdir/include" \
		-pthread -o "$dir/cpp" "$srcdir/tests/package/cpp.cpp" -L. -lrunnel -Wl,-rpath,"$PWD"
	check "it is right, by $cxx" timeout 60 "$dir/cpp"
	for what in job barrier; do
		# shellcheck disable=SC3045  # dash and bash have it
		(ulimit -c 0; timeout 60 "$dir/cpp" $what; exit $?) >"$dir/out" 2>"$dir/err"
		[ $? = 134 ] || complain 'it is not ended by SIGABRT'
		says "rnl::$what: its end would wait for ever: a job is not done, and this is a worker of its pool, or it is not reaped"
		ends "the end of a $what on a worker says why, by $cxx"
	done
done
[ "$(wc -l <"$srcdir/include/runnel.hpp")" -le 300 ] || complain 'it has more than 300 lines'
ends 'it is short'
done_testing
