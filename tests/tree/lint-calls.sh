#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel lint knows the calls that the installed toolkit's header maps. A newer header may have
# more: then this test names the calls to add to src/tool/lint_calls.c.
. "$(dirname "$0")/../lib/harness.sh"
[ "$have_CUDA" = yes ] || skip_all 'configured without CUDA'
echo '#include <cuda_runtime_api.h>' | $CC $CUDA_CFLAGS -E -x c - |
	sed -n 's/^# [0-9]* "\(.*cuda_runtime_api\.h\)".*/\1/p' | head -n 1 >"$dir/where"
header=$(cat "$dir/where")
[ -r "$header" ] || { echo 'not ok - the header is found'; exit 1; }
version=$(echo CUDART_VERSION | $CC $CUDA_CFLAGS -E -P -include cuda_runtime_api.h -x c - | tail -n 1)
# "NAME FORM" of each, from both.
sed -nE 's/^[[:space:]]*#[[:space:]]*define[[:space:]]+(cuda[A-Za-z0-9_]+)[[:space:]]+__CUDART_API_(PTDS|PTSZ)\(\1\).*/\1 \2/p' \
	"$header" | sort -u >"$dir/header"
sed -nE 's/^\t\{ "(cuda[A-Za-z0-9_]+)", (PTDS|PTSZ) \},$/\1 \2/p' \
	"$srcdir/src/tool/lint_calls.c" | sort >"$dir/table"
[ "$(wc -l <"$dir/header")" -ge 40 ] || { echo "not ok - the mapping of $header is read"; exit 1; }

: >"$dir/none"
comm -23 "$dir/header" "$dir/table" >"$dir/missing"
same 'no call of the header is missing' none missing
if [ "$version" -ge 13000 ]; then
	comm -13 "$dir/header" "$dir/table" >"$dir/more"
	same 'the table has no others' none more
else
	echo "SKIP: CUDA $version is older than the table"
fi
sort -u "$dir/table" >"$dir/once"
same 'each is there once' once table

# Of those that the table says to have no per-thread form, the header has none.
: >"$dir/mapped"
for call in $(sed -nE 's/^\t\{ "(cuda[A-Za-z0-9_]+)", NONE \},$/\1/p' "$srcdir/src/tool/lint_calls.c"); do
	grep -qE "\<$call\(" "$header" || [ "$call" != cudaMemcpyPeerAsync ] || echo "$call is not declared" >>"$dir/mapped"
	grep -E "define +$call +__CUDART_API_PT" "$header" >>"$dir/mapped"
done
same 'cudaMemcpyPeerAsync and its like have no per-thread form' none mapped

# The calls of this table that src/device makes, by their names in the sources.
sed -n '/^static const char \*const own/,/^}/s/"\(cuda[A-Za-z0-9]*\)",/\n\1\n/gp' "$srcdir/src/tool/lint_calls.c" | grep '^cuda' | sort >"$dir/own"
sed -nE 's/^\t\{ "(cuda[A-Za-z0-9_]+)", (PTDS|PTSZ|NONE) \},$/\1/p' "$srcdir/src/tool/lint_calls.c" | sort >"$dir/names"
grep -hv '^[[:space:]]*/\?\*' "$srcdir"/src/device/cuda*.[ch] | grep -oE '\<cuda[A-Za-z0-9]+\(' | tr -d '(' | sort -u | comm -12 - "$dir/names" >"$dir/made"
same 'the calls that the library makes are known' made own
done_testing
