/* SPDX-License-Identifier: MIT */
/* Jobs: making them, and learning that they are done. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "job.h"
#include "pool.h"
#include "self.h"

static _Atomic uint32_t *latch_of(const struct rnl_job *job)
{
	return rnl__atomic((uint32_t *)&job->state);
}

/* The pool of the last accepted submit; NULL if there was none. */
static struct rnl_pool *pool_of(const struct rnl_job *job)
{
	/* relaxed: who asks knows of the submit */
	return atomic_load_explicit(rnl__atomic((struct rnl_pool **)&job->pool),
				    memory_order_relaxed);
}

/* A job that was submitted, in this process.  Its pool may be gone if it is done. */
static int check(const struct rnl_job *job)
{
	if (!job || !pool_of(job))
		return -EINVAL;
	/* relaxed: as the pool */
	return rnl__generation_check(atomic_load_explicit(
		rnl__atomic((uint32_t *)&job->generation), memory_order_relaxed));
}

int rnl_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	if (!job || !fn)
		return -EINVAL;
	memset(job, 0, sizeof(*job));
	job->fn = fn;
	return 0;
}

bool rnl__job_active(const struct rnl_job *job)
{
	return !rnl__latch_open(latch_of(job));
}

int rnl__job_claim(struct rnl_job *job)
{
	uint32_t word;

	if (!job || !job->fn)
		return -EINVAL;
	/* relaxed: the exchange decides */
	word = atomic_load_explicit(latch_of(job), memory_order_relaxed) & RNL__LATCH_SLEEPER;
	/*
	 * [job.S1] acquire: what the last run left in the job is ours to
	 * overwrite; pairs with [latch.D1].  Two submits of one job meet here.
	 */
	while (!atomic_compare_exchange_weak_explicit(latch_of(job), &word, word | RNL__LATCH_ONE,
						      memory_order_acquire, memory_order_relaxed)) {
		if (word >= RNL__LATCH_ONE)
			return -EBUSY;
	}
	return 0;
}

void rnl__job_unclaim(struct rnl_job *job)
{
	(void)rnl__latch_drop(latch_of(job), 1);
}

void rnl__job_hold(struct rnl_job *job)
{
	rnl__latch_add(latch_of(job), 1);
}

void rnl__job_release(struct rnl_job *job)
{
	(void)rnl__latch_drop(latch_of(job), 1);
}

void rnl__job_complete(struct rnl_job *job, int result)
{
	job->result = result;
	(void)rnl__latch_drop(latch_of(job), 1);
}

int rnl_job_wait(struct rnl_job *job, int64_t timeout_ns)
{
	int ret = check(job);

	if (ret || rnl__latch_open(latch_of(job)))
		return ret;
	if (rnl__pool_worker(pool_of(job)))
		return -EBUSY;
	return rnl__latch_wait(latch_of(job), pool_of(job)->spin_ns, rnl__deadline(timeout_ns));
}

int rnl_job_test(struct rnl_job *job)
{
	int ret = check(job);

	return ret ? ret : rnl__latch_open(latch_of(job));
}

int rnl_job_result(const struct rnl_job *job)
{
	int ret = check(job);

	if (ret)
		return ret;
	return rnl__latch_open(latch_of(job)) ? job->result : -EBUSY;
}

int rnl_job_device_error(const struct rnl_job *job)
{
	return job && rnl__latch_open(latch_of(job)) ? job->device_error : 0;
}
