/* SPDX-License-Identifier: MIT */
/*
 * A request's work in the loop's own thread: what async.c replaces, kept to be
 * measured beside it.
 *
 * DESIGN
 * This is the handler that CUDA's documentation leads to.  The loop has a stream
 * of its own, and on a GPU the calls are, one for one, what one would write by
 * hand (see src/device_cuda.c):
 *
 *	rnl_copy()			cudaMemcpyAsync(..., cudaStreamPerThread)
 *	rnl_launch()			kernel<<<grid, block, 0, cudaStreamPerThread>>>
 *	rnl_stream_wait(RNL_FOREVER)	cudaStreamSynchronize(cudaStreamPerThread)
 *
 * While it waits, and while it decodes and encodes, the loop answers nobody else.
 * There is nothing to push back with, and no deadline: who comes waits.
 */
#include "config.h"

#include "server.h"

void sync_start(struct slot *slot)
{
	int ret = slot->task->issue(slot);
	/* Also after an error: what was issued before it still uses the slot. */
	const int waited = rnl_stream_wait(RNL_FOREVER);

	if (!ret)
		ret = waited;
	if (!ret && slot->task->finish)
		ret = slot->task->finish(slot);
	slot_answer(slot, ret);
}
