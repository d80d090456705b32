#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs examples/overlap in all measured ways: one line each.
#
#	sh tests/bench/overlap.sh [DEVICE]	cuda; after make
set -eu
device=${1:-cuda} OVERLAP=${OVERLAP:-examples/overlap/overlap}
[ -x "$OVERLAP" ] || { echo 'first: make' >&2; exit 1; }
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM
printf '%-44s %9s %9s %9s %9s %9s  %s\n' '96 chunks of 8 MB, ms' limit serial legacy chunk copies \
	'% of the limit, x serial (chunk; copies)'
show() {	# show OPTION...
	"$OVERLAP" --device="$device" "$@" >"$out"
	awk -v name="$*" '
		/^limit,/ { limit = $(NF - 4) }
		/^serial,/ { serial = $(NF - 4) }
		/^legacy/ { legacy = $(NF - 4) == "stream" ? "-" : $(NF - 4) }
		/^rnl_map, chunk by chunk .*%/ { chunk = $(NF - 4); chunks = $(NF - 2) " % " $NF }
		/^rnl_map, copies first .*%/ { copies = $(NF - 4); copied = $(NF - 2) " % " $NF }
		END { printf "%-44s %9s %9s %9s %9s %9s  %s; %s\n", name, limit, serial, legacy,
			chunk, copies, chunks, copied }' "$out"
}
for workers in 4 6 8; do
	show --workers=$workers
	show --workers=$workers --stream=private
done
for form in --in-place --halo=4096 '--in-place --halo=4096'; do
	show --workers=4 $form
	show --workers=8 $form
done
# Pageable copies take longer: use the kernel of the other runs, so the times are comparable.
rounds=$("$OVERLAP" --device="$device" --repeat=1 | sed -n 's/.*kernel of \([0-9]*\) rounds.*/\1/p')
for form in --callbacks --callbacks=sparse --pageable; do
	for workers in 4 8 16; do show --workers=$workers $form --rounds="$rounds"; done
done
