/* SPDX-License-Identifier: MIT */
/* Jobs that are finished from outside; holds.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/holds.h"
#include "pool/job_flags.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/latch.h"
#include "sys/sizes.h"
#include "sys/stack.h"
#include "sys/tsan.h"

#define ROW 1024u		/* slots that are made at once */
#define ENDED 2u		/* beside a release's 1, what an end adds to `use` */

struct slot {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t use; /* odd: taken */
	/* Other threads compare these; the slot's owner uses them. */
	_Atomic(struct rnl_pool *) pool;
	_Atomic(struct rnl_job *) job;
	_Atomic uint64_t since;		/* 0: a hold; else a job waits for its holds since then */
	_Atomic uint64_t late_at;	/* of a hold: the job's deadline */
	_Atomic uint32_t worker;
};

/* All of the process.  A slot has the id of its node on the stack of those that are free. */
static struct rnl__rows nodes;
static _Atomic(struct slot *) rows[RNL__NR_ROWS];
static _Atomic uint32_t nr_rows;
static struct rnl__stack free_slots;

/* ---- slots --------------------------------------------------------------- */

/* The slots of a row; NULL: it has none yet. */
static struct slot *row_of(uint32_t row)
{
	/* [holds.R2] acquire: the row's slots, as they were made; pairs with [holds.R1] */
	return row < RNL__NR_ROWS ? atomic_load_explicit(&rows[row], memory_order_acquire) : NULL;
}

/* NULL: no slot has the id. */
static struct slot *slot_of(uint32_t id)
{
	struct slot *row = id ? row_of(rnl__node_row(id)) : NULL;

	return row && rnl__node_index(id) < ROW ? &row[rnl__node_index(id)] : NULL;
}

static void put_back(uint32_t id)
{
	rnl__stack_push(&free_slots, &nodes, id, id);
}

/* A number for a row whose memory the caller has; false: there are no more. */
static bool number(uint32_t *row)
{
	*row = rnl__peek(&nr_rows);
	do {
		if (*row == RNL__NR_ROWS)
			return false;
		/* relaxed: the row is the caller's alone until [holds.R1] */
	} while (!atomic_compare_exchange_weak_explicit(&nr_rows, row, *row + 1,
							memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* Makes a row of slots, of which the caller gets the first; 0: no memory, or too many. */
static uint32_t make_row(void)
{
	struct slot *made = aligned_alloc(RNL__CACHE_LINE, ROW * sizeof(*made));
	struct rnl__row *its_nodes = rnl__row_new(ROW);
	uint32_t row;

	/* Without its memory no number is taken: it would be lost. */
	if (!made || !its_nodes || !number(&row)) {
		free(made);
		free(its_nodes);
		return 0;
	}
	memset(made, 0, ROW * sizeof(*made));
	rnl__row_place(&nodes, row, its_nodes);
	/* [holds.R1] release: as they were made; pairs with [holds.R2] */
	atomic_store_explicit(&rows[row], made, memory_order_release);
	for (uint32_t i = 1; i + 1 < ROW; i++)
		rnl__node_link(&nodes, rnl__node_id(row, i), rnl__node_id(row, i + 1));
	rnl__stack_push(&free_slots, &nodes, rnl__node_id(row, 1), rnl__node_id(row, ROW - 1));
	return rnl__node_id(row, 0);
}

/*
 * Takes a slot for a job of this thread's worker.  Its id; 0: no memory.  The keeper may end the use
 * at once, if it is late: so @use has it as it was made.
 */
static uint32_t take(struct rnl__worker *w, struct rnl_job *job, uint64_t since, uint64_t late_at,
		     uint64_t *use)
{
	uint32_t id = rnl__stack_pop(&free_slots, &nodes);
	struct slot *slot;

	if (!id)
		id = make_row();
	if (!id)
		return 0;
	slot = slot_of(id);
	/*
	 * [holds.T2] release, all four: a thread that finds one of them finds the use before it over;
	 * pairs with [holds.L2]
	 */
	atomic_store_explicit(&slot->pool, w->pool, memory_order_release);
	/* [holds.T2] release */
	atomic_store_explicit(&slot->job, job, memory_order_release);
	/* [holds.T2] release */
	atomic_store_explicit(&slot->since, since, memory_order_release);
	/* [holds.T2] release */
	atomic_store_explicit(&slot->late_at, late_at, memory_order_release);
	/* relaxed: as the others, and only told */
	atomic_store_explicit(&slot->worker, w->index, memory_order_relaxed);
	*use = rnl__own_read(&slot->use) + 1;
	/* [holds.T1] release: what the slot says; pairs with [holds.U1], [holds.L1] */
	atomic_store_explicit(&slot->use, *use, memory_order_release);
	return id;
}

/* Takes a slot over whose use is still this one: it is the caller's to put back then. */
static bool take_over(struct slot *slot, uint64_t use, unsigned by)
{
	/*
	 * [holds.U1] acq_rel: one thread exchanges a use; the slot, as it was taken, to that one;
	 * pairs with [holds.T1]
	 */
	return atomic_compare_exchange_strong_explicit(&slot->use, &use, use + by,
						       memory_order_acq_rel,
						       memory_order_relaxed);
}

/* ---- the job's count ----------------------------------------------------- */

static _Atomic uint32_t *count_of(struct rnl_job *job)
{
	return rnl__atomic(&job->holds);
}

/*
 * Drops a hold's share.  The last one returns the job: from then on it may be done, and its pool
 * gone, but for `releasing`.
 */
static void drop(struct rnl_pool *pool, struct rnl_job *job)
{
	uint32_t nr = rnl__peek(count_of(job));

	rnl__tsan_release(job);
	while (nr > 1) {
		/* [holds.D1] acq_rel: what each release did, to the last one; pairs with [holds.D1] */
		if (atomic_compare_exchange_weak_explicit(count_of(job), &nr, nr - 1,
							  memory_order_acq_rel,
							  memory_order_relaxed))
			return;
	}
	/* The return of the job publishes it. */
	rnl__latch_add(&pool->releasing, 1);
	/* [holds.D2] acquire: what the other releases did; pairs with [holds.D1] */
	(void)atomic_load_explicit(count_of(job), memory_order_acquire);
	rnl__worker_return(&pool->workers[job->worker], job);
	(void)rnl__latch_drop(&pool->releasing, 1);
}

/* Puts a hold's slot back that the caller has taken over, and drops its share. */
static void end(uint32_t id, struct slot *slot, int result)
{
	struct rnl_job *job = rnl__own_read(&slot->job);
	struct rnl_pool *pool = rnl__own_read(&slot->pool);

	put_back(id);
	if (result < 0)
		rnl__holds_note(job, result);
	drop(pool, job);
}

/* ---- taking and releasing ------------------------------------------------ */

static uint64_t deadline_of(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_DEADLINE ? job->submit_ns + job->deadline_ns : RNL__NEVER;
}

int rnl__holds_take(struct rnl__worker *w, struct rnl_job *job, struct rnl_hold *hold)
{
	const uint64_t late_at = deadline_of(job);
	uint64_t use;
	uint32_t id;

	/* The first hold comes with the worker's own share. */
	if (!(job->flags & RNL__JOB_HELD)) {
		/* relaxed, both: [holds.T1] publishes them */
		atomic_store_explicit(count_of(job), 1, memory_order_relaxed);
		/* relaxed */
		atomic_store_explicit(rnl__atomic(&job->result), 0, memory_order_relaxed);
		job->worker = (uint8_t)w->index;
		job->flags |= RNL__JOB_HELD;
	}
	/* relaxed: the worker has a share, so no release is the last one */
	atomic_fetch_add_explicit(count_of(job), 1, memory_order_relaxed);
	id = take(w, job, 0, late_at, &use);
	if (!id) {
		/* relaxed: the same */
		atomic_fetch_sub_explicit(count_of(job), 1, memory_order_relaxed);
		return -ENOMEM;
	}
	*hold = (struct rnl_hold){ .use = use, .slot = id, .generation = rnl__generation };
	if (late_at == RNL__NEVER)
		return 0;
	/* [holds.E1] full barrier: the slot is taken before the look; pairs with [queue.W2] */
	rnl__full_barrier();
	rnl__keeper_expect(&w->pool->keeper.self, late_at);
	return 0;
}

int rnl__holds_release(const struct rnl_hold *hold, int result)
{
	struct slot *slot = hold->use & 1 ? slot_of(hold->slot) : NULL;
	uint64_t now = slot ? rnl__peek(&slot->use) : 0;

	if (now < hold->use)
		return -EINVAL;
	if (now == hold->use && take_over(slot, hold->use, 1)) {
		end(hold->slot, slot, result);
		return 0;
	}
	return rnl__peek(&slot->use) == hold->use + 1 ? -EALREADY : -ESTALE;
}

/* ---- looking through the slots ------------------------------------------- */

/* What a thread finds in a slot that others may take and put back meanwhile. */
struct view {
	uint64_t use, since, late_at;
	struct rnl_pool *pool;
	struct rnl_job *job;		/* to be compared only */
};

/* False: the slot is free. */
static bool look(struct slot *slot, struct view *view)
{
	/*
	 * [holds.L1] acquire: if the use is still this one when it is exchanged, or looked at again,
	 * the others are of this use; pairs with [holds.T1]
	 */
	view->use = atomic_load_explicit(&slot->use, memory_order_acquire);
	/* [holds.L2] acquire, all four: the same; pairs with [holds.T2] */
	view->pool = atomic_load_explicit(&slot->pool, memory_order_acquire);
	/* [holds.L2] acquire */
	view->job = atomic_load_explicit(&slot->job, memory_order_acquire);
	/* [holds.L2] acquire */
	view->since = atomic_load_explicit(&slot->since, memory_order_acquire);
	/* [holds.L2] acquire */
	view->late_at = atomic_load_explicit(&slot->late_at, memory_order_acquire);
	return view->use & 1;
}

/* The slot with the next id, @row and @index tell which; NULL: there are no more. */
static struct slot *next_slot(uint32_t *row, uint32_t *index)
{
	struct slot *slots = row_of(*row);

	if (++*index == ROW) {
		*index = 0;
		slots = row_of(++*row);
	}
	/* A row that is being made has no slots yet, and others may stand behind it. */
	while (!slots && *row < rnl__smaller(rnl__figure_read(&nr_rows), RNL__NR_ROWS))
		slots = row_of(++*row);
	return slots ? &slots[*index] : NULL;
}

#define for_each_slot(slot, row, index) \
	for (uint32_t row = 0, index = UINT32_MAX; ((slot) = next_slot(&row, &index)) != NULL;)

void rnl__holds_end_of(const struct rnl_pool *pool, const struct rnl_job *job)
{
	struct slot *slot;
	struct view view;

	for_each_slot(slot, row, index)
		if (look(slot, &view) && view.pool == pool && view.job == job && !view.since &&
		    take_over(slot, view.use, 1 + ENDED))
			end(rnl__node_id(row, index), slot, 0);
}

void rnl__holds_end_late(struct rnl_pool *pool, uint64_t now, struct rnl__keeper_break *brk)
{
	uint64_t due = RNL__NEVER;
	struct slot *slot;
	struct view view;

	rnl__queue_forget_due(&pool->keeper.self.queue);
	for_each_slot(slot, row, index) {
		rnl__keeper_step(brk);
		if (!look(slot, &view) || view.pool != pool || view.since)
			continue;
		if (view.late_at > now)
			due = rnl__smaller(due, view.late_at);
		else if (take_over(slot, view.use, 1 + ENDED))
			end(rnl__node_id(row, index), slot, -ETIMEDOUT);
	}
	(void)rnl__queue_expect(&pool->keeper.self.queue, due);
}

/* ---- on the job's worker ------------------------------------------------- */

bool rnl__holds_await(struct rnl__worker *w, struct rnl_job *job)
{
	uint64_t use;

	/* [holds.D3] acquire: what the releases did; pairs with [holds.D1] */
	if (atomic_load_explicit(count_of(job), memory_order_acquire) == 1)
		return false;
	/* Without memory the job is missing in lists. */
	job->seq = take(w, job, w->track ? rnl__now() : rnl__now_coarse(), RNL__NEVER, &use);
	/* [holds.D4] acq_rel: as [holds.D1]; pairs with [holds.D1] */
	if (atomic_fetch_sub_explicit(count_of(job), 1, memory_order_acq_rel) != 1)
		return true;
	(void)rnl__holds_over(job);
	return false;
}

uint64_t rnl__holds_over(struct rnl_job *job)
{
	struct slot *slot = slot_of((uint32_t)job->seq);
	uint64_t since = 0;

	if (slot) {
		since = rnl__own_read(&slot->since);
		(void)take_over(slot, rnl__own_read(&slot->use), 1);
		put_back((uint32_t)job->seq);
	}
	return since;
}

void rnl__holds_list(struct rnl_pool *pool, rnl__holds_fn *fn, void *arg)
{
	struct slot *slot;
	struct view view;

	for_each_slot(slot, row, index) {
		if (!look(slot, &view) || view.pool != pool || !view.since)
			continue;
		/* relaxed: [holds.L1] orders the look before it */
		if (atomic_load_explicit(&slot->use, memory_order_relaxed) == view.use)
			fn(arg, view.job, rnl__figure_read(&slot->worker), view.since);
	}
}

void rnl__holds_fini(struct rnl_pool *pool)
{
	/* Asleep: the releasing thread may have a lower priority, and need this CPU. */
	(void)rnl__latch_wait(&pool->releasing, 0, RNL__NEVER);
}
