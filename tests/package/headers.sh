#!/bin/sh
# SPDX-License-Identifier: MIT
# The public headers and the code of their macros give no warnings in a user's unit: each header
# once and twice, and one unit that uses every macro, by gcc, clang and nvcc, as C11 and as C++17, and
# as C++20 by gcc and clang; runnel20.hpp only as C++20. The include path is a plain -I: a compiler does
# not warn about system headers.
. "$(dirname "$0")/../lib/harness.sh"
check_silent() {	# check_silent NAME COMMAND ...: succeeds, and prints nothing
	check=$1
	shift
	"$@" >"$dir/out" 2>"$dir/err" && [ ! -s "$dir/out" ] && [ ! -s "$dir/err" ] || complain "status $?"
	ends "$check"
}
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef'
c11="-x c -std=c11 $warnings -Wstrict-prototypes"
cxx17="-x c++ -std=c++17 $warnings -Wold-style-cast"
cxx20="-x c++ -std=c++20 $warnings -Wold-style-cast"
ptds="-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1 $CUDA_CFLAGS"

# ---- what is compiled ----------------------------------------------------------
headers=$(cd "$srcdir/include" && find . -name '*.h' | sed 's,^\./,,' | sort)
for h in $headers; do
	printf '#include <%s>\n#include <%s>\nextern int unit;\n' "$h" "$h" >"$dir/$(echo "$h" | tr / _).unit"
done
(cd "$srcdir/include" && cat $headers) >"$dir/headers"
macros=$(sed -nE 's/^ *# *define ([A-Za-z_0-9]+).*/\1/p' "$dir/headers" | grep -vE '^(RNL_API|RNL__.*|RUNNEL_.*_H|RUNNEL_H)$' | sort -u)

# Only C++.
for h in $(cd "$srcdir/include" && find . -name '*.hpp' | sed 's,^\./,,' | sort); do
	case $h in *20.hpp) unit=unit++20 ;; *) unit=unit++ ;; esac
	printf '#include <%s>\n#include <%s>\nextern int unit;\n' "$h" "$h" >"$dir/$(echo "$h" | tr / _).$unit"
done

# In C++ a structure is named without `struct`, so no function may have the same name.
{
	cat <<-'END'
	#ifdef __cplusplus
	#define STRUCT
	extern "C" {
	#else
	#define STRUCT struct
	#endif
	struct numbers { int number; };
	struct request { int number; STRUCT rnl_job job; };
	int job_fn(STRUCT rnl_job *job);
	int number_of(const STRUCT rnl_job *job);
	void use(STRUCT rnl_pool *pool, STRUCT rnl_barrier *barrier, STRUCT rnl_batcher **batcher);
	void twice_host(STRUCT rnl_dim grid, STRUCT rnl_dim block, const void *args);
	int job_fn(STRUCT rnl_job *job)
	{
		return rnl_container_of(job, STRUCT request, job)->number;
	}
	int number_of(const STRUCT rnl_job *job)
	{
		return rnl_container_of(job, STRUCT request, job)->number;
	}
	void twice_host(STRUCT rnl_dim grid, STRUCT rnl_dim block, const void *args)
	{
		(void)(grid.x + block.x);
		(void)args;
	}
	RNL_HOST_KERNEL(twice, twice_host, STRUCT numbers);
	static int each_host(const STRUCT rnl_request_view *view)
	{
		return view->in_bytes == 0;
	}
	RNL_HOST_REQUEST_KERNEL(each, each_host);
	void use(STRUCT rnl_pool *pool, STRUCT rnl_barrier *barrier, STRUCT rnl_batcher **batcher)
	{
		STRUCT request request;
	END
	for m in $macros; do
		case $m in
		RNL_*_INIT)
			name=$(echo "$m" | sed 's/_INIT$//' | tr 'A-Z' 'a-z')
			printf '\tSTRUCT %s %s = %s;\n' "$name" "${name#rnl_}" "$m" ;;
		RNL_HOST_KERNEL | RNL_HOST_REQUEST_KERNEL | RNL_KERNEL | RNL_REQUEST_KERNEL | RNL_KEY_WORKER | RNL_NAMES_STREAM | RNL_NEEDS_CUDA | rnl_*) ;;	# by hand
		*) printf '\t(void)(%s);\n' "$m" ;;
		esac
	done
	for m in $macros; do
		case $m in RNL_*_INIT) echo "$m" | sed 's/^RNL_//; s/_INIT$//' | tr 'A-Z' 'a-z' | sed 's/.*/	(void)\&&;/' ;; esac
	done
	cat <<-'END'
		request.number = rnl_job_init(&request.job, job_fn);
		request.number += rnl_job_set_key(&request.job, RNL_KEY_WORKER(1));
		request.number += rnl_map_start(pool, &map, barrier);
		request.number += rnl_batcher_create(batcher, pool, &batcher_attr);
	}
	#ifdef __cplusplus
	}
	#endif
	END
} >"$dir/uses"
echo "$headers" | grep -vx runnel/cuda.h | sed 's/.*/#include <&>/' >"$dir/all"
cat "$dir/all" "$dir/uses" >"$dir/macros.unit"
{ echo '#include <runnel/cuda.h>'; cat "$dir/all" "$dir/uses"; } >"$dir/macros_cuda.unit"
{
	printf '#define RNL_NAMES_STREAM 1\n#define RNL_NEEDS_CUDA 0\n#include <runnel/cuda.h>\n'
	cat "$dir/all" "$dir/uses"
	cat <<-'END'
	static __global__ void thrice_cuda(numbers a) { (void)a; }
	RNL_KERNEL(thrice, twice_host, thrice_cuda, numbers);
	static __device__ int each_cuda(const rnl_request_view *view) { return view->in_bytes == 0; }
	RNL_REQUEST_KERNEL(everyone, each_host, each_cuda);
	END
} >"$dir/macros.cu"
for m in $macros; do
	grep -qw "$m" "$dir/macros.cu" || complain "$m is used by no unit"
done
ends 'each macro is used by the unit of all macros'

# ---- by gcc and clang ----------------------------------------------------------
ours="-I$srcdir/include -fsyntax-only"
# compiled COMPILER LANGUAGE FLAG ...
compiled() {
	cc=$1 language=$2; shift 2
	case $language in C11) units= ;; C++17) units="$dir/*.unit++" ;; *) units="$dir/*.unit++ $dir/*.unit++20" ;; esac
	for unit in "$dir"/*.unit $units; do
		name=$(basename "$unit" .unit) more=
		case $name in *_cuda*) [ "$have_CUDA" = yes ] || continue; more=$ptds ;; esac
		check_silent "$name by $cc as $language" $cc $ours "$@" $more "$unit"
	done
}
for cc in gcc clang; do
	if command -v $cc >/dev/null; then compiled $cc C11 $c11; else echo "SKIP: no $cc"; fi
done
for cxx in g++ clang++; do
	command -v $cxx >/dev/null || { echo "SKIP: no $cxx"; continue; }
	compiled $cxx C++17 $cxx17
	compiled $cxx C++20 $cxx20
done

# ---- by nvcc -------------------------------------------------------------------
[ "$NVCC" ] || { echo 'SKIP: no nvcc'; done_testing; }
# The toolkit's headers, and nvcc's output for its host compiler, use old-style casts: only a
# warning about a file of ours counts.
"$NVCC" --default-stream per-thread -std=c++17 -I"$srcdir/include" \
	-Xcompiler -Wall,-Wextra,-Wconversion,-Wshadow,-Wold-style-cast \
	-c -o "$dir/macros.o" "$dir/macros.cu" >"$dir/out" 2>"$dir/err" &&
	! grep -qF -e "$dir/macros.cu" -e "$srcdir/include/" "$dir/out" "$dir/err" || complain "status $?"
ends 'each macro by nvcc'
done_testing
