#!/bin/sh
# SPDX-License-Identifier: MIT
# A program with much thread-local data loads the library late, like a server loads a module. Its
# own data and that of most modules do not matter. The C library has little space for modules that
# need their data at a fixed offset, like runnel; when others have used it, dlopen() fails with a
# message, and docs/embedding.md describes the solution.
. "$(dirname "$0")/../lib/harness.sh"
[ -z "$sanitizer" ] || skip_all "a sanitizer's own thread-local data takes the space"
getconf GNU_LIBC_VERSION >/dev/null 2>&1 || skip_all 'how much space there is, is known of glibc'
cat >"$dir/late.c" <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <runnel.h>

/* usage: late LIBRARY MODULE ...: loads each module that it can, then the library. */
static _Thread_local char own[1 << 20];

static void *thread_main(void *library)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int (*create)(struct rnl_pool **, const struct rnl_pool_attr *);
	void (*destroy)(struct rnl_pool *);
	struct rnl_pool *pool;

	memset(own, 1, sizeof(own));
	*(void **)&create = dlsym(library, "rnl_pool_create");
	*(void **)&destroy = dlsym(library, "rnl_pool_destroy");
	attr.device = "host";
	if (!create || create(&pool, &attr))
		return NULL;
	destroy(pool);
	return library;
}

int main(int argc, char **argv)
{
	void *library, *worked = NULL;
	pthread_t thread;
	int nr = 0;

	for (int i = 2; i < argc; i++)
		nr += dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL) != NULL;
	printf("%d of %d modules\n", nr, argc - 2);
	memset(own, 1, sizeof(own));
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	if (pthread_create(&thread, NULL, thread_main, library) || pthread_join(thread, &worked) || !worked)
		return 1;
	return !thread_main(library);
}
END
cat >"$dir/module.c" <<'END'
static _Thread_local char taken[SIZE];
char *place(void) { return taken; }
END
program=$dir/late library=$PWD/librunnel.so.$VERSION
$CC -I"$srcdir/include" -o "$program" "$dir/late.c" -pthread -ldl &&
	$CC -DSIZE=65536 -shared -fPIC -o "$dir/large.so" "$dir/module.c" &&
	$CC -DSIZE=32 -ftls-model=initial-exec -shared -fPIC -o "$dir/fixed.so" "$dir/module.c" || exit
large= fixed=
for i in $(seq 100); do
	cp "$dir/large.so" "$dir/large$i.so" && cp "$dir/fixed.so" "$dir/fixed$i.so" || exit
	large="$large $dir/large$i.so" fixed="$fixed $dir/fixed$i.so"
done

gives 0 "$library"
silent
ends 'it loads in a program with a megabyte of thread-local data'
gives 0 "$library" $large
prints '^100 of 100 modules$'
ends 'it loads beside 100 modules with 64 KiB each'
gives 3 "$library" $fixed
prints_not '^100 of '
says "librunnel.so.$VERSION: cannot allocate memory in static TLS block"
ends 'with no space left, dlopen() says so'
export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096
gives 0 "$library" $fixed
prints '^100 of 100 modules$'
ends 'with more space, which GLIBC_TUNABLES sets, it loads'
unset GLIBC_TUNABLES
ln -s "$library" "$dir/first.so"	# blanks end a name in LD_PRELOAD
export LD_PRELOAD="$dir/first.so"
gives 0 "$library" $fixed
unset LD_PRELOAD
ends 'it works beside the same modules if LD_PRELOAD loads it first'
# The documented size.
bytes=$(readelf -Wl "$library" | awk '$1 == "TLS" { print $6 }')
[ $((bytes)) -gt 0 ] && [ $((bytes)) -le 128 ] || complain "$bytes bytes of thread-local data"
ends 'it needs at most 128 bytes'
done_testing
