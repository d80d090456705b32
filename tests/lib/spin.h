/* SPDX-License-Identifier: MIT */
/* The clock of a GPU. */
#ifndef SPIN_H
#define SPIN_H

#include <stdint.h>

static __device__ uint64_t now_ns(void)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

/* Returns after @ns nanoseconds. */
static __device__ void spin_ns(uint64_t ns)
{
	const uint64_t start = now_ns();

	while (now_ns() - start < ns)
		;
}

#endif /* SPIN_H */
