/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device's memory.
 *
 * DESIGN
 *	Device memory comes from the library's own memory pool, in stream order: cudaMalloc and
 *	cudaFree would wait for the whole device.  The pool keeps freed memory, and makes no stream
 *	wait for another stream's free.
 */
#ifndef RNL_CUDA_MEMORY_H
#define RNL_CUDA_MEMORY_H

#include "device/cuda_calls.h"

/* Creates the memory pool, if there is none.  The device must be current. */
cudaError_t rnl__cuda_memory_ready(struct rnl__cuda_device *device);

/* Returns the number of the device that owns the memory, or -1. */
int rnl__cuda_memory_owner(const void *mem);

/* The device's operations. */
int rnl__cuda_memory_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes,
			   void **memp);
void rnl__cuda_memory_free(struct rnl__device *device, enum rnl__memory kind, void *mem);
enum rnl__memory rnl__cuda_memory_kind(struct rnl__device *device, const void *mem);
bool rnl__cuda_memory_owns(struct rnl__device *device, const void *mem);
void rnl__cuda_memory_trim(struct rnl__device *device);

/* Where a device cannot access another one's memory, CUDA stages copies between the two. */
void rnl__cuda_memory_meet(struct rnl__device *const *devices, unsigned nr);

#endif
