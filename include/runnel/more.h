/* SPDX-License-Identifier: MIT */
/* Rare settings of jobs: a start time, an order, several barriers, a notice, a trace id. */
#ifndef RUNNEL_MORE_H
#define RUNNEL_MORE_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A further barrier that a job comes after: struct rnl_job_more. Each job has its own list of them.
 * The list begins as zero, and is not changed while the job is submitted and not done.
 */
struct rnl_after {
	struct rnl_barrier *barrier;
	uint64_t round;		/* used by the library */
};

enum rnl_when {
	RNL_NOW = 0,
	RNL_SPACE = 1,	/* the pool has room: at most half of max_queued jobs are in the workers'
			 * queues, at most half are deferred, at most half are later jobs of chains,
			 * and no thread waits in rnl_submit_wait() for places of the latter two */
	RNL_EMPTY = 2	/* the pool is closed, and all other jobs are done or wait to be reaped */
};

/*
 * Rare settings of a job: rnl_job_set_more(). The struct is memory of the program, for one job, and
 * is not changed while the job is submitted and not done. It begins as RNL_JOB_MORE_INIT. The
 * second group of fields belongs to the library.
 */
struct rnl_job_more {
	int64_t start_ns;	/* a time of rnl_clock(): the job is not queued before; 0: none */
	struct rnl_order *order; /* NULL: none */
	struct rnl_after *after; /* further barriers that it comes after: rnl_job_set_after() */
	uint32_t nr_after;
	uint32_t when;		/* enum rnl_when: event that the job waits for, as a notice */
	uint8_t trace_id[16];	/* shown in a trace with the job: a W3C trace-id, say; zero: the id
				 * of the job before it or that submits it: rnl_job_trace_id() */

	struct rnl_job *job;
	struct rnl_barrier *first; /* of rnl_job_set_after() */
	uint64_t gate;		/* whether the job is ready in its order, and at the order's head */
	void *next, *before, *child, *cancelled; /* while the job is delayed */
	uint8_t carried_id[16];	/* of rnl_job_trace_id() */
};
#define RNL_JOB_MORE_INIT \
	{ 0, NULL, NULL, 0, RNL_NOW, { 0 }, NULL, NULL, 0, NULL, NULL, NULL, NULL, { 0 } }

/*
 * An order: jobs that start in the order of their submits, although they come after different
 * barriers. For example, the collectives of a communicator must start in one order on all ranks.
 * All fields belong to the library.
 *
 *		init	submit	fini
 *	submit	X	-	X	-: no outside synchronisation needed
 */
struct rnl_order {
	struct rnl_pool *pool;
	uint64_t key;
	void *waiting;		/* jobs that arrived while another job waits */
	struct rnl_job *first;	/* jobs that were taken off `waiting`, in their order */
	uint32_t generation;
	uint32_t waits;		/* whether a job waits at the gate, and the classes of those behind */
};

/*
 * Makes an order.
 * @key: the key of all its jobs, so one worker runs them: rnl_job_set_key(), RNL_KEY_WORKER(). In a
 *	pool of several devices, all placed jobs of the order are placed on one device.
 * Return: 0; -EINVAL order or pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_order_init(struct rnl_order *order, struct rnl_pool *pool, uint64_t key);

/*
 * Ends the use of an order. Its memory may be reused afterwards.
 * @order: may be NULL. No submit to the order may run concurrently or later.
 * Context: blocks until all its jobs are queued, that is, until the jobs of their barriers are
 *	issued. Not on a worker of the pool, because those jobs may need that worker.
 * Since: 0.1
 */
RNL_API void rnl_order_fini(struct rnl_order *order);

/*
 * Sets the rare settings of a job: a start time, an order, further barriers, the event that a
 * notice waits for, a trace id. Each submit reads the struct, and refuses wrong combinations.
 *
 * `start_ns` delays the job: after its submit, the job is queued at that time. A time in the past
 * means now. On an idle machine the job starts within a millisecond of its time. A time more than
 * 366 days from now is refused, as is a time of CLOCK_REALTIME, which is decades later. For a job
 * that starts every 10 ms, let its callback add 10 ms to the time and submit the job again, until a
 * flag of the program stops it. A cancel cannot replace the flag: the next submit forgets a cancel
 * that came while the job ran. A deadline counts from the start time. Before it, the job's barrier
 * counts it, but max_queued, drains and rnl_pool_read_stats() do not. Its submit returns -EAGAIN
 * only if its class is full, if its barrier counts too many jobs, or if the later jobs of its chain
 * find no space. A delayed job costs O(log n) on average, and so does its cancel. A cancelled one
 * completes within 10 ms (the first of a million within some 100 ms). rnl_pool_close() cancels
 * delayed jobs.
 *
 * `order` gives the job the order's key, and starts it after the jobs of the order that were
 * submitted before. While a job waits for its barriers, it is in no queue, and later jobs of the
 * order wait with it. Jobs with this key and no order go on, such as the barriers' own jobs. Orders
 * cannot deadlock, because a job only waits for jobs that were submitted earlier, in this order or
 * another, even if it comes after a barrier with a job of the same order that is being submitted
 * concurrently. Submits by different threads are ordered only if one happened before the other. A
 * submit may queue jobs of other threads that wait in the order. The order's jobs count as deferred
 * until they are queued. A cancelled or expired job completes at its turn.
 *
 * `after` makes the job come after further barriers, under the rules of rnl_job_set_after(). In a
 * task graph, for example, each task is in a barrier of its own, and comes after the barriers of
 * the tasks that it needs. The job starts when all jobs that the barriers count at its submit are
 * issued, and is not done before those jobs are done.
 *
 * `when` makes the job a notice, which starts when the pool has room or has ended, immediately if
 * that is true already. An event loop cannot block in rnl_submit_wait() or rnl_pool_drain(): the
 * notice's function, callback or completion queue notifies it. A notice needs no function:
 * rnl_job_init() takes NULL. Like any job it needs a worker, so it waits while all workers are in
 * functions or callbacks. It starts once for each submit, which never returns -EAGAIN.
 * RNL_SPACE is for backpressure: a server that gets -EAGAIN stops reading its sockets, submits a
 * notice, and reads again when the notice arrives. If there is no room at its submit, the notice
 * waits, and starts before the jobs that are queued by then; otherwise it starts after them, so it
 * may submit itself again. A submit may still find no space: in the part of max_queued of a key's
 * worker, or of one device's workers; for a chain of more than half of
 * max_queued jobs; in its barrier; or in its class, whose jobs are in no worker's queue: if a class
 * is full, submit again when one of its jobs is done.
 * RNL_EMPTY reports the end of a pool to the loop that closed or stopped it. This notice may be
 * submitted before or after the close, also when the device has failed (it completes with -EIO
 * then). Only rnl_job_cancel() cancels it; rnl_pool_close(), rnl_pool_cancel() and rnl_pool_stop()
 * do not. A drain or destroy of a closed pool waits for it. rnl_pool_close() completes notices for
 * RNL_SPACE with -ECANCELED. A waiting notice is in no queue. A deadline counts from the submit,
 * and is checked when the notice starts, which may be some ms late.
 *
 * A submit refuses these combinations: a later job of a chain with anything but a trace id; a time
 * with a barrier to come after, or with an order; a notice with a barrier, a next job in its chain,
 * a key, an order or a time; an order with a key other than the order's.
 * @more: NULL removes the settings, but not the barrier of rnl_job_set_after(). The struct that the
 *	job named until now must be valid until this call returns.
 * Return: 0; -EINVAL job is NULL or was not initialised, or `more` was initialised again while the
 *	job named it, which is logged; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_more(struct rnl_job *job, struct rnl_job_more *more);

/*
 * Reads the trace id that a job got at its last submit. That is `trace_id` of its struct rnl_job_more,
 * or, if this is zero, the id of another job: a later job of a chain gets that of the nearest job before
 * it with a struct rnl_job_more; any other job gets that of the job in whose function or callback the
 * submit is called. A job without a struct rnl_job_more has no id, and the jobs that it submits get
 * none; the same is true of maps and of batchers' requests. So a server sets the id of a request's
 * first job only, and gives the later jobs a struct rnl_job_more.
 * @job: is not being submitted by another thread. NULL: the job whose function or callback the calling
 *	thread is in.
 * @id: receives 16 bytes; zero if there is no id.
 * Context: any thread; does not block. Ordering: none; the id does not change after the submit.
 * Return: 1 there is an id; 0 there is none; -EINVAL id is NULL, or job was never submitted;
 *	-EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_trace_id(const struct rnl_job *job, uint8_t *id);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_MORE_H */
