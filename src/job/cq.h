/* SPDX-License-Identifier: MIT */
/*
 * A completion queue, as a worker sees it.
 *
 * DESIGN
 *	Workers put completed jobs in an inbox (sys/inbox.h).  The reader takes all of them and
 *	reverses the list.  Before the reader sleeps, it arms the inbox.  Only the worker whose put
 *	finds the inbox armed writes to the descriptor.  If the program has the descriptor, and so may
 *	sleep elsewhere, each reap that empties the queue arms it.  Without it, a reader that waits
 *	only briefly each time makes no system call: it spins before it arms and sleeps.  So there is one write per burst, and no
 *	write is missing, because both sides change one word.
 *	The reader empties the descriptor before it arms, so that it does not consume the write for
 *	this arming.  If a worker is preempted before its write, it later wakes the reader for
 *	nothing: the descriptor is a hint.  A reap that stops before it has seen the list empty
 *	leaves the descriptor readable.
 *	A worker's last access to a job is the push.  Its last access to the queue is the drop of
 *	`writing`, which destroy waits for.
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

/* Pushes a job whose result is set.  The job and the queue may be gone on return. */
void rnl__cq_push(struct rnl_cq *cq, struct rnl_job *job);

/* Pushes several jobs: @oldest completed first, and `link` of each job is the job before it. */
void rnl__cq_push_chain(struct rnl_cq *cq, struct rnl_job *oldest, struct rnl_job *newest);

#endif
