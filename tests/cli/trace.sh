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
done_testing
