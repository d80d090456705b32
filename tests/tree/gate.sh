#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/gate: a change selects the tests that it may break, also in a copy without .git, and failed
# tests do not count as passed.
srcdir=$(cd "${srcdir:-.}" && pwd) || exit
. "$srcdir/tests/lib/harness.sh"
command -v git >/dev/null || { echo 'SKIP: there is no git, which says what belongs to the sources'; exit 77; }
tree=$dir/tree
sets() { python3 -B "$tree/tests/gate/sets.py" "$@"; }
# enters BUILD: enters the results.
enters() {
	(cd "$tree/tests/gate" && python3 -B -c 'import sets, sys; sets.enter(*sys.argv[1:])' "$1" "$dir/results")
}
# passes BUILD [FAILED ...]: enters results in which all tests but FAILED passed.
passes() {
	build=$1
	shift
	for test in $(sets todo "$build"); do
		bad=0
		for it; do [ "$it" != "$test" ] || bad=1; done
		echo "$test.host 2 1 $bad 0"
	done >"$dir/results"
	enters "$build"
}
selected() { sets todo "$1" | tr ' ' '\n' >"$dir/selected"; }
selects() { for it; do grep -qx "$it" "$dir/selected" || complain "does not select $it"; done; }
spares() { for it; do ! grep -qx "$it" "$dir/selected" || complain "selects $it"; done; }
# changes FILE [BUILD [LINE]]: adds a line to the file, finds the selected tests, and restores the file.
changes() {
	cp -p "$tree/$1" "$dir/kept" 2>/dev/null || : >"$dir/kept"
	echo "${3:-int changed;}" >>"$tree/$1"
	selected "${2:-plain}"
	cp -p "$dir/kept" "$tree/$1"
}
everything='unit/hist api/submit stress/wake cli/gwc package/symbols tree/rooms tree/model'

mkdir "$tree"
(cd "$srcdir" && sh dist.sh --list | tar -c -T -) | tar -x -C "$tree" || exit
: >"$tree/tests/passed.tab"
sets check >"$dir/out" || complain "$(cat "$dir/out")"
ends 'the tables name what is there'

selected plain
selects $everything
passes plain api/batch
selected plain
[ "$(cat "$dir/selected")" = api/batch ] || complain "selected: $(tr '\n' ' ' <"$dir/selected")"
passes plain
selected plain
[ -z "$(cat "$dir/selected")" ] || complain "selected: $(tr '\n' ' ' <"$dir/selected")"
# The test did not end on one device.
printf '%s\n' api/cq.host api/cq.fake 'api/cq.host 2 1 0 0' >"$dir/results"
enters plain
selected plain
[ "$(cat "$dir/selected")" = api/cq ] || complain "selected: $(tr '\n' ' ' <"$dir/selected")"
passes plain
selected asan
selects unit/hist api/submit
spares tree/rooms
ends 'what has passed is not selected, in its build alone; what failed is'

for it in include/runnel.h src/pool/queue.h Makefile tests/tests.mk m4/rnl_cuda.m4 configure tests/lib/suite.c; do
	changes $it
	selects $everything
done
changes src/pool/quite_new.c
selects $everything
rm "$tree/src/pool/quite_new.c"
changes quite_new
selects $everything
rm "$tree/quite_new"
ends 'a header, the Makefile, m4, and an unknown file select everything'

for file in include/runnel.h src/pool/queue.c tests/lib/suite.c; do
	changes $file plain '	/* "changed" // */'
	selects tree/rooms package/dist
	spares unit/hist api/submit stress/wake cli/gwc unit/queue
	changes $file plain 'const char *changed = "/* a string */";'
	selects api/submit
done
changes Makefile plain '# changed'
selects $everything
ends 'a comment in C only selects tests that read comments'

changes src/batch/take.c
selects api/batch stress/batch cli/http
spares unit/hist api/order unit/park tree/model
changes src/pool/queue.c
selects api/submit unit/queue unit/orders stress/wake
spares unit/hist unit/latch
changes tests/api/order.c
selects api/order
spares api/submit unit/hist
changes tests/countdown/jobs.c
selects unit/countdown
spares api/submit
changes tests/model/park.pml
selects tree/model
spares api/submit
changes examples/gwc/tally.c
selects cli/gwc unit/gwc
spares api/submit cli/loader
changes docs/words.md
selects tree/rooms
spares api/submit cli/gwc tree/model
ends 'a source selects the tests that reach it, and another file those that it is for'

selected sim
selects unit/hist api/submit stress/wake
spares unit/countdown cli/gwc tree/rooms make/sim-torture
passes sim api/cq
selected sim
[ "$(cat "$dir/selected")" = api/cq ] || complain "selected: $(tr '\n' ' ' <"$dir/selected")"
passes sim
for it in src/pool/queue.c tests/sim/schedule.c; do
	changes $it sim
	selects api/submit stress/wake
done
changes tests/api/order.c sim
selects api/order
spares api/submit
changes tests/sim/schedule.c
selects unit/orders make/sim-torture
spares api/submit
ends 'what the simulated machine is made of selects all that runs on it, and nothing else'

sed -i '1i each time: caught there\tshare.c s/1/2/\tsim:api/hold' "$tree/tests/tree/mutants.tab"
for build in plain tsan sim; do
	sets chosen $build 0 2>"$dir/left" | tr ' ' '\n' >"$dir/selected"
	for it in $(grep -v '^#' "$tree/tests/tree/mutants.tab" | cut -f 3 | tr ' ' '\n' | sed -n "s/^$build://p" | sort -u); do
		selects "$it"
	done
	spares unit/hist
done
sets chosen sim 0 2>/dev/null | grep -qw api/bounds || complain 'the bounds of time are not in the core'
echo 'int changed;' >>"$tree/include/runnel.h"
sets chosen sim 50 2>"$dir/left" | tr ' ' '\n' >"$dir/selected"
selects api/hold api/bounds
spares unit/hist
grep -q 'left to make check-all: .*api/submit' "$dir/left" || complain "says: $(cat "$dir/left")"
sets chosen plain 0 2>"$dir/left" >"$dir/selected"
grep -q 'left to make check-all: .*unit/hist' "$dir/left" || complain "says: $(cat "$dir/left")"
ends 'the gate has what finds each mutant, and says what it leaves out'

# Each test took 2 s in the plain build, and takes three times as long with the address sanitizer.
sets chosen asan 60 2>/dev/null | tr ' ' '\n' >"$dir/selected"
[ "$(grep -c . "$dir/selected")" = 10 ] || complain "chooses: $(tr '\n' ' ' <"$dir/selected")"
ends 'what has not passed in a build is estimated from the plain one'
done_testing
