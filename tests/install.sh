#!/bin/sh
# `make install` in a staging directory; a program then finds the library with
# pkg-config alone, shared and static, and runs.
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
rc=0
ok() { echo "ok - $1"; }
bad() { echo "not ok - $1"; rc=1; }

$MAKE -s install DESTDIR="$dir/root" || { bad 'make install'; exit 1; }
ok 'make install'
pc=$(find "$dir/root" -name runnel.pc)
libdir=$(cd "$(dirname "$pc")/.." && pwd)
# The staging directory holds runnel alone; its dependencies stay in the system.
# So the prefix is told, rather than everything moved with a sysroot.
prefix=$dir/root$(sed -n 's/^prefix=//p' "$pc")
pkg() { PKG_CONFIG_PATH=$libdir/pkgconfig $PKG_CONFIG --define-variable=prefix="$prefix" "$@"; }

cat >"$dir/app.c" <<'IN'
#include <stdio.h>
#include <runnel.h>
static int fn(struct rnl_job *job)
{
	*(int *)job->user = 42;
	return 0;
}
int main(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;
	int answer = 0;

	attr.device = "host";
	if (rnl_pool_create(&pool, &attr) || rnl_job_init(&job, fn))
		return 1;
	job.user = &answer;
	if (rnl_submit(pool, &job) || rnl_job_wait(&job, RNL_FOREVER))
		return 2;
	rnl_pool_destroy(pool);
	return answer != 42 || rnl_version() >> 16 != RNL_VERSION_MAJOR;
}
IN
[ "$("$(find "$dir/root" -path '*/bin/runnel')" --version)" = "runnel $VERSION" ] && ok 'the tool' || bad 'the tool'
cmp -s "$srcdir/docs/runnel.1" "$(find "$dir/root" -path '*/man1/runnel.1')" && ok 'the manual' || bad 'the manual'
cmp -s "$srcdir/src/tool/completion.bash" "$(find "$dir/root" -path '*/bash-completion/completions/runnel')" &&
	ok 'the completion' || bad 'the completion'
[ "$(pkg --modversion runnel)" = "$VERSION" ] && ok 'the version' || bad 'the version'

$CC $CFLAGS ${sanitizer:+-fsanitize=$sanitizer} -o "$dir/shared" "$dir/app.c" $(pkg --cflags --libs runnel) &&
	LD_LIBRARY_PATH=$libdir "$dir/shared" && ok 'a program with the shared library' ||
	bad 'a program with the shared library'

rm -f "$libdir"/librunnel.so*
$CC $CFLAGS ${sanitizer:+-fsanitize=$sanitizer} -o "$dir/static" "$dir/app.c" $(pkg --static --cflags --libs runnel) &&
	"$dir/static" && ok 'a program with the archive' || bad 'a program with the archive'

$MAKE -s install uninstall DESTDIR="$dir/root" >/dev/null &&
	[ -z "$(find "$dir/root" -name '*runnel*')" ] && ok 'make uninstall' || bad 'make uninstall'
exit $rc
