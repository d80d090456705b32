/* SPDX-License-Identifier: MIT */
/*
 * Tickets: holds of jobs, which other threads release, some of them twice.
 *
 * DESIGN
 *	A job's function takes a hold and draws when, how often and with which result it is
 *	released. Releasers scan all tickets; they stay until the pool is destroyed, so some
 *	releases happen after that. The ticket counts the results of its releases. Its owner checks
 *	the counts when the job has ended and no release is left. If one thread at a time releases a
 *	ticket, the release notes that in plain memory. The thread that is notified of the job's end
 *	must see the note.
 */
#ifndef TORTURE_HOLDS_H
#define TORTURE_HOLDS_H

#include <runnel/hold.h>

#include "life.h"

struct ticket {
	struct rnl_hold hold;
	int result;			/* result of its release */
	_Atomic bool raced;		/* its releases may run concurrently */
	_Atomic bool late;		/* released after the deadline has ended the job */
	bool wrote;			/* plain: a release has begun; unless raced */
	_Atomic uint64_t due_ns;	/* earliest time of a release */
	_Atomic uint64_t left;		/* number of takes * TAKEN + releases to come */
	_Atomic unsigned nr;		/* all its releases */
	_Atomic unsigned nr_begun, nr_over;
	_Atomic unsigned nr_won, nr_already, nr_stale;
	_Atomic bool ended;		/* the job has ended */
};

#define NR_TICKETS 96
#define NR_RELEASERS 2

struct tickets {
	_Atomic unsigned nr_releasers;
	struct ticket all[NR_TICKETS];
};

/* In a job's function: takes a hold. @late: the deadline may end it. Returns false if it fails. */
bool ticket_take(struct ticket *t, struct life *life, bool late);
/* Returns true if no release is running or to come. */
bool ticket_is_over(const struct ticket *t);
/* Called when notified of the job's end: a release must have begun, with its note visible. */
void ticket_check_told(struct ticket *t, const struct life *life);
/* Checks the results of its releases when it is over. @must: one release must have returned 0. */
void ticket_check_said(const struct ticket *t, bool must);
void ticket_forget(struct ticket *t);

/* Starts the releasers, each in a seat. */
void releasers_begin(struct round *r, struct tickets *tickets);

#endif /* TORTURE_HOLDS_H */
