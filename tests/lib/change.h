/* SPDX-License-Identifier: MIT */
/* A kernel that changes each byte of an area: its arguments, and what it makes of a byte. */
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

#endif /* CHANGE_H */
