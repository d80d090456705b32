#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual: every name of the public headers is on one page, with the same declaration and the
# same errors; runnel(7) has each header's pages; mandoc finds no errors; the examples compile, as C
# and as C++, run and are right.
# runnel/unit.h and mailbox.h are private.
. "$(dirname "$0")/../lib/harness.sh"
header=$dir/headers.h
find "$srcdir/include" -name '*.h' ! -name unit.h ! -name mailbox.h -exec cat {} + >"$header" || exit
same_names() {	# same_names NAME WANT HAVE: and the list is not empty
	[ -s "$dir/$2" ] || complain "$2: none"
	same "$@"
}

# ---- names ---------------------------------------------------------------------
sed -n 's/^RNL_API .*[ *]\(rnl_[a-z0-9_]*\)(.*/\1/p; s/^static inline .*[ *]\(rnl_[a-z0-9_]*\)(.*)$/\1/p
	s/^typedef .*[ *]\(rnl_[a-z0-9_]*\)(.*/\1/p' "$header" |
	sort >"$dir/functions"
# rnl_guard(3) describes only an enumeration, rnl_cpp(3) and rnl_cpp20(3) classes, rnl_cuda(3) macros, and
# rnl_container_of() is one.
sed -n 's/^\.Nm \(rnl_[a-z0-9_]*\).*/\1/p' docs/man/rnl_*.3 | grep -vxE 'rnl_(guard|cpp|cpp20|cuda|container_of)' | sort >"$dir/named"
same_names 'each function, and each type of one, is on one page' functions named

sed -nE 's/^((struct|enum) rnl_[a-z_]*) \{$/\1/p' "$header" | sort >"$dir/types"
sed -nE 's/^\.Ss (struct|enum) /\1 /p' docs/man/rnl_*.3 | sort >"$dir/described"
# These have no field for users.
grep -vxE 'struct rnl_(barrier|hold|order)' "$dir/types" >"$dir/shown"
same_names 'each structure and enumeration is on one page' shown described

sed -n 's/^	\(RNL_[A-Z0-9_]*\) = .*/\1/p' "$header" | sort >"$dir/values"
sed -n 's/^\.It Dv \(RNL_[A-Z0-9_]*\)$/\1/p' docs/man/rnl_*.3 | sort | comm -12 - "$dir/values" >"$dir/explained"
same_names 'each value of an enumeration is explained' values explained

sed -n 's/^#define \(RNL_[A-Z0-9_]*\).*/\1/p' "$header" | grep -vxE 'RNL_API|RNL__.*' | sort -u >"$dir/macros"
grep -hE '^\.(It )?Dv |^\.Ss Fn ' docs/man/*.[37] | grep -oE 'RNL_[A-Z0-9_]+' | sort -u |
	comm -12 - "$dir/macros" >"$dir/told"
same_names 'each macro is on a page' macros told

# The header of each page is the first of its synopsis.
for page in docs/man/*.3; do
	sed -n "s,^\.In \(runnel.*\),\1 $(basename "$page" .3),p; /^\.Sh DESC/q" "$page"
done | sort >"$dir/pages"
sed -n 's/^\.It Xr \(rnl_[a-z0-9_]*\) 3$/runnel.h \1/p; s/^\.It In \(runnel.*\) , Xr \(rnl_[a-z0-9_]*\) 3$/\1 \2/p' \
	docs/man/runnel.7 | sort >"$dir/listed"
same_names 'runnel(7) lists each page, with its header' pages listed
(cd "$srcdir/include" && ls runnel.* runnel20.hpp runnel/*.h) | grep -vxE 'runnel/(unit|mailbox).h' | sort >"$dir/headers"
cut -d ' ' -f 1 "$dir/listed" | sort -u >"$dir/described"
same_names 'each header has a page' headers described

# ---- declarations, errors ------------------------------------------------------
# The compiler compares a synopsis with the headers' declarations.
{
	(cd "$srcdir/include" && ls runnel.h runnel/*.h) | grep -vx runnel/cuda.h | sed 's/.*/#include <&>/'
	awk '/^\.Ft / { gsub(/^\.Ft |"/, ""); type = $0 }
	     /^\.Fo / { text = type " " $2 "("; type = ""; sep = "" }
	     /^\.Fa / && text { gsub(/^\.Fa |"/, ""); text = text sep $0; sep = ", " }
	     /^\.Fc/ { if (text !~ /^ /) print text ");"; text = "" }' docs/man/rnl_*.3
} >"$dir/synopses.c"
grep -o 'rnl_[a-z0-9_]*(' "$dir/synopses.c" | tr -d '(' | sort >"$dir/declared"
same_names 'each function has a synopsis' functions declared
check 'the synopses are what the headers declare' \
	$CC -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$srcdir/include" "$dir/synopses.c"

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
same_names 'the errors are those of the headers' errors told-errors

sed -n 's/.*case -\(E[A-Z0-9]*\):.*/\1/p' "$srcdir/src/sys/abi.c" | sort >"$dir/texts"
sed -n 's/^\.It Er \\-\(E[A-Z0-9]*\)$/\1/p' docs/man/runnel.7 | sort >"$dir/meanings"
same_names 'runnel(7) tells each code that rnl_strerror() has a text for' texts meanings
sed -n 's/.* -\(E[A-Z0-9]*\)$/\1/p' "$dir/errors" | sort -u | comm -23 - "$dir/texts" | tr '\n' ' ' >"$dir/others"
# Errors of the system: eventfd(2), open(2), write(2).
echo 'EACCES EADDRINUSE EDQUOT EFBIG EMFILE ENFILE ENOENT ENOSPC ' | tr -d '\n' >"$dir/system"
same_names 'no other codes are the library'"'"'s own' system others

# ---- examples ------------------------------------------------------------------
libdir=$PWD
example() {	# example COMPILER FLAG ...: builds the page's example, and runs it
	"$@" -I"$srcdir/include" -o "$dir/example" "$dir/example.c" -L. -lrunnel &&
		(cd "$dir" && LD_LIBRARY_PATH=$libdir timeout 60 ./example) >"$dir/out" 2>"$dir/err" || complain "status $?"
}
flags="-Wall -Wextra -Werror -pthread ${sanitizer:+-fsanitize=$sanitizer}"
for page in docs/man/*.[37]; do
	awk '/^\.Sh / { here = /EXAMPLES/ } /^\.Ed/ { code = 0 } here && code
	     /^\.Bd/ { code = here }' "$page" | sed 's/^\\&//; s/\\e/\\/g' >"$dir/example.c"
	grep -q '^int main(' "$dir/example.c" || complain 'its example is no program'
	# shellcheck disable=SC2086  # words
	if grep -q '^#include <runnel.hpp>' "$dir/example.c"; then
		for cxx in $(cxx_compilers); do
			example $cxx $flags -x c++ -std=c++17
			printf '%s\n' '2 words' 'error: no words' '3 words' 'value 3' 'error: the peer: Protocol error' 43 >"$dir/want"
			cmp -s "$dir/want" "$dir/out" || complain "of $cxx, it prints something else:" "$dir/want" "$dir/out"
		done
	elif grep -q '^#include <runnel20.hpp>' "$dir/example.c"; then
		for cxx in $(cxx_compilers); do
			example $cxx $flags -x c++ -std=c++20
			prints '^328450$'
		done
	elif grep -q '^#include <runnel/cuda.h>' "$dir/example.c"; then
		[ "$NVCC" ] && [ -z "$sanitizer" ] || { echo 'SKIP: a sanitizer, or no nvcc for rnl_cuda(3)'; continue; }
		example $NVCC --default-stream per-thread -x cu -Xcompiler -Wall,-Wextra,-Werror
	else
		example $CC $flags -std=gnu11 $CFLAGS
		[ -z "$CXX" ] || $CXX -x c++ -std=c++17 -Wall -Wextra -Werror -I"$srcdir/include" -fsyntax-only "$dir/example.c" ||
			complain 'it is no C++'
	fi
	ends "the example of $(basename "$page")"
done

# ---- the pages themselves ---------------------------------------------------------
command -v mandoc >/dev/null || { echo 'SKIP: no mandoc to look at the pages'; done_testing; }
check 'mandoc finds no fault' mandoc -T lint -W warning docs/man/*.[37] "$srcdir/docs/man/runnel.1"
mandoc -T ascii "$srcdir/docs/man/runnel.1" | sed "s/.$(printf '\b')//g" >"$dir/out"
prints '^ +runnel check \[--workers=n\] \[--device=device\] \[--json\]$'
ends 'runnel(1) has its options'
done_testing
