# SPDX-License-Identifier: MIT
# Compares a program with the coreutils program that it copies: same output, same exit status.
#
# A script sets `program` and `theirs`, and sources harness.sh, then this file, which makes $dir/in,
# an empty folder, the current one.  env: SEED of the random data.
if ! "$theirs" --version 2>/dev/null | grep -q 'GNU coreutils'; then
	skip_all "$theirs is not that of GNU coreutils"
fi
needs_device /dev/null
seed=${SEED:-$$}
echo "# $theirs: $("$theirs" --version | sed 1q); device $device; SEED=$seed"
mkdir "$dir/in"
cd "$dir/in" || exit 1
flags=		# more options of the program
stdin=/dev/null

ours() {
	# shellcheck disable=SC2086  # flags are words
	"$program" --device="$device" $flags "$@"
}
compare() {	# compare WHAT: outputs in $dir/want and $dir/out, and the statuses
	cmp -s "$dir/want" "$dir/out" || complain "output of $1" "$dir/want" "$dir/out"
	[ "$want" = "$got" ] || complain "status of $1: $theirs $want, $program_name $got"
	if [ "$want" = 0 ] && [ -s "$dir/err" ]; then complain "$1 prints a message"; fi
}
same() {	# same ARG...: the program behaves like theirs, with standard input from $stdin
	"$theirs" "$@" <"$stdin" >"$dir/want" 2>"$dir/err.theirs"
	want=$?
	ours "$@" <"$stdin" >"$dir/out" 2>"$dir/err"
	got=$?
	compare "$flags $*"
}
same_piped() {	# like same, but $stdin comes through a pipe
	# shellcheck disable=SC2002  # a pipe is intended
	cat "$stdin" | "$theirs" "$@" >"$dir/want" 2>"$dir/err.theirs"
	want=$?
	# shellcheck disable=SC2002
	cat "$stdin" | ours "$@" >"$dir/out" 2>"$dir/err"
	got=$?
	compare "$flags $* in a pipe"
}
fed() {	# fed ARG...: like same; a larger file comes through `fifo`, a text through `fifo2`
	for run in "$theirs" ours; do
		cat larger >fifo &
		cat text >fifo2 &
		if [ $run = ours ]; then
			ours "$@" >"$dir/out" 2>"$dir/err"
			got=$?
		else
			"$theirs" "$@" >"$dir/want" 2>"$dir/err.theirs"
			want=$?
		fi
		wait
	done
	compare "$flags $* from fifos"
}
random() {	# random BYTES ALPHABET-IN-OCTAL...: of all byte values without an alphabet
	awk -v seed="$seed" -v n="$1" -v set="${2:-}" 'BEGIN {
		srand(seed)
		m = split(set, alphabet, " ")
		while (n-- > 0) {
			if (m)
				printf "\\%s", alphabet[1 + int(rand() * m)]
			else
				printf "\\%03o", int(rand() * 256)
		}
	}' >"$dir/octal"
	seed=$((seed + 1))
	# shellcheck disable=SC2059  # the format is the data
	printf "$(cat "$dir/octal")"
}

does_not_compute() {	# the rest is equal on all devices, and a GPU takes long to start
	[ "$device" = host ] || done_testing
}

# ---- tests that the programs share ---------------------------------------------
reads_odd_files() {	# reads_odd_files NAME: files of unknown size, and read errors
	[ -r /proc/self/mem ] || return 0
	for flags in '' "$small"; do
		same /proc/version text
		same /proc/filesystems /proc/version
		same /proc/self/mem text
		for f in /sys/kernel/mm/transparent_hugepage/enabled /sys/devices/system/cpu/online; do
			[ ! -r $f ] || same $f
		done
	done
	flags=
	ends "$1"
}
goes_on_behind_errors() {
	"$theirs" text missing directory open 2>&1 | sed "s/^$theirs:/$program_name:/" >"$dir/want"
	ours text missing directory open >"$dir/out" 2>&1
	cmp -s "$dir/want" "$dir/out" || complain 'order of output and messages' "$dir/want" "$dir/out"
	chmod 000 open
	same open text
	[ "$(id -u)" = 0 ] || says "$program_name: open: Permission denied"
	chmod 644 open
	ends 'goes on behind files that cannot be read, and names them'
}
reports_bad_descriptors() {
	fails_on_full_disk --device=host text missing open
	fails_on_full_disk --device=host large larger
	fails_on_full_disk --help
	"$program" --device=host text missing >&- 2>"$dir/err" && complain 'status without standard output'
	says "$program_name: standard output: Bad file descriptor"
	"$program" --device=host - text <&- >"$dir/out" 2>"$dir/err" && complain 'status without standard input'
	says "$program_name: -: Bad file descriptor"
	prints ' text$'
	ends 'reports a full disk, and closed descriptors'
}
