#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/gwc against the system's wc: the same counts in the same columns, and the same
# exit status.
#
# env: GWC        the program (examples/gwc/gwc)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#      SEED        the seed of the random data
#
# devices: host cuda
program=${GWC:-examples/gwc/gwc} theirs=wc small='--chunk=1000 --producers=4'
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/coreutils.sh"

counts() {	# counts OUTPUT ARG...: gwc prints OUTPUT
	want=0
	printf '%s' "$1" >"$dir/want"
	shift
	ours "$@" <"$stdin" >"$dir/out" 2>"$dir/err"
	got=$?
	compare "$flags $*"
}

# ---- counts -------------------------------------------------------------------
printf 'one two\nthree\n' >text
printf 'no newline at the end' >open
: >empty
printf '\n\n\n' >newlines
printf '   \t \v\f\r ' >blanks
random 3000 '' >bytes
random 3000 '040 141 012 001 200 011 377' >mixed
random 3000 '001 001 001 001 001 001 001 001 040 141 200' >neutral
i=0
while [ $i -lt 256 ]; do	# every byte separately, in a word and between spaces
	b=$(printf '%03o' $i)
	# shellcheck disable=SC2059
	printf "a\\$b" >>inside
	# shellcheck disable=SC2059
	printf "b \\$b c" >>between
	# shellcheck disable=SC2059
	printf "\\$b" >"byte.$b"
	i=$((i + 1))
done
for n in 16383 16384 16385 32768 40001; do random $n '040 141 012 001 142' >"piece.$n"; done
cat bytes mixed neutral piece.* inside >"$dir/block"
for i in 1 2 3 4 5 6 7; do cat "$dir/block" "$dir/block" "$dir/block" "$dir/block"; done >large
cat large large text >larger
mkdir directory


same text open empty newlines blanks
same bytes mixed neutral inside between
same large larger
ends 'counts text, blanks, empty files and binary data'
same byte.*
ends 'classifies all 256 bytes as the system wc does'
same piece.*
[ "$device" != host ] || for f in piece.*; do stdin=$f; same_piped; same "$f"; done
stdin=/dev/null
ends 'counts files around the size of a piece'

texts='bytes mixed neutral inside between larger blanks'
[ "$device" = host ] || texts='bytes larger'
for rule in printable nonspace; do
	for f in $texts; do
		if [ $rule = printable ]; then
			tr -d '\000-\010\016-\037\177-\377' <$f
		else
			tr -c '\011-\015\040' a <$f
		fi | wc -w >"$dir/count"
		counts "$(cat "$dir/count") $f
" --word-rule=$rule -w $f
	done
done
ends 'has both rules for words'

borders='1 2 3 7 15 16 17 31 33 64 100 1000 16K 1M'
[ "$device" = host ] || borders='1 17 16K'
for chunk in $borders; do	# one text, cut in many ways
	flags="--chunk=$chunk --producers=1"
	same mixed neutral text bytes open
	flags="--chunk=$chunk --producers=3 --workers=3"
	same mixed neutral text bytes open empty piece.16385
	stdin=neutral
	same_piped - text
	stdin=/dev/null
done
ends 'cuts text anywhere'

flags='--workers=1 --producers=4 --chunk=300'
same byte.* text byte.* mixed byte.* larger byte.* directory missing byte.*
flags='--workers=4 --producers=2'
same byte.* text byte.* mixed byte.* larger byte.* directory missing byte.*
flags=
ends 'keeps the order of many files'
does_not_compute

find /usr/include /usr/share/common-licenses "$OLDPWD/src" -type f -print0 2>/dev/null | head -z -n 3000 >tree
for o in '' -lw -c --chunk=10K; do
	wc ${o%--*} --files0-from=tree >"$dir/want" 2>/dev/null
	want=$?
	ours $o --files0-from=tree >"$dir/out" 2>"$dir/err"
	got=$?
	compare "$o of a tree"
done
ends 'counts a tree of files'

# ---- columns and inputs --------------------------------------------------------
for o in '' -l -w -c -lw -lc -wc -cl -lwc '--lines --words' --bytes '--bytes -l'; do
	# shellcheck disable=SC2086
	for files in text 'text empty' 'large larger' 'empty empty' directory 'text directory' \
		- '- text' '' missing 'missing text' 'text missing' '/dev/null text' 'missing directory'; do
		same $o $files
	done
done
ends 'has the columns of wc in its widths'

for stdin in text large; do
	same
	same - -
	same text - open -
	same_piped
	same_piped -l - -
	same_piped text - open -
done
flags='--chunk=1000 --producers=4'
same_piped - - -
same - text -
flags=
stdin=directory
same
stdin=/dev/null
rest=$({ dd bs=1 count=4 of=/dev/null 2>/dev/null; ours; } <text | tr -s ' ')
[ "$rest" = ' 2 2 10' ] || complain "all counts behind an offset: $rest"
ends 'reads standard input'

[ ! -r /proc/version ] || { same -c /proc/version; same -lw /proc/version text; }
reads_odd_files 'reads files that do not know their size, and read errors'

mkfifo fifo fifo2
fed fifo text fifo2
fed -l fifo2 fifo
flags='--chunk=10K --producers=4'
fed text fifo text fifo2 text
flags=
ends 'reads several pipes in turn'

# Both programs first call stat() for all files, then read the fifo. So the command changes the
# second file after its stat() and before it is read.
changed() {	# changed COMMAND FLAG...
	command=$1
	shift
	for run in wc gwc; do
		rm -rf changing
		cp large changing
		if [ $run = wc ]; then
			wc fifo changing text >"$dir/want" 2>/dev/null &
		else
			ours --producers=1 "$@" fifo changing text >"$dir/out" 2>"$dir/err" &
		fi
		pid=$!
		{ eval "$command"; } >fifo
		wait $pid
		status=$?
		if [ $run = wc ]; then want=$status; else got=$status; fi
	done
	compare "$command $*"
}
for flag in --chunk=1M --chunk=64K --chunk=5000; do
	changed 'head -c 70001 larger >changing' $flag
	changed ': >changing' $flag
	changed 'rm changing' $flag
	changed 'rm changing; mkdir changing' $flag
done
ends 'counts files that shrink or go while it reads'

# ---- lists of names ----------------------------------------------------------------
printf 'text\0open\0larger\0' >list
printf 'text\0open' >list.open
printf 'a b\0a\nb\0missing\0directory\0text\0' >list.odd
cp text 'a b'
i=0
while [ $i -lt 300 ]; do printf 'text\0open\0mixed\0'; i=$((i + 1)); done >list.long
for list in list list.open list.odd list.long empty /dev/null missing directory; do
	for o in '' -l; do
		# shellcheck disable=SC2086
		same $o --files0-from=$list
	done
done
for list in list list.open list.odd empty; do
	wc --files0-from=- <$list >"$dir/want" 2>/dev/null
	status=$?
	ours --files0-from=- <$list >"$dir/out" 2>"$dir/err"
	[ $? = $status ] || complain "status of $list from standard input"
	cmp -s "$dir/want" "$dir/out" || complain "$list from standard input" "$dir/want" "$dir/out"
done
printf 'text\0-\0' | ours --files0-from=- >"$dir/out" 2>"$dir/err" && complain 'a - in a list from standard input'
[ ! -s "$dir/out" ] || complain 'it counts nevertheless'
says "gwc: '-' is not allowed in a list that comes from standard input"
refuses "'text' is unexpected: the names are in the file of --files0-from" --files0-from=list text
ends 'reads lists of names'

# A newline makes wc quote a name and its other special characters. wc 9.1 is wrong if a name has a
# single quote and ends with a control character.
mkdir quoted
i=1
while [ $i -lt 256 ]; do
	c=$(printf '\\%03o' $i)
	case $i in 39 | 47) ;; *)
		# shellcheck disable=SC2059
		for n in "a\\nb$c" "$c\\n" "\\n$c$c" "$c\\n${c}1" "$c'\\n'${c}1" "\\001$c\\n"; do
			printf "quoted/$n\\0"
		done
	esac
	i=$((i + 1))
done >list.quoted
xargs -0 touch -- <list.quoted
cp text "$(printf 'quoted/\nz')"
for o in '' -l; do
	same $o --files0-from=list.quoted
	same $o "$(printf 'a\nb')" text
	same $o -- "$(printf '\n')" "$(printf "quoted/'\n'")"
done
ends 'quotes names with newlines as wc does'

printf 'text\0\0open\0\0' >list.empty
printf '\0' >list.one
for o in '' -l; do
	for list in list.empty list.one; do
		same $o --files0-from=$list
	done
	same $o ''
	same $o text ''
	same $o '' '' text
done
gives 1 --device=host --files0-from=list.empty
says 'gwc: list.empty:2: invalid zero-length file name'
says 'gwc: list.empty:4: invalid zero-length file name'
gives 1 --device=host '' text
says 'gwc: invalid zero-length file name'
prints ' text$'
ends 'names the place of an empty name, and goes on'

# ---- errors, options ------------------------------------------------------------
goes_on_behind_errors

same text -l
same -l -- text
counts ' 2  3 14 text
' --dev=host --line --words --bytes --chun=7 text
for bad in 0 x 1T 2G 2000M 99999999999999999999M 0K K; do
	refuses "'$bad' is not good for --chunk" --chunk=$bad text
done
refuses "'x' is not good for --producers: give a number from 1 to 16" --producers=x text
refuses "'x' is not good for --word-rule: give printable|nonspace" --word-rule=x text
gives 1 "$(printf 'no\033[31m')"
says 'gwc: no?[31m: '
gives 1 "$(printf 'no\302\23331m')"
says 'gwc: no??31m: '
! grep -q "$(printf '\302\233')" "$dir/err" || complain 'a terminal obeys the message'
gives 1 --device=cuda:777 text
says "no GPU answers as 'cuda:777': use --device=host"
gives 0 --device=host --stats text larger
says 'device:   host (no GPU), '
says 'jobs:     '
if [ "$device" = host ]; then
	gives 0 --device=host:3 --workers=6 text larger
	wc text larger | cmp -s - "$dir/out" || complain 'three devices count otherwise'
	gives 1 --device=host:3 --workers=2 text
	says 'nr_workers is 2; "host:3" has 3 devices, and each needs a worker'
fi
has_options lines words bytes files0-from device workers producers chunk word-rule mpi shard stats
ends 'has options, and tells mistakes in them'

# A copy without gwc_mpi next to it.
cp "$program" "$dir/$program_name"
build=$(dirname "$program")/../..
LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$dir/$program_name" --mpi text >"$dir/out" 2>"$dir/err"
got=$?
[ $got = 2 ] || complain "status of --mpi without MPI: $got, not 2"
says "gwc: --mpi needs $dir/gwc_mpi, which is built where configure finds MPI: No such file or directory"
[ "$(wc -l <"$dir/err")" = 1 ] && [ ! -s "$dir/out" ] || complain '--mpi without MPI says more'
! ldd "$program" | grep -q libmpi || complain 'gwc links MPI'
ends 'says what --mpi needs, in a line'

reports_bad_descriptors

# The output is more than a pipe holds, and the reader ends before it is written.
status=$(
	{
		trap '' PIPE
		set --
		i=0
		while [ $i -lt 1500 ]; do set -- "$@" ./././././././././././././././././text; i=$((i + 1)); done
		ours "$@" 2>"$dir/err"
		echo $? >&3
	} 3>"$dir/status" | :
	cat "$dir/status"
)
[ "$status" = 1 ] || complain "status without a reader: $status"
says 'gwc: standard output: Broken pipe'
ends 'reports a broken pipe'

rm -f "$dir/out"
sleep 300 >fifo &
feeder=$!
"$program" --device=host text fifo >"$dir/out" 2>"$dir/err" &
pid=$!
until [ -s "$dir/out" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -INT $pid 2>/dev/null
kill -TERM $pid	# SIGINT may have no effect, because a shell makes background jobs ignore it
wait $pid 2>/dev/null
[ $? = 143 ] || complain 'status after a signal'
kill $feeder
prints 'text$'
ends 'ends by a signal while it waits for a pipe'

# The progress line is printed after 0.1 s, so a fast machine needs a longer file.
if has_terminal; then
	for mb in 64 512 4096; do
		truncate -s "${mb}M" "$dir/long"
		on_terminal "'$program' --device=$device '$dir/long'"
		! grep -qE '^counting ' "$dir/out" || break
	done
	prints '^counting +[#.]{30} +[0-9]+ % +[0-9.]+ MB/s +[0-9]+ s left'
	# The line is erased before the counts are printed.
	sed 's/.*\x1b\[K//' "$dir/screen" | grep -qE "^ *0 +0 +$((mb * 1048576)) $dir/long" || complain 'the counts'
	rm -f "$dir/long"
	ends 'shows percent, rate and time left on a terminal'
fi

done_testing
