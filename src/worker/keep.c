/* SPDX-License-Identifier: MIT */
/* The keeper's thread; pool/keeper.h has the design.  It is read from its end. */
#include "config.h"

#include <errno.h>
#include <sys/prctl.h>

#include "job/delayed.h"
#include "job/job.h"
#include "pool/holds.h"
#include "pool/keeper.h"
#include "pool/pool.h"
#include "pool/walk.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "sys/thread.h"
#include "sys/thread_state.h"
#include "worker/chain.h"
#include "worker/complete.h"
#include "worker/keep.h"
#include "worker/share.h"

#define REST_NS 500000u		/* between two looks, so that several cancels are one look */
#define REST_TIMES 8		/* as long as a walk took, ... */
#define REST_MAX_NS 2000000u	/* ... and no longer: a job is told within some ms */

/* What the thread has between two looks. */
struct keep {
	struct rnl_pool *pool;
	struct rnl__keeper_break brk;
	uint32_t cancels, outside, cancels_of_all;	/* that it has seen to */
	bool queued_cancelled;		/* it has queued jobs itself that are to be found now */
	uint64_t rests_until;		/* it walks through no queue before */
	uint64_t outside_rests_until;	/* ... nor through all delayed jobs and notices */
};

/* ---- a queue ------------------------------------------------------------- */

struct search {
	struct rnl__walk walk;
	uint64_t now;
	uint64_t due;			/* the earliest time of the jobs that stay */
};

/* Whether the job cannot wait for a worker. */
static bool pick(struct rnl__walk *walk, const struct rnl_job *job)
{
	struct search *search = rnl_container_of(walk, struct search, walk);
	uint64_t late_at = rnl__keeper_time(job);

	if (rnl__job_follows(job))
		return false;
	if (late_at <= search->now || rnl__job_cancelled(job))
		return true;
	search->due = rnl__smaller(search->due, late_at);
	return false;
}

/* Completes a job that was taken off the worker's queue. */
static void keep_complete(struct rnl__worker *self, struct rnl__worker *from, struct rnl_job *job)
{
	const bool keyed = job->flags & RNL__JOB_KEYED;
	const uint32_t staff = job->staff;
	bool late = rnl__job_start(job) && !rnl__job_cancelled_with_all(job);

	rnl__worker_made_space(from);
	/* The lane is not ours: it is told below. */
	job->flags &= ~RNL__JOB_KEYED;
	rnl__complete_unrun(self, job, late ? -ETIMEDOUT : -ECANCELED);
	if (keyed)
		rnl__queue_keyed_removed(&from->queue, staff);
	/* The jobs of its chain were cancelled with it. */
	while ((job = rnl__chain_take(self)) != NULL) {
		(void)rnl__job_start(job);
		rnl__complete_unrun(self, job, -ECANCELED);
	}
}

/* Jobs of the worker's queue were completed without it. */
static void keep_tell(struct rnl_pool *pool, struct rnl__worker *from)
{
	rnl__owed_tell(&pool->keeper.self);
	rnl__pool_ring_counts(pool);
	/* It may wait to leave, or to hand over. */
	(void)rnl__park_wake(&from->park);
}

/* Completes the jobs of a queue that cannot wait. */
static void search_queue(struct rnl__worker *from, uint64_t now)
{
	struct rnl_pool *pool = from->pool;
	struct search search = {
		.walk = { .queue = &from->queue, .pick = pick }, .now = now, .due = RNL__NEVER,
	};
	struct rnl_job *job, *next;

	rnl__queue_forget_due(&from->queue);
	while (rnl__walk_on(&search.walk))
		;
	if (search.walk.missed)
		search.due = 0;
	(void)rnl__queue_expect(&from->queue, search.due);
	for (job = search.walk.picked; job; job = next) {
		next = job->link;
		keep_complete(&pool->keeper.self, from, job);
	}
	if (search.walk.picked)
		keep_tell(pool, from);
}

/* ---- all of them --------------------------------------------------------- */

/* When there is a queue to search. */
static uint64_t search_time(struct keep *keep)
{
	struct rnl_pool *pool = keep->pool;
	unsigned nr = rnl__pool_nr_workers(pool);
	uint64_t due = RNL__NEVER;

	if (keep->queued_cancelled)
		return 0;
	if (rnl__keeper_cancels(pool) != keep->cancels)
		due = 0;
	for (unsigned i = 0; i < nr; i++)
		due = rnl__smaller(due, rnl__queue_due(&rnl__worker_at(pool, i)->queue));
	return due == RNL__NEVER ? due : rnl__larger(due, keep->rests_until);
}

/* The end of the rest after work that began at @began. */
static uint64_t keep_rest_from(uint64_t began)
{
	uint64_t now = rnl__now(), took = REST_TIMES * (now - began);

	return now + rnl__smaller(rnl__larger(REST_NS, took), REST_MAX_NS);
}

/* Searches the queues, and all of them if a job was cancelled anywhere. */
static void search(struct keep *keep)
{
	struct rnl_pool *pool = keep->pool;
	uint32_t cancels = rnl__keeper_cancels(pool);
	bool all = cancels != keep->cancels || keep->queued_cancelled;
	uint64_t began = rnl__now();
	unsigned nr = rnl__pool_nr_workers(pool);

	keep->cancels = cancels;
	keep->queued_cancelled = false;
	for (unsigned i = 0; i < nr; i++) {
		struct rnl__worker *w = rnl__worker_at(pool, i);
		uint64_t now = rnl__now();

		if (all || rnl__queue_due(&w->queue) <= now)
			search_queue(w, now);
	}
	keep->rests_until = keep_rest_from(began);
}

/* Between pieces of other work. */
static void keep_look(struct rnl__keeper_break *brk)
{
	struct keep *keep = rnl_container_of(brk, struct keep, brk);

	if (search_time(keep) <= rnl__now())
		search(keep);
}

/* ---- jobs outside of the queues ------------------------------------------ */

/* When there is something to do for delayed jobs, notices or holds. */
static uint64_t keep_outside_time(struct keep *keep)
{
	struct rnl_pool *pool = keep->pool;
	uint64_t due = rnl__delayed_came(pool) ? 0 : rnl__delayed_time(pool), held;

	if (rnl__keeper_outside(pool) != keep->outside)
		due = rnl__smaller(due, keep->outside_rests_until);
	held = rnl__queue_due(&pool->keeper.self.queue);
	if (held != RNL__NEVER)
		due = rnl__smaller(due, rnl__larger(held, keep->outside_rests_until));
	return due;
}

/* Queues delayed jobs and notices that were cancelled, and ends holds that are late. */
static void keep_end_outside(struct keep *keep)
{
	struct rnl_pool *pool = keep->pool;
	uint32_t outside = rnl__keeper_outside(pool);
	uint32_t all = rnl__peek(&pool->cancels);	/* counted before `outside` was */
	uint64_t began = rnl__now();

	if (outside != keep->outside) {
		keep->outside = outside;
		rnl__delayed_look(pool, 0, all != keep->cancels_of_all, &keep->brk);
		keep->cancels_of_all = all;
		keep->queued_cancelled = true;
	}
	if (rnl__queue_due(&pool->keeper.self.queue) <= began)
		rnl__holds_end_late(pool, began, &keep->brk);
	keep->outside_rests_until = keep_rest_from(began);
}

static void keep_outside(struct keep *keep, uint64_t now)
{
	struct rnl_pool *pool = keep->pool;

	if (rnl__delayed_came(pool) || rnl__delayed_time(pool) <= now)
		rnl__delayed_look(pool, now, false, &keep->brk);
	if (keep->outside_rests_until <= now)
		keep_end_outside(keep);
}

static bool ends(struct rnl_pool *pool)
{
	/* [keep.E2] acquire: all use of the pool is over; pairs with [keep.E1] */
	return atomic_load_explicit(&pool->keeper.ends, memory_order_acquire);
}

/* Barriers that no worker could tell of are over. */
static void keep_tell_barriers(struct rnl_pool *pool)
{
	rnl__complete_returned(&pool->keeper.self);
	rnl__pool_ring_counts(pool);
}

/*
 * The keeper was woken for nothing that is due: other submits may follow at once.  A cancel ends the
 * rest, unless the keeper may not search yet.
 */
static void rest(struct keep *keep)
{
	struct rnl_pool *pool = keep->pool;
	uint32_t listened = rnl__bell_listen(&pool->keeper.cancelled);
	uint64_t now = rnl__now();
	uint64_t due = rnl__smaller(search_time(keep), keep_outside_time(keep));

	if (due <= now || rnl__worker_has_returned(&pool->keeper.self))
		return;
	due = rnl__smaller(due, now + REST_NS);
	if (rnl__keeper_cancels(pool) != keep->cancels)
		rnl__nap(due - now);
	else
		(void)rnl__bell_wait(&pool->keeper.cancelled, listened, due);
}

static void *keep_main(void *arg)
{
	struct rnl_pool *pool = arg;
	struct keep keep = {
		.pool = pool, .brk.look = keep_look, .cancels_of_all = rnl__peek(&pool->cancels),
	};

	/* A callback that cancels its own thread would end the keeper. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	rnl__thread_name(pool->name, "keep");
	/* By default a short sleep may end 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	rnl__thread.worker = &pool->keeper.self;
	for (;;) {
		uint32_t listened = rnl__bell_listen(&pool->keeper.bell);
		const bool returned = rnl__worker_has_returned(&pool->keeper.self);
		uint64_t searches = search_time(&keep), outside = keep_outside_time(&keep);
		uint64_t now = rnl__now();

		if (ends(pool))
			return NULL;
		if (searches <= now)
			search(&keep);
		if (returned)
			keep_tell_barriers(pool);
		if (outside <= now)
			keep_outside(&keep, now);
		else if (searches > now && !returned &&
			 !rnl__bell_wait(&pool->keeper.bell, listened,
					 rnl__smaller(searches, outside)))
			rest(&keep);
	}
}

int rnl__keep_start(struct rnl_pool *pool)
{
	struct rnl__keeper *keeper = &pool->keeper;
	int ret;

	rnl__delayed_init(pool);
	rnl__holds_init(pool);
	ret = rnl__pool_no_thread(pool, "the keeper",
				  rnl__thread_create(&keeper->thread, keep_main, pool));
	keeper->started = !ret;
	return ret;
}

void rnl__keep_end(struct rnl_pool *pool)
{
	struct rnl__keeper *keeper = &pool->keeper;

	if (!keeper->started)
		return;
	/* [keep.E1] release: what used the pool is over; pairs with [keep.E2] */
	atomic_store_explicit(&keeper->ends, true, memory_order_release);
	rnl__keeper_ring(pool);
	pthread_join(keeper->thread, NULL);
}
