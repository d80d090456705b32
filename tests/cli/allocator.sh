#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/allocator: its table, its options, its messages; and the command lines that are accepted
# and refused by common/options.c, which all examples share.
#
# env: ALLOCATOR  the program (examples/allocator/allocator)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host cuda
program=${ALLOCATOR:-examples/allocator/allocator}
. "$(dirname "$0")/../lib/harness.sh"
needs_device --requests=1 --repeat=1
allocates_nothing() {	# allocates_nothing ARG...: the runs with rnl_scratch() allocate no memory
	works --repeat=2 "$@"
	prints "^device calls during rnl_scratch's runs: 0, as it should be\$"
}
n='[0-9]+\.[0-9]+'
row=" +$n +[0-9]+ +-?$n \( *-?$n %\)\$"

# ---- the work ----------------------------------------------------------------
allocates_nothing --requests=300 --workers=2 --max=64K
prints '^device: .*, 2 workers$'
prints '^requests: +300, 4096 to 65536 bytes each \(--seed=1\), 64 in flight$'
prints '^times: +medians of 2 runs, every reply checked$'
if [ "$device" = host ]; then
	prints "^malloc, free$row"
	prints '^cudaMallocAsync, cudaFreeAsync +- +- +-$'
else
	prints "^cudaMalloc, cudaFree$row"
	prints "^cudaMallocAsync, cudaFreeAsync$row"
fi
prints "^rnl_scratch +$n +[0-9]+\$"
ends 'prints the ways'

counts='1 63 64 65 200'
[ "$device" = host ] || counts=65	# a GPU starts slowly
for requests in $counts; do
	allocates_nothing --requests=$requests --seed=$requests --workers=1 --max=10k
	allocates_nothing --requests=$requests --seed=18446744073709551615 --workers=7
done
ends 'takes any number of requests'

allocates_nothing --requests=200 --min=1 --max=1
allocates_nothing --requests=200 --min=1 --max=5000
allocates_nothing --requests=200 --min=4097 --max=4097
allocates_nothing --requests=6 --min=1M --max=80M	# more than a worker keeps by default
prints '^requests: +6, 1048576 to 83886080 bytes each'
ends 'takes memory of any size'

# ---- mistakes ---------------------------------------------------------------
for bad in '' 0 -1 x 1x 1K 1000000001 99999999999999999999 ' 1'; do
	refuses "'$bad' is not good for --requests: give a number from 1 to 1000000000" \
		--requests="$bad"
done
for bad in '' 0 -1 x 2G 1KB 1025M 99999999999999999999K; do
	refuses "'$bad' is not good for --max: give a number from 1 to 1073741824, optionally" --max="$bad"
done
refuses '--min=65536 is more than --max=4096' --min=64K --max=4K
refuses '--min=8388608 is more than --max=4194304' --min=8M
refuses "'65' is not good for --workers: give a number from 1 to 64" --workers=65
refuses "'18446744073709551616' is not good for --seed: give a number from 0 to" \
	--seed=18446744073709551616
for bad in gpu cuda: cuda:x ''; do
	refuses "'$bad' is not good for --device: give auto, cuda, cuda:N or host" --device="$bad"
done
refuses "'file' is unexpected: give only options" file
refuses "allocator: unrecognized option '--what'" --what
refuses "allocator: option '--max' requires an argument" --max
ends 'refuses mistakes, by their name'

gives 1 --device=cuda:999
says "no GPU answers as 'cuda:999': use --device=host"
fails_on_full_disk --device="$device" --requests=1 --repeat=1
fails_on_full_disk --help
ends 'says what failed'

has_options requests workers min max seed device repeat
ends 'helps'
done_testing
