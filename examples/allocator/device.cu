/* SPDX-License-Identifier: MIT */
/*
 * allocator's requests that call CUDA directly.
 *
 * DESIGN
 * Like most CUDA code, the jobs name no stream, so they use their worker's stream.  They check a
 * CUDA call only if they cannot continue without it, because runnel/cuda.h's rnl_job_init() makes a
 * job fail if one of its CUDA calls fails.
 */
#include <runnel/cuda.h>

#include "allocator.h"

#include <errno.h>

/* Fills the memory and copies its last bytes back. */
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
	/* cudaFree() waits until the device has finished the work of all jobs. */
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

	/* By default, the next synchronisation returns free memory to the system. */
	if (cudaDeviceGetDefaultMemPool(&pool, ordinal) ||
	    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all))
		return -EIO;
	return 0;
}

static const struct allocator_cuda functions = { init_malloc, init_async, keep_async };
extern const struct allocator_cuda *const allocator_cuda = &functions;
