#!/bin/sh
# SPDX-License-Identifier: MIT
# debian/: text that it repeats matches the sources, and CHANGELOG begins with this version;
# dpkg-buildpackage makes the packages from a tarball, lintian reports nothing, not even pedantic tags,
# and the installed packages work.
. "$(dirname "$0")/../lib/harness.sh"
[ -z "$sanitizer" ] || skip_all 'a build without a sanitizer makes the packages'
case $srcdir in /*) ;; *) srcdir=$PWD/$srcdir ;; esac
awk -f "$srcdir/debian/symbols.awk" "$srcdir/src/runnel.map" >"$dir/symbols" && [ "$(wc -l <"$dir/symbols")" -gt 70 ] || complain 'no symbols'
check 'the symbols are those of src/runnel.map' diff "$dir/symbols" "$srcdir/debian/librunnel0.symbols"
check "the changelog's version is $VERSION" [ "$(sed -n '1s/^runnel (\(.*\)) .*/\1/p' "$srcdir/debian/changelog")" = "$VERSION" ]
check "CHANGELOG begins with $VERSION" grep -qE "^$VERSION(,|$)" - <<-END
	$(sed -n 3p "$srcdir/CHANGELOG")
END
# The second paragraph on the licence has the text.
sed -n '5,$p' "$srcdir/LICENSE" | sed 's/^$/./; s/^/ /' >"$dir/licence"
awk 'nr == 2 { print } /^License: Expat$/ { nr++ }' "$srcdir/debian/copyright" >"$dir/copied"
same 'the licence is LICENSE' licence copied
case $(uname -m) in x86_64 | aarch64) ;; *) echo 'SKIP: the packages are for amd64 and arm64'; done_testing ;; esac
for program in git dpkg-buildpackage dh lintian; do
	command -v $program >/dev/null || { echo "SKIP: no $program (sh deps.sh git dpkg-dev debhelper fakeroot lintian)"; done_testing; }
done

# Uses the distribution's compilers and flags, not ours. The tests run here anyway.
unset CC CXX CFLAGS CPPFLAGS LDFLAGS CXXFLAGS MAKE NM PKG_CONFIG
PKG=$(command -v pkg-config)
name=runnel-$VERSION
(cd "$dir" && sh "$srcdir/dist.sh" "$name" && tar -xzf "$name.tar.gz") || exit
check 'dpkg-buildpackage' sh -c 'cd "$1" && DEB_BUILD_OPTIONS=nocheck DEB_BUILD_PROFILES=nocheck dpkg-buildpackage -us -uc' - "$dir/$name"
set -- "$dir"/runnel_*.changes
[ -e "$1" ] || { echo 'not ok - there are packages'; exit 1; }
lintian --allow-root --display-info --pedantic --fail-on error,warning,info,pedantic "$1" >"$dir/out" 2>"$dir/err" &&
	[ ! -s "$dir/out" ] || complain "status $?"
ends 'lintian finds no fault'
for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/root" || complain "$deb"; done
libdir=$(dirname "$(find "$dir/root" -name librunnel.a)")
mkdir "$dir/tmp"
check 'the test for autopkgtest' env AUTOPKGTEST_TMP="$dir/tmp" PATH="$dir/root/usr/bin:$PATH" LD_LIBRARY_PATH="$libdir" \
	PKG_CONFIG_PATH="$libdir/pkgconfig" PKG_CONFIG="$PKG --define-variable=prefix=$dir/root/usr" sh "$srcdir/debian/tests/example"
for file in usr/bin/runnel usr/share/man/man1/runnel.1.gz usr/share/bash-completion/completions/runnel usr/share/man/man3/rnl_submit.3.gz \
	usr/share/man/man7/runnel.7.gz usr/include/runnel/cuda.h usr/share/doc/librunnel0/copyright usr/share/doc/librunnel0/changelog.gz; do
	[ -e "$dir/root/$file" ] || complain "no $file"
done
ends 'the packages have the tool, its completion and the manual'
docs=$dir/root/usr/share/doc/librunnel-dev
sed '/^```/,/^```/d' "$docs"/*.md | grep -oE '\]\([^):#]+' | sed 's/^](//' | grep -vE '^https?$' | sort -u >"$dir/links"
[ -s "$dir/links" ] || complain 'the pages have no links'
while read -r link; do [ -e "$docs/$link" ] || complain "a page has a dead link: $link"; done <"$dir/links"
ends 'the links of the pages, which are not compressed'
done_testing
