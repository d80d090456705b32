/* SPDX-License-Identifier: MIT */
/* Classes: their creation, jobs of a class, their end. */
#include <runnel/class.h>

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

const struct operation class_operations[] = {
	{ .name = "rnl_class_create, rnl_class_destroy", .run = create_and_destroy,
	  .errnos = { -ENOMEM, -EIO }, },
	{ .name = "rnl_class_create, in the place of a smaller one", .before = one_class,
	  .run = create_a_larger, .errnos = { -ENOMEM, -EIO } },
	{ .name = "rnl_submit, rnl_job_set_class", .functions = "rnl_class_read_stats, rnl_class_wait",
	  .attr = TWO_WORKERS, .before = one_class, .run = submit, .errnos = { -EIO } },
	{ 0 }
};
