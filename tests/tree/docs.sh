#!/bin/sh
# SPDX-License-Identifier: MIT
# Documents agree with each other, and with the code they describe. Each rule is tested: one text is
# changed in a copy, and the rule must report it.
. "$(dirname "$0")/../lib/harness.sh"
srcdir=$(cd "$srcdir" && pwd) root=$srcdir copy=$dir/copy
mkdir "$copy" && (cd "$srcdir" && tar -c --exclude='*.o' --exclude=build'*' \
	$(git ls-files '*.md' 2>/dev/null || find . -name '*.md') runnel.pc.in debian/control docs include tests/model src examples) |
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
# "MODEL VARIANT" of the models' sources, with the model itself as "MODEL -", and of docs/models.md.
modelled() {
	(cd "$root/tests/model" && for model in *.pml; do
		echo "${model%.pml} -"
		sed -nE "s/^#(ifn?def|elif) BREAK_([A-Z0-9]+).*/${model%.pml} \2/p" "$model"
	done) | sort -u
}
described() {
	awk -F '|' '
	/^## / { variants = /broken variants/ }
	!variants && $2 ~ /^ `[a-z]+\.pml` $/ { gsub(/[ `]|\.pml/, "", $2); print $2, "-" }
	variants && NF > 3 {
		gsub(/ /, "", $2)
		if ($2) model = $2
		for (rest = $3; match(rest, /`[A-Z0-9]+`/); rest = substr(rest, RSTART + RLENGTH))
			print model, substr(rest, RSTART + 1, RLENGTH - 2)
	}' "$root/docs/models.md" | sort -u
}
model_undescribed() {
	modelled >"$dir/modelled"
	described >"$dir/described"
	comm -23 "$dir/modelled" "$dir/described" | sed 's/^/docs\/models.md does not have: /'
	# A row also names labels, like L1, and variants of other models.
	sed 's/.* //' "$dir/modelled" | sort -u >"$dir/variants"
	sed -nE 's/.* ([A-Z]{3}[A-Z0-9]*)$/\1/p' "$dir/described" | sort -u | comm -13 "$dir/variants" - |
		sed 's/^/tests\/model does not have: /'
}
# The tables of figures match docs/figures.json.
figure_unmeasured() { FIGURES_TOP=$root python3 -B "$srcdir/docs/figures.py" --check 2>&1; }
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
	docs/man/runnel.7.in '/^\.Nd/d' 'runnel.7.in does' debian/control '47s/GPU/CUDA/' 'CUDA stream' \
	include/runnel.h 's/GPU stream/CUDA stream/' 'README.md does' include/runnel.h '/runnel: a/d' 'no such line'
holds 'docs/models.md has each model and each broken variant, and no other' model_undescribed \
	docs/models.md '/^\| `cq\.pml`/d' 'does not have: cq -' docs/models.md 's/`BIT` the/the/' 'does not have: park BIT' \
	tests/model/hold.pml 's/BREAK_([A-Z0-9]+)/BREAK_OTHER/' 'docs/models.md does not have: hold OTHER' \
	docs/models.md '/^\| park \| `LOOK/s/`LOOK`/`LOOKS`/' 'tests/model does not have: LOOKS'
holds 'the tables of figures are those of docs/figures.json' figure_unmeasured \
	README.md '/^\| J per second/s/[0-9.]+ \/ /55.5 \/ /' 'README.md does not have the figures' \
	docs/measurements.md '/^\| J gathered/s/yes/most/' 'measurements.md does not have the figures' \
	README.md '/^<!-- figures/d' 'does not have the marks'
holds 'each link of a document leads somewhere' link_dead \
	README.md 's/docs\/guide.md#barriers/docs\/guide.md#barrier/' 'no heading docs/guide.md#barrier' \
	docs/design.md 's/\(words\.md/(wods.md/' 'no wods.md'
holds 'each word has one row of docs/words.md' word_twice \
	docs/words.md 's/^\| \*\*room\*\*/| **order**/' '**order**'
done_testing
