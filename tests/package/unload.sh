#!/bin/sh
# SPDX-License-Identifier: MIT
# A program loads the library, like a plugin, and unloads it: threads that still need the library go
# on, so the library must stay loaded.
. "$(dirname "$0")/../lib/harness.sh"
cat >"$dir/unload.c" <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <runnel.h>
#include <runnel/thread.h>

static struct rnl_pool *pool;
static int (*attach)(struct rnl_pool *pool);
static pthread_barrier_t meet;
static int ret;

static void *thread_main(void *detaches)
{
	ret = attach(pool);
	if (detaches)
		attach(NULL);
	pthread_barrier_wait(&meet);	/* main() may unload the library */
	pthread_barrier_wait(&meet);	/* main() has unloaded it */
	return NULL;
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	void *lib = dlopen(argv[1], RTLD_NOW);
	int (*create)(struct rnl_pool **, const struct rnl_pool_attr *);
	void (*destroy)(struct rnl_pool *);
	pthread_t thread;

	if (!lib) {
		puts(dlerror());
		return 1;
	}
	*(void **)&create = dlsym(lib, "rnl_pool_create");
	*(void **)&destroy = dlsym(lib, "rnl_pool_destroy");
	*(void **)&attach = dlsym(lib, "rnl_thread_attach");
	attr.device = "host";
	if (create(&pool, &attr))
		return 1;
	pthread_barrier_init(&meet, NULL, 2);
	pthread_create(&thread, NULL, thread_main, argc > 2 ? lib : NULL);
	pthread_barrier_wait(&meet);
	destroy(pool);
	dlclose(lib);
	pthread_barrier_wait(&meet);
	pthread_join(thread, NULL);
	return ret != 0;
}
END
$CC $CFLAGS -I"$srcdir/include" ${sanitizer:+-fsanitize=$sanitizer} -o "$dir/unload" "$dir/unload.c" \
	-pthread -ldl || exit
check 'a thread that is attached ends after that' "$dir/unload" "./librunnel.so.$VERSION"
check 'a thread that was attached, too' "$dir/unload" "./librunnel.so.$VERSION" detached
done_testing
