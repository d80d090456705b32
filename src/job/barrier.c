/* SPDX-License-Identifier: MIT */
/* Barriers: the join of jobs, on the host and on the device; barrier.h has the design. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "job/barrier.h"
#include "job/job.h"
#include "job/rounds.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "sys/thread_state.h"
#include "sys/thread.h"
#include "job/waits.h"

static int result_of(const struct rnl_barrier *b)
{
	/* relaxed: see rnl__barrier_note() */
	return atomic_load_explicit(rnl__atomic((int32_t *)&b->result), memory_order_relaxed);
}

/* ---- told by submits and workers ----------------------------------------- */

void rnl__barrier_place(struct rnl_barrier *b, unsigned worker, uint64_t seq)
{
	/* relaxed: the drop of the issued job publishes it */
	atomic_store_explicit(rnl__atomic(&b->seq[worker]), seq, memory_order_relaxed);
}

void rnl__barrier_note(struct rnl_barrier *b, int result)
{
	int none = 0;

	if (result < 0)
		/* relaxed: the drop of the job that follows publishes it */
		atomic_compare_exchange_strong_explicit(rnl__atomic(&b->result), &none, result,
							memory_order_relaxed, memory_order_relaxed);
}

/* ---- jobs that come after ------------------------------------------------ */

/* A worker whose stream has to be waited for, and the job there. */
struct joined {
	struct rnl__inflight *inflight;
	uint64_t seq;
};

static int join_streams(struct rnl_barrier *b)
{
	struct rnl__worker *workers = b->pool->workers;
	struct joined joined[RNL_WORKERS_MAX];
	unsigned nr = 0;
	int ret = 0;

	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		/* relaxed: the look whether all is issued made it visible */
		uint64_t seq = atomic_load_explicit(rnl__atomic(&b->seq[i]), memory_order_relaxed);

		/* A stream does not wait for itself. */
		if (seq && &workers[i] != rnl__thread.worker) {
			joined[nr++] = (struct joined){ &workers[i].inflight, seq };
			rnl__inflight_fetch(&workers[i].inflight);
		}
	}
	for (unsigned i = 0; i < nr; i++)
		rnl__inflight_fetch_event(joined[i].inflight);
	for (unsigned i = 0; i < nr && !ret; i++)
		ret = rnl__inflight_join(joined[i].inflight, joined[i].seq);
	return ret;
}

int rnl__barrier_follow(struct rnl_barrier *b)
{
	return result_of(b) ? -ECANCELED : join_streams(b);
}

int rnl__barrier_snapshot(struct rnl_job *job)
{
	int round = job->after ? rnl__rounds_seal(job->after) : RNL__NO_ROUND;

	if (round < 0)
		return round;
	rnl__job_set_after_round(job, (unsigned)round);
	return 0;
}

bool rnl__barrier_ready(const struct rnl_job *job)
{
	return rnl__job_after_round(job) == RNL__NO_ROUND ||
	       rnl__rounds_issued(job->after, rnl__job_after_round(job));
}

void rnl__barrier_forget(struct rnl_job *job)
{
	if (rnl__job_after_round(job) != RNL__NO_ROUND)
		rnl__rounds_leave(job->after, rnl__job_after_round(job));
}

void rnl__barrier_defer(struct rnl_job *job)
{
	if (!rnl__rounds_defer(job->after, rnl__job_after_round(job), job))
		rnl__choose_start_deferred(job);
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
	rnl__rounds_init(b);
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

/*
 * As check(), but NULL is good, and the job may be changed.  What is refused is logged: a job whose
 * program goes on nevertheless would run without its order.
 */
static int check_both(const char *call, const struct rnl_barrier *b, const struct rnl_job *job)
{
	int ret = b ? check(b) : 0;

	if (ret == -EINVAL)
		return rnl__invalid(NULL, "%s: the barrier was not initialised", call);
	if (!ret)
		ret = rnl__job_settable(job);
	if (ret == -EINVAL)
		return rnl__invalid(NULL, "%s: the job %s", call,
				    job ? "was not initialised" : "is NULL");
	return ret;
}

int rnl_barrier_add(struct rnl_barrier *b, struct rnl_job *job)
{
	int ret = check_both("rnl_barrier_add()", b, job);

	if (ret)
		return ret;
	if (!b)
		return rnl__invalid(NULL, "rnl_barrier_add(): the barrier is NULL");
	if (job->after == b)
		return rnl__invalid(NULL, "rnl_barrier_add(): the job comes after this barrier");
	job->barrier = b;
	return 0;
}

int rnl_job_after(struct rnl_job *job, struct rnl_barrier *b)
{
	int ret = check_both("rnl_job_after()", b, job);

	if (ret)
		return ret;
	if (b && job->barrier == b)
		return rnl__invalid(NULL, "rnl_job_after(): the job is in this barrier");
	job->after = b;
	return 0;
}

int rnl_barrier_wait(struct rnl_barrier *b, int64_t timeout_ns)
{
	struct rnl_pool *pool;
	int ret = check(b);
	uint64_t begin;

	if (ret || rnl__rounds_all_done(b))
		return ret;
	if (rnl__pool_worker(b->pool))
		return -EBUSY;
	pool = b->pool;
	begin = rnl__waits_begin(pool);
	ret = rnl__rounds_await_done(b, pool->spin_ns, rnl__deadline(timeout_ns));
	rnl__waits_end(pool, begin, b);
	return ret;
}

int rnl_barrier_join(struct rnl_barrier *b)
{
	RNL__UNCANCELLED();
	int ret = check(b);

	if (ret)
		return ret;
	ret = rnl_thread_attach(b->pool);
	if (ret)
		return ret == -EBUSY ? -ENODEV : ret;
	if (!rnl__rounds_all_issued(b)) {
		if (rnl__pool_worker(b->pool))
			return -EBUSY;
		rnl__rounds_await_issued(b, b->pool->spin_ns);
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
