#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/bench/bench_gpu, the program of make bench-gpu, works; its speed is not tested. On the
# double of the CUDA runtime all rows run in full; on a GPU a part of each row.
[ "${have_CUDA:-yes}" = yes ] || { echo 'configured without CUDA'; exit 77; }
GPU=tests/bench/bench_gpu DOUBLE=tests/bench/bench_gpu_double program=$DOUBLE
. "$srcdir/tests/bench/quick.sh"
# On a busy machine all rows take longer than the default limit.
on_double() {
	LD_LIBRARY_PATH="$PWD/tests/fake_cudart" FAKE_CUDART="${FAKE-misuse=abort,junk}" "$DOUBLE" --seconds=1800 "$@"
}
program=on_double
# A double of MPS's control daemon, which also runs where there is a real one.
mkdir "$dir/bin"
cat >"$dir/bin/nvidia-cuda-mps-control" <<'END'
#!/bin/sh
mine=$CUDA_MPS_PIPE_DIRECTORY/commands
if [ "$1" = -f ]; then
	echo "begins $CUDA_MPS_PIPE_DIRECTORY" >>"$FAKE_MPS_LOG"
	[ -z "${FAKE_MPS_WHY:-}" ] || { echo "$FAKE_MPS_WHY"; exit 1; }
	mkfifo "$mine" && read -r command <"$mine" && echo "ends by $command" >>"$FAKE_MPS_LOG"
else
	read -r command
	[ -p "$mine" ] || { echo 'Cannot find the daemon'; exit 1; }
	case $command in quit) echo quit >"$mine" ;; *) echo 100.0 ;; esac
fi
END
chmod +x "$dir/bin/nvidia-cuda-mps-control"
real_path=$PATH FAKE_MPS_LOG=$dir/mps.log
export FAKE_MPS_LOG PATH="$dir/bin:$PATH"
daemon_ended() {	# the daemon was started and ends, and its folder is gone
	for _ in $(seq 600); do
		folder=$(sed -n 's/^begins //p' "$FAKE_MPS_LOG")
		[ "$folder" ] && grep -q '^ends by quit$' "$FAKE_MPS_LOG" && [ ! -e "$folder" ] && return
		sleep 0.1
	done
	complain 'the daemon does not end'
}
many() {	# many NR GPUS: --rows=devices, for NR numbers of GPUs, which match GPUS
	table $((2 * $1)) "J per second, $2 GPUs, (per-thread|private), 2 workers each" kJ/s "$v" "$n" "$v"
	table $((2 * $1)) "J of 4 KB, gathered, $2 GPUs, (per-thread|private), 2 workers each" kJ/s "$v" "$n" "$v"
	rows $((4 * $1)) '^\| J .* GPUs, .* [0-9.]+ \((graphs|loops), one GPU\), [0-9]+ % of linear, by hand [0-9]+ % \|$'
	table "$1" "chunks in, kernel, out; 4 workers each, $2 GPUs" GB/s "$n" "$v" "$v"
	table "$1" "requests of 4 KB, 8 producers each, $2 GPUs" k/s "$v" "$v" "$v"
	rows "$1" ' GPUs .* [0-9.]+ \(copies alone, one GPU\), [0-9]+ % of linear, by hand [0-9]+ % \|$'
	rows "$1" ' GPUs .* [0-9.]+ \(slabs of 1024, one GPU\), [0-9]+ % of linear, by hand [0-9]+ % \|$'
	table 2 'copies from the (first GPU to the second|second GPU to the first)' GB/s "$v" "$n" "$v"
	table 1 'join of 2 x 8 workers: what it costs its caller' us "$v" "$n" "$v"
	table 1 'the same: last end to next end, as the host sees' us "$v" "$n" "$v"
	rows 0 ': left out,'
}
all() {		# every row for one GPU is printed, with the figures that it compares
	table 4 'J per second, [12], (per-thread|private)' kJ/s "$v" "$n" "$v"
	table 2 'J per second, [12], private; a mutex pool' kJ/s "$v" "$n" "$v"
	table 24 'J of (1 KB|4 KB|16 KB|64 KB|256 KB|5 kernels and 4 sizes), gathered, [12], (per-thread|private)' kJ/s "$v" "$n" "$v"
	table 16 '(jobs of (10|30|100) kernels|J of 4 KB), replayed, [12], (per-thread|private)' kJ/s "$v" "$n" "$v"
	table 4 'requests of 4 KB, [48] producers( of 512)?' k/s "$v" "$v" "$v"
	table 4 'the same, each way' GB/s "$v" "$v" "$v"
	table 27 'a lone request, p(50|99|99.9); (64 B|1 KB|4 KB), (5 us|100 us|1 ms) apart' us "$v" "$n" "$v"
	table 18 'the first of a burst, p(50|99); (64 B|1 KB|4 KB), (5 us|100 us|1 ms) apart' us "$v" "$n" "$v"
	table 16 'a lone request under a flood, p(50|99); (64 B|4 KB), (0\.5|5) ms(, kept SMs)?' us "$v" "$n" "$v"
	table 8 'the flood, of its rate alone; (64 B|4 KB), (0\.5|5) ms(, kept SMs)?' % "$v" "$n" "$v"
	table 8 'requests that were answered resident; (64 B|4 KB), (0\.5|5) ms(, kept SMs)?' % "$n" "$n" "$v"
	table 3 'J per second and lone requests; (8|16|32) workers' kJ/s "$n" "$v" "$v"
	table 2 'copies in and lone requests; mailboxes: (1|16)' GB/s "$n" "$v" "$v"
	table 12 'J, (one by one|1 ms later), p(50|99)(; a mutex pool)?, (per-thread|private)' us "$v" "$n" "$v"
	table 1 'kernels of 5 ms in flight, 32 workers, mean' kernels "$v" "$v" "$v"
	table 1 'the same as CUDA is by default, mean' kernels "$v" "$n" "$n"
	table 1 'the same, at the most' kernels "$v" "$v" "$v"
	table 2 'urgent 10 us under a flood, p50, (per-thread|private)' us "$v" "$n" "$v"
	table 2 'the same, p99, (per-thread|private)' us "$v" "$n" "$v"
	table 2 'the same without priority, p50, (per-thread|private)' us "$v" "$n" "$n"
	table 9 'weights 3:1, (A.s part|the worst second.s|its distance from 75); A [0-9.]+ ms, B [0-9.]+ ms' % "$v" "$n" "$v"
	table 3 'weights 3:1, the GPU is busy; A [0-9.]+ ms, B [0-9.]+ ms' % "$v" "$n" "$v"
	table 1 'weights 4:2:1 of 0.5 ms, the worst is off by' % "$v" "$n" "$v"
	table 1 '16 equal classes of 0.2 ms, Jain.s index' '' "$v" "$n" "$v"
	table 8 'priority -4 under a flood, p(50|99); blocks (of [0-9.]+ ms|that never end)' us "$v" "$n" "$v"
	table 4 'the flood.s part of the GPU; blocks (of [0-9.]+ ms|that never end)' % "$v" "$n" "$v"
	table 2 'a foreground of 50 us,?( on kept SMs,)? alone, p99' us "$v" "$n" "$v"
	table 4 'the same beside blocks of 0\.0?5 ms, p(50|99)' us "$v" "$n" "$v"
	table 2 'the same,?( on kept SMs,)? p99 by that alone' x "$v" "$n" "$v"
	table 2 'overload, (kernels that fill the GPU|small kernels), accepted' % "$n" "$n" "$v"
	table 2 'of these( small ones)?, in time' % "$n" "$n" "$v"
	table 2 '(goodput by a scheduler that knows all times|their goodput by such a scheduler)' % "$n" "$n" "$v"
	table 4 '64 KB (in|out) beside large copies (in|out), p(50|99)' us "$v" "$n" "$v"
	table 2 'the large copies (in|out)' GB/s "$v" "$n" "$v"
	table 1 '4 GiB page-locked in advance' ms "$v" "$v" "$v"
	table 1 'join of 16 workers: what it costs its caller' us "$v" "$n" "$v"
	table 1 'the same: last end to next start' us "$v" "$n" "$v"
	table 1 '16 stages of 0.2 ms on two streams' ms "$v" "$n" "$v"
	table 3 'three stages of (50 us|0\.2 ms|1 ms), 32 items' ms "$v" "$n" "$v"
	table 2 'a held job, release to return, p(50|99)' us "$v" "$n" "$v"
	table 2 'the same without device work, p(50|99)' us "$v" "$n" "$v"
	table 1 'items of 4 \+ 3 \+ 1 jobs, fanned out' k/s "$v" "$n" "$v"
	table 1 'the same, one behind the other' k/s "$v" "$n" "$v"
	table 3 '(chains of 8|fans of 1 \+ 6 \+ 1|a stencil of 8 x 8), each kernel' us "$v" "$n" "$v"
	table 3 'submits, (8|16|32) workers' M/s "$n" "$n" "$v"
	table 3 'J per second, (8|16|32) workers, 4 producers' kJ/s "$v" "$n" "$v"
	table 2 'J per second, (1 process|4 processes)' kJ/s "$v" "$n" "$v"
	table 1 'CPU of an idle pool of 8 workers' '% core' "$v" "$n" "$v"
	table 1 'CPU for each of 8 workers that wait' '% core' "$v" "$n" "$v"
	table 1 'chunks in, kernel, out; 4 workers' ms "$v" "$v" "$v"
	table 1 'the same, times as fast as one stream' x "$v" "$n" "$v"
	table 6 'J per second, traced, (timing off|timing on|every job timed), [12]' kJ/s "$n" "$v" "$v"
	table 10 'pinned get and put of (4 KB|1 MB) by threads, (1|2|4|8|16)' ns "$n" "$n" "$v"
	table 6 '(empty jobs|rnl_scratch|the same, the whole|two looks).*' ns "$n" "$n" "$v"
	table 1 'told behind functions of 5 ms, late by' ms "$n" "$n" "$v"
	table 2 'a (cancelled job|deadline), all workers busy, late by' ms "$n" "$n" "$v"
	table 2 'the same, with a key' ms "$n" "$n" "$v"
	table 1 'a delayed job, late by, p99' us "$v" "$n" "$v"
}

gives 0 --quick
silent
rows 1 '^bench: runnel [0-9.]+ on .*, medians of 2 runs, '
all
table 1 'J per second, 4 processes under MPS' kJ/s "$v" "$n" "$v"
rows 1 '^devices: left out, it takes more GPUs$'
rows 1 '^bench: 260 lines in [0-9]+ s$'
daemon_ended
ends 'prints every row, on the double'

: >"$FAKE_MPS_LOG"
FAKE_MPS_WHY='no GPU here' gives 0 --quick --rows=processes
silent
rows 1 '^\| J per second, 4 processes .* \| under MPS: skipped, no GPU here \|$'
rows 1 '^bench: 2 lines in [0-9]+ s$'
: >"$FAKE_MPS_LOG"
gives 1 --quick --rows=processes --wrong=result
says 'bench: J number 1 in its memory: word 0 came out as 0x'
daemon_ended
: >"$FAKE_MPS_LOG"
LD_LIBRARY_PATH="$PWD/tests/fake_cudart" "$DOUBLE" --quick --rows=processes --runs=99 >"$dir/out" 2>"$dir/err" &
until [ -s "$FAKE_MPS_LOG" ]; do sleep 0.1; done
kill $!
wait $!
daemon_ended
ends 'several processes: without MPS says so; its daemon ends with the row, however that ends'

FAKE=devices=5,memory=1G,misuse=abort,junk gives 0 --quick --rows=devices
silent
many 2 '[24]'
rows 1 '^bench: 16 lines in [0-9]+ s$'
ends 'prints the row for 2 and 4 of 5 GPUs, on the double'

FAKE=devices=2,misuse=abort,junk gives 0 --quick --rows=devices --device=cuda:1 --workers=2
rows 1 '^bench: 10 lines in [0-9]+ s$'
FAKE=devices=3,misuse=abort,junk,strangers gives 0 --quick --rows=devices --workers=1 --gpus=3,16
silent
rows 6 '^\| .* 3 GPUs'
rows 1 '^bench: 10 lines in [0-9]+ s$'
FAKE=devices=2 gives 1 --quick --rows=devices --workers=1 --wrong=result
says 'bench: J number 1 in its memory: word 0 came out as 0x'
FAKE=misuse=abort gives 1 --quick --rows=batch,lone,chunks,preload --wrong=result
says 'bench: lone, part 1 of 1: it ended with status 1'
says 'bench: chunks: the right words: failed'
says 'bench: preload, part 1 of 1: it ended with status 1'
says 'bench: what the kernel was to make: failed'
ends 'begins with any GPU; needs no peers; finds what is wrong'

gives 0 --quick --rows=jobs --threads=2 --all
rows 2 '^    hand-written stream sync per job +[0-9.]+  [0-9.]+ to [0-9.]+$'
for mark in 10:event '8:event sync' 6:flag; do
	rows "${mark%%:*}" "^    hand-written ${mark#*:}/(1|8|32) d[0-9]+ "
done
rows 6 '^    other +(kernel on pinned memory|a graph each|cq, on pinned memory P1 q128) +[0-9.]+  [0-9.]+ to [0-9.]+$'
ends 'tries every hand-written variant'

PATH=$real_path "$GPU" --quick --seconds=1800 >"$dir/out" 2>"$dir/err" </dev/null
status=$?
if [ $status = 77 ]; then
	says 'bench: there is no device "cuda" here: '
	prints_nothing
	ends 'without a GPU says so'
elif [ -x "$GPU" ]; then
	[ $status = 0 ] || complain "status on a GPU: $status"
	all
	lines=259
	if ! grep -q 'under MPS: skipped' "$dir/out"; then
		table 1 'J per second, 4 processes under MPS' kJ/s "$v" "$n" "$v"
		lines=260
	fi
	if ! grep -q '^devices: left out' "$dir/out"; then
		numbers=$(grep -c '^| chunks .* GPUs' "$dir/out")
		many "$numbers" '[248]'
		lines=$((lines + 4 + 6 * numbers))
	fi
	rows 1 "^bench: $lines lines in [0-9]+ s\$"
	ends 'prints every row, on the GPU'
fi

json 5 12 3 --quick --runs=3 --rows=inflight,join

FAKE=fail=cudaMemcpyAsync:500:700 gives 1 --quick --rows=latency,join
says 'bench: latency, part 1 of 4: it ended with status 1'
rows 1 '^\| join of 16 workers: what it costs its caller '
ends 'a row that fails is told, and the others are measured'

# In the first row hand-written code finds the error first, in the second row runnel's producers do.
for row in jobs submit; do
	gives 1 --quick --wrong=result --threads=2 --rows=$row
	says 'bench: J number 1 in its memory: word 0 came out as 0x'
	rows 0 '^\| (J per second|submits)'
done
gives 1 --quick --seconds=1
says 'not begun, its seconds are over: 0'
ends 'a wrong result is an error and no figure; it comes to an end'

refuses --gpus 'give up to 16 numbers from 1 to 64' '' 0 2,
refuses --threads 'give up to 16 numbers from 1 to 64' '' 0 65 1, x 1x2
refuses --device 'give cuda or cuda:N' '' host cuda: cuda:x cuda:1x
both_refuse 17 39
done_testing
