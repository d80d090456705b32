#!/bin/sh
# runnel/cuda.h refuses a unit without per-thread default streams, and says
# which flag to add; with the flag it compiles.
[ "$have_CUDA" = yes ] || { echo 'configured without CUDA'; exit 77; }
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
echo '#include <runnel/cuda.h>' >"$dir/unit.c"
cp "$dir/unit.c" "$dir/unit.cu"
rc=0

# refused NAME COMMAND ..., taken NAME COMMAND ...
refused() {
	name=$1; shift
	if ! "$@" >"$dir/out" 2>&1 && grep -q -e '--default-stream per-thread' "$dir/out" &&
		grep -q -e '-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1' "$dir/out"; then echo "ok - $name"
	else echo "not ok - $name"; cat "$dir/out"; rc=1; fi
}
taken() {
	name=$1; shift
	if "$@"; then echo "ok - $name"; else echo "not ok - $name"; rc=1; fi
}
cc="$CC -I$srcdir/include $CUDA_CFLAGS -fsyntax-only"
refused 'C with legacy streams is refused' $cc "$dir/unit.c"
taken 'C with per-thread streams is taken' $cc -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1 "$dir/unit.c"
[ "$NVCC" ] || exit $rc
nvcc="$NVCC -I$srcdir/include -c -o $dir/unit.o"
refused 'CUDA with legacy streams is refused' $nvcc "$dir/unit.cu"
taken 'CUDA with per-thread streams is taken' $nvcc --default-stream per-thread "$dir/unit.cu"
exit $rc
