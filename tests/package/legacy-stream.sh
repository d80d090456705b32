#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel/cuda.h refuses a unit without per-thread default streams, and says
# which flag to add; with the flag it compiles.
. "$(dirname "$0")/../lib/harness.sh"
[ "$have_CUDA" = yes ] || skip_all 'configured without CUDA'
echo '#include <runnel/cuda.h>' >"$dir/unit.c"
cp "$dir/unit.c" "$dir/unit.cu"
refused() {	# refused NAME COMMAND ...
	refused=$1
	shift
	! "$@" >"$dir/out" 2>"$dir/err" || complain 'it compiles'
	says '--default-stream per-thread'
	says '-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1'
	ends "$refused"
}
cc="$CC -I$srcdir/include $CUDA_CFLAGS -fsyntax-only"
refused 'C with legacy streams is refused' $cc "$dir/unit.c"
check 'C with per-thread streams is taken' $cc -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1 "$dir/unit.c"
[ "$NVCC" ] || done_testing
nvcc="$NVCC -I$srcdir/include -c -o $dir/unit.o"
refused 'CUDA with legacy streams is refused' $nvcc "$dir/unit.cu"
check 'CUDA with per-thread streams is taken' $nvcc --default-stream per-thread "$dir/unit.cu"
done_testing
