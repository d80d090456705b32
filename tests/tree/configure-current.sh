#!/bin/sh
# SPDX-License-Identifier: MIT
# The committed configure is autoconf's output for configure.ac.
want=2.71
have=$(autoconf --version 2>/dev/null | sed -n '1s/.* //p')
[ "$have" = $want ] || { echo "it was made by autoconf $want; here is ${have:-none}"; exit 77; }
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
cp -R "$srcdir/configure.ac" "$srcdir/m4" "$srcdir/include" "$dir"
(cd "$dir" && autoconf) && cmp "$dir/configure" "$srcdir/configure"
