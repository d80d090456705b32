#!/bin/sh
# SPDX-License-Identifier: MIT
# With an NVTX tool attached, each job's function is a range with its name; otherwise no ranges.
. "$(dirname "$0")/../lib/harness.sh"
grep -q '^#define HAVE_NVTX' config.h || skip_all 'configure found no nvtx3/nvToolsExt.h'
[ -z "$sanitizer" ] || skip_all "a sanitizer's runtime wants to come before a tool"
$CC $CPPFLAGS $CFLAGS $CUDA_CFLAGS -std=gnu11 -shared -fPIC -o "$dir/tool.so" "$srcdir/tests/package/nvtx_tool.c" || exit
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
$CC $CPPFLAGS $CFLAGS -pthread -I"$srcdir/include" -o "$dir/jobs" "$dir/jobs.c" -L. -lrunnel -Wl,-rpath,"$PWD" $LDFLAGS || exit
NVTX_INJECTION64_PATH=$dir/tool.so NVTX_TOOL_NAME=named_fn NVTX_TOOL_OUT=$dir/out "$dir/jobs"
prints '^pushed 50 popped 50 named 50 deepest 1$'
ends 'each job is a range of its name'
rm -f "$dir/out"
NVTX_TOOL_NAME=named_fn NVTX_TOOL_OUT=$dir/out "$dir/jobs" && [ ! -e "$dir/out" ] || complain "status $?"
ends 'without a tool there are none'
done_testing
