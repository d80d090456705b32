#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/gwc over MPI, with one to four ranks, against the system's wc: the same output, the
# same messages, the same exit status.
#
# env: GWC         the program (examples/gwc/gwc), which executes gwc_mpi in the same folder
#      RNL_TEST_DEVICE  the device that the program uses (host)
#      SEED        the seed of the random data
#
# devices: host cuda
program=${GWC:-examples/gwc/gwc} theirs=wc
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/ranks.sh"
. "$(dirname "$0")/../lib/coreutils.sh"

nr_ranks=2
ours() {
	# shellcheck disable=SC2086  # flags are words
	ranks $nr_ranks "$program" --mpi --device="$device" $flags "$@"
}
messages() {	# messages FILE: without names of programs, and without mpirun's own words
	sed -n "s/^$theirs: //p; s/^$program_name: //p" "$1"
}
alike() {	# alike ARG...: like `same`, and also compares the messages
	same "$@"
	messages "$dir/err.theirs" >"$dir/want"
	messages "$dir/err" >"$dir/out"
	cmp -s "$dir/want" "$dir/out" || complain "messages of $flags $*" "$dir/want" "$dir/out"
}

printf 'one two\nthree\n' >text
printf 'no newline at the end' >open
: >empty
printf '\n\n\n' >newlines
printf '   \t \v\f\r ' >blanks
random 3000 '' >bytes
random 3000 '040 141 012 001 200 011 377' >mixed
random 3000 '001 001 001 001 001 001 001 001 040 141 200' >neutral
printf 'Gr\303\274\303\237e \342\200\203 aus\302\240\346\227\245\346\234\254\n' >utf8
cat bytes mixed utf8 neutral >"$dir/block"
for i in 1 2 3 4 5 6 7 8 9; do cat "$dir/block" "$dir/block" "$dir/block" "$dir/block"; done >large
cat large large large large large large large large large >larger
mkdir directory

# ---- counts -------------------------------------------------------------------
all='text open empty newlines blanks bytes utf8 mixed larger neutral missing large directory text'
for nr_ranks in 1 2 3 4; do
	flags=
	[ "$nr_ranks" = 1 ] || flags="--shard=64K --chunk=1000"
	# shellcheck disable=SC2086
	alike $all
done
ends 'counts with 1, 2, 3 and 4 ranks, behind files that cannot be read, too'
does_not_compute

nr_ranks=2
for flags in --shard=1 --shard=17 '--shard=1000 --chunk=300'; do
	same mixed neutral text bytes utf8 open empty blanks
done
flags='--shard=64K --workers=3 --producers=3'
same -c larger
flags=
ends 'cuts text anywhere'

nr_ranks=3
for rule in printable nonspace; do
	"$program" --device="$device" --word-rule=$rule bytes mixed neutral large >"$dir/want"
	want=$?
	ours --shard=5000 --word-rule=$rule bytes mixed neutral large >"$dir/out" 2>"$dir/err"
	got=$?
	compare "$rule"
done
ends 'has both rules for words'

nr_ranks=4
mkdir many
i=0
while [ $i -lt 2500 ]; do	# more than a shard takes, for each of four kinds
	i=$((i + 1))
	case $((i % 5)) in 0) : ;; 1) echo "$i words in it" ;; 2) printf 'open' ;; *) echo ;; esac >many/$i
done
find many missing directory large -print0 2>/dev/null >tree
for o in '' -lw; do
	# shellcheck disable=SC2086
	alike $o --files0-from=tree
done
flags='--shard=2000'
alike --files0-from=tree
flags=
ends 'counts a tree of small files'

# ---- inputs --------------------------------------------------------------------
# mpirun passes standard input, whatever its type, to rank 0 through a pipe. MPICH's mpirun ends if
# it has read much more than rank 0 has taken.
nr_ranks=3
stdin=text
same_piped -w
same_piped text - open - large
stdin=mixed
flags='--shard=1000 --chunk=100'
same_piped - - large -
flags=
stdin=/dev/null
mkfifo fifo fifo2
fed large fifo text fifo2 directory
[ ! -r /proc/version ] || same /proc/version large /proc/filesystems
[ ! -r /proc/self/mem ] || alike text /proc/self/mem large
ends 'reads standard input, pipes, and files that do not know their size, by rank 0'

ours --files0-from=missing >"$dir/out" 2>"$dir/err" && complain 'status without a list'
says "$program_name: cannot open 'missing' for reading: No such file or directory"
[ ! -w /dev/full ] || {
	nr_ranks=2
	"$program" --mpi text >/dev/full 2>"$dir/err" && complain 'status on a full disk'
	says "$program_name: standard output: No space left on device"
}
chmod 000 open
alike large open text
[ "$(id -u)" = 0 ] || says "$program_name: open: Permission denied"
chmod 644 open
ends 'tells errors as wc does'

# Rank 1 runs in another folder, with other files. Rank 0 waits for the fifo until rank 1 has
# reached the last file, which is a fifo in that folder. So rank 1 takes all shards.
cp text last
mkdir elsewhere elsewhere/larger
cp text elsewhere
mkfifo elsewhere/last
flags=--shard=1M
for files in 'text larger last' 'larger missing last'; do
	cat text >fifo &
	cat text >elsewhere/last &
	# shellcheck disable=SC2086
	(ln -s ../fifo elsewhere/fifo && cd elsewhere && wc fifo $files; rm fifo) \
		>"$dir/want" 2>"$dir/err.theirs"
	wait
	{ cat text >elsewhere/last; cat text; } >fifo &
	# shellcheck disable=SC2086
	ranks 1 "$program" --mpi --device=host $flags fifo $files : -n 1 \
		sh -c 'cd elsewhere && exec "$0" "$@"' "$program" --mpi --device=host >"$dir/out" 2>"$dir/err"
	got=$? want=1
	wait
	compare "$files with a rank elsewhere"
	messages "$dir/err.theirs" >"$dir/want"
	messages "$dir/err" >"$dir/out"
	cmp -s "$dir/want" "$dir/out" || complain "messages of $files elsewhere" "$dir/want" "$dir/out"
done
flags=
ends "tells another rank's errors as wc does"

# ---- ranks ---------------------------------------------------------------------
# Jobs of one byte make a rank slow.
cat larger larger >slow
ranks 1 "$program" --mpi --stats --device=host --shard=16K slow : \
	-n 1 "$program" --mpi --device=host --chunk=1 --producers=1 >"$dir/out" 2>"$dir/err"
got=$?
wc slow >"$dir/want"
want=0 cmp -s "$dir/want" "$dir/out" || complain 'output beside a slow rank' "$dir/want" "$dir/out"
[ "$got" = 0 ] || complain "status beside a slow rank: $got"
says 'counted:  '
shards() { sed -n "s/^rank $1: .*; \([0-9]*\) of [0-9]* shards, .*/\1/p" "$dir/err"; }
of=$(sed -n 's/^rank 0: .* of \([0-9]*\) shards.*/\1/p' "$dir/err")
[ "${of:-0}" -gt 30 ] && [ $(($(shards 0) + $(shards 1))) = "$of" ] || complain 'shards of both ranks'
[ "$(shards 1)" -lt $((of / 4)) ] || complain "the slow rank took $(shards 1) of $of shards"
ends 'gives a slow rank less'

# On the double of CUDA's runtime. No kernel runs, because it would need the program's own runtime.
double=$(dirname "$program")/../../tests/fake_cudart
on_gpus() {	# on_gpus RANKS ORDINALS ARG...: with two GPUs, the ranks use these devices
	nr_ranks=$1 ordinals=$2
	shift 2
	FAKE_CUDART=devices=2 LD_LIBRARY_PATH=$double ranks "$nr_ranks" "$program" --mpi --stats "$@" /dev/null \
		>"$dir/out" 2>"$dir/err"
	got=$(sed -n 's/^rank [0-9]: .*, cuda:\([0-9]\), .*/\1/p' "$dir/err" | tr -d '\n')
	[ "$got" = "$ordinals" ] || complain "GPUs of the ranks with $*: $got, not $ordinals"
}
if [ -e "$double/libcudart.so" ]; then
	on_gpus 3 010
	on_gpus 2 01 --device=cuda
	on_gpus 2 11 --device=cuda:1
	ends 'gives the ranks of a host its GPUs in turn'
fi

{ cat text; sleep 30; } >fifo &
feeder=$!
ranks 1 "$program" --mpi --device=host fifo large : \
	-n 1 "$program" --mpi --device=cuda:777 >"$dir/out" 2>"$dir/err"
got=$?
[ $got != 0 ] && [ $got != 124 ] || complain "status when a rank has no device: $got"
says "$program_name: no GPU answers as 'cuda:777'"
# shellcheck disable=SC2016  # the rank's own $$
ranks 1 "$program" --mpi --device=host fifo large : \
	-n 1 sh -c 'echo $$ >pid; exec "$0" "$@"' "$program" --mpi --device=host >"$dir/out" 2>"$dir/err" &
job=$!
while [ ! -s pid ] && kill -0 $job; do sleep 0.1; done
sleep 1
kill -KILL "$(cat pid)"
wait $job
got=$?
[ $got != 0 ] && [ $got != 124 ] || complain "status when a rank is killed: $got"
kill $feeder 2>/dev/null
wait
ends 'ends, when a rank does'

"$program" --mpi --device=host --shard=1000 text missing large >"$dir/out" 2>"$dir/err"
got=$?
"$theirs" text missing large >"$dir/want" 2>/dev/null
want=$?
compare 'a rank without mpirun'
says "$program_name: missing: No such file or directory"
refuses "'0' is not good for --shard" --mpi --shard=0 text
refuses '--shard is for --mpi' --shard=1M text
ends 'works without mpirun, and has options'
done_testing
