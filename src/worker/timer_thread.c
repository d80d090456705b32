/* SPDX-License-Identifier: MIT */
/* The timer thread; pool/timer.h has the design.  Read it from its end. */
#include "config.h"

#include <errno.h>
#include <sys/prctl.h>

#include "job/delayed.h"
#include "job/job.h"
#include "pool/classes.h"
#include "pool/holds.h"
#include "pool/timer.h"
#include "pool/pool.h"
#include "pool/scan.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "sys/thread.h"
#include "sys/thread_state.h"
#include "worker/chain.h"
#include "worker/charge.h"
#include "worker/complete.h"
#include "worker/timer_thread.h"
#include "worker/share.h"

#define REST_NS 500000u		/* between two scans, so that several cancels share a scan */
#define REST_TIMES 8		/* the rest is this many times as long as the scan, ... */
#define REST_MAX_NS 2000000u	/* ... but at most this: completions are due within some ms */

/* The state that the thread keeps between two scans. */
struct timer_thread {
	struct rnl_pool *pool;
	struct rnl__timer_break brk;
	/* Counts that it has processed; classes_cancels: of all jobs, in the queues of classes. */
	uint32_t cancels, outside, cancels_of_all, classes_cancels;
	bool queued_cancelled;		/* it has queued jobs that a scan must find now */
	uint64_t rests_until;		/* it scans no queue before this time */
	uint64_t outside_rests_until;	/* ... and not all delayed jobs before this */
};

/* ---- a queue ------------------------------------------------------------- */

struct search {
	struct rnl__scan scan;
	uint64_t now;
	uint64_t due;			/* the earliest deadline of the jobs that stay */
};

/* Returns true if the job must be taken off its queue: it was cancelled or has expired. */
static bool pick(struct rnl__scan *scan, const struct rnl_job *job)
{
	struct search *search = rnl_container_of(scan, struct search, scan);
	uint64_t expires_at = rnl__timer_expiry(job);

	if (rnl__job_follows(job))
		return false;
	if (expires_at <= search->now || rnl__job_cancelled(job))
		return true;
	search->due = rnl__smaller(search->due, expires_at);
	return false;
}

/* Completes a job that was taken off the worker's queue. */
static void timer_complete(struct rnl__worker *self, struct rnl__worker *from, struct rnl_job *job)
{
	const bool keyed = job->flags & RNL__JOB_KEYED;
	const uint32_t staff = job->staff;
	bool late = rnl__job_start(job) && !rnl__job_cancelled_with_all(job);

	if (late)
		rnl__charge_expired(self, job, false);
	rnl__worker_made_space(from);
	/* The lane belongs to @from, and is notified below. */
	job->flags &= ~RNL__JOB_KEYED;
	rnl__complete_unrun(self, job, late ? -ETIMEDOUT : -ECANCELED);
	if (keyed)
		rnl__queue_keyed_removed(&from->queue, staff);
	/* The rest of the job's chain was cancelled with it. */
	while ((job = rnl__chain_take(self)) != NULL) {
		(void)rnl__job_start(job);
		rnl__complete_unrun(self, job, -ECANCELED);
	}
}

/* Notifies all waiters after the timer thread has completed jobs of a worker's queue. */
static void timer_notify(struct rnl_pool *pool, struct rnl__worker *from)
{
	rnl__owed_tell(&pool->timer.self);
	rnl__pool_wake_counts(pool);
	/* The worker may wait to leave, or to migrate its keyed lane. */
	(void)rnl__park_wake(&from->park);
}

/* Completes the jobs of a queue that were cancelled or have expired. */
static void search_queue(struct rnl__worker *from, uint64_t now)
{
	struct rnl_pool *pool = from->pool;
	struct search search = {
		.scan = { .queue = &from->queue, .pick = pick }, .now = now, .due = RNL__NEVER,
	};
	struct rnl_job *job, *next;

	rnl__queue_forget_due(&from->queue);
	while (rnl__scan_on(&search.scan))
		;
	if (search.scan.missed)
		search.due = 0;
	(void)rnl__queue_expect(&from->queue, search.due);
	for (job = search.scan.picked; job; job = next) {
		next = job->link;
		timer_complete(&pool->timer.self, from, job);
	}
	if (search.scan.picked)
		timer_notify(pool, from);
}

/* Completes the jobs of classes that were cancelled or have expired. */
static void search_classes(struct timer_thread *t, bool cancelled)
{
	struct rnl_pool *pool = t->pool;
	struct rnl__worker *self = &pool->timer.self;
	const uint32_t cancels_of_all = rnl__peek(&pool->cancels);
	struct rnl__class_search s = {
		.cancelled = rnl__job_cancelled, .now = rnl__now(), .marked = cancelled,
		.all = cancelled && cancels_of_all != t->classes_cancels,
	};
	struct rnl_job *job;
	bool any = false;

	if (cancelled)
		t->classes_cancels = cancels_of_all;
	if (!rnl__classes_search_begin(pool, &s))
		return;
	while ((job = rnl__classes_search(pool, &s)) != NULL) {
		any = true;
		timer_complete(self, self, job);
	}
	if (any)
		timer_notify(pool, self);
}

/* ---- all queues ---------------------------------------------------------- */

/* Returns when a queue must be searched. */
static uint64_t search_time(struct timer_thread *t)
{
	struct rnl_pool *pool = t->pool;
	unsigned nr = rnl__pool_nr_workers(pool);
	uint64_t due = RNL__NEVER;

	if (t->queued_cancelled)
		return 0;
	if (rnl__timer_cancels(pool) != t->cancels)
		due = 0;
	for (unsigned i = 0; i < nr; i++)
		due = rnl__smaller(due, rnl__queue_due(&rnl__worker_at(pool, i)->queue));
	due = rnl__smaller(due, rnl__classes_due(pool));
	return due == RNL__NEVER ? due : rnl__larger(due, t->rests_until);
}

/* Returns the end of the rest after work that began at @began. */
static uint64_t timer_rest_from(uint64_t began)
{
	uint64_t now = rnl__now(), took = REST_TIMES * (now - began);

	return now + rnl__smaller(rnl__larger(REST_NS, took), REST_MAX_NS);
}

/* Searches the queues that are due, or all of them if a job was cancelled anywhere. */
static void search(struct timer_thread *t)
{
	struct rnl_pool *pool = t->pool;
	uint32_t cancels = rnl__timer_cancels(pool);
	bool all = cancels != t->cancels || t->queued_cancelled;
	uint64_t began = rnl__now();
	unsigned nr = rnl__pool_nr_workers(pool);

	t->cancels = cancels;
	t->queued_cancelled = false;
	for (unsigned i = 0; i < nr; i++) {
		struct rnl__worker *w = rnl__worker_at(pool, i);
		uint64_t now = rnl__now();

		if (all || rnl__queue_due(&w->queue) <= now)
			search_queue(w, now);
	}
	if (rnl__classes_of(pool) && (all || rnl__classes_due(pool) <= rnl__now()))
		search_classes(t, all);
	t->rests_until = timer_rest_from(began);
}

/* Searches the queues, if it is time, between pieces of other work. */
static void timer_look(struct rnl__timer_break *brk)
{
	struct timer_thread *t = rnl_container_of(brk, struct timer_thread, brk);

	if (search_time(t) <= rnl__now())
		search(t);
}

/* ---- jobs outside of the queues ------------------------------------------ */

/* Returns when there is something to do for delayed jobs, notices or holds. */
static uint64_t timer_outside_time(struct timer_thread *t)
{
	struct rnl_pool *pool = t->pool;
	uint64_t due = rnl__delayed_came(pool) ? 0 : rnl__delayed_time(pool), held;

	if (rnl__timer_outside(pool) != t->outside)
		due = rnl__smaller(due, t->outside_rests_until);
	held = rnl__queue_due(&pool->timer.self.queue);
	if (held != RNL__NEVER)
		due = rnl__smaller(due, rnl__larger(held, t->outside_rests_until));
	return due;
}

/* Queues delayed jobs and notices that were cancelled, and ends holds that have expired. */
static void timer_end_outside(struct timer_thread *t)
{
	struct rnl_pool *pool = t->pool;
	uint32_t outside = rnl__timer_outside(pool);
	uint32_t all = rnl__peek(&pool->cancels);	/* counted before `outside` */
	uint64_t began = rnl__now();

	if (outside != t->outside) {
		t->outside = outside;
		rnl__delayed_look(pool, 0, all != t->cancels_of_all, &t->brk);
		t->cancels_of_all = all;
		t->queued_cancelled = true;
	}
	if (rnl__queue_due(&pool->timer.self.queue) <= began)
		rnl__holds_expire(pool, began, &t->brk);
	t->outside_rests_until = timer_rest_from(began);
}

static void timer_outside(struct timer_thread *t, uint64_t now)
{
	struct rnl_pool *pool = t->pool;

	if (rnl__delayed_came(pool) || rnl__delayed_time(pool) <= now)
		rnl__delayed_look(pool, now, false, &t->brk);
	if (t->outside_rests_until <= now)
		timer_end_outside(t);
}

static bool ends(struct rnl_pool *pool)
{
	/* [timer.E2] acquire: all use of the pool is over; pairs with [timer.E1] */
	return atomic_load_explicit(&pool->timer.ends, memory_order_acquire);
}

/* Completes the notices of barriers that no worker could complete. */
static void timer_notify_barriers(struct rnl_pool *pool)
{
	rnl__complete_returned(&pool->timer.self);
	rnl__pool_wake_counts(pool);
}

/*
 * Rests after a wake when nothing is due, because other submits may follow immediately.  A cancel
 * ends the rest, unless an earlier cancel already waits for the next scan.
 */
static void rest(struct timer_thread *t)
{
	struct rnl_pool *pool = t->pool;
	uint32_t listened = rnl__eventcount_prepare(&pool->timer.cancelled);
	uint64_t now = rnl__now();
	uint64_t due = rnl__smaller(search_time(t), timer_outside_time(t));

	if (due <= now || rnl__worker_has_returned(&pool->timer.self))
		return;
	due = rnl__smaller(due, now + REST_NS);
	if (rnl__timer_cancels(pool) != t->cancels)
		rnl__nap(due - now);
	else
		(void)rnl__eventcount_wait(&pool->timer.cancelled, listened, due);
}

static void *timer_main(void *arg)
{
	struct rnl_pool *pool = arg;
	struct timer_thread t = {
		.pool = pool, .brk.look = timer_look, .cancels_of_all = rnl__peek(&pool->cancels),
		.classes_cancels = rnl__peek(&pool->cancels),
	};

	/* A callback that cancels its own thread would end the timer thread. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	rnl__thread_name(pool->name, "time");
	/* By default a short sleep may end 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	rnl__thread.worker = &pool->timer.self;
	for (;;) {
		uint32_t listened = rnl__eventcount_prepare(&pool->timer.eventcount);
		const bool returned = rnl__worker_has_returned(&pool->timer.self);
		uint64_t searches = search_time(&t), outside = timer_outside_time(&t);
		uint64_t now = rnl__now();

		if (ends(pool))
			return NULL;
		if (searches <= now)
			search(&t);
		if (returned)
			timer_notify_barriers(pool);
		if (outside <= now)
			timer_outside(&t, now);
		else if (searches > now && !returned &&
			 !rnl__eventcount_wait(&pool->timer.eventcount, listened,
					       rnl__smaller(searches, outside)))
			rest(&t);
	}
}

int rnl__timer_start(struct rnl_pool *pool)
{
	struct rnl__timer *timer = &pool->timer;
	int ret;

	rnl__delayed_init(pool);
	rnl__holds_init(pool);
	ret = rnl__pool_no_thread(pool, "the timer thread",
				  rnl__thread_create(&timer->thread, timer_main, pool));
	timer->started = !ret;
	return ret;
}

void rnl__timer_end(struct rnl_pool *pool)
{
	struct rnl__timer *timer = &pool->timer;

	if (!timer->started)
		return;
	/* [timer.E1] release: all use of the pool is over; pairs with [timer.E2] */
	atomic_store_explicit(&timer->ends, true, memory_order_release);
	rnl__timer_wake(pool);
	pthread_join(timer->thread, NULL);
}
