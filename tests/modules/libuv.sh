#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/modules/libuv.c: every work is done or cancelled, and the loop ends, also after a failure.
#
# devices: host fake
. "$(dirname "$0")/../lib/harness.sh"
$PKG_CONFIG --exists libuv || skip_all 'there is no libuv: sh deps.sh check'
source=$srcdir/examples/modules/libuv.c
[ "$(wc -l <"$source")" -lt 150 ] || complain 'it has 150 lines or more'
ln -s "$PWD" "$dir/build"	# whose name may have blanks
# shellcheck disable=SC2046,SC2086  # words
$CC -std=gnu11 -Wall -Wextra -Werror $CFLAGS ${sanitizer:+-fsanitize=$sanitizer} -I"$srcdir/include" -o "$dir/libuv" \
	"$source" "./librunnel.so.$VERSION" -Wl,-rpath,"$dir/build" $($PKG_CONFIG --cflags --libs libuv) >"$dir/out" 2>&1 ||
	complain 'it does not compile'
ends 'it is short, and compiles without a warning'
[ -x "$dir/libuv" ] || done_testing
program=$dir/libuv
for i in 1 2 3 4 5; do
	gives 0 "$device"
	silent
	prints '^[0-9]+ right, [1-9][0-9]* cancelled$'
done
ends 'every work is done or cancelled'
if [ "$fake" ]; then
	for nth in 1 20 1000 5000; do
		FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}fail=cudaMemcpyAsync:$nth:719:sticky" gives 1 "$device"
		says 'runnel: error: device cuda:0 '
		prints '^[0-9]+ right, [0-9]+ cancelled$'
	done
	ends 'the loop ends when the device fails'
fi
gives 2 none
ends 'a device that is missing is an error'
done_testing
