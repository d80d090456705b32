#!/bin/sh
# SPDX-License-Identifier: MIT
# `make dist`: the tarball has all sources and no other files, builds and passes alone, and gives
# the same bytes from any two directories, also with blanks in their names. Binaries built with
# configure's default flags are hardened.
. "$(dirname "$0")/../lib/harness.sh"
command -v git >/dev/null || skip_all 'no git, which make dist needs'
[ -z "$sanitizer" ] || skip_all 'a build without a sanitizer makes it'
name=runnel-$VERSION tarball=$PWD/runnel-$VERSION.tar.gz
case $srcdir in /*) ;; *) srcdir=$PWD/$srcdir ;; esac
unset CFLAGS CPPFLAGS LDFLAGS CXXFLAGS PKG_CONFIG

# ---- the tarball -----------------------------------------------------------------
check 'make dist' $MAKE -s dist
one="$dir/one directory" two=$dir/two
mkdir "$one" "$two" && tar -xzf "$tarball" -C "$one" && mv "$one/$name" "$two/sources" && tar -xzf "$tarball" -C "$one" || exit
one=$one/$name
sh "$srcdir/dist.sh" --list >"$dir/listed"
(cd "$one" && find . -type f | sed 's,^\./,,' | sort) >"$dir/packed"
same 'it has the files of the sources' listed packed
check 'make dist in it gives the same bytes' sh -c 'cd "$1" && sh ./dist.sh "$2" && cmp "$2.tar.gz" "$3" && rm "$2.tar.gz"' - "$one" "$name" "$tarball"

# ---- from two directories: in the sources, and outside of them -------------------------- built
# SOURCES BUILD: configures and builds there, without slow parts that are not needed.
built() { (cd "$2" && "$1/configure" -q --enable-werror --with-cuda=no --without-mpi CC="$CC" CXX= && $MAKE -s -j2 lib tool) ; }
check 'it builds in a directory with a blank' built . "$one"
mkdir "$two/build in"
check 'it builds beside its sources' built "$one/" "$two/build in"
for file in librunnel.a "librunnel.so.$VERSION" runnel; do
	cmp "$one/$file" "$two/build in/$file" >"$dir/out" 2>"$dir/err" || complain "$file"
done
ends 'the library, its archive and the tool have the same bytes'
! grep -aqF "$dir" "$one/librunnel.a" "$one/librunnel.so.$VERSION" "$one/runnel" || complain 'there is one in a file'
ends 'no path of the build is in them'
# passes NAME BUILD TESTS: after a failure, prints the tests' messages
passes() {
	$MAKE -s -C "$2" check T="$3" CC="$CC" >"$dir/log" 2>&1 || { grep -A 40 '^FAIL' "$dir/log" || tail -n 20 "$dir/log"; } >"$dir/out"
	grep -qE '^[1-9][0-9]* passed, 0 failed' "$dir/log" || complain 'they fail'
	ends "$1"
}
# A link to the sources, because make does not support blanks.
check 'a link stands for sources with a blank' [ -L "$two/build in/sources" ]
passes 'its tests pass' "$one" 'unit/queue api/close package/install package/strerror tree/spdx'
passes 'and beside its sources' "$two/build in" 'unit/queue package/install tree/rooms'
$MAKE -s -C "$two/build in" distclean >"$dir/out" 2>"$dir/err" && ls -A "$two/build in" >"$dir/out" && [ ! -s "$dir/out" ] || complain "it leaves files"
ends 'make distclean'

# ---- hardened ----------------------------------------------------------------------
for file in "$one/librunnel.so.$VERSION" "$one/runnel"; do
	readelf -Wd "$file" >"$dir/dynamic" && readelf -Wl "$file" >"$dir/segments" && readelf -W --dyn-syms "$file" >"$dir/symbols" || complain readelf
	grep -q 'GNU_RELRO' "$dir/segments" && grep -qE 'FLAGS.*(BIND_)?NOW' "$dir/dynamic" || complain 'no full RELRO' "$dir/dynamic" /dev/null
	! grep -qE 'GNU_STACK.* RWE' "$dir/segments" || complain 'the stack is executable'
	grep -q 'UND __stack_chk_fail' "$dir/symbols" || complain 'no stack protector'
	grep -qE 'UND __[a-z]+_chk' "$dir/symbols" || complain 'no fortified call'
	ends "$(basename "$file") is hardened"
done
done_testing
