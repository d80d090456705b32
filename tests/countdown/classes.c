/* SPDX-License-Identifier: MIT */
/* Classes: their creation, jobs of a class, their end. */
#include <string.h>

#include <runnel/class.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#include "countdown.h"

static struct rnl_class *cls;

static int create_and_destroy(struct rnl_pool **pool)
{
	struct rnl_class *made = NULL;
	int ret = rnl_class_create(&made, *pool, NULL);

	expect(!ret == !!made);
	rnl_class_destroy(made);
	return ret;
}

static void one_class(struct rnl_pool *pool)
{
	expect(!rnl_class_create(&cls, pool, NULL));
}

/* A class with more slots takes the place of one that has ended. */
static int create_a_larger(struct rnl_pool **pool)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	int ret;

	rnl_class_destroy(cls);
	attr.max_queued = 5000;
	ret = rnl_class_create(&cls, *pool, &attr);
	if (!ret)
		rnl_class_destroy(cls);
	return ret;
}

/* The second job is a later job of the first one's chain. */
static int submit(struct rnl_pool **pool)
{
	struct rnl_class_stats stats = RNL_CLASS_STATS_INIT;
	uint64_t wait_ns;
	struct watched *first = watched_next(BY_CALLBACK), *then = watched_next(BY_WAIT);
	int ret;

	then->late = true;
	expect(!rnl_job_set_class(&first->job, cls) && !rnl_job_set_then(&first->job, &then->job));
	ret = rnl_submit(*pool, &first->job);
	watched_submitted(first, ret);
	watched_submitted(then, ret);
	rnl_class_destroy(cls);
	expect(ret || !rnl_job_wait(&then->job, 0));
	expect(!rnl_class_read_stats(cls, &stats) && !stats.queued && !stats.started);
	expect(!rnl_class_wait(cls, &wait_ns));
	return ret;
}

/* ---- workers of a class's own ----------------------------------------------------------- */

enum { OWN = 2 };

static int create_own(struct rnl_pool *pool, struct rnl_class **made, uint32_t level)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;

	attr.nr_workers = OWN;
	attr.stream_priority = level;
	return rnl_class_create(made, pool, &attr);
}

static void own_class(struct rnl_pool *pool)
{
	expect(!create_own(pool, &cls, 0));
}

/* Their threads are there. */
static void own_class_ended(struct rnl_pool *pool)
{
	own_class(pool);
	rnl_class_destroy(cls);
}

/* Creates a class, runs a job on its workers, and ends the class. */
static int live_own(struct rnl_pool *pool, uint32_t level)
{
	struct rnl_class *made = NULL;
	int ret = create_own(pool, &made, level);
	struct watched *w;

	expect(!ret == !!made);
	if (ret)
		return ret;
	w = watched_next(BY_CALLBACK);
	expect(!rnl_job_set_class(&w->job, made));
	expect_accepted(watched_submitted(w, rnl_submit(pool, &w->job)));
	rnl_class_destroy(made);
	return 0;
}

static int live(struct rnl_pool **pool)
{
	return live_own(*pool, 0);
}

/* Workers that get another priority get other threads. */
static int live_on_others(struct rnl_pool **pool)
{
	return live_own(*pool, 1);
}

static int end_own(struct rnl_pool **pool)
{
	(void)pool;
	rnl_class_destroy(cls);
	return 0;
}

/* No worker has been lost. */
static void after_own(struct rnl_pool *pool, int ret)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	(void)ret;
	expect(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats) && stats.nr_workers == 1);
	if (fault_lasts())
		return;
	expect(!create_own(pool, &cls, 2));
	expect(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats) && stats.nr_workers == 1 + OWN);
}

#define OWN_CLASS(says, ...) \
	{ .name = says, .attr = { .nr_class_workers = OWN }, .after = after_own, \
	  .errnos = { -ENOMEM, -EAGAIN, -EIO }, __VA_ARGS__ }

/* ---- large copies of a lower class ------------------------------------------------ */

enum { LARGE = 9 << 20 };	/* two pieces */

static char *device, *pinned;	/* pinned: from its half on, what comes back */

static void a_low_class(struct rnl_pool *pool)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	void *mem[2];

	attr.priority = 3;
	expect(!rnl_class_create(&cls, pool, &attr));
	expect(!rnl_memory_get(pool, 0, LARGE, &mem[0], 0));
	expect(!rnl_memory_get(pool, RNL_PINNED, 2 * LARGE, &mem[1], 0));
	device = mem[0];
	pinned = mem[1];
	memset(pinned, 9, LARGE);
}

static int copy_fn(struct rnl_job *job)
{
	int ret = rnl_copy(device, pinned, LARGE);

	rnl_container_of(job, struct watched, job)->ran++;
	return ret ? ret : rnl_copy(pinned + LARGE, device, LARGE);
}

/* Once on each of two workers. */
static int copy_cut(struct rnl_pool **pool)
{
	int ret = 0;

	for (uint64_t key = 0; key < 2 && !ret; key++) {
		struct watched *w = watched_with(BY_CALLBACK, copy_fn);

		expect(!rnl_job_set_class(&w->job, cls) && !rnl_job_set_key(&w->job, key));
		memset(pinned + LARGE, 0, LARGE);
		ret = watched_submitted(w, rnl_submit(*pool, &w->job));
		expect(!rnl_pool_drain(*pool, RNL_FOREVER));
		if (!ret)
			ret = w->job.result;
		expect(ret || fault_lasts() || !memcmp(pinned + LARGE, pinned, LARGE));
	}
	return ret;
}

static void after_copy(struct rnl_pool *pool, int ret)
{
	(void)ret;
	rnl_memory_put(pool, device);
	rnl_memory_put(pool, pinned);
}

const struct operation class_operations[] = {
	{ .name = "rnl_class_create, rnl_class_destroy", .run = create_and_destroy,
	  .errnos = { -ENOMEM, -EIO }, },
	{ .name = "rnl_class_create, in the place of a smaller one", .before = one_class,
	  .run = create_a_larger, .errnos = { -ENOMEM, -EIO } },
	{ .name = "rnl_submit, rnl_job_set_class", .functions = "rnl_class_read_stats, rnl_class_wait",
	  .attr = TWO_WORKERS, .before = one_class, .run = submit, .errnos = { -EIO } },
	OWN_CLASS("rnl_class_create, rnl_class_destroy, with workers", .run = live),
	OWN_CLASS("rnl_class_create, with workers of another class", .before = own_class_ended,
		  .run = live),
	OWN_CLASS("rnl_class_create, with workers of another priority", .before = own_class_ended,
		  .run = live_on_others),
	OWN_CLASS("rnl_class_destroy, with workers", .before = own_class, .run = end_own),
	{ .name = "rnl_copy, of a lower class", .attr = TWO_WORKERS, .before = a_low_class,
	  .run = copy_cut, .after = after_copy, .errnos = { -ENOMEM, -EIO } },
	{ 0 }
};
