/* SPDX-License-Identifier: MIT */
/*
 * A walk through a queue: it looks at all jobs, and takes some out of the middle.
 *
 * DESIGN
 *	Jobs that are late or were cancelled cannot wait for their worker: the keeper walks to them.
 *	A walk is a taker.  It goes on in pieces, and gives the lane back after each.  Jobs leave at
 *	the head or by a walk, so the walk knows from the count of jobs taken whether the job that it
 *	came to is still there.
 *	A queue has the time before which no job of it is late.  A walk forgets it and finds it anew.
 *	keeper.h has who walks, and when.  Model: tests/model/walk.pml.
 */
#ifndef RNL_WALK_H
#define RNL_WALK_H

#include "pool/queue.h"

struct rnl__walk;

/* Whether a walk is to take the job off its queue. */
typedef bool rnl__pick(struct rnl__walk *walk, const struct rnl_job *job);

struct rnl__walk {
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
 * Looks at some more jobs; false: the walk is over.  It looks at each job that was put before it
 * began, or says that it missed some.  One walk at a time.
 */
bool rnl__walk_on(struct rnl__walk *walk);

/* A job that was put is late from @at on.  True: that is earlier than for all other jobs. */
bool rnl__queue_expect(struct rnl__queue *q, uint64_t at);

/* When the queue may have a late job; a walk that follows _forget_due() finds it anew. */
uint64_t rnl__queue_due(struct rnl__queue *q);
void rnl__queue_forget_due(struct rnl__queue *q);

#endif
