/* SPDX-License-Identifier: MIT */
/*
 * The host device's memory: plain, but known, so that an address tells whether it is device
 * memory, page-locked, or pageable, as CUDA tells it.
 *
 * DESIGN
 *	A tree (tsearch) has the address ranges that are allocated now, under a mutex.  A
 *	fork takes the mutex, so a child has a whole tree, and a free mutex.
 */
#ifndef RNL_HOST_MEMORY_H
#define RNL_HOST_MEMORY_H

#include "device/device.h"

/* @owner: the device, of device memory.  0, -ENOMEM. */
int rnl__host_memory_alloc(enum rnl__memory kind, int owner, size_t bytes, void **memp);

/* Forgets memory, whose address is pageable from now on; then rnl__host_memory_free() frees it. */
void rnl__host_memory_forget(void *mem);
void rnl__host_memory_free(void *mem);

enum rnl__memory rnl__host_memory_kind(const void *mem);

/* The device whose memory it is; -1: it is no device memory. */
int rnl__host_memory_owner(const void *mem);

#endif
