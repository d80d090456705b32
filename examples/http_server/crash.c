/* SPDX-License-Identifier: MIT */
/*
 * POST /crash, with --allow-crash: the device fails, for tests of what comes then.
 *
 * DESIGN
 * A request as any other, whose kernel writes to an illegal address.  On a GPU that is
 * the end of what this process has there; on the host device, where kernels are
 * functions of the process, it is the end of the process.
 */
#include "config.h"

#include "server.h"

#include <jansson.h>

#include "crash.h"

#define NOBODYS 16	/* in the first page, which is never mapped, here or there */

void crash_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct crash_args *a = args;

	(void)grid;
	(void)block;
	*(volatile uint32_t *)a->where = 1;
}

static int crash_issue(struct slot *slot)
{
	const struct crash_args args = { .where = (uint32_t *)(uintptr_t)NOBODYS };
	const struct rnl_dim one = { 1, 1, 1 };

	(void)slot;
	return rnl_launch(&crash_kernel, one, one, &args);
}

/* Not called where an illegal address is one. */
static const char *crash_write(struct slot *slot, struct evbuffer *out)
{
	(void)slot;
	return answer_json(json_pack("{s:b}", "survived", 1), out);
}

const struct task crash_task = {
	.issue = crash_issue,
	.write = crash_write,
};
