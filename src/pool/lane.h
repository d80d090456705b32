/* SPDX-License-Identifier: MIT */
/*
 * A lane of a queue: jobs in order, on a cds_wfcq of liburcu; a put is wait-free.
 *
 * DESIGN
 *	A put is one exchange of the tail and one store of the link.  Between the two the job is
 *	half put: the lane holds it, but no taker can take it yet.
 *	A taker holds the lane's `busy` word for a few instructions.  A taker that finds the word
 *	set does not wait; it tries again later.  A put never reads the word.
 *	The _blocking calls of cds_wfcq sleep for 10 ms when they meet a half put job, so only the
 *	_nonblocking calls are used here.
 *	Everything is inlined, because each job passes through it.
 */
#ifndef RNL_LANE_H
#define RNL_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/system.h>
#include <urcu/uatomic.h>
#include <urcu/wfcqueue.h>

#include <runnel.h>

#include "sys/atomic.h"
#include "sys/fence.h"
#include "sys/tsan.h"

#define RNL__LANE_SHUT (UINT64_C(1) << 63) /* in `promised`: the lane refuses promises */

struct rnl__lane {
	/* The producers' cache line ... */
	_Alignas(RNL__CACHE_LINE) struct cds_wfcq_tail tail;
	_Atomic uint64_t promised;	/* keyed: all promises so far, | RNL__LANE_SHUT */
	/* ... and the takers' cache line. */
	_Alignas(RNL__CACHE_LINE) struct __cds_wfcq_head head;
	_Atomic uint32_t busy;		/* a taker is at the head, or a scan is at a job */
	_Atomic uint64_t taken;
	_Atomic uint64_t done;		/* keyed: all jobs so far that the owner finished */
	_Atomic uint64_t removed;	/* keyed: all jobs so far that finished without the owner */
};

/*
 * liburcu is called out of line, so a library built with ThreadSanitizer does not see the exchange
 * that passes a job on.  These two macros report the exchange to ThreadSanitizer.
 */
#ifdef RNL__TSAN_BUILD
#define rnl__lane_handed_over(job) __tsan_release(job)
#define rnl__lane_taken_over(job) __tsan_acquire(job)
#else
#define rnl__lane_handed_over(job) ((void)(job))
/*
 * [queue.T3] acquire fence: a cds_wfcq dequeue orders only reads of the node, but a job's function
 * reads anything that its submitter wrote; pairs with [queue.E1].  No instruction on x86.
 */
#define rnl__lane_taken_over(job) atomic_thread_fence(memory_order_acquire)
#endif

_Static_assert(sizeof(struct cds_wfcq_node) == sizeof(((struct rnl_job *)NULL)->link),
	       "a job's link is a queue node");

static inline struct cds_wfcq_node *rnl__lane_node(struct rnl_job *job)
{
	return (struct cds_wfcq_node *)&job->link;
}

static inline struct rnl_job *rnl__lane_job(struct cds_wfcq_node *node)
{
	return rnl_container_of(node, struct rnl_job, link);
}

static inline void rnl__lane_init(struct rnl__lane *lane)
{
	__cds_wfcq_init(&lane->head, &lane->tail);
	atomic_init(&lane->promised, RNL__LANE_SHUT);
	atomic_init(&lane->busy, 0);
	atomic_init(&lane->taken, 0);
	atomic_init(&lane->done, 0);
	atomic_init(&lane->removed, 0);
}

static inline struct cds_wfcq_node *rnl__lane_next(struct cds_wfcq_node *node)
{
	/* relaxed: rnl__lane_taken_over() orders the accesses through the link */
	return atomic_load_explicit(rnl__atomic(&node->next), memory_order_relaxed);
}

/* Sets a link, as the lane's only taker.  No put sets this link now. */
static inline void rnl__lane_set_next(struct cds_wfcq_node *node, struct cds_wfcq_node *next)
{
	/* relaxed: [queue.T1] orders it for the next taker; a put only uses the tail */
	atomic_store_explicit(rnl__atomic(&node->next), next, memory_order_relaxed);
}

/*
 * Returns true if the lane has a job, even a half put one.  A put's exchange moves the tail before
 * the link is set; the tail, on the producers' line, is read only if there is no link.
 */
static inline bool rnl__lane_holds(struct rnl__lane *lane)
{
	return rnl__lane_next(&lane->head.node) ||
	       CMM_LOAD_SHARED(lane->tail.p) != &lane->head.node;
}

/* Prefetches the next job's first two cache lines while this job runs. */
static inline void rnl__lane_fetch(const struct cds_wfcq_node *next)
{
	if (!next)
		return;
	__builtin_prefetch(next, 1);
	__builtin_prefetch((const char *)next + RNL__CACHE_LINE);
}

/*
 * Takes the job after @prev, as the lane's only taker; @prev is the head or a job that stays.
 * Returns false if the put of the next job has not set its link yet.  cds_wfcq removes jobs at the
 * head in the same way, but needs two calls to look at the first job and then to take it.
 * If the job is the last one, the tail goes back to @prev, unless a put has moved the tail on.
 */
static inline bool rnl__lane_remove(struct rnl__lane *lane, struct cds_wfcq_node *prev)
{
	struct cds_wfcq_node *node = rnl__lane_next(prev), *next = rnl__lane_next(node);
	bool last = false;

	if (!next) {
		rnl__lane_set_next(prev, NULL);
		/*
		 * [queue.W1] full barrier (the exchange): a put that finds @prev at the tail links
		 * its job there after our store; pairs with [queue.E1].
		 */
		last = uatomic_cmpxchg(&lane->tail.p, node, prev) == node;
		next = last ? NULL : rnl__lane_next(node);
	}
	/* The next job's link: [queue.T3] orders it here, and [queue.T2] for the next taker. */
	if (next)
		rnl__lane_taken_over(rnl__lane_job(next));
	if (!last)
		rnl__lane_set_next(prev, next ? next : node);
	if (!last && !next)
		return false;
	rnl__figure_add(&lane->taken, 1);
	return true;
}

/* Returns the first job, which stays in the lane, or NULL.  Called by the lane's only taker. */
static inline struct rnl_job *rnl__lane_first(struct rnl__lane *lane)
{
	struct cds_wfcq_node *node = rnl__lane_next(&lane->head.node);

	if (!node)
		return NULL;
	rnl__lane_taken_over(rnl__lane_job(node));
	return rnl__lane_job(node);
}

/* Takes @first, the result of rnl__lane_first().  Returns NULL if it cannot be taken yet. */
static inline struct rnl_job *rnl__lane_take(struct rnl__lane *lane, struct rnl_job *first)
{
	if (!rnl__lane_remove(lane, &lane->head.node))
		return NULL;
	rnl__lane_fetch(rnl__lane_next(&lane->head.node));
	return first;
}

/* Becomes the lane's only taker.  Returns false if the lane is empty or has a taker. */
static inline bool rnl__lane_begin(struct rnl__lane *lane)
{
	/* [queue.T1] acquire: the head as the last taker left it; pairs with [queue.T2] */
	return rnl__lane_holds(lane) &&
	       !atomic_exchange_explicit(&lane->busy, 1, memory_order_acquire);
}

static inline void rnl__lane_end(struct rnl__lane *lane)
{
	/* [queue.T2] release: the head, for the next taker; pairs with [queue.T1] */
	atomic_store_explicit(&lane->busy, 0, memory_order_release);
}

static inline struct rnl_job *rnl__lane_try_take(struct rnl__lane *lane)
{
	struct rnl_job *job;

	if (!rnl__lane_begin(lane))
		return NULL;
	job = rnl__lane_first(lane);
	if (job)
		job = rnl__lane_take(lane, job);
	rnl__lane_end(lane);
	return job;
}

static inline uint64_t rnl__lane_taken(struct rnl__lane *lane)
{
	/* relaxed: the count bounds the queue, and orders no access to the jobs */
	return atomic_load_explicit(&lane->taken, memory_order_relaxed);
}

/* Puts a job.  Implies a full barrier. */
static inline void rnl__lane_put(struct rnl__lane *lane, struct rnl_job *job)
{
	job->link = NULL;
	rnl__lane_handed_over(job);
	/*
	 * [queue.E1] full barrier (the exchange in cds_wfcq_enqueue, with rnl__mb_after_rmw()): the
	 * job is on the queue before the caller looks for sleepers; pairs with [park.S1].
	 */
	cds_wfcq_enqueue(&lane->head, &lane->tail, rnl__lane_node(job));
	rnl__mb_after_rmw();
}

/* Puts several jobs with one exchange, in order.  Implies a full barrier. */
static inline void rnl__lane_put_row(struct rnl__lane *lane, struct rnl_job *const *jobs,
				     unsigned nr)
{
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;

	__cds_wfcq_init(&head, &tail);
	for (unsigned i = 0; i < nr; i++) {
		jobs[i]->link = NULL;
		rnl__lane_handed_over(jobs[i]);
		cds_wfcq_enqueue(&head, &tail, rnl__lane_node(jobs[i]));
	}
	/* [queue.E2] full barrier: like [queue.E1]; pairs with [park.S1] */
	__cds_wfcq_splice_nonblocking(&lane->head, &lane->tail, &head, &tail);
	rnl__mb_after_rmw();
}

#endif
