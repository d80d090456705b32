#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/loader: its shards, its report, its picture, its options, its messages.
#
# env: LOADER     the program (examples/loader/loader; on the double tests/doubles/loader)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#      CC         a compiler, to make readers fail and stall
#
# devices: host fake cuda
program=${LOADER:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/loader ||
	echo examples/loader/loader)}
. "$(dirname "$0")/../lib/harness.sh"
shards=$dir/shards
"$program" --make="$shards" --shards=3 --records=10 --record=4 >"$dir/out" 2>"$dir/err" || complain 'no shards'
needs_device "$shards" --epochs=1 --rounds=1
n='[0-9]+\.[0-9]+'
reports() {	# reports EPOCHS
	for pass in reading computing together; do prints "^$pass +$n ms +[0-9]+ MB/s\$"; done
	prints "^together $n ms: [0-9]+ % of the slower one, (reading|computing); the consumer was idle for $n ms, [0-9]+ %\$"
	prints "^Every record was read $1 times?, and every sum is right\.\$"
}

# ---- the work ----------------------------------------------------------------
gives 0 --make="$dir/same" --shards=3 --records=10 --record=4
silent
prints "^3 shards of 10 records of 4 KB are in $dir/same\.\$"
for i in 0 1 2; do
	cmp -s "$shards/000$i.shard" "$dir/same/000$i.shard" || complain "shard $i is not the same again"
	[ "$(wc -c <"$shards/000$i.shard")" = $((4096 * 11)) ] || complain "size of shard $i"
done
gives 0 --make="$dir/other" --shards=1 --records=7 --record=4 --seed=2
cmp -s "$shards/0000.shard" "$dir/other/0000.shard" && complain 'another seed gives the same shard'
[ "$(find "$dir/same" -type f | wc -l)" = 3 ] || complain 'other files are there'
ends 'makes shards by a seed'

# On a busy machine even good readers may wait long.
patient=--stall=$((60 * ${RNL_TEST_SCALE:-1}))
works $patient "$shards"
prints '^device: +.'
prints '^data:    30 records of 4 KB in 3 shards, 12 times: 1\.5 MB$'
prints '^work:    4 readers, batches of 64, 16 ahead; [1-9][0-9]* rounds of computing$'
reports 12
works $patient "$shards" "$dir/other" --rounds=17 --epochs=5
prints '^data:    37 records of 4 KB in 4 shards, 5 times: '
prints '; 17 rounds of computing$'
reports 5
ends 'reads and checks every record, alone and beside the computing'

for batch in 1 7 29 30 31 1000; do works $patient "$shards" --rounds=1 --batch=$batch; done
for readers in 1 2 64; do works $patient "$shards" --rounds=1 --readers=$readers --batch=4; done
works $patient "$shards" --rounds=1 --ahead=1 --batch=2 --epochs=20
reports 20
works $patient "$shards" --rounds=1 --ahead=64 --seed=7
works $patient "$shards" --rounds=1 --cold
prints '^work:    4 readers from the disk, '
gives 0 --make="$dir/one" --shards=1 --records=1 --record=1
works $patient "$dir/one" --rounds=3 --epochs=9
reports 9
ends 'takes batches of any size, any number of readers, one record alone'

works $patient "$shards" --rounds=5 --epochs=2 --batch=8 --readers=3 --svg="$dir/l.svg"
prints "^The timeline is in $dir/l\.svg\.\$"
names_colours "$dir/l.svg"
for bars in '60 reading, batch' '8 copying, batch' '8 computing, batch'; do
	[ "$(grep -c "<title>${bars#* } [1-8]: " "$dir/l.svg")" = "${bars%% *}" ] || complain "bars of ${bars#* }"
done
for row in 'reader 1' 'reader 3' copies computing; do
	grep -q ">$row</text>" "$dir/l.svg" || complain "there is no row of $row"
done
if command -v python3 >/dev/null; then
	python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/l.svg" 2>"$dir/err" ||
		complain 'the picture is no XML'
fi
ends 'draws a timeline'

if has_terminal; then
	# Long enough for a line every tenth of a second, even on a fast machine.
	on_terminal "'$program' --device=$device '$shards' --rounds=1 --epochs=10000"
	prints '^[a-z ]+ +[#.]{30} +[0-9]+ % +[0-9.]+ MB/s +[0-9]+ s left'
	ends 'shows progress on a terminal, and nowhere else'
fi

# ---- an early end ----------------------------------------------------
for signal in INT TERM; do
	: >"$dir/out"
	"$program" --device="$device" "$shards" --rounds=1 --epochs=1000000 >"$dir/out" 2>"$dir/err" &
	until grep -q '^work' "$dir/out" || ! kill -0 $!; do sleep 0.1; done
	kill -$signal $!
	wait $!
	got=$?
	[ $got = 130 ] || complain "status after SIG$signal: $got"
	grep -qE '^loader: interrupted after [0-9]+ of 1000000 batches of (warming up|reading|together|computing)$' "$dir/err" ||
		complain "no message after SIG$signal"
done
ends 'ends by Ctrl-C, and says how far it came'

# ---- mistakes ---------------------------------------------------------------
refuses 'name a directory of shards; --make=DIR writes some'
refuses "'0' is not good for --batch: give a number from 1 to 65536" --batch=0 "$shards"
refuses "'65' is not good for --ahead: give a number from 1 to 64" --ahead=65 "$shards"
refuses "'0' is not good for --stall: give a number from 1 to 3600" --stall=0 "$shards"
for bad in '' 0 4K 65537 -1; do
	refuses "'$bad' is not good for --record: give a number from 1 to 65536" --record=$bad --make="$dir/x"
done
refuses '--make has an empty argument' --make=
ends 'refuses mistakes, by their name'

# spoil NAME COMMAND ...: copies the shards to $spoilt, and runs the command on the second shard.
spoil() {
	spoilt=$dir/$1
	cp -r "$shards" "$spoilt"
	shift
	"$@" "$spoilt/0001.shard"
}
over() { printf '%s' "$1" | dd of="$3" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
fails_on() {	# fails_on TEXT DIR ...
	text=$1
	shift
	gives 1 --device="$device" --rounds=3 "$@"
	says "loader: $text"
}
spoil sum over x $((4096 * 5 + 2000))
fails_on "$spoilt/0001.shard at offset 20480: the record's sum does not match its words" "$spoilt"
spoil place over x $((4096 * 3 + 8))
fails_on "$spoilt/0001.shard at offset 12288: this is not the expected record" "$spoilt"
spoil short truncate -s $((4096 * 10 + 100))
fails_on "$spoilt/0001.shard at offset 40960: the file ends in or before this record" "$spoilt"
spoil magic over x 0
fails_on "$spoilt/0001.shard: this is not a shard of loader --make" "$spoilt"
spoil empty truncate -s 0
fails_on "$spoilt/0001.shard: this is not a shard of loader --make" "$spoilt"
gives 0 --make="$dir/large" --shards=1 --records=2 --record=8
fails_on "$dir/large/0000.shard: its records have 8192 bytes, those of $shards/0000.shard have 4096" "$shards" "$dir/large"
mkdir "$dir/none"
fails_on "$dir/none: it has no shards" "$dir/none"
mkfifo "$dir/none/fifo.shard"
fails_on "$dir/none/fifo.shard: this is not a regular file" "$dir/none"
mkdir "$dir/folder" "$dir/folder/0.shard"
fails_on "$dir/folder/0.shard: this is not a regular file" "$dir/folder"
fails_on "$dir/nowhere: No such file or directory" "$dir/nowhere"
ends 'names the file and the place of what is wrong'

# Readers whose pread() of the 15th record fails or does not return.
cat >"$dir/pread.c" <<'IN'
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t pread(int fd, void *buf, size_t bytes, off_t offset)
{
	static int nr;

	if (bytes == 4096 && __atomic_add_fetch(&nr, 1, __ATOMIC_RELAXED) == 15) {
		if (getenv("PREAD_STALLS"))
			sleep(100);
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, buf, bytes, offset);
}

ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
IN
if [ -z "${sanitizer:-}" ] && ${CC:-cc} -shared -fPIC -o "$dir/pread.so" "$dir/pread.c" 2>/dev/null; then
	export LD_PRELOAD="$dir/pread.so"
	gives 1 --device="$device" "$shards"
	grep -qE "^loader: $shards/000[0-2]\.shard at offset [0-9]+: Input/output error\$" "$dir/err" ||
		complain 'no message of a reader that fails'
	PREAD_STALLS=1 gives 1 --device="$device" "$shards" --stall=1
	grep -qE "^loader: $shards/000[0-2]\.shard at offset [0-9]+: a reader has waited for 1 s\$" "$dir/err" ||
		complain 'no message of a reader that stalls'
	unset LD_PRELOAD
	ends 'says which reader fails or stalls'
fi

gives 1 --device=cuda:999 "$shards"
says "no GPU answers as 'cuda:999': use --device=host"
gives 1 --device="$device" "$shards" --rounds=1 --svg="$dir/nowhere/l.svg"
says "$dir/nowhere/l.svg: No such file or directory"
gives 1 --make="$dir/pread.c/x"
says "$dir/pread.c/x: Not a directory"
[ ! -w /dev/full ] || {
	mkdir "$dir/full"
	ln -s /dev/full "$dir/full/0002.shard"
	gives 1 --make="$dir/full" --records=9
	says "$dir/full/0002.shard: No space left on device"
	[ ! -e "$dir/full/0003.shard" ] || complain 'it goes on after an error'
}
fails_on_full_disk --device="$device" "$shards" --rounds=1
[ -z "$fake" ] || for fails in cudaLaunchKernel:20:719:sticky cudaMemcpyAsync:4:2; do
	FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}fail=$fails" gives 1 --device=cuda "$shards" --rounds=1
	says "$program_name: "
done
ends 'says what failed'

has_options make shards records record seed epochs batch ahead readers rounds stall cold device svg
ends 'helps'
done_testing
