/* SPDX-License-Identifier: MIT */
/*
 * The all-reduce of one process on host devices: one thread sums the buckets of all ranks, and
 * writes the sum to each.  It replaces NCCL and MPI, so that the example runs on any machine.
 */
#include "config.h"

#include <runnel/kernel.h>

#include "buckets.h"

struct add_args {
	float *buckets[RNL_DEVICES_MAX];
	uint32_t nr, nr_words;
};

static void add_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct add_args *add = args;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < add->nr_words; i++) {
		float sum = 0;

		for (uint32_t n = 0; n < add->nr; n++)
			sum += add->buckets[n][i];
		for (uint32_t n = 0; n < add->nr; n++)
			add->buckets[n][i] = sum;
	}
}

RNL_HOST_KERNEL(add_kernel, add_on_host, struct add_args);

static int add(struct buckets *b, struct reduce *r)
{
	struct add_args args = { .nr = b->set.nr_devices, .nr_words = b->nr_words };
	const struct rnl_dim one = { 1, 1, 1 };

	for (unsigned d = 0; d < b->set.nr_devices; d++)
		args.buckets[d] = bucket_of(b, d, r->bucket);
	return rnl_launch(&add_kernel, one, one, &args);
}

const struct transport adds_transport = {
	.name = "adds of one thread", .one_reducer = true, .reduce = add
};
