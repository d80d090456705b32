/* SPDX-License-Identifier: MIT */
/*
 * The ways to handle small requests: bytes to the device, a small kernel, bytes back.
 *
 * DESIGN
 * A way is a row of small_ways[].  With the first rows a request is a job with page-locked memory of
 * its own.  They differ in what the job issues, and in a flag.  With the others a request is a
 * batcher's: its bytes are written directly into the batcher's memory, and one kernel handles all
 * requests of a batch, or a resident kernel a lone request.
 *
 * The input of a request is a run of numbers that begins at another number each time, so the check
 * finds words that are wrong, misplaced, or of an earlier answer.
 */
#include "config.h"

#include "common/program.h"
#include "small_jobs.h"

#include <runnel/batch.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/stats.h>

#define BLOCKS_MAX 1024
#define RESIDENT_MAX 12288		/* bytes of a request that a resident kernel can have */

static struct rnl_dim grid_of(uint64_t nr_words)
{
	const uint64_t blocks = (nr_words + SMALL_THREADS - 1) / SMALL_THREADS;

	return (struct rnl_dim){ blocks < BLOCKS_MAX ? (uint32_t)blocks : BLOCKS_MAX, 1, 1 };
}

static const struct rnl_dim block = { SMALL_THREADS, 1, 1 };

/* ---- a job for each request ---------------------------------------------- */

/* Three calls of the driver, unless the job gathers: then a few for up to 32 jobs. */
static int copy_mix_copy(struct rnl_job *job)
{
	const struct small_work *w = job->user;
	const size_t bytes = w->nr_words * sizeof(uint32_t);
	struct small_work on_device = *w;
	void *mem = NULL;
	int ret = rnl_scratch(bytes, &mem);

	on_device.in = on_device.out = mem;
	if (!ret)
		ret = rnl_copy(mem, w->in, bytes);
	if (!ret)
		ret = rnl_launch(&small_kernel, grid_of(w->nr_words), block, &on_device);
	return ret ? ret : rnl_copy(w->out, mem, bytes);
}

/*
 * Issues the same work each time, as a job that is replayed must: the kernel finds the addresses of
 * its request in the bytes at the job's `user`.  It accesses page-locked memory without copies.
 */
static int mix_in_place(struct rnl_job *job)
{
	const struct small_work *w = job->user;
	void *work = NULL;
	int ret = rnl_job_args(sizeof(*w), &work);
	const struct small_place place = { work };

	return ret ? ret : rnl_launch(&small_place_kernel, grid_of(w->nr_words), block, &place);
}

/* ---- a batcher's requests ------------------------------------------------ */

/* Called for each batch.  Its requests are neighbours in memory, and so are their answers. */
static int mix_batch(const struct rnl_batch *batch)
{
	const struct small_work work = { batch->in, batch->out, batch->in_bytes / sizeof(uint32_t) };

	return rnl_launch(&small_kernel, grid_of(work.nr_words), block, &work);
}

static void by_function(struct rnl_batcher_attr *attr)
{
	attr->fn = mix_batch;
}

/*
 * Batches run a function for one request, in a block each.  The same function, in a kernel that stays
 * on the device, answers lone requests that a thread waits for.
 */
static void by_kernel(struct rnl_batcher_attr *attr)
{
	attr->kernel = &small_each;
	if (attr->in_bytes <= RESIDENT_MAX)
		attr->flags = RNL_BATCHER_RESIDENT;
}

/* ---- the table ----------------------------------------------------------- */

const struct small_way small_ways[] = {
	{ .name = "single", .fn = copy_mix_copy,
	  .means = "a job each: copy, kernel, copy" },
	{ .name = "gathered", .fn = copy_mix_copy, .flags = RNL_GATHER,
	  .means = "the same jobs, issued together with others" },
	{ .name = "replayed", .fn = mix_in_place, .flags = RNL_REPLAY,
	  .means = "a job each: a recorded kernel, on page-locked memory" },
	{ .name = "batched", .batcher = by_function,
	  .means = "a batcher's requests: one kernel for all that wait" },
	{ .name = "resident", .batcher = by_kernel,
	  .means = "the same, by a function for one request" },
	{ .name = NULL }
};
_Static_assert(sizeof(small_ways) / sizeof(small_ways[0]) <= SMALL_WAYS_MAX + 1, "more ways");

/* ---- one request --------------------------------------------------------- */

static void must(const struct small *s, int ret)
{
	program_must(ret, s->way->name);
}

static void fill(uint32_t *in, const struct small_request *r)
{
	uint32_t x[SMALL_STEP];

	for (uint32_t i = 0; i < r->work.nr_words; i += SMALL_STEP) {
		for (uint32_t k = 0; k < SMALL_STEP; k++)
			x[k] = r->number + i + k;
		memcpy(in + i, x, sizeof(x));
	}
}

static void check(const struct small *s, const struct small_request *r, const uint32_t *out)
{
	uint32_t x[SMALL_STEP], i, k;

	for (i = 0; i < r->work.nr_words; i += SMALL_STEP) {
		for (k = 0; k < SMALL_STEP; k++)
			x[k] = small_mix(r->number + i + k);
		if (memcmp(out + i, x, sizeof(x)))
			break;
	}
	if (i == r->work.nr_words)
		return;
	for (k = 0; out[i + k] == x[k];)
		k++;
	program_die("%s: a wrong answer: word %u is 0x%08x, not 0x%08x", s->way->name, i + k,
		    out[i + k], x[k]);
}

void small_send(struct small *s, struct small_request *r)
{
	r->number += 1000003;		/* more than a request has words */
	if (s->batcher) {
		must(s, rnl_batcher_reserve(s->batcher, &r->request, s->bytes, RNL_FOREVER));
		fill(r->request.in, r);
		must(s, rnl_request_commit(&r->request));
	} else {
		fill(r->in, r);
		must(s, rnl_submit_wait(s->pool, &r->request.job, RNL_FOREVER));
	}
}

void small_take(struct small *s, struct small_request *r)
{
	must(s, r->request.job.result);
	check(s, r, s->batcher ? r->request.out : r->work.out);
	if (s->batcher)
		must(s, rnl_request_release(&r->request));
}

/* ---- all requests of a way ----------------------------------------------- */

void small_begin(struct small *s, const struct small_way *way)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	const size_t nr_words = s->bytes / sizeof(uint32_t);

	s->way = way;
	if (way->batcher) {
		attr.arg = s;
		attr.in_bytes = attr.out_bytes = s->bytes;
		way->batcher(&attr);
		must(s, rnl_batcher_create(&s->batcher, s->pool, &attr));
	}
	for (unsigned i = 0; i < s->under_way; i++) {
		struct small_request *r = &s->requests[i];
		uint32_t *in = s->memory + 2 * i * nr_words;

		*r = (struct small_request){
			.work = { in, in + nr_words, nr_words }, .in = in, .number = i << 20
		};
		must(s, rnl_job_init(&r->request.job, way->fn));
		must(s, rnl_job_set_flags(&r->request.job, way->flags));
		r->request.job.user = &r->work;
	}
}

struct small_counts small_count(const struct small *s)
{
	struct rnl_batcher_stats batcher = RNL_BATCHER_STATS_INIT;
	struct rnl_pool_stats pool = RNL_POOL_STATS_INIT;

	must(s, rnl_pool_read_stats(s->pool, RNL_ALL_WORKERS, &pool));
	if (s->batcher)
		must(s, rnl_batcher_read_stats(s->batcher, &batcher));
	return (struct small_counts){
		pool.gathered, pool.replayed, batcher.requests, batcher.batches, batcher.resident
	};
}

void small_end(struct small *s)
{
	rnl_batcher_destroy(s->batcher);
	s->batcher = NULL;
}
