/* SPDX-License-Identifier: MIT */
/* Jobs that are finished from outside the pool; holds.h has the design. */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/hold.h>

#include "pool/directory.h"
#include "pool/holds.h"
#include "stream/job_flags.h"
#include "pool/pool.h"
#include "pool/scan.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/tsan.h"

#define MANY 65536u		/* slots; from here on a worker waits before it makes more: ... */
#define NAP_NS 100000u		/* ... for the timer thread, so long at a time, ... */
#define NAPS 100		/* ... and so many times */
#define FIRST_CHUNK 64u		/* slots; each chunk has twice as many as the last */
#define INDEX_BITS 22		/* of an id; the bits above are the worker */
#define ENDED 2u		/* added to `use`, besides 1, if a hold ends without a release */

struct rnl__hold_slot {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t use; /* odd: taken */
	/* Other threads only compare these; the slot's owner uses them. */
	_Atomic(struct rnl_job *) job;
	_Atomic uint64_t at;		/* hold: the job's deadline; wait: when it began */
	_Atomic uint32_t waits;		/* 1: a waiting job's own slot, not a hold's */
	uint32_t id;
	void *next, *before, *child;	/* links of a heap; `next` also links came_holds */
	void *link;			/* links free, freed_holds or left_holds */
};

_Static_assert(sizeof(struct rnl__hold_slot) == RNL__CACHE_LINE, "a slot is a cache line");
_Static_assert((FIRST_CHUNK << RNL__HOLD_CHUNKS) - FIRST_CHUNK < 1u << INDEX_BITS &&
	       RNL_WORKERS_MAX <= 1u << (32 - INDEX_BITS), "an id has 32 bits");

/* ---- slots --------------------------------------------------------------- */

/* Returns how many slots are in the earlier chunks. */
static uint32_t slots_before(unsigned chunk)
{
	return (FIRST_CHUNK << chunk) - FIRST_CHUNK;
}

static struct rnl__hold_slot *chunk_of(struct rnl__holds *holds, unsigned chunk)
{
	/* [holds.R2] acquire: the chunk's slots, as they were made; pairs with [holds.R1] */
	return atomic_load_explicit(&holds->chunks[chunk], memory_order_acquire);
}

static struct rnl__worker *holds_worker(struct rnl_pool *pool, uint32_t id)
{
	return rnl__worker_at(pool, (id - 1) >> INDEX_BITS);
}

/* Returns the slot with this id, or NULL if there is none: @id may be any number. */
static struct rnl__hold_slot *holds_slot(struct rnl_pool *pool, uint32_t id)
{
	const uint32_t index = (id - 1) & ((1u << INDEX_BITS) - 1);
	const unsigned chunk = 31u - (unsigned)__builtin_clz(index / FIRST_CHUNK + 1);
	struct rnl__hold_slot *slots;

	if (!id || (id - 1) >> INDEX_BITS >= rnl__pool_nr_workers(pool) || chunk >= RNL__HOLD_CHUNKS)
		return NULL;
	slots = chunk_of(&holds_worker(pool, id)->holds, chunk);
	return slots ? &slots[index - slots_before(chunk)] : NULL;
}

/* Puts the caller's slot back.  Any thread. */
static void holds_put_back(struct rnl_pool *pool, struct rnl__hold_slot *slot)
{
	(void)rnl__inbox_put(&holds_worker(pool, slot->id)->freed_holds, slot, &slot->link);
}

/* Makes a chunk of free slots.  Returns false if there is no memory, or no place for a chunk. */
static bool make_chunk(struct rnl__worker *w)
{
	struct rnl__holds *holds = &w->holds;
	const uint32_t first = slots_before(holds->nr_chunks), nr = first + FIRST_CHUNK;
	struct rnl__hold_slot *made;

	if (holds->nr_chunks == RNL__HOLD_CHUNKS)
		return false;
	made = aligned_alloc(RNL__CACHE_LINE, nr * sizeof(*made));
	if (!made)
		return false;
	memset(made, 0, nr * sizeof(*made));
	for (uint32_t i = 0; i < nr; i++)
		made[i].id = (w->index << INDEX_BITS | (first + i)) + 1;
	holds->fresh = made;
	holds->nr_fresh = nr;
	/* [holds.R1] release: as they were made; pairs with [holds.R2] */
	atomic_store_explicit(&holds->chunks[holds->nr_chunks++], made, memory_order_release);
	return true;
}

/* Asks the timer thread to put back released slots.  Returns false if it has none. */
static bool ask_for_slots(struct rnl__worker *w)
{
	if (!rnl__inbox_holds(&w->pool->timer.left_holds))
		return false;
	w->holds.nr_taken = 0;
	rnl__timer_expect(&w->pool->timer.self, rnl__now());
	return true;
}

/* If no slot is free, and there are many, waits a while for the timer thread to put some back. */
static void await_slots(struct rnl__worker *w)
{
	struct rnl__holds *holds = &w->holds;

	if (holds->free || holds->nr_fresh || slots_before(holds->nr_chunks) < MANY)
		return;
	for (int i = 0; i < NAPS && !rnl__inbox_holds(&w->freed_holds) && ask_for_slots(w); i++)
		rnl__nap(NAP_NS);
}

/* Returns a free slot of this thread's worker, or NULL. */
static struct rnl__hold_slot *free_slot(struct rnl__worker *w)
{
	struct rnl__holds *holds = &w->holds;
	struct rnl__hold_slot *slot;

	if (++holds->nr_taken > slots_before(holds->nr_chunks) / 4)
		(void)ask_for_slots(w);
	if (!holds->free)
		holds->free = rnl__inbox_take_all(&w->freed_holds);
	slot = holds->free;
	if (slot) {
		holds->free = slot->link;
		return slot;
	}
	if (!holds->nr_fresh && !make_chunk(w))
		return NULL;
	holds->nr_fresh--;
	return holds->fresh++;
}

/*
 * Takes a slot for a job of this thread's worker.  Returns NULL if there is no memory.  @use gets
 * the value that was set: the timer thread may end an expired use immediately.
 */
static struct rnl__hold_slot *holds_take(struct rnl__worker *w, struct rnl_job *job, bool waits,
					 uint64_t at, uint64_t *use)
{
	struct rnl__hold_slot *slot = free_slot(w);

	if (!slot)
		return NULL;
	/*
	 * [holds.T2] release: a thread that sees one of the three values sees that the earlier
	 * use is over; pairs with [holds.L2]
	 */
	atomic_store_explicit(&slot->job, job, memory_order_release);
	/* [holds.T2] release */
	atomic_store_explicit(&slot->waits, waits, memory_order_release);
	/* [holds.T2] release */
	atomic_store_explicit(&slot->at, at, memory_order_release);
	*use = rnl__own_read(&slot->use) + 1;
	/* [holds.T1] release: the slot's contents; pairs with [holds.U1], [holds.L1] */
	atomic_store_explicit(&slot->use, *use, memory_order_release);
	return slot;
}

/* Takes the slot over if its use is still @use.  True: the caller must put the slot back. */
static bool take_over(struct rnl__hold_slot *slot, uint64_t use, unsigned by)
{
	/*
	 * [holds.U1] acq_rel: only one thread exchanges a use, and it sees the slot as it was
	 * taken; pairs with [holds.T1]
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

/* Drops a hold's share.  The last drop returns the job, which may be done from then on. */
static void holds_drop(struct rnl_pool *pool, struct rnl_job *job)
{
	uint32_t nr = rnl__peek(count_of(job));

	rnl__tsan_release(job);
	while (nr > 1) {
		/* [holds.D1] acq_rel: the last drop sees all effects; pairs with [holds.D1] */
		if (atomic_compare_exchange_weak_explicit(count_of(job), &nr, nr - 1,
							  memory_order_acq_rel,
							  memory_order_relaxed))
			return;
	}
	/* [holds.D2] acquire: the other releases' effects; pairs with [holds.D1] */
	(void)atomic_load_explicit(count_of(job), memory_order_acquire);
	/* Returning the job publishes it. */
	rnl__worker_return(rnl__worker_at(pool, job->worker), job);
}

/*
 * Ends a hold after take_over().  @in_heap: the slot is in the timer thread's heap or on its way
 * there, so that thread puts it back.  The caller has pinned the pool, or is a thread of the pool.
 */
static void holds_end(struct rnl_pool *pool, struct rnl__hold_slot *slot, bool in_heap, int result)
{
	struct rnl_job *job = rnl__own_read(&slot->job);

	if (in_heap)
		(void)rnl__inbox_put(&pool->timer.left_holds, slot, &slot->link);
	else
		holds_put_back(pool, slot);
	if (result < 0)
		rnl__holds_note(job, result);
	holds_drop(pool, job);
}

static bool has_deadline(const struct rnl__hold_slot *slot)
{
	return rnl__own_read(&slot->at) != RNL__NEVER;
}

/* ---- taking and releasing ------------------------------------------------ */

static uint64_t deadline_of(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_DEADLINE ? job->submit_ns + job->deadline_ns : RNL__NEVER;
}

int rnl__holds_take(struct rnl__worker *w, struct rnl_job *job, struct rnl_hold *hold)
{
	const uint64_t expires_at = deadline_of(job);
	struct rnl__hold_slot *slot;
	uint64_t use;

	/* The first hold also counts the worker's own share. */
	if (!(job->flags & RNL__JOB_HELD)) {
		/* relaxed, both: [holds.T1] publishes them */
		atomic_store_explicit(count_of(job), 1, memory_order_relaxed);
		/* relaxed */
		atomic_store_explicit(rnl__atomic(&job->result), 0, memory_order_relaxed);
		job->worker = (uint16_t)w->index;
		job->flags |= RNL__JOB_HELD;
	}
	/* relaxed: the worker has a share, so no release is the last one */
	atomic_fetch_add_explicit(count_of(job), 1, memory_order_relaxed);
	await_slots(w);
	slot = holds_take(w, job, false, expires_at, &use);
	if (!slot) {
		/* relaxed: see the add */
		atomic_fetch_sub_explicit(count_of(job), 1, memory_order_relaxed);
		return -ENOMEM;
	}
	*hold = (struct rnl_hold){
		.use = use, .slot = slot->id, .generation = rnl__generation,
		.pool = w->pool->known_as.entry, .epoch = w->pool->known_as.epoch,
	};
	if (expires_at == RNL__NEVER)
		return 0;
	(void)rnl__inbox_put(&w->pool->timer.came_holds, slot, &slot->next);
	/* [holds.E1] full barrier: the slot is put before the look; pairs with [queue.W2] */
	rnl__mb_after_rmw();
	rnl__timer_expect(&w->pool->timer.self, expires_at);
	return 0;
}

/* Returns true if the slot is a waiting job's own; valid if `use` is unchanged afterwards. */
static bool is_wait(struct rnl__hold_slot *slot)
{
	/* [holds.L2] acquire: see holds_look(); pairs with [holds.T2] */
	return atomic_load_explicit(&slot->waits, memory_order_acquire);
}

/* Releases a hold of a pool that is pinned. */
static int holds_release(struct rnl_pool *pool, const struct rnl_hold *hold, int result)
{
	struct rnl__hold_slot *slot = hold->use & 1 ? holds_slot(pool, hold->slot) : NULL;
	/* [holds.L1] acquire: see holds_look(); pairs with [holds.T1] */
	uint64_t now = slot ? atomic_load_explicit(&slot->use, memory_order_acquire) : 0;

	/*
	 * No program has a hold on a waiting job's own slot.  Between the reads of `use` and
	 * `waits`, the slot may have been taken for a wait; then `use` has changed, by [holds.L2].
	 */
	if (now < hold->use || (now == hold->use && is_wait(slot) && rnl__peek(&slot->use) == now))
		return -EINVAL;
	if (now == hold->use && take_over(slot, hold->use, 1)) {
		holds_end(pool, slot, has_deadline(slot), result);
		return 0;
	}
	return rnl__peek(&slot->use) == hold->use + 1 ? -EALREADY : -ESTALE;
}

int rnl__holds_release(const struct rnl_hold *hold, int result)
{
	const struct rnl__name name = { hold->pool, hold->epoch };
	struct rnl_pool *pool;
	int ret = rnl__directory_pin(name, &pool);

	if (ret)
		return ret;
	ret = holds_release(pool, hold, result);
	rnl__directory_unpin(name);
	return ret;
}

/* ---- looking through the slots ------------------------------------------- */

/* The contents of a slot that other threads may take and put back meanwhile. */
struct view {
	uint64_t use, at;
	struct rnl_job *job;		/* for comparison only */
	bool waits;
};

/* Reads a slot.  Returns false if it is free. */
static bool holds_look(struct rnl__hold_slot *slot, struct view *view)
{
	/*
	 * [holds.L1] acquire: if the use is unchanged when it is exchanged or read again, the other
	 * fields belong to it; pairs with [holds.T1]
	 */
	view->use = atomic_load_explicit(&slot->use, memory_order_acquire);
	/* [holds.L2] acquire, all three: like [holds.L1]; pairs with [holds.T2] */
	view->job = atomic_load_explicit(&slot->job, memory_order_acquire);
	/* [holds.L2] acquire */
	view->waits = atomic_load_explicit(&slot->waits, memory_order_acquire);
	/* [holds.L2] acquire */
	view->at = atomic_load_explicit(&slot->at, memory_order_acquire);
	return view->use & 1;
}

/* Returns a worker's slot by its index, or NULL if the worker has no more slots. */
static struct rnl__hold_slot *nth_slot(struct rnl_pool *pool, unsigned worker, uint32_t index)
{
	return holds_slot(pool, (worker << INDEX_BITS | index) + 1);
}

void rnl__holds_end_of(struct rnl__worker *w, const struct rnl_job *job)
{
	struct rnl__hold_slot *slot;
	struct view view;

	for (uint32_t i = 0; (slot = nth_slot(w->pool, w->index, i)) != NULL; i++)
		if (holds_look(slot, &view) && view.job == job && !view.waits &&
		    take_over(slot, view.use, 1 + ENDED))
			holds_end(w->pool, slot, has_deadline(slot), 0);
}

void rnl__holds_list(struct rnl_pool *pool, rnl__holds_fn *fn, void *arg)
{
	struct rnl__hold_slot *slot;
	struct view view;

	for (unsigned w = 0; w < rnl__pool_nr_workers(pool); w++) {
		for (uint32_t i = 0; (slot = nth_slot(pool, w, i)) != NULL; i++) {
			if (!holds_look(slot, &view) || !view.waits)
				continue;
			/* relaxed: the acquire loads of holds_look() come first */
			if (atomic_load_explicit(&slot->use, memory_order_relaxed) == view.use)
				fn(arg, view.job, w, view.at);
		}
	}
}

/* ---- deadlines, on the timer thread ------------------------------------------------ */

/*
 * Called twice for a slot, in any order: once for its release, once when it is permanently out of
 * the heap.  The second call puts the slot back.
 */
static void meet_slot(struct rnl_pool *pool, struct rnl__hold_slot *slot)
{
	if (slot->before == slot) {
		slot->before = NULL;
		holds_put_back(pool, slot);
	} else {
		slot->before = slot;
	}
}

static void take_in_slots(struct rnl_pool *pool, struct rnl__timer_break *brk)
{
	/* Taken before `came`: each slot of `left` was put on came_holds before its release. */
	struct rnl__hold_slot *left = rnl__inbox_take_all(&pool->timer.left_holds), *came, *next;

	for (came = rnl__inbox_take_all(&pool->timer.came_holds); came; came = next) {
		rnl__timer_step(brk);
		next = came->next;
		/* Most holds are released long before their deadline. */
		if (came->before || !(rnl__peek(&came->use) & 1))
			meet_slot(pool, came);
		else
			rnl__heap_add(&pool->timer.hold_deadlines, came);
	}
	for (; left; left = next) {
		rnl__timer_step(brk);
		next = left->link;
		if (left->before && left->before != left) {
			rnl__heap_cut(&pool->timer.hold_deadlines, left, rnl__timer_between, brk);
			left->before = left;
		}
		meet_slot(pool, left);
	}
}

void rnl__holds_expire(struct rnl_pool *pool, uint64_t now, struct rnl__timer_break *brk)
{
	struct rnl__heap *heap = &pool->timer.hold_deadlines;
	struct rnl__hold_slot *slot;

	rnl__queue_forget_due(&pool->timer.self.queue);
	take_in_slots(pool, brk);
	while (rnl__heap_time(heap) <= now && (slot = heap->top) != NULL) {
		uint64_t use = rnl__peek(&slot->use);

		rnl__timer_step(brk);
		rnl__heap_cut(heap, slot, rnl__timer_between, brk);
		if (use & 1 && take_over(slot, use, 1 + ENDED)) {
			slot->before = NULL;
			holds_end(pool, slot, false, -ETIMEDOUT);
		} else {
			meet_slot(pool, slot);
		}
	}
	(void)rnl__queue_expect(&pool->timer.self.queue, rnl__heap_time(heap));
}

/* ---- on the job's worker ------------------------------------------------- */

bool rnl__holds_await(struct rnl__worker *w, struct rnl_job *job)
{
	uint64_t use;

	/* [holds.D3] acquire: the releases' effects; pairs with [holds.D1] */
	if (atomic_load_explicit(count_of(job), memory_order_acquire) == 1)
		return false;
	/* Without memory for a slot, rnl__holds_list() does not find the job. */
	job->waiting = holds_take(w, job, true, w->track ? rnl__now() : rnl__now_coarse(), &use);
	/* [holds.D4] acq_rel: like [holds.D1]; pairs with [holds.D1] */
	if (atomic_fetch_sub_explicit(count_of(job), 1, memory_order_acq_rel) != 1)
		return true;
	(void)rnl__holds_over(w, job);
	return false;
}

uint64_t rnl__holds_over(struct rnl__worker *w, struct rnl_job *job)
{
	struct rnl__hold_slot *slot = job->waiting;
	uint64_t since = 0;

	if (slot) {
		since = rnl__own_read(&slot->at);
		(void)take_over(slot, rnl__own_read(&slot->use), 1);
		holds_put_back(w->pool, slot);
	}
	return since;
}

/* ---- with the pool ---------------------------------------------------------- */

void rnl__holds_init(struct rnl_pool *pool)
{
	pool->timer.hold_deadlines = (struct rnl__heap){
		.time = offsetof(struct rnl__hold_slot, at), .next = offsetof(struct rnl__hold_slot, next),
		.before = offsetof(struct rnl__hold_slot, before), .child = offsetof(struct rnl__hold_slot, child),
	};
}

void rnl__holds_fini(struct rnl__holds *holds)
{
	while (holds->nr_chunks)
		free(rnl__own_read(&holds->chunks[--holds->nr_chunks]));
}
