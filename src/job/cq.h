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

struct rnl__cq_chains;		/* pool/worker.h */

/* Collects a job whose result is set. */
void rnl__cq_collect(struct rnl__cq_chains *chains, struct rnl_cq *cq, struct rnl_job *job);

/* Pushes the collected jobs.  They, and their queues, may be gone on return. */
void rnl__cq_push_all(struct rnl__cq_chains *chains);

#endif
