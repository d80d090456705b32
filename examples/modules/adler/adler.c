/* SPDX-License-Identifier: MIT */
/*
 * The Adler-32 checksum of a text: its job, and its kernel's host function.
 *
 * The checksum of n bytes has two halves: the sum of all bytes plus 1, and the sum of all byte[i] *
 * (n - i) plus n, both modulo ADLER_PRIME. So the kernel computes two plain sums.
 */
#include "adler.h"

#include <errno.h>

#include <runnel/memory.h>

void adler_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct adler_args *a = args;

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < a->bytes; i++) {
		a->sums[0] += a->text[i];
		a->sums[1] += a->text[i] * (a->bytes - i);
	}
}

/* Queues work on the worker's stream and returns at once. If a call fails, so does the job. */
static int run(struct rnl_job *job)
{
	struct adler *adler = rnl_container_of(job, struct adler, job);
	const uint32_t blocks = adler->bytes < 64 * ADLER_THREADS ? 1 : 64;
	void *text, *sums;

	if (!adler->bytes || adler->bytes > ADLER_MAX)
		return -EINVAL;
	if (rnl_scratch(adler->bytes, &text) || rnl_scratch(sizeof(adler->sums), &sums))
		return -ENOMEM;
	rnl_copy(text, adler->text, adler->bytes);
	rnl_fill(sums, 0, sizeof(adler->sums));
	rnl_launch(&adler_kernel, (struct rnl_dim){ blocks, 1, 1 }, (struct rnl_dim){ ADLER_THREADS, 1, 1 },
		   &(struct adler_args){ text, adler->bytes, sums });
	return rnl_copy(adler->sums, sums, sizeof(adler->sums));
}

void adler_init(struct adler *adler, const void *text, size_t bytes)
{
	rnl_job_init(&adler->job, run);
	adler->text = text;
	adler->bytes = bytes;
}

uint32_t adler_value(const struct adler *adler)
{
	return (uint32_t)((adler->sums[1] + adler->bytes) % ADLER_PRIME << 16 |
			  (adler->sums[0] + 1) % ADLER_PRIME);
}
