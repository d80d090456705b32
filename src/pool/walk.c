/* SPDX-License-Identifier: MIT */
/* Walks through a queue, and when one is due; walk.h has the design. */
#include "config.h"

#include <sched.h>

#include "pool/walk.h"
#include "sys/clock.h"

#define WALK_PIECE 256		/* jobs that a walk looks at while it has the lane */
#define WALK_TRIES 100		/* to get a lane that a taker has for some instructions */

/* ---- when one is due ----------------------------------------------------- */

bool rnl__queue_expect(struct rnl__queue *q, uint64_t at)
{
	uint64_t due = rnl__peek(&q->due);

	while (at < due) {
		/* relaxed: the caller's full barriers order it, see keeper.h */
		if (atomic_compare_exchange_weak_explicit(&q->due, &due, at, memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

uint64_t rnl__queue_due(struct rnl__queue *q)
{
	/* relaxed: the keeper's full barrier orders it, see keeper.h */
	return atomic_load_explicit(&q->due, memory_order_relaxed);
}

void rnl__queue_forget_due(struct rnl__queue *q)
{
	/* relaxed: the barrier below orders it */
	atomic_store_explicit(&q->due, RNL__NEVER, memory_order_relaxed);
	/*
	 * [queue.W2] full barrier: a submit that puts a job behind the walk that follows finds no
	 * time here, and sets its own; pairs with [queue.E1].
	 */
	rnl__full_barrier();
}

/* ---- the walk ------------------------------------------------------------ */

/* Where the walk goes on, with the lane held: behind a job that is still there, or at the head. */
static struct cds_wfcq_node *walk_from(struct rnl__walk *walk, struct rnl__lane *lane)
{
	/* As many jobs were taken since, from the head. */
	uint64_t taken = rnl__lane_taken(lane) - walk->taken;

	walk->nr = taken < walk->nr ? walk->nr - taken : 0;
	return walk->nr ? walk->at : &lane->head.node;
}

static void add_picked(struct rnl__walk *walk, struct rnl_job *job)
{
	job->link = NULL;
	if (walk->last)
		walk->last->link = job;
	else
		walk->picked = job;
	walk->last = job;
}

/* Looks at some jobs of a lane that it has.  Return: whether that was the last of them. */
static bool walk_lane(struct rnl__walk *walk, struct rnl__lane *lane)
{
	struct cds_wfcq_node *prev = walk_from(walk, lane), *node;
	unsigned nr = 0;

	while (nr < WALK_PIECE && (node = rnl__lane_next(prev)) != NULL) {
		struct rnl_job *job = rnl__lane_job(node);

		nr++;
		rnl__lane_taken_over(job);
		if (walk->pick(walk, job)) {
			if (rnl__lane_remove(lane, prev)) {
				add_picked(walk, job);
				continue;
			}
			walk->missed = true;
		}
		prev = node;
		walk->nr++;
	}
	walk->at = prev;
	walk->taken = rnl__lane_taken(lane);
	if (nr == WALK_PIECE)
		return false;
	/* A put has yet to set its link: what is behind it was not seen. */
	if (CMM_LOAD_SHARED(lane->tail.p) != prev)
		walk->missed = true;
	return true;
}

bool rnl__walk_on(struct rnl__walk *walk)
{
	struct rnl__lane *const lanes[] = {
		&walk->queue->keyed[0], &walk->queue->keyed[1], &walk->queue->urgent,
		&walk->queue->open, &walk->queue->placed_urgent, &walk->queue->placed,
	};
	struct rnl__lane *lane = lanes[walk->lane];
	bool over = true;

	if (rnl__lane_begin(lane)) {
		walk->tries = 0;
		over = walk_lane(walk, lane);
		rnl__lane_end(lane);
	} else if (rnl__lane_holds(lane)) {
		over = ++walk->tries > WALK_TRIES;
		walk->missed |= over;
		sched_yield();	/* the taker may need the CPU */
	}
	if (over) {
		walk->lane++;
		walk->nr = 0;
	}
	return walk->lane < sizeof(lanes) / sizeof(lanes[0]);
}
