/* SPDX-License-Identifier: MIT */
/*
 * Much page-locked memory at once, on CUDA.
 *
 * DESIGN
 *	In cudaHostAlloc() one thread of the kernel clears all pages: 8 GiB took 4 s.  Here several
 *	threads touch huge pages first, and cudaHostRegister() then locks what is there: 0.35 s
 *	(docs/measurements.md).
 *	The memory is the process's own: so a program that asks for more than is available would be
 *	killed where cudaHostAlloc() is refused.  So what is available, and what the control groups
 *	allow, is looked at before.  A forked child gets
 *	none of it: a write would give the parent other pages than the device has.
 *	In front of the memory is a page that knows the mapping's size.
 */
#ifndef RNL_CUDA_PRELOAD_H
#define RNL_CUDA_PRELOAD_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* Return: also cudaErrorMemoryAllocation, if so much is not available. */
cudaError_t rnl__cuda_preload(size_t bytes, void **memp);
cudaError_t rnl__cuda_preload_free(void *mem);

#endif
