#!/bin/sh
# mo-pairs.sh, over the library; and docs/memory-order.md has the labels of its comments.
cd "${srcdir:-.}" || exit
sh tests/mo-pairs.sh src/*.[ch] || exit
in_src=$(cat src/*.[ch] | grep -oE '\[[a-z_]+\.[A-Z][0-9]\]' | tr -d '[]' | sort -u)
# A row names a pair in short: `queue.R1`, `C1`.
in_doc=$(sed -nE 's/^\| `([a-z_]+)\.([A-Z][0-9])`(, `([a-z_]+\.)?([A-Z][0-9])`)? .*/\1.\2 \1 \4 \5/p' docs/memory-order.md |
	awk '{ print $1; if (NF == 3) print $2 "." $3; if (NF == 4) print $3 $4 }' | sort -u)
[ "$in_src" = "$in_doc" ] && exit
echo "docs/memory-order.md and the comments of src/ have different labels:"
{ echo "$in_src" | sed 's/^/src /'; echo "$in_doc" | sed 's/^/doc /'; } | sort -k2 | uniq -f1 -u
exit 1
