#!/bin/sh
# SPDX-License-Identifier: MIT
# Counts files with examples/gwc and with wc, and compares: `make demo`.
#
# env: DEMO_FILES  files and directories, separated by blanks; GWC  the program
set -u
export LC_ALL=C
work=$(mktemp -d "${TMPDIR:-/tmp}/gwc-demo.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Lists all readable regular files.
for path in $DEMO_FILES; do
	if [ -e "$path" ]; then
		find -H "$path" -name .git -prune -o -type f -readable -print0
	else
		echo "demo: $path does not exist (see DEMO_FILES); skipped" >&2
	fi
done >"$work/list"
files=$(tr -dc '\0' <"$work/list" | wc -c)
if [ "$files" = 0 ]; then
	echo "demo: no readable file in: $DEMO_FILES" >&2
	exit 1
fi

echo "gwc and wc count the $files files in: $DEMO_FILES"
wc --files0-from="$work/list" >"$work/wc"
wc_status=$?
# With few files, smaller jobs than usual keep all workers busy.
"$GWC" --stats --chunk=64K --files0-from="$work/list" >"$work/gwc" 2>"$work/stats"
gwc_status=$?

[ $gwc_status = 0 ] || cat "$work/stats" >&2
if [ $gwc_status != $wc_status ] || ! cmp -s "$work/wc" "$work/gwc"; then
	echo "demo: FAILED: gwc (status $gwc_status) differs from wc (status $wc_status):" >&2
	diff "$work/wc" "$work/gwc" | sed -n 1,20p >&2
	exit 1
fi
tail -n 1 "$work/gwc"
echo "Identical to wc's output, byte for byte, in all $(wc -l <"$work/gwc") lines.  How gwc did it:"
sed 's/^/  /' "$work/stats"
