#!/bin/sh
# SPDX-License-Identifier: MIT
# Traces of examples/overlap, checked against the trace-event format by tests/lib/trace_format.py.
#
# env: OVERLAP    the program (examples/overlap/overlap)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host cuda
program=${OVERLAP:-examples/overlap/overlap}
. "$(dirname "$0")/../lib/harness.sh"
command -v python3 >/dev/null || skip_all 'there is no python3'
needs_device --chunks=1 --chunk=4 --repeat=1

traced() {	# traced NAME ARG...: overlap writes a trace file, which is complete
	name=$1
	shift
	works --repeat=1 --trace="$dir/t.json" "$@"
	check "$name" python3 "$srcdir/tests/lib/trace_format.py" "$dir/t.json" dropped=0 too_much=0 unfinished=0
}
traced 'of one worker' --chunks=20 --chunk=64K --workers=1
traced 'of several workers' --chunks=200 --chunk=64K --workers=4
traced 'of many small chunks' --chunks=3000 --chunk=4K --workers=8
traced 'on private streams' --chunks=50 --chunk=64K --workers=4 --stream=private
traced 'copies first' --chunks=50 --chunk=256K --workers=3 --order=copies
traced 'in place, with halos' --chunks=50 --chunk=64K --workers=3 --in-place --halo=64
traced 'of pageable memory' --chunks=30 --chunk=64K --workers=3 --pageable
traced 'by callbacks' --chunks=30 --chunk=64K --workers=3 --callbacks

# A callback of a batch causes those of its requests, and is written when all have returned.
spans() {	# spans TS DUR TS DUR: a trace with two callbacks of one thread
	{
		echo '[{"name":"runnel","ph":"M","pid":1,"tid":0,"args":{}},'
		echo '{"name":"thread_name","ph":"M","pid":1,"tid":7,"args":{"name":"w"}},'
		printf '{"name":"f","cat":"callback","ph":"X","pid":1,"tid":7,"ts":%d,"dur":%d},\n' "$@"
		echo '{"name":"runnel_end","ph":"M","pid":1,"tid":0,"args":{"jobs":0,"flown":0,"timed":0,'
		echo '"unfinished":0,"dropped":0,"too_much":0,"arrows_lost":0}}]'
	} >"$dir/t.json"
}
spans 10 5 8 20
check 'a callback inside another one is right' python3 "$srcdir/tests/lib/trace_format.py" "$dir/t.json"
spans 10 5 12 20
! python3 "$srcdir/tests/lib/trace_format.py" "$dir/t.json" >"$dir/out" 2>"$dir/err" || complain 'it is accepted'
prints '^it overlaps its neighbour: '
ends 'callbacks that overlap are wrong'
done_testing
