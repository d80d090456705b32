/* SPDX-License-Identifier: MIT */
/*
 * The buckets' values, and the serial reference of their sums.
 *
 * DESIGN
 * A step on a word is linear modulo 2^32, so any number of steps is one multiplication and one
 * addition.  The reference sums all ranks' values of each word of a bucket, serially.  A bucket's
 * sum in a run is the reference plus the run's shift, once for each rank.
 */
#include "config.h"

#include "buckets.h"
#include "common/program.h"

#include <stdlib.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

static float *sums;		/* the reference, without a shift */
static float *copied;		/* pinned: a copy of a device's bucket */

struct compute_args compute_args_of(const struct buckets *b, unsigned device, unsigned bucket)
{
	return (struct compute_args){
		bucket_of(b, device, bucket), b->nr_words, rank_of(b, device),
		shift_of(b->nr_runs, bucket), b->set.rounds,
	};
}

struct rnl_dim compute_grid_of(const struct buckets *b)
{
	const uint32_t of_block = COMPUTE_THREADS * COMPUTE_WORDS;

	return (struct rnl_dim){ (b->nr_words + of_block - 1) / of_block, 1, 1 };
}

void compute_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct compute_args *c = args;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < c->nr_words; i++)
		c->bucket[i] = compute_value(i, c);
}

void values_begin(struct buckets *b)
{
	void *mem;

	b->a = 1;
	b->c = 0;
	for (uint32_t r = 0; r < b->set.rounds; r++) {
		b->a *= COMPUTE_A;
		b->c = b->c * COMPUTE_A + COMPUTE_C;
	}
	sums = calloc(b->nr_words, sizeof(*sums));
	if (!sums)
		program_die("out of memory");
	for (unsigned rank = 0; rank < b->nr_ranks; rank++)
		for (uint32_t i = 0; i < b->nr_words; i++)
			sums[i] += value_of(b->a * seed_of(i, rank) + b->c, 0);
	program_must(rnl_memory_get(b->pool, RNL_PINNED, b->set.bytes, &mem, 0),
		     "memory to check a bucket");
	copied = mem;
}

void values_end(struct buckets *b)
{
	rnl_memory_put(b->pool, copied);
	free(sums);
}

struct copy {
	struct rnl_job job;
	const float *from;
	size_t bytes;
};

/* A job function. */
static int copy_bucket(struct rnl_job *job)
{
	const struct copy *copy = rnl_container_of(job, struct copy, job);

	return rnl_copy(copied, copy->from, copy->bytes);
}

static void check_bucket(const struct buckets *b, unsigned device, unsigned bucket, const char *what)
{
	const float more = (float)(b->nr_ranks * shift_of(b->nr_runs, bucket));
	struct copy copy = { .from = bucket_of(b, device, bucket), .bytes = b->set.bytes };

	program_must(rnl_job_init(&copy.job, copy_bucket), "a job");
	program_must(rnl_job_set_device(&copy.job, (int)device), "a job's device");
	program_must(rnl_submit_wait(b->pool, &copy.job, RNL_FOREVER), "copying a bucket");
	program_must(rnl_job_wait(&copy.job, RNL_FOREVER), "copying a bucket");
	program_must(copy.job.result, "copying a bucket");
	for (uint32_t i = 0; i < b->nr_words; i++)
		if (copied[i] != sums[i] + more)
			program_die("rank %u, %s: word %u of bucket %u is %g, and its serial sum is %g",
				    rank_of(b, device), what, i, bucket, (double)copied[i],
				    (double)(sums[i] + more));
}

void values_check(struct buckets *b, const char *what)
{
	for (unsigned d = 0; d < b->set.nr_devices; d++)
		for (unsigned i = 0; i < b->set.nr; i++)
			check_bucket(b, d, i, what);
}
