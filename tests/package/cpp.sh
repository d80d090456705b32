#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel.hpp, by g++ and clang++: values, exceptions, cancels, ends, barriers and queues; the header is
# silent.
. "$(dirname "$0")/../lib/harness.sh"
for cxx in $(cxx_compilers); do
	# shellcheck disable=SC2086  # words
	check "it is built without a warning, by $cxx" $cxx -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Wshadow \
		-Wundef -Wold-style-cast -Wnon-virtual-dtor -Werror ${sanitizer:+-fsanitize=$sanitizer} -I"$srcdir/include" \
		-pthread -o "$dir/cpp" "$srcdir/tests/package/cpp.cpp" -L. -lrunnel -Wl,-rpath,"$PWD"
	check "it is right, by $cxx" timeout 60 "$dir/cpp"
done
done_testing
