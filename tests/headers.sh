#!/bin/sh
# Each public header compiles alone and twice, as strict C11 and as C++17.
rc=0
# compiles HEADER LANGUAGE COMPILER FLAG ...
compiles() {
	name="<$1> as $2" unit="#include <$1>
#include <$1>
int main(void) { return 0; }"
	shift 2
	if echo "$unit" | "$@" -I"$srcdir/include" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -
	then echo "ok - $name"; else echo "not ok - $name"; rc=1; fi
}
c="$CC -x c -std=c11" cxx="$CXX -x c++ -std=c++17"
ptds=-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1
compiles runnel.h C11 $c
[ "$have_CUDA" = no ] || compiles runnel/cuda.h C11 $c $CUDA_CFLAGS $ptds
[ "$CXX" ] || { echo 'SKIP: no C++ compiler'; exit $rc; }
compiles runnel.h C++17 $cxx -Wold-style-cast
[ "$have_CUDA" = no ] || compiles runnel/cuda.h C++17 $cxx $CUDA_CFLAGS $ptds
exit $rc
