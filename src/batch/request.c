/* SPDX-License-Identifier: MIT */
/* Requests: reserve, commit and release, called by producers; batcher.h has the design. */
#include "config.h"

#include <errno.h>

#include <runnel/batch.h>

#include "job/barrier.h"
#include "batch/batcher.h"
#include "batch/resident.h"
#include "sys/eventcount.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "sys/thread.h"
#include "sys/tsan.h"
#include "pool/classes.h"
#include "pool/pool.h"

#define RESERVE "rnl_batcher_reserve()"
#define COMMIT "rnl_request_commit()"
#define RELEASE "rnl_request_release()"

#define NOT_FOR_REQUESTS \
	(RNL__JOB_LEADS | RNL__JOB_DEADLINE | RNL__JOB_PLACED | \
	 RNL__JOB_GATHERS | RNL__JOB_REPLAYS | RNL__JOB_CLASS)

enum { IDLE, RESERVED, COMMITTED = RNL__REQUEST_COMMITTED };

_Static_assert(sizeof(struct rnl_request) <= 192, "a request is three cache lines");

static void set_state(struct rnl_request *request, uint8_t state)
{
	/* relaxed: a waiter of the last run may read it */
	atomic_store_explicit(rnl__atomic(&request->job.request), state, memory_order_relaxed);
}

/* ---- checks ---------------------------------------------------------------- */

/* Logs why a call is refused.  Returns @ret. */
static int request_refused(const struct rnl_batcher *b, int ret, const char *call,
			   const struct rnl_request *request, const char *why)
{
	rnl__log(b ? &b->pool->log : NULL, RNL_LOG_ERROR, "%s: request %p %s", call,
		 (const void *)request, why);
	return ret;
}

/* Returns 0, or -EINVAL if it is not a request. */
static int check_request(const char *call, const struct rnl_request *request)
{
	if (!request)
		return rnl__invalid(NULL, "%s: request is NULL", call);
	if (request->job.fn == rnl__job_no_function)
		return 0;
	return request_refused(NULL, -EINVAL, call, request, request->job.fn ?
			       "has a job with a function: call rnl_job_init(&request->job, NULL)" :
			       "was not initialised: call rnl_job_init(&request->job, NULL)");
}

/* Returns 0, -EINVAL if the request has no slot and no result to release, or -EOWNERDEAD. */
static int check_in_use(const char *call, const struct rnl_request *request)
{
	int ret = check_request(call, request);

	if (ret)
		return ret;
	if (request->job.request == IDLE)
		return request_refused(NULL, -EINVAL, call, request,
				       "has no slot: call rnl_batcher_reserve() first");
	return rnl__pool_check(request->batcher->pool) ? -EOWNERDEAD : 0;
}

/* Returns 0 if the batcher accepts requests, -ESHUTDOWN or -EIO. */
static int check_open(struct rnl_batcher *b)
{
	/* relaxed: concurrently with a close both answers are right */
	if (atomic_load_explicit(&b->closed, memory_order_relaxed) || rnl__pool_closed(b->pool))
		return -ESHUTDOWN;
	return rnl__pool_failed(b->pool) ? -EIO : 0;
}

static int class_has_ended(const struct rnl_batcher *b, const char *call,
			   const struct rnl_request *request)
{
	return request_refused(b, -EINVAL, call, request, "has a batcher whose class has ended, by "
			       "rnl_class_destroy(): destroy that batcher, and use another");
}

static int check_reserve(struct rnl_batcher *b, const struct rnl_request *request, size_t bytes)
{
	int ret = b ? rnl__pool_check(b->pool) : rnl__invalid(NULL, RESERVE ": batcher is NULL");

	if (!ret)
		ret = check_request(RESERVE, request);
	if (ret)
		return ret;
	if (!b->variable && bytes != b->in_bytes)
		return rnl__invalid(&b->pool->log, RESERVE ": bytes is %zu; without "
				    "RNL_BATCHER_VARIABLE it must be in_bytes, which is %zu", bytes,
				    b->in_bytes);
	if (!bytes || bytes > b->in_bytes)
		return rnl__invalid(&b->pool->log, RESERVE ": bytes is %zu; it must be 1 to %zu",
				    bytes, b->in_bytes);
	if (request->job.request == IDLE) {
		ret = check_open(b);
		return !ret && b->class && rnl__class_has_ended(b->class, b->class_id) ?
			       class_has_ended(b, RESERVE, request) : ret;
	}
	return request_refused(b, -EBUSY, RESERVE, request, request->job.request == RESERVED ?
			       "has a slot: commit or release it first" :
			       "is under way, or was not released: wait until it is done, and "
			       "release it");
}

/* Returns the text for an attribute of the job that requests cannot have, or NULL. */
static const char *not_for_requests(const struct rnl_job *job)
{
	static const struct { uint32_t flag; const char *why; } flags[] = {
		{ RNL__JOB_LEADS, "has a job behind it, by rnl_job_set_then()" },
		{ RNL__JOB_DEADLINE, "has a deadline, by rnl_job_set_deadline()" },
		{ RNL__JOB_PLACED, "is placed, by rnl_job_set_device()" },
		{ RNL__JOB_GATHERS, "is gathered, by RNL_GATHER" },
		{ RNL__JOB_REPLAYS, "is replayed, by RNL_REPLAY" },
		{ RNL__JOB_CLASS, "has a class, by rnl_job_set_class() (a batcher has one, by cls of "
				  "its attributes)" },
	};

	if (job->flags & RNL__JOB_MORE)
		return "has more, by rnl_job_set_more()";
	if (job->after)
		return "comes after a barrier";
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (job->flags & flags[i].flag)
			return flags[i].why;
	return NULL;
}

/* Checks the job's attributes: some are not for requests, and its barrier must be of this pool. */
static int check_job(const struct rnl_batcher *b, const struct rnl_job *job)
{
	const char *why = NULL;

	if (job->after || job->flags & (RNL__JOB_MORE | NOT_FOR_REQUESTS))
		why = not_for_requests(job);
	if (why)
		return rnl__invalid(&b->pool->log, COMMIT ": request %p %s, which is for jobs that "
				    "are submitted", (const void *)job, why);
	if (!job->barrier)
		return 0;
	if (job->barrier->pool != b->pool)
		return rnl__invalid(&b->pool->log, COMMIT ": the barrier of request %p is of another "
				    "pool, or was not initialised", (const void *)job);
	return rnl__rounds_have_room(job->barrier) ? 0 : -EAGAIN;
}

/* ---- asking for a taker ---------------------------------------------------- */

/* Enters the batcher's class, if it has one.  Returns false if that has ended. */
static bool enter_class(struct rnl_batcher *b)
{
	return !b->class || rnl__class_enter(b->class, b->class_id);
}

static void exit_class(struct rnl_batcher *b)
{
	if (b->class)
		rnl__class_leave(b->class);
}

/* Asks for a taker, unless the class has ended: then no request is left for one. */
static void ask(struct rnl_batcher *b)
{
	if (!enter_class(b))
		return;
	rnl__schedule_ask(b);
	exit_class(b);
}

/* ---- reserving ------------------------------------------------------------- */

/* No slab or no cell is free: asks the taker to make one more slab. */
static void starve(struct rnl_batcher *b)
{
	if (rnl__figure_read(&b->nr_slabs) == b->max_slabs)
		return;
	/* relaxed: the barrier orders it */
	atomic_store_explicit(&b->starved, true, memory_order_relaxed);
	/* [batch.A3] full barrier: orders `starved` like a commit's state; pairs with [batch.A2] */
	rnl__full_barrier();
	ask(b);
}

/* Returns true if a batch would start immediately with a request committed now. */
static bool is_calm(struct rnl_batcher *b)
{
	const uint64_t word = rnl__peek(&b->word);

	return word >> RNL__BATCHER_IDLE_SHIFT && !(word & (RNL__BATCHER_ASKED | RNL__BATCHER_TAKER));
}

/* Returns the part to try first. */
static unsigned choose(struct rnl_batcher *b)
{
	static _Thread_local unsigned turns __attribute__((tls_model("initial-exec")));
	unsigned own;

	if (b->nr_parts == 1)
		return 0;
	/* Fibonacci hashing (Knuth, 6.4) reaches all parts, even if batchers are used in turn. */
	own = (uint32_t)(rnl__thread_number() + turns++ / b->turn) * 2654435769u;
	own = (unsigned)((uint64_t)own * b->nr_parts >> 32);
	if (!is_calm(&b[own]))
		for (unsigned i = 0; i < b->nr_parts; i++)
			if (is_calm(&b[i]))
				return i;
	return own;
}

static void reserved_in(struct rnl_batcher *b, struct rnl_request *request)
{
	request->batcher = b;
	request->out = NULL;
	/* relaxed: a waiter of the last run may read it */
	atomic_store_explicit(rnl__atomic(&request->answers), NULL, memory_order_relaxed);
	request->job.flags |= RNL__JOB_REQUEST;
	set_state(request, RESERVED);
}

static int request_reserve(struct rnl_batcher *all, struct rnl_request *request, size_t bytes)
{
	int ret = check_reserve(all, request, bytes);
	unsigned first;

	if (ret)
		return ret;
	first = choose(all);
	for (unsigned i = 0; i < all->nr_parts; i++) {
		struct rnl_batcher *b = &all[(first + i) % all->nr_parts];

		if ((b->resident && is_calm(b) && rnl__resident_reserve(b, request, bytes)) ||
		    !rnl__slab_reserve(b, request, bytes)) {
			reserved_in(b, request);
			return 0;
		}
		starve(b);
	}
	rnl__figure_add_any(&all->refused, 1);
	return -EAGAIN;
}

/*
 * Logs that a reserve waits for the program itself, if no batch is under way: only a release, or the
 * commit of a slot, makes space.  Returns true if it was logged.
 */
static bool warn_of_held(struct rnl_batcher *b, const struct rnl_request *request)
{
	if (rnl__peek(rnl__batcher_busy(b)))
		return false;
	rnl__log_limited(&b->pool->log, RNL_LOG_WARNING, RESERVE ": request %p waits, and no request is "
			 "under way: all outputs are those of done requests that were not released, or "
			 "all slabs have slots that were not committed. Release done requests before a "
			 "wait, or wait with a timeout", (const void *)request);
	return true;
}

int rnl_batcher_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes,
			int64_t timeout_ns)
{
	int ret = request_reserve(b, request, bytes);
	bool late = false, warned = false;
	uint64_t deadline, until;

	if (ret != -EAGAIN || !timeout_ns || rnl__pool_worker(b->pool))
		return ret;
	deadline = rnl__deadline(timeout_ns);
	for (;;) {
		struct rnl__eventcount *eventcount = &b->pool->space_batch;
		uint32_t listened = rnl__eventcount_prepare(eventcount);

		ret = request_reserve(b, request, bytes);
		if (ret != -EAGAIN)
			return ret;
		if (late)
			return -ETIMEDOUT;
		until = warned ? deadline : rnl__smaller(deadline, rnl__now() + b->pool->stuck_ns);
		if (rnl__eventcount_wait(eventcount, listened, until) != -ETIMEDOUT)
			continue;
		late = until == deadline;
		warned = warned || warn_of_held(b, request);
	}
}

/* ---- committing ------------------------------------------------------------ */

/* Accepts the request's job, which is claimed, and marks it as started. */
static void accept(struct rnl_batcher *b, struct rnl_job *job)
{
	/* relaxed: a waiter of the last run may read it; the value does not change */
	atomic_store_explicit(rnl__atomic(&job->pool), b->pool, memory_order_relaxed);
	/* relaxed: like `pool` */
	atomic_store_explicit(rnl__atomic(&job->generation), b->pool->generation,
			      memory_order_relaxed);
	/* From here on rnl_job_cancel() has no effect. */
	rnl__job_accepted(job, RNL__JOB_STARTED);
	if (job->barrier)
		rnl__job_set_round(job, rnl__barrier_count(job->barrier));
}

/* Sets the state of the request's slot.  Returns true if the taker skipped the slot before. */
static bool set_slot(struct rnl_batcher *b, const struct rnl_request *request, unsigned what)
{
	const uint64_t round = request->round;
	struct rnl__slot *slot = &b->slabs[request->slab].slots[request->slot];
	uint64_t state;

	rnl__tsan_release(slot);
	/*
	 * [batch.C1] release: the request, and its slot's content; acquire: the accesses of the
	 * taker that skipped it; pairs with [batch.C2], [batch.C3].  With rnl__mb_after_rmw() also
	 * a full barrier before the check for a taker: see [batch.A1].
	 */
	state = atomic_exchange_explicit(&slot->state, rnl__slot_state(round, what),
					 memory_order_acq_rel);
	rnl__mb_after_rmw();
	return state == rnl__slot_state(round, RNL__SLOT_SKIPPED);
}

int rnl_request_commit(struct rnl_request *request)
{
	int ret = check_in_use(COMMIT, request);
	struct rnl_batcher *b;
	bool lone;

	if (ret)
		return ret;
	b = request->batcher;
	if (request->job.request == COMMITTED)
		return request_refused(b, -EBUSY, COMMIT, request,
				       "was committed: wait until it is done, and release it");
	ret = check_open(b);
	if (!ret)
		ret = check_job(b, &request->job);
	if (!ret && !enter_class(b))
		ret = class_has_ended(b, COMMIT, request);
	if (ret)
		return ret;
	ret = rnl__job_claim(&request->job);
	if (ret) {
		exit_class(b);
		return ret;
	}
	accept(b, &request->job);
	set_state(request, COMMITTED);
	lone = b->resident && is_calm(b);
	/* From here on the request may be done and freed, unless it was skipped. */
	if (request->slab == RNL__BOX_SLAB) {
		if (!rnl__resident_commit(b, request))
			exit_class(b);
		return 0;
	}
	if (lone)
		rnl__resident_note(b, &request->job);
	if (set_slot(b, request, RNL__SLOT_COMMITTED)) {
		rnl__figure_add_any(&b->figures.late, 1);
		(void)rnl__inbox_put(&b->late, request, &request->job.link);
		rnl__mb_after_rmw();
	}
	rnl__schedule_ask(b);
	exit_class(b);
	return 0;
}

/* Releases the slot of a request that was not committed. */
static void give_slot(struct rnl_batcher *b, const struct rnl_request *request)
{
	rnl__figure_add_any(&b->figures.cancelled, 1);
	if (request->slab == RNL__BOX_SLAB) {
		rnl__resident_release(b, request->slot);
		return;
	}
	/* If the taker has not skipped the slot, it releases the slot when it gets there. */
	if (set_slot(b, request, RNL__SLOT_CANCELLED))
		rnl__slab_release(b, &b->slabs[request->slab], 1);
	else
		ask(b);
	rnl__cells_settle(b, 1);
}

int rnl_request_release(struct rnl_request *request)
{
	int ret = check_in_use(RELEASE, request);
	struct rnl_batcher *b;
	bool committed;

	if (ret)
		return ret;
	b = request->batcher;
	committed = request->job.request == COMMITTED;
	if (committed && !rnl__latch_open(rnl__job_latch(&request->job)))
		return -EBUSY;
	request->in = NULL;
	request->out = NULL;
	set_state(request, IDLE);
	if (!committed)
		give_slot(b, request);
	else if (request->slab == RNL__BOX_SLAB)
		rnl__resident_release(b, request->slot);
	else
		rnl__cell_release(b, request->cell);
	return 0;
}
