/* SPDX-License-Identifier: MIT */
/* Setting a job and submitting it, as one call.  The first error is returned. */
#ifndef SUBMITS_H
#define SUBMITS_H

#include <runnel.h>

/* Takes the key, the order and the time of an earlier submit from a job. */
static inline void submit_anew(struct rnl_job *job)
{
	(void)rnl_job_order(job, NULL);
	(void)rnl_job_at(job, 0);
}

static inline int submit_by_key(struct rnl_pool *pool, struct rnl_job *job, uint64_t key)
{
	int ret = rnl_job_key(job, key);

	return ret ? ret : rnl_submit(pool, job);
}

static inline int submit_by_key_wait(struct rnl_pool *pool, struct rnl_job *job, uint64_t key,
				     int64_t timeout_ns)
{
	int ret = rnl_job_key(job, key);

	return ret ? ret : rnl_submit_wait(pool, job, timeout_ns);
}

static inline int submit_at(struct rnl_pool *pool, struct rnl_job *job, int64_t start_ns)
{
	int ret = rnl_job_at(job, start_ns);

	return ret ? ret : rnl_submit(pool, job);
}

static inline int submit_by_key_at(struct rnl_pool *pool, struct rnl_job *job, uint64_t key,
				   int64_t start_ns)
{
	int ret = rnl_job_key(job, key);

	return ret ? ret : submit_at(pool, job, start_ns);
}

static inline int submit_in_order(struct rnl_order *order, struct rnl_job *job)
{
	int ret = rnl_job_order(job, order);

	return ret ? ret : rnl_submit(order->pool, job);
}

static inline int submit_in_order_wait(struct rnl_order *order, struct rnl_job *job,
				       int64_t timeout_ns)
{
	int ret = rnl_job_order(job, order);

	return ret ? ret : rnl_submit_wait(order->pool, job, timeout_ns);
}

#endif
