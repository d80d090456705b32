#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/buckets in one process: its sums, its report, its picture, its options, its messages.
#
# env: BUCKETS    the program (examples/buckets/buckets; on the double tests/doubles/buckets)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#      have_NCCL  no: configure did not find NCCL
#
# devices: host fake cuda
if [ "${RNL_TEST_FAKE:-}" ] && [ "${have_NCCL:-yes}" != yes ]; then
	echo 'SKIP: the double of NCCL is not built: configure found no NCCL'
	exit 77
fi
program=${BUCKETS:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/buckets ||
	echo examples/buckets/buckets)}
. "$(dirname "$0")/../lib/harness.sh"
[ "$device" = host ] || [ "${have_NCCL:-yes}" = yes ] || skip_all 'buckets has no GPUs: configure found no NCCL'
if [ "$device" = host ]; then device=host:2 nr=2 by=adds; else device=cuda:all nr='[0-9]+' by=NCCL; fi
[ -z "$fake" ] || { export FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}devices=3"; nr=3; }
timeout=--timeout=$((10 * ${RNL_TEST_SCALE:-1}))
small="--bucket=64K --buckets=4 --rounds=2 --repeat=1 $timeout"
# shellcheck disable=SC2086  # options are words
needs_device $small
n='[0-9]+\.[0-9]+'
nr_ranks=$nr nr=0	# the harness counts tests in nr
reports() {	# reports BUCKETS [RANKS]
	for way in computing reducing naive; do prints "^$way +$n ms\$"; done
	prints "^overlapped +$n ms, $n times as fast as naive\$"
	prints "^limit +$n ms, (all computing and the last all-reduce|the first computing and all all-reduces)\$"
	prints "^Every sum of ${2:-$nr_ranks} ranks is right: $1 buckets, of each run\.\$"
}

# ---- the work ------------------------------------------------------------------
# shellcheck disable=SC2086
works $small
prints "^ranks:      $nr_ranks, $nr_ranks in each of 1 process: ."
prints "^buckets:    4 of 0\.0625 MiB, 2 rounds of computing, added up by $by"
reports 4
ends 'adds up buckets while the next are computed, and checks every sum'

# shellcheck disable=SC2086
for o in --buckets=1 --buckets=2 --buckets=256 --bucket=4K --bucket=4100K --repeat=4 --rounds=1; do
	works $small $o
done
works --bucket=64K --buckets=5 --compute=3000 --repeat=1 $timeout
prints '^buckets:    5 of 0\.0625 MiB, [0-9]+ rounds? of computing, '
reports 5
# shellcheck disable=SC2086
works $small --naive
prints "^naive +$n ms\$"
prints_not '^overlapped'
prints_not '^by hand'
ends 'takes any number of buckets, of any size, and reduces at the end'

if [ "$by" = adds ]; then
	for ranks in 1 3 16; do
		# shellcheck disable=SC2086
		gives 0 $small --device=host:$ranks
		reports 4 $ranks
	done
	# shellcheck disable=SC2086
	gives 0 $small --device=host
	reports 4 1
	ends 'has as many ranks as host devices'
else
	# shellcheck disable=SC2086
	works $small --by-hand
	prints "^by hand +$n ms, of which overlapped takes $n %\$"
	reports 4
	ends 'measures the same without runnel'
fi

# shellcheck disable=SC2086
works $small --svg="$dir/b.svg"
names_colours "$dir/b.svg"
prints "^The timeline is in $dir/b\.svg\.\$"
case $by$nr_ranks in adds2) want='16 8' ;; NCCL3) want='24 24' ;; *) want= ;; esac
for bars in ${want:+"${want% *} computing bucket" "${want#* } all-reduce of bucket"}; do
	[ "$(grep -c "<title>${bars#* } [0-3]: " "$dir/b.svg")" = "${bars%% *}" ] || complain "bars of ${bars#* }"
done
for text in naive overlapped 'rank 0'; do
	grep -q ">$text</text>" "$dir/b.svg" || complain "there is no $text"
done
if python3 -c '' 2>/dev/null; then
	python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/b.svg" 2>"$dir/err" ||
		complain 'the picture is no XML'
fi
ends 'draws a timeline'

# ---- mistakes ------------------------------------------------------------------
for bad in 0 257 x; do
	refuses "'$bad' is not good for --buckets: give a number from 1 to 256" --buckets=$bad
done
for bad in 0 4095 51M 4097 -1; do
	refuses "'$bad' is not good for --bucket: give a multiple of 4096 up to 52428800" --bucket=$bad
done
refuses "'0' is not good for --timeout: give a number from 1 to 3600" --timeout=0
refuses "'3601' is not good for --start: give a number from 1 to 3600" --start=3601
refuses "'0' is not good for --repeat: give a number from 1 to 99" --repeat=0
for bad in gpu cuda: cuda:x host: host:1,2 host:all; do
	refuses "'$bad' is not good for --device: give auto, cuda, cuda:N, cuda:N,N,..., cuda:all, or host:N" --device=$bad
done
refuses '--by-hand is for GPUs, with NCCL' --by-hand --device=host:2
refuses '--svg draws naive and overlapped runs: leave --naive out' --naive --svg=x
refuses "'x' is unexpected: give only options" x
ends 'refuses mistakes, by their name'

gives 1 --device=cuda:999
says "no GPU answers as 'cuda:999': use --device=host"
gives 1 --device=host:99
says 'host:99: '
# shellcheck disable=SC2086
gives 1 --device="$device" $small --svg="$dir/nowhere/b.svg"
says "$dir/nowhere/b.svg: No such file or directory"
[ ! -w /dev/full ] || {
	ln -s /dev/full "$dir/full.svg"
	# shellcheck disable=SC2086
	gives 1 --device="$device" $small --svg="$dir/full.svg"
	says "$dir/full.svg: No space left on device"
	[ ! -e "$dir/full.svg.part" ] || complain 'a half-written picture is left'
}
# shellcheck disable=SC2086
fails_on_full_disk --device="$device" $small
if [ "$fake" ]; then
	# shellcheck disable=SC2086
	for what in call later hangs wrong; do
		export FAKE_NCCL=$what
		[ $what = hangs ] || gives 1 --device=cuda:all $small --repeat=99
		case $what in
		call) says ': an error of the double: it was asked for' ;;
		later) says 'buckets: NCCL has failed: a rank is gone: it was asked for (waiting for ' ;;
		hangs)	# a busy machine may also compute for a second
			for limit in 1 10 100; do
				gives 1 --device=cuda:all $small --timeout=$limit
				! grep -q 'waiting for the all-reduce of bucket' "$dir/err" || break
			done
			says "nothing has moved for $limit s, waiting for the all-reduce of bucket "
			says ': another rank has died, hangs, or never came (--timeout=SECONDS)' ;;
		wrong) grep -qE '^buckets: rank 0, (naive|overlapped): word 7 of bucket [0-3] is [0-9]+, and its serial sum is [0-9]+$' "$dir/err" ||
			complain 'no message of a wrong sum' ;;
		esac
	done
	unset FAKE_NCCL
fi
ends 'says what failed, and leaves no half-written picture'

has_options buckets bucket compute rounds naive by-hand repeat start timeout mpi device svg
ends 'helps'
done_testing
