#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/batch_sha256 against the system's sha256sum and NIST's vectors: the same hashes in
# the same lines, and the same exit status.
#
# env: BATCH_SHA256  the program (examples/batch_sha256/batch_sha256)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#      SEED        the seed of the random data
#
# devices: host cuda
program=${BATCH_SHA256:-examples/batch_sha256/batch_sha256} theirs=sha256sum small=--part=64
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/coreutils.sh"

same_in_all_ways() {	# same_in_all_ways ARG...: for parts of any size, with and without batcher
	for flags in '' --part=64 --part=128 --part=4K --part=1M --one-by-one '--one-by-one --part=192' \
		'--workers=1 --part=1K' --workers=3; do
		same "$@"
	done
	flags=
}
repeat() {	# repeat TIMES CHARACTER
	awk -v n="$1" -v c="$2" 'BEGIN { while (n-- > 0) printf "%s", c }'
}

# ---- vectors -------------------------------------------------------------------
# The examples of FIPS 180-4, more of NIST's examples, and a part of CAVP's SHA256ShortMsg.rsp.
: >vectors
vector() {	# vector HASH: standard input has this hash
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

for flags in '' --one-by-one '--part=64'; do
	# shellcheck disable=SC2046
	ours $(sed 's/.* //' vectors) >"$dir/out" 2>"$dir/err" ||
		complain "status of the vectors, $flags"
	cmp -s vectors "$dir/out" || complain "vectors, $flags" vectors "$dir/out"
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
[ "$device" != host ] || for n in 0 1 55 56 64 65 65536; do same size.$n; done
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
	# shellcheck disable=SC3045  # a shell without it has another limit
	ulimit -n 24
	flags=--part=64
	same "$@"
	[ $wrong = 0 ]
) || complain 'with few descriptors'
ends 'keeps the order of many files of all kinds'

# ---- lines -----------------------------------------------------------------------
by_lines() {	# by_lines NAME...: what --lines should print for files
	for name; do
		number=0
		while number=$((number + 1)) && IFS= read -r line || [ "$line" ]; do
			printf '%s' "$line" | sha256sum | sed "s|-\$|$name:$number|"
		done <"$name"
	done
}
same_lines() {	# same_lines NAME...
	ours --lines "$@" <"$stdin" >"$dir/out" 2>"$dir/err"
	got=$?
	[ $got = 0 ] || complain "status of $flags --lines $*: $got"
	[ ! -s "$dir/err" ] || complain "$flags --lines $* has something to say"
	cmp -s "$dir/want" "$dir/out" ||
		complain "output of $flags --lines $*" "$dir/want" "$dir/out"
}
awk 'BEGIN { for (i = 0; i < 140; i++) { printf "%*d\n", i, i } }' >ladder
printf '\n\n\nopen' >open
printf 'no newline' >one
printf '\n' >newline
tr -d '\000' <block | head -c 3000 >bytes
{ repeat 65535 a; echo; repeat 65536 b; echo; repeat 65537 c; echo; echo; repeat 200000 d; } >long
{ repeat 64 a; echo; repeat 128 b; echo; repeat 127 c; echo; repeat 191 d; echo; } >short
by_lines ladder open empty one newline bytes text short long >"$dir/want"
for flags in '' --one-by-one --part=64 --part=4K --part=1M '--workers=1 --part=128'; do
	same_lines ladder open empty one newline bytes text short long
done
flags=
ours --lines empty >"$dir/out" || complain 'status of no line'
[ ! -s "$dir/out" ] || complain 'a line of an empty file'
{ printf 'a\000b\n'; head -c 100 /dev/zero; echo; } >nul
{
	printf 'a\000b' | sha256sum | sed 's/-$/nul:1/'
	head -c 100 /dev/zero | sha256sum | sed 's/-$/nul:2/'
} >"$dir/want"
same_lines nul
ends 'hashes lines'

does_not_compute

# ---- standard input, pipes, files without a size ------------------------------------------
reads_odd_files 'hashes files that do not know their size, and reports read errors'

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
rest=$({ dd bs=1 count=4 of=/dev/null 2>/dev/null; ours; } <text)
[ "$rest" = "$(tail -c +5 text | sha256sum)" ] || complain "behind an offset: $rest"
ends 'reads standard input'

mkfifo fifo fifo2
fed fifo text fifo2
fed large fifo2 larger fifo large
fed missing fifo2 fifo directory
flags=--one-by-one
fed text fifo larger fifo2 text
flags=
ends 'reads several pipes in turn'

has_lines() {	# has_lines N: waits until N lines are printed, before the input ends
	tries=0
	until [ "$(wc -l <"$dir/out")" -ge "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { complain "fewer than $1 lines"; return 1; }
		sleep 0.05
	done
}
: >"$dir/out"
ours large text fifo text >"$dir/out" 2>"$dir/err" &
has_lines 2
cat text >fifo
wait $!
sha256sum large text fifo2 text >"$dir/sum" 2>/dev/null &
cat text >fifo2
wait $!
sed 's/fifo2$/fifo/' "$dir/sum" >"$dir/want"
cmp -s "$dir/want" "$dir/out" || complain 'files around a fifo' "$dir/want" "$dir/out"
ends 'prints the hashes before a pipe while it waits for the pipe'

# ---- lines of pipes -----------------------------------------------------------------
stdin=ladder
by_lines ladder | sed 's/ladder:/-:/' >"$dir/want"
same_lines
same_lines -
# shellcheck disable=SC2002
cat ladder | ours --lines >"$dir/out" 2>"$dir/err" || complain 'status in a pipe'
cmp -s "$dir/want" "$dir/out" || complain 'lines in a pipe' "$dir/want" "$dir/out"
stdin=long
by_lines long | sed 's/long:/-:/' >"$dir/want"
# shellcheck disable=SC2002
cat long | ours --lines --part=64 >"$dir/out" || complain 'status in a pipe'
cmp -s "$dir/want" "$dir/out" || complain 'long lines in a pipe'
stdin=/dev/null
awk 'BEGIN { for (i = 0; i < 40000; i++) { print i % 7 } }' >many
ours --lines many >"$dir/out" || complain 'status of many lines'
i=0
while [ $i -lt 7 ]; do printf '%d' $i | sha256sum; i=$((i + 1)); done >"$dir/seven"
awk 'NR == FNR { hash[NR - 1] = $1; next } $1 != hash[(FNR - 1) % 7] || $2 != "many:" FNR { bad = 1 }
	END { exit bad || FNR != 40000 }' "$dir/seven" "$dir/out" || complain 'many lines'
ends 'hashes lines of standard input, and many'

: >"$dir/out"
ours --lines text fifo text >"$dir/out" 2>"$dir/err" &
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
} >"$dir/want"
cmp -s "$dir/want" "$dir/out" || complain 'slow lines' "$dir/want" "$dir/out"
ends 'prints the hash of each line when it comes'

{ by_lines text; by_lines text; } >"$dir/want"
ours --lines text missing directory text >"$dir/out" 2>"$dir/err" && complain 'status of lines that are missing'
says 'batch_sha256: missing: No such file or directory'
cmp -s "$dir/want" "$dir/out" || complain 'lines beside errors' "$dir/want" "$dir/out"
says 'batch_sha256: directory: Is a directory'
ends 'goes on behind files that have no lines'

# ---- options -----------------------------------------------------------------------
goes_on_behind_errors

refuses "'65' is not good for --workers: give a number from 1 to 64" --workers=65
for bad in 0 x '' 63 100 2M 1G 64KB 99999999999999999999M K -64; do
	refuses "'$bad' is not good for --part: give a multiple of 64" --part="$bad" text
done
gives 1 --device=cuda:777 text
says "no GPU answers as 'cuda:777': use --device=host"
gives 0 --device=host --stats text
says 'device:   host (no GPU), '
says 'parts:    1 in 1 batches, 1 in the largest'
gives 0 --device=host --stats --lines text
says 'messages: 2, 0.0 MB'
gives 0 --device=host --stats --one-by-one --part=64 size.129
says 'parts:    3, a job for each'
has_options lines one-by-one part device workers stats
ends 'has options, and tells mistakes in them'

reports_bad_descriptors
done_testing
