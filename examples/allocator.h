/* SPDX-License-Identifier: MIT */
/*
 * allocator: what device memory for each request costs, got in three ways.  What
 * its parts know of each other:
 *
 *	allocator.c		main(), the loop of requests, the table
 *	allocator_options.c	the command line
 *	allocator_cuda.cu	what requests do that call CUDA; .c: without CUDA
 */
#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- allocator_options.c ------------------------------------------------- */

struct allocator_options {
	const char *device;
	struct rnl_device_info info;	/* of that */
	unsigned workers;
	unsigned repeat;
	uint64_t requests;
	size_t min, max;		/* bytes of device memory for a request */
	uint64_t seed;
};

/* Exits after --help, and when something is wrong. */
void allocator_options_parse(struct allocator_options *opt, int argc, char **argv);

/* ---- requests ------------------------------------------------------------ */

#define ALLOCATOR_REPLY 4096	/* bytes that are copied back, at most */

/* Gets `bytes` of device memory, sets them to `value`, and copies the last of them back. */
struct allocator_request {
	struct rnl_job job;
	size_t bytes;
	unsigned char value;
	unsigned char *reply;		/* pinned */
	size_t reply_bytes;
	void *mem;			/* its memory, where it is freed when the job is done */
};

static inline struct allocator_request *allocator_request_of(struct rnl_job *job)
{
	return rnl_container_of(job, struct allocator_request, job);
}

/* ---- allocator_cuda.cu, allocator_cuda.c --------------------------------- */

/*
 * Make a job of a request that gets its memory from CUDA and gives it back, by
 * cudaMalloc() and cudaFree(), and in stream order, by cudaMallocAsync() and
 * cudaFreeAsync().
 * Return: 0; -ENOTSUP there is no CUDA.
 */
int allocator_init_malloc(struct rnl_job *job);
int allocator_init_async(struct rnl_job *job);

/*
 * Has cudaMallocAsync() keep what is freed, as a server would have it.
 * @ordinal: of the device.
 * Return: 0; -ENOTSUP there is no CUDA, -EIO.
 */
int allocator_keep_async(int ordinal);

#ifdef __cplusplus
}
#endif
#endif /* ALLOCATOR_H */
