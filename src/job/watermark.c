/* SPDX-License-Identifier: MIT */
/* Notices for water marks; watermark.h has the design. */
#include "config.h"

#include <stdbool.h>

#include "sys/fence.h"
#include "job/job.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "job/watermark.h"

/* ---- turns --------------------------------------------------------------- */

/*
 * A turn is a number with TURN set, which no staff's generation has: a started notice keeps it in
 * `staff`.  It is odd while the mark was not left since notices of it were started.
 */
#define TURN (UINT32_C(1) << 31)
#define NO_TURN 0u

static uint32_t turn_of(struct rnl_pool *pool, enum rnl_water mark)
{
	/* relaxed: the caller's full barrier orders it, as the list */
	return atomic_load_explicit(&pool->turns[mark], memory_order_relaxed);
}

static bool left(struct rnl_pool *pool, enum rnl_water mark)
{
	return !(turn_of(pool, mark) & 1);
}

/* Moves an odd turn on, or an even one; false: there is none such, or another thread did it. */
static bool move_on(struct rnl_pool *pool, enum rnl_water mark, uint32_t odd)
{
	uint32_t turn = turn_of(pool, mark);

	/* relaxed: as turn_of() */
	return (turn & 1) == odd &&
	       atomic_compare_exchange_strong_explicit(&pool->turns[mark], &turn,
						       (turn + 1) | TURN, memory_order_relaxed,
						       memory_order_relaxed);
}

/* The queues were seen beyond the mark. */
static void leave(struct rnl_pool *pool, enum rnl_water mark)
{
	(void)move_on(pool, mark, 1);
	/* relaxed: it chooses a lane, no more */
	if (mark == RNL_LOW_WATER && rnl__peek(&pool->refused))
		atomic_store_explicit(&pool->refused, false, memory_order_relaxed);
}

/* Jobs ever put for the low mark, and ever taken for the high one: they lead away from it. */
static uint64_t steps(struct rnl_pool *pool, enum rnl_water mark)
{
	unsigned nr = rnl__pool_nr_workers(pool);
	uint64_t sum = 0;

	for (unsigned i = 0; i < nr; i++) {
		struct rnl__queue *q = &pool->workers[i].queue;

		sum += mark == RNL_LOW_WATER ? rnl__queue_accepted(q) : rnl__queue_taken(q);
	}
	return sum;
}

/* A turn begins with @nr notices: notes up to how many steps the mark is not left. */
static void note_steps(struct rnl_pool *pool, enum rnl_water mark, uint64_t nr)
{
	uint64_t queued = rnl__pool_queued(pool);
	uint64_t from = mark == RNL_LOW_WATER ? queued : pool->high_water;
	uint64_t to = mark == RNL_LOW_WATER ? pool->low_water : queued;

	nr += steps(pool, mark) + (to > from ? to - from : 0);
	/* relaxed: an estimate, as `queued` */
	atomic_store_explicit(&pool->stays[mark], nr, memory_order_relaxed);
}

/* While no notice waits nobody looks at the mark: then it may have been left. */
static void guess(struct rnl_pool *pool, enum rnl_water mark)
{
	/* relaxed: as in note_steps() */
	if (steps(pool, mark) > atomic_load_explicit(&pool->stays[mark], memory_order_relaxed))
		leave(pool, mark);
}

/* ---- lists --------------------------------------------------------------- */

static bool reached(struct rnl_pool *pool, enum rnl_water mark)
{
	uint64_t queued = rnl__pool_queued(pool);

	return mark == RNL_HIGH_WATER ? queued >= pool->high_water : queued <= pool->low_water;
}

static void push(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark)
{
	struct rnl_job *head = rnl__peek(&pool->notices[mark]);

	do {
		job->link = head;
		/* [watermark.N1] release: the notice that is pushed; pairs with [watermark.N2] */
	} while (!atomic_compare_exchange_weak_explicit(&pool->notices[mark], &head, job,
							memory_order_release,
							memory_order_relaxed));
}

static struct rnl_job *take_all(struct rnl_pool *pool, enum rnl_water mark)
{
	/*
	 * [watermark.N2] acquire: the notices themselves; pairs with [watermark.N1].
	 * release: the pool is kept from being drained; pairs with [watermark.N2] of a
	 * close, which finds the list empty, and after which a drain comes.  And a turn that the
	 * caller began, for a thread that pushes later; pairs with [watermark.W1].
	 */
	return atomic_exchange_explicit(&pool->notices[mark], NULL, memory_order_acq_rel);
}

/*
 * Notices were in no list and no queue for a moment, since @before was read.  If one was cancelled
 * in that moment, the keeper has not found it.
 */
static void tell_cancels(struct rnl_pool *pool, uint32_t before)
{
	if (rnl__keeper_cancels(pool) != before)
		rnl__keeper_cancelled(pool, true);
}

static void look_again(struct rnl_pool *pool, enum rnl_water mark, uint32_t since);

/* Queues the notices that wait for a mark, but for those that were started in this turn. */
static void queue_ready(struct rnl_pool *pool, enum rnl_water mark)
{
	uint32_t cancels = rnl__keeper_cancels(pool), turn;
	struct rnl_job *job, *next, *ready = NULL;
	bool back = false, cancelled = false, gone, begins;
	uint64_t nr = 0;

	rnl__pool_operation_begin(pool);
	/* The turn is there before the list is taken: who puts a notice on it later sees the turn. */
	begins = move_on(pool, mark, 0);
	job = take_all(pool, mark);
	turn = turn_of(pool, mark);
	for (; job; job = next) {
		next = job->link;
		gone = rnl__job_cancelled(job);
		if (job->staff == turn && !gone) {
			push(pool, job, mark);
			back = true;
		} else {
			cancelled |= gone;
			job->staff = turn;
			job->link = ready;
			ready = job;
			nr++;
		}
	}
	if (begins)
		note_steps(pool, mark, nr);
	else
		/* Others came before in this turn.  relaxed: as in note_steps() */
		atomic_fetch_add_explicit(&pool->stays[mark], nr, memory_order_relaxed);
	for (job = ready; job; job = next) {
		next = job->link;
		(void)rnl__job_enqueued(job, RNL__JOB_NOTICE);
		/* A submit found no space with few jobs queued: these may make some. */
		if (mark == RNL_LOW_WATER && rnl__peek(&pool->refused))
			rnl__choose_start(job);
		else
			rnl__choose_start_first(job);
	}
	/* The keeper may have looked for it before it was in its queue. */
	if (cancelled)
		rnl__keeper_cancelled(pool, false);
	else
		tell_cancels(pool, cancels);
	if (back)
		look_again(pool, mark, turn);
	rnl__pool_operation_end(pool);
}

/* Queues them to complete with -ECANCELED. */
static void queue_to_cancel(struct rnl_pool *pool, enum rnl_water mark)
{
	struct rnl_job *job, *next;

	rnl__pool_operation_begin(pool);
	for (job = take_all(pool, mark); job; job = next) {
		next = job->link;
		(void)rnl__job_cancel(job);
		rnl__choose_start_first(job);
	}
	rnl__keeper_cancelled(pool, false);
	rnl__pool_operation_end(pool);
}

static void look(struct rnl_pool *pool, enum rnl_water mark)
{
	if (!rnl__pool_has_notice(pool, mark))
		return;
	if (!reached(pool, mark))
		leave(pool, mark);
	else if (left(pool, mark))
		queue_ready(pool, mark);
}

/*
 * Notices were put on the list, or put back there, that were not started in a turn after @since.
 * A thread that saw the mark reached, or left, meanwhile has found a list without them.
 * Model: tests/model/turns.pml.
 */
static void look_again(struct rnl_pool *pool, enum rnl_water mark, uint32_t since)
{
	/*
	 * [watermark.W1] full barrier: the notice is pushed before the look at the queues and at
	 * the turn, and the look whether a close has taken the list; pairs with [watermark.R1],
	 * [watermark.R2], [watermark.N2], [job.P1], [worker.D2], [keep.D1], [watermark.C1].
	 */
	rnl__full_barrier();
	if (rnl__pool_closed(pool)) {
		rnl__watermark_close(pool);
		return;
	}
	look(pool, mark);
	/* A turn that began without them is theirs, too. */
	if (turn_of(pool, mark) != since && rnl__pool_has_notice(pool, mark) && reached(pool, mark))
		queue_ready(pool, mark);
}

/* A notice for the pool's end is on its list no more. */
static void start_last(struct rnl_pool *pool, struct rnl_job *job)
{
	rnl__choose_start_first(job);
	/*
	 * [watermark.L1] release: the notice is counted as a queued job; pairs with [pool.E1].
	 * The list itself may be empty while the keeper looks through it.
	 */
	atomic_fetch_sub_explicit(&pool->nr_last, 1, memory_order_release);
}

/* The keeper queues the notices that were cancelled, and puts the others back. */
static void queue_cancelled(struct rnl_pool *pool, enum rnl_water mark)
{
	struct rnl_job *job, *next;

	rnl__pool_operation_begin(pool);
	for (job = take_all(pool, mark); job; job = next) {
		next = job->link;
		if (!rnl__job_cancelled(job))
			push(pool, job, mark);
		else if (mark == RNL_EMPTY)
			start_last(pool, job);
		else
			rnl__choose_start_first(job);
	}
	if (mark != RNL_EMPTY)		/* the keeper looks for that one anyway */
		look_again(pool, mark, NO_TURN);
	rnl__pool_operation_end(pool);
}

void rnl__watermark_wait(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark,
			 uint32_t cancels)
{
	uint32_t last = job->staff;

	if (!rnl__pool_has_notice(pool, mark))
		guess(pool, mark);
	push(pool, job, mark);
	look_again(pool, mark, last);
	tell_cancels(pool, cancels);
}

void rnl__watermark_cancelled(struct rnl_pool *pool)
{
	for (int mark = RNL_LOW_WATER; mark <= RNL_EMPTY; mark++) {
		if (rnl__pool_has_notice(pool, mark))
			queue_cancelled(pool, mark);
	}
}

/* ---- the pool's end ------------------------------------------------------ */

void rnl__watermark_wait_for_end(struct rnl_pool *pool, struct rnl_job *job)
{
	job->flags |= RNL__JOB_LAST;
	/* relaxed: the push publishes it; a drain that begins behind the submit sees it */
	atomic_fetch_add_explicit(&pool->nr_last, 1, memory_order_relaxed);
	push(pool, job, RNL_EMPTY);
	/*
	 * Rings the keeper, which looks whether the pool is empty, and whether the notice was
	 * cancelled meanwhile.  From then on a thread that completes jobs sees the notice, and
	 * rings.
	 */
	rnl__keeper_cancelled(pool, true);
}

bool rnl__watermark_end(struct rnl_pool *pool)
{
	struct rnl_job *job, *next;

	if (!rnl__pool_closed(pool) || !rnl__pool_has_notice(pool, RNL_EMPTY) ||
	    !rnl__pool_all_done(pool))
		return false;
	for (job = take_all(pool, RNL_EMPTY); job; job = next) {
		next = job->link;
		(void)rnl__job_enqueued(job, RNL__JOB_NOTICE);
		start_last(pool, job);
	}
	/* [watermark.L2] full barrier: counted off before the ring; pairs with [bell.L2] */
	rnl__mb_after_rmw();
	rnl__pool_ring_drained(pool);
	return true;
}

void rnl__watermark_put(struct rnl_pool *pool)
{
	if (!left(pool, RNL_LOW_WATER) && !reached(pool, RNL_LOW_WATER))
		leave(pool, RNL_LOW_WATER);
}

void rnl__watermark_rose(struct rnl_pool *pool)
{
	/* [watermark.R1] full barrier: reserved before the look; pairs with [watermark.W1] */
	rnl__mb_after_rmw();
	look(pool, RNL_HIGH_WATER);
}

void rnl__watermark_refused(struct rnl_pool *pool)
{
	leave(pool, RNL_LOW_WATER);
	/* relaxed: as leave() */
	atomic_store_explicit(&pool->refused, true, memory_order_relaxed);
	/*
	 * [watermark.R2] full barrier: the mark is left before the look; pairs with [watermark.W1]
	 */
	rnl__full_barrier();
	/* The space may be short elsewhere than in the queues, and no worker may look at them. */
	look(pool, RNL_LOW_WATER);
	look(pool, RNL_HIGH_WATER);
	if (rnl__pool_has_notice(pool, RNL_HIGH_WATER) && left(pool, RNL_HIGH_WATER))
		queue_ready(pool, RNL_HIGH_WATER);
}

uint64_t rnl__watermark_fell(struct rnl_pool *pool)
{
	uint64_t queued = rnl__pool_queued(pool), share;
	bool low = rnl__pool_has_notice(pool, RNL_LOW_WATER);

	if (queued < pool->high_water)
		leave(pool, RNL_HIGH_WATER);
	if (low && queued <= pool->low_water && left(pool, RNL_LOW_WATER))
		queue_ready(pool, RNL_LOW_WATER);
	if (queued <= pool->low_water)
		return 0;
	leave(pool, RNL_LOW_WATER);
	/* Looks again after this worker has taken its share of the jobs above the next mark. */
	if (queued > pool->high_water && rnl__pool_has_notice(pool, RNL_HIGH_WATER))
		queued -= pool->high_water;
	else if (low)
		queued -= pool->low_water;
	share = queued / rnl__pool_nr_workers(pool);
	return share ? share - 1 : 0;
}

void rnl__watermark_close(struct rnl_pool *pool)
{
	/* [watermark.C1] full barrier: closed before the take; pairs with [watermark.W1] */
	rnl__full_barrier();
	for (int mark = RNL_LOW_WATER; mark <= RNL_HIGH_WATER; mark++) {
		if (rnl__pool_has_notice(pool, mark))
			queue_to_cancel(pool, mark);
	}
}
