#!/bin/sh
# SPDX-License-Identifier: MIT
# `make install` in a staging directory: all files are there, and a program, in C and in C++,
# finds the library with only pkg-config, shared and static, and runs.
. "$(dirname "$0")/../lib/harness.sh"

check 'make install' $MAKE -s install DESTDIR="$dir/a root"
mv "$dir/a root" "$dir/root" || exit	# pkg-config's output cannot have blanks
pc=$(find "$dir/root" -name runnel.pc)
libdir=$(cd "$(dirname "$pc")/.." && pwd)
# The staging directory only has runnel; its dependencies are in the system. So this sets the
# prefix, and does not move everything with a sysroot.
prefix=$dir/root$(sed -n 's/^prefix=//p' "$pc")
pkg() { PKG_CONFIG_PATH=$libdir/pkgconfig $PKG_CONFIG --define-variable=prefix="$prefix" "$@"; }

# ---- the files -----------------------------------------------------------
check 'the tool' [ "$("$(find "$dir/root" -path '*/bin/runnel')" --version)" = "runnel $VERSION" ]
man=$(dirname "$(find "$dir/root" -name man1)")
for page in 1/runnel.1 7/runnel.7 3/rnl_submit.3; do
	case $page in 1/*) made=$srcdir/docs/man ;; *) made=docs/man ;; esac
	cmp -s "$made/${page#*/}" "$man/man$page" || complain "$page differs"
done
ends 'the manual'
for f in $(find "$srcdir/include" -name '*.h' ! -name unit.h -exec sed -n 's/^RNL_API .*[ *]\(rnl_[a-z0-9_]*\)(.*/\1/p' {} +); do
	grep -q "^\.Nm $f\( ,\)*$" "$man/man3/$f.3" || complain "man does not find $f"
done
ends 'man finds each function'
check 'the completion' cmp "$srcdir/src/tool/completion.bash" \
	"$(find "$dir/root" -path '*/bash-completion/completions/runnel')"
docs=$(find "$dir/root" -path '*/doc/runnel')
for file in CHANGELOG LICENSE; do
	check "$file" cmp "$srcdir/$file" "$docs/$file"
done
# The pages match the sources, except links to files that are not installed: these are text.  Code has none.
code() { sed -n '/^```/,/^```/p' "$1"; }
for page in README.md docs/embedding.md docs/guide.md docs/patterns.md docs/probes.md docs/sharing.md docs/tutorial.md; do
	sed -E 's/\]\([^)]*\)//g; s/\[//g' "$srcdir/$page" >"$dir/out"
	sed -E 's/\]\([^)]*\)//g; s/\[//g' "$docs/${page##*/}" | cmp -s "$dir/out" - || complain "$page differs"
	code "$srcdir/$page" >"$dir/out"
	code "$docs/${page##*/}" | cmp -s "$dir/out" - || complain "the code of $page differs"
done
sed '/^```/,/^```/d' "$docs"/*.md | grep -oE '\]\([^):#]+' | sed 's/^](//' | grep -vE '^https?$' | sort -u >"$dir/links"
[ -s "$dir/links" ] || complain 'the pages have no links'
while read -r link; do
	[ -e "$docs/$link" ] || complain "a page has a dead link: $link"
done <"$dir/links"
ends 'the pages, and their links'
check 'the scripts for bpftrace' diff -r "$srcdir/docs/probes" "$docs/probes"
check 'the version' [ "$(pkg --modversion runnel)" = "$VERSION" ]

# ---- the headers: those of the sources, all of them; tests/package/headers.sh compiles them --------
check 'the headers' diff -r "$srcdir/include" "$(pkg --variable=includedir runnel)"

# ---- programs ------------------------------------------------------------------
app=$srcdir/examples/producer_consumer.c
sanitize=${sanitizer:+-fsanitize=$sanitizer}
# runs NAME COMPILER ...: the compiled program prints the right output.
runs() {
	runs=$1
	shift
	"$@" -o "$dir/app" >"$dir/out" 2>"$dir/err" && LD_LIBRARY_PATH=$libdir "$dir/app" >"$dir/out" 2>"$dir/err" &&
		[ "$(cat "$dir/out")" = '2000 requests of 256 numbers each, 0 wrong' ] || complain "status $?"
	ends "$runs"
}
runs 'a C program with the shared library' $CC $CFLAGS $sanitize "$app" $(pkg --cflags --libs runnel)
if [ "$CXX" ]; then
	runs 'a C++ program with the shared library' $CXX -x c++ -std=c++17 -Wall -Wextra -Werror -pthread $sanitize \
		"$app" $(pkg --cflags --libs runnel)
else
	echo 'SKIP: no C++ compiler'
fi
# cmake_runs NAME TARGET: a project that finds the package builds with it.
cmake_runs() {
	printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(app C)' "find_package(runnel ${VERSION%.*} REQUIRED)" \
		"add_executable(app \"$(cd "$(dirname "$app")" && pwd)/${app##*/}\")" \
		"target_link_libraries(app $2)" >"$dir/project/CMakeLists.txt"
	rm -rf "$dir/project/build"
	runs "$1" sh -c 'cmake -S "$1" -B "$1/build" -Drunnel_DIR="$2" -DCMAKE_C_COMPILER="$3" -DCMAKE_C_FLAGS="$4" &&
		cmake --build "$1/build" && cp "$1/build/app" "$6"' - "$dir/project" "$libdir/cmake/runnel" "${CC%% *}" "$CFLAGS $sanitize"
}
if command -v cmake >/dev/null; then
	mkdir "$dir/project"
	cmake_runs 'CMake finds the shared library' runnel::runnel
	readelf -d "$dir/app" 2>/dev/null | grep -q 'librunnel\.so\.' || ! command -v readelf >/dev/null || complain 'not the shared library'
	cmake_runs 'CMake finds the archive' runnel::static
	! readelf -d "$dir/app" 2>/dev/null | grep -q 'librunnel\.so' || complain 'not the archive'
	sed -i 's/find_package(runnel [0-9.]*/find_package(runnel 99.1/' "$dir/project/CMakeLists.txt"
	rm -rf "$dir/project/build"
	! cmake -S "$dir/project" -B "$dir/project/build" -Drunnel_DIR="$libdir/cmake/runnel" >"$dir/out" 2>"$dir/err" || complain 'another version fits'
	ends 'CMake refuses another version'
else
	echo 'SKIP: no cmake'
fi
rm -f "$libdir"/librunnel.so*
[ ! -d "$dir/project" ] || cmake_runs 'CMake finds the archive if there is only that' runnel::runnel
runs 'a C program with the archive' $CC $CFLAGS $sanitize "$app" $(pkg --static --cflags --libs runnel)

mv "$dir/root" "$dir/a root" && $MAKE -s install uninstall DESTDIR="$dir/a root" >"$dir/out" 2>&1 || complain "status $?"
find "$dir/a root" ! -type d >"$dir/out" && find "$dir/a root" -name '*runnel*' >>"$dir/out" && [ ! -s "$dir/out" ] || complain 'it leaves files'
ends 'make uninstall'
done_testing
