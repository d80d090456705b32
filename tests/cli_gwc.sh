#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/gwc against the system's wc: output, diagnostics and exit status.
#
# env: GWC        the program (examples/gwc)
#      RNL_TEST_DEVICE  where it counts (host); what has nothing to do with
#                  counting is tried on the host device, which starts at once
#      SEED        of the random data
set -u
export LC_ALL=C
unset POSIXLY_CORRECT
GWC=${GWC:-examples/gwc}
device=${RNL_TEST_DEVICE:-host}
case $GWC in
/*) ;;
*) GWC=$PWD/$GWC ;;
esac
[ -x "$GWC" ] || { echo "there is no $GWC"; exit 1; }
if ! wc --version 2>/dev/null | grep -q 'GNU coreutils'; then
	echo 'SKIP: wc is not that of GNU coreutils'
	exit 77
fi
if ! "$GWC" --device="$device" /dev/null >/dev/null 2>&1; then
	[ "$device" = host ] || { echo "SKIP: gwc has no device $device here"; exit 77; }
fi
seed=${SEED:-$$}
echo "# wc: $(wc --version | sed 1q); device $device; SEED=$seed"

top=$(mktemp -d "${TMPDIR:-/tmp}/gwc.XXXXXX") || exit 1
trap 'rm -rf "$top"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$top/in" "$top/out"
cd "$top/in" || exit 1
out=$top/out

# ---- the harness -------------------------------------------------------------
nr=0
wrong=0		# of the checks since the last test ended
on=host		# the device
flags=		# more for gwc
stdin=/dev/null

ends() {	# ends NAME: all checks since the last one were the test NAME
	nr=$((nr + 1))
	if [ $wrong = 0 ]; then echo "ok $nr - $1"; else echo "not ok $nr - $1"; fi
	wrong=0
}
complain() {	# complain TEXT [FILE FILE]
	wrong=$((wrong + 1))
	[ $wrong -le 5 ] || return 0
	echo "# $1"
	[ $# = 1 ] || diff -a "$2" "$3" | sed -n '1,8s/^/#   /p'
}
gwc() {
	# shellcheck disable=SC2086  # flags are words
	"$GWC" --device=$on $flags "$@"
}
as_wc() {	# the two programs' names; 9.1 and 9.5 word a write error differently
	sed "s/^gwc:/wc:/; s/'gwc --help'/'wc --help'/; s/^\(wc: write error\):.*/\1/" "$1" >"$1.wc"
}
compare() {	# compare WHAT: $out/want.* and $out/got.*, and the statuses
	as_wc "$out/want.err"
	as_wc "$out/got.err"
	cmp -s "$out/want.out" "$out/got.out" ||
		complain "output of $1" "$out/want.out" "$out/got.out"
	cmp -s "$out/want.err.wc" "$out/got.err.wc" ||
		complain "diagnostics of $1" "$out/want.err.wc" "$out/got.err.wc"
	[ "$want" = "$got" ] || complain "status of $1: wc $want, gwc $got"
}
same() {	# same ARG...: gwc does what wc does, with standard input from $stdin
	wc "$@" <"$stdin" >"$out/want.out" 2>"$out/want.err"
	want=$?
	gwc "$@" <"$stdin" >"$out/got.out" 2>"$out/got.err"
	got=$?
	compare "$flags $*"
}
same_piped() {	# the same, with $stdin coming through a pipe
	# shellcheck disable=SC2002  # a pipe it shall be
	cat "$stdin" | wc "$@" >"$out/want.out" 2>"$out/want.err"
	want=$?
	# shellcheck disable=SC2002
	cat "$stdin" | gwc "$@" >"$out/got.out" 2>"$out/got.err"
	got=$?
	compare "$flags $* in a pipe"
}
gives() {	# gives STATUS OUTPUT ARG...: what wc would do is known
	want=$1
	printf '%s' "$2" >"$out/want.out"
	shift 2
	gwc "$@" <"$stdin" >"$out/got.out" 2>"$out/got.err"
	got=$?
	cp "$out/got.err" "$out/want.err"
	compare "$flags $*"
}
says() {	# says STATUS TEXT ARG...: on standard error
	want=$1 text=$2
	shift 2
	gwc "$@" <"$stdin" >"$out/got.out" 2>"$out/got.err"
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
	grep -qF -- "$text" "$out/got.err" ||
		{ complain "$* does not say: $text"; sed 's/^/#   /' "$out/got.err"; }
}
random() {	# random BYTES ALPHABET-IN-OCTAL...: of all bytes without one
	awk -v seed="$seed" -v n="$1" -v set="$2" 'BEGIN {
		srand(seed)
		m = split(set, alphabet, " ")
		while (n-- > 0) {
			if (m)
				printf "\\%s", alphabet[1 + int(rand() * m)]
			else
				printf "\\%03o", int(rand() * 256)
		}
	}' >"$out/octal"
	seed=$((seed + 1))
	# shellcheck disable=SC2059  # the format is the data
	printf "$(cat "$out/octal")"
}

# ---- what is counted -----------------------------------------------------------
printf 'one two\nthree\n' >text
printf 'no newline at the end' >open
: >empty
printf '\n\n\n' >newlines
printf '   \t \v\f\r ' >blanks
random 3000 '' >bytes
random 3000 '040 141 012 001 200 011 377' >mixed
random 3000 '001 001 001 001 001 001 001 001 040 141 200' >neutral
i=0
while [ $i -lt 256 ]; do	# every byte alone, in a word and between spaces
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
cat bytes mixed neutral piece.* inside >"$out/block"
for i in 1 2 3 4 5 6 7; do cat "$out/block" "$out/block" "$out/block" "$out/block"; done >large
cat large large text >larger
mkdir directory

on=$device
same text open empty newlines blanks
same bytes mixed neutral inside between
same large larger
ends 'counts text, blanks, empty files and binary data'
same byte.*
ends 'classifies all 256 bytes as the system wc does'
for f in piece.*; do stdin=$f; same_piped; same "$f"; done
stdin=/dev/null
ends 'counts files around the size of a piece'

for rule in printable nonspace; do
	for f in bytes mixed neutral inside between larger blanks; do
		if [ $rule = printable ]; then
			tr -d '\000-\010\016-\037\177-\377' <$f
		else
			tr -c '\011-\015\040' a <$f
		fi | wc -w >"$out/count"
		gives 0 "$(cat "$out/count") $f
" --word-rule=$rule -w $f
	done
done
ends 'has both rules for words'

borders='1 2 3 7 15 16 17 31 33 64 100 1000 16K 1M'
[ "$device" = host ] || borders='1 3 16 17 100 16K'
# The same text, cut in each of these ways.
for chunk in $borders; do
	flags="--chunk=$chunk --producers=1"
	same mixed neutral text bytes open
	flags="--chunk=$chunk --producers=3 --workers=3"
	same mixed neutral text bytes open empty piece.16385
	stdin=neutral
	same_piped - text
	stdin=/dev/null
done
flags=
ends 'cuts text anywhere'

flags='--workers=1 --producers=4 --chunk=300'
same byte.* text byte.* mixed byte.* larger byte.* directory missing byte.*
flags='--workers=4 --producers=2'
same byte.* text byte.* mixed byte.* larger byte.* directory missing byte.*
flags=
ends 'keeps the order of many files'
on=host

# ---- columns -------------------------------------------------------------------
for o in '' -l -w -c -m -lw -lc -wc -cl -cml -mw -lwcm '-c -c' '--lines --words' \
	--bytes --chars '--chars -l' --l --li --w --wor --word --b --c --ch; do
	# shellcheck disable=SC2086
	for files in text 'text empty' 'large larger' 'empty empty' directory 'text directory' \
		- '- text' '' missing 'missing text' 'text missing' '/dev/null text' \
		'missing missing' 'missing directory'; do
		same $o $files
	done
done
ends 'has the columns of wc in its widths'

stdin=text
same
same -
same -l
same - -
same text - open -
same -l - -
same_piped
same_piped -
same_piped -c
same_piped - -
same_piped -c - -
same_piped text - open -
stdin=large
same
same -lw -
same_piped text -
flags='--chunk=1000 --producers=4'
same_piped - - -
same - text -
flags=
stdin=directory
same
same -c
stdin=/dev/null
same - -
ends 'reads standard input'

# Where wc 9.1 is wrong: with -c it leaves the offset of standard input where it
# was, and miscounts behind an offset if the size is a multiple of the page's.
stdin=text
gives 0 '14 -
 0 -
14 total
' -c - -
both=$({ gwc -c; gwc -c; wc -c; } <text | tr '\n' ' ')
[ "$both" = '14 0 0 ' ] || complain "three counts of one input: $both"
rest=$({ dd bs=1 count=4 of=/dev/null 2>/dev/null; gwc -c; } <text)
[ "$rest" = 10 ] || complain "the bytes behind an offset: $rest"
rest=$({ dd bs=1 count=4 of=/dev/null 2>/dev/null; gwc; } <text | tr -s ' ')
[ "$rest" = ' 2 2 10' ] || complain "all counts behind an offset: $rest"
dd if=/dev/zero of=pages bs=65536 count=1 2>/dev/null
rest=$({ dd bs=100 count=1 of=/dev/null 2>/dev/null; gwc -c; } <pages)
[ "$rest" = 65436 ] || complain "the bytes behind an offset, whole pages: $rest"
stdin=/dev/null
same -c pages large
same -m pages larger text
ends 'counts standard input from where it is'

if [ -r /proc/self/mem ]; then
	same /proc/version text
	same -c /proc/version
	same /proc/version
	same /proc/self/mem text
	for f in /sys/kernel/mm/transparent_hugepage/enabled /sys/devices/system/cpu/online; do
		[ ! -r $f ] || { same $f; same -c $f; same -lw $f text; }
	done
	ends 'reads files that do not know their size, and read errors'
fi

mkfifo fifo fifo2
fed() {	# fed ARG...: as same, both fifos being fed
	for program in wc gwc; do
		cat larger >fifo &
		cat text >fifo2 &
		if [ $program = wc ]; then
			wc "$@" >"$out/want.out" 2>"$out/want.err"
			want=$?
		else
			gwc "$@" >"$out/got.out" 2>"$out/got.err"
			got=$?
		fi
		wait
	done
	compare "$* from fifos"
}
fed fifo text fifo2
fed -l fifo2 fifo
fed -c fifo fifo2 text
flags='--chunk=10K --producers=4'
fed text fifo text fifo2 text
flags=
ends 'reads several pipes in turn'

# ---- files that change ---------------------------------------------------------
# Both programs look at all files first, then read the fifo: so what is done to
# the second file before the fifo ends comes between the look and the reading.
changed() {	# changed COMMAND FLAG...
	command=$1
	shift
	for program in wc gwc; do
		rm -rf changing
		cp large changing
		if [ $program = wc ]; then
			wc fifo changing text >"$out/want.out" 2>"$out/want.err" &
		else
			gwc --producers=1 "$@" fifo changing text >"$out/got.out" \
				2>"$out/got.err" &
		fi
		pid=$!
		{ eval "$command"; } >fifo
		wait $pid
		status=$?
		if [ $program = wc ]; then want=$status; else got=$status; fi
	done
	compare "$command $*"
}
for flag in --chunk=1M --chunk=64K --chunk=5000; do
	changed 'cat larger >>changing' $flag
	changed 'printf x >>changing' $flag
	changed 'head -c 70001 larger >changing' $flag
	changed ': >changing' $flag
	changed 'rm changing' $flag
	changed 'rm changing; mkdir changing' $flag
done
ends 'counts files that grow, shrink or go while it reads'

# ---- names -----------------------------------------------------------------------
nl='
'
tab='	'
for name in 'a b' 'a:b' "it's" "it's \$" "new${nl}line" "col:on${nl}" 'a"b' 'back\slash' '#a' 'a#' '~' \
	'{' '{}' 'a=b' 'a?' '[x]' "${tab}tab" "a'?" "'" '!' "$(printf 'caf\303\251')" \
	"$(printf '\001x')" '-' '%s' 'a;b' "\$HOME" '*'; do
	cp text "./$name"
	same -- "./$name"
	same -- "./$name" text
	rm -f "./$name"
	same -- "./$name"
	same -- "$name"
done
same ''
same '' text
same -l ''
ends 'quotes names as wc does'

same missing
same missing text
same directory
same -c directory
same directory text
same text/below text
wc text missing directory open >"$out/want.out" 2>&1
gwc text missing directory open 2>&1 | sed 's/^gwc:/wc:/' >"$out/got.out"
cmp -s "$out/want.out" "$out/got.out" ||
	complain 'order of output and diagnostics' "$out/want.out" "$out/got.out"
chmod 000 open
same open text
chmod 644 open
ends 'goes on behind missing files and directories'

# ---- lists of names ----------------------------------------------------------------
printf 'text\0open\0larger\0' >list
printf 'text\0open' >list.open
printf 'text\0\0missing\0-\0directory\0' >list.odd
printf 'text' >list.one
printf '\0' >list.nothing
printf 'a\nb\0' >list.newline
i=0
while [ $i -lt 300 ]; do printf 'text\0open\0mixed\0'; i=$((i + 1)); done >list.long
for list in list list.open list.odd list.one list.nothing list.newline list.long empty /dev/null \
	missing directory; do
	for o in '' -l -lw; do
		# shellcheck disable=SC2086
		same $o --files0-from=$list
		[ $list = missing ] || [ $list = directory ] || {
			stdin=$list
			# shellcheck disable=SC2086
			same_piped $o --files0-from=-
			# shellcheck disable=SC2086
			same $o --files0-from=-
			stdin=/dev/null
		}
	done
done
stdin=text
same --files0-from=list.odd
stdin=/dev/null
same --files0-from=list text
same --files0-from=list 'a b'
same --files0-from list -l
same --f=missing --files0-from=list
same --files0-from=
flags=--chunk=10
stdin=list.odd
same_piped --files0-from=-
stdin=/dev/null
flags=
ends 'reads lists of names'

# ---- totals (coreutils 9.2) -----------------------------------------------------------
gives 0 ' 2  3 14 text
' --total=auto text
gives 0 ' 2  3 14 text
 0  5 21 open
 2  8 35 total
' --total=auto text open
gives 0 ' 2  3 14 text
 2  3 14 total
' --total=always text
gives 0 '2 text
2 total
' --total=always -l text
gives 0 '2 3 14
' --total=only text
gives 0 '2 8 35
' --total=only text open
gives 0 '35
' --tot=o -c text open
gives 0 ' 2  3 14 text
 0  5 21 open
' --total=never text open
gives 0 ' 2  3 14 text
 0  5 21 open
' --total=n text open
gives 1 '2 3 14
' --total=only text missing
gives 1 '0 0 0
' --total=only missing directory
stdin=text
gives 0 '2 3 14
' --total=only
gives 0 ' 2  3 14
 2  3 14 total
' --total=always
stdin=/dev/null
gives 0 '0 0 0 total
' --total=always --files0-from=empty
gives 0 '' --total=auto --files0-from=empty
says 1 "gwc: invalid argument 'sometimes' for '--total'" --total=sometimes text
says 1 "gwc: ambiguous argument 'a' for '--total'" --total=a text
says 1 "  - 'always'" --total= text
says 1 "gwc: option '--total' requires an argument" --total
if wc --total=auto /dev/null >/dev/null 2>&1; then
	for when in auto always only never au al o n x a ''; do
		for files in text 'text open' '' '- text' missing 'missing text' 'directory text'; do
			# shellcheck disable=SC2086
			same --total=$when $files
			# shellcheck disable=SC2086
			same -l --total=$when $files
		done
	done
fi
ends 'has totals as coreutils 9.2'

# ---- options -----------------------------------------------------------------------------
same text -l
same text -lw open -c
same -l -- text -w
same -lw -x text
same -lwx text
same --bogus
same --words=3 text
same --lines= text
same --files0-from
same --bogus=1 -l
same -
same -- -
same --
same --li --wo text
export POSIXLY_CORRECT=1
same -l text -w
same -l -- text
unset POSIXLY_CORRECT
ends 'takes options as getopt_long does'

gives 0 ' 2  3 14 text
' --dev=host --wor --lines --bytes --chun=7 text
for bad in 0 -1 x '' 65 1.5 99999999999999999999; do
	says 1 "gwc: '$bad' is not good for --workers: give a number from 1 to 64" --workers="$bad"
done
for bad in 0 x 1T 2G 2000M 99999999999999999999M 0K K; do
	says 1 "gwc: '$bad' is not good for --chunk" --chunk=$bad text
done
says 1 'give a number' --producers=x text
says 1 'give printable or nonspace' --word-rule=x text
says 1 "gwc: 'gpu' is not good for --device: give auto, cuda, cuda:N or host" --device=gpu text
says 1 "no GPU answers as 'cuda:777': use --device=host" --device=cuda:777 text
says 1 "Try 'gwc --help' for more information." --workers=x text
[ -s "$out/got.out" ] && complain 'output though an option is wrong'
says 1 "option '--workers' requires an argument" --workers
says 0 'device:  ' --stats text
says 0 'in flight at once' --stats text larger
ends 'has options of its own, and says what is wrong with them'

for o in --help --version --he --vers '--help --bogus' '-l --help text'; do
	# shellcheck disable=SC2086
	gwc $o >"$out/got.out" 2>"$out/got.err" || complain "status of $o"
	[ -s "$out/got.out" ] || complain "$o prints nothing"
	[ ! -s "$out/got.err" ] || complain "$o complains"
done
ends 'has help and a version'

# ---- nowhere to write ---------------------------------------------------------------------
full() {	# full ARG...: as same, with standard output full
	wc "$@" >/dev/full 2>"$out/want.err"
	want=$?
	gwc "$@" >/dev/full 2>"$out/got.err"
	got=$?
	: >"$out/want.out"
	: >"$out/got.out"
	compare "$* >/dev/full"
}
if [ -c /dev/full ]; then
	full text
	full text missing open
	full missing
	full -l large larger
	"$GWC" --help >/dev/full 2>"$out/got.err" && complain 'status of --help >/dev/full'
	grep -q '^gwc: write error' "$out/got.err" || complain '--help >/dev/full says nothing'
	ends 'reports a full disk'
fi
closed() {	# closed ARG...: as same, with standard output closed
	wc "$@" >&- 2>"$out/want.err"
	want=$?
	gwc "$@" >&- 2>"$out/got.err"
	got=$?
	: >"$out/want.out"
	: >"$out/got.out"
	compare "$* >&-"
}
closed text
closed text missing
closed missing
closed_input() {	# the same of standard input
	wc "$@" <&- >"$out/want.out" 2>"$out/want.err"
	want=$?
	gwc "$@" <&- >"$out/got.out" 2>"$out/got.err"
	got=$?
	compare "$* <&-"
}
closed_input
closed_input - text
closed_input text
closed_input -c -
closed_input --files0-from=-
ends 'goes on without standard input or output'

# More lines than a pipe holds, and nobody reads: the reader is gone for certain.
status=$(
	{
		trap '' PIPE
		set --
		i=0
		while [ $i -lt 1500 ]; do set -- "$@" ./././././././././././././././././text; i=$((i + 1)); done
		gwc "$@" 2>"$out/got.err"
		echo $? >&3
	} 3>"$out/status" | :
	cat "$out/status"
)
[ "$status" = 1 ] || complain "status when nobody reads: $status"
grep -q '^gwc: write error' "$out/got.err" || complain 'no word of the broken pipe'
ends 'reports a broken pipe'

echo "1..$nr"
