/* SPDX-License-Identifier: MIT */
/*
 * Tickets: holds of jobs, for threads that release them, some of them twice.
 *
 * DESIGN
 *	A job's function takes a hold and draws what becomes of it: when it is released, how
 *	often, with which result. Releasers look at all tickets in turn; they stay until the
 *	pool is gone, so some releases come after that. What a release says is counted in the
 *	ticket, whose owner checks the counts when the job has ended and no release is left.
 *	A ticket that is released by one thread at a time notes that in plain memory, which
 *	who is told of the job's end must find.
 */
#ifndef TORTURE_HOLDS_H
#define TORTURE_HOLDS_H

#include <runnel/hold.h>

#include "life.h"

struct ticket {
	struct rnl_hold hold;
	int result;			/* that its release tells */
	_Atomic bool raced;		/* its releases may run side by side */
	_Atomic bool late;		/* it is released when the job has ended by its deadline */
	bool wrote;			/* plain: a release has begun, unless they are raced */
	_Atomic uint64_t due_ns;	/* not before */
	_Atomic uint64_t left;		/* how often it was taken * TAKEN, and releases to come */
	_Atomic unsigned nr;		/* all its releases */
	_Atomic unsigned nr_begun, nr_over;
	_Atomic unsigned nr_won, nr_already, nr_stale;
	_Atomic bool ended;		/* the job has */
};

#define NR_TICKETS 96
#define NR_RELEASERS 2

struct tickets {
	_Atomic unsigned nr_releasers;
	struct ticket all[NR_TICKETS];
};

/* In a job's function: takes a hold. @late: it may be left to the job's deadline. False: none. */
bool ticket_take(struct ticket *t, struct life *life, bool late);
/* Whether no release is under way or to come. */
bool ticket_is_over(const struct ticket *t);
/* By who is told that the job is done: a release of it has begun, and what it wrote is seen. */
void ticket_check_told(struct ticket *t, const struct life *life);
/* When it is over: what its releases said. @must: one of them must have said 0. */
void ticket_check_said(const struct ticket *t, bool must);
void ticket_forget(struct ticket *t);

/* Takes the releasers' seats. */
void releasers_begin(struct round *r, struct tickets *tickets);

#endif /* TORTURE_HOLDS_H */
