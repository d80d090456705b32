#!/bin/sh
# SPDX-License-Identifier: MIT
# Two modules in one process, loaded like by a server, that do not know each other.
. "$(dirname "$0")/../lib/harness.sh"
cat >"$dir/module.h" <<'END'
#include <runnel.h>
#include <runnel/kernel.h>

struct args { int *value; };

static void write_value(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	*((const struct args *)args)->value = VALUE;
}
END
cat >"$dir/module.c" <<'END'
#include "module.h"

RNL_HOST_KERNEL(count_kernel, write_value, struct args);

static int value;

static int run(struct rnl_job *job)
{
	const struct rnl_dim one = { 1, 1, 1 };
	const struct args args = { &value };

	(void)job;
	return rnl_launch(&count_kernel, one, one, &args);
}

int FUNCTION(struct rnl_pool *pool)
{
	struct rnl_job job;
	int ret = rnl_job_init(&job, run);

	ret = ret ? ret : rnl_submit(pool, &job);
	ret = ret ? ret : rnl_job_wait(&job, RNL_FOREVER);
	return ret ? ret : value;
}
END
cat >"$dir/module.cu" <<'END'
#include <runnel/cuda.h>
#include "module.h"

static __global__ void write_value_cuda(struct args args)
{
	*args.value = VALUE;
}

RNL_KERNEL(count_kernel, write_value, write_value_cuda, struct args);
END
cat >"$dir/server.c" <<'END'
#include <dlfcn.h>
#include <runnel.h>

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	int (*run[2])(struct rnl_pool *pool);
	void *first, *second;

	if (argc != 3 || !(first = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) ||
	    !(second = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL)))
		return 10;
	*(void **)&run[0] = dlsym(first, "run_first");
	*(void **)&run[1] = dlsym(second, "run_second");
	attr.device = "host";
	if (rnl_pool_create(&pool, &attr))
		return 11;
	if (run[0](pool) != 1 || run[1](pool) != 2)
		return 12;
	rnl_pool_destroy(pool);
	return 0;
}
END
flags="$CFLAGS -I$srcdir/include -I$dir ${sanitizer:+-fsanitize=$sanitizer}"
ln -s "$PWD" "$dir/build"	# whose name may have blanks
library="./librunnel.so.$VERSION -Wl,-rpath,$dir/build -pthread -ldl"
# module FUNCTION VALUE
module() {
	$CC $flags -fPIC -shared -DFUNCTION="$1" -DVALUE="$2" -o "$dir/$1.so" "$dir/module.c" $library
}
{ module run_first 1 && module run_second 2 && $CC $flags -o "$dir/server" "$dir/server.c" $library; } || exit
check 'each module runs its own kernel, though both have the name' \
	"$dir/server" "$dir/run_first.so" "$dir/run_second.so"

# Two modules that each contain the archive, maybe of different builds.
cat >"$dir/own.c" <<'END'
#include <runnel.h>

static int heard;

static void hear(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
	heard++;
}

/* A copy's own state is its log: how often it heard of the module's own mistakes. */
int FUNCTION(struct rnl_pool *unused)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	(void)unused;
	rnl_set_log(hear, 0);
	for (int i = 0; i < VALUE; i++)
		(void)rnl_submit(0, 0);
	attr.device = "host";
	if (rnl_pool_create(&pool, &attr))
		return -1;
	rnl_pool_destroy(pool);
	return heard;
}
END
cat >"$dir/twice.c" <<'END'
#include <dlfcn.h>

int main(int argc, char **argv)
{
	void *first, *second, *version[2];
	int (*run[2])(void *pool);

	if (argc != 3 || !(first = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) ||
	    !(second = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL)))
		return 10;
	*(void **)&run[0] = dlsym(first, "run_first");
	*(void **)&run[1] = dlsym(second, "run_second");
	version[0] = dlsym(RTLD_DEFAULT, "rnl_version");
	version[1] = dlsym(second, "rnl_version");
	/* In this order: the second one's log would replace the first one's. */
	return version[0] || version[1] ? 11 : run[1](0) != 2 ? 12 : run[0](0) != 1 ? 13 :
	       run[1](0) != 4 ? 14 : 0;
}
END
libs=$(sed -n 's/^Libs.private: *//p' runnel.pc)
private=$(sed -n 's/^Requires.private: *//p' runnel.pc)
[ -z "$private" ] || libs="$libs $($PKG_CONFIG --libs $private)"
# archived FUNCTION VALUE
archived() {
	$CC $flags -fPIC -shared -DFUNCTION="$1" -DVALUE="$2" -o "$dir/$1.own.so" "$dir/own.c" \
		librunnel.a -Wl,--exclude-libs,ALL -pthread -ldl $libs
}
{ archived run_first 1 && archived run_second 2 && $CC $flags -o "$dir/twice" "$dir/twice.c" -ldl; } || exit
check 'each module has its own copy of the archive, linked with --exclude-libs' \
	"$dir/twice" "$dir/run_first.own.so" "$dir/run_second.own.so"

if [ "$NVCC" ]; then
	$NVCC -std=c++17 --default-stream per-thread -I"$srcdir/include" -DVALUE=1 -c \
		-o "$dir/module.o" "$dir/module.cu" || exit
	hidden() { readelf -sW "$dir/module.o" | grep -q ' HIDDEN .* count_kernel$'; }
	check 'a kernel of CUDA is hidden in its module, too' hidden
fi
done_testing
