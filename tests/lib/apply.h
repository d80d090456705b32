/* SPDX-License-Identifier: MIT */
/* A kernel that reads its work from device memory: for tests of jobs that are replayed. */
#ifndef APPLY_H
#define APPLY_H

#include <stdint.h>

struct facts {
	unsigned char *mem;
	uint32_t bytes, add;
};

struct apply {
	const void *facts;	/* struct facts, on the device */
	uint64_t add;
};

#ifdef __CUDACC__
#define APPLY_SHARED static __host__ __device__ inline
#else
#define APPLY_SHARED static inline
#endif

APPLY_SHARED unsigned char applied(unsigned char was, uint32_t add)
{
	return (unsigned char)(was * 5u + add);
}

#endif /* APPLY_H */
