/* SPDX-License-Identifier: MIT */
/* The shared state of a pool's workers and callers: its queues and counts as a whole, its log. */
#include "config.h"

#include <errno.h>

#include "stream/job_flags.h"
#include "pool/classes.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "sys/fence.h"
#include "sys/tsan.h"

void rnl__pool_wake_counts(struct rnl_pool *pool)
{
	/*
	 * [pool.R1] full barrier: the counts are written before the look for drains, notices,
	 * submits that wait for space, and a worker that waits for its queue to be empty;
	 * pairs with [eventcount.L2], [waitq.W1], [park.S1]
	 */
	rnl__full_barrier();
	rnl__pool_wake_drained(pool);
}

void rnl__pool_wake_batches(struct rnl_pool *pool)
{
	/*
	 * [pool.R2] full barrier: the change is written before the look for reservations that wait;
	 * pairs with [eventcount.L2]
	 */
	rnl__full_barrier();
	rnl__eventcount_wake(&pool->space_batch);
}

void rnl__pool_wake_spaces(struct rnl_pool *pool)
{
	unsigned nr;

	/* [pool.R3] full barrier: see R1; pairs with [eventcount.L2], [waitq.W1], [park.S1] */
	rnl__full_barrier();
	nr = rnl__pool_nr_workers(pool);
	rnl__eventcount_wake(&pool->space);
	rnl__waitq_wake(pool);
	rnl__eventcount_wake(&pool->space_batch);
	rnl__classes_wake_spaces(pool);
	for (unsigned i = 0; i < nr; i++)
		rnl__eventcount_wake(&rnl__worker_at(pool, i)->space);
}

int rnl__pool_used(struct rnl_pool *pool, const char *call, uint64_t bits, struct rnl__used *used)
{
	used->nr = 0;
	for (unsigned i = 0; i < 64; i++) {
		if (bits ? !(bits >> i & 1) : i >= pool->devices.nr)
			continue;
		if (rnl__pool_lacks(pool, call, i))
			return -EINVAL;
		used->list[used->nr++] = (uint8_t)i;
	}
	return 0;
}

unsigned rnl__pool_place(const struct rnl_pool *pool, const struct rnl__used *used, unsigned i,
			 struct rnl_job *job)
{
	rnl__job_set_device(job, used->list[i % used->nr]);
	job->flags |= RNL__JOB_PLACED;
	return i / used->nr * pool->devices.nr;
}

uint64_t rnl__pool_queued(struct rnl_pool *pool)
{
	unsigned nr = rnl__pool_nr_workers(pool);
	uint64_t queued = 0;

	for (unsigned i = 0; i < nr; i++)
		queued += rnl__queue_length(&rnl__worker_at(pool, i)->queue);
	return queued;
}

bool rnl__pool_has_room(struct rnl_pool *pool)
{
	const uint64_t half = pool->max_queued / 2;

	return rnl__pool_queued(pool) <= half && rnl__outside_nr(pool, RNL__DEFERRED) <= half &&
	       rnl__outside_nr(pool, RNL__CHAINED) <= half && !rnl__waitq_lacks(&pool->waitq);
}

int rnl__pool_missing(const char *call)
{
	return rnl__invalid(NULL, "%s: pool is NULL", call);
}

int rnl__pool_waits_for_itself(const struct rnl_pool *pool, const char *call)
{
	rnl__log_limited(&pool->log, RNL_LOG_WARNING, "%s: refused on a worker of the pool, which "
			 "would wait for itself: use a callback, a job behind it, or a job after a "
			 "barrier", call);
	return -EBUSY;
}

int rnl__pool_no_thread(const struct rnl_pool *pool, const char *what, int ret)
{
	if (ret == -ENOTSUP)
		rnl__log(&pool->log, RNL_LOG_ERROR, "%s: the system refuses a thread: allow clone3 and "
			 "clone, if a filter of system calls (seccomp) or a policy does that", what);
	else if (ret == -EAGAIN)
		rnl__log(&pool->log, RNL_LOG_ERROR, "%s: the system starts no more threads: see the "
			 "limit of processes (ulimit -u), and pids.max of the control group", what);
	return ret;
}

static uint64_t released(struct rnl__worker *w)
{
	/* [pool.D1] acquire: a counted job belongs to its caller again; pairs with [worker.D1] */
	return atomic_load_explicit(&w->released, memory_order_acquire);
}

/* Shows ThreadSanitizer that [pool.D1] holds for all counted jobs. */
static void show_released(struct rnl_pool *pool)
{
	const unsigned nr = rnl__pool_nr_workers(pool);

	rnl__tsan_acquire(&pool->timer.self.released);
	for (unsigned i = 0; i < nr; i++)
		rnl__tsan_acquire(&rnl__worker_at(pool, i)->released);
}

bool rnl__pool_all_done(struct rnl_pool *pool, bool with_last)
{
	struct rnl__tally *of = pool->outside;
	uint64_t accepted = 0, done = released(&pool->timer.self), started;
	unsigned nr;

	/* The timer thread must still queue these jobs and complete them with -ECANCELED. */
	if (rnl__tally_closed(&of[RNL__DELAYED]) && rnl__tally_inside(&of[RNL__DELAYED]))
		return false;
	nr = rnl__pool_nr_workers(pool);
	for (unsigned i = 0; i < nr; i++)
		done += released(rnl__worker_at(pool, i));
	/*
	 * Counted after the released jobs: a job that is accepted in between makes the sums differ.
	 * A deferred job is counted in its worker's queue before it leaves the count here.
	 */
	started = rnl__tally_left(&of[RNL__DEFERRED]) + rnl__tally_left(&of[RNL__OPERATION]);
	if (with_last)
		started += rnl__tally_left(&of[RNL__LAST]);
	/* Read again: a worker started by a resize may have accepted some of the counted jobs. */
	nr = rnl__pool_nr_workers(pool);
	for (unsigned i = 0; i < nr; i++)
		accepted += rnl__queue_accepted(&rnl__worker_at(pool, i)->queue);
	accepted += rnl__tally_entered(&of[RNL__DEFERRED]) + rnl__tally_entered(&of[RNL__OPERATION]) +
		    rnl__tally_entered(&of[RNL__CHAINED]) + rnl__tally_entered(&of[RNL__CLASSED]);
	if (with_last)
		accepted += rnl__tally_entered(&of[RNL__LAST]);
	if (accepted - started != done)
		return false;
	show_released(pool);
	return true;
}
