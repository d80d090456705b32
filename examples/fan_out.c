/* SPDX-License-Identifier: MIT */
/*
 * fan_out: items that fan out and in, 64 at a time, in an event loop of one thread.
 *
 * For each item, four jobs make one part each.  After these four, three jobs mix the parts; after
 * these three, one job adds the mixes up.  When that last job is done, so are the item's other
 * jobs, and the loop can reuse the item's memory immediately.  No thread waits for a barrier.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel.h>

enum { ITEMS = 10000, AT_ONCE = 64, PARTS = 4, MIXES = 3 };

struct item {
	struct rnl_job make[PARTS], mix[MIXES], add;
	struct rnl_barrier made, mixed;
	uint64_t number, parts[PARTS], mixes[MIXES], sum;
};

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "fan_out: %s: %s\n", what, rnl_strerror(ret));
		exit(1);
	}
}

static int make(struct rnl_job *job)
{
	struct item *item = job->user;

	item->parts[job - item->make] = item->number * (uint64_t)(job - item->make + 1);
	return 0;
}

static int mix(struct rnl_job *job)
{
	struct item *item = job->user;
	const uint64_t *parts = &item->parts[job - item->mix];

	item->mixes[job - item->mix] = parts[0] + parts[1];
	return 0;
}

static int add(struct rnl_job *job)
{
	struct item *item = job->user;

	item->sum = item->mixes[0] + item->mixes[1] + item->mixes[2];
	return 0;
}

/* Submits a job.  @after: the barrier to start after; @in: the barrier that counts it; or NULL. */
static void submit(struct rnl_pool *pool, struct item *item, struct rnl_job *job,
		   int (*fn)(struct rnl_job *job), struct rnl_barrier *after,
		   struct rnl_barrier *in, struct rnl_cq *cq)
{
	must(rnl_job_init(job, fn), "rnl_job_init");
	job->user = item;
	must(rnl_job_set_after(job, after), "rnl_job_set_after");
	if (in)
		must(rnl_barrier_add(in, job), "rnl_barrier_add");
	must(rnl_job_set_cq(job, cq), "rnl_job_set_cq");
	must(rnl_submit(pool, job), "rnl_submit");
}

static void start(struct rnl_pool *pool, struct rnl_cq *cq, struct item *item, uint64_t number)
{
	struct rnl_barrier *made = &item->made, *mixed = &item->mixed;

	memset(item, 0xee, sizeof(*item));	/* no job uses the previous item any more */
	item->number = number;
	must(rnl_barrier_init(&item->made, pool), "rnl_barrier_init");
	must(rnl_barrier_init(&item->mixed, pool), "rnl_barrier_init");
	for (unsigned i = 0; i < PARTS; i++)
		submit(pool, item, &item->make[i], make, NULL, made, NULL);
	for (unsigned i = 0; i < MIXES; i++)
		submit(pool, item, &item->mix[i], mix, made, mixed, NULL);
	submit(pool, item, &item->add, add, mixed, NULL, cq);
}

int main(void)
{
	static struct item items[AT_ONCE];
	uint64_t started = 0, ended = 0, wrong = 0;
	struct rnl_job *jobs[AT_ONCE];
	struct rnl_pool *pool;
	struct rnl_cq *cq;

	must(rnl_pool_create(&pool, NULL), "rnl_pool_create");
	must(rnl_cq_create(&cq), "rnl_cq_create");
	for (; started < AT_ONCE; started++)
		start(pool, cq, &items[started], started);
	while (ended < ITEMS) {
		int nr = rnl_cq_reap(cq, jobs, AT_ONCE, RNL_FOREVER);

		must(nr, "rnl_cq_reap");
		for (int i = 0; i < nr; i++, ended++) {
			struct item *item = jobs[i]->user;

			wrong += jobs[i]->result || item->sum != 15 * item->number;
			if (started < ITEMS)
				start(pool, cq, item, started++);
		}
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
	printf("%d items, %d jobs, %" PRIu64 " wrong\n", ITEMS, ITEMS * (PARTS + MIXES + 1), wrong);
	must(fflush(stdout) ? -errno : 0, "standard output");
	return wrong ? 1 : 0;
}
