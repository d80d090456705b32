#!/bin/sh
# `make install` in a staging directory: its headers compile alone, and a program,
# in C and in C++, finds the library with pkg-config alone, shared and static, and runs.
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
rc=0
ok() { echo "ok - $1"; }
bad() { echo "not ok - $1"; rc=1; }

$MAKE -s install DESTDIR="$dir/root" || { bad 'make install'; exit 1; }
ok 'make install'
pc=$(find "$dir/root" -name runnel.pc)
libdir=$(cd "$(dirname "$pc")/.." && pwd)
# The staging directory holds runnel alone; its dependencies stay in the system.
# So the prefix is told, rather than everything moved with a sysroot.
prefix=$dir/root$(sed -n 's/^prefix=//p' "$pc")
pkg() { PKG_CONFIG_PATH=$libdir/pkgconfig $PKG_CONFIG --define-variable=prefix="$prefix" "$@"; }

# ---- what is there -----------------------------------------------------------
[ "$("$(find "$dir/root" -path '*/bin/runnel')" --version)" = "runnel $VERSION" ] && ok 'the tool' || bad 'the tool'
man=$(dirname "$(find "$dir/root" -name man1)")
cmp -s "$srcdir/docs/man/runnel.1" "$man/man1/runnel.1" && cmp -s docs/man/runnel.7 "$man/man7/runnel.7" &&
	cmp -s docs/man/rnl_submit.3 "$man/man3/rnl_submit.3" && ok 'the manual' || bad 'the manual'
missing=
for f in $(sed -n 's/^RNL_API .*[ *]\(rnl_[a-z0-9_]*\)(.*/\1/p' "$srcdir/include/runnel.h"); do
	grep -q "^\.Nm $f\( ,\)*$" "$man/man3/$f.3" || missing="$missing $f"
done
[ -z "$missing" ] && ok 'man finds each function' || bad "man does not find$missing"
cmp -s "$srcdir/src/tool/completion.bash" "$(find "$dir/root" -path '*/bash-completion/completions/runnel')" &&
	ok 'the completion' || bad 'the completion'
[ "$(pkg --modversion runnel)" = "$VERSION" ] && ok 'the version' || bad 'the version'

# ---- the headers, alone and twice, as strict C11 and as C++17 ------------------
include=$(pkg --variable=includedir runnel)
# compiles HEADER LANGUAGE COMPILER FLAG ...
compiles() {
	name="<$1> as $2" unit="#include <$1>
#include <$1>
int main(void) { return 0; }"
	shift 2
	echo "$unit" | "$@" -I"$include" -Wall -Wextra -Wpedantic -Werror -fsyntax-only - && ok "$name" || bad "$name"
}
ptds=-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1
for h in $(cd "$include" && find . -name '*.h'); do
	h=${h#./}
	case $h in
	runnel.h) flags= cxxflags=-Wold-style-cast ;;
	runnel/cuda.h) [ "$have_CUDA" != no ] || continue; flags="$CUDA_CFLAGS $ptds" cxxflags= ;;
	*) bad "<$h> is known here"; continue ;;
	esac
	compiles "$h" C11 $CC -x c -std=c11 $flags
	[ -z "$CXX" ] || compiles "$h" C++17 $CXX -x c++ -std=c++17 $cxxflags $flags
done
[ "$CXX" ] || echo 'SKIP: no C++ compiler'

# ---- programs ------------------------------------------------------------------
app=$srcdir/examples/producer_consumer.c
sanitize=${sanitizer:+-fsanitize=$sanitizer}
# runs NAME PROGRAM: with what it prints.
runs() {
	if out=$(LD_LIBRARY_PATH=$libdir "$2") && [ "$out" = '2000 requests of 256 numbers each, 0 wrong' ]
	then ok "$1"; else bad "$1: $out"; fi
}
$CC $CFLAGS $sanitize -o "$dir/shared" "$app" $(pkg --cflags --libs runnel) || bad 'a C program compiles'
runs 'a C program with the shared library' "$dir/shared"
if [ "$CXX" ]; then
	$CXX -x c++ -std=c++17 -Wall -Wextra -Werror -pthread $sanitize -o "$dir/cxx" "$app" $(pkg --cflags --libs runnel) ||
		bad 'a C++ program compiles'
	runs 'a C++ program with the shared library' "$dir/cxx"
fi
rm -f "$libdir"/librunnel.so*
$CC $CFLAGS $sanitize -o "$dir/static" "$app" $(pkg --static --cflags --libs runnel) || bad 'a C program compiles'
runs 'a C program with the archive' "$dir/static"

$MAKE -s install uninstall DESTDIR="$dir/root" >/dev/null &&
	[ -z "$(find "$dir/root" -name '*runnel*' -o -name '*rnl_*' -o -name '*RNL_*')" ] && ok 'make uninstall' || bad 'make uninstall'
exit $rc
