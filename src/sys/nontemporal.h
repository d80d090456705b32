/* SPDX-License-Identifier: MIT */
/*
 * Copies past the caches, for much memory that this CPU does not touch again soon.
 *
 * DESIGN
 *	A store of a whole line past the caches saves the read of that line, which is a
 *	third of a copy's traffic, and leaves the caches to other data.  16 CPUs that
 *	staged pageable arrays for an H200 had 20 ms of work instead of 29.
 *	A small copy is memcpy()'s: it fits in a cache, and is read soon.  So is any copy
 *	under sanitizers, which check memcpy(), and on machines without such stores.
 */
#ifndef RNL_NONTEMPORAL_H
#define RNL_NONTEMPORAL_H

#include <stddef.h>

/* memcpy().  All its stores are visible on return, before anything that is published later. */
void rnl__nontemporal_copy(void *restrict dst, const void *restrict src, size_t bytes);

#endif
