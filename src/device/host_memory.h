/* SPDX-License-Identifier: MIT */
/*
 * The host device's memory: plain memory in a table, which shows whether an address is in device,
 * page-locked or pageable memory, like CUDA reports it.
 *
 * DESIGN
 *	A tree (tsearch) holds the allocated address ranges, under a mutex.  A fork takes the mutex,
 *	so the child has a consistent tree and a free mutex.
 */
#ifndef RNL_HOST_MEMORY_H
#define RNL_HOST_MEMORY_H

#include "device/device.h"

/* @owner: the device that owns device memory.  Returns 0 or -ENOMEM. */
int rnl__host_memory_alloc(enum rnl__memory kind, int owner, size_t bytes, void **memp);

/* Makes memory count as pageable from now on; rnl__host_memory_free() then frees it. */
void rnl__host_memory_forget(void *mem);
void rnl__host_memory_free(void *mem);

enum rnl__memory rnl__host_memory_kind(const void *mem);

/* Returns the device that owns the memory; -1: it is not device memory. */
int rnl__host_memory_owner(const void *mem);

#endif
