/* SPDX-License-Identifier: MIT */
/*
 * Orders: jobs that start in the order of their submits though they come after different barriers.
 *
 * DESIGN
 *	A job with a key gets its place in the key's lane when it is queued, and a job after a barrier
 *	is queued when the barrier's jobs are issued.  So an order has a gate, where one job at a
 *	time waits for its barriers, deferred as any other; those behind it wait in the order.  The
 *	thread that finds its last round issued queues the job, and goes on with the next one:
 *	rnl__barrier_issued().
 *	`waiting` is an inbox (sys/inbox.h) of jobs that came while the gate was taken; it is armed
 *	while the gate is free.  A submit that finds it armed has the gate.  The thread at the gate
 *	takes the jobs of the inbox when it has none left, or arms it, which fails if a job came.
 *	`first` is the gate's.
 *	A job may also be counted by a barrier that another job of the order waits for.  So no two
 *	jobs wait for each other, a submit does this in turn: it takes the snapshot of the barrier
 *	that the job comes after, enters the order, and counts the job in its own barrier.  Then each
 *	job waits only for jobs that entered an order before it: those of the snapshot were counted,
 *	and so had entered.  Until the counts are made the job is not ready.  If the gate comes to
 *	such a job, the gate is the submit's: one exchange of its `gate` decides that.
 *	Model: tests/model/order.pml.
 *
 *			enter	ready	next	- no outside synchronisation needed
 *	enter		-	-	-
 *	ready		-	-	-	of one job: behind enter, on its thread
 *	next		-	-		one thread at a time has the gate
 */
#ifndef RNL_ORDER_H
#define RNL_ORDER_H

#include <stdbool.h>

#include <runnel.h>
#include <runnel/more.h>

/* A job that has its snapshot, and a reservation as one that is deferred: gets its place. */
void rnl__order_enter(struct rnl_order *order, struct rnl_job *job);

/*
 * The job, and those behind it, were accepted and counted.  Return: whether the job is at the gate: then
 * the caller goes on with it.  If not, the job may be gone.
 */
bool rnl__order_ready(struct rnl_job *job);

/*
 * The job at the gate was queued.  Return: the next one there; NULL: the gate is another thread's or
 * free, and the order may be gone.
 */
struct rnl_job *rnl__order_next(struct rnl_order *order);

#endif
