#!/bin/sh
# SPDX-License-Identifier: MIT
# Each source has an SPDX licence line in its first five lines. Prose, pictures, data and three
# files of debian/ have no place for it; LICENSE applies to them. configure is autoconf's.
. "$(dirname "$0")/../lib/harness.sh"
cd "$srcdir" || exit
sh dist.sh --list >"$dir/files" || exit
grep -vE '\.(md|png|svg)$|^(LICENSE|CHANGELOG|configure)$|^tests/(fuzz/corpus|tree/abi)/|^debian/(changelog|copyright|source/format)$' "$dir/files" >"$dir/sources"
[ "$(wc -l <"$dir/sources")" -gt 500 ] || complain 'there are too few sources'
xargs -d '\n' awk 'FNR <= 5 && /SPDX-License-Identifier: MIT/ { print FILENAME; nextfile }' <"$dir/sources" | sort >"$dir/with"
sort "$dir/sources" | comm -23 - "$dir/with" >"$dir/without"
: >"$dir/none"
same 'each source says its licence' none without
check 'LICENSE is that licence' grep -qx 'MIT License' LICENSE
done_testing
