/* SPDX-License-Identifier: MIT */
/*
 * Tickets: holds of jobs, which other threads release, some of them twice.
 *
 * DESIGN
 *	A job's function takes a hold and draws when, how often and with which result the hold is
 *	released. Releasers scan all tickets until the pool is destroyed, so some releases come
 *	after the destroy. A ticket counts the results of its releases. The ticket's owner checks
 *	the counts when the job has ended and no release is left. If only one thread at a time
 *	releases a ticket, the release first sets `wrote`, which is not atomic. The thread that is
 *	notified of the job's end must see the new value.
 */
#ifndef TORTURE_HOLDS_H
#define TORTURE_HOLDS_H

#include <runnel/hold.h>

#include "life.h"

struct ticket {
	struct rnl_hold hold;
	int result;			/* result of its release */
	_Atomic bool raced;		/* the ticket's releases may run concurrently */
	_Atomic bool late;		/* released after the deadline has ended the job */
	bool wrote;			/* a release has begun; not atomic, unused if raced */
	_Atomic uint64_t due_ns;	/* earliest time of a release */
	_Atomic uint64_t left;		/* number of takes * TAKEN + number of releases to come */
	_Atomic unsigned nr;		/* number of its releases */
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

/* Takes a hold in a job's function. @late: the deadline may end it. Returns false on an error. */
bool ticket_take(struct ticket *t, struct life *life, bool late);
/* Returns true if no release is running or to come. */
bool ticket_is_over(const struct ticket *t);
/* Called when notified of the job's end: checks that a release has begun, and `wrote` is set. */
void ticket_check_told(struct ticket *t, const struct life *life);
/* Checks the releases' results when a ticket is over. @must: one release must have returned 0. */
void ticket_check_said(const struct ticket *t, bool must);
void ticket_forget(struct ticket *t);

/* Starts the releasers, each in a seat. */
void releasers_begin(struct round *r, struct tickets *tickets);

#endif /* TORTURE_HOLDS_H */
