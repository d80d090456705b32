#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/buckets over MPI, with two to four ranks: its sums; ranks that die, hang, or never start.
#
# env: BUCKETS    the program (examples/buckets/buckets)
#      RNL_TEST_DEVICE  the device of the ranks (host); on GPUs, one for each rank
#      MPICC a compiler, to build a wrong all-reduce
#
# devices: host cuda
program=${BUCKETS:-examples/buckets/buckets}
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/ranks.sh"
most=4 by=MPI_Iallreduce
if [ "$device" != host ]; then
	[ "${have_NCCL:-yes}" = yes ] || skip_all 'buckets has no GPUs: configure found no NCCL'
	most=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') by=NCCL
	[ "$most" -ge 2 ] || skip_all "two ranks need two GPUs, and here are $most"
	[ "$most" -le 4 ] || most=4
fi
late=$((5 * ${RNL_TEST_SCALE:-1}))
# On a busy machine ranks start late, and may wait long for a CPU.
start=--start=$((120 * ${RNL_TEST_SCALE:-1})) timeout=--timeout=$((120 * ${RNL_TEST_SCALE:-1}))
small="--device=$device --bucket=64K --buckets=4 --rounds=2 --repeat=2 $start $timeout"
n='[0-9]+\.[0-9]+'
over() {	# over NR ARG...: runs NR ranks
	nr_ranks=$1
	shift
	ranks "$nr_ranks" "$program" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
}
succeeds() { [ $got = 0 ] || complain "status of $1: $got"; }
fails_in_time() {	# fails_in_time WHAT: not by ranks()'s time limit, which gives 124
	[ $got != 0 ] && [ $got != 124 ] || complain "status of $1: $got"
}

# ---- the work ------------------------------------------------------------------
for nr_wanted in 2 3 4; do
	[ $nr_wanted -le "$most" ] || continue
	for o in '' --naive --bucket=4M; do
		# shellcheck disable=SC2086
		over $nr_wanted $small $o
		succeeds "$nr_wanted ranks, $o"
		prints "^ranks:      $nr_wanted, 1 in each of $nr_wanted processes: ."
		prints ", 2 rounds of computing, added up by $by\$"
		prints "^naive +$n ms\$"
		[ "$o" = --naive ] || prints "^overlapped +$n ms, $n times as fast as naive\$"
		rows 1 "^Every sum of $nr_wanted ranks is right: 4 buckets, of each run\.\$"
		silent "$nr_wanted ranks, $o"
	done
done
# shellcheck disable=SC2086
over 2 $small --compute=500 --rounds=7 --svg="$dir/b.svg"
succeeds 'a picture'
rows 1 "^The timeline is in $dir/b\.svg\.\$"
[ "$(grep -c '<title>all-reduce of bucket [0-3]: ' "$dir/b.svg")" = 8 ] || complain 'bars of all-reduces'
# shellcheck disable=SC2086
over 1 $small
succeeds 'one rank'
# shellcheck disable=SC2086
"$program" --mpi $small >"$dir/out" 2>"$dir/err" || complain "status without mpirun: $?"
ends 'adds up the buckets of 2, 3 and 4 ranks, and checks every sum'

# ---- ranks that do not start, or die -----------------------------------------------
work="--device=$device --bucket=1M --repeat=99 --buckets=64 --rounds=20 $start --timeout=$late"
catches_term() {	# catches_term PID: the process has a handler for SIGTERM: bit 14 of SigCgt
	mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status")
	[ $((0x0${mask} >> 14 & 1)) = 1 ]
}
# others SIGNAL: prints the messages of two ranks after a third rank got the signal
others() {
	rm -f "$dir/pid"
	# mpirun kills a rank this many seconds after SIGTERM; a busy rank needs more than 1 s for
	# its message. shellcheck disable=SC2086,SC2016 # the rank's own $$
	OMPI_MCA_odls_base_sigkill_timeout=10 PRTE_MCA_odls_base_sigkill_timeout=10 \
		ranks 2 "$program" $work : -n 1 sh -c 'echo $$ >"$1"; shift; exec "$@"' - "$dir/pid" "$program" $work \
		>"$dir/out" 2>"$dir/err" </dev/null &
	job=$!
	until grep -q '^buckets: ' "$dir/out" || ! kill -0 $job; do sleep 0.1; done
	# Rank 0 may get here before the other rank has its handler.
	until catches_term "$(cat "$dir/pid")" || ! kill -0 $job; do sleep 0.1; done
	kill -"$1" "$(cat "$dir/pid")"
	wait $job
	got=$?
	fails_in_time "SIG$1"
	for rank in 0 1; do
		grep -q "^buckets: rank $rank: ." "$dir/err" || complain "rank $rank says nothing of SIG$1"
	done
}
if [ "$most" -ge 3 ]; then
	others KILL
	others STOP
	grep -qE "^buckets: rank [01]: nothing has moved for $late s, waiting for " "$dir/err" ||
		complain 'nobody has noticed a rank that hangs'
	others TERM
	says 'buckets: rank 2: ended by SIGTERM: another rank has failed, or someone stops mpirun'
	ends 'ends all ranks, with a message of each, when one dies or hangs'
fi

# shellcheck disable=SC2086
ranks 1 "$program" $work --start=$late : -n 1 sleep 300 >"$dir/out" 2>"$dir/err" </dev/null
got=$?
fails_in_time 'a rank that never comes'
says "buckets: nothing has moved for $late s, waiting for MPI to start all ranks: another rank has died, hangs, or never came (--start=SECONDS)"
# Here a rank initialises MPI, but does not join the other ranks.
if command -v "${MPICC:=mpicc}" >/dev/null && [ -z "${sanitizer:-}" ]; then
	cat >"$dir/late.c" <<'IN'
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	sleep(300);
	return 0;
}
IN
	"$MPICC" -o "$dir/late" "$dir/late.c" 2>"$dir/err" || complain 'the rank that is late does not build'
	# shellcheck disable=SC2086
	ranks 1 "$program" $work : -n 1 "$dir/late" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	fails_in_time 'a rank that stays behind'
	says "buckets: rank 0: nothing has moved for $late s, waiting for "
fi
ends 'ends when a rank never comes'

# ---- mistakes --------------------------------------------------------------------
# shellcheck disable=SC2086
ranks 1 "$program" $small : -n 1 "$program" $small --buckets=5 >"$dir/out" 2>"$dir/err" </dev/null
got=$?
fails_in_time 'different options'
says "buckets: this rank's options or devices differ from rank 0's"
over 2 --buckets=0
[ $got = 2 ] || complain "status of a wrong option: $got"
says "'0' is not good for --buckets"
over 2 --device=host:2
fails_in_time 'two devices'
says 'buckets: host:2: under mpirun a process has one host device'
# shellcheck disable=SC2086
over 2 $small --svg="$dir/nowhere/b.svg"
fails_in_time 'a picture nowhere'
says "buckets: $dir/nowhere/b.svg: No such file or directory"
[ ! -w /dev/full ] || {
	ln -s /dev/full "$dir/full.svg"
	# shellcheck disable=SC2086
	over 2 $small --svg="$dir/full.svg"
	fails_in_time 'a full disk'
	says "buckets: $dir/full.svg: No space left on device"
	[ ! -e "$dir/full.svg.part" ] || complain 'a half-written picture is left'
}
ends 'says what failed'

# An all-reduce that computes the maximum instead of the sum.
cat >"$dir/wrong.c" <<'IN'
#include <mpi.h>

int MPI_Iallreduce(const void *from, void *to, int nr, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
		   MPI_Request *request)
{
	return PMPI_Iallreduce(from, to, nr, type, op == MPI_SUM ? MPI_MAX : op, comm, request);
}
IN
if [ "$by" = MPI_Iallreduce ] && [ -z "${sanitizer:-}" ] &&
	"$MPICC" -shared -fPIC -o "$dir/wrong.so" "$dir/wrong.c" 2>/dev/null; then
	# shellcheck disable=SC2086
	ranks 2 env LD_PRELOAD="$dir/wrong.so" "$program" $small >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	fails_in_time 'wrong sums'
	grep -qE '^buckets: rank [01], naive: word [0-9]+ of bucket [0-3] is [0-9]+, and its serial sum is [0-9]+$' "$dir/err" ||
		complain 'wrong sums are not noticed'
	ends 'notices wrong sums'
fi
done_testing
