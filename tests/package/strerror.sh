#!/bin/sh
# SPDX-License-Identifier: MIT
# rnl_strerror() without strerrordesc_np(): the same texts with glibc before 2.32, musl's with musl.
. "$(dirname "$0")/../lib/harness.sh"
grep -q 'define HAVE_STRERRORDESC_NP 1' config.h || skip_all 'no strerrordesc_np() to compare with'
cat >"$dir/texts.c" <<'END'
#include <limits.h>
#include <stdio.h>
#include <runnel.h>

int main(void)
{
	for (int err = -200; err <= 200; err++)
		printf("%d %s\n", err, rnl_strerror(err));
	printf("%s, %s, %s\n", rnl_strerror(4096), rnl_strerror(INT_MAX), rnl_strerror(INT_MIN));
	return 0;
}
END
mkdir "$dir/old"
grep -v 'define HAVE_STRERRORDESC_NP' config.h >"$dir/old/config.h"
# texts NAME DIRECTORY-OF-CONFIG.H COMPILER ...
texts() {
	name=$1 config=$2
	shift 2
	"$@" -std=gnu11 -Wall -Wextra -Werror -I"$config" -I"$srcdir/include" -I"$srcdir/src" -o "$dir/texts" "$dir/texts.c" \
		"$srcdir/src/sys/abi.c" 2>"$dir/err" && "$dir/texts" >"$dir/$name" || complain "$name: status $?"
}
texts with . $CC
texts without "$dir/old" $CC
grep -qx '5 the device reported an error' "$dir/with" && grep -qx '2 No such file or directory' "$dir/with" &&
	grep -qx 'no known error, no known error, no known error' "$dir/with" || complain 'texts are wrong' "$dir/with" /dev/null
same 'texts by strerror_r() are the same' with without
command -v musl-gcc >/dev/null || { echo 'SKIP: no musl-gcc'; done_testing; }
texts musl "$dir/old" musl-gcc -static
# musl has other texts, and fewer errnos.
for name in with musl; do sed -n 's/ no known error$//p' "$dir/$name" | sort >"$dir/$name.none"; done
comm -23 "$dir/with.none" "$dir/musl.none" >"$dir/more"
: >"$dir/none"
same 'musl has no text for what is no errno' none more
check 'musl has texts of its own' grep -qx '2 No such file or directory' "$dir/musl"
done_testing
