/* SPDX-License-Identifier: MIT */
/*
 * A completion queue, as a worker sees it.
 *
 * DESIGN
 *	Finished jobs are a list that workers push on with one compare and
 *	swap, and that the reader takes whole with one exchange and turns round.
 *	The list's head also says whether the reader has armed the descriptor:
 *	an empty list is NULL or ARMED.  The worker that replaces ARMED, and no
 *	other, writes to the descriptor: one write per burst, and since both
 *	sides change one word, none is missing.
 *	The reader empties the descriptor before it arms, never after: what is
 *	written for this arming is not swallowed.  A write that comes late,
 *	from a worker that was preempted before it, wakes the reader for
 *	nothing: the descriptor is a hint.  A reap that stops before it has
 *	seen the list empty leaves the descriptor readable.
 *	A job's last touch by its worker is the push; the queue's is the drop
 *	of `writing`, which destroy waits for.
 *	Model: tests/model/cq.pml.
 *
 *		push	reap	destroy
 *	push	-	-	X
 *	reap	-	X	X	X: needs outside synchronisation
 *	destroy	X	X	X
 */
#ifndef RNL_CQ_H
#define RNL_CQ_H

#include <runnel.h>

/* Puts a finished job on its queue; both may be gone on return. */
void rnl__cq_push(struct rnl_cq *cq, struct rnl_job *job);

/* Puts several, from the first that finished, each the link of the next, to the last. */
void rnl__cq_push_chain(struct rnl_cq *cq, struct rnl_job *oldest, struct rnl_job *newest);

#endif
