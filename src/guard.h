/* SPDX-License-Identifier: MIT */
/*
 * Guard: each function that jobs have is watched the first time that it runs.
 *
 * DESIGN
 *	What it issues then is captured, not done; what CUDA refuses meanwhile, a
 *	job should not do.  If nothing was refused, what was captured is issued where
 *	it belongs: the function was called once, and had its effect.  Else nothing
 *	of it was done, it is thrown away, and the function is called again, unwatched.
 *	Another thread's use of the legacy stream would fail, and spoil the capture,
 *	so the pool's other workers are held outside of callers' code for so long: they
 *	pass a gate on their way in, whose word counts who is inside and says HELD.  What
 *	they have on their streams goes on.
 *	Jobs' functions may wait for each other, so nobody waits for long: if the others do
 *	not come out within HOLD_NS, the function runs unwatched, to be tried at a later
 *	run; and who was held for HELD_NS goes in, whatever that does to the capture.
 *	A capture covers a caller's function alone: what the library issues for the job before
 *	and behind it, marks and staged copies, goes to the stream as ever.
 *	Without guard, the way of a job looks whether there is one, and that is all.
 *
 *			enter	leave	call	figures
 *	enter		-	-	-	-	- no outside synchronisation needed
 *	leave		-	-	-	-	X not by two threads for one worker
 *	call		-	-	-	-
 *	(the same worker's enter, leave, call: X among each other)
 */
#ifndef RNL_GUARD_H
#define RNL_GUARD_H

#include <runnel.h>

#include "device.h"

struct rnl__worker;
struct rnl__guard;

/* For comparing and for its name. */
typedef void rnl__function(void);

/* A call of a function of the caller's. */
struct rnl__guard_call {
	rnl__function *fn;
	int (*call)(void *arg);		/* does it */
	void *arg;
	int (*check)(void);		/* of its unit; NULL: none */
};

/* 0 or -ENOMEM; @mode: enum rnl_guard, not off. */
int rnl__guard_create(struct rnl__guard **guardp, uint32_t mode);
void rnl__guard_destroy(struct rnl__guard *guard);

/* Around all of a worker's time in callers' code; they nest. */
void rnl__guard_enter(struct rnl__worker *w);
void rnl__guard_leave(struct rnl__worker *w);

/* Makes a call, inside; its result, or -ENOTSUP by the strict guard. */
int rnl__guard_call(struct rnl__worker *w, const struct rnl__guard_call *call);

/* Adds what it counted. */
void rnl__guard_figures(struct rnl__guard *guard, struct rnl_pool_stats *stats);

/* Says what was found of a function; guard_report.c. */
void rnl__guard_report(struct rnl_pool *pool, rnl__function *fn,
		       const struct rnl__guarded *guarded);

#endif
