/* SPDX-License-Identifier: MIT */
/*
 * A class of jobs: what it has used, and whether it may start a job.
 *
 * DESIGN
 *	Start-time fair queueing with several jobs under way (SFQ(D); Goyal 1996, Jin 2004).  A class
 *	has a virtual time, which advances by device time / weight: by an estimate when a job is
 *	taken, corrected when the job has ended.  The class with the smallest virtual time is next.
 *	A class whose queue was empty, or that was at a limit, continues at the smallest virtual
 *	time of the other classes with jobs of its priority, if its own is smaller: so it is owed
 *	nothing.
 *	A floor and a rate are each one word, the time from which the class is entitled (GCRA): a
 *	job moves it on by its cost / share, or by the interval of the rate.  A floor's word is never
 *	later than one job from now: what a class uses of an idle device does not cost its floor.
 *	Takers change words one by one, and hold no lock.  Several takers that choose at the same
 *	time may choose the same class, as if one had chosen a moment earlier.
 *	The words of a class that has ended are used for the next class, because a taker may still
 *	read them: so what a creation sets is atomic, too.
 */
#ifndef RNL_CLASS_H
#define RNL_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/class.h>

#include "class/cost.h"
#include "class/prioq.h"
#include "sys/atomic.h"
#include "sys/eventcount.h"
#include "sys/hist.h"

#define RNL__TIERS 8u		/* priorities, the first one is 0 here */
#define RNL__TIER_OWN 4		/* of the pool's own class */
#define RNL__CLASS_NAME 32u
#define RNL__CLASS_CLOSED (UINT32_C(1) << 31) /* in `inside` */

struct rnl_class {
	/* Set by the creation. */
	struct rnl_pool *pool;		/* constant */
	_Atomic uint32_t id;		/* jobs name it; 0: no class */
	unsigned index;			/* constant: its place in the pool's table */
	/* Under the table's lock. */
	char name[RNL__CLASS_NAME];
	uint64_t all_before_ns;		/* device time of all classes at its creation */
	_Atomic uint32_t tier, weight, order, flags;
	_Atomic uint32_t floor;		/* thousandths; 0: none */
	_Atomic uint32_t max_queued;	/* in each of `queues` */
	_Atomic uint32_t max_jobs;	/* 0: no limit, here and below */
	_Atomic uint64_t max_ns, interval_ns, burst_ns, deadline_ns;
	_Atomic uint64_t workers;	/* a bit for each of its own */
	unsigned nr_queues;		/* constant */
	/* [0]: for any device; [1 + i]: placed on device i.  Replaced by a creation with more jobs. */
	_Atomic(struct rnl__prioq *) queues;

	/* Changed by submits. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t inside; /* accepted, not done, | CLOSED */
	_Atomic uint64_t ticket;	/* the order of submits */
	_Atomic uint64_t refused, unadmitted;
	struct rnl__eventcount space;	/* for submits that wait for a slot */

	/* Changed by takers. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t used; /* virtual time */
	_Atomic uint64_t floor_at, rate_at; /* times of the clock: entitled from then on */
	_Atomic uint64_t under_way_ns;	/* estimates */
	_Atomic uint32_t under_way;	/* jobs */
	_Atomic bool behind;		/* it was at a limit, or (the own class) had no job */

	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t accepted, done, expired, late, device_ns;
	_Atomic float error;		/* mean distance of the estimate from what a job used, / that */
	struct rnl__costs costs;
	struct rnl__hist queue_wait;	/* of timed jobs, until a worker takes them */
};

/*
 * Wakes a submit that waits for a slot.  Those that wait for slots of different queues wait together: then
 * all are woken.  A full barrier must precede.
 */
static inline void rnl__class_wake_space(struct rnl_class *c)
{
	if (c->nr_queues > 1)
		rnl__eventcount_wake(&c->space);
	else
		rnl__eventcount_wake_one(&c->space);
}

/* Returns a bit for each worker of the class's own; 0: it has none, and the staff serves it. */
static inline uint64_t rnl__class_workers(const struct rnl_class *c)
{
	return rnl__figure_read(&((struct rnl_class *)(uintptr_t)c)->workers);
}

/* Returns a number that is smaller for a class that goes before another one. */
static inline unsigned rnl__class_rank(const struct rnl_class *c)
{
	return rnl__figure_read(&((struct rnl_class *)(uintptr_t)c)->tier) +
	       (rnl__class_workers(c) ? 0 : RNL__TIERS);
}

/* Returns what a job names the class by. */
static inline uint32_t rnl__class_id(struct rnl_class *c)
{
	return rnl__figure_read(&c->id);
}

/* Returns the class's queues, or NULL if it has none yet. */
static inline struct rnl__prioq *rnl__class_queues(struct rnl_class *c)
{
	/* [class.Q1] acquire: the queues as they were made; pairs with [class.Q2] */
	return atomic_load_explicit(&c->queues, memory_order_acquire);
}

static inline struct rnl__prioq *rnl__class_queue(struct rnl_class *c, unsigned i)
{
	return &rnl__class_queues(c)[i];
}

/* Sets a class's words to those of a new class. */
void rnl__class_begin(struct rnl_class *c, const struct rnl_class_attr *attr);

/*
 * Returns true if no limit keeps the class from starting a job at @now.  @at: lowered to the time at
 * which its rate allows one.
 */
bool rnl__class_may_start(struct rnl_class *c, uint64_t now, uint64_t *at);

/* The best class so far, as its taker saw it; begins as zero. */
struct rnl__class_choice {
	struct rnl_class *class;
	bool floored;			/* it is below its floor */
	uint32_t tier;
	uint64_t used;
};

/*
 * Replaces the choice by a class that has a job, may start it, and comes first.  @tier: of its first
 * job.  @at: as above.
 */
void rnl__class_compare(struct rnl_class *c, uint32_t tier, uint64_t now,
			struct rnl__class_choice *best, uint64_t *at);

/* What a start has counted, to take it back. */
struct rnl__class_start {
	uint64_t rate_before, rate_after;
};

/* Counts a job as under way, if the rate and max_jobs allow; @surely: in any case. */
bool rnl__class_start(struct rnl_class *c, uint64_t now, bool surely, struct rnl__class_start *start);

/* Takes a start back: there was no job.  A full barrier; the class may have left its limit. */
void rnl__class_take_back(struct rnl_class *c, const struct rnl__class_start *start);

/*
 * Charges a job that was counted, and is taken: its function's estimate, which is returned in 16
 * bits.  @nr_devices: of the pool.
 */
uint16_t rnl__class_charge(struct rnl_class *c, const void *fn, uint64_t now, unsigned nr_devices);

/*
 * A charged job has ended: the charge is corrected to @ns; @ran: its function was called.  A full
 * barrier; the class may have left its limit.
 */
void rnl__class_end(struct rnl_class *c, const void *fn, uint16_t charged, uint64_t ns, bool ran,
		    uint64_t now, unsigned nr_devices);

/*
 * Looks for the smallest virtual time of classes with jobs: *@least is that of the classes before;
 * @any: there is one.
 */
void rnl__class_least(struct rnl_class *c, uint64_t *least, bool *any);

/* A class had no job, or was at a limit: it is owed nothing.  @least: of the others with jobs. */
void rnl__class_wakes(struct rnl_class *c, uint64_t least);

#endif
