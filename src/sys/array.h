/* SPDX-License-Identifier: MIT */
/* Arrays that grow.  The caller holds a lock, or is the only thread. */
#ifndef RNL_ARRAY_H
#define RNL_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

/*
 * Makes room for an entry in an array of @nr entries of @each bytes, with room for *@space.
 * Returns the array, which may have moved, or NULL (no memory) with the array unchanged.
 */
static inline void *rnl__array_extend(void *array, size_t nr, size_t *space, size_t each)
{
	const size_t wanted = *space ? 2 * *space : 16;
	void *longer;

	if (nr < *space)
		return array;
	longer = realloc(array, wanted * each);
	if (longer)
		*space = wanted;
	return longer;
}

#endif
