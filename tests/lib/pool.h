/* SPDX-License-Identifier: MIT */
/* Pools and jobs: helpers of every test of a pool. */
#ifndef POOL_H
#define POOL_H

#include <runnel/batch.h>
#include <runnel/map.h>
#include <runnel/stats.h>

#include "gate.h"
#include "skip.h"
#include "submits.h"

/* Creates a pool on the device under test; @attr may be NULL. */
static inline struct rnl_pool *pool_with(const struct rnl_pool_attr *attr, unsigned nr_workers)
{
	struct rnl_pool_attr chosen = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	if (attr)
		chosen = *attr;
	chosen.nr_workers = nr_workers;
	chosen.device = test_device();
	must(rnl_pool_create(&pool, &chosen));
	ck_assert_ptr_nonnull(pool);
	return pool;
}

/* Like pool_with(), with the attributes in the call: pool_of(2, .max_queued = 1). */
#define pool_of(nr_workers, ...) \
	pool_with(&(struct rnl_pool_attr){ .size = sizeof(struct rnl_pool_attr), ##__VA_ARGS__ }, \
		  nr_workers)

static inline int noop_fn(struct rnl_job *job)
{
	(void)job;
	return 0;
}

/* Job function: waits at the gate `user`. */
static inline int gated_fn(struct rnl_job *job)
{
	gate_wait(job->user);
	return 0;
}

/* Job function: returns `user`. */
static inline int result_fn(struct rnl_job *job)
{
	return (int)(intptr_t)job->user;
}

static inline int noop_chunk(const struct rnl_chunk *chunk)
{
	(void)chunk;
	return 0;
}

static inline int noop_batch(const struct rnl_batch *batch)
{
	(void)batch;
	return 0;
}

/* Job function: adds 1 to the _Atomic int `user`. */
static inline int count_fn(struct rnl_job *job)
{
	atomic_fetch_add((_Atomic int *)job->user, 1);
	return 0;
}

static inline void job_of(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	must(rnl_job_init(job, fn));
	job->user = user;
}

/* Holds all @nr workers of a pool at the gate, each with one job of @jobs. */
static inline void hold_workers(struct rnl_pool *pool, struct gate *gate, struct rnl_job *jobs,
				unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		job_of(&jobs[i], gated_fn, gate);
		must(rnl_submit(pool, &jobs[i]));
	}
	gate_await(gate, nr);
}

/* Waits for a job.  Returns its result. */
static inline int result_of(struct rnl_job *job)
{
	must(rnl_job_wait(job, RNL_FOREVER));
	ck_assert_int_eq(rnl_job_wait(job, 0), 0);
	return job->result;
}

/* Initialises a job and submits it. */
static inline void submit_job(struct rnl_pool *pool, struct rnl_job *job,
			      int (*fn)(struct rnl_job *job), void *user)
{
	job_of(job, fn, user);
	must(rnl_submit(pool, job));
}

static inline void job_in(struct rnl_barrier *barrier, struct rnl_job *job,
			  int (*fn)(struct rnl_job *job), void *user)
{
	job_of(job, fn, user);
	must(rnl_barrier_add(barrier, job));
}

/* Initialises a job, adds it to the barrier, and submits it. */
static inline void submit_in(struct rnl_pool *pool, struct rnl_barrier *barrier,
			     struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	job_in(barrier, job, fn, user);
	must(rnl_submit(pool, job));
}

/* Initialises a barrier with one job, which a worker holds at the gate. */
static inline void hold_barrier(struct rnl_pool *pool, struct rnl_barrier *barrier,
				struct gate *gate, struct rnl_job *job)
{
	must(rnl_barrier_init(barrier, pool));
	submit_in(pool, barrier, job, gated_fn, gate);
	gate_await(gate, 1);
}

/* Waits for a barrier.  Returns its result. */
static inline int result_of_barrier(struct rnl_barrier *barrier)
{
	must(rnl_barrier_wait(barrier, RNL_FOREVER));
	return barrier->result;
}

/* Submits a job and waits for it.  Returns its result. */
static inline int submit_and_wait(struct rnl_pool *pool, struct rnl_job *job)
{
	must(rnl_submit(pool, job));
	return result_of(job);
}

/* Job function: fills the worker's own 64 bytes of the array `user`. */
static inline int fill_own_fn(struct rnl_job *job)
{
	return rnl_fill((char *)job->user + 64 * rnl_worker().index, 1, 64);
}

static inline int index_fn(struct rnl_job *job)
{
	(void)job;
	return rnl_worker().index;
}

/* Returns a key whose jobs run on that worker. */
static inline uint64_t key_on(struct rnl_pool *pool, int worker)
{
	struct rnl_job job;

	for (uint64_t key = 0; key < 10000; key++) {
		job_of(&job, index_fn, NULL);
		must(submit_by_key(pool, &job, key));
		if (result_of(&job) == worker)
			return key;
	}
	ck_abort_msg("no key leads to worker %d", worker);
	return 0;
}

static inline struct rnl_pool_stats figures_of(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	ck_assert_uint_eq(stats.size, sizeof(stats));
	return stats;
}

/* Function of a struct call: drains the pool @arg. */
static inline int drain_fn(void *arg)
{
	return rnl_pool_drain(arg, RNL_FOREVER);
}

/* A resize; resize_fn() is the function of a struct call. */
struct resize {
	struct rnl_pool *pool;
	unsigned nr;
};

static inline int resize_fn(void *arg)
{
	struct resize *r = arg;

	return rnl_pool_resize(r->pool, r->nr);
}

/* A submit that waits for space; submit_waiting() is the function of a struct call. */
struct submitting {
	struct rnl_pool *pool;
	struct rnl_job *job;
	int64_t timeout_ns;
	uint64_t key;
	bool keyed;
};

static inline int submit_waiting(void *arg)
{
	struct submitting *s = arg;

	return s->keyed ? submit_by_key_wait(s->pool, s->job, s->key, s->timeout_ns) :
			  rnl_submit_wait(s->pool, s->job, s->timeout_ns);
}

#endif /* POOL_H */
