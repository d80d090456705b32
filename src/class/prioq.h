/* SPDX-License-Identifier: MIT */
/*
 * A bounded priority queue of jobs: any thread puts, any thread takes the job with the smallest
 * key, and no thread waits for another one, even for one that the system has preempted.
 *
 * DESIGN
 *	A slot holds one job; a submit claims it before the job is accepted, so the number of slots
 *	bounds the queue, and a cancel knows the slot.  The words of the slots are the leaves of a
 *	tree: a node has the smallest key below it, so the root has the smallest of all (an f-array,
 *	Jayanti 2002).  A put writes the slot's job and its key, then lowers the nodes above to the
 *	key.  A take goes down from the root to the leaf with the root's key, and empties the leaf
 *	by a compare-exchange: then the job is the taker's, and the slot is free when the taker says
 *	so.  It sets the nodes above to their smallest child, from the leaf upwards.
 *	Each of these steps exchanges the node's word, even if its key does not change, and tries
 *	again if another thread was first.  So of two threads that change children of one node, the
 *	later exchange has seen both changes: a take has read the children since, and a put keeps
 *	what the exchange before has found.
 *	A put that is late may lower a node to the key of a job that has left already.  A taker that
 *	meets such a node sets the path again.  No thread waits for another one: a preempted thread
 *	delays only its own job.
 *	A word is a key of 48 bits and a count of its changes, so an exchange fails if the word
 *	changed and changed back.  The count has 16 bits: should it wrap in the middle of a step, a
 *	job may be missing in the nodes.  So `nr` says whether there is a job, and a take that finds
 *	none by the nodes reads all leaves.
 *	No thread but its taker may read a job: its memory is the program's when it is done.  What a
 *	scan needs to know is in the slot: when the job expires, and its tag.  A cancel sets the
 *	time to 0, also before the put.
 *	A read of all keys and estimates removes no job.
 *	Model: unit/prioq runs on the simulated machine, which reorders memory.
 *
 *			put	take	scan	mark	read
 *	claim, put	-	-	-	-	-
 *	take		-	-	-	-	-
 *	scan		-	-	X	-	-	X: one thread
 *	mark		-	-	-	-	-
 */
#ifndef RNL_PRIOQ_H
#define RNL_PRIOQ_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/atomic.h"

struct rnl_job;

#define RNL__PRIOQ_LEVELS 5u		/* 16 ^ 4 slots at most */
#define RNL__PRIOQ_MAX 65536u		/* a job names its slot by 16 bits */
#define RNL__PRIOQ_TAGS 256u
#define RNL__PRIOQ_KEY_BITS 48u
#define RNL__PRIOQ_NONE ((UINT64_C(1) << RNL__PRIOQ_KEY_BITS) - 1) /* the largest key: no job */

struct rnl__prioq_slot {
	_Atomic(struct rnl_job *) job;	/* only its taker reads the job; NULL: the slot is free */
	_Atomic uint64_t expires_at;	/* 0: a scan takes it, because it was cancelled */
};

struct rnl__prioq {
	struct rnl__prioq_slot *slots;
	_Atomic uint16_t *costs;	/* of the slots' jobs, for predictions: rnl__cost_pack() */
	_Atomic uint8_t *tags;		/* by which a scan finds them */
	_Atomic uint64_t *node[RNL__PRIOQ_LEVELS]; /* [0]: the leaves; the last one: the root */
	_Atomic uint64_t *free;		/* a bit for each slot */
	unsigned nr_slots, nr_words, nr_levels; /* nr_words: of `free` */
	/* Counted before the put, until after the take. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t nr;
};

/* Makes a queue of @nr_slots slots, RNL__PRIOQ_MAX at most.  Returns 0 or -ENOMEM. */
int rnl__prioq_init(struct rnl__prioq *q, unsigned nr_slots);
void rnl__prioq_fini(struct rnl__prioq *q);

/* Frees the first @nr slots of a queue that no submit uses, and no other slot. */
void rnl__prioq_bound(struct rnl__prioq *q, unsigned nr);

/* Claims a slot for a job.  Returns its number, or -1 if the queue is full. */
int rnl__prioq_claim(struct rnl__prioq *q, const struct rnl_job *job);

/* Sets the estimate of a claimed slot's job, in 16 bits. */
static inline void rnl__prioq_set_cost(struct rnl__prioq *q, unsigned slot, uint16_t cost)
{
	rnl__figure_write(&q->costs[slot], cost);
}

/* Sets the tag of a claimed slot's job. */
static inline void rnl__prioq_set_tag(struct rnl__prioq *q, unsigned slot, uint8_t tag)
{
	/* Most slots keep theirs, so the cache line stays shared. */
	if (rnl__figure_read(&q->tags[slot]) != tag)
		rnl__figure_write(&q->tags[slot], tag);
}

/* Frees a slot that was claimed, and has no job. */
void rnl__prioq_free(struct rnl__prioq *q, unsigned slot);

/*
 * Puts a job into its slot.  @key: less than RNL__PRIOQ_NONE.  Returns how many jobs the queue had,
 * or -1 if the job was cancelled meanwhile: then a scan must take it.  A full barrier.
 */
int rnl__prioq_put(struct rnl__prioq *q, unsigned slot, struct rnl_job *job, uint64_t key,
		   uint64_t expires_at);

/* Takes the job with the smallest key; NULL: there is none.  @slot: its slot, for the caller to free. */
struct rnl_job *rnl__prioq_take(struct rnl__prioq *q, unsigned *slot);

/* Returns the smallest key; RNL__PRIOQ_NONE: no job, or one that is being put. */
uint64_t rnl__prioq_first(struct rnl__prioq *q);

/* Returns true if there is a job, also one that is being put.  A barrier of the caller's orders it. */
static inline bool rnl__prioq_holds(struct rnl__prioq *q)
{
	/* relaxed: the caller's full barrier orders it */
	return atomic_load_explicit(&q->nr, memory_order_relaxed);
}

/*
 * Has the next scan take the job in its slot.  Returns false if the slot has another job; @job is only
 * compared.  A full barrier.
 */
bool rnl__prioq_mark(struct rnl__prioq *q, unsigned slot, const struct rnl_job *job);

/* ---- scanning -------------------------------------------------------------- */

/*
 * Takes the next job, from slot *@at on, that expires at @now, is marked, or has a tag of the set.
 * Its slot is *@at - 1, and stays claimed, so the caller frees it or puts the job back.  Returns NULL
 * at the end.  @tags: a bit for each tag.  @key: receives the job's key.  @due: lowered to the earliest
 * expiry of the jobs that stay.
 */
struct rnl_job *rnl__prioq_scan(struct rnl__prioq *q, unsigned *at, uint64_t now,
				const uint64_t tags[RNL__PRIOQ_TAGS / 64], uint64_t *key, uint64_t *due);

/*
 * Reads the key and the estimate of the next queued job, from slot *@at on.  Returns false at the end.
 * Other threads put and take meanwhile, so a job may be missing.
 */
bool rnl__prioq_read(struct rnl__prioq *q, unsigned *at, uint64_t *key, uint16_t *cost);

#endif
