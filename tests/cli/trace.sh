#!/bin/sh
# SPDX-License-Identifier: MIT
# Traces of examples/overlap, held against the trace-event format by tests/lib/trace_format.py.
#
# env: OVERLAP    the program (examples/overlap/overlap)
#      RNL_TEST_DEVICE  where it works (host)
#
# devices: host cuda
set -u
export LC_ALL=C
OVERLAP=${OVERLAP:-examples/overlap/overlap}
device=${RNL_TEST_DEVICE:-host}
[ -x "$OVERLAP" ] || { echo "there is no $OVERLAP"; exit 1; }
command -v python3 >/dev/null || { echo 'SKIP: there is no python3'; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/trace.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
if ! "$OVERLAP" --device="$device" --chunks=1 --chunk=4 --repeat=1 >/dev/null 2>"$dir/err" &&
	grep -q 'no GPU answers' "$dir/err"; then
	echo "SKIP: overlap has no device $device here"
	exit 77
fi

nr=0 rc=0
# traced NAME CHUNKS ARG...: what overlap writes then is a trace, of at least one job a chunk
traced() {
	name=$1 chunks=$2
	shift 2
	nr=$((nr + 1))
	if "$OVERLAP" --device="$device" --repeat=1 --chunks="$chunks" --trace="$dir/t.json" "$@" \
		>"$dir/out" 2>&1 &&
		python3 "$srcdir/tests/lib/trace_format.py" "$dir/t.json" dropped=0 too_much=0 unfinished=0 \
			>"$dir/says" 2>&1; then
		echo "ok $nr - $name"
	else
		rc=1
		echo "not ok $nr - $name"
		sed 's/^/# /' "$dir/out" "$dir/says"
	fi
}
traced 'of one worker' 20 --chunk=64K --workers=1
traced 'of several' 200 --chunk=64K --workers=4
traced 'of many small chunks' 3000 --chunk=4K --workers=8
traced 'on private streams' 50 --chunk=64K --workers=4 --stream=private
traced 'copies first' 50 --chunk=256K --workers=3 --order=copies
traced 'in place, with halos' 50 --chunk=64K --workers=3 --in-place --halo=64
traced 'of pageable memory' 30 --chunk=64K --workers=3 --pageable
traced 'by callbacks' 30 --chunk=64K --workers=3 --callbacks
exit $rc
