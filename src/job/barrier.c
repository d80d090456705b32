/* SPDX-License-Identifier: MIT */
/* Barriers: the join of jobs, on the host and on the device; barrier.h has the design. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "job/barrier.h"
#include "job/job.h"
#include "sys/latch.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "sys/thread_state.h"
#include "job/waits.h"

static _Atomic uint32_t *undone(struct rnl_barrier *b)
{
	return rnl__atomic(&b->undone);
}

static _Atomic uint32_t *unissued(struct rnl_barrier *b)
{
	return rnl__atomic(&b->unissued);
}

static int result_of(const struct rnl_barrier *b)
{
	/* relaxed: see rnl__barrier_note() */
	return atomic_load_explicit(rnl__atomic((int32_t *)&b->result), memory_order_relaxed);
}

/* ---- jobs that come after ------------------------------------------------ */

static struct rnl_job *take_waiting(struct rnl_barrier *b)
{
	/* [barrier.A2] acquire: the deferred jobs themselves; pairs with [barrier.A1] */
	return atomic_exchange_explicit(rnl__atomic(&b->waiting), NULL, memory_order_acquire);
}

static void push_waiting(struct rnl_barrier *b, struct rnl_job *first, struct rnl_job *last)
{
	void *head;

	head = rnl__peek(rnl__atomic(&b->waiting));
	do {
		last->link = head;
		/* [barrier.A1] release: the jobs that are pushed; pairs with [barrier.A2] */
	} while (!atomic_compare_exchange_weak_explicit(rnl__atomic(&b->waiting), &head, first,
							memory_order_release,
							memory_order_relaxed));
}

static void queue_all(struct rnl_job *job)
{
	struct rnl_job *next, *in_order = NULL;

	for (; job; job = next) {
		next = job->link;
		job->link = in_order;
		in_order = job;
	}
	for (job = in_order; job; job = next) {
		next = job->link;
		rnl__choose_start_deferred(job);
	}
}

/*
 * `unissued` was 0 a moment ago.  A job may be started if it was pushed before a moment at which
 * `unissued` was 0: so look again after the jobs are taken.  The jobs that are started may end
 * the life of the barrier: it is not touched afterwards.
 */
static void release_waiting(struct rnl_barrier *b)
{
	struct rnl_job *jobs, *last;

	while ((jobs = take_waiting(b)) != NULL) {
		if (rnl__latch_open(unissued(b))) {
			queue_all(jobs);
			return;
		}
		/* A new round has begun; the worker that ends it starts the jobs. */
		for (last = jobs; last->link; last = last->link)
			;
		push_waiting(b, jobs, last);
		if (rnl__latch_watch(unissued(b)))
			return;
	}
}

static void defer(struct rnl_barrier *b, struct rnl_job *job)
{
	push_waiting(b, job, job);
	/*
	 * [barrier.A3] The watch changes the word that [latch.D1] drops: the last drop comes
	 * later and finds our job, or it came before.
	 */
	if (!rnl__latch_watch(unissued(b)))
		release_waiting(b);
}

/*
 * Once the job is pushed, it may run and be done, and the caller may free the barrier.  So until
 * the end of this function the barrier is kept from being done, and the pool from being drained.
 */
void rnl__barrier_defer(struct rnl_job *job)
{
	struct rnl_barrier *b = job->after;
	struct rnl_pool *pool = job->pool;

	rnl__latch_add(undone(b), 1);
	if (rnl__latch_open(unissued(b))) {
		(void)rnl__latch_drop(undone(b), 1);
		rnl__choose_start_deferred(job);
		return;
	}
	rnl__pool_operation_begin(pool);
	defer(b, job);
	(void)rnl__latch_drop(undone(b), 1);
	rnl__pool_operation_end(pool);
}

bool rnl__barrier_ready(struct rnl_barrier *b)
{
	return rnl__latch_open(unissued(b));
}

/* ---- told by submits and workers ----------------------------------------- */

void rnl__barrier_count(struct rnl_barrier *b)
{
	rnl__latch_add(undone(b), 1);
	rnl__latch_add(unissued(b), 1);
}

void rnl__barrier_place(struct rnl_barrier *b, unsigned worker, uint64_t seq)
{
	/* relaxed: the drop of `unissued` publishes it */
	atomic_store_explicit(rnl__atomic(&b->seq[worker]), seq, memory_order_relaxed);
}

void rnl__barrier_note(struct rnl_barrier *b, int result)
{
	int none = 0;

	if (result < 0)
		/* relaxed: the drop of a latch that follows publishes it */
		atomic_compare_exchange_strong_explicit(rnl__atomic(&b->result), &none, result,
							memory_order_relaxed, memory_order_relaxed);
}

void rnl__barrier_issued(struct rnl_barrier *b, uint32_t nr)
{
	/* The jobs are not done, so the barrier exists after the drop. */
	if (rnl__latch_drop(unissued(b), nr)) {
		rnl__latch_unwatch(unissued(b));
		release_waiting(b);
	}
}

void rnl__barrier_done(struct rnl_barrier *b, uint32_t nr)
{
	(void)rnl__latch_drop(undone(b), nr);
}

static int join_streams(struct rnl_barrier *b)
{
	struct rnl_pool *pool = b->pool;
	int ret = 0;

	/* Fetches all lines that other CPUs have written at once. */
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		/* relaxed: as below */
		if (atomic_load_explicit(rnl__atomic(&b->seq[i]), memory_order_relaxed))
			__builtin_prefetch(&pool->workers[i].inflight.reached);
	for (unsigned i = 0; i < RNL_WORKERS_MAX && !ret; i++) {
		struct rnl__worker *worker = &pool->workers[i];
		/* relaxed: [latch.W1] of `unissued` made it visible */
		uint64_t seq = atomic_load_explicit(rnl__atomic(&b->seq[i]), memory_order_relaxed);

		/* A stream does not wait for itself. */
		if (seq && worker != rnl__thread.worker)
			ret = rnl__inflight_join(&worker->inflight, seq);
	}
	return ret;
}

int rnl__barrier_follow(struct rnl_barrier *b)
{
	return result_of(b) ? -ECANCELED : join_streams(b);
}

/* ---- public -------------------------------------------------------------- */

int rnl_barrier_init(struct rnl_barrier *b, struct rnl_pool *pool)
{
	int ret = rnl__pool_check(pool);

	if (!b)
		return -EINVAL;
	if (ret)
		return ret;
	memset(b, 0, sizeof(*b));
	b->pool = pool;
	b->generation = pool->generation;
	return 0;
}

/*
 * 0 for an initialised barrier of this process; -EINVAL, -EOWNERDEAD.  If the barrier has no job,
 * its pool may be gone.
 */
static int check(const struct rnl_barrier *b)
{
	return b && b->pool ? rnl__generation_check(b->generation) : -EINVAL;
}

/* As check(), and the job may be changed. */
static int check_both(const struct rnl_barrier *b, const struct rnl_job *job)
{
	int ret = check(b);

	return ret ? ret : rnl__job_settable(job);
}

int rnl_barrier_add(struct rnl_barrier *b, struct rnl_job *job)
{
	int ret = check_both(b, job);

	if (ret)
		return ret;
	if (job->after == b)
		return -EINVAL;
	job->barrier = b;
	return 0;
}

int rnl_job_after(struct rnl_job *job, struct rnl_barrier *b)
{
	int ret;

	ret = b ? check_both(b, job) : rnl__job_settable(job);
	if (ret)
		return ret;
	if (b && job->barrier == b)
		return -EINVAL;
	job->after = b;
	return 0;
}

int rnl_barrier_wait(struct rnl_barrier *b, int64_t timeout_ns)
{
	struct rnl_pool *pool;
	int ret = check(b);
	uint64_t begin;

	if (ret || rnl__latch_open(undone(b)))
		return ret;
	if (rnl__pool_worker(b->pool))
		return -EBUSY;
	pool = b->pool;
	begin = rnl__waits_begin(pool);
	ret = rnl__latch_wait(undone(b), pool->spin_ns, rnl__deadline(timeout_ns));
	rnl__waits_end(pool, begin, b);
	return ret;
}

int rnl_barrier_join(struct rnl_barrier *b)
{
	int ret = check(b);

	if (ret)
		return ret;
	ret = rnl_thread_attach(b->pool);
	if (ret)
		return ret == -EBUSY ? -ENODEV : ret;
	if (!rnl__latch_open(unissued(b))) {
		if (rnl__pool_worker(b->pool))
			return -EBUSY;
		rnl__latch_wait(unissued(b), b->pool->spin_ns, RNL__NEVER);
	}
	if (rnl__device_failed(b->pool->device))
		return -EIO;
	return join_streams(b);
}

int rnl_barrier_result(const struct rnl_barrier *b)
{
	int ret = check(b);

	return ret ? ret : result_of(b);
}
