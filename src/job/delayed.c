/* SPDX-License-Identifier: MIT */
/* Jobs that wait with the timer thread; delayed.h has the design. */
#include "config.h"

#include <stddef.h>

#include <runnel/more.h>

#include "job/delayed.h"
#include "job/job.h"
#include "pool/choose.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/sizes.h"

#define LOOK_NS 1000000u	/* from one check for space to the next */

void rnl__delayed_init(struct rnl_pool *pool)
{
	pool->timer.delayed = (struct rnl__heap){
		.time = offsetof(struct rnl_job_more, start_ns),
		.next = offsetof(struct rnl_job_more, next),
		.before = offsetof(struct rnl_job_more, before),
		.child = offsetof(struct rnl_job_more, child),
	};
}

/* ---- notices: a list by `next` and `before`; `before` of the first is not NULL  */

/* Puts a notice on the list. */
static void delayed_note(struct rnl_pool *pool, struct rnl_job *job)
{
	struct rnl_job *first = pool->timer.notices;

	job->more->next = first;
	if (first)
		first->more->before = job;
	job->more->before = pool;
	pool->timer.notices = job;
	if (job->flags & RNL__JOB_LAST)
		return;
	rnl__figure_add(&pool->nr_for_space, 1u);
	/* A notice that finds space waits its turn: it may submit itself again and again. */
	if (!rnl__pool_has_room(pool))
		job->flags |= RNL__JOB_FIRST;
}

/* Takes a notice off the list. */
static void delayed_unnote(struct rnl_pool *pool, struct rnl_job *job)
{
	struct rnl_job *before = job->more->before, *next = job->more->next;

	if (job == pool->timer.notices)
		pool->timer.notices = next;
	else
		before->more->next = next;
	if (next)
		next->more->before = before;
	if (!(job->flags & RNL__JOB_LAST))
		rnl__figure_add(&pool->nr_for_space, -1u);
}

/*
 * Returns true if a notice on the list waits for space, and there is space.  Workers wake the timer
 * thread for that only when they become idle, so it also checks each millisecond.
 */
static bool delayed_has_space(struct rnl_pool *pool)
{
	return rnl__own_read(&pool->nr_for_space) && rnl__pool_has_room(pool);
}

/* Returns true if a notice on the list waits for the pool's end, and the pool has ended. */
static bool has_ended(struct rnl_pool *pool)
{
	return pool->timer.notices && rnl__outside_nr(pool, RNL__LAST) && rnl__pool_closed(pool) &&
	       rnl__pool_all_done(pool, false);
}

/* ---- in ------------------------------------------------------------------ */

/* Puts a job in an inbox of the timer thread, linked by @link. */
static void give(struct rnl_pool *pool, struct rnl__inbox *inbox, struct rnl_job *job, void **link)
{
	(void)rnl__inbox_put(inbox, job, link);
	rnl__timer_wake(pool);
}

void rnl__delayed_push(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;

	give(pool, &pool->timer.came, job, &job->link);
}

void rnl__delayed_cancelled(struct rnl_pool *pool, struct rnl_job *job)
{
	give(pool, &pool->timer.cancelled_delayed, job, &job->more->cancelled);
}

bool rnl__delayed_came(struct rnl_pool *pool)
{
	return rnl__inbox_holds(&pool->timer.came) ||
	       rnl__inbox_holds(&pool->timer.cancelled_delayed);
}

/* ---- out ----------------------------------------------------------------- */

/* Queues a job that is no longer in the heap or the list. */
static void delayed_queue(struct rnl_pool *pool, struct rnl_job *job)
{
	const bool cancelled = rnl__job_cancelled(job);
	const enum rnl__outside why = job->flags & RNL__JOB_LAST ? RNL__LAST : RNL__DELAYED;

	job->more->before = NULL;
	rnl__choose_start(job);
	rnl__outside_leave(pool, why);
	/* The timer thread must find the job in its queue. */
	if (cancelled)
		rnl__timer_cancelled(pool, false);
}

/*
 * Called when a job has left the heap or the list, and when the canceller has named the job.  If
 * both happen, the second call queues the job.  So a canceller may name the job after it has left.
 */
static void delayed_meet(struct rnl_pool *pool, struct rnl_job *job)
{
	if (job->more->before == job)
		delayed_queue(pool, job);
	else
		job->more->before = job;
}

/* Queues a job that is in no heap or list; a cancelled one once its canceller has named it. */
static void delayed_leave(struct rnl_pool *pool, struct rnl_job *job)
{
	if (rnl__job_enqueued(job, RNL__JOB_DELAYED))
		delayed_queue(pool, job);
	else
		delayed_meet(pool, job);
}

/* Takes out the jobs that were cancelled individually. */
static void take_cancelled(struct rnl_pool *pool, struct rnl__timer_break *brk)
{
	struct rnl_job *next, *job;

	for (job = rnl__inbox_take_all(&pool->timer.cancelled_delayed); job; job = next) {
		rnl__timer_step(brk);
		next = job->more->cancelled;
		if (job->more->before && job->more->before != job) {
			if (job->flags & RNL__JOB_MARKED)
				delayed_unnote(pool, job);
			else
				rnl__heap_cut(&pool->timer.delayed, job->more, rnl__timer_between,
					      brk);
			delayed_queue(pool, job);
		} else {
			delayed_meet(pool, job);
		}
	}
}

static void put_in(struct rnl_pool *pool, struct rnl_job *job)
{
	if (job->flags & RNL__JOB_MARKED)
		delayed_note(pool, job);
	else
		rnl__heap_add(&pool->timer.delayed, job->more);
}

static void take_in(struct rnl_pool *pool, struct rnl__timer_break *brk)
{
	struct rnl_job *next, *job;

	for (job = rnl__inbox_take_all(&pool->timer.came); job; job = next) {
		rnl__timer_step(brk);
		next = job->link;
		/* The job was cancelled during its submit, individually or with all others. */
		if (rnl__job_cancelled(job))
			delayed_leave(pool, job);
		else
			put_in(pool, job);
	}
}

/* Queues a job, whose links are no longer in use, if it was cancelled; else puts it in again. */
static void sift(struct rnl_pool *pool, struct rnl_job *job)
{
	bool closed = rnl__tally_closed(&pool->outside[RNL__DELAYED]) && !(job->flags & RNL__JOB_LAST);

	if (closed && rnl__job_cancel(job) == RNL__JOB_DELAYED)
		delayed_queue(pool, job);
	else if (rnl__job_cancelled(job))
		delayed_leave(pool, job);
	else
		put_in(pool, job);
}

/* Queues the jobs that a cancel of all jobs, or a close, has cancelled. */
static void sweep(struct rnl_pool *pool, struct rnl__timer_break *brk)
{
	struct rnl__heap all = pool->timer.delayed;
	struct rnl_job *job, *next;
	struct rnl_job_more *more;

	pool->timer.delayed.top = NULL;
	while ((more = rnl__heap_take_any(&all)) != NULL) {
		rnl__timer_step(brk);
		sift(pool, more->job);
	}
	for (job = pool->timer.notices; job; job = next) {
		rnl__timer_step(brk);
		next = job->more->next;
		delayed_unnote(pool, job);
		sift(pool, job);
	}
}

/* Queues the notices whose condition is now true. */
static void start_notices(struct rnl_pool *pool, struct rnl__timer_break *brk)
{
	const bool space = delayed_has_space(pool), ended = has_ended(pool);
	struct rnl_job *job, *next;

	for (job = space || ended ? pool->timer.notices : NULL; job; job = next) {
		rnl__timer_step(brk);
		next = job->more->next;
		if (job->flags & RNL__JOB_LAST ? ended : space) {
			delayed_unnote(pool, job);
			delayed_leave(pool, job);
		}
	}
}

void rnl__delayed_look(struct rnl_pool *pool, uint64_t now, bool all,
		       struct rnl__timer_break *brk)
{
	struct rnl_job_more *more;

	take_in(pool, brk);
	take_cancelled(pool, brk);
	if (all || rnl__tally_closed(&pool->outside[RNL__DELAYED]))
		sweep(pool, brk);
	while (rnl__heap_time(&pool->timer.delayed) <= now &&
	       (more = pool->timer.delayed.top) != NULL) {
		rnl__timer_step(brk);
		rnl__heap_cut(&pool->timer.delayed, more, rnl__timer_between, brk);
		delayed_leave(pool, more->job);
	}
	start_notices(pool, brk);
}

uint64_t rnl__delayed_time(struct rnl_pool *pool)
{
	uint64_t due = rnl__heap_time(&pool->timer.delayed);

	if (delayed_has_space(pool) || has_ended(pool))
		return 0;
	return rnl__own_read(&pool->nr_for_space) ? rnl__smaller(due, rnl__now() + LOOK_NS) : due;
}
