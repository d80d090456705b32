/* SPDX-License-Identifier: MIT */
/*
 * A worker's job queue: bounded, wait-free to put on, with lanes.
 *
 * DESIGN
 *	A lane is a cds_wfcq of liburcu: putting a job on is one exchange of
 *	the tail and one store of the link.  Keyed jobs go to a keyed lane,
 *	which the owner alone takes from, so their order holds.  The others go
 *	to the urgent or the open lane, from which idle workers steal; whoever
 *	takes there holds the lane's `busy` word for those few instructions.  A
 *	taker that finds it held comes back, it does not wait; nobody who puts
 *	ever looks at it.
 *	One word, `accepted`, is reserved in before putting.  It carries the
 *	CLOSED and AWAY bits, so a submit beside a close, or beside the worker's
 *	leaving, is either counted or refused; and it is checked against what
 *	was taken, which bounds the queue.
 *	There are two keyed lanes, of which a table of workers uses one: while
 *	the pool is resized, jobs by the new table gather in the other, until
 *	all by the old one are done.  A keyed job is promised to its lane, by a
 *	word like `accepted`; SHUT there ends the promises, so that the lane's
 *	end is known.  resize.c has the rest.
 *	The _blocking calls of cds_wfcq sleep for 10 ms when they meet a job
 *	that is half put: only the _nonblocking ones are used here.
 *	Models: tests/model/park.pml, of a put; tests/model/resize.pml, of the bits.
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

/* In a job's flags: which lane it goes to; none of them is the open one. */
#define RNL__JOB_KEYED 1u	/* the one of its table's generation */
#define RNL__JOB_FIRST 2u	/* the urgent one */

struct rnl__lane {
	/* The producers' line ... */
	_Alignas(RNL__CACHE_LINE) struct cds_wfcq_tail tail;
	_Atomic uint64_t promised;	/* keyed: ever, | SHUT */
	/* ... and the takers'. */
	_Alignas(RNL__CACHE_LINE) struct __cds_wfcq_head head;
	_Atomic uint32_t busy;		/* not keyed: a taker is at the head */
	_Atomic uint64_t taken;
	_Atomic uint64_t done;		/* keyed: of these jobs */
};

struct rnl__queue {
	struct rnl__lane keyed[2];
	struct rnl__lane urgent;
	struct rnl__lane open;
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t accepted; /* ever, | CLOSED | AWAY */
	_Atomic uint64_t taken_seen;	/* of all lanes, as a producer last saw it */
	_Atomic uint64_t limit;
	_Atomic uint64_t look;		/* with more than that, look how many were taken */
	/* The owner's: which lane it looks at first. */
	_Alignas(RNL__CACHE_LINE) bool keyed_next;
};

/* Which of the keyed lanes goes with a table's generation. */
static inline unsigned rnl__keyed_lane(uint32_t generation)
{
	return generation % 2;
}

/* Of a worker that is away, and with both keyed lanes shut. */
void rnl__queue_init(struct rnl__queue *q);

/* Sets how many jobs it may hold, and with how many a submit counts them anew. */
void rnl__queue_bound(struct rnl__queue *q, uint64_t limit, uint64_t look);

/*
 * Reserves room for up to @nr jobs; each is then put exactly once, however
 * late.  Returns how many; or -EAGAIN full, -ESHUTDOWN closed, -ESTALE the
 * worker is away.  @high is set if more than `look` are there then.
 */
int rnl__queue_reserve(struct rnl__queue *q, unsigned nr, bool *high);

/* Takes a reservation back. */
void rnl__queue_unreserve(struct rnl__queue *q, unsigned nr);

/* Reserves for a job that was accepted elsewhere, full or closed; false if away. */
bool rnl__queue_move_in(struct rnl__queue *q);

/* A job that was reserved for, and not put, was moved in elsewhere. */
void rnl__queue_move_out(struct rnl__queue *q);

/* Puts a job that room was reserved for.  A full barrier. */
void rnl__queue_put(struct rnl__queue *q, struct rnl_job *job);

/* Puts several on the open lane at once, in order.  A full barrier. */
void rnl__queue_put_chain(struct rnl__queue *q, struct rnl_job *const *jobs, unsigned nr);

/*
 * Owner: the next job, of the keyed ones of that generation; or NULL when there is
 * none, or none at this moment.
 */
struct rnl_job *rnl__queue_take(struct rnl__queue *q, uint32_t generation);

/*
 * Owner: the next job if nothing is to go before the open lane's first, and that is of the
 * barrier; or NULL.
 */
struct rnl_job *rnl__queue_take_of(struct rnl__queue *q, const struct rnl_barrier *barrier,
				   uint32_t generation);

/* Any thread: a job off the urgent lane, or off that or the open lane, or NULL. */
struct rnl_job *rnl__queue_take_urgent(struct rnl__queue *q);
struct rnl_job *rnl__queue_steal(struct rnl__queue *q);

/* Whether a job is there, be it half put. */
bool rnl__queue_holds(struct rnl__queue *q, uint32_t generation);
bool rnl__queue_holds_urgent(struct rnl__queue *q);
bool rnl__queue_stealable(struct rnl__queue *q);

/* Refuses reservations from now on. */
void rnl__queue_close(struct rnl__queue *q);
bool rnl__queue_closed(struct rnl__queue *q);

/* The worker is there, or away: then nothing more is reserved. */
void rnl__queue_serve(struct rnl__queue *q);
void rnl__queue_leave(struct rnl__queue *q);
bool rnl__queue_away(struct rnl__queue *q);

/* ---- keyed lanes, see resize.c ------------------------------------------- */

/* Promises a job to a keyed lane; false: it is shut. */
bool rnl__queue_promise(struct rnl__queue *q, uint32_t generation);
void rnl__queue_unpromise(struct rnl__queue *q, uint32_t generation);

/* Lets jobs be promised, or no more. */
void rnl__queue_open_lane(struct rnl__queue *q, uint32_t generation);
void rnl__queue_shut_lane(struct rnl__queue *q, uint32_t generation);

/* Owner: one of these jobs is done. */
void rnl__queue_keyed_done(struct rnl__queue *q, uint32_t generation);

/* Of a lane that was shut: whether all jobs that were promised to it are done. */
bool rnl__queue_lane_done(struct rnl__queue *q, uint32_t generation);

/* ---- figures ------------------------------------------------------------- */

/* Jobs ever accepted; exact once closed and no submit runs. */
uint64_t rnl__queue_accepted(struct rnl__queue *q);

/* Jobs ever taken, or moved out. */
uint64_t rnl__queue_taken(struct rnl__queue *q);

/* Jobs reserved and not taken, about; exact when away. */
uint64_t rnl__queue_length(struct rnl__queue *q);

/* Whether there is room. */
bool rnl__queue_roomy(struct rnl__queue *q);

#endif
