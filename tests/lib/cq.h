/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of completion queues. */
#ifndef CQ_H
#define CQ_H

#include <poll.h>

#include "pool.h"

static inline struct rnl_cq *cq_of(void)
{
	struct rnl_cq *cq = NULL;

	must(rnl_cq_create(&cq));
	ck_assert_ptr_nonnull(cq);
	return cq;
}

static inline void cq_job(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user,
		   struct rnl_cq *cq)
{
	job_of(job, fn, user);
	must(rnl_job_set_cq(job, cq));
}

/* Waits until all earlier jobs are done.  The pool has one worker, so its jobs end in order. */
static inline void fence(struct rnl_pool *pool)
{
	struct rnl_job job;

	submit_job(pool, &job, noop_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
}

/* Takes @nr jobs from the queue; all must arrive. */
static inline void reap_all(struct rnl_cq *cq, struct rnl_job **jobs, unsigned nr)
{
	int ret;

	for (unsigned got = 0; got < nr; got += (unsigned)ret) {
		ret = rnl_cq_reap(cq, jobs + got, nr - got, patience_ns());
		ck_assert_int_gt(ret, 0);
		ck_assert_int_le(ret, (int)(nr - got));
	}
}

static inline bool readable(int fd)
{
	struct pollfd look = { .fd = fd, .events = POLLIN };

	return poll(&look, 1, 0) == 1;
}

#endif /* CQ_H */
