/* SPDX-License-Identifier: MIT */
/* Classes and their jobs. */
#ifndef CLASSED_H
#define CLASSED_H

#include <runnel/class.h>

#include "pool.h"

/* A class with the attributes in the call: class_of(pool, .weight = 3). */
#define class_of(pool, ...) \
	class_with(pool, &(struct rnl_class_attr){ .size = sizeof(struct rnl_class_attr), ##__VA_ARGS__ })

static inline struct rnl_class *class_with(struct rnl_pool *pool, const struct rnl_class_attr *attr)
{
	struct rnl_class *cls = NULL;

	must(rnl_class_create(&cls, pool, attr));
	ck_assert_ptr_nonnull(cls);
	return cls;
}

/* A class with @nr workers of its own: a part of nr_class_workers of the pool. */
static inline struct rnl_class *own_class(struct rnl_pool *pool, unsigned nr)
{
	return class_of(pool, .nr_workers = nr);
}

/* A class whose jobs the pool's workers start before other jobs. */
static inline struct rnl_class *first_class(struct rnl_pool *pool)
{
	return class_of(pool, .priority = -4);
}

static inline struct rnl_class_stats stats_of(struct rnl_class *cls)
{
	struct rnl_class_stats stats = RNL_CLASS_STATS_INIT;

	must(rnl_class_read_stats(cls, &stats));
	return stats;
}

static inline void classed_of(struct rnl_job *job, struct rnl_class *cls,
			      int (*fn)(struct rnl_job *job), void *user)
{
	job_of(job, fn, user);
	must(rnl_job_set_class(job, cls));
}

static inline void submit_classed(struct rnl_pool *pool, struct rnl_job *job,
				  struct rnl_class *cls, int (*fn)(struct rnl_job *job), void *user)
{
	classed_of(job, cls, fn, user);
	must(rnl_submit(pool, job));
}

/* Fills the class: returns how many jobs it accepted, at most @most. */
static inline unsigned fill_class(struct rnl_pool *pool, struct rnl_class *cls, struct rnl_job *jobs,
				  unsigned most)
{
	unsigned nr = 0;
	int ret = 0;

	for (; nr < most && !ret; nr += !ret) {
		classed_of(&jobs[nr], cls, noop_fn, NULL);
		ret = rnl_submit(pool, &jobs[nr]);
	}
	ck_assert(!ret || ret == -EAGAIN);
	return nr;
}

#endif
