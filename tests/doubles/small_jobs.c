/* SPDX-License-Identifier: MIT */
/*
 * examples/small_jobs/device.cu for the double of the CUDA runtime.
 *
 * FAKE_MIX=wrong: from the 20th kernel on, the last word that a kernel writes is wrong.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "examples/small_jobs/small_jobs.h"
#include "lib/double_kernel.h"
#include "lib/request_kernel.h"

#define NTH 20

static void mix(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	static atomic_uint nr;
	const struct small_work *work = args;
	const char *text = getenv("FAKE_MIX");

	small_on_host(grid, block, args);
	if (text && !strcmp(text, "wrong") && atomic_fetch_add(&nr, 1) + 1 >= NTH)
		work->out[work->nr_words - 1]++;
}

static void mix_place(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	mix(grid, block, ((const struct small_place *)args)->work);
}

DOUBLE_KERNEL(small_kernel, small_on_host, mix, struct small_work);
static int mix_each(const struct rnl_request_view *view)
{
	const struct small_work work = {
		view->in, view->out, view->in_bytes / sizeof(uint32_t)
	};
	const struct rnl_dim one = { 1, 1, 1 };

	mix(one, one, &work);
	return 0;
}

DOUBLE_KERNEL(small_place_kernel, small_place_on_host, mix_place, struct small_place);
HOST_REQUEST_KERNEL(small_each, mix_each);
