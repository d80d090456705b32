/* SPDX-License-Identifier: MIT */
/* Barriers: the join of jobs, on the host and on the device; barrier.h has the design. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <runnel/more.h>

#include "job/barrier.h"
#include "job/job.h"
#include "job/order.h"
#include "job/round_words.h"
#include "job/rounds.h"
#include "pool/choose.h"
#include "pool/classes.h"
#include "pool/inherit.h"
#include "pool/pool.h"
#include "pool/attach.h"
#include "sys/thread_state.h"
#include "sys/thread.h"
#include "sys/tsan.h"
#include "job/waits.h"

static int barrier_result(const struct rnl_barrier *b)
{
	/* relaxed: see rnl__barrier_note() */
	return atomic_load_explicit(rnl__atomic((int32_t *)&b->result), memory_order_relaxed);
}

/* ---- reports from submits and workers ------------------------------------ */

void rnl__barrier_note(struct rnl_barrier *b, int result)
{
	int none = 0;

	if (result < 0)
		/* relaxed: the job's drop, which follows, publishes it */
		atomic_compare_exchange_strong_explicit(rnl__atomic(&b->result), &none, result,
							memory_order_relaxed, memory_order_relaxed);
}

/* ---- jobs that come after ------------------------------------------------ */

/* Returns the @i-th barrier that the job comes after, or NULL if there are no more. */
static struct rnl_barrier *barrier_before(const struct rnl_job *job, unsigned i)
{
	struct rnl_barrier *first = rnl__job_first_after(job);

	if (first && !i)
		return first;
	i -= first != NULL;
	return i < rnl__job_nr_more_after(job) ? job->more->after[i].barrier : NULL;
}

/* Returns the job's round in the barrier; NO_ROUND: the job need not wait, or no longer waits. */
static unsigned round_before(const struct rnl_job *job, unsigned i)
{
	const bool first = rnl__job_first_after(job);
	uint64_t round;

	if (first && !i)
		return rnl__job_after_round(job);
	round = job->more->after[i - first].round;
	return round ? (unsigned)(round - (uintptr_t)job) : RNL__NO_ROUND;
}

static void set_round_before(struct rnl_job *job, unsigned i, unsigned round)
{
	const bool first = rnl__job_first_after(job);

	if (first && !i)
		rnl__job_set_after_round(job, round);
	else	/* The address also identifies the job that uses the list: rnl__more_check(). */
		job->more->after[i - first].round = round == RNL__NO_ROUND ? 0 : (uintptr_t)job + round;
}

int rnl__barrier_follow(const struct rnl_job *job)
{
	struct rnl_barrier *b;
	int ret = 0;

	for (unsigned i = 0; (b = barrier_before(job, i)) != NULL; i++) {
		rnl__tsan_acquire(b);
		if (barrier_result(b))
			return -ECANCELED;
	}
	for (unsigned i = 0; !ret && (b = barrier_before(job, i)) != NULL; i++)
		ret = rnl__barrier_join_jobs(b);
	return ret;
}

bool rnl__barrier_defer(struct rnl_job *job)
{
	struct rnl_barrier *b;

	for (unsigned i = 0; (b = barrier_before(job, i)) != NULL; i++)
		if (round_before(job, i) != RNL__NO_ROUND &&
		    rnl__rounds_defer(b, round_before(job, i), job))
			return true;
	return false;
}

void rnl__barrier_raise_before(struct rnl_order *order, const struct rnl_job *job)
{
	unsigned tier = rnl__inherit_tier(job);
	struct rnl_job *first, *left = NULL;

	first = rnl__classes_of(order->pool) ? rnl__order_raise(order, job, &tier) : NULL;
	if (!first)
		return;
	do
		rnl__barrier_raise(first, tier);
	while (!rnl__order_raised(order, &tier, &left));
	if (left)
		rnl__barrier_issued(left);
}

/* Defers a job like rnl__barrier_defer(), perhaps at the gate of its order. */
static bool defer_again(struct rnl_job *job)
{
	struct rnl_order *order = job->flags & RNL__JOB_ORDERED ? job->more->order : NULL;

	if (!order)
		return rnl__barrier_defer(job);
	if (rnl__barrier_ready(job))
		return false;
	rnl__barrier_raise(job, rnl__order_wait(order, job));
	return rnl__barrier_defer(job) || !rnl__order_waited(order);
}

void rnl__barrier_issued(struct rnl_job *job)
{
	if (job->flags & RNL__JOB_ORDERED && !rnl__order_waited(job->more->order))
		return;
	while (job && !defer_again(job)) {
		struct rnl_order *order = job->flags & RNL__JOB_ORDERED ? job->more->order : NULL;

		job->flags &= ~RNL__JOB_ORDERED;
		rnl__choose_start_deferred(job);
		job = order ? rnl__order_next(order) : NULL;
	}
}

/*
 * Queues a job of rnl_barrier_notify() for completion by this thread's worker or, on any other
 * thread, by the timer thread.  A worker in a hook leaves the job to the timer thread, too.
 */
static void return_notice(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;
	const bool own = rnl__pool_worker(pool) && rnl__thread.worker->serves;

	job->device_error = 0;
	rnl__tsan_release(job);
	rnl__worker_return(own ? rnl__thread.worker : &pool->timer.self, job);
}

static void go_on(const struct rnl__let_go *let_go)
{
	struct rnl_job *job, *next;

	for (job = let_go->issued.first; job; job = next) {
		next = job->link;
		rnl__barrier_issued(job);
	}
	for (job = let_go->ended.first; job; job = next) {
		next = job->link;
		if (job->flags & RNL__JOB_TELLS)
			return_notice(job);
		else
			rnl__worker_return(rnl__worker_at(job->pool, job->worker), job);
	}
}

/* Counts a job in the round after a sealed one. */
static __attribute__((noinline)) unsigned count_after(struct rnl_barrier *b)
{
	struct rnl__let_go let_go = { .issued.first = NULL };
	unsigned round = rnl__rounds_count(b, &let_go);

	go_on(&let_go);
	return round;
}

unsigned rnl__barrier_count(struct rnl_barrier *b)
{
	const unsigned round = rnl__rounds_count_open(b);

	return round == RNL__NO_ROUND ? count_after(b) : round;
}

void rnl__barrier_drop(struct rnl_barrier *b, unsigned round, uint32_t nr_issued, uint32_t nr_done)
{
	struct rnl__let_go let_go = { .issued.first = NULL };

	rnl__rounds_drop(b, round, nr_issued, nr_done, &let_go);
	go_on(&let_go);
}

int rnl__barrier_tell(struct rnl_barrier *b, struct rnl_job *job)
{
	struct rnl__let_go let_go = { .issued.first = NULL };
	int ret = rnl__rounds_notify(b, job, &let_go);

	go_on(&let_go);
	return ret;
}

/* Leaves the rounds of the first @nr barriers. */
static void forget_rounds(struct rnl_job *job, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		const unsigned round = round_before(job, i);

		set_round_before(job, i, RNL__NO_ROUND);
		if (round != RNL__NO_ROUND)
			rnl__rounds_leave(barrier_before(job, i), round);
	}
}

int rnl__barrier_snapshot(struct rnl_job *job)
{
	struct rnl_barrier *b;

	for (unsigned i = 0; (b = barrier_before(job, i)) != NULL; i++) {
		struct rnl__let_go let_go = { .issued.first = NULL };
		int round = rnl__rounds_seal(b, &let_go);

		go_on(&let_go);
		if (round < 0) {
			forget_rounds(job, i);
			return round;
		}
		set_round_before(job, i, (unsigned)round);
	}
	return 0;
}

void rnl__barrier_forget(struct rnl_job *job)
{
	forget_rounds(job, rnl__job_nr_more_after(job) + (rnl__job_first_after(job) != NULL));
}

void rnl__barrier_raise(const struct rnl_job *job, unsigned tier)
{
	struct rnl_barrier *b;

	if (!rnl__classes_of(job->pool))
		return;
	for (unsigned i = 0; (b = barrier_before(job, i)) != NULL; i++) {
		unsigned round = round_before(job, i);

		/* Each round counts the round before as a job. */
		for (unsigned n = 0; n < RNL__ROUND_SLOTS && round != RNL__NO_ROUND; n++) {
			rnl__classes_raise(b, round, tier);
			round = rnl__rounds_before(b, round);
		}
	}
}

bool rnl__barrier_ready(const struct rnl_job *job)
{
	struct rnl_barrier *b;

	for (unsigned i = 0; (b = barrier_before(job, i)) != NULL; i++)
		if (round_before(job, i) != RNL__NO_ROUND &&
		    !rnl__rounds_issued(b, round_before(job, i)))
			return false;
	return true;
}

bool rnl__barrier_over(struct rnl_job *job)
{
	struct rnl_barrier *b;

	for (unsigned i = 0; (b = barrier_before(job, i)) != NULL; i++) {
		const unsigned round = round_before(job, i);

		if (round != RNL__NO_ROUND && !rnl__rounds_ended(b, round))
			return false;
		if (round != RNL__NO_ROUND) {
			set_round_before(job, i, RNL__NO_ROUND);
			rnl__rounds_leave(b, round);
		}
		rnl__tsan_acquire(b);
	}
	return true;
}

bool rnl__barrier_holds(struct rnl_job *job)
{
	struct rnl_barrier *b;

	for (unsigned i = 0; (b = barrier_before(job, i)) != NULL; i++) {
		const unsigned round = round_before(job, i);

		if (round == RNL__NO_ROUND)
			continue;
		/* Cleared first: once the round has the job, its worker may call this again. */
		set_round_before(job, i, RNL__NO_ROUND);
		if (rnl__rounds_hold(b, round, job))
			return true;
		rnl__tsan_acquire(b);
	}
	return false;
}

/* ---- public -------------------------------------------------------------- */

int rnl_barrier_init(struct rnl_barrier *b, struct rnl_pool *pool)
{
	int ret = rnl__pool_given(pool, "rnl_barrier_init()");

	if (ret)
		return ret;
	if (!b)
		return rnl__invalid(&pool->log, "rnl_barrier_init(): the barrier is NULL");
	memset(b, 0, sizeof(*b));
	rnl__rounds_init(b);
	b->pool = pool;
	b->generation = pool->generation;
	return 0;
}

/* A barrier that has no job may outlive its pool. */
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
 * Like rnl__barrier_given(), but accepts NULL and also checks that the job may be changed.
 * Refusals are logged, because a program that ignores them would run the job without its order.
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
	if (rnl__job_first_after(job) == b)
		return rnl__invalid(NULL, "rnl_barrier_add(): the job comes after this barrier");
	job->barrier = b;
	return 0;
}

int rnl_job_set_after(struct rnl_job *job, struct rnl_barrier *b)
{
	int ret = check_both("rnl_job_set_after()", b, job);

	if (ret)
		return ret;
	if (b && job->barrier == b)
		return rnl__invalid(NULL, "rnl_job_set_after(): the job is in this barrier");
	*(job->flags & RNL__JOB_MORE ? &job->more->first : &job->after) = b;
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
		ret = rnl__attach_caller(b->pool, "rnl_barrier_join()", -ENODEV);
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
	return rnl__barrier_join_jobs(b);
}
