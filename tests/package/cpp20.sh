#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel20.hpp, by g++ and clang++: coroutines, settings, holds and jobs that move, on the host device
# and the double of CUDA; coroutines that end too soon; the header has at most 400 lines.
. "$(dirname "$0")/../lib/harness.sh"
for cxx in $(cxx_compilers); do
	# shellcheck disable=SC2086  # words
	check "it is built without a warning, by $cxx" $cxx -std=c++20 -O2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow \
		-Wundef -Wold-style-cast -Wnon-virtual-dtor -Werror ${sanitizer:+-fsanitize=$sanitizer -DSANITIZED} \
		-I"$srcdir/include" -pthread -o "$dir/cpp20" "$srcdir/tests/package/cpp20.cpp" -L. -lrunnel -Wl,-rpath,"$PWD"
	check "it is right, by $cxx" timeout 120 "$dir/cpp20" host
	[ "$have_CUDA" = yes ] && check "it is right on the double of CUDA, by $cxx" \
		env LD_LIBRARY_PATH="$PWD/tests/fake_cudart" timeout 120 "$dir/cpp20" cuda
	for what in destroyed barrier moved; do
		# shellcheck disable=SC3045  # dash and bash have it
		(ulimit -c 0; timeout 60 "$dir/cpp20" host $what; exit $?) >"$dir/out" 2>"$dir/err"
		[ $? = 134 ] || complain 'it is not ended by SIGABRT'
		case $what in
		moved) says 'error: an rnl::movable_job is moved after its submit' ;;
		*) says 'error: a coroutine is destroyed while it awaits a job: cancel the job, and let the coroutine go on' ;;
		esac
		ends "what ends too soon says why: $what, by $cxx"
	done
done
[ "$(wc -l <"$srcdir/include/runnel20.hpp")" -le 400 ] || complain 'it has more than 400 lines'
ends 'it is short'
done_testing
