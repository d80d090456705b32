/* SPDX-License-Identifier: MIT */
/*
 * Copies past the caches, for much memory that this CPU does not touch again soon.
 *
 * DESIGN
 *	A store of whole lines that bypasses the caches spares reading them first,
 *	which is a third of a copy's traffic, and leaves the caches to others.  16
 *	CPUs that staged pageable arrays for an H200 had 20 ms of work instead of 29.
 *	What fits in a cache and is read soon is better left there: small copies are
 *	memcpy()'s.  So are all of them under sanitizers, which look into that, and
 *	on machines without such stores.
 */
#ifndef RNL_NONTEMPORAL_H
#define RNL_NONTEMPORAL_H

#include <stddef.h>

/*
 * memcpy().  What is published later, by whatever means, comes after the stores: they
 * have been made visible when this returns.
 */
void rnl__nontemporal_copy(void *restrict dst, const void *restrict src, size_t bytes);

#endif
