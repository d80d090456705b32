#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/overlap: its table, its options, its messages.
#
# env: OVERLAP    the program (examples/overlap/overlap)
#      RUNNEL     the tool, which reads its trace (./runnel)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host cuda
program=${OVERLAP:-examples/overlap/overlap} RUNNEL=${RUNNEL:-./runnel}
. "$(dirname "$0")/../lib/harness.sh"
needs_device --chunks=1 --chunk=4 --repeat=1
n='[0-9]+\.[0-9]+'
row=" +$n +$n +$n % +$n\$"
none=' +- +- +- +-$'

# ---- the work ----------------------------------------------------------------
works --repeat=2 --chunks=10 --chunk=1M --workers=2
prints '^device: .*, 2 workers, per-thread streams$'
prints '^work: +10 chunks of 1 MB, page-locked; kernel of [1-9][0-9]* rounds$'
prints '^times: +medians of 2 runs, every result checked'
for stage in 'copies in' kernels 'copies out'; do prints "^$stage +$n +$n\$"; done
prints "^limit, the longest stage +$n +$n +100\.0 % +$n\$"
prints "^serial, one stream +$n +$n +$n % +1\.00\$"
if [ "$device" = host ]; then legacy=$none; else legacy=$row; fi
prints "^legacy default stream$legacy"
for order in 'chunk by chunk' 'copies first'; do
	prints "^rnl_map, $order$row"
	prints "^rnl_map, $order, timed: 10\.5 MB in, 10\.5 MB out, 10 chunks, [1-9][0-9]* jobs;\$"
done
prints "^    in $n ms, kernels $n ms, out $n ms: together [0-9]+ % of the time, the longest"
ends 'prints stages, ways and reports'

if [ "${sanitizer:-}" != thread ]; then		# ThreadSanitizer needs over a minute
	works --repeat=1 --order=chunk
	if [ "$device" = host ]; then work='256 chunks of 512 KB'; else work='96 chunks of 8 MB'; fi
	prints "^work: +$work, "
	ends 'has as much to do as its device does in seconds'
fi

works --repeat=2 --chunks=7 --chunk=100K --in-place
prints ', page-locked, in place;'
works --repeat=2 --chunks=7 --chunk=100K --pageable
prints ', pageable;'
prints "^    CPUs took $n ms to fill page-locked memory, $n ms to empty it\$"
works --repeat=2 --chunks=7 --chunk=100K --pageable --in-place
prints ', pageable, in place;'
works --repeat=2 --chunks=7 --chunk=100K --halo=100 --in-place
prints "^rnl_map, chunk by chunk, timed: 0\.7 MB in, "
works --repeat=2 --chunks=7 --chunk=4K --halo=1024 --pageable
prints "^rnl_map, chunk by chunk, timed: 0\.1 MB in, 0\.0 MB out, "
works --repeat=2 --chunks=7 --chunk=100K --callbacks
prints ', page-locked, by callbacks;'
prints "^    CPUs took $n ms to fill page-locked memory, $n ms to empty it\$"
works --repeat=2 --chunks=7 --chunk=100K --callbacks=sparse --halo=1000
prints ', page-locked, by sparse callbacks;'
works --repeat=2 --chunks=7 --chunk=100K --rounds=17
prints 'kernel of 17 rounds$'
works --repeat=2 --chunks=7 --chunk=100K --stream=private
prints ', private streams$'
works --repeat=2 --chunks=7 --chunk=100K --callbacks=dense --stream=per-thread
prints ', page-locked, by callbacks;'
ends 'works in place, from pageable memory, with halos, by callbacks, on private streams'

works --repeat=2 --chunks=5 --chunk=10K --order=chunk
prints "^rnl_map, chunk by chunk$row"
prints "^rnl_map, copies first$none"
works --repeat=2 --chunks=5 --chunk=10K --order=copies
prints "^rnl_map, chunk by chunk$none"
prints "^rnl_map, copies first$row"
ends 'tries one order alone'

counts='1 3 8'
[ "$device" = host ] || counts=3	# a GPU starts slowly
for workers in $counts; do
	works --repeat=2 --chunks=1 --chunk=4 --workers=$workers
	works --repeat=2 --chunks=2 --chunk=1028 --workers=$workers
	works --repeat=2 --chunks=65 --chunk=4k --workers=$workers
	prints "^work: +65 chunks of 4 KB, "
	works --chunks=3 --chunk=3m --workers=$workers --repeat=1
	prints "^work: +3 chunks of 3 MB, "
done
ends 'takes chunks of any size, by any number of workers'

# The trace and rnl_map_start() measure the same stages, by events next to each other.  The times
# agree within 3 %, unless a stream's thread is interrupted between two such events.
agrees() {
	"$RUNNEL" report --json "$dir/trace.json" >"$dir/report" 2>"$dir/err" || complain 'the report fails'
	awk '/^    in .* ms, kernels / { own = $2 + $5 + $8 }
		/"(copies_in|kernels|copies_out)_ns": / { sub(/,/, ""); seen += $2 / 1e6 }
		END { exit !(own > 0 && (own > seen ? own - seen : seen - own) <= 0.03 * own) }' \
		"$dir/out" "$dir/report"
}
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	works --repeat=2 --chunks=24 --chunk=1M --workers=3 --trace="$dir/trace.json"
	agrees && break
done
agrees || complain 'the trace does not agree with rnl_map_start()'
works --repeat=2 --chunks=9 --chunk=1M --order=copies --trace="$dir/trace.json"
prints "^rnl_map, copies first, traced to .*trace\.json:\$"
ends 'traces a run, whose overlap is the one that the program measures'

# ---- mistakes ---------------------------------------------------------------
for bad in '' 0 3 1001 x 2G 1KB -4; do
	refuses "'$bad' is not good for --chunk: give a multiple of 4" --chunk="$bad"
done
refuses "'1048577' is not good for --chunks: give a number from 1 to 1048576" --chunks=1048577
refuses "'legacy' is not good for --stream: give per-thread|private" --stream=legacy
refuses "--halo=1025 is more than a chunk has" --halo=1025 --chunk=4K
refuses "'both' is not good for --order: give chunk|copies" --order=both
refuses "'some' is not good for --callbacks: give dense|sparse" --callbacks=some
refuses '--trace has an empty argument' --trace=
refuses "overlap: option '--pageable' doesn't allow an argument" --pageable=1
ends 'refuses mistakes, by their name'

gives 1 --device=cuda:999
says "no GPU answers as 'cuda:999': use --device=host"
gives 1 --device="$device" --chunks=1 --chunk=4K --repeat=1 --trace=/no/such/directory/t.json
says 'overlap: /no/such/directory/t.json: '
gives 1 --device="$device" --chunks=1 --chunk=4K --repeat=1 --trace=/dev/null
says 'overlap: /dev/null: a trace is written to a regular file'
gives 1 --device="$device" --chunks=1048576 --chunk=1024M
says 'page-locked: out of memory (try fewer --chunks)'
fails_on_full_disk --device="$device" --chunks=1 --repeat=1
ends 'says what failed'

has_options chunks chunk workers stream device order pageable in-place halo callbacks rounds repeat trace
ends 'helps'
done_testing
