/* SPDX-License-Identifier: MIT */
/*
 * allocator's requests that call CUDA themselves.
 *
 * DESIGN
 * The jobs name no stream, as most CUDA code, and so use their worker's.  They check a CUDA
 * call only where they could not go on without it: the rnl_job_init() of runnel/cuda.h makes
 * a job fail when a CUDA call in it failed.
 */
#include <runnel/cuda.h>

#include "allocator.h"

#include <errno.h>

/* Sets the memory, and copies the last of it back. */
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
		return 0;		/* the job fails: see above */
	use(r, mem);
	/* Waits until the device has done the work of all jobs. */
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

static int init_malloc(struct rnl_job *job)
{
	return rnl_job_init(job, with_malloc);
}

static int init_async(struct rnl_job *job)
{
	return rnl_job_init(job, with_async);
}

static int keep_async(int ordinal)
{
	uint64_t all = UINT64_MAX;
	cudaMemPool_t pool;

	/* By default, free memory goes back to the system with the next synchronisation. */
	if (cudaDeviceGetDefaultMemPool(&pool, ordinal) ||
	    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all))
		return -EIO;
	return 0;
}

static const struct allocator_cuda functions = { init_malloc, init_async, keep_async };
extern const struct allocator_cuda *const allocator_cuda = &functions;
