# SPDX-License-Identifier: MIT
# Common parts of the tests of both bench programs, which set `program` and source this.
. "$srcdir/tests/lib/harness.sh"
program_name=bench	# in its messages
prints_nothing() { [ ! -s "$dir/out" ] || complain 'it prints nevertheless'; }
refuses() {	# refuses OPTION TEXT VALUE...: each value is wrong, which TEXT reports
	option=$1 text=$2
	shift 2
	for bad; do
		gives 2 "$option=$bad"
		says "bench: '$bad' is not good for $option: $text"
		says "Try \`bench --help'"
		prints_nothing
	done
}
both_refuse() {
	refuses --runs 'give a number from 1 to 99' '' 0 100 x 7x 99999999999999999999
	refuses --rows 'see --list and --help for its names' '' speed run
	gives 2 --what
	says "bench: unrecognized option '--what'"
	gives 2 --runs
	says "bench: option '--runs' requires an argument"
	gives 0 --help
	rows "$1" '^ *--'
	gives 0 --list
	rows "$2" '^[a-z]+ '
	fails_on_full_disk --list
	ends 'refuses what is wrong, by its name; helps'
}
v='[0-9.]+ \([^|]+\) +\|'	# a figure and its variant
n='- +\|'
table() {	# table NR WHAT UNIT BESIDE CEILING RUNNEL: NR such lines of the table
	rows "$1" "^\| $2 +\| $3 +\| $4 $5 $6 ([0-9.]+|inf|-) +\| ([<>]= [0-9.]+|-) +\| (yes|no |-  ) \| .* \|\$"
}
holds() {	# holds NR REGEX: NR lines of the JSON match; it is too long to show
	got=$(grep -cE -- "$2" "$dir/json")
	[ "$got" = "$1" ] || complain "the JSON has $got lines of: $2, not $1"
}
json() {	# json LINES VARIANTS RUNS ARG...: the JSON has that many
	units=$1 variants=$2 runs=$3
	shift 3
	"$program" "$@" --json="$dir/json" >"$dir/out" 2>"$dir/err"
	status=$?
	if grep -q 'built without' "$dir/err"; then
		echo "SKIP: $(sed -n 1p "$dir/err")"
		return
	fi
	[ $status = 0 ] || complain "status of --json: $status"
	holds "$units" '^ +"unit": "'
	holds "$variants" '^ +"screened": (true|false),'
	for figure in median min max; do
		[ "$(grep -cE "^ +\"$figure\": [0-9.e+-]+,?\$" "$dir/json")" -ge "$variants" ] ||
			complain "too few of $figure in the JSON"
	done
	holds $((variants * runs)) '^ +[0-9.e+-]+,?$'
	gives 1 "$@" --json=/nonexistent/file
	says 'bench: /nonexistent/file could not be written'
	gives 2 --json=
	says 'bench: --json has no name of a file'
	ends 'writes every run as JSON'
}
