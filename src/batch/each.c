/* SPDX-License-Identifier: MIT */
/* Batches that a request kernel runs: its function is called for each request. */
#include "config.h"

#include <runnel/kernel.h>

#include "batch/resident.h"

#define EACH_THREADS 256u	/* of a block */

void rnl__each_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct rnl__each_args *a = args;
	const struct rnl_batch *batch = &a->batch;

	(void)block;
	for (uint32_t i = 0; i < grid.x; i++) {
		const struct rnl_request_view view = {
			.arg = batch->arg,
			.in = (const char *)batch->in +
			      (batch->spans ? batch->spans[i].offset : i * a->in_bytes),
			.out = batch->out ? (char *)batch->out + (size_t)i * a->out_bytes : NULL,
			.in_bytes = batch->spans ? batch->spans[i].bytes : (uint32_t)a->in_bytes,
			.out_bytes = a->out_bytes,
		};

		batch->status[i] = a->fn(&view);
	}
}

int rnl__each_call(void (*fn)(void), const void *arg)
{
	const struct rnl__each_call *call = arg;
	const struct rnl_batcher *b = call->b;
	const struct rnl__each_args args = {
		.run = rnl__each_host, .fn = b->one, .batch = *call->view,
		.in_bytes = b->in_bytes, .out_bytes = (uint32_t)b->out_bytes,
	};

	(void)fn;
	return rnl_launch(&b->each, (struct rnl_dim){ args.batch.nr, 1, 1 },
			  (struct rnl_dim){ EACH_THREADS, 1, 1 }, &args);
}
