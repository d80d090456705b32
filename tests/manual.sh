#!/bin/sh
# The manual: every name of the public header is on one page, as it is declared there,
# with the same errors; mandoc finds no fault; the examples compile, as C and as C++, run
# and are right.
header=$srcdir/include/runnel.h rc=0
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
ok() { echo "ok - $1"; }
bad() { echo "not ok - $1"; rc=1; }
# same NAME WANT HAVE
same() {
	if [ -s "$dir/$2" ] && diff -u "$dir/$2" "$dir/$3" >"$dir/diff"; then ok "$1"
	else bad "$1"; cat "$dir/diff"; fi
}

# ---- names ---------------------------------------------------------------------
sed -n 's/^RNL_API .*[ *]\(rnl_[a-z0-9_]*\)(.*/\1/p; s/^typedef .*[ *]\(rnl_[a-z0-9_]*\)(.*/\1/p' "$header" |
	sort >"$dir/functions"
# rnl_guard(3) is about an enumeration alone, rnl_container_of() is a macro.
sed -n 's/^\.Nm \(rnl_[a-z0-9_]*\).*/\1/p' docs/man/rnl_*.3 | grep -vxE 'rnl_(guard|container_of)' | sort >"$dir/named"
same 'each function, and each type of one, is on one page' functions named

sed -nE 's/^((struct|enum) rnl_[a-z_]*) \{$/\1/p' "$header" | sort >"$dir/types"
sed -nE 's/^\.Ss (struct|enum) /\1 /p' docs/man/rnl_*.3 | sort >"$dir/described"
grep -vx 'struct rnl_barrier' "$dir/types" >"$dir/shown"	# it has no field for users
same 'each structure and enumeration is on one page' shown described

sed -n 's/^	\(RNL_[A-Z0-9_]*\) = .*/\1/p' "$header" | sort >"$dir/values"
sed -n 's/^\.It Dv \(RNL_[A-Z0-9_]*\)$/\1/p' docs/man/rnl_*.3 | sort | comm -12 - "$dir/values" >"$dir/explained"
same 'each value of an enumeration is explained' values explained

sed -n 's/^#define \(RNL_[A-Z0-9_]*\).*/\1/p' "$header" | grep -vx RNL_API | sort -u >"$dir/macros"
grep -hE '^\.(It )?Dv |^\.Ss Fn ' docs/man/*.[37] | grep -oE 'RNL_[A-Z0-9_]+' | sort -u |
	comm -12 - "$dir/macros" >"$dir/told"
same 'each macro is on a page' macros told

ls docs/man/*.3 | sed 's,.*/,,; s,\.3$,,' | sort >"$dir/pages"
sed -n 's/^\.It Xr \(rnl_[a-z_]*\) 3$/\1/p' docs/man/runnel.7 | sort >"$dir/listed"
same 'runnel(7) lists each page' pages listed

# ---- declarations, errors ------------------------------------------------------
# The compiler compares a synopsis with what the header has declared.
{
	echo '#include <runnel.h>'
	awk '/^\.Ft / { gsub(/^\.Ft |"/, ""); type = $0 }
	     /^\.Fo / { text = type " " $2 "("; type = ""; sep = "" }
	     /^\.Fa / && text { gsub(/^\.Fa |"/, ""); text = text sep $0; sep = ", " }
	     /^\.Fc/ { if (text !~ /^ /) print text ");"; text = "" }' docs/man/rnl_*.3
} >"$dir/synopses.c"
grep -o 'rnl_[a-z0-9_]*(' "$dir/synopses.c" | tr -d '(' | sort >"$dir/declared"
same 'each function has a synopsis' functions declared
$CC -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$srcdir/include" "$dir/synopses.c" &&
	ok 'the synopses are what the header declares' || bad 'the synopses are what the header declares'

# "function -ECODE", from the header's comment before a prototype, and from a page's section of it.
awk '/^\/\*/ { n = 0 } /^ \*|^\/\*/ { line[n++] = $0 }
     match($0, /rnl_[a-z0-9_]*\(/) && /^RNL_API/ {
	name = substr($0, RSTART, RLENGTH - 1)
	for (i = 0; i < n; i++)
		for (; match(line[i], /-E[A-Z0-9]+/); line[i] = substr(line[i], RSTART + RLENGTH))
			print name, substr(line[i], RSTART, RLENGTH)
	n = 0
     }' "$header" | sort -u >"$dir/errors"
awk '/^\.S[sh] / { name = /^\.Ss Fn/ ? $3 : "" }
     name && !/^\.Bl/ { for (; match($0, /\\-E[A-Z0-9]+/); $0 = substr($0, RSTART + RLENGTH))
	print name, substr($0, RSTART + 1, RLENGTH - 1) }' docs/man/rnl_*.3 | sort -u >"$dir/told-errors"
same 'the errors are those of the header' errors told-errors

sed -n 's/.*case -\(E[A-Z0-9]*\):.*/\1/p' "$srcdir/src/abi.c" | sort >"$dir/texts"
sed -n 's/^\.It Er \\-\(E[A-Z0-9]*\)$/\1/p' docs/man/runnel.7 | sort >"$dir/meanings"
same 'runnel(7) tells each code that rnl_strerror() has a text for' texts meanings
sed -n 's/.* -\(E[A-Z0-9]*\)$/\1/p' "$dir/errors" | sort -u | comm -23 - "$dir/texts" | tr '\n' ' ' >"$dir/others"
# Those of the system: eventfd(2), open(2), write(2).
echo 'EACCES EDQUOT EFBIG EMFILE ENFILE ENOENT ENOSPC ' | tr -d '\n' >"$dir/system"
same 'no other codes are the library'"'"'s own' system others

# ---- examples ------------------------------------------------------------------
for page in docs/man/*.[37]; do
	name=$(basename "$page")
	awk '/^\.Sh / { here = /EXAMPLES/ } /^\.Ed/ { code = 0 } here && code
	     /^\.Bd/ { code = here }' "$page" | sed 's/^\\&//; s/\\e/\\/g' >"$dir/example.c"
	grep -q '^int main(' "$dir/example.c" || { bad "$name has an example that is a program"; continue; }
	if $CC -std=gnu11 -Wall -Wextra -Werror $CFLAGS ${sanitizer:+-fsanitize=$sanitizer} -I"$srcdir/include" -pthread \
		-o "$dir/example" "$dir/example.c" -L. -lrunnel -Wl,-rpath,"$PWD" &&
		{ [ -z "$CXX" ] || $CXX -x c++ -std=c++17 -Wall -Wextra -Werror -I"$srcdir/include" -fsyntax-only "$dir/example.c"; } &&
		(cd "$dir" && timeout 60 ./example) >"$dir/out" 2>&1
	then ok "the example of $name"; else bad "the example of $name"; cat "$dir/out"; fi
done

# ---- the pages as such ---------------------------------------------------------
command -v mandoc >/dev/null || { echo 'SKIP: no mandoc to look at the pages'; exit $rc; }
if mandoc -T lint -W warning docs/man/*.[37] "$srcdir/docs/man/runnel.1" >"$dir/lint" 2>&1; then ok 'mandoc finds no fault'
else bad 'mandoc finds no fault'; cat "$dir/lint"; fi
mandoc -T ascii "$srcdir/docs/man/runnel.1" | sed "s/.$(printf '\b')//g" >"$dir/runnel.1"
grep -qE '^ +runnel check \[--workers=n\] \[--device=device\] \[--json\]$' "$dir/runnel.1" &&
	ok 'runnel(1) has its options' || bad 'runnel(1) has its options'
exit $rc
