# SPDX-License-Identifier: MIT
# Sourced first by every test script.  If the script tests a program, it sets `program` before:
#	. "$(dirname "$0")/../lib/harness.sh"
#
# A test is some checks, followed by `ends NAME`; or `check NAME COMMAND ...`, `same ...`.  The last
# line of a script is `done_testing`.  $dir is a folder that is removed at the end; a program's
# output is in $dir/out and $dir/err.  $device is the device of the programs; $fake is not empty if
# that device is the double of the CUDA runtime.
set -u
export LC_ALL=C
device=${RNL_TEST_DEVICE:-host} fake=${RNL_TEST_FAKE:-} srcdir=${srcdir:-$(dirname "$0")/../..}
program_name=${program:-$0} program_name=${program_name##*/} program_name=${program_name%.sh}
case ${program:-/} in
/*) ;;
*) program=$PWD/$program ;;
esac
[ -x "${program:-/}" ] || { echo "there is no $program"; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/$program_name.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
nr=0 nr_failed=0	# tests
wrong=0			# failed checks of the current test

# ---- tests -------------------------------------------------------------------
skip_all() {	# skip_all WHY: the script cannot run any of its tests
	echo "SKIP: $1"
	exit 77
}
ends() {	# ends NAME: all checks since the last ends were the test NAME
	nr=$((nr + 1))
	if [ $wrong = 0 ]; then echo "ok - $1"; else echo "not ok - $1"; nr_failed=$((nr_failed + 1)); fi
	wrong=0
}
complain() {	# complain TEXT [FILE FILE]: prints the difference, or the program's output
	wrong=$((wrong + 1))
	[ $wrong -le 5 ] || return 0
	echo "# $1"
	if [ $# = 3 ]; then diff -a "$2" "$3"; else cat "$dir/err" "$dir/out" 2>/dev/null; fi | sed 's/^/#   /;40q'
}
check() {	# check NAME COMMAND ...: a test of one command, which must succeed
	check=$1
	shift
	"$@" >"$dir/out" 2>"$dir/err" || complain "status $?"
	ends "$check"
}
same() {	# same NAME WANT HAVE: a test that two files in $dir are equal
	cmp -s "$dir/$2" "$dir/$3" || complain 'they differ:' "$dir/$2" "$dir/$3"
	ends "$1"
}
cxx_compilers() {	# cxx_compilers: g++ and clang++; with a sanitizer, only $CC's
	case ${sanitizer:+$CC} in '') cxxs='g++ clang++' ;; *clang*) cxxs=clang++ ;; *) cxxs=g++ ;; esac
	for cxx in $cxxs; do
		if command -v $cxx >/dev/null; then echo $cxx; else echo "SKIP: no $cxx" >&2; fi
	done
}
done_testing() {
	[ $wrong = 0 ] || ends 'no check is left over'
	echo "1..$nr"
	[ $nr_failed = 0 ]
	exit
}

# ---- checks of a program -------------------------------------------------------
needs_device() {	# needs_device ARG...: a short run; skips the script without the device
	"$program" --device="$device" "$@" >"$dir/out" 2>"$dir/err" && return
	grep -qE 'no GPU answers|without nvcc|without kernels for CUDA' "$dir/err" || return
	[ -z "$fake" ] || { cat "$dir/err"; exit 1; }	# the double is never missing
	skip_all "$program_name has no device $device here"
}
gives() {	# gives STATUS ARG...: checks the exit status
	want=$1
	shift
	"$program" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
silent() {	# silent: standard error is empty
	[ ! -s "$dir/err" ] || complain "it prints a message${*:+: $*}"
}
works() {	# works ARG...: succeeds on the device, without a message
	gives 0 --device="$device" "$@"
	silent "$@"
}
prints() {	# prints REGEX: a line matches
	grep -qE -- "$1" "$dir/out" || complain "there is no line of: $1"
}
prints_not() {	# prints_not REGEX: no line matches
	! grep -qE -- "$1" "$dir/out" || complain "there is a line of: $1"
}
rows() {	# rows NR REGEX: NR lines match
	got=$(grep -cE -- "$2" "$dir/out")
	[ "$got" = "$1" ] || complain "$got lines of: $2, not $1"
}
says() {	# says TEXT: standard error contains it
	grep -qF -- "$1" "$dir/err" || complain "no message: $1"
}
fails() {	# fails STATUS TEXT ARG...: with that message; standard output is empty
	text=$2 want=$1
	shift 2
	gives "$want" "$@"
	says "$text"
	[ ! -s "$dir/out" ] || complain "$* prints nevertheless"
}
refuses() {	# refuses TEXT ARG...: wrong arguments; the message also names --help
	text=$1
	shift
	fails 2 "$text" "$@"
	says " --help'"
}
has_options() {	# has_options NAME...: --help has these options, and no others
	gives 0 --help
	for option; do prints "^ +(-[a-z], )?--${option}([[ =]|\$)"; done
	[ "$(grep -cE '^ +(-., )?--[a-z]' "$dir/out")" = $(($# + 3)) ] ||
		complain 'options that this test does not know'
	gives 0 --version
	prints "^$program_name \(runnel\) [0-9.]+\$"
}
has_terminal() {	# has_terminal: true if script(1) makes one; else says so
	command -v script >/dev/null || { echo 'SKIP: script(1) is missing, and there is no terminal'; return 1; }
	# A chroot may lack /dev/pts.
	script -qec true /dev/null >/dev/null 2>&1 </dev/null ||
		{ echo 'SKIP: script(1) makes no terminal here'; return 1; }
}
on_terminal() {	# on_terminal COMMAND: the shell command succeeds on a terminal of its own
	script -qec "$1" /dev/null >"$dir/screen" 2>&1 </dev/null || complain "status of $1 on a terminal: $?"
	tr '\r' '\n' <"$dir/screen" >"$dir/out"
}
names_colours() {	# names_colours SVG: the legend has each colour of the timeline's bars once
	sed -n 's/.* fill="\(#[0-9a-f]*\)"><title>.*/\1/p' "$1" | sort -u >"$dir/colours"
	sed -n 's/.* rx="2" fill="\(#[0-9a-f]*\)".*/\1/p' "$1" | sort >"$dir/named"
	[ -s "$dir/colours" ] && [ -z "$(comm -23 "$dir/colours" "$dir/named")$(uniq -d "$dir/named")" ] ||
		complain 'bars are of colours that the legend does not name' "$dir/colours" "$dir/named"
}
fails_on_full_disk() {	# fails_on_full_disk ARG...: status 1, with a message
	[ -w /dev/full ] || return 0
	"$program" "$@" >/dev/full 2>"$dir/err"
	got=$?
	[ $got = 1 ] || complain "status of $* on a full disk: $got"
	says "$program_name: standard output: No space left on device"
}
