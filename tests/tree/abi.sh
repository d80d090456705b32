#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs that were compiled for the previous tag still run.  abidiff finds no function that is
# gone or takes something else, and no changed structure in the public headers; one that begins
# with its size may grow at its end.  Fields and constants are what they were.
#
# env: RNL_GIT is the git directory, where the sources are a copy without one.
. "$(dirname "$0")/../lib/harness.sh"
command -v abidiff >/dev/null || skip_all 'no abidiff'
[ -z "$sanitizer" ] || skip_all 'a build without a sanitizer looks at it'
git() { command git --git-dir="${RNL_GIT:-$srcdir/.git}" "$@"; }
git rev-parse HEAD >/dev/null 2>&1 || skip_all 'the sources are no git checkout'
# Of a release itself, the one before it.
tag=$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null) || skip_all 'no tag to compare with'

# built SOURCES NAME: the library without CUDA, which has no part in the ABI, in $dir/NAME.
built() {
	mkdir "$dir/$2" && (cd "$dir/$2" && "$1/configure" -q --with-cuda=no --without-check CC="$CC" CFLAGS='-g -O0' \
		LDFLAGS= CPPFLAGS= && $MAKE -s -j2 lib) >"$dir/log" 2>&1 || { cat "$dir/log"; echo "not ok - $2 is built"; exit 1; }
}
case $srcdir in /*) here=$srcdir ;; *) here=$PWD/$srcdir ;; esac
mkdir "$dir/sources" && git archive "$tag" | tar -x -C "$dir/sources" || exit
built "$dir/sources" old
built "$here" new
soname() { (cd "$dir/$1" && echo librunnel.so.?); }
[ "$(soname old)" = "$(soname new)" ] || skip_all "$tag is $(soname old), this $(soname new): they need not agree"

# headers SOURCES: all of them; an older one may have them in one file.
headers() { find "$1/include" -name '*.h' -exec cat {} +; }

# Suppressed: sized structures that grow at their end.
headers "$here" | awk '/^struct rnl_[a-z_]+ [{]$/ { name = $2; next }
     name && /^\tuint32_t size;/ { printf "[suppress_type]\n\tname = %s\n\thas_data_member_inserted_at = end\n", name }
     { name = "" }' >"$dir/sized"
check "functions and structures are those of $tag" abidiff --headers-dir1 "$dir/sources/include" --headers-dir2 "$here/include" --drop-private-types --no-added-syms \
	--suppressions "$dir/sized" "$dir/old/librunnel.so" "$dir/new/librunnel.so"

# seen SOURCES NAME PROGRAM: what a program says of the headers.
seen() { $CC -I"$1/include" -o "$dir/program" "$3" && "$dir/program" >"$dir/$2"; }
# sees_same WHAT PROGRAM: it says the same of both.
sees_same() {
	seen "$dir/sources" old.seen "$2" && seen "$here" new.seen "$2" && [ -s "$dir/old.seen" ] ||
		complain 'a program does not see them'
	same "$1 are those of $tag" old.seen new.seen
}
# abidiff (2.2) does not look into a suppressed structure.  So this compares each field's place,
# size and signedness, and the size of structures that do not begin with it.
{
	printf '#include <stddef.h>\n#include <stdio.h>\n#include <runnel.h>\n'
	printf '#define KIND(x) _Generic((x), int: 1, long: 1, unsigned: 2, unsigned long: 2, default: 3)\n'
	printf 'int main(void)\n{\n'
	headers "$dir/sources" | sed -zE 's,/\*[^*]*\*+([^/*][^*]*\*+)*/,,g' | awk '
		/^struct rnl_[a-z_]+ [{]$/ { type = $2; sized = 0; text = ""; next }
		type && /^[}];/ { if (!sized) printf "printf(\"%s %%zu\\n\", sizeof(struct %s));\n", type, type; type = "" }
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
					printf "{ struct %s s; printf(\"%s.%s %%zu %%zu %%d\\n\", offsetof(struct %s, %s), sizeof(s.%s), KIND(s.%s)); }\n",
						type, type, fields[i], type, fields[i], fields[i], fields[i]
			}
			text = ""
		}'
	echo '}'
} >"$dir/fields.c"
sees_same fields "$dir/fields.c"

# The constants that the tag had; attributes are plain integers, so abidiff does not know of the
# enumerations that they take their values from.
{
	printf '#include <stdio.h>\n#include <runnel.h>\nint main(void)\n{\n'
	headers "$dir/sources" |
		sed -nE 's/^	(RNL_[A-Z0-9_]+) = .*/\1/p; s/^#define (RNL_[A-Z0-9_]+)[ 	].*[0-9].*/\1/p' |
		grep -vE '^RNL_(VERSION|.*INIT$)' |
		sed 's/.*/	printf("& %lld\\n", (long long)&);/'
	echo '}'
} >"$dir/values.c"
sees_same constants "$dir/values.c"
done_testing
