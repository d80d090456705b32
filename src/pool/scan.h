/* SPDX-License-Identifier: MIT */
/*
 * A scan through a queue: it looks at all jobs, and takes some out of the middle.
 *
 * DESIGN
 *	Expired and cancelled jobs must not wait for a worker, so the timer thread scans for them.
 *	A scan is a taker.  It goes in pieces, and gives the lane back after each.  Jobs leave only
 *	at the head or by a scan.  So the count of taken jobs shows if the last job that the scan
 *	has seen is still there.
 *	No job of a queue expires before the queue's `due`, which a scan computes anew.
 *	timer.h says which thread scans, and when.  Model: tests/model/scan.pml.
 */
#ifndef RNL_SCAN_H
#define RNL_SCAN_H

#include "pool/queue.h"

struct rnl__scan;

/* Returns true if the scan should take the job off its queue. */
typedef bool rnl__pick(struct rnl__scan *scan, const struct rnl_job *job);

struct rnl__scan {
	struct rnl__queue *queue;
	rnl__pick *pick;
	struct rnl_job *picked, *last;	/* the jobs taken off, in their order */
	bool missed;			/* some jobs may not have been looked at */
	/* The position: a lane, the last job seen that stays, and its number from the head. */
	unsigned lane, tries;
	struct cds_wfcq_node *at;
	uint64_t nr, taken;
};

/*
 * Looks at some more jobs; returns false when the scan is over.  A scan looks at each job that was
 * put before it began, or sets `missed`.  One scan at a time.
 */
bool rnl__scan_on(struct rnl__scan *scan);

/* Notes that a queued job expires at @at.  Returns true if @at is earlier than `due` was. */
bool rnl__queue_expect(struct rnl__queue *q, uint64_t at);

/* The earliest expiry in the queue; a scan after rnl__queue_forget_due() computes it anew. */
uint64_t rnl__queue_due(struct rnl__queue *q);
void rnl__queue_forget_due(struct rnl__queue *q);

#endif
