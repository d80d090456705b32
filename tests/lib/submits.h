/* SPDX-License-Identifier: MIT */
/* Sets up a job and submits it, in one call.  Returns the first error. */
#ifndef SUBMITS_H
#define SUBMITS_H

#ifndef __cplusplus
#include <stdatomic.h>
#endif
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include <runnel.h>
#include <runnel/more.h>

static inline int submit_by_key(struct rnl_pool *pool, struct rnl_job *job, uint64_t key)
{
	int ret = rnl_job_set_key(job, key);

	return ret ? ret : rnl_submit(pool, job);
}

static inline int submit_by_key_wait(struct rnl_pool *pool, struct rnl_job *job, uint64_t key,
				     int64_t timeout_ns)
{
	int ret = rnl_job_set_key(job, key);

	return ret ? ret : rnl_submit_wait(pool, job, timeout_ns);
}

#ifndef __cplusplus
/* A table of the rarely used fields of jobs; the key is the job's address. */
#define SUBMITS_BITS 19

struct submits_more {
	_Atomic(struct rnl_job *) job;
	_Atomic(struct rnl_job_more *) more;
};

/* Gives a job a new, empty struct, in @morep.  Returns 0 or the error of rnl_job_set_more(). */
static inline int more_anew(struct rnl_job *job, struct rnl_job_more **morep)
{
	static struct submits_more all[1u << SUBMITS_BITS];
	uint64_t i = (uintptr_t)job / 8 * 0x9e3779b97f4a7c15u >> (64 - SUBMITS_BITS);
	struct rnl_job_more *made = calloc(1, sizeof(*made));
	struct rnl_job *owner = NULL;
	int ret = made ? rnl_job_set_more(job, made) : -ENOMEM;

	if (ret) {
		free(made);
		return ret;
	}
	/* relaxed, both: the table must not order a test's threads */
	while (!atomic_compare_exchange_strong_explicit(&all[i].job, &owner, job, memory_order_relaxed,
							memory_order_relaxed) && owner != job) {
		i = (i + 1) % (1u << SUBMITS_BITS);
		owner = NULL;
	}
	/* The job is not in flight, so its last struct is unused. */
	free(atomic_exchange_explicit(&all[i].more, made, memory_order_relaxed));
	*morep = made;
	return 0;
}

static inline int set_time(struct rnl_job *job, int64_t start_ns)
{
	struct rnl_job_more *more;
	int ret = more_anew(job, &more);

	if (!ret)
		more->start_ns = start_ns;
	return ret;
}

static inline int set_order(struct rnl_job *job, struct rnl_order *order)
{
	struct rnl_job_more *more;
	int ret = more_anew(job, &more);

	if (!ret)
		more->order = order;
	return ret;
}

/* Clears the key, the order and the time of a job's earlier submit. */
static inline void submit_anew(struct rnl_job *job)
{
	(void)rnl_job_set_key(job, RNL_KEY_NONE);
	(void)rnl_job_set_more(job, NULL);
}

static inline int submit_at(struct rnl_pool *pool, struct rnl_job *job, int64_t start_ns)
{
	int ret = set_time(job, start_ns);

	return ret ? ret : rnl_submit(pool, job);
}

static inline int submit_by_key_at(struct rnl_pool *pool, struct rnl_job *job, uint64_t key,
				   int64_t start_ns)
{
	int ret = rnl_job_set_key(job, key);

	return ret ? ret : submit_at(pool, job, start_ns);
}

static inline int submit_when(struct rnl_pool *pool, struct rnl_job *job, enum rnl_when when)
{
	struct rnl_job_more *more;
	int ret = more_anew(job, &more);

	if (ret)
		return ret;
	more->when = when;
	return rnl_submit(pool, job);
}

static inline int submit_in_order(struct rnl_order *order, struct rnl_job *job)
{
	int ret = set_order(job, order);

	return ret ? ret : rnl_submit(order->pool, job);
}

static inline int submit_in_order_wait(struct rnl_order *order, struct rnl_job *job,
				       int64_t timeout_ns)
{
	int ret = set_order(job, order);

	return ret ? ret : rnl_submit_wait(order->pool, job, timeout_ns);
}

#endif /* __cplusplus */

#endif
