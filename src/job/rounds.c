/* SPDX-License-Identifier: MIT */
/* Rounds of barriers; rounds.h has the design. */
#include "config.h"

#include <errno.h>

#include "job/job.h"
#include "job/round_words.h"
#include "job/rounds.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/futex.h"
#include "sys/tsan.h"

#define NAP_NS 20000u

/* ---- slots --------------------------------------------------------------- */

void rnl__rounds_init(struct rnl_barrier *b)
{
	b->slots = 1;
	b->users[0] = 1;
}

/* Takes a free slot, with one user.  Returns -1 if there is none. */
static int take_slot(struct rnl_barrier *b)
{
	_Atomic uint64_t *slots = rnl__atomic(&b->slots);
	uint64_t used = rnl__peek(slots);
	unsigned slot;

	do {
		slot = (unsigned)__builtin_ctzll(~used);
		if (slot >= NR_SLOTS)
			return -1;
		/* [rounds.S2] acquire: the slot as its last user left it; pairs with [rounds.S1] */
	} while (!atomic_compare_exchange_weak_explicit(slots, &used, used | UINT64_C(1) << slot,
							memory_order_acquire,
							memory_order_relaxed));
	/* relaxed: [rounds.O1] publishes it; no other thread changes a slot with 0 users */
	atomic_store_explicit(rnl__atomic(&b->users[slot]), 1, memory_order_relaxed);
	return (int)slot;
}

/* Removes a user; the last one frees the slot. */
void rnl__rounds_leave(struct rnl_barrier *b, unsigned slot)
{
	/* [rounds.U1] acq_rel: all uses precede the release of the slot; pairs with [rounds.U1] */
	if ((atomic_fetch_sub_explicit(rnl__atomic(&b->users[slot]), 1, memory_order_acq_rel) &
	     NR_USERS) != 1)
		return;
	/* relaxed: the next store publishes it */
	atomic_store_explicit(waiting_of(b, slot), 0, memory_order_relaxed);
	/* [rounds.S1] release: the slot is reset; pairs with [rounds.S2] */
	atomic_fetch_and_explicit(rnl__atomic(&b->slots), ~rnl__round_mask(slot), memory_order_release);
	/* [rounds.S3] full barrier: free before the check for waiters; pairs with [waitq.W1] */
	rnl__mb_after_rmw();
	rnl__waitq_wake(b->pool);
}

/* Returns the slot of the round after a FOLLOWED one. */
static unsigned next_after(struct rnl_barrier *b, unsigned slot)
{
	return rnl__peek(rnl__atomic(&b->users[slot])) >> NEXT_OF_USERS;
}

unsigned rnl__rounds_before(struct rnl_barrier *b, unsigned slot)
{
	const uint64_t slots = rnl__peek(rnl__atomic(&b->slots));

	for (unsigned i = 0; i < NR_SLOTS; i++)
		if (i != slot && slots >> i & 1 && waiting_now(b, i) & FOLLOWED && next_after(b, i) == slot)
			return i;
	return RNL__NO_ROUND;
}

/* ---- the jobs that wait -------------------------------------------------- */

static void rounds_add(struct rnl__jobs *jobs, struct rnl_job *job)
{
	job->link = NULL;
	if (jobs->first)
		jobs->last->link = job;
	else
		jobs->first = job;
	jobs->last = job;
}

/* Collects the list of a round that has ended; @deferred: the round was not issued before. */
static void rounds_let_go(struct rnl__let_go *out, struct rnl_job *job, bool deferred, int result)
{
	struct rnl_job *next;

	for (job = rnl__job_in_order(job); job; job = next) {
		next = job->link;
		if (job->flags & RNL__JOB_TELLS)
			job->result = result;
		rounds_add(deferred && !(job->flags & RNL__JOB_TELLS) ? &out->issued : &out->ended, job);
	}
}

static int rounds_result(struct rnl_barrier *b)
{
	/* relaxed: the counts have published it, see rnl__barrier_note() */
	return atomic_load_explicit(rnl__atomic(&b->result), memory_order_relaxed);
}

/* Pushes a job.  Returns false if the state has a bit of @unless, or the round has ended. */
static bool push(struct rnl_barrier *b, unsigned slot, struct rnl_job *job, uint64_t unless)
{
	uint64_t waiting = waiting_now(b, slot);

	do {
		if (waiting & unless || is_ended(waiting))
			return false;
		job->link = first_of(waiting);
	} while (!exchange_waiting(b, slot, &waiting,
				   (uintptr_t)job | (waiting & BITS)));
	return true;
}

/* Collects the deferred jobs of a round that is issued.  Notices of the round's end stay listed. */
static void let_issued_go(struct rnl_barrier *b, unsigned slot, struct rnl_job *job,
			  struct rnl__let_go *out)
{
	struct rnl_job *next;

	for (job = rnl__job_in_order(job); job; job = next) {
		next = job->link;
		if (!(job->flags & RNL__JOB_TELLS)) {
			rounds_add(&out->issued, job);
		} else if (!push(b, slot, job, 0)) {
			rnl__tsan_acquire(b);
			job->result = rounds_result(b);
			rounds_add(&out->ended, job);
		}
	}
}

bool rnl__rounds_issued(struct rnl_barrier *b, unsigned slot)
{
	return waiting_now(b, slot) & ISSUED;
}

bool rnl__rounds_ended(struct rnl_barrier *b, unsigned slot)
{
	return is_ended(waiting_now(b, slot));
}

bool rnl__rounds_defer(struct rnl_barrier *b, unsigned slot, struct rnl_job *job)
{
	return push(b, slot, job, ISSUED);
}

bool rnl__rounds_hold(struct rnl_barrier *b, unsigned slot, struct rnl_job *job)
{
	bool held = push(b, slot, job, 0);

	/* The barrier exists, because this worker has yet to complete the job. */
	rnl__rounds_leave(b, slot);
	return held;
}

/* ---- the state of a sealed round ----------------------------------------- */

/* Marks a sealed round as issued.  The caller keeps the barrier from being done. */
static void issue(struct rnl_barrier *b, unsigned slot, struct rnl__let_go *out)
{
	uint64_t waiting = waiting_now(b, slot);

	do {
		/* Another thread did this; if it has ended the round, it reports issue and end. */
		if (is_ended(waiting) || waiting & ISSUED)
			return;
	} while (!exchange_waiting(b, slot, &waiting, ISSUED | (waiting & BITS)));
	if (waiting & FOLLOWED)
		rnl__rounds_drop(b, next_after(b, slot), 1, 0, out);
	let_issued_go(b, slot, first_of(waiting), out);
}

/*
 * Marks a sealed round as ended.  If no round follows it, the exchange is the last access to the
 * barrier; else the drop in the next round comes before the end of that round.
 */
static void end(struct rnl_barrier *b, unsigned slot, struct rnl__let_go *out)
{
	uint64_t waiting = waiting_now(b, slot);
	_Atomic uint32_t *watched = half_of(waiting_of(b, slot), false);
	const int result = rounds_result(b);

	rnl__tsan_acquire(b);
	while (!exchange_waiting(b, slot, &waiting, ENDED_LIST | ISSUED | (waiting & FOLLOWED)))
		;
	if (waiting & FOLLOWED) {
		const unsigned next = next_after(b, slot);

		rnl__rounds_leave(b, slot);
		rnl__rounds_drop(b, next, !(waiting & ISSUED), 1, out);
	}
	if (waiting & WATCHED)
		(void)rnl__futex_wake(watched, INT_MAX);
	rounds_let_go(out, first_of(waiting), !(waiting & ISSUED), result);
}

/* Marks a round as followed: the next round counts it.  Drops it there if it is issued or over. */
static void follow(struct rnl_barrier *b, unsigned slot, unsigned next, struct rnl__let_go *out)
{
	uint64_t waiting = waiting_now(b, slot);

	/* relaxed: the exchange of FOLLOWED publishes it; a new round has no next slot yet */
	atomic_fetch_or_explicit(rnl__atomic(&b->users[slot]), next << NEXT_OF_USERS,
				 memory_order_relaxed);
	while (!exchange_waiting(b, slot, &waiting, waiting | FOLLOWED))
		;
	if (is_ended(waiting)) {
		rnl__rounds_leave(b, slot);
		rnl__rounds_drop(b, next, 1, 1, out);
	} else if (waiting & ISSUED) {
		rnl__rounds_drop(b, next, 1, 0, out);
	}
}

/* ---- counting ------------------------------------------------------------ */

bool rnl__rounds_have_room(const struct rnl_barrier *b)
{
	uint64_t open = rnl__peek(open_of((struct rnl_barrier *)b));

	return nr_unissued(open) < ROOM && nr_undone(open) < ROOM_UNDONE;
}

/*
 * Changes the counts, unissued << 32 | undone, of a round that is no longer open.  The counts are
 * negative if jobs were dropped before the round's counts were added.
 */
static void change_counts(struct rnl_barrier *b, unsigned slot, uint64_t unissued, uint64_t undone,
			  bool more, struct rnl__let_go *out)
{
	uint64_t by = (unissued << 32) + undone, now;

	by = more ? by : 0 - by;
	/* [rounds.C1] acq_rel: like [rounds.O1]; pairs with [rounds.C1] */
	now = atomic_fetch_add_explicit(rnl__atomic(&b->counts[slot]), by,
					memory_order_acq_rel) + by;
	if (unissued && now == (uint64_t)(int64_t)(int32_t)now)
		issue(b, slot, out);
	if (undone && !(uint32_t)now)
		end(b, slot, out);
}

/* Subtracts jobs from the word, and clears the bits of threads that need not sleep any more. */
static uint64_t less(uint64_t open, uint64_t nr_issued, uint64_t nr_done)
{
	open -= nr_issued * UNISSUED + nr_done * UNDONE;
	if (!nr_unissued(open))
		open &= ~JOINER;
	return nr_undone(open) ? open : open & ~SLEEPER;
}

/*
 * Wakes threads that slept, or that wait until the barrier can count more.  The barrier may be
 * gone: only its address is used.
 */
static void wake(struct rnl_pool *pool, _Atomic uint64_t *word, uint64_t old, uint64_t now)
{
	if (old & ~now & FULL)
		rnl__pool_wake_spaces(pool);
	if (old & ~now & JOINER)
		(void)rnl__futex_wake(half_of(word, true), INT_MAX);
	if (old & ~now & SLEEPER)
		(void)rnl__futex_wake(half_of(word, false), INT_MAX);
}

unsigned rnl__rounds_count(struct rnl_barrier *b, struct rnl__let_go *out)
{
	uint64_t open = rnl__peek(open_of(b)), now;
	unsigned slot, next;

	do {
		slot = slot_of(open);
		next = next_of(open);
		now = open + UNISSUED + UNDONE;
		if (is_sealed(open))
			/* The previous round counts as a job, too. */
			now = with_slots((open & (SLEEPER | JOINER)) + 2 * (UNISSUED + UNDONE),
					 next, next);
	} while (!exchange_open(b, &open, now));
	if (slot == next)
		return slot;
	wake(b->pool, open_of(b), open, now);
	change_counts(b, slot, nr_unissued(open), nr_undone(open), true, out);
	/*
	 * The sealer does this, too, but may be delayed until the next round has ended, because
	 * that round does not count the sealer's job.  It counts our job, so it has not ended.
	 */
	if (!nr_unissued(open))
		issue(b, slot, out);
	follow(b, slot, next, out);
	return next;
}

/* Drops jobs of the open round.  Returns false if it is sealed, or another round is open. */
static bool drop_open(struct rnl_barrier *b, unsigned slot, uint32_t nr_issued, uint32_t nr_done)
{
	struct rnl_pool *pool = b->pool;
	_Atomic uint64_t *word = open_of(b);
	uint64_t open = rnl__peek(word), now;

	do {
		if (slot_of(open) != slot || is_sealed(open))
			return false;
		now = less(open, nr_issued, nr_done);
	} while (!exchange_open(b, &open, now));
	wake(pool, word, open, now);
	return true;
}

/* Drops jobs of a sealed round, all as issued or all as done. */
static void drop_sealed(struct rnl_barrier *b, unsigned slot, uint32_t nr_issued, uint32_t nr_done,
			struct rnl__let_go *out)
{
	struct rnl_pool *pool = b->pool;
	_Atomic uint64_t *word = open_of(b);
	uint64_t open = rnl__peek(word), now;

	do {
		if (slot_of(open) != slot) {
			change_counts(b, slot, nr_issued, nr_done, false, out);
			return;
		}
		now = less(open, nr_issued, nr_done);
	} while (!exchange_open(b, &open, now));
	if (nr_issued && !nr_unissued(now))
		issue(b, slot, out);
	if (nr_done && !nr_undone(now))
		end(b, slot, out);
	wake(pool, word, open, now);
}

/* Drops jobs as issued first: until they are dropped as done, they keep the barrier. */
void rnl__rounds_drop(struct rnl_barrier *b, unsigned slot, uint32_t nr_issued, uint32_t nr_done,
		      struct rnl__let_go *out)
{
	rnl__tsan_release(b);
	if (drop_open(b, slot, nr_issued, nr_done))
		return;
	if (nr_issued)
		drop_sealed(b, slot, nr_issued, 0, out);
	if (nr_done)
		drop_sealed(b, slot, 0, nr_done, out);
}

/* ---- sealing ------------------------------------------------------------- */

/* Seals the open round, if it is not sealed: rnl__rounds_seal().  @spare: a free slot, or -1. */
static int seal(struct rnl_barrier *b, int *spare, struct rnl__let_go *out)
{
	uint64_t open = open_now(b);

	for (;;) {
		const unsigned slot = slot_of(open);
		uint64_t now = open;

		if (!is_sealed(open) && !nr_undone(open))
			return RNL__NO_ROUND;
		if (!is_sealed(open)) {
			if (*spare < 0)
				*spare = take_slot(b);
			if (*spare < 0 && !is_sealed(open = open_now(b)))
				return -EAGAIN;
			if (*spare < 0)
				continue;
			now = with_slots(open, slot, (unsigned)*spare);
		}
		if (use_slot(b, slot)) {
			/* If the exchange succeeds, the slot is still the open one. */
			if (exchange_open(b, &open, now)) {
				if (open == now)
					return (int)slot;
				*spare = -1;
				if (!nr_unissued(open))
					issue(b, slot, out);
				return (int)slot;
			}
			rnl__rounds_leave(b, slot);
		}
		open = open_now(b);
	}
}

int rnl__rounds_seal(struct rnl_barrier *b, struct rnl__let_go *out)
{
	int spare = -1, slot = seal(b, &spare, out);

	if (spare >= 0)
		rnl__rounds_leave(b, (unsigned)spare);
	if (slot < 0 || slot == RNL__NO_ROUND || !rnl__rounds_ended(b, (unsigned)slot))
		return slot;
	rnl__rounds_leave(b, (unsigned)slot);
	return RNL__NO_ROUND;
}

/*
 * Counts a job of the calling thread, in the sealed round or in the open one, so that the round and
 * the barrier stay until that job is dropped.  Returns false if all jobs are done, and no other
 * thread accesses the barrier any more.  @slot, @nr_issued: arguments for the drop.
 */
static bool keep(struct rnl_barrier *b, unsigned *slot, uint32_t *nr_issued)
{
	uint64_t open = open_now(b);

	for (;;) {
		const bool sealed = is_sealed(open);

		*slot = slot_of(open);
		/* A sealed round may be issued already. */
		*nr_issued = !sealed;
		if (nr_undone(open)) {
			if (exchange_open(b, &open, open + UNDONE + (sealed ? 0 : UNISSUED)))
				return true;
			continue;
		}
		if (!sealed || rnl__rounds_ended(b, *slot))
			return false;
		/* Another thread is about to record the end, and may need our CPU. */
		rnl__nap(NAP_NS);
		open = open_now(b);
	}
}

int rnl__rounds_notify(struct rnl_barrier *b, struct rnl_job *job, struct rnl__let_go *out)
{
	uint32_t nr_issued;
	unsigned own;
	int slot;

	if (!keep(b, &own, &nr_issued)) {
		rnl__tsan_acquire(b);
		job->result = rounds_result(b);
		rounds_add(&out->ended, job);
		return 0;
	}
	slot = rnl__rounds_seal(b, out);
	if (slot >= 0) {
		(void)push(b, (unsigned)slot, job, 0);
		rnl__rounds_leave(b, (unsigned)slot);
	}
	rnl__rounds_drop(b, own, nr_issued, 1, out);
	return slot < 0 ? slot : 0;
}
