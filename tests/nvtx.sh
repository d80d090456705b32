#!/bin/sh
# With an NVTX tool attached, each job's function is a range of its name; without, nothing is.
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
grep -q '^#define HAVE_NVTX' config.h || { echo 'SKIP: configure found no nvtx3/nvToolsExt.h'; exit 77; }
[ -z "$sanitizer" ] || { echo "SKIP: a sanitizer's runtime wants to come before a tool"; exit 77; }
$CC $CPPFLAGS $CFLAGS $CUDA_CFLAGS -std=gnu11 -shared -fPIC -o "$dir/tool.so" "$srcdir/tests/nvtx_tool.c" >"$dir/log" 2>&1 ||
	{ echo 'not ok - the tool builds'; cat "$dir/log"; exit 1; }
cat >"$dir/jobs.c" <<'C'
#include <runnel.h>
#include <stdio.h>

static int named_fn(struct rnl_job *job)
{
	(void)job;
	return 0;
}

int main(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;

	attr.device = "host";
	attr.nr_workers = 2;
	if (rnl_pool_create(&pool, &attr))
		return 1;
	for (int i = 0; i < 50; i++)
		if (rnl_job_init(&job, named_fn) || rnl_submit(pool, &job) ||
		    rnl_job_wait(&job, RNL_FOREVER))
			return 1;
	rnl_pool_destroy(pool);
	return 0;
}
C
$CC $CPPFLAGS $CFLAGS -pthread -I"$srcdir/include" -o "$dir/jobs" "$dir/jobs.c" -L. -lrunnel -Wl,-rpath,"$PWD" $LDFLAGS >"$dir/log" 2>&1 ||
	{ echo 'not ok - the program builds'; cat "$dir/log"; exit 1; }
rc=0
NVTX_INJECTION64_PATH=$dir/tool.so NVTX_TOOL_NAME=named_fn NVTX_TOOL_OUT=$dir/out "$dir/jobs"
if [ "$(cat "$dir/out" 2>&1)" = 'pushed 50 popped 50 named 50 deepest 1' ]; then
	echo 'ok - each job is a range of its name'
else
	echo 'not ok - each job is a range of its name'
	cat "$dir/out"
	rc=1
fi
rm -f "$dir/out"
if NVTX_TOOL_NAME=named_fn NVTX_TOOL_OUT=$dir/out "$dir/jobs" && [ ! -e "$dir/out" ]; then
	echo 'ok - without a tool there are none'
else
	echo 'not ok - without a tool there are none'
	rc=1
fi
exit $rc
