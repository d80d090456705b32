#!/bin/sh
# SPDX-License-Identifier: MIT
# Documents agree with each other, and with the code they describe. Each rule is tested: one text is
# changed in a copy, and the rule must report it.
. "$(dirname "$0")/../lib/harness.sh"
srcdir=$(cd "$srcdir" && pwd) root=$srcdir copy=$dir/copy
mkdir "$copy" && (cd "$srcdir" && tar -c --exclude='*.o' --exclude=build'*' \
	$(git ls-files '*.md' 2>/dev/null || find . -name '*.md') runnel.pc.in debian/control docs include tests/model tests/tree/mutants.tab src examples) |
	tar -x -C "$copy" || exit 1

# ---- the rules: each prints its violations ----------------------------------------- The one-line
# description of the library, from the header.
line_differs() {
	line=$(sed -n 's/^ \* runnel: a \(.*\)\.$/\1/p' "$root/include/runnel.h")
	[ "$line" ] || { echo 'include/runnel.h has no such line'; return; }
	for file in README.md docs/man/runnel.7.in runnel.pc.in debian/control; do
		grep -qF "$line" "$root/$file" || echo "$file does not have: $line"
	done
	sed -n '/^Description: /p' "$root/debian/control" | grep -vF ": $line"
}
# The tables of figures match docs/figures.json, the others the sources.
figure_unmeasured() { FIGURES_TOP=$root python3 -B "$srcdir/docs/figures.py" --check 2>&1; }
table_outdated() { FIGURES_TOP=$root python3 -B "$srcdir/docs/tables.py" --check 2>&1; }
# A link to a file of the tree, or to a heading, has a target.
link_dead() {
	(cd "$root" && find . -name '*.md' ! -path './build*') | while read -r file; do
		sed '/^```/,/^```/d' "$root/$file" | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' | while read -r link; do
			case $link in http*:*) continue ;; esac
			to=$root/$(dirname "$file")/${link%%#*}
			[ "${link%%#*}" ] || to=$root/$file
			[ -e "$to" ] || { echo "$file: no $link"; continue; }
			case $link in *#*) sed -n 's/^#* //p' "$to" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' |
				grep -qxF -- "${link#*#}" || echo "$file: no heading $link" ;; esac
		done
	done
}
# The lines of a code block below <!-- from FILE --> are lines of that file, in this order.
code_differs() {
	(cd "$root" && awk '/^<!-- from .* -->$/ { from = $3; next }
		/^```/ { if (from && !inside) inside = 1; else if (inside) { close(from); from = ""; inside = 0 } next }
		inside {
			while ((found = getline line <from) > 0 && line != $0);
			if (found <= 0) { print FILENAME ": not in " from ": " $0; close(from); from = ""; inside = 0 }
		}' docs/*.md)
}
# Each word has one meaning: it is in one row.
word_twice() {
	sed -nE 's/^\| (\*\*[^|]*) \|.*/\1/p' "$root/docs/words.md" | grep -oE '\*\*[a-z ]+\*\*' | sort | uniq -d
}

# ---- the rules hold, and report violations -------------------------------------------------------
# holds NAME RULE [FILE SED TEXT] ...: the rule holds in the tree; in a copy with FILE changed by
# SED it reports TEXT.
holds() {
	test_name=$1 rule=$2
	shift 2
	$rule >"$dir/out" 2>"$dir/err"
	[ ! -s "$dir/out" ] || complain 'this breaks the rule:'
	while [ $# != 0 ]; do
		sed -E "$2" "$srcdir/$1" >"$copy/$1"
		! cmp -s "$srcdir/$1" "$copy/$1" || complain "$1 is not changed by $2"
		(root=$copy && $rule) >"$dir/out" 2>"$dir/err"
		grep -qF -- "$3" "$dir/out" || complain "the rule does not report $3 with: $2"
		cp "$srcdir/$1" "$copy/$1"
		shift 3
	done
	ends "$test_name"
}
holds 'the library has one description of one line' line_differs \
	README.md 's/GPU stream/CUDA stream/' 'README.md does' runnel.pc.in 's/GPU/CUDA/' 'runnel.pc.in does' \
	docs/man/runnel.7.in '/^\.Nd/d' 'runnel.7.in does' debian/control '48s/GPU/CUDA/' 'CUDA stream' \
	include/runnel.h 's/GPU stream/CUDA stream/' 'README.md does' include/runnel.h '/runnel: a/d' 'no such line'
holds 'the tables of figures are those of docs/figures.json' figure_unmeasured \
	README.md '/^\| J per second/s/[0-9.]+ \/ /55.5 \/ /' 'README.md is out of date' \
	docs/measurements.md '/^\| J per second, private/s/yes/most/' 'measurements.md is out of date' \
	README.md '/^<!-- figures/d' 'does not have the marks'
holds 'the tables of docs/tables.py are those of the sources' table_outdated \
	src/pool/park.c 's/\[park.S1\] full/[park.S1] half/' 'memory-order.md is out of date: <!-- orderings' \
	src/sys/latch.h 's/; pairs with \[latch.D1\]/;/' 'memory-order.md is out of date' \
	tests/tree/mutants.tab 's/^job.P3 release/job.P2 release/' 'memory-order.md is out of date' \
	docs/models.md '/^\| `cq\.pml`/d' 'models.md is out of date: <!-- models' \
	docs/models.md 's/`BIT` the/`BITS` the/' 'models.md is out of date: <!-- variants' \
	tests/model/hold.pml 's/^#ifdef BREAK_USE/#ifdef BREAK_OTHER/' 'other variants than it has: BREAK_OTHER BREAK_USE'
holds 'each link of a document leads somewhere' link_dead \
	README.md 's/docs\/guide.md#barriers/docs\/guide.md#barrier/' 'no heading docs/guide.md#barrier' \
	docs/design.md 's/\(words\.md/(wods.md/' 'no wods.md'
holds 'code that is from a file of the tree is in that file' code_differs \
	docs/embedding.md 's/^\tr->main->blocked\+\+;/\tr->blocked++;/' 'not in examples/modules/nginx/requests.c' \
	examples/modules/varnish/vmod_adler.c 's/FOREVER/NOT_FOREVER/' 'not in examples/modules/varnish/vmod_adler.c'
holds 'each word has one row of docs/words.md' word_twice \
	docs/words.md 's/^\| \*\*room\*\*/| **order**/' '**order**'
done_testing
