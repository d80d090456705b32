#!/bin/sh
# SPDX-License-Identifier: MIT
# Spin checks the models of tests/model: it finds no error in a model, and one in each broken
# variant.  docs/models.md describes them.
#
# usage: model.sh [MODEL[,BREAK_x] ...]	park, cq, ...: only these; or one broken variant
dir=$(cd "${srcdir:-.}/tests/model" && pwd) || exit
[ -z "${sanitizer:-}" ] || { echo 'SKIP: a model is the same under a sanitizer'; exit 77; }
command -v spin >/dev/null || { echo 'SKIP: there is no spin: make deps check installs it'; exit 77; }
[ $# != 0 ] || set -- "$dir"/*.pml
if [ $# != 1 ]; then	# one per CPU at a time
	printf '%s\n' "$@" | xargs -P "$(nproc)" -I '{}' sh "$0" '{}'
	exit
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/model.XXXXXX") && trap 'rm -rf "$work"' EXIT || exit
trap 'exit 1' HUP INT TERM
cd "$work" || exit
rc=0

ends() {	# ends STATUS NAME
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; rc=1; fi
}
# goes MODEL [-DBREAK_x [-Ox]]: sets states, seconds, errors and found from spin's output; fails
# if there is none.
goes() {
	rm -f pan* ./*.trail
	# shellcheck disable=SC2086 # a missing second argument is no argument
	spin -a ${2:-} "$dir/$1.pml" >log 2>&1 &&
		${CC:-cc} ${3:--O2} -w -DSAFETY -DMEMLIM=2000 -o pan pan.c >>log 2>&1 &&
		./pan -m100000 -w22 >>log 2>&1 || return
	! grep -qE 'max search depth too small|reached -DMEMLIM' log || return
	states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' log)
	seconds=$(sed -n 's/^pan: elapsed time \([0-9.]*\) .*/\1/p' log)
	errors=$(sed -n 's/.*, errors: \([0-9]*\)$/\1/p' log)
	found=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' log)
	[ "$states" ] && [ "$errors" ]
}

model=$(basename "$1" .pml) one=
case $model in
*,*) one=${model#*,} model=${model%,*} ;;
*)
	goes "$model" && [ "$errors" = 0 ]
	ends $? "$model: ${states:-no} states, ${errors:-no answer,} errors, $seconds s"
	[ "$errors" = 0 ] || sed 's/^/# /' log
	;;
esac
broken_ones=$(grep -oE '^#(ifn?def|elif) BREAK_[A-Z0-9]+' "$dir/$model.pml" | sed 's/.* //' | grep -x "${one:-.*}" | sort -u)
[ "$broken_ones" ] || ends 1 "$model${one:+, $one}: there is nothing broken"
for broken in $broken_ones; do
	goes "$model" "-D$broken" -O0 && [ "$errors" != 0 ]
	ends $? "$model, $broken: ${found:-nothing} found in ${states:-no} states"
done
exit $rc
