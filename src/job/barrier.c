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
#include "pool/stream.h"
#include "sys/thread_state.h"
#include "sys/thread.h"
#include "sys/tsan.h"
#include "job/waits.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int result_of(const struct rnl_barrier *b)
{
	/* relaxed: see rnl__barrier_note() */
	return atomic_load_explicit(rnl__atomic((int32_t *)&b->result), memory_order_relaxed);
}

/* ---- told by submits and workers ----------------------------------------- */

/* A full barrier has a place for each worker; in a small one a place says whose it is. */
#define PLACE_BITS 6

_Static_assert(RNL_WORKERS_MAX == 1 << PLACE_BITS, "a place has six bits for its worker");
_Static_assert(sizeof(struct rnl_small_barrier) <= 2 * RNL__CACHE_LINE, "two cache lines");

static _Atomic uint64_t *place_at(const struct rnl_barrier *b, unsigned i)
{
	/* They stand behind the rounds, of which a small barrier has fewer. */
	return rnl__atomic((uint64_t *)&b->rounds[b->nr_rounds] + i);
}

static bool is_small(const struct rnl_barrier *b)
{
	return b->nr_places < RNL_WORKERS_MAX;
}

static void place_small(struct rnl_barrier *b, unsigned worker, uint64_t seq)
{
	const uint64_t place = seq << PLACE_BITS | worker;

	for (unsigned i = 0; i < b->nr_places; i++) {
		uint64_t now = rnl__peek(place_at(b, i));

		/* relaxed, both: the drop of the issued job publishes it; a place stays its worker's */
		if (!now && atomic_compare_exchange_strong_explicit(place_at(b, i), &now, place,
								    memory_order_relaxed,
								    memory_order_relaxed))
			return;
		if (now % RNL_WORKERS_MAX == worker) {
			/* relaxed */
			atomic_store_explicit(place_at(b, i), place, memory_order_relaxed);
			return;
		}
	}
	/* relaxed: the same */
	atomic_fetch_or_explicit(rnl__atomic(&b->others), UINT64_C(1) << worker,
				 memory_order_relaxed);
}

void rnl__barrier_place(struct rnl_barrier *b, unsigned worker, uint64_t seq)
{
	if (is_small(b))
		place_small(b, worker, seq);
	else
		/* relaxed: the drop of the issued job publishes it */
		atomic_store_explicit(place_at(b, worker), seq, memory_order_relaxed);
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

/* A worker whose stream has to be waited for, and the job there; UINT64_MAX: the latest. */
struct joined {
	unsigned worker;
	uint64_t seq;
};

/* The workers that have a job of the barrier, and the last job of each; how many. */
static unsigned list_joined(struct rnl_barrier *b, struct joined *joined)
{
	/* relaxed, both: the look whether all is issued made them visible */
	uint64_t others = atomic_load_explicit(rnl__atomic(&b->others), memory_order_relaxed);
	unsigned nr = 0;

	for (unsigned i = 0; i < b->nr_places; i++) {
		/* relaxed */
		uint64_t place = atomic_load_explicit(place_at(b, i), memory_order_relaxed);
		const unsigned worker = is_small(b) ? place % RNL_WORKERS_MAX : i;

		if (place)
			joined[nr++] = (struct joined){
				worker, is_small(b) ? place >> PLACE_BITS : place,
			};
	}
	for (; others; others &= others - 1)
		joined[nr++] = (struct joined){ (unsigned)__builtin_ctzll(others), UINT64_MAX };
	return nr;
}

static int join_streams(struct rnl_barrier *b)
{
	struct rnl__worker *workers = b->pool->workers;
	struct rnl__worker *own = rnl__pool_worker(b->pool) ? rnl__thread.worker : NULL;
	struct joined joined[RNL_WORKERS_MAX];
	const unsigned nr = list_joined(b, joined);
	int ret = 0;

	for (unsigned i = 0; i < nr; i++)
		rnl__inflight_fetch(&workers[joined[i].worker].inflight);
	for (unsigned i = 0; i < nr; i++)
		rnl__inflight_fetch_event(&workers[joined[i].worker].inflight);
	for (unsigned i = 0; i < nr && !ret; i++) {
		const unsigned worker = joined[i].worker;
		uint64_t never = 0;

		ret = rnl__inflight_join(&workers[worker].inflight, joined[i].seq,
					 own ? &own->joined[worker] : &never);
	}
	return ret;
}

int rnl__barrier_follow(struct rnl_barrier *b)
{
	rnl__tsan_acquire(b);
	return result_of(b) ? -ECANCELED : join_streams(b);
}

int rnl__barrier_snapshot(struct rnl_job *job)
{
	int round = rnl__rounds_seal(job->after);

	if (round < 0)
		return round;
	rnl__job_set_after_round(job, (unsigned)round);
	return 0;
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

static int init(struct rnl_barrier *b, size_t bytes, unsigned nr_rounds, unsigned nr_places,
		struct rnl_pool *pool, const char *call)
{
	int ret = rnl__pool_given(pool, call);

	if (ret)
		return ret;
	if (!b)
		return rnl__invalid(&pool->log, "%s: the barrier is NULL", call);
	memset(b, 0, bytes);
	rnl__rounds_init(b, nr_rounds);
	b->nr_places = (uint16_t)nr_places;
	b->pool = pool;
	b->generation = pool->generation;
	return 0;
}

int rnl_barrier_init(struct rnl_barrier *b, struct rnl_pool *pool)
{
	return init(b, sizeof(*b), COUNT(b->rounds), COUNT(b->places), pool,
		    "rnl_barrier_init()");
}

int rnl_small_barrier_init(struct rnl_small_barrier *small, struct rnl_pool *pool)
{
	return init(rnl_small(small), sizeof(*small), COUNT(small->rounds), COUNT(small->places),
		    pool, "rnl_small_barrier_init()");
}

/* If the barrier has no job, its pool may be gone. */
int rnl__barrier_check(const struct rnl_barrier *b)
{
	return b && b->pool ? rnl__generation_check(b->generation) : -EINVAL;
}

int rnl__barrier_given(const struct rnl_barrier *b, const char *call)
{
	const int ret = rnl__barrier_check(b);

	if (ret != -EINVAL)
		return ret;
	return rnl__invalid(NULL, b ? "%s: the barrier was not initialised: rnl_barrier_init()" :
				      "%s: the barrier is NULL", call);
}

/*
 * As rnl__barrier_given(), but NULL is good, and the job may be changed.  What is refused is
 * logged: a job whose program goes on nevertheless would run without its order.
 */
static int check_both(const char *call, const struct rnl_barrier *b, const struct rnl_job *job)
{
	const int ret = b ? rnl__barrier_given(b, call) : 0;

	return ret ? ret : rnl__job_settable(job, call);
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
	int ret = rnl__barrier_given(b, "rnl_barrier_wait()");
	uint64_t begin;

	if (ret || rnl__rounds_all_done(b))
		return ret;
	if (rnl__pool_worker(b->pool))
		return timeout_ns ? rnl__pool_waits_for_itself(b->pool, "rnl_barrier_wait()") : -EBUSY;
	pool = b->pool;
	begin = rnl__waits_begin(pool);
	ret = rnl__rounds_await_done(b, pool->spin_ns, rnl__deadline(timeout_ns));
	rnl__waits_end(pool, begin, b);
	return ret;
}

int rnl_barrier_join(struct rnl_barrier *b)
{
	RNL__UNCANCELLED();
	int ret = rnl__barrier_given(b, "rnl_barrier_join()");

	if (!ret)
		ret = rnl__stream_attach_caller(b->pool, "rnl_barrier_join()", -ENODEV);
	if (ret)
		return ret;
	rnl__notes_spoil("joins a barrier");
	if (rnl__thread.guard)
		rnl__thread.guard->joins = true;
	if (!rnl__rounds_all_issued(b)) {
		if (rnl__pool_worker(b->pool))
			return rnl__pool_waits_for_itself(b->pool, "rnl_barrier_join()");
		rnl__rounds_await_issued(b, b->pool->spin_ns);
	}
	if (rnl__pool_failed(b->pool))
		return -EIO;
	return join_streams(b);
}

int rnl_barrier_result(const struct rnl_barrier *b)
{
	int ret = rnl__barrier_given(b, "rnl_barrier_result()");

	return ret ? ret : result_of(b);
}
