/* SPDX-License-Identifier: MIT */
/* Figures: counters, latencies and the health of a pool. */
#ifndef RUNNEL_STATS_H
#define RUNNEL_STATS_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Distribution of a time over the jobs that were timed. The quantiles come from a histogram with
 * buckets that are a sixteenth of their value wide.
 */
struct rnl_latency {
	uint64_t nr;		/* timed jobs; if 0, all fields are 0 */
	uint64_t sum_ns;
	uint64_t p50_ns, p99_ns, p999_ns;
	uint64_t max_ns;
};
#define RNL_LATENCY_INIT { 0, 0, 0, 0, 0, 0 }

/* The guard's findings: enum rnl_guard. */
struct rnl_guard_stats {
	uint64_t functions;	/* functions that the guard has watched */
	uint64_t legacy;	/* watched functions that used the legacy default stream */
	uint64_t waits;		/* ... that waited for a stream or the device */
	uint64_t memory;	/* ... that allocated or freed memory out of stream order */
	uint64_t waits_or_memory; /* ... that waited or allocated: CUDA has one error for both */
	uint64_t pageable;	/* ... that copied pageable memory */
	uint64_t unclear;	/* findings with an unclear cause: the function did one of the
				 * above, or another thread used the legacy stream */
	uint64_t twice;		/* second calls of watched functions */
	uint64_t postponed;	/* runs of functions that the guard could not watch yet, because
				 * other workers had not stopped */
	uint64_t beyond;	/* runs of functions that the guard never watches: it tracks 256 */
	uint64_t strays;	/* functions that used stream 0 in a pool of private streams, with
				 * or without a guard: RNL_STREAM_PRIVATE */
};
#define RNL_GUARD_STATS_INIT { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Figures of a pool, or of one worker. Each accepted job is queued, running, in flight, held or
 * done. Deferred jobs, later jobs of chains, and jobs that wait for the end of a barrier's round
 * count as queued in the figures of the pool, and not in those of a worker.
 */
struct rnl_pool_stats {
	uint32_t size;		/* sizeof(struct rnl_pool_stats) */
	uint32_t nr_workers;	/* workers that serve now, and classes' own */
	uint64_t accepted;	/* jobs accepted since the pool was created; a submit that is just
				 * being refused may count, too */
	uint64_t done;		/* jobs done, with any result */
	uint64_t failed;	/* done jobs with a negative result */
	uint64_t cancelled;	/* done jobs with -ECANCELED, function not called; no notices */
	uint64_t timed_out;	/* done jobs with -ETIMEDOUT, function not called */
	uint64_t queued;	/* now: accepted, not yet taken by a worker */
	uint64_t in_flight;	/* now: issued, not yet completed on the device */
	uint64_t stolen;	/* jobs that ran on another worker than they were queued at */
	uint64_t slept;		/* times that a worker went to sleep without work */
	struct rnl_latency queue_wait; /* from the submit to the function's start */
	struct rnl_latency host; /* from the function's start to its return */
	struct rnl_latency device; /* from the function's return until the worker saw that the
				 * device had completed the job's work */
	uint64_t staged_bytes;	/* bytes that CPUs copied because memory was pageable;
				 * rnl_memory_get() would avoid these copies */
	uint64_t untraced;	/* records of jobs that a trace lost: rnl_trace_start() */
	/* Only of a pool; 0 for a worker: */
	uint64_t pinned_locked;	/* bytes page-locked now for rnl_memory_get() */
	uint64_t pinned_used;	/* bytes of pinned buffers in use now */
	uint64_t device_calls;	/* slow calls since the process started: allocations and frees of
				 * device memory, without scratch, and creations of events */
	struct rnl_guard_stats guard;
	/* Of a pool, or of one worker: */
	uint64_t held;		/* now: jobs that wait only for their holds: rnl_job_hold() */
	uint64_t gathered;	/* jobs with work issued together with other jobs: RNL_GATHER */
	uint64_t graphs;	/* graphs launched for gathered jobs: RNL_GATHER */
	uint64_t replayed;	/* jobs replayed without a call of the function: RNL_REPLAY */
};
#define RNL_POOL_STATS_INIT \
	{ sizeof(struct rnl_pool_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
	  RNL_LATENCY_INIT, RNL_LATENCY_INIT, RNL_LATENCY_INIT, 0, 0, 0, 0, 0, \
	  RNL_GUARD_STATS_INIT, 0, 0, 0, 0 }

#define RNL_ALL_WORKERS (-1)	/* the pool in place of one worker */

/*
 * Reads the figures of a pool, or of one worker. It reads counters and histograms once, and stops
 * no worker. Cancelled and expired jobs that the timer thread completed are in no worker's figures.
 * A worker that has left the pool keeps its counts, and has nr_workers 0.
 * @worker: a worker's index, from rnl_worker().index; RNL_ALL_WORKERS: the pool's figures.
 * @stats: filled in; its size must be set.
 * Ordering: each figure is right at some moment during the call. Together they are no snapshot.
 * Return: 0; -EINVAL pool or stats is NULL, stats has a wrong size, or no worker has had this index
 *	since the pool was created; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_read_stats(struct rnl_pool *pool, int worker, struct rnl_pool_stats *stats);

/*
 * Writes the figures of a pool and of its workers as text for Prometheus (exposition format 0.0.4).
 * Each sample has the label pool="NAME"; a worker's samples also have, say, worker="3" and
 * device="cuda:1". The timer thread, which completes cancelled and expired jobs, has worker="timer"
 * and no device. If the pool has classes, their samples have class="NAME" and, since names may be
 * equal, index="N"; those of jobs without a class have index="0". A histogram has a bucket for each
 * power of two. A connection to the socket of the attribute top gets this text, with the buckets of
 * struct rnl_latency that have counts, and a line "# EOF", and is closed. A forked child without an
 * exec keeps the socket open, but does not answer.
 * @name: NULL: the name of the pool's attributes, or "rnl-worker".
 * @buf: receives the text and a NUL; may be NULL if bytes is 0.
 * @bytes: size of buf.
 * Return: the length of the text without its NUL. If the length is not less than bytes, buf is an
 *	empty string: call again with a larger buffer and some spare, because counts grow. -EINVAL
 *	pool or buf is NULL; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_stats_text(struct rnl_pool *pool, const char *name, char *buf, size_t bytes);

enum rnl_health_state {
	RNL_HEALTH_OK = 0,
	RNL_HEALTH_OVERLOADED = 1,	/* at least 3/4 of max_queued jobs are queued at the workers, or
					 * in a class 3/4 of the class's max_queued */
	RNL_HEALTH_STUCK = 2,		/* a worker has spent more than stuck_ms on one job, or a lease
					 * of a resident kernel has not ended for so long */
	RNL_HEALTH_FAILED = 3		/* the device has failed: a new process is needed */
};

/* The place of a job that has started and is not done. */
enum rnl_unfinished_where {
	RNL_IN_FUNCTION = 0,	/* its function or its callback runs */
	RNL_IN_DEVICE = 1,	/* its function has returned, and the device works */
	RNL_IN_HOLD = 2		/* it waits only for its holds: rnl_job_hold() */
};

/* A job that has started and is not done, or whose callback runs. */
struct rnl_unfinished {
	const struct rnl_job *job;	/* only to compare: the job may be done by now */
	uint32_t worker;		/* its worker; the timer thread is RNL_WORKERS_MAX */
	uint32_t where;			/* enum rnl_unfinished_where */
	uint64_t for_ns;		/* time spent there, accurate to some ms */
};

struct rnl_health {
	uint32_t size;			/* sizeof(struct rnl_health) */
	uint32_t state;			/* enum rnl_health_state: the worst state that is true */
	int32_t device_error;		/* CUDA's code if the device has failed; -1: no code */
	uint32_t nr_stuck;		/* workers that are stuck; a resident kernel counts as one */
	uint32_t stuck_worker;		/* the worker that has been stuck for the longest time;
					 * RNL_WORKERS_MAX: the timer thread, in a callback, or no
					 * worker, but a resident kernel */
	uint32_t on_device;		/* 1: it waits for the device; 0: it is in the function */
	uint64_t stuck_ms;		/* time that it has been stuck, accurate to some ms */
	const struct rnl_job *stuck_job; /* its job; only to compare: it may be done by now */
	uint64_t queued;		/* jobs in the queues of workers and classes */
	uint64_t held;			/* jobs that wait only for their holds; not stuck */
	uint64_t held_ms;		/* longest such wait, accurate to some ms */
	struct rnl_unfinished *unfinished; /* caller's array of max_unfinished entries, or NULL */
	uint32_t max_unfinished;	/* 0: unfinished jobs are not listed */
	uint32_t nr_unfinished;		/* jobs that have started and are not done, even those that
					 * do not fit in the array; 0 if max_unfinished is 0 */
	const char *stuck_kernel;	/* the request kernel, if a resident kernel has been stuck for
					 * the longest time: its function does not return. Valid while
					 * its batcher exists. NULL: it is a worker. Since: 0.3 */
};
#define RNL_HEALTH_INIT \
	{ sizeof(struct rnl_health), 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, NULL, 0, 0, NULL }

/*
 * Reads the health of a pool, for a server's health check. With an array, it also lists the jobs
 * that have started and are not done, including jobs of maps and batchers, but no job that waits
 * only for its barrier. After an rnl_pool_stop() that timed out, the pool waits for these jobs.
 * @health: filled in; its size, unfinished and max_unfinished must be set.
 * Context: any thread, also while workers are stuck. Without an array it is cheaper than
 *	rnl_pool_read_stats(). A job that changes its state meanwhile may be missing in the array.
 * Return: 0; -EINVAL pool or health is NULL, health has a wrong size, or unfinished is NULL and
 *	max_unfinished is not 0; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_health(struct rnl_pool *pool, struct rnl_health *health);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_STATS_H */
