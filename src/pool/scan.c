/* SPDX-License-Identifier: MIT */
/* Scans through a queue, and when a scan is due; scan.h has the design. */
#include "config.h"

#include <sched.h>

#include "pool/scan.h"
#include "sys/clock.h"

#define SCAN_PIECE 256		/* jobs that a scan looks at while it has the lane */
#define SCAN_TRIES 100		/* tries for a lane, which a taker holds for a few instructions */

/* ---- when a scan is due -------------------------------------------------- */

bool rnl__queue_expect(struct rnl__queue *q, uint64_t at)
{
	uint64_t due = rnl__peek(&q->due);

	while (at < due) {
		/* relaxed: the caller's full barriers order it, see timer.h */
		if (atomic_compare_exchange_weak_explicit(&q->due, &due, at, memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

uint64_t rnl__queue_due(struct rnl__queue *q)
{
	/* relaxed: the timer thread's full barrier orders it, see timer.h */
	return atomic_load_explicit(&q->due, memory_order_relaxed);
}

void rnl__queue_forget_due(struct rnl__queue *q)
{
	/* relaxed: the barrier below orders it */
	atomic_store_explicit(&q->due, RNL__NEVER, memory_order_relaxed);
	/*
	 * [queue.W2] full barrier: a submit that puts a job after the coming scan finds NEVER here,
	 * and sets its own time; pairs with [queue.E1].
	 */
	rnl__full_barrier();
}

/* ---- the scan ------------------------------------------------------------ */

/* Returns where the held lane's scan continues: after a job that is still there, or at the head. */
static struct cds_wfcq_node *scan_from(struct rnl__scan *scan, struct rnl__lane *lane)
{
	/* Jobs that were taken since the last piece, all from the head. */
	uint64_t taken = rnl__lane_taken(lane) - scan->taken;

	scan->nr = taken < scan->nr ? scan->nr - taken : 0;
	return scan->nr ? scan->at : &lane->head.node;
}

static void add_picked(struct rnl__scan *scan, struct rnl_job *job)
{
	job->link = NULL;
	if (scan->last)
		scan->last->link = job;
	else
		scan->picked = job;
	scan->last = job;
}

/* Looks at some jobs of a lane that the scan holds.  Returns true if it has reached the end. */
static bool scan_lane(struct rnl__scan *scan, struct rnl__lane *lane)
{
	struct cds_wfcq_node *prev = scan_from(scan, lane), *node;
	unsigned nr = 0;

	while (nr < SCAN_PIECE && (node = rnl__lane_next(prev)) != NULL) {
		struct rnl_job *job = rnl__lane_job(node);

		nr++;
		rnl__lane_taken_over(job);
		if (scan->pick(scan, job)) {
			if (rnl__lane_remove(lane, prev)) {
				add_picked(scan, job);
				continue;
			}
			scan->missed = true;
		}
		prev = node;
		scan->nr++;
	}
	scan->at = prev;
	scan->taken = rnl__lane_taken(lane);
	if (nr == SCAN_PIECE)
		return false;
	/* A put has not set its link yet: the jobs after it were not seen. */
	if (CMM_LOAD_SHARED(lane->tail.p) != prev)
		scan->missed = true;
	return true;
}

bool rnl__scan_on(struct rnl__scan *scan)
{
	struct rnl__lane *const lanes[] = {
		&scan->queue->keyed[0], &scan->queue->keyed[1], &scan->queue->first,
		&scan->queue->open, &scan->queue->placed,
	};
	struct rnl__lane *lane = lanes[scan->lane];
	bool over = true;

	if (rnl__lane_begin(lane)) {
		scan->tries = 0;
		over = scan_lane(scan, lane);
		rnl__lane_end(lane);
	} else if (rnl__lane_holds(lane)) {
		over = ++scan->tries > SCAN_TRIES;
		scan->missed |= over;
		sched_yield();	/* the taker may need the CPU */
	}
	if (over) {
		scan->lane++;
		scan->nr = 0;
	}
	return scan->lane < sizeof(lanes) / sizeof(lanes[0]);
}
