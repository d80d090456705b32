/* SPDX-License-Identifier: MIT */
/*
 * A scan through a queue: it looks at all jobs, and takes some out of the middle.
 *
 * DESIGN
 *	Jobs that are late or were cancelled cannot wait for their worker: the timer thread scans to them.
 *	A scan is a taker.  It goes on in pieces, and gives the lane back after each.  Jobs leave at
 *	the head or by a scan, so the scan knows from the count of jobs taken whether the job that it
 *	came to is still there.
 *	A queue has the time before which no job of it is late.  A scan forgets it and finds it anew.
 *	timer.h has who scans, and when.  Model: tests/model/scan.pml.
 */
#ifndef RNL_SCAN_H
#define RNL_SCAN_H

#include "pool/queue.h"

struct rnl__scan;

/* Whether a scan is to take the job off its queue. */
typedef bool rnl__pick(struct rnl__scan *scan, const struct rnl_job *job);

struct rnl__scan {
	struct rnl__queue *queue;
	rnl__pick *pick;
	struct rnl_job *picked, *last;	/* the jobs taken off, in their order */
	bool missed;			/* there may be jobs that were not looked at */
	/* Where it is: a lane, the last job looked at that stays, and how many go before that. */
	unsigned lane, tries;
	struct cds_wfcq_node *at;
	uint64_t nr, taken;
};

/*
 * Looks at some more jobs; false: the scan is over.  It looks at each job that was put before it
 * began, or says that it missed some.  One scan at a time.
 */
bool rnl__scan_on(struct rnl__scan *scan);

/* A job that was put is late from @at on.  True: that is earlier than for all other jobs. */
bool rnl__queue_expect(struct rnl__queue *q, uint64_t at);

/* When the queue may have a late job; a scan that follows _forget_due() finds it anew. */
uint64_t rnl__queue_due(struct rnl__queue *q);
void rnl__queue_forget_due(struct rnl__queue *q);

#endif
