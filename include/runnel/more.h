/* SPDX-License-Identifier: MIT */
/* What few jobs have: a time, an order, several barriers, a notice, a trace id. */
#ifndef RUNNEL_MORE_H
#define RUNNEL_MORE_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A barrier that a job comes after: struct rnl_job_more. Each job has its own list of them, which begins
 * as zero, and is not changed while the job is submitted and not done.
 */
struct rnl_after {
	struct rnl_barrier *barrier;
	uint64_t round;		/* the library's */
};

enum rnl_when {
	RNL_NOW = 0,
	RNL_SPACE = 1,	/* the pool has room: at most half of max_queued jobs are in the workers'
			 * queues, at most half are deferred, at most half are behind others, and
			 * rnl_submit_wait() blocks no thread for either of the latter */
	RNL_EMPTY = 2	/* the pool is closed, and all other jobs are done, or in their completion
			 * queue */
};

/*
 * What few jobs have: rnl_job_set_more(). It is memory of the program's, of one job, and is not changed
 * while that is submitted and not done. It begins as RNL_JOB_MORE_INIT. The second part belongs to the
 * library.
 */
struct rnl_job_more {
	int64_t start_ns;	/* a time of rnl_clock(), not before which it is queued; 0: none */
	struct rnl_order *order; /* NULL: none */
	struct rnl_after *after; /* further barriers that it comes after: rnl_job_set_after() */
	uint32_t nr_after;
	uint32_t when;		/* enum rnl_when: what it waits for, as a notice */
	uint8_t trace_id[16];	/* is in a trace with the job, unless it is zero: a W3C trace-id, say */

	struct rnl_job *job;
	struct rnl_barrier *first; /* of rnl_job_set_after() */
	uint64_t gate;		/* whether it is ready in its order, and at its head */
	void *next, *before, *child, *cancelled; /* while it is delayed */
};
#define RNL_JOB_MORE_INIT { 0, NULL, NULL, 0, RNL_NOW, { 0 }, NULL, NULL, 0, NULL, NULL, NULL, NULL }

/*
 * An order: jobs that start in the order of their submits though they come after different barriers;
 * a communicator's collectives, say, must start in one order on all ranks. All fields belong to the
 * library.
 *
 *		init	submit	fini
 *	submit	X	-	X	-: no outside synchronisation needed
 */
struct rnl_order {
	struct rnl_pool *pool;
	uint64_t key;
	void *waiting;		/* jobs that came while another one waits */
	struct rnl_job *first;	/* those that were taken off there, in their order */
	uint32_t generation;
	uint32_t reserved;
};

/*
 * Makes an order.
 * @key: all its jobs have this key, and so one worker: rnl_job_set_key(), RNL_KEY_WORKER(). In a pool
 *	of several devices, jobs that are placed are all placed on one.
 * Return: 0; -EINVAL order or pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_order_init(struct rnl_order *order, struct rnl_pool *pool, uint64_t key);

/*
 * Ends the use of an order, whose memory may be reused then.
 * @order: may be NULL. No submit to it may run at the same time or later.
 * Context: blocks until all its jobs were queued: until their barriers' jobs are issued. So not on a
 *	worker of the pool, which may be the one that has to issue them.
 * Since: 0.1
 */
RNL_API void rnl_order_fini(struct rnl_order *order);

/*
 * Names what few jobs have: a time, an order, several barriers to come after, what a notice waits for,
 * a trace id. It is looked at with each submit, which refuses what cannot be together.
 *
 * `start_ns` delays the job: its submit queues it at that time, not before; one that has passed is now.
 * On an idle machine it starts within a millisecond of its time. It may be 366 days from now at most: a
 * time of day is refused, as it is decades later. For a job that starts each 10 ms, let its callback add
 * 10 ms to the time and submit the job again, unless a flag of the program says that this was the last
 * time: a cancel may come while the job runs, and is forgotten by its next submit. A deadline counts from
 * the time. A delayed job is in no queue: max_queued, drains and rnl_pool_read_stats() do not count it
 * until its time has come; its barrier does. Its submit returns -EAGAIN only if its barrier counts too
 * many jobs, or there is no space for the jobs behind it. Delayed jobs cost the pool O(log n) each, on
 * average, and so does a cancel of one: it completes within 10 ms (the first one of a million within
 * some 100 ms). rnl_pool_close() completes delayed jobs with -ECANCELED.
 *
 * `order` has the job start behind the jobs of the order that were submitted before, with the order's
 * key. If it comes after barriers it waits for these in no queue, and the jobs behind it in the order
 * wait with it; jobs of the key that have no order, and above all the barriers' own, go on. A job only
 * waits for jobs that were submitted earlier, in this order or another one, so orders cannot deadlock:
 * also if a job of the order is in a barrier that another one comes after, and both are submitted at
 * once. Submits by different threads have the order in which they happened, if one happened before the
 * other. A submit may queue jobs of other threads that wait in the order. Its jobs count as deferred
 * until they are queued. A cancelled or expired one completes in its turn.
 *
 * `after` has the job come after further barriers, each as rnl_job_set_after() says: after the tasks that a
 * task of a graph needs, say, each of which is in a barrier of its own. It starts when the jobs that all
 * of them count at its submit are issued, and is done when these are.
 *
 * `when` makes the job a notice, which starts when the pool has room, or has ended, or at once if that is
 * so already. It is for an event loop, which cannot block in rnl_submit_wait() or rnl_pool_drain(): the
 * notice's function, its callback or its completion queue notifies the loop. A notice needs no
 * function: rnl_job_init() takes NULL. It is a job: while all workers are in functions, or callbacks,
 * it waits until one of them returns. It comes once for each submit, which never returns -EAGAIN.
 * RNL_SPACE is for backpressure: a server that gets -EAGAIN stops reading its sockets, submits a
 * notice, and reads again when it comes. A notice that finds no room at its submit starts before the
 * queued jobs then; one that finds room starts after them, so that it may submit itself again. A
 * submit may still find no space: in the part of max_queued that a key's worker, one device's workers
 * or the urgent ones have, for a chain of more than half of max_queued jobs, or in its barrier.
 * RNL_EMPTY reports the end of a pool to the loop that closed or stopped it. It may be submitted
 * before or after the close, also when the device has failed (then it completes with -EIO). Only
 * rnl_job_cancel() cancels it: rnl_pool_close(), rnl_pool_cancel() and rnl_pool_stop() do not. A drain
 * or a destroy of a closed pool waits for it, too.
 * A waiting notice is in no queue, as a delayed job. rnl_pool_close() completes those for RNL_SPACE with
 * -ECANCELED. A deadline counts from the submit, and is checked only when the notice starts. A notice
 * may start some milliseconds late.
 *
 * A submit refuses these combinations: a later job of a chain with anything but a trace id; a time with a
 * barrier to come after, or with an order; a notice with a barrier, a next job in its chain, a key, an
 * order or a time; an order with urgency, or with a key other than the order's.
 * @more: NULL removes them. The barrier that rnl_job_set_after() set stays. The struct that the job named
 *	until now must be valid until this call returns.
 * Return: 0; -EINVAL job is NULL or was not initialised, or `more` has begun anew while the job named it,
 *	which is logged; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.2
 */
RNL_API int rnl_job_set_more(struct rnl_job *job, struct rnl_job_more *more);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_MORE_H */
