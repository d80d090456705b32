#!/bin/sh
# SPDX-License-Identifier: MIT
# A tag of a struct, a union or an enum is defined once in src/ and include/, so a pointer to it has
# one meaning in all files, and a reader finds the definition.
. "$(dirname "$0")/../lib/harness.sh"
cd "$srcdir" || exit

# twice FOLDER...: "KIND TAG: FILE FILE" of each tag with more than one definition in the folders.
twice() {
	find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.hpp' | sort | xargs awk '
		{ sub(/\/\*.*/, ""); gsub(/(_Alignas|__attribute__|alignas) *\([^)]*\)+ */, "") }
		FNR == 1 { open = "" }
		open != "" { if ($0 ~ /^{/) found(open); open = "" }
		match($0, /(struct|union|enum)[ \t]+[A-Za-z_][A-Za-z_0-9]*[ \t]*\{/) {
			found(substr($0, RSTART, RLENGTH))
			next
		}
		/(struct|union|enum)[ \t]+[A-Za-z_][A-Za-z_0-9]*[ \t]*$/ { open = $0 }
		function found(text, words) {
			gsub(/^[ \t]*|[ \t]*\{?$/, "", text)
			split(text, words, /[ \t]+/)
			tag = words[2]
			nr[tag]++
			where[tag] = where[tag] " " FILENAME
		}
		END { for (tag in nr) if (nr[tag] > 1) print tag ":" where[tag] }' | sort
}

: >"$dir/none"
twice src include >"$dir/twice"
same 'a tag has one definition' none twice

# A copy with one more definition of each form.
mkdir "$dir/planted"
cp src/device/device.h "$dir/planted"
printf 'struct rnl__stream {\n\tint a;\n};\n' >"$dir/planted/a.c"
printf 'enum rnl__memory\n{\n\tA\n};\n' >"$dir/planted/b.c"
printf 'static union rnl__copy { int a; } b;\n' >"$dir/planted/c.c"
printf 'struct rnl__event *a(const struct rnl__stream *s);\nstruct rnl__device;\n' >"$dir/planted/d.c"
(cd "$dir/planted" && twice .) >"$dir/out"
printf '%s\n' 'rnl__copy: ./c.c ./device.h' 'rnl__memory: ./b.c ./device.h' \
	'rnl__stream: ./a.c ./device.h' >"$dir/want"
same 'a second definition of a struct, an enum or a union is reported' want out
done_testing
