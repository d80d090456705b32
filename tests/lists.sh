#!/bin/sh
# What lies in the tree is in a list of the Makefile: nothing is forgotten there.
rc=0
# listed FILE NAME ...: one of the names is on a line of its own.
cd "$srcdir" || exit
for f in src/*.c src/tool/*.c examples/*.c examples/http_server/*.c tests/unit_*.c tests/api_*.c tests/stress_*.c tests/torture*.c tests/countdown/*.c tests/fake_cudart/*.c tests/*.cu \
	tests/*.sh include/*.h include/*/*.h docs/man/*.in; do
	[ -e "$f" ] || continue
	case $f in
	src/tool/* | examples/http_server/*) name=${f#*/*/} ;;
	src/* | examples/allocator* | examples/batch_sha256* | examples/gwc* | examples/overlap* | examples/quote.c | examples/std_fd.c | examples/stream_kinds* | *.sh) name=${f#*/} ;;
	docs/man/*) name=${f#docs/man/} name=${name%.in} ;;
	include/*) name=${f#include/} ;;
	tests/countdown/* | tests/fake_cudart/* | tests/torture*) name=${f#tests/} ;;
	*) name=${f#*/} name=${name%.*} ;;
	esac
	case $name in allocator_cuda.c | batch_sha256_kernel.c | crash_kernel.c | gwc_kernel.c | kernels.c | overlap_kernel.c | sobel_kernel.c | stream_kinds_kernel.c | mo-pairs.sh) continue ;; esac
	grep -qxF "	$name \\" Makefile && continue
	echo "$f: $name is in no list of the Makefile"
	rc=1
done
exit $rc
