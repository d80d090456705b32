/* SPDX-License-Identifier: MIT */
/* A pool's keeper: it is held, and its CPU time tells how much work something is on any machine. */
#ifndef KEEPER_H
#define KEEPER_H

#include "pool.h"

static clockid_t keeper_clock;
static _Atomic bool keeper_seen;

static inline void note_keeper(struct rnl_job *job)
{
	(void)job;
	ck_assert_int_eq(rnl_worker().index, -1);
	must(pthread_getcpuclockid(pthread_self(), &keeper_clock));
	keeper_seen = true;
}

/* Finds the keeper of a pool of one worker: it completes what is cancelled behind a busy worker. */
static inline void find_keeper(struct rnl_pool *pool)
{
	struct gate plug = GATE_INIT;
	struct rnl_job busy, job;

	keeper_seen = false;
	hold_workers(pool, &plug, &busy, 1);
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_on_done(&job, note_keeper));
	must(rnl_submit(pool, &job));
	must(rnl_job_cancel(&job));
	ck_eventually(keeper_seen);
	gate_open(&plug);
	must(rnl_pool_drain(pool, RNL_FOREVER));
}

static inline void gated_callback(struct rnl_job *job)
{
	gate_wait(job->user);
}

/* Holds the keeper of a pool whose workers are busy, in the callback of a cancelled job, at the gate. */
static inline void hold_keeper(struct rnl_pool *pool, struct gate *gate, struct rnl_job *job)
{
	job_of(job, noop_fn, gate);
	must(rnl_job_set_on_done(job, gated_callback));
	must(rnl_submit(pool, job));
	must(rnl_job_cancel(job));
	gate_await(gate, 1);
}

/* The CPU seconds that the keeper has taken. */
static inline double keeper_seconds(void)
{
	struct timespec ts;

	must(clock_gettime(keeper_clock, &ts));
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The least CPU time that @fn takes the keeper, of several calls. */
static inline double least_keeper_seconds(void (*fn)(void *arg), void *arg)
{
	double least = 1e9;

	for (int i = 0; i < 3; i++) {
		double start = keeper_seconds(), took;

		fn(arg);
		took = keeper_seconds() - start;
		least = took < least ? took : least;
	}
	return least;
}

#endif /* KEEPER_H */
