#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/bench/bench, the program of make bench, works; speed is not tested.
program=tests/bench/bench
. "$srcdir/tests/bench/quick.sh"

gives 0 --quick --runs=1 --only=runnel,mutex
silent
rows 1 '^bench: runnel [0-9.]+ on host \(host\), medians of 1 run, [0-9]+ CPUs, load [0-9.]+ at the start'
table 2 'an empty job, (1 x 1|2 x 2)' ns "$v" "$n" "$v"
table 2 'voluntary switches for 1000 jobs, (1 x 1|2 x 2)' '' "$v" "$n" "$v"
table 8 'submit to (start|return)(, 1 ms later)?, p(50|99), 1 worker' us "$v" "$n" "$v"
table 2 '(burst of 64 jobs of 2 us, p50|fork and join of 16 jobs), 2 workers' us "$v" "$n" "$v"
table 1 'the same by the ideal, 2 workers' x "$v" "$n" "$v"
table 1 'the same, for each job, 2 workers' ns "$v" "$n" "$v"
table 3 'a pool of (4|64|1024) workers, resident' KB "$v" "$n" "$v"
table 3 'a pool of (4|64|1024) workers, addresses' MB "$v" "$n" "$v"
table 1 'a submit, all workers busy' ns "$v" "$n" "$v"
table 1 'a submit while the workers take jobs' ns "$v" "$n" "$v"
table 1 'a taker is preempted, the others wait at most' us "$v" "$n" "$v"
table 1 'jobs that the preempted taker takes' k "$v" "$n" "$v"
table 3 '32 classes, (4|64|1024) workers' KB "$n" "$n" "$v"
table 10 'pinned get and put of (4 KB|1 MB) by threads, (1|2|4|8|16)' ns "$n" "$n" "$v"
rows 13 ' device_calls \+[0-9]+ \|$'
table 6 '(empty jobs|rnl_scratch|the same, the whole|two looks).*' ns "$n" "$n" "$v"
table 1 'told behind functions of 5 ms, late by' ms "$n" "$n" "$v"
table 2 'a (cancelled job|deadline), all workers busy, late by' ms "$n" "$n" "$v"
table 2 'the same, with a key' ms "$n" "$n" "$v"
table 1 'a delayed job, late by, p99' us "$v" "$n" "$v"
rows 0 '(GLib|libuv|oneTBB|OpenMP|wfcq)'
rows 1 '^bench: 51 lines in [0-9]+ s$'
ends 'prints every row'

gives 0 --quick --runs=1 --rows=throughput --configs=3x2 --all
rows 1 '^\| an empty job, 3 x 2 '
for variant in 'runnel +rnl_submit' 'runnel +rnl_submit_many' 'peer +mutex \+ condvar' \
	'peer +GLib GThreadPool' 'peer +libuv uv_queue_work' 'peer +oneTBB task_group' \
	'peer +OpenMP task' 'ceiling +bare cds_wfcq \+ futex'; do
	grep -qE "^${variant#* +}: not built, " "$dir/out" || rows 2 "^    $variant +[0-9.]+  [0-9.]+ to [0-9.]+\$"
done
sed -n 's/^\(.*: not built\), /# \1: /p' "$dir/out"
gone=$(sed -n 's/: not built, .*//p' "$dir/out" | sed -n '1s/ .*//p' | tr '[:upper:]' '[:lower:]')
if [ "$gone" ]; then
	gives 1 --quick --rows=throughput --only="${gone#one}"
	says 'bench: throughput: there is nothing to measure'
fi
ends 'measures all peers that are built, and names the others'

gives 0 --quick --runs=2 --rows=feed --threads=2 "$srcdir/Makefile" "$srcdir/README.md"
table 1 'read into pinned memory' GB/s "$n" "$v" "$n"
table 1 'copy to the device' GB/s "$n" "$v" "$n"
gives 1 --quick --rows=feed /nonexistent/file
says 'bench: /nonexistent/file: '
ends 'reads files into pinned memory'

# wrong HOW TEXT PEER...: a peer's job TEXT runs twice or never; this is reported, without a figure
wrong() {
	how=$1 text=$2
	shift 2
	for peer; do
		gives 1 --quick --rows=throughput --only="$peer" --wrong="$how"
		says "bench: $peer: job $text of 20000 ran "
		rows 0 '^\| an empty job'
	done
}
wrong twice 0 runnel runnel_many mutex
wrong lost 19999 runnel runnel_many mutex wfcq
ends 'a job that runs twice, or never, is an error and no figure'

# Eight parts of empty jobs, each with two lines.  The peer wfcq, a queue, cannot wait.
json 16 40 2 --quick --runs=2 --rows=throughput,handoff,return,burst,forkjoin --only=runnel,mutex,wfcq

refuses --jobs 'give a number from 64 to 100000000' 100000001 63
refuses --configs 'give workers x producers, from 1 to 64' '' 1 1x 0x1 1x0 x1 65x1 1x65 1x1, ,1x1 1x1x1 1-1 \
	1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1,1x1
refuses --workers 'give a number from 1 to 64' 65
refuses --latency-workers 'give a number from 1 to 64' 0
refuses --only 'see --list and --help for its names' '' qt
refuses --wrong 'give result, twice or lost' maybe
refuses --device 'give host, cuda or cuda:N' '' fpga cuda: cuda:x
both_refuse 17 13
done_testing
