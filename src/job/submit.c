/* SPDX-License-Identifier: MIT */
/*
 * Submitting: a job's path from its caller to a worker's queue.
 *
 * DESIGN
 *	A submit claims the job, reserves space in a queue, puts the job there, and checks for a
 *	sleeping worker.  It changes four words, takes no lock, and allocates no memory.
 *	A deferred job has no worker until the jobs of its barrier are issued, so a worker that
 *	leaves need not wait for it.  The pool's tally DEFERRED bounds such jobs, and closes like a
 *	queue.  When the barrier starts the job, it is queued even if the queue is full.  So a job
 *	is not deferred while the queue that it would go to is full.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>

#include <runnel/more.h>

#include "job/barrier.h"
#include "job/delayed.h"
#include "sys/clock.h"
#include "sys/flat.h"
#include "sys/probe.h"
#include "sys/sizes.h"
#include "sys/thread.h"
#include "sys/tsan.h"
#include "job/job.h"
#include "job/more.h"
#include "job/order.h"
#include "job/refusal.h"
#include "job/rounds.h"
#include "pool/choose.h"
#include "pool/classes.h"
#include "pool/inherit.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "job/submit.h"

#define ROW_MAX 65536u	/* most jobs that are claimed before space is reserved for them */

/*
 * Checks a claimed job.  Returns 0 if the pool can accept it, or the error.  Notices of the end of
 * a pool or of a round are accepted even if the device has failed.
 */
static int check_claimed(struct rnl_pool *pool, struct rnl_job *job, unsigned lane)
{
	int ret = 0;

	if (job->flags & RNL__JOB_MORE) {
		job->flags |= rnl__more_flags(job);
		ret = rnl__more_check(pool, job);
		if (!ret)
			rnl__more_set_id(job);
	}
	if (ret)
		return ret;
	if (!rnl__refusal_fits(pool, job, lane))
		return rnl__refusal_say(pool, job, lane);
	if (!((lane | job->flags) & (RNL__JOB_LAST | RNL__JOB_TELLS)) && rnl__pool_failed(pool))
		return -EIO;
	return job->barrier && !rnl__rounds_have_room(job->barrier) ? -EAGAIN : 0;
}

/* Claims a job for a submit and sets its lane flags. */
int rnl__submit_claim(struct rnl_pool *pool, struct rnl_job *job, unsigned lane)
{
	int ret = rnl__pool_given(pool, "submit");

	if (ret)
		return ret;
	ret = rnl__job_claim(job);
	if (ret == -EINVAL)
		return rnl__invalid(&pool->log, job ? "submit: job %p was not initialised: call rnl_job_init() "
						      "first, and not while the job is under way" :
						      "submit: job is NULL", (void *)job);
	/* rnl__refusal_busy() logs the reason for a chain. */
	if (ret && !(lane & RNL__JOB_CHAINED))
		return rnl__refused(&pool->log, ret, "submit: job %p was submitted before, and is not "
				    "done: wait for it, or submit another job", (void *)job);
	if (ret)
		return ret;
	job->flags &= RNL__JOB_LASTING;
	/* The deadline of its last class. */
	if (job->flags & RNL__JOB_CLASS_DEADLINE)
		job->flags &= ~(RNL__JOB_DEADLINE | RNL__JOB_CLASS_DEADLINE);
	rnl__job_set_after_round(job, RNL__NO_ROUND);
	ret = check_claimed(pool, job, lane);
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	job->flags |= lane;
	/* The order may be gone when its jobs are queued. */
	if (job->flags & RNL__JOB_ORDER)
		job->key = job->more->order->key;
	if (job->flags & (RNL__JOB_KEY | RNL__JOB_ORDER))
		job->flags |= RNL__JOB_KEYED;
	if (job->flags & RNL__JOB_CLASS && !(lane & (RNL__JOB_CHAINED | RNL__JOB_TELLS)) &&
	    !(job->flags & RNL__JOB_MARKED))
		ret = rnl__classes_enter(pool, job);
	if (ret)
		rnl__job_drop(job);
	return ret;
}

/* Gives a claimed job back to its caller. */
static void unclaim(struct rnl_pool *pool, struct rnl_job *job)
{
	if (job->flags & RNL__JOB_CLASSED)
		rnl__classes_leave(pool, job);
	rnl__job_drop(job);
}

/*
 * Records the time of the submit if the job needs it: for timed jobs, which are chosen at random,
 * for jobs with a deadline, and for all jobs while a trace runs.
 */
static void stamp(struct rnl_pool *pool, struct rnl_job *job)
{
	static _Thread_local uint64_t random __attribute__((tls_model("initial-exec")));

	/* A linear congruential generator (Knuth, MMIX); its high bits are the random ones. */
	random = random * 6364136223846793005u + 1442695040888963407u;
	if (!(random >> 32 & pool->time_mask))
		job->flags |= RNL__JOB_TIMED;
	if (rnl__pool_traced(pool)) {
		job->flags |= RNL__JOB_TRACED;
		job->producer = rnl__thread_tid();
	}
	if (job->flags & (RNL__JOB_TIMED | RNL__JOB_DEADLINE | RNL__JOB_TRACED))
		job->submit_ns = rnl__now();
}

/* Accepts a claimed job: writes its pool, times, count of cancels, phase and round. */
void rnl__submit_accept(struct rnl_pool *pool, struct rnl_job *job, uint8_t phase)
{
	/* relaxed: a waiter of the last run may read it; the value does not change */
	atomic_store_explicit(rnl__atomic(&job->pool), pool, memory_order_relaxed);
	/* relaxed: like the pool */
	atomic_store_explicit(rnl__atomic(&job->generation), pool->generation,
			      memory_order_relaxed);
	stamp(pool, job);
	rnl__job_note_cancels(job, pool);
	rnl__job_accepted(job, phase);
	if (job->barrier) {
		rnl__job_set_round(job, rnl__barrier_count(job->barrier));
		if (!(job->flags & RNL__JOB_CHAINED))
			rnl__inherit_count(job, job);
	}
	rnl__tsan_release(job);
	RNL__PROBE_SUBMIT(job, pool);
}

/* ---- chains -------------------------------------------------------------- */

/* Returns the @nr jobs after the first one to the caller. */
static void unchain(struct rnl_job *first, unsigned nr)
{
	struct rnl_job *job = rnl__job_then(first), *next;

	for (; nr && job; nr--, job = next) {
		next = rnl__job_then(job);
		rnl__job_drop(job);
	}
}

/* Claims all jobs after the first one, or none.  Returns their number, or the error. */
static int chain(struct rnl_pool *pool, struct rnl_job *first)
{
	const struct rnl_job *before = first;
	unsigned nr = 0;
	int ret = 0;

	for (struct rnl_job *job = rnl__job_then(first); job; job = rnl__job_then(job)) {
		ret = rnl__submit_claim(pool, job, RNL__JOB_CHAINED);
		if (ret == -EBUSY)
			ret = rnl__refusal_busy(pool, first, nr, job);
		if (!ret && nr == pool->max_queued) {
			rnl__job_drop(job);
			ret = rnl__invalid(&pool->log, "submit: more jobs are behind job %p than "
					   "max_queued, which is %u", (void *)first, nr);
		}
		if (ret) {
			unchain(first, nr);
			return ret;
		}
		nr++;
		if (job->flags & RNL__JOB_MORE) {
			rnl__more_follow(job, before);
			before = job;
		}
	}
	return (int)nr;
}

/* Accepts a chain.  The jobs after the first are not timed, because they wait on purpose. */
static void accept_chain(struct rnl_pool *pool, struct rnl_job *first, uint8_t phase)
{
	rnl__submit_accept(pool, first, phase);
	for (struct rnl_job *job = rnl__job_then(first); job; job = rnl__job_then(job)) {
		rnl__submit_accept(pool, job, RNL__JOB_QUEUED);
		job->flags &= ~RNL__JOB_TIMED;
		if (job->barrier)
			rnl__inherit_count(job, first);
	}
}

/* ---- one job ------------------------------------------------------------- */

/*
 * Claims the rest of a job's chain and takes the job's snapshot; on failure gives the job back.
 * Returns the number of jobs after the first, or the error.
 */
static int prepare(struct rnl_pool *pool, struct rnl_job *job)
{
	int nr = rnl__job_then(job) ? chain(pool, job) : 0;
	int ret = nr < 0 ? nr : rnl__job_follows(job) ? rnl__barrier_snapshot(job) : 0;

	if (!ret)
		return nr;
	if (nr > 0)
		unchain(job, UINT_MAX);
	unclaim(pool, job);
	return ret;
}

/* Gives a prepared job back. */
static int give_back(struct rnl_pool *pool, struct rnl_job *job, int ret)
{
	if (rnl__job_follows(job))
		rnl__barrier_forget(job);
	unchain(job, UINT_MAX);
	unclaim(pool, job);
	return ret;
}

/* Records the resource that a submit lacks; @w: the thread's place in the wait queue, or NULL. */
static void lacks_now(struct rnl__waiter *w, unsigned lacks)
{
	if (w)
		w->found = lacks;
}

/*
 * Returns true if a submit must yield to a thread in the wait queue that lacks the same resource,
 * and records the resource.  @w: the submit's own place in the wait queue, or NULL.
 */
static bool is_left_to_others(struct rnl_pool *pool, struct rnl__waiter *w, unsigned lacks)
{
	const unsigned before = w ? w->before : rnl__waitq_lacks(&pool->waitq);

	if (before & lacks)
		lacks_now(w, lacks);
	return before & lacks;
}

/*
 * Counts @nr jobs that wait outside of the queues, for the job before them or for a barrier's
 * round.  Returns 0, -EAGAIN or -ESHUTDOWN.
 */
int rnl__submit_enter_chained(struct rnl_pool *pool, int nr, struct rnl__waiter *w)
{
	int ret;

	if (!nr)
		return 0;
	if (is_left_to_others(pool, w, RNL__LACKS_CHAIN))
		return -EAGAIN;
	ret = rnl__outside_enter(pool, RNL__CHAINED, (unsigned)nr);
	if (ret == -EAGAIN)
		lacks_now(w, RNL__LACKS_CHAIN);
	return ret;
}

/* Reserves space for a prepared job and @nr jobs after it.  Returns 0, -EAGAIN or -ESHUTDOWN. */
static int reserve(struct rnl_pool *pool, struct rnl_job *job, int nr, bool defer,
		   struct rnl__waiter *w)
{
	int ret;

	if (defer && is_left_to_others(pool, w, RNL__LACKS_PLACE))
		return -EAGAIN;
	ret = defer ? rnl__choose_reserve_deferred(pool, job) : rnl__choose_reserve(pool, job);
	if (ret) {
		/* A full queue stops only the submits that want that queue. */
		lacks_now(w, defer && !rnl__outside_has_space(pool, RNL__DEFERRED) ? RNL__LACKS_PLACE :
									RNL__LACKS_OTHER);
		return ret;
	}
	ret = rnl__submit_enter_chained(pool, nr, w);
	if (ret && defer)
		rnl__outside_take_back(pool, RNL__DEFERRED, 1);
	else if (ret)
		rnl__choose_unreserve(pool, job);
	return ret;
}

/* Submits a claimed job, or gives it back. */
static int submit_now(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w)
{
	struct rnl_order *order = job->flags & RNL__JOB_ORDER ? job->more->order : NULL;
	int nr = prepare(pool, job), ret;
	bool defer;

	if (nr < 0)
		return nr;
	defer = order || (rnl__job_follows(job) && !rnl__barrier_ready(job));
	ret = reserve(pool, job, nr, defer, w);
	if (ret)
		return give_back(pool, job, ret);
	/* The order is entered between the snapshot and the counts: see order.h. */
	if (order)
		rnl__order_enter(order, job);
	accept_chain(pool, job, RNL__JOB_QUEUED);
	if (defer && rnl__job_follows(job))
		rnl__barrier_raise(job, rnl__inherit_tier(job));
	if (order)
		rnl__barrier_raise_before(order, job);
	if (!defer)
		rnl__choose_put(job);
	else if (!order || rnl__order_ready(job))
		rnl__barrier_issued(job);
	return 0;
}

/* ---- delayed jobs -------------------------------------------------------- */

/* Counts a delayed job and @nr jobs after it.  Returns 0, -EAGAIN or -ESHUTDOWN. */
static int enter_delayed(struct rnl_pool *pool, int nr, struct rnl__waiter *w)
{
	int ret = rnl__outside_enter(pool, RNL__DELAYED, 1);

	if (ret)
		return ret;
	ret = rnl__submit_enter_chained(pool, nr, w);
	if (ret)
		rnl__outside_take_back(pool, RNL__DELAYED, 1);
	return ret;
}

/* Submits a claimed notice, or gives it back. */
static int submit_notice(struct rnl_pool *pool, struct rnl_job *job)
{
	const bool last = job->flags & RNL__JOB_LAST;
	int ret = rnl__outside_enter(pool, last ? RNL__LAST : RNL__DELAYED, 1);

	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	rnl__submit_accept(pool, job, RNL__JOB_DELAYED);
	job->flags &= ~RNL__JOB_TIMED;	/* it waits on purpose */
	rnl__delayed_push(job);
	return 0;
}

/* Submits a claimed job that has a time or is a notice, or gives it back. */
static __attribute__((noinline)) int submit_delayed(struct rnl_pool *pool, struct rnl_job *job,
						    struct rnl__waiter *w)
{
	const uint64_t at = rnl__larger((uint64_t)job->more->start_ns, rnl__now());
	int nr, ret;

	if (job->flags & RNL__JOB_MARKED)
		return submit_notice(pool, job);
	nr = prepare(pool, job);
	if (nr < 0)
		return nr;
	ret = enter_delayed(pool, nr, w);
	if (ret)
		return give_back(pool, job, ret);
	accept_chain(pool, job, RNL__JOB_DELAYED);
	/* A deadline counts from the start time. */
	job->submit_ns = at;
	rnl__delayed_push(job);
	return 0;
}

/* @w: the calling thread's place in the wait queue, or NULL. */
static int submit(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w)
{
	int ret = rnl__submit_claim(pool, job, 0);

	if (ret)
		return ret;
	return job->flags & (RNL__JOB_AT | RNL__JOB_MARKED) ? submit_delayed(pool, job, w) :
							      submit_now(pool, job, w);
}

RNL__FLAT
int rnl_submit(struct rnl_pool *pool, struct rnl_job *job)
{
	return rnl__submit_end(pool, job, submit(pool, job, NULL));
}

int rnl__submit_try(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w)
{
	return rnl__submit_answer(pool, submit(pool, job, w));
}

int rnl__submit_internal(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	int ret = rnl__submit_claim(pool, job, 0);

	if (ret)
		return ret;
	rnl__submit_accept(pool, job, RNL__JOB_QUEUED);
	rnl__choose_start_at(job, home);
	return 0;
}

void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	(void)rnl__job_claim(job);
	job->flags &= RNL__JOB_LASTING;
	rnl__job_set_after_round(job, RNL__NO_ROUND);
	if (job->flags & RNL__JOB_CLASS)
		(void)rnl__classes_enter(pool, job);
	rnl__submit_accept(pool, job, RNL__JOB_QUEUED);
	rnl__choose_start_at(job, home);
}

/* ---- many ---------------------------------------------------------------- */

/* Returns true if a claimed job may be in a row, because any worker may run it. */
static bool in_a_row(const struct rnl_job *job)
{
	return !(job->flags & (RNL__JOB_LEADS | RNL__JOB_PLACED | RNL__JOB_KEY |
			       RNL__JOB_MORE | RNL__JOB_CLASS)) && !job->after;
}

/*
 * Submits a row to one worker.  Returns how many were accepted, or the error; -EAGAIN or -ESTALE:
 * submit the first job separately.  Sets @refused if the next job was refused, which was logged.
 */
static int submit_row(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr, bool *refused)
{
	unsigned worker, nr_claimed = 0;
	int ret = 0, space;

	while (nr_claimed < nr && !ret) {
		ret = rnl__submit_claim(pool, jobs[nr_claimed], 0);
		*refused = ret && ret != -EAGAIN;
		if (*refused)
			(void)rnl__submit_end(pool, jobs[nr_claimed], ret);
		if (!ret && !in_a_row(jobs[nr_claimed])) {
			unclaim(pool, jobs[nr_claimed]);
			ret = -EAGAIN;
		}
		nr_claimed += !ret;
	}
	if (!nr_claimed)
		return ret;
	space = rnl__choose_reserve_row(pool, nr_claimed, &worker);
	for (unsigned i = space < 0 ? 0 : (unsigned)space; i < nr_claimed; i++)
		rnl__job_drop(jobs[i]);
	if (space < 0)
		return space == -EAGAIN || space == -ESTALE ? space : rnl__submit_end(pool, jobs[0], space);
	for (unsigned i = 0; i < (unsigned)space; i++) {
		jobs[i]->worker = (uint16_t)worker;
		rnl__submit_accept(pool, jobs[i], RNL__JOB_QUEUED);
	}
	rnl__choose_put_row(pool, worker, jobs, (unsigned)space);
	*refused &= (unsigned)space == nr_claimed;
	return space;
}

int rnl_submit_many(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned share, done = 0, nr_workers;
	bool refused = false;
	int ret = rnl__pool_given(pool, "rnl_submit_many()");

	if (ret)
		return ret;
	if (!jobs && nr)
		return rnl__invalid(&pool->log, "rnl_submit_many(): jobs is NULL, and nr is %u",
				    nr);
	if (nr > INT_MAX)
		nr = INT_MAX;
	nr_workers = rnl__pool_staff(pool).nr;
	share = (unsigned)rnl__smaller((nr + nr_workers - 1) / nr_workers, ROW_MAX);
	while (done < nr && !refused) {
		ret = submit_row(pool, jobs + done, share < nr - done ? share : nr - done, &refused);
		/* A job that cannot be in a row is submitted separately, which logs a refusal. */
		if (ret == -EAGAIN || ret == -ESTALE) {
			ret = rnl_submit(pool, jobs[done]);
			ret = ret ? ret : 1;
		}
		if (ret < 0)
			break;
		done += (unsigned)ret;
	}
	return done ? (int)done : ret;
}
