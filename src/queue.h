/* SPDX-License-Identifier: MIT */
/*
 * A worker's job queue: bounded, wait-free to put on, with two lanes.
 *
 * DESIGN
 *	Each lane is a cds_wfcq of liburcu: putting a job on is one exchange of
 *	the tail and one store of the link.  Keyed jobs go to the keyed lane,
 *	which the owner alone takes from, so their order holds.  All others go
 *	to the open lane, from which idle workers steal; whoever takes from it
 *	holds its `busy` word for those few instructions.  A taker that finds
 *	it held comes back, it does not wait; nobody who puts ever looks at it.
 *	One word, `accepted`, is reserved in before putting.  It carries the
 *	CLOSED bit, so a submit beside a close is either counted or refused,
 *	and it is checked against what was taken, which bounds the queue.
 *	The _blocking calls of cds_wfcq sleep for 10 ms when they meet a job
 *	that is half put: only the _nonblocking ones are used here.
 *
 *			reserve	put	take	steal	close	length
 *	reserve		-	-	-	-	-	-
 *	put		-	-	-	-	-	-
 *	take		-	-	X	-	-	-	X: owner only
 *	steal		-	-	-	-	-	-
 *	close		-	-	-	-	-	-
 */
#ifndef RNL_QUEUE_H
#define RNL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/system.h>
#include <urcu/wfcqueue.h>

#include <runnel.h>

#include "atomic.h"

/* In a job's flags: it goes to the keyed lane. */
#define RNL__JOB_KEYED 1

struct rnl__lane {
	/* The producers' line ... */
	_Alignas(RNL__CACHE_LINE) struct cds_wfcq_tail tail;
	/* ... and the takers'. */
	_Alignas(RNL__CACHE_LINE) struct __cds_wfcq_head head;
	_Atomic uint32_t busy;		/* a taker is at the head; open lane only */
	_Atomic uint64_t taken;
};

struct rnl__queue {
	struct rnl__lane keyed;
	struct rnl__lane open;
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t accepted; /* ever, | CLOSED */
	_Atomic uint64_t taken_seen;	/* of both lanes, as a producer last saw it */
	uint64_t limit;
	bool keyed_next;		/* owner: which lane is looked at first */
};

void rnl__queue_init(struct rnl__queue *q, uint64_t limit);

/*
 * Reserves room for up to @nr jobs; each is then put exactly once, however
 * late.  Returns how many, or -EAGAIN when full, -ESHUTDOWN when closed.
 */
int rnl__queue_reserve(struct rnl__queue *q, unsigned nr);

/* Puts a job that room was reserved for.  A full barrier. */
void rnl__queue_put(struct rnl__queue *q, struct rnl_job *job);

/* Puts several on the open lane at once, in order.  A full barrier. */
void rnl__queue_put_chain(struct rnl__queue *q, struct rnl_job *const *jobs, unsigned nr);

/* Owner: the next job, or NULL when there is none, or none at this moment. */
struct rnl_job *rnl__queue_take(struct rnl__queue *q);

/* Any thread: a job off the open lane, or NULL. */
struct rnl_job *rnl__queue_steal(struct rnl__queue *q);

/* Whether a job is there, be it half put. */
bool rnl__queue_holds(struct rnl__queue *q);
bool rnl__queue_stealable(struct rnl__queue *q);

/* Refuses reservations from now on. */
void rnl__queue_close(struct rnl__queue *q);

/* Jobs ever accepted; exact once closed and no submit runs. */
uint64_t rnl__queue_accepted(struct rnl__queue *q);

/* Jobs reserved and not taken, about. */
uint64_t rnl__queue_length(struct rnl__queue *q);

#endif
