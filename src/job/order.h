/* SPDX-License-Identifier: MIT */
/*
 * Orders: jobs that start in the order of their submits, but come after different barriers.
 *
 * DESIGN
 *	A job with a key gets its place in the key's lane when it is queued, and a job after a
 *	barrier is queued once the barrier's jobs are issued.  So an order has a gate, where one
 *	job at a time waits for its barriers, deferred like any other job.  The jobs after it wait
 *	in the order.  The thread that finds the job's last round issued queues the job, and goes on
 *	with the next job: rnl__barrier_issued().
 *	`waiting` is an inbox (sys/inbox.h) of jobs that came while the gate was taken; it is armed
 *	while the gate is free.  A submit that finds it armed has the gate.  When the thread at the
 *	gate has no jobs left, it takes the jobs in the inbox, or arms the inbox, which fails if a
 *	job came.  Only the gate's owner accesses `first`.
 *	A barrier that one job of the order waits for may also count another job of the order.  To
 *	rule out a deadlock, a submit first takes the snapshot of the barrier, then enters the
 *	order, then counts the job in its own barrier.  So each job waits only for jobs that entered
 *	an order before it, because a job enters its order before a barrier counts it.  The job is
 *	not ready until the counts are made.  If it reaches the gate before that, its submit gets
 *	the gate: one exchange of the job's `gate` decides.
 *	A job that enters raises the rounds of the job at the gate: pool/inherit.h.  `waits` says
 *	whether one waits there, which is then the first on `first`.  The submit marks it, raises,
 *	and takes the mark back.  A thread that lets the job go meanwhile leaves it to the submit.
 *	For jobs that come to the gate later, `waits` has the smallest tier since the order was
 *	empty.
 *	Model: tests/model/order.pml, without the tiers.
 *
 *			enter	ready	next	- no outside synchronisation needed
 *	enter		-	-	-
 *	ready		-	-	-	of one job: after enter, on its thread
 *	next		-	-		one thread at a time has the gate
 */
#ifndef RNL_ORDER_H
#define RNL_ORDER_H

#include <stdbool.h>

#include <runnel.h>
#include <runnel/more.h>

/* Enters a job in its order.  The job has its snapshot, and a reservation as a deferred job. */
void rnl__order_enter(struct rnl_order *order, struct rnl_job *job);

/*
 * Called when the job and the rest of its chain were accepted and counted.  Returns true if the
 * job is at the gate: the caller must call rnl__barrier_issued().  If not, the job may be gone.
 */
bool rnl__order_ready(struct rnl_job *job);

/*
 * Called before the job at the gate is deferred.  Returns the smallest tier of the jobs behind it, to
 * which its rounds must be raised.
 */
unsigned rnl__order_wait(struct rnl_order *order, struct rnl_job *job);

/*
 * Called when that job waits no more.  Returns false if a submit is raising its rounds: then that
 * submit has the gate, and goes on with the job.
 */
bool rnl__order_waited(struct rnl_order *order);

/*
 * Called by an entered, counted job.  Returns the job at the gate, which the caller must raise to the
 * tier, and then call _raised(); NULL: none waits there, or another thread raises it.
 */
struct rnl_job *rnl__order_raise(struct rnl_order *order, const struct rnl_job *job, unsigned *tier);

/*
 * Returns false if the caller must raise the job again, to *@tier.  @left: set to the job if the caller
 * must call rnl__barrier_issued() for it.
 */
bool rnl__order_raised(struct rnl_order *order, unsigned *tier, struct rnl_job **left);

/*
 * Called when the job at the gate was queued.  Returns the next job at the gate; NULL: another
 * thread has the gate, or the gate is free and the order may be gone.
 */
struct rnl_job *rnl__order_next(struct rnl_order *order);

#endif
