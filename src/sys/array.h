/* SPDX-License-Identifier: MIT */
/* Arrays that grow, under a lock or in one thread. */
#ifndef RNL_ARRAY_H
#define RNL_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

/*
 * Makes space in an array that has @nr entries of @each bytes, and space for *@space.
 * Return: the array, which may have moved; NULL: no memory, and the array is as it was.
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
