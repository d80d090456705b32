/* SPDX-License-Identifier: MIT */
/*
 * A completion queue, as a worker sees it.
 *
 * DESIGN
 *	Workers put the completed jobs in an inbox (sys/inbox.h); the reader takes all, and reverses
 *	the list.  Before it sleeps, it arms the inbox.  The worker whose put finds it armed writes to
 *	the descriptor, and no other worker does: there is one write per burst, and none is missing,
 *	since both sides change one word.
 *	The reader empties the descriptor before it arms: so it does not swallow the write for
 *	this arming.  A worker that is preempted before its write wakes the reader for nothing
 *	later: the descriptor is a hint.  A reap that stops before it has seen the list empty
 *	leaves the descriptor readable.
 *	A worker's last touch of a job is the push; its last touch of the queue is the drop of
 *	`writing`, for which destroy waits.
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

/* Pushes a job whose result is set.  Job and queue may be gone on return. */
void rnl__cq_push(struct rnl_cq *cq, struct rnl_job *job);

/* Pushes several: @oldest completed first, and each job is the `link` of the next one. */
void rnl__cq_push_chain(struct rnl_cq *cq, struct rnl_job *oldest, struct rnl_job *newest);

#endif
