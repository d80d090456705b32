/* SPDX-License-Identifier: MIT */
/* Holds a pool's timer thread, and measures its work on any machine: its CPU time. */
#ifndef TIMER_H
#define TIMER_H

#include "pool.h"

static clockid_t timer_clock;
static _Atomic bool timer_seen;

static inline void note_timer(struct rnl_job *job)
{
	(void)job;
	ck_assert_int_eq(rnl_worker().index, -1);
	must(pthread_getcpuclockid(pthread_self(), &timer_clock));
	timer_seen = true;
}

/* Finds a pool's timer thread, which completes a job cancelled while the worker is busy. */
static inline void find_timer(struct rnl_pool *pool)
{
	struct gate plug = GATE_INIT;
	struct rnl_job busy, job;

	timer_seen = false;
	hold_workers(pool, &plug, &busy, 1);
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_on_done(&job, note_timer));
	must(rnl_submit(pool, &job));
	must(rnl_job_cancel(&job));
	ck_eventually(timer_seen);
	gate_open(&plug);
	must(rnl_pool_drain(pool, RNL_FOREVER));
}

static inline void gated_callback(struct rnl_job *job)
{
	gate_wait(job->user);
}

/* Holds the timer thread at the gate, in the callback of a cancelled job.  All workers are busy. */
static inline void hold_timer(struct rnl_pool *pool, struct gate *gate, struct rnl_job *job)
{
	job_of(job, noop_fn, gate);
	must(rnl_job_set_on_done(job, gated_callback));
	must(rnl_submit(pool, job));
	must(rnl_job_cancel(job));
	gate_await(gate, 1);
}

/* Returns the timer thread's CPU time in seconds. */
static inline double timer_seconds(void)
{
	struct timespec ts;

	must(clock_gettime(timer_clock, &ts));
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Returns the least CPU time that the timer thread uses for @fn, of several calls. */
static inline double least_timer_seconds(void (*fn)(void *arg), void *arg)
{
	double least = 1e9;

	for (int i = 0; i < 3; i++) {
		double start = timer_seconds(), took;

		fn(arg);
		took = timer_seconds() - start;
		least = took < least ? took : least;
	}
	return least;
}

#endif /* TIMER_H */
