/* SPDX-License-Identifier: MIT */
/*
 * allocator: compares three ways to get device memory for each request.
 *
 *	allocator.c	options, the loop of requests, the table
 *	device.cu	requests that call CUDA directly; device.c: replaces it without nvcc
 */
#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#include "../common/shared.h"

SHARED_BEGIN

#define ALLOCATOR_REPLY 4096	/* bytes copied back at most */

/* Gets `bytes` of device memory, sets them to `value`, and copies the last bytes back. */
struct allocator_request {
	struct rnl_job job;
	size_t bytes;
	unsigned char value;
	unsigned char *reply;		/* pinned */
	size_t reply_bytes;
	void *mem;			/* freed when the job is done; or NULL */
};

static inline struct allocator_request *allocator_request_of(struct rnl_job *job)
{
	return rnl_container_of(job, struct allocator_request, job);
}

struct allocator_cuda {
	/* Initialise the job of a request.  The job gets its memory from CUDA, and frees it. */
	int (*init_malloc)(struct rnl_job *job);	/* by cudaMalloc(), cudaFree() */
	int (*init_async)(struct rnl_job *job);		/* by cudaMallocAsync(), cudaFreeAsync() */

	/* Makes CUDA keep the memory that cudaFreeAsync() frees, as a server would. */
	int (*keep_async)(int ordinal);
};
extern const struct allocator_cuda *const allocator_cuda;	/* NULL: built without nvcc */

SHARED_END
#endif /* ALLOCATOR_H */
