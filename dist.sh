#!/bin/sh
# SPDX-License-Identifier: MIT
# Packs the sources into NAME.tar.gz, in the current directory: `make dist`.  The same sources give
# the same bytes anywhere, from a git checkout and from a tarball that this made.
#
# usage: dist.sh NAME
#        dist.sh --list	prints the names of the files alone
#
# A checkout's files are those that git tracks, as they are now.  Elsewhere they are all that
# .gitignore does not name, so git is needed there, too.
# env: SOURCE_DATE_EPOCH is the time of the files, in seconds; else it is that of the last commit,
# or that of CHANGELOG in a tarball.
set -u
here=$PWD
cd "$(dirname "$0")" || exit
command -v git >/dev/null || { echo 'dist.sh: git is missing, which says what belongs to the sources' >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/dist.XXXXXX") && trap 'rm -rf "$work"' EXIT || exit
if [ -e .git ]; then
	git ls-files >"$work/all" && date=$(git log -1 --format=%ct)
else
	git init -q --bare "$work/git" && date=$(stat -c %Y CHANGELOG) &&
		git --git-dir="$work/git" --work-tree=. -c core.excludesFile=/dev/null ls-files --others --exclude-standard >"$work/all"
fi || exit
# Not what is deleted, and not committed yet.
while read -r file; do [ ! -f "$file" ] || echo "$file"; done <"$work/all" | LC_ALL=C sort >"$work/files"
[ "${1:-}" != --list ] || { cat "$work/files"; exit; }
name=${1:?dist.sh: give the name of the tarball}
# Renamed at its end, so that a broken one is not taken for good.
tar -c --format=ustar --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-$date}" \
	--no-recursion --transform="s,^,$name/," -T "$work/files" >"$work/tar" &&
	gzip -9n <"$work/tar" >"$work/gz" && mv "$work/gz" "$here/$name.tar.gz"
