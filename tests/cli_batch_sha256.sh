#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/batch_sha256 against the system's sha256sum, and against NIST's vectors.
#
# env: BATCH_SHA256  the program (examples/batch_sha256)
#      RNL_TEST_DEVICE  where it hashes (host); what has nothing to do with hashing is
#                  tried on the host device, which starts at once
#      SEED        of the random data
set -u
export LC_ALL=C
unset POSIXLY_CORRECT
PROGRAM=${BATCH_SHA256:-examples/batch_sha256}
device=${RNL_TEST_DEVICE:-host}
case $PROGRAM in
/*) ;;
*) PROGRAM=$PWD/$PROGRAM ;;
esac
[ -x "$PROGRAM" ] || { echo "there is no $PROGRAM"; exit 1; }
if ! sha256sum --version 2>/dev/null | grep -q 'GNU coreutils'; then
	echo 'SKIP: sha256sum is not that of GNU coreutils'
	exit 77
fi
if ! "$PROGRAM" --device="$device" /dev/null >/dev/null 2>&1; then
	[ "$device" = host ] || { echo "SKIP: batch_sha256 has no device $device here"; exit 77; }
fi
seed=${SEED:-$$}
echo "# sha256sum: $(sha256sum --version | sed 1q); device $device; SEED=$seed"

top=$(mktemp -d "${TMPDIR:-/tmp}/batch_sha256.XXXXXX") || exit 1
trap 'rm -rf "$top"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$top/in" "$top/out"
cd "$top/in" || exit 1
out=$top/out

# ---- the harness -------------------------------------------------------------
nr=0
wrong=0		# of the checks since the last test ended
on=host		# the device
flags=		# more for batch_sha256
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
batch_sha256() {
	# shellcheck disable=SC2086  # flags are words
	"$PROGRAM" --device=$on $flags "$@"
}
as_sha256sum() {	# the program's name; 9.1 and 9.5 word a write error differently
	sed 's/^batch_sha256:/sha256sum:/; s/^\(sha256sum: write error\):.*/\1/' "$1" >"$1.as"
}
compare() {	# compare WHAT: $out/want.* and $out/got.*, and the statuses
	as_sha256sum "$out/want.err"
	as_sha256sum "$out/got.err"
	cmp -s "$out/want.out" "$out/got.out" ||
		complain "output of $1" "$out/want.out" "$out/got.out"
	cmp -s "$out/want.err.as" "$out/got.err.as" ||
		complain "diagnostics of $1" "$out/want.err.as" "$out/got.err.as"
	[ "$want" = "$got" ] || complain "status of $1: sha256sum $want, batch_sha256 $got"
}
same() {	# same ARG...: it does what sha256sum does, with standard input from $stdin
	sha256sum "$@" <"$stdin" >"$out/want.out" 2>"$out/want.err"
	want=$?
	batch_sha256 "$@" <"$stdin" >"$out/got.out" 2>"$out/got.err"
	got=$?
	compare "$flags $*"
}
same_piped() {	# the same, with $stdin coming through a pipe
	# shellcheck disable=SC2002  # a pipe it shall be
	cat "$stdin" | sha256sum "$@" >"$out/want.out" 2>"$out/want.err"
	want=$?
	# shellcheck disable=SC2002
	cat "$stdin" | batch_sha256 "$@" >"$out/got.out" 2>"$out/got.err"
	got=$?
	compare "$flags $* in a pipe"
}
same_in_all_ways() {	# same_in_all_ways ARG...: parts of any size, with the batcher and without
	for flags in '' --part=64 --part=128 --part=4K --part=1M --one-by-one '--one-by-one --part=192' \
		'--workers=1 --part=1K' --workers=3; do
		same "$@"
	done
	flags=
}
says() {	# says STATUS TEXT ARG...: on standard error
	want=$1 text=$2
	shift 2
	batch_sha256 "$@" <"$stdin" >"$out/got.out" 2>"$out/got.err"
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
	grep -qF -- "$text" "$out/got.err" ||
		{ complain "$* does not say: $text"; sed 's/^/#   /' "$out/got.err"; }
}
refuses() {	# refuses TEXT ARG...: a wrong command line
	says 2 "$@"
	grep -qxF "Try 'batch_sha256 --help' for more information." "$out/got.err" ||
		complain "$* does not name --help"
	[ ! -s "$out/got.out" ] || complain "$* prints nevertheless"
}
random() {	# random BYTES: of all of them
	seed=$((seed + 1))
	awk -v seed="$seed" -v n="$1" 'BEGIN {
		srand(seed)
		while (n-- > 0)
			printf "\\%03o", int(rand() * 256)
	}' >"$out/octal"
	# shellcheck disable=SC2059  # the format is the data
	printf "$(cat "$out/octal")"
}
repeat() {	# repeat TIMES CHARACTER
	awk -v n="$1" -v c="$2" 'BEGIN { while (n-- > 0) printf "%s", c }'
}

# ---- vectors -------------------------------------------------------------------
# FIPS 180-4's examples, NIST's further ones, and some of CAVP's SHA256ShortMsg.rsp.
: >vectors
vector() {	# vector HASH: of standard input
	n=$(($(wc -l <vectors) + 1))
	cat >"vector.$n"
	echo "$1  vector.$n" >>vectors
}
printf '' | vector e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
printf abc | vector ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
printf abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq |
	vector 248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1
printf '%s%s' abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn \
	hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu |
	vector cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1
repeat 1000000 a | vector cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0
printf '\275' | vector 68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b
printf '\311\214\216\125' | vector 7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504
head -c 55 /dev/zero | vector 02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7
head -c 56 /dev/zero | vector d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb
head -c 57 /dev/zero | vector 65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785
head -c 64 /dev/zero | vector f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b
head -c 1000 /dev/zero | vector 541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53
repeat 1000 A | vector c2e686823489ced2017f6059b8b239318b6364f6dcd835d0a519105a1eadd6e4
repeat 1005 U | vector f4d62ddec0f3dd90ea1380fa16a5ff8dc4c54b21740650f24afc4120903552b0
head -c 1000000 /dev/zero |
	vector d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025
printf '\323' | vector 28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1
printf '\021\257' | vector 5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98
printf '\264\031\016' | vector dff2e73091f6c05e528896c4c831b9448653dc2ff043528f6769437bc7b975c2
printf '\164\272\045\041' | vector b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e

on=$device
for flags in '' --one-by-one '--part=64'; do
	# shellcheck disable=SC2046
	batch_sha256 $(sed 's/.* //' vectors) >"$out/got.out" 2>"$out/got.err" ||
		complain "status of the vectors, $flags"
	cmp -s vectors "$out/got.out" || complain "vectors, $flags" vectors "$out/got.out"
done
flags=
ends "hashes NIST's vectors"

# ---- files ---------------------------------------------------------------------
random 5000 >block
cat block block block block block block block block block block block block block block >blocks
for n in 0 1 3 4 31 32 55 56 57 59 60 63 64 65 111 112 119 120 127 128 129 4095 4096 4097 65535 65536 \
	65537; do
	head -c $n blocks >"size.$n"
done
for i in 1 2 3 4 5 6 7 8; do cat blocks blocks blocks blocks blocks blocks blocks blocks; done >large
head -c 3145728 large >larger
printf 'one two\nthree\n' >text
: >empty
mkdir directory

same size.*
for n in 0 1 55 56 64 65 65536; do same size.$n; done
same_in_all_ways size.* empty text
ends 'hashes files of any size around a block and a part'

same large larger
for flags in '' --one-by-one --part=1M '--workers=3 --part=4K'; do
	same larger size.1 large size.64 text larger larger size.65536
done
flags=
ends 'hashes large files beside small ones'

set --
i=0
while [ $i -lt 300 ]; do
	set -- "$@" size.$((55 + i % 3)) text size.64 empty missing size.129 size.4097 directory
	i=$((i + 1))
done
same "$@"
for flags in --one-by-one '--part=64 --workers=3'; do same "$@"; done
flags=
[ "$device" != host ] || (
	# shellcheck disable=SC3045  # where it is missing, there is a limit anyhow
	ulimit -n 24
	flags=--part=64
	same "$@"
	[ $wrong = 0 ]
) || complain 'with few descriptors'
ends 'keeps the order of many files, whatever each of them is'

if [ -r /proc/self/mem ]; then
	same /proc/version text
	same /proc/filesystems /proc/version
	same /proc/self/mem text
	for f in /sys/kernel/mm/transparent_hugepage/enabled /sys/devices/system/cpu/online; do
		[ ! -r $f ] || same $f
	done
	flags=--part=64
	same /proc/filesystems /proc/self/mem text
	flags=
	ends 'hashes files that do not know their size, and reports read errors'
fi

# ---- standard input and pipes ----------------------------------------------------
for flags in '' --one-by-one --part=64; do
	for stdin in text empty larger size.65536; do
		[ "$flags $stdin" != '--part=64 larger' ] || continue
		same
		same -
		same text - size.1
		same_piped
		same_piped - -
		same_piped size.65 - text
	done
	stdin=text
	same - -
	same - text - missing -
	stdin=directory
	same
	same - text
	stdin=/dev/null
	same
	same /dev/null - /dev/null
done
flags=
rest=$({ dd bs=1 count=4 of=/dev/null 2>/dev/null; batch_sha256; } <text)
[ "$rest" = "$(tail -c +5 text | sha256sum)" ] || complain "behind an offset: $rest"
ends 'reads standard input'

mkfifo fifo fifo2
fed() {	# fed ARG...: as same, both fifos being fed
	for program in sha256sum batch_sha256; do
		cat larger >fifo &
		cat text >fifo2 &
		if [ $program = sha256sum ]; then
			sha256sum "$@" >"$out/want.out" 2>"$out/want.err"
			want=$?
		else
			batch_sha256 "$@" >"$out/got.out" 2>"$out/got.err"
			got=$?
		fi
		wait
	done
	compare "$flags $* from fifos"
}
fed fifo text fifo2
fed large fifo2 larger fifo large
fed missing fifo2 fifo directory
flags=--one-by-one
fed text fifo larger fifo2 text
flags=
ends 'reads several pipes in turn'

# has_lines N: N lines are printed, without anybody ending the input.
has_lines() {
	tries=0
	until [ "$(wc -l <"$out/got.out")" -ge "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { complain "fewer than $1 lines"; return 1; }
		sleep 0.05
	done
}
: >"$out/got.out"
batch_sha256 large text fifo text >"$out/got.out" 2>"$out/got.err" &
has_lines 2
cat text >fifo
wait $!
sha256sum large text fifo2 text >"$out/want.out" 2>/dev/null &
cat text >fifo2
wait $!
sed 's/fifo2$/fifo/' "$out/want.out" >"$out/want"
cmp -s "$out/want" "$out/got.out" || complain 'files around a fifo' "$out/want" "$out/got.out"
ends 'prints what comes before a pipe while it waits for that'

# ---- lines -----------------------------------------------------------------------
by_lines() {	# by_lines NAME...: what --lines is to print of files
	for name; do
		number=0
		while number=$((number + 1)) && IFS= read -r line || [ "$line" ]; do
			printf '%s' "$line" | sha256sum | sed "s|-\$|$name:$number|"
		done <"$name"
	done
}
same_lines() {	# same_lines NAME...
	batch_sha256 --lines "$@" <"$stdin" >"$out/got.out" 2>"$out/got.err"
	got=$?
	[ $got = 0 ] || complain "status of $flags --lines $*: $got"
	[ ! -s "$out/got.err" ] || complain "$flags --lines $* has something to say"
	cmp -s "$out/want.out" "$out/got.out" ||
		complain "output of $flags --lines $*" "$out/want.out" "$out/got.out"
}
awk 'BEGIN { for (i = 0; i < 140; i++) { printf "%*d\n", i, i } }' >ladder
printf '\n\n\nopen' >open
printf 'no newline' >one
printf '\n' >newline
tr -d '\000' <block | head -c 3000 >bytes
{ repeat 65535 a; echo; repeat 65536 b; echo; repeat 65537 c; echo; echo; repeat 200000 d; } >long
{ repeat 64 a; echo; repeat 128 b; echo; repeat 127 c; echo; repeat 191 d; echo; } >short
by_lines ladder open empty one newline bytes text short long >"$out/want.out"
for flags in '' --one-by-one --part=64 --part=4K --part=1M '--workers=1 --part=128'; do
	same_lines ladder open empty one newline bytes text short long
done
flags=
batch_sha256 --lines empty >"$out/got.out" || complain 'status of no line'
[ ! -s "$out/got.out" ] || complain 'a line of an empty file'
{ printf 'a\000b\n'; head -c 100 /dev/zero; echo; } >nul
{
	printf 'a\000b' | sha256sum | sed 's/-$/nul:1/'
	head -c 100 /dev/zero | sha256sum | sed 's/-$/nul:2/'
} >"$out/want.out"
same_lines nul
ends 'hashes lines'

stdin=ladder
by_lines ladder | sed 's/ladder:/-:/' >"$out/want.out"
same_lines
same_lines -
# shellcheck disable=SC2002
cat ladder | batch_sha256 --lines >"$out/got.out" 2>"$out/got.err" || complain 'status in a pipe'
cmp -s "$out/want.out" "$out/got.out" || complain 'lines in a pipe' "$out/want.out" "$out/got.out"
stdin=long
by_lines long | sed 's/long:/-:/' >"$out/want.out"
# shellcheck disable=SC2002
cat long | batch_sha256 --lines --part=64 >"$out/got.out" || complain 'status in a pipe'
cmp -s "$out/want.out" "$out/got.out" || complain 'long lines in a pipe'
stdin=/dev/null
awk 'BEGIN { for (i = 0; i < 40000; i++) { print i % 7 } }' >many
batch_sha256 --lines many >"$out/got.out" || complain 'status of many lines'
i=0
while [ $i -lt 7 ]; do printf '%d' $i | sha256sum; i=$((i + 1)); done >"$out/seven"
awk 'NR == FNR { hash[NR - 1] = $1; next } $1 != hash[(FNR - 1) % 7] || $2 != "many:" FNR { bad = 1 }
	END { exit bad || FNR != 40000 }' "$out/seven" "$out/got.out" || complain 'many lines'
ends 'hashes lines of standard input, and many'

: >"$out/got.out"
batch_sha256 --lines text fifo text >"$out/got.out" 2>"$out/got.err" &
pid=$!
exec 3>fifo
has_lines 2
echo first >&3
has_lines 3
printf second >&3
echo >&3
has_lines 4
repeat 70000 x >&3
exec 3>&-
wait $pid || complain 'status of lines that come slowly'
{
	by_lines text
	printf first | sha256sum | sed 's/-$/fifo:1/'
	printf second | sha256sum | sed 's/-$/fifo:2/'
	repeat 70000 x | sha256sum | sed 's/-$/fifo:3/'
	by_lines text
} >"$out/want.out"
cmp -s "$out/want.out" "$out/got.out" || complain 'slow lines' "$out/want.out" "$out/got.out"
ends 'prints the hash of each line when it comes'

{ by_lines text; by_lines text; } >"$out/want.out"
says 1 'batch_sha256: missing: No such file or directory' --lines text missing directory text
cmp -s "$out/want.out" "$out/got.out" || complain 'lines beside errors' "$out/want.out" "$out/got.out"
grep -qxF 'batch_sha256: directory: Is a directory' "$out/got.err" || complain 'lines of a directory'
on=host
ends 'goes on behind files that have no lines'

# ---- names -----------------------------------------------------------------------
nl='
'
tab='	'
cr=$(printf '\r')
printf x >"a${cr}b"
sha256sum "a${cr}b" | grep -q '^\\' || cr=$tab		# before coreutils 9.0
rm a?b
for name in 'a b' 'a:b' "it's" "it's \$" "new${nl}line" "${nl}" "col:on${nl}" 'a"b' 'back\slash' '\' 'a\n' \
	"return${cr}" '#a' 'a#' '~' '{' '{}' 'a=b' 'a?' '[x]' "${tab}tab" "a'?" "'" '!' \
	"$(printf 'caf\303\251')" "$(printf '\001x')" '-' '%s' 'a;b' "\$HOME" '*'; do
	cp text "./$name"
	same -- "./$name"
	same -- "./$name" text
	rm -f "./$name"
	same -- "./$name"
	same -- "$name"
done
same ''
same '' text
printf 'line\n' >'back\slash'
hash=$(printf line | sha256sum | cut -d' ' -f1)
[ "$(batch_sha256 --lines 'back\slash')" = "\\$hash  back\\\\slash:1" ] ||
	complain 'a line of a file with a backslash'
ends 'escapes and quotes names as sha256sum does'

same missing
same missing text
same directory
same directory text
same text/below text
sha256sum text missing directory one >"$out/want.out" 2>&1
batch_sha256 text missing directory one 2>&1 | sed 's/^batch_sha256:/sha256sum:/' >"$out/got.out"
cmp -s "$out/want.out" "$out/got.out" ||
	complain 'order of output and diagnostics' "$out/want.out" "$out/got.out"
chmod 000 one
same one text
chmod 644 one
ends 'goes on behind missing files and directories'

# ---- options -----------------------------------------------------------------------
refuses "unrecognized option '--bogus'" --bogus text
refuses "invalid option -- 'x'" -x
refuses "option '--lines' doesn't allow an argument" --lines=3
refuses "option '--workers' requires an argument" --workers
for bad in 0 -1 x '' 65 1.5 99999999999999999999; do
	refuses "'$bad' is not good for --workers: give a number from 1 to 64" --workers="$bad"
done
for bad in 0 x '' 63 100 2M 1G 64KB 99999999999999999999M K -64; do
	refuses "'$bad' is not good for --part: give a multiple of 64" --part="$bad" text
done
refuses "'gpu' is not good for --device: give auto, cuda, cuda:N or host" --device=gpu text
says 1 "no GPU answers as 'cuda:777': use --device=host" --device=cuda:777 text
[ ! -s "$out/got.out" ] || complain 'output without a device'
same text -- one
ends 'says what is wrong with options'

says 0 'device:   ' --stats text
grep -qE '^messages: 1, 0\.0 MB, in [0-9.]+ s: [0-9]+ MB/s, [0-9]+ messages/s$' "$out/got.err" ||
	complain 'messages of --stats'
grep -qE '^parts:    1 in 1 batches, 1 in the largest$' "$out/got.err" || complain 'parts of --stats'
says 0 'messages: 2, 0.0 MB' --stats --lines text
says 0 'parts:    3, a job for each' --stats --one-by-one --part=64 size.129
batch_sha256 --help >"$out/got.out" 2>"$out/got.err" || complain 'status of --help'
[ ! -s "$out/got.err" ] || complain '--help complains'
for option in lines one-by-one part device workers stats help version; do
	grep -qE -- "^ +--${option}[ =]" "$out/got.out" || complain "--help has no --$option"
done
[ "$(grep -c '^ *--' "$out/got.out")" = 8 ] || complain 'options that this test does not know'
batch_sha256 --version | grep -qE '^batch_sha256 \(runnel\) [0-9.]+$' || complain '--version'
ends 'tells how it went, helps, and has a version'

# ---- nowhere to write ----------------------------------------------------------------
full() {	# full ARG...: as same, with standard output full
	sha256sum "$@" >/dev/full 2>"$out/want.err"
	want=$?
	batch_sha256 "$@" >/dev/full 2>"$out/got.err"
	got=$?
	: >"$out/want.out"
	: >"$out/got.out"
	compare "$* >/dev/full"
}
if [ -c /dev/full ]; then
	full text
	full text missing open
	full missing
	full large larger
	batch_sha256 --help >/dev/full 2>"$out/got.err" && complain 'status of --help >/dev/full'
	grep -q '^batch_sha256: write error' "$out/got.err" || complain '--help >/dev/full says nothing'
	ends 'reports a full disk'
fi
closed() {	# closed ARG...: as same, with standard output closed
	sha256sum "$@" >&- 2>"$out/want.err"
	want=$?
	batch_sha256 "$@" >&- 2>"$out/got.err"
	got=$?
	: >"$out/want.out"
	: >"$out/got.out"
	compare "$* >&-"
}
closed text
closed text missing
closed missing
closed_input() {	# the same of standard input
	sha256sum "$@" <&- >"$out/want.out" 2>"$out/want.err"
	want=$?
	batch_sha256 "$@" <&- >"$out/got.out" 2>"$out/got.err"
	got=$?
	compare "$* <&-"
}
closed_input
closed_input - text
closed_input text
closed_input text - -
ends 'goes on without standard input or output'

# More lines than a pipe holds, and nobody reads: the reader is gone for certain.
status=$(
	{
		trap '' PIPE
		set --
		i=0
		while [ $i -lt 1500 ]; do set -- "$@" ./././././././././././././././././text; i=$((i + 1)); done
		batch_sha256 "$@" 2>"$out/got.err"
		echo $? >&3
	} 3>"$out/status" | :
	cat "$out/status"
)
[ "$status" = 1 ] || complain "status when nobody reads: $status"
grep -q '^batch_sha256: write error' "$out/got.err" || complain 'no word of the broken pipe'
ends 'reports a broken pipe'

echo "1..$nr"
