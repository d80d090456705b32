/* SPDX-License-Identifier: MIT */
/* The kernel of tests/bench/batch: each request is 1024 words, and each word gets 1 more. */
#ifndef BENCH_BATCH_H
#define BENCH_BATCH_H

#include <runnel.h>

#define BATCH_WORDS 1024u
#define BATCH_BYTES (BATCH_WORDS * 4)
#define BATCH_THREADS 256u

struct batch_args {
	const uint32_t *in;
	uint32_t *out;
};

/* A block for each request. */
static inline void batch_add_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct batch_args *a = (const struct batch_args *)args;

	(void)block;
	for (uint32_t i = 0; i < grid.x * BATCH_WORDS; i++)
		a->out[i] = a->in[i] + 1;
}

#ifdef __cplusplus
extern "C" const struct rnl_kernel batch_kernel;
#else
extern const struct rnl_kernel batch_kernel;
#endif

#endif /* BENCH_BATCH_H */
