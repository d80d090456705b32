/* SPDX-License-Identifier: MIT */
/*
 * The host device's memory: plain, but known, so that an address tells whether
 * it is the device's, page-locked, or anybody's, as CUDA tells it.
 *
 * DESIGN
 *	A tree of address ranges (tsearch) under a mutex, with what is allocated
 *	now.  The mutex is kept out of forks: a child has the tree as it was.
 */
#ifndef RNL_HOST_MEMORY_H
#define RNL_HOST_MEMORY_H

#include "device.h"

/* 0, -ENOMEM. */
int rnl__host_memory_alloc(enum rnl__memory kind, size_t bytes, void **memp);

/* Its address is nobody's from now on; the memory is freed by rnl__host_memory_free(). */
void rnl__host_memory_forget(void *mem);
void rnl__host_memory_free(void *mem);

enum rnl__memory rnl__host_memory_kind(const void *mem);

#endif
