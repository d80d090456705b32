/* SPDX-License-Identifier: MIT */
/*
 * Submitting: the way of a job from its caller to a worker's queue.
 *
 * DESIGN
 *	A submit claims the job, reserves space in a queue, puts the job there, and looks for
 *	a sleeping worker: it changes four words, and takes no lock and no memory.
 *	A deferred job has no worker until the jobs of its barrier are issued: so no worker
 *	that leaves has to wait for it.  The pool's count `deferred` bounds such jobs, and
 *	closes as a queue does.  When the barrier starts the job, it is queued even if the
 *	queue is full: so no job is deferred while the queue that it would go to is full.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>

#include "job/barrier.h"
#include "job/delayed.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/flat.h"
#include "sys/sizes.h"
#include "sys/thread.h"
#include "sys/tsan.h"
#include "job/job.h"
#include "job/order.h"
#include "job/rounds.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "job/submit.h"

#define JOB_NS 50u		/* the shortest time that a worker takes for a job */
#define DRAIN_MIN_NS 20000u
#define DRAIN_MAX_NS 200000u
#define ROW_MAX 65536u	/* jobs that are claimed before the first of them is counted */
#define WAYS (RNL__JOB_KEY | RNL__JOB_ORDER | RNL__JOB_AT)

/* Whether the job's barriers are of this pool as well. */
static bool belongs(const struct rnl_pool *pool, const struct rnl_job *job)
{
	return (!job->barrier || job->barrier->pool == pool) &&
	       (!job->after || job->after->pool == pool);
}

/* Whether a job with a key, an order or a time can be submitted so.  Not inline: most jobs have none. */
static __attribute__((noinline)) bool way_fits(const struct rnl_pool *pool, const struct rnl_job *job,
					       unsigned lane)
{
	return !lane && !(job->flags & (RNL__JOB_KEY | RNL__JOB_ORDER) && job->flags & RNL__JOB_URGENT) &&
	       !(job->flags & RNL__JOB_AT && (job->after || job->flags & RNL__JOB_ORDER)) &&
	       !(job->flags & RNL__JOB_ORDER && job->order->pool != pool);
}

/* Says why not.  Return: -EINVAL. */
static int refuse_way(struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	const char *has = job->flags & RNL__JOB_AT ? "a time" :
			  job->flags & RNL__JOB_ORDER ? "an order" : "a key";

	if (lane & RNL__JOB_CHAINED)
		return rnl__invalid(&pool->log, "submit: job %p has %s, and is behind a job by "
				    "rnl_job_then(): only the first job of a chain can have one",
				    (const void *)job, has);
	if (lane & (RNL__JOB_MARKED | RNL__JOB_TELLS))
		return rnl__invalid(&pool->log, "submit: job %p has %s: rnl_submit_when() and "
				    "rnl_barrier_notify() take no such job", (const void *)job, has);
	if (job->flags & RNL__JOB_AT && job->after)
		return rnl__invalid(&pool->log, "submit: job %p has a time, and comes after a barrier",
				    (const void *)job);
	if (job->flags & RNL__JOB_AT && job->flags & RNL__JOB_ORDER)
		return rnl__invalid(&pool->log, "submit: job %p has a time, and is in an order",
				    (const void *)job);
	if (job->flags & RNL__JOB_URGENT)
		return rnl__invalid(&pool->log, "submit: job %p is urgent, and so cannot have a key",
				    (const void *)job);
	return rnl__invalid(&pool->log, "submit: the order of job %p is of another pool, or has ended",
			    (const void *)job);
}

/* Whether the pool can take the job. */
static bool fits(const struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	return belongs(pool, job) && !rnl__job_misplaced(job, pool) &&
	       (job->fn == rnl__job_no_function ?
			lane & (RNL__JOB_TELLS | RNL__JOB_MARKED) &&
				!(job->flags & RNL__JOB_REQUEST) :
			rnl__unit_fits(pool, (rnl__function *)job->fn)) &&
	       !(job->flags & WAYS && !way_fits(pool, job, lane)) &&
	       !(lane == RNL__JOB_CHAINED && job->after);
}

/* Says why a job does not fit.  Return: -EINVAL, or -ENODEV its unit needs CUDA. */
static int refuse(struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	if (job->flags & RNL__JOB_REQUEST)
		return rnl__invalid(&pool->log, "submit: job %p is of a batcher's request: send it "
				    "with rnl_request_commit()", (const void *)job);
	if (job->fn == rnl__job_no_function && !(lane & (RNL__JOB_TELLS | RNL__JOB_MARKED)))
		return rnl__invalid(&pool->log, "submit: job %p has no function: only "
				    "rnl_barrier_notify() and rnl_submit_when() take such a job",
				    (const void *)job);
	if (rnl__job_misplaced(job, pool)) {
		(void)rnl__pool_lacks(pool, "submit", rnl__job_device(job));
		return -EINVAL;
	}
	if (job->fn != rnl__job_no_function && !rnl__unit_fits(pool, (rnl__function *)job->fn))
		return rnl__unit_refuse(pool, "submit", (rnl__function *)job->fn);
	if (belongs(pool, job) && job->flags & WAYS && !way_fits(pool, job, lane))
		return refuse_way(pool, job, lane);
	if (belongs(pool, job))
		return rnl__invalid(&pool->log, "submit: job %p comes after a barrier, and after a "
				    "job by rnl_job_then(): only the first job of a chain can come "
				    "after a barrier", (const void *)job);
	return rnl__invalid(&pool->log, "submit: the barrier that job %p %s is of another pool, or "
			    "was not initialised", (const void *)job,
			    job->barrier && job->barrier->pool != pool ? "was added to" :
									"comes after");
}

/*
 * Claims a job, and sets its lane, or what it is beside; jobs that tell of an end are accepted though
 * the device has failed.
 */
static int claim(struct rnl_pool *pool, struct rnl_job *job, unsigned lane)
{
	int ret = rnl__pool_given(pool, "submit");

	if (ret)
		return ret;
	ret = rnl__job_claim(job);
	if (ret == -EINVAL)
		return rnl__invalid(&pool->log, job ? "submit: job was not initialised" :
						      "submit: job is NULL");
	/* busy() has words for a chain. */
	if (ret && !(lane & RNL__JOB_CHAINED))
		return rnl__refused(&pool->log, ret, "submit: job %p was submitted before, and is not "
				    "done: wait for it, or submit another job", (void *)job);
	if (ret)
		return ret;
	job->flags &= RNL__JOB_LASTING;
	rnl__job_set_after_round(job, RNL__NO_ROUND);
	if (!fits(pool, job, lane))
		ret = refuse(pool, job, lane);
	else if (!(lane & (RNL__JOB_LAST | RNL__JOB_TELLS)) && rnl__pool_failed(pool))
		ret = -EIO;
	else if (job->barrier && !rnl__rounds_have_room(job->barrier))
		ret = -EAGAIN;
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	job->flags |= lane;
	/* The urgency of a chain is its first job's. */
	if (job->flags & RNL__JOB_URGENT && !(lane & (RNL__JOB_CHAINED | RNL__JOB_TELLS)))
		job->flags |= RNL__JOB_FIRST;
	if (job->flags & (RNL__JOB_KEY | RNL__JOB_ORDER)) {
		job->flags |= RNL__JOB_KEYED;
		job->key = rnl__job_given_key(job);
	}
	return 0;
}

/*
 * Notes the time of the submit, if the job needs it: jobs that are timed, which are chosen at
 * random, jobs with a deadline, and all jobs while a trace runs.
 */
static void stamp(struct rnl_pool *pool, struct rnl_job *job)
{
	static _Thread_local uint64_t random __attribute__((tls_model("initial-exec")));

	/* A linear congruence (Knuth, MMIX); its high bits are the random ones. */
	random = random * 6364136223846793005u + 1442695040888963407u;
	if (!(random >> 32 & pool->time_mask))
		job->flags |= RNL__JOB_TIMED;
	if (rnl__pool_traced(pool)) {
		job->flags |= RNL__JOB_TRACED;
		job->producer = rnl__thread_tid();
	}
	if (job->flags & (RNL__JOB_TIMED | RNL__JOB_DEADLINE | RNL__JOB_TRACED))
		job->submit_ns = rnl__now();
}

/* Everything else that is written in a job between its claim and its start. */
static void accept(struct rnl_pool *pool, struct rnl_job *job, uint8_t phase)
{
	/* relaxed: a waiter of the last run may read it; the value does not change */
	atomic_store_explicit(rnl__atomic(&job->pool), pool, memory_order_relaxed);
	/* relaxed: as the pool */
	atomic_store_explicit(rnl__atomic(&job->generation), pool->generation,
			      memory_order_relaxed);
	stamp(pool, job);
	rnl__job_note_cancels(job, pool);
	rnl__job_accepted(job, phase);
	if (job->barrier)
		rnl__job_set_round(job, rnl__rounds_count(job->barrier));
	rnl__tsan_release(job);
}

/* ---- chains -------------------------------------------------------------- */

/* Gives @nr jobs behind the first one back. */
static void unchain(struct rnl_job *first, unsigned nr)
{
	struct rnl_job *job = rnl__job_then(first), *next;

	for (; nr && job; nr--, job = next) {
		next = rnl__job_then(job);
		rnl__job_drop(job);
	}
}

/* Says why a job that was met in a chain is not done, if it is for the chain itself. */
static int busy(struct rnl_pool *pool, const struct rnl_job *first, unsigned nr,
		const struct rnl_job *met)
{
	const struct rnl_job *job = first;

	for (unsigned i = 0; i <= nr; i++, job = rnl__job_then(job)) {
		if (job == met)
			return rnl__invalid(&pool->log, "submit: the chain of job %p comes back to job "
					    "%p: rnl_job_then() has made a circle",
					    (const void *)first, (const void *)met);
	}
	return rnl__refused(&pool->log, -EBUSY, "submit: job %p, in the chain of job %p, was "
			    "submitted before, and is not done", (const void *)met, (const void *)first);
}

/* Claims the jobs behind the first one, all or none; how many, or the error. */
static int chain(struct rnl_pool *pool, struct rnl_job *first)
{
	unsigned nr = 0;
	int ret = 0;

	for (struct rnl_job *job = rnl__job_then(first); job; job = rnl__job_then(job)) {
		ret = claim(pool, job, RNL__JOB_CHAINED);
		if (ret == -EBUSY)
			ret = busy(pool, first, nr, job);
		if (!ret && nr == pool->max_queued) {
			rnl__job_drop(job);
			ret = rnl__invalid(&pool->log, "submit: more jobs are behind job %p than "
					   "max_queued, which is %u", (void *)first, nr);
		}
		if (ret) {
			unchain(first, nr);
			return ret;
		}
		nr++;
	}
	return (int)nr;
}

/* Accepts the first job, and the jobs behind it: they are not timed, as they wait on purpose. */
static void accept_chain(struct rnl_pool *pool, struct rnl_job *first, uint8_t phase)
{
	accept(pool, first, phase);
	for (struct rnl_job *job = rnl__job_then(first); job; job = rnl__job_then(job)) {
		accept(pool, job, RNL__JOB_QUEUED);
		job->flags &= ~RNL__JOB_TIMED;
	}
}

/* ---- one job ------------------------------------------------------------- */

/*
 * Claims the jobs behind a claimed one, and takes its snapshot; or gives it back.  How many are behind
 * it, or the error.
 */
static int prepare(struct rnl_pool *pool, struct rnl_job *job)
{
	int nr = rnl__job_then(job) ? chain(pool, job) : 0;
	int ret = nr < 0 ? nr : job->after ? rnl__barrier_snapshot(job) : 0;

	if (!ret)
		return nr;
	if (nr > 0)
		unchain(job, UINT_MAX);
	rnl__job_drop(job);
	return ret;
}

/* Gives a prepared job back. */
static int give_back(struct rnl_job *job, int ret)
{
	rnl__barrier_forget(job);
	unchain(job, UINT_MAX);
	rnl__job_drop(job);
	return ret;
}

/* A submit lacks this; @w: its thread's place in line, or NULL. */
static void lacks_now(struct rnl__waiter *w, unsigned lacks)
{
	if (w)
		w->found = lacks;
}

/*
 * Whether a submit has to leave something to a thread in line: @w is its own place there, or NULL.
 * Notes that it lacks this, as the others do.
 */
static bool is_left_to_others(struct rnl_pool *pool, struct rnl__waiter *w, unsigned lacks)
{
	const unsigned before = w ? w->before : rnl__line_lacks(&pool->line);

	if (before & lacks)
		lacks_now(w, lacks);
	return before & lacks;
}

/*
 * Counts @nr jobs that wait in no queue: behind another one, or for a barrier's round: 0, -EAGAIN,
 * -ESHUTDOWN.
 */
static int enter_chained(struct rnl_pool *pool, int nr, struct rnl__waiter *w)
{
	int ret;

	if (!nr)
		return 0;
	if (is_left_to_others(pool, w, RNL__LACKS_CHAIN))
		return -EAGAIN;
	ret = rnl__tally_enter_many(&pool->chained, (unsigned)nr);
	if (ret == -EAGAIN)
		lacks_now(w, RNL__LACKS_CHAIN);
	return ret;
}

/* Reserves for a prepared job, and for @nr behind it: 0, -EAGAIN, -ESHUTDOWN. */
static int reserve(struct rnl_pool *pool, struct rnl_job *job, int nr, bool defer,
		   struct rnl__waiter *w)
{
	int ret;

	if (defer && is_left_to_others(pool, w, RNL__LACKS_PLACE))
		return -EAGAIN;
	ret = defer ? rnl__choose_reserve_deferred(pool, job) : rnl__choose_reserve(pool, job);
	if (ret) {
		lacks_now(w, RNL__LACKS_PLACE);
		return ret;
	}
	ret = enter_chained(pool, nr, w);
	if (ret && defer)
		rnl__choose_unreserve_deferred(pool);
	else if (ret)
		rnl__choose_unreserve(pool, job);
	return ret;
}

/* Submits a claimed job, or gives it back. */
static int submit_now(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w)
{
	struct rnl_order *order = job->flags & RNL__JOB_ORDER ? job->order : NULL;
	int nr = prepare(pool, job), ret;
	bool defer;

	if (nr < 0)
		return nr;
	defer = order || !rnl__barrier_ready(job);
	ret = reserve(pool, job, nr, defer, w);
	if (ret)
		return give_back(job, ret);
	/* The place in the order comes between the snapshot and the counts: see order.h. */
	if (order)
		rnl__order_enter(order, job);
	accept_chain(pool, job, RNL__JOB_QUEUED);
	if (order)
		rnl__order_ready(order, job);
	else if (defer)
		rnl__barrier_defer(job);
	else
		rnl__choose_put(job);
	return 0;
}

/* ---- at a time ----------------------------------------------------------- */

/* Rings what may have counted the job that is no longer counted. */
static void entry_taken_back(struct rnl_pool *pool)
{
	/*
	 * [submit.D1] full barrier: the job is no longer counted before the look for drains and
	 * submits that wait, which may have found it counted; pairs with [bell.L2], [line.W1]
	 */
	rnl__full_barrier();
	rnl__pool_ring_drained(pool);
	rnl__pool_ring_outside(pool);
}

/* Counts a delayed job, and @nr behind it: 0, -EAGAIN, -ESHUTDOWN. */
static int enter_delayed(struct rnl_pool *pool, int nr, struct rnl__waiter *w)
{
	int ret = rnl__tally_enter(&pool->delayed);

	if (!ret) {
		ret = enter_chained(pool, nr, w);
		if (ret)
			rnl__tally_retract(&pool->delayed);
	}
	if (ret)
		entry_taken_back(pool);
	return ret;
}

/* Submits a claimed job that has a time, or gives it back. */
static __attribute__((noinline)) int submit_delayed(struct rnl_pool *pool, struct rnl_job *job,
						    struct rnl__waiter *w)
{
	const uint64_t at = rnl__larger(job->submit_ns, rnl__now());
	int nr = prepare(pool, job), ret;

	if (nr < 0)
		return nr;
	ret = enter_delayed(pool, nr, w);
	if (ret)
		return give_back(job, ret);
	accept_chain(pool, job, RNL__JOB_DELAYED);
	job->flags &= ~RNL__JOB_AT;
	/* A deadline counts from then. */
	job->submit_ns = at;
	rnl__delayed_push(job);
	return 0;
}

/* ---- what the caller hears ------------------------------------------------- */

/* What an attempt to submit returned; but nobody is to wait for space in a closed pool. */
static int answer(struct rnl_pool *pool, int ret)
{
	return ret == -EAGAIN && rnl__pool_closed(pool) ? -ESHUTDOWN : ret;
}

/* @w: the calling thread's place in line, or NULL. */
static int submit(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w)
{
	int ret = claim(pool, job, 0);

	if (ret)
		return ret;
	return job->flags & RNL__JOB_AT ? submit_delayed(pool, job, w) : submit_now(pool, job, w);
}

RNL__FLAT
int rnl_submit(struct rnl_pool *pool, struct rnl_job *job)
{
	return answer(pool, submit(pool, job, NULL));
}

int rnl__submit_internal(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	int ret = claim(pool, job, 0);

	if (ret)
		return ret;
	accept(pool, job, RNL__JOB_QUEUED);
	rnl__choose_start_at(job, home);
	return 0;
}

void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	(void)rnl__job_claim(job);
	job->flags &= RNL__JOB_LASTING;
	rnl__job_set_after_round(job, RNL__NO_ROUND);
	accept(pool, job, RNL__JOB_QUEUED);
	rnl__choose_start_at(job, home);
}

/* ---- waiting for space --------------------------------------------------- */

/*
 * Leaves a large full queue alone for a while, in which workers take an eighth of it at most.
 * A submitter that is woken for the first free place would wait again after one job.
 */
static void let_drain(struct rnl_pool *pool, uint64_t deadline)
{
	const uint64_t ns = pool->max_queued / rnl__pool_nr_workers(pool) / 8 * JOB_NS;
	const uint64_t now = rnl__now();

	if (ns >= DRAIN_MIN_NS && deadline > now)
		rnl__nap(rnl__smaller(rnl__smaller(ns, DRAIN_MAX_NS), deadline - now));
}

/* Whether the job may have to wait outside of the queues, or others behind it. */
static bool waits_outside(const struct rnl_job *job)
{
	return job->after || rnl__job_then(job) || job->flags & (RNL__JOB_ORDER | RNL__JOB_AT);
}

/*
 * Tries once more.  A submit that finds no space behind its job takes its reservation back, and rings
 * for that: so it looks first, or it would wake itself.
 */
static int submit_from_line(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w)
{
	w->found = RNL__LACKS_OTHER;
	if (w->nr_behind <= pool->max_queued && !rnl__tally_closed(&pool->chained) &&
	    rnl__tally_inside(&pool->chained) + w->nr_behind > pool->max_queued) {
		w->found = RNL__LACKS_CHAIN;
		return -EAGAIN;
	}
	return submit(pool, job, w);
}

static int wait_in_line(struct rnl_pool *pool, struct rnl_job *job, uint64_t deadline)
{
	/* What the try before this found is not known: it is seen with the next one. */
	struct rnl__waiter w = { .found = RNL__LACKS_OTHER };
	bool late = false;
	int ret;

	for (const struct rnl_job *it = rnl__job_then(job); it && w.nr_behind <= pool->max_queued;
	     it = rnl__job_then(it))
		w.nr_behind++;
	rnl__line_enter(&pool->line, &w);
	for (;;) {
		rnl__line_look(&pool->line, &w);
		ret = answer(pool, submit_from_line(pool, job, &w));
		if (ret != -EAGAIN || late)
			break;
		rnl__line_stay(pool, &w);
		late = rnl__line_wait(&w, deadline) == -ETIMEDOUT;
	}
	rnl__line_leave(pool, &w);
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

static int wait_for_queue(struct rnl_pool *pool, struct rnl_job *job, uint64_t deadline)
{
	const struct rnl__wish wish = {
		.job = job, .keyed = job->flags & RNL__JOB_KEY, .key = rnl__job_given_key(job),
		.urgent = job->flags & RNL__JOB_URGENT,
	};
	bool late = false;

	for (;;) {
		uint32_t listened;
		struct rnl__bell *bell = rnl__choose_listen_for_space(pool, &wish, &listened);
		int ret = answer(pool, submit(pool, job, NULL));

		if (ret != -EAGAIN) {
			/* The wake-up was consumed without the space: wakes the next waiter. */
			if (ret)
				rnl__bell_ring_once(bell);
			return ret;
		}
		if (late)
			return -ETIMEDOUT;
		late = rnl__bell_wait(bell, listened, deadline) == -ETIMEDOUT;
	}
}

int rnl_submit_wait(struct rnl_pool *pool, struct rnl_job *job, int64_t timeout_ns)
{
	int ret = answer(pool, submit(pool, job, NULL));
	uint64_t deadline;

	if (ret != -EAGAIN || rnl__pool_worker(pool))
		return ret;
	deadline = rnl__deadline(timeout_ns);
	let_drain(pool, deadline);
	return waits_outside(job) ? wait_in_line(pool, job, deadline) :
				    wait_for_queue(pool, job, deadline);
}

/* ---- notices ------------------------------------------------------------- */

static int submit_when(struct rnl_pool *pool, struct rnl_job *job, bool last)
{
	int ret = claim(pool, job, RNL__JOB_MARKED | (last ? RNL__JOB_LAST : 0));

	if (ret)
		return ret;
	if (job->after || job->barrier || rnl__job_then(job))
		ret = rnl__invalid(&pool->log, "rnl_submit_when(): job %p %s: what it waits for could "
				   "wait for it", (void *)job,
				   job->after ? "comes after a barrier" :
				   job->barrier ? "is in a barrier" : "has a job behind it");
	if (!ret) {
		ret = rnl__tally_enter(last ? &pool->last : &pool->delayed);
		if (ret)
			entry_taken_back(pool);
	}
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	accept(pool, job, RNL__JOB_DELAYED);
	job->flags &= ~RNL__JOB_TIMED;	/* it waits on purpose */
	rnl__delayed_push(job);
	return 0;
}

int rnl_submit_when(struct rnl_pool *pool, struct rnl_job *job, enum rnl_when when)
{
	if (when != RNL_SPACE && when != RNL_EMPTY)
		return rnl__invalid(pool ? &pool->log : NULL, "rnl_submit_when(): when is %d; it "
				    "must be RNL_SPACE or RNL_EMPTY", (int)when);
	return answer(pool, submit_when(pool, job, when == RNL_EMPTY));
}

/* ---- the end of a round --------------------------------------------------- */

static int notify(struct rnl_pool *pool, struct rnl_barrier *b, struct rnl_job *job)
{
	int ret = claim(pool, job, RNL__JOB_TELLS);

	if (ret)
		return ret;
	if (job->after || rnl__job_then(job) || job->barrier)
		ret = rnl__invalid(&pool->log, "rnl_barrier_notify(): job %p is in a barrier, "
				   "comes after one, or has a job behind it", (void *)job);
	else if (!rnl__rounds_have_room(b))
		ret = -EAGAIN;
	else
		ret = enter_chained(pool, 1, NULL);
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	accept(pool, job, RNL__JOB_STARTED);
	job->flags &= ~RNL__JOB_TIMED;
	ret = rnl__rounds_notify(b, job);
	if (ret) {	/* the barrier may be gone */
		rnl__job_set_result(job, ret);
		rnl__job_drop(job);
		rnl__tally_retract(&pool->chained);
		entry_taken_back(pool);
	}
	return ret;
}

int rnl_barrier_notify(struct rnl_barrier *b, struct rnl_job *job)
{
	int ret = rnl__barrier_given(b, "rnl_barrier_notify()");
	struct rnl_pool *pool;

	if (ret)
		return ret;
	pool = b->pool;
	return answer(pool, notify(pool, b, job));
}

/* ---- many ---------------------------------------------------------------- */

/* A row consists of jobs that any worker may run, and goes to one queue. */
static bool in_a_row(const struct rnl_job *job)
{
	return job && job->fn && !job->after &&
	       !(job->flags & (RNL__JOB_LEADS | RNL__JOB_URGENT | RNL__JOB_PLACED | WAYS));
}

/* Submits a row to one worker.  Return: how many were accepted, or why none was. */
static int submit_row(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned worker, nr_claimed = 0;
	int ret = 0, space;

	while (nr_claimed < nr && in_a_row(jobs[nr_claimed])) {
		ret = claim(pool, jobs[nr_claimed], 0);
		if (ret)
			break;
		nr_claimed++;
	}
	if (!nr_claimed)
		return ret;
	space = rnl__choose_reserve_row(pool, nr_claimed, &worker);
	for (unsigned i = space < 0 ? 0 : (unsigned)space; i < nr_claimed; i++)
		rnl__job_drop(jobs[i]);
	if (space < 0)
		return space;
	for (unsigned i = 0; i < (unsigned)space; i++) {
		jobs[i]->worker = (uint8_t)worker;
		accept(pool, jobs[i], RNL__JOB_QUEUED);
	}
	rnl__choose_put_row(pool, worker, jobs, (unsigned)space);
	return space;
}

int rnl_submit_many(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned share, done = 0, nr_workers;
	int ret = rnl__pool_given(pool, "rnl_submit_many()");

	if (ret)
		return ret;
	if (!jobs && nr)
		return rnl__invalid(&pool->log, "rnl_submit_many(): jobs is NULL, and nr is %u",
				    nr);
	if (nr > INT_MAX)
		nr = INT_MAX;
	nr_workers = rnl__pool_staff(pool).nr;
	share = (unsigned)rnl__smaller((nr + nr_workers - 1) / nr_workers, ROW_MAX);
	while (done < nr) {
		ret = in_a_row(jobs[done]) ?
		      submit_row(pool, jobs + done, share < nr - done ? share : nr - done) :
		      -EAGAIN;
		/* A job that a row cannot take is submitted alone, which may tell why. */
		if (ret == -EAGAIN || ret == -ESTALE) {
			ret = rnl_submit(pool, jobs[done]);
			ret = ret ? ret : 1;
		}
		if (ret < 0)
			break;
		done += (unsigned)ret;
	}
	return done ? (int)done : ret;
}
