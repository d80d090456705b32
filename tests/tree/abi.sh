#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs that were compiled for the last release still run. tests/tree/abi has a folder for each
# release: abidw's description of the library, the fields of its structures, and its constants.
# abidiff finds no removed function, no changed parameters, and no changed structure; a structure
# that begins with its size may grow at its end. Fields and constants have not changed.
#
# usage: abi.sh --keep	writes the folder of this version, for a release: `make abi`
. "$(dirname "$0")/../lib/harness.sh"
command -v abidiff >/dev/null || skip_all 'no abidiff'
[ "$(uname -m)" = x86_64 ] || skip_all 'the kept ones are of x86_64'
[ -z "$sanitizer" ] || skip_all 'a build without a sanitizer looks at it'
case $srcdir in /*) here=$srcdir ;; *) here=$PWD/$srcdir ;; esac
headers() { find "$here/include" -name '*.h' -exec cat {} +; }

# Without CUDA, which is not a part of the ABI.
mkdir "$dir/build" && (cd "$dir/build" && "$here/configure" -q --with-cuda=no --without-check --without-mpi CC="$CC" CFLAGS='-g -O0' \
	LDFLAGS= CPPFLAGS= && $MAKE -s -j2 lib) >"$dir/log" 2>&1 || { cat "$dir/log"; echo 'not ok - the library is built'; exit 1; }

# says_of LINES: the output of a program of these lines, which includes the headers.
says_of() {
	{
		printf '#include <stddef.h>\n#include <stdio.h>\n'
		(cd "$here/include" && ls runnel.h runnel/*.h) | grep -vx runnel/cuda.h | sed 's/.*/#include <&>/'
		printf '#define KIND(x) _Generic((x), int: 1, long: 1, unsigned: 2, unsigned long: 2, default: 3)\n'
		printf 'int main(void)\n{\n'
		cat "$1"
		echo '}'
	} >"$dir/program.c"
	$CC -I"$here/include" -o "$dir/program" "$dir/program.c" && "$dir/program"
}
# fields: reads lines "structure" and "structure.field"; prints the size, or the offset, size and
# sign. abidiff (2.2) does not check a suppressed structure.
fields() {
	sed -E 's/^([a-z_]+)$/\tprintf("\1 %zu\\n", sizeof(struct \1));/
		s/^([a-z_]+)[.]([a-z0-9_]+)$/\t{ struct \1 s; printf("\1.\2 %zu %zu %d\\n", offsetof(struct \1, \2), sizeof(s.\2), KIND(s.\2)); }/' >"$dir/lines"
	says_of "$dir/lines"
}
# constants: reads names, prints values. Attributes are plain integers, so abidiff does not see the
# enumerations of their values.
constants() {
	sed 's/.*/	printf("& %lld\\n", (long long)&);/' >"$dir/lines"
	says_of "$dir/lines"
}

kept=$here/tests/tree/abi/$VERSION
keep() {	# keep: writes the folder $kept
	mkdir -p "$kept" || exit
	abidw --headers-dir "$here/include" --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs --type-id-style hash \
		--out-file "$kept/library.abi" "$dir/build/librunnel.so" || exit
	# A structure that begins with its size may grow, so its size is not compared.
	headers | sed -zE 's,/\*[^*]*\*+([^/*][^*]*\*+)*/,,g' | awk '
		/^struct rnl_[a-z_]+ [{]$/ { type = $2; sized = 0; text = ""; next }
		type && /^[}];/ { if (!sized) print type; type = "" }
		!type { next }
		{ text = text $0 }
		!/;/ { next }
		{
			if (match(text, /[(][*][a-z0-9_]+[)]/))
				text = substr(text, RSTART + 2, RLENGTH - 3)
			gsub(/\[[^]]*\]|;[ \t]*$/, "", text)
			n = split(text, fields, ",")
			for (i = 1; i <= n; i++) {
				sub(/^.*[^a-z0-9_]/, "", fields[i])
				sized = sized || fields[i] == "size"
				if (fields[i] != "" && fields[i] != "reserved")
					print type "." fields[i]
			}
			text = ""
		}' | fields >"$kept/fields" || exit
	headers | sed -nE 's/^	(RNL_[A-Z0-9_]+) = .*/\1/p; s/^#define (RNL_[A-Z0-9_]+)[ 	].*[0-9].*/\1/p' |
		grep -vE '^RNL_(VERSION|NAMES_STREAM|NEEDS_CUDA|.*INIT$)' | constants >"$kept/constants" || exit
}
if [ "${1:-}" = --keep ]; then
	keep
	wc -l "$kept"/*
	exit
fi

# The last release that is not this version; without one, this version is compared with itself.
last=$(ls "$here/tests/tree/abi" 2>/dev/null | grep -vxF "$VERSION" | sort -V | tail -n 1)
if [ "$last" ]; then
	kept=$here/tests/tree/abi/$last
	soname=$(cd "$dir/build" && echo librunnel.so.?)
	grep -q "soname='$soname'" "$kept/library.abi" || skip_all "$last has not the soname $soname: they need not agree"
else
	last="$VERSION itself" kept=$dir/kept
	keep
fi

# Suppressed: sized structures that grow at their end.
headers | awk '/^struct rnl_[a-z_]+ [{]$/ { name = $2; next }
     name && /^\tuint32_t size;/ { printf "[suppress_type]\n\tname = %s\n\thas_data_member_inserted_at = end\n", name }
     { name = "" }' >"$dir/sized"
check "functions and structures are those of $last" abidiff --headers-dir2 "$here/include" --drop-private-types --no-added-syms \
	--suppressions "$dir/sized" "$kept/library.abi" "$dir/build/librunnel.so"
for what in fields constants; do
	cut -d ' ' -f 1 "$kept/$what" | $what >"$dir/$what" && [ "$(wc -l <"$kept/$what")" -gt 30 ] || complain 'a program does not see them'
	cp "$kept/$what" "$dir/kept.$what"
	same "$what are those of $last" "kept.$what" $what
done
done_testing
