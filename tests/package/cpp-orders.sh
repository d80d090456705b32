#!/bin/sh
# SPDX-License-Identifier: MIT
# C++ units that call CUDA include runnel.hpp, or runnel20.hpp, and runnel/cuda.h in any order. Programs
# of two such units share inline functions, of which the linker keeps those of the first unit: in each
# order of the units, a failed CUDA call fails its job, and a private pool refuses a unit's own functions.
# An inline function is of no unit: a private pool checks its runs.
. "$(dirname "$0")/../lib/harness.sh"
[ "$have_CUDA" = yes ] || skip_all 'configured without CUDA'
double=$PWD/tests/fake_cudart

# What all units have, with one definition: a lambda in an inline function.
cat >"$dir/shared.hpp" <<'END'
#include <cstdio>

inline auto failing()
{
	return [] { (void)cudaStreamQuery(reinterpret_cast<cudaStream_t>(64)); };
}

inline bool fails(rnl_pool *pool)
{
	rnl::job job(failing());

	job.submit(pool);
	return !rnl_job_wait(job, RNL_FOREVER) && job.result() == -EINVAL;
}

#ifdef RUNNEL20_HPP
#include <semaphore>
struct coroutine {
	struct promise_type {
		coroutine get_return_object() noexcept { return {}; }
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() noexcept {}
		void unhandled_exception() noexcept {}
	};
};

inline coroutine awaits(rnl_pool *pool, bool &right, std::binary_semaphore &end)
{
	try {
		co_await rnl::run(pool, failing());
	} catch (const std::system_error &e) {
		right = e.code().value() == EINVAL;
	}
	end.release();
}

inline bool awaited(rnl_pool *pool)
{
	std::binary_semaphore end{ 0 };
	bool right = false;

	awaits(pool, right, end);
	end.acquire();
	return right;
}
#else
inline bool awaited(rnl_pool *) { return true; }
#endif
END
cat >"$dir/unit.hpp" <<'END'
#include "shared.hpp"

bool UNIT(rnl_pool *pool, rnl_pool *private_pool);

bool UNIT(rnl_pool *pool, rnl_pool *private_pool)
{
	/* A lambda of this unit only, and those that all units have. */
	rnl::job own([] { (void)cudaStreamQuery(reinterpret_cast<cudaStream_t>(64)); });
	const bool refused = rnl_submit(private_pool, own) == -EINVAL;

	own.submit(pool);
	return refused && !rnl_job_wait(own, RNL_FOREVER) && own.result() == -EINVAL &&
	       fails(pool) && awaited(pool) && fails(private_pool) && awaited(private_pool);
}
END
cat >"$dir/main.cpp" <<'END'
#include <runnel.hpp>
#include <cstdio>

/* Those that are linked. */
#define UNIT(name) __attribute__((weak)) bool name(rnl_pool *pool, rnl_pool *private_pool);
UNIT(unit1) UNIT(unit2) UNIT(unit3) UNIT(unit4) UNIT(unit5) UNIT(unit6)

int main()
{
	rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int nr = 0;

	attr.device = "cuda";
	attr.nr_workers = 1;
	rnl::pool pool(attr);
	attr.stream = RNL_STREAM_PRIVATE;
	rnl::pool private_pool(attr);
	for (auto unit : { unit1, unit2, unit3, unit4, unit5, unit6 }) {
		if (unit && !unit(pool, private_pool))
			return 1;
		nr += unit != nullptr;
	}
	std::printf("%d units\n", nr);
}
END
# order NR HEADER...: a unit that includes the headers in this order
order() {
	nr_unit=$1
	shift
	{ printf '#include <%s>\n' "$@"; echo '#include "unit.hpp"'; } >"$dir/unit$nr_unit.cpp"
}
# linked UNIT...: a program of these units, in this order, is right
linked() {
	objects= nr_units=$#
	for unit; do objects="$objects $dir/unit$unit.o"; done
	# shellcheck disable=SC2086  # words
	$cxx ${sanitizer:+-fsanitize=$sanitizer} -o "$dir/linked" $objects "$dir/main.o" \
		"$double/libcudart.so" -L. -lrunnel -Wl,-rpath,"$PWD" -pthread || exit
	LD_LIBRARY_PATH=$double timeout 60 "$dir/linked" >"$dir/out" 2>"$dir/err" || complain "status $?, of units $*"
	[ "$(cat "$dir/out")" = "$nr_units units" ] || complain "not all units run: $*"
}

for cxx in $(cxx_compilers); do
	# clang 14 cannot compile inline coroutines with -fsanitize=function, a part of undefined.
	case $cxx${sanitizer:-} in clang*undefined*) part=-fno-sanitize=function ;; *) part= ;; esac
	for std in 17 20; do
		case $std in 17) ours=runnel.hpp ;; *) ours=runnel20.hpp ;; esac
		order 1 $ours runnel/cuda.h cuda_runtime_api.h
		order 2 $ours cuda_runtime_api.h runnel/cuda.h
		order 3 runnel/cuda.h $ours cuda_runtime_api.h
		order 4 runnel/cuda.h cuda_runtime_api.h $ours
		order 5 cuda_runtime_api.h $ours runnel/cuda.h
		order 6 cuda_runtime_api.h runnel/cuda.h $ours
		for unit in unit1 unit2 unit3 unit4 unit5 unit6 main; do
			# shellcheck disable=SC2086  # words
			$cxx -std=c++$std -O1 -Wall -Wextra -Wold-style-cast -Werror \
				${sanitizer:+-fsanitize=$sanitizer} $part -I"$srcdir/include" $CUDA_CFLAGS \
				-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1 $([ $unit = main ] || echo -DUNIT=$unit) \
				-c -o "$dir/$unit.o" "$dir/$unit.cpp" || exit
		done
		for first in 1 2 3 4 5 6; do
			linked $first
			for second in 1 2 3 4 5 6; do
				[ $first = $second ] || linked $first $second
			done
		done
		linked 1 2 3 4 5 6
		ends "each order of includes, alone and with each other one, by $cxx as C++$std"
	done
done
done_testing
