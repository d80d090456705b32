/* SPDX-License-Identifier: MIT */
/*
 * Large page-locked memory, on CUDA.
 *
 * DESIGN
 *	In cudaHostAlloc(), one thread in the kernel clears all pages: 8 GiB took 4 s.  Here,
 *	several threads first touch huge pages, and then cudaHostRegister() locks them: 0.35 s
 *	(docs/measurements.md).
 *	The memory is the process's own.  The system would kill a program that asks for more than is
 *	available, while cudaHostAlloc() would only fail.  So the code first checks the available
 *	memory and the limits of the control groups.  A forked child does not get the memory:
 *	otherwise a write of the parent would go to a new page, which the device does not see.
 *	The page before the memory stores the mapping's address and size.
 */
#ifndef RNL_CUDA_PRELOAD_H
#define RNL_CUDA_PRELOAD_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* Returns an error code; cudaErrorMemoryAllocation if not enough memory is available. */
cudaError_t rnl__cuda_preload(size_t bytes, void **memp);
cudaError_t rnl__cuda_preload_free(void *mem);

#endif
