/* SPDX-License-Identifier: MIT */
/*
 * What allocator's requests do that call CUDA themselves.
 *
 * DESIGN
 * Jobs as CUDA code is written: they name no stream, and so use their worker's.
 * None of them looks at what CUDA returns but where it could not go on: a job
 * whose rnl_job_init() is that of runnel/cuda.h fails when a CUDA call in it did.
 */
#include <runnel/cuda.h>

#include "allocator.h"

#include <errno.h>

/* Sets the memory, and copies the last of it back: all but getting and freeing it. */
static void use(const struct allocator_request *r, void *mem)
{
	const char *last = (const char *)mem + r->bytes - r->reply_bytes;

	cudaMemsetAsync(mem, r->value, r->bytes, 0);
	cudaMemcpyAsync(r->reply, last, r->reply_bytes, cudaMemcpyDeviceToHost, 0);
}

static int with_malloc(struct rnl_job *job)
{
	const struct allocator_request *r = allocator_request_of(job);
	void *mem;

	if (cudaMalloc(&mem, r->bytes))
		return 0;		/* the job fails nevertheless */
	use(r, mem);
	/* Waits until the device has done all that was issued, by this job and any other. */
	cudaFree(mem);
	return 0;
}

static int with_async(struct rnl_job *job)
{
	const struct allocator_request *r = allocator_request_of(job);
	void *mem;

	if (cudaMallocAsync(&mem, r->bytes, 0))
		return 0;
	use(r, mem);
	cudaFreeAsync(mem, 0);
	return 0;
}

int allocator_init_malloc(struct rnl_job *job)
{
	return rnl_job_init(job, with_malloc);
}

int allocator_init_async(struct rnl_job *job)
{
	return rnl_job_init(job, with_async);
}

int allocator_keep_async(int ordinal)
{
	uint64_t all = UINT64_MAX;
	cudaMemPool_t pool;

	/* By default, whatever is free goes back to the system with the next synchronisation. */
	if (cudaDeviceGetDefaultMemPool(&pool, ordinal) ||
	    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all))
		return -EIO;
	return 0;
}
