/* SPDX-License-Identifier: MIT */
/* Kernels that change each byte of an area: their arguments, and the new value of a byte. */
#ifndef CHANGE_H
#define CHANGE_H

#include <stdint.h>

struct change {
	unsigned char *mem;
	uint32_t bytes, add;
};

#ifdef __CUDACC__
#define CHANGE_SHARED static __host__ __device__ inline
#else
#define CHANGE_SHARED static inline
#endif

CHANGE_SHARED unsigned char changed(unsigned char was, uint32_t add)
{
	return (unsigned char)(was * 3u + add);
}

CHANGE_SHARED unsigned char flipped(unsigned char was, uint32_t add, uint32_t grid)
{
	return (unsigned char)(was ^ (add + grid));
}

#endif /* CHANGE_H */
