/* SPDX-License-Identifier: MIT */
/* A bounded priority queue without locks; prioq.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "class/prioq.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/sizes.h"
#include "sys/thread_state.h"
#include "sys/tsan.h"

#define FAN 16u			/* children of a node: two cache lines */
#define LOOK_EVERY 64u		/* takes that find no key in the root, until all leaves are read */

static uint64_t word_key(uint64_t word)
{
	return word & RNL__PRIOQ_NONE;
}

/* Returns the word that replaces @old, with another key. */
static uint64_t word_after(uint64_t old, uint64_t key)
{
	return ((old >> RNL__PRIOQ_KEY_BITS) + 1) << RNL__PRIOQ_KEY_BITS | key;
}

int rnl__prioq_init(struct rnl__prioq *q, unsigned nr_slots)
{
	unsigned nr_words = 0, nr, i = 0;
	_Atomic uint64_t *words;

	*q = (struct rnl__prioq){ .nr_slots = nr_slots, .nr_words = (nr_slots + 63) / 64 };
	atomic_init(&q->nr, 0);
	for (nr = nr_slots; nr > 1; nr = (nr + FAN - 1) / FAN)
		nr_words += (unsigned)rnl__round_up(nr, FAN);
	nr_words += FAN + q->nr_words;	/* the root, and `free` */
	q->slots = calloc(nr_slots, sizeof(*q->slots) + sizeof(*q->costs) + sizeof(*q->tags));
	words = aligned_alloc(RNL__CACHE_LINE, rnl__round_up(nr_words * sizeof(*words), RNL__CACHE_LINE));
	q->node[0] = words;
	if (!q->slots || !words) {
		rnl__prioq_fini(q);
		return -ENOMEM;
	}
	q->costs = (void *)(q->slots + nr_slots);
	q->tags = (void *)(q->costs + nr_slots);
	for (i = 0; i < nr_words; i++)
		atomic_init(&words[i], RNL__PRIOQ_NONE);
	for (nr = nr_slots;; nr = (nr + FAN - 1) / FAN) {
		q->node[q->nr_levels++] = words;
		words += rnl__round_up(nr, FAN);
		if (nr == 1)
			break;
	}
	q->free = words;
	rnl__prioq_bound(q, nr_slots);
	return 0;
}

void rnl__prioq_bound(struct rnl__prioq *q, unsigned nr)
{
	for (unsigned i = 0; i < q->nr_words; i++) {
		const unsigned left = nr > i * 64 ? nr - i * 64 : 0;

		/* relaxed: the caller publishes the queue */
		atomic_store_explicit(&q->free[i], left >= 64 ? UINT64_MAX : (UINT64_C(1) << left) - 1,
				      memory_order_relaxed);
	}
}

void rnl__prioq_fini(struct rnl__prioq *q)
{
	free(q->slots);
	free(q->node[0]);
	q->slots = NULL;
	q->node[0] = NULL;
}

/* ---- the tree ------------------------------------------------------------ */

/* Reads a word of the tree. */
static uint64_t read_word(_Atomic uint64_t *word)
{
	/*
	 * [prioq.N1] acquire: the words below a node as its last refresh saw them, a leaf's job;
	 * pairs with [prioq.N2], [prioq.L1]
	 */
	return atomic_load_explicit(word, memory_order_acquire);
}

/* Returns the smallest key of a group of children; *@which: its index in the level. */
static uint64_t smallest(_Atomic uint64_t *level, unsigned first, unsigned *which)
{
	uint64_t best = RNL__PRIOQ_NONE;

	*which = first;
	for (unsigned i = first; i < first + FAN; i++) {
		uint64_t key = word_key(read_word(&level[i]));

		if (key < best) {
			best = key;
			*which = i;
		}
	}
	return best;
}

/* Replaces the key of a node that has the word *@old.  Returns false if it has another one: *@old. */
static bool set_node(_Atomic uint64_t *node, uint64_t *old, uint64_t key)
{
	/* Also if the key is the same: a refresh that saw other children must fail. */
	/* [prioq.N2] acq_rel: the children, for readers of the node; pairs with [prioq.N1] */
	return atomic_compare_exchange_weak_explicit(node, old, word_after(*old, key),
						     memory_order_acq_rel, memory_order_acquire);
}

/* Sets the nodes above a leaf that was emptied to their smallest children. */
static void refresh(struct rnl__prioq *q, unsigned leaf)
{
	for (unsigned level = 1, index = leaf / FAN; level < q->nr_levels; level++, index /= FAN) {
		_Atomic uint64_t *node = &q->node[level][index];
		uint64_t old = read_word(node);
		unsigned which;

		while (!set_node(node, &old, smallest(q->node[level - 1], index * FAN, &which)))
			;
	}
}

/* Lowers the nodes above a leaf that was filled to its key. */
static void lower(struct rnl__prioq *q, unsigned leaf, uint64_t key)
{
	for (unsigned level = 1, index = leaf / FAN; level < q->nr_levels; level++, index /= FAN) {
		_Atomic uint64_t *node = &q->node[level][index];
		uint64_t old = read_word(node);

		while (!set_node(node, &old, rnl__smaller(word_key(old), key)))
			;
	}
}

uint64_t rnl__prioq_first(struct rnl__prioq *q)
{
	return word_key(read_word(&q->node[q->nr_levels - 1][0]));
}

/* ---- putting ------------------------------------------------------------- */

int rnl__prioq_claim(struct rnl__prioq *q, const struct rnl_job *job)
{
	unsigned slot;

	for (unsigned n = 0; n < q->nr_words; n++) {
		const unsigned i = (rnl__thread.claimed + n) % q->nr_words;
		uint64_t bits = rnl__peek(&q->free[i]);

		while (bits) {
			/* [prioq.F1] acquire: the last taker has read the slot; pairs with [prioq.F2] */
			if (!atomic_compare_exchange_weak_explicit(&q->free[i], &bits,
								   bits & (bits - 1),
								   memory_order_acquire,
								   memory_order_relaxed))
				continue;
			rnl__thread.claimed = i;
			slot = i * 64 + (unsigned)__builtin_ctzll(bits);
			/* relaxed: the slot is this thread's; see rnl__prioq_put() */
			atomic_store_explicit(&q->slots[slot].expires_at, RNL__NEVER,
					      memory_order_relaxed);
			/* relaxed: the submit accepts the job after this: [job.P3] */
			atomic_store_explicit(&q->slots[slot].job, (struct rnl_job *)(uintptr_t)job,
					      memory_order_relaxed);
			return (int)slot;
		}
	}
	return -1;
}

void rnl__prioq_free(struct rnl__prioq *q, unsigned slot)
{
	/* relaxed: a cancel that names this slot by mistake finds another job, or none */
	atomic_store_explicit(&q->slots[slot].job, NULL, memory_order_relaxed);
	/* [prioq.F2] release: the slot was read; pairs with [prioq.F1] */
	atomic_fetch_or_explicit(&q->free[slot / 64], UINT64_C(1) << slot % 64, memory_order_release);
}

int rnl__prioq_put(struct rnl__prioq *q, unsigned slot, struct rnl_job *job, uint64_t key,
		   uint64_t expires_at)
{
	/* relaxed: the barrier below orders it before the look for sleepers */
	const uint32_t nr = atomic_fetch_add_explicit(&q->nr, 1, memory_order_relaxed);
	uint64_t unmarked = RNL__NEVER;

	if (expires_at != RNL__NEVER)
		/* relaxed: the store of the leaf publishes it; it replaces no mark */
		(void)atomic_compare_exchange_strong_explicit(&q->slots[slot].expires_at, &unmarked,
							      expires_at, memory_order_relaxed,
							      memory_order_relaxed);
	rnl__tsan_release(job);
	/* [prioq.L1] release: the job and its slot; pairs with [prioq.L3], [prioq.N1] */
	atomic_store_explicit(&q->node[0][slot], word_after(rnl__own_read(&q->node[0][slot]), key),
			      memory_order_release);
	lower(q, slot, key);
	/*
	 * [prioq.M2] full barrier: the leaf is filled before the mark is read: a scan after the mark
	 * sees the leaf, or this sees the mark; pairs with [prioq.M1].
	 */
	rnl__mb_after_rmw();
	/* relaxed: the slot may have another job by now, which is scanned in vain */
	return atomic_load_explicit(&q->slots[slot].expires_at, memory_order_relaxed) ? (int)nr : -1;
}

/* ---- taking -------------------------------------------------------------- */

/* Empties a leaf whose word is @word.  Returns its job; NULL: the leaf has changed. */
static struct rnl_job *take_leaf(struct rnl__prioq *q, unsigned leaf, uint64_t word)
{
	struct rnl_job *job;

	/* [prioq.L3] acq_rel: the job and its slot; pairs with [prioq.L1].  One taker wins. */
	if (!atomic_compare_exchange_strong_explicit(&q->node[0][leaf], &word,
						     word_after(word, RNL__PRIOQ_NONE),
						     memory_order_acq_rel, memory_order_relaxed))
		return NULL;
	/* relaxed: the exchange has ordered it */
	job = atomic_load_explicit(&q->slots[leaf].job, memory_order_relaxed);
	rnl__tsan_acquire(job);
	refresh(q, leaf);
	/* relaxed: a put counts its job first */
	atomic_fetch_sub_explicit(&q->nr, 1, memory_order_relaxed);
	return job;
}

/* Takes the first job in the order of the leaves: the nodes have lost it. */
static struct rnl_job *take_any(struct rnl__prioq *q, unsigned *slot)
{
	for (*slot = 0; *slot < q->nr_slots; ++*slot) {
		uint64_t word = read_word(&q->node[0][*slot]);
		struct rnl_job *job = word_key(word) == RNL__PRIOQ_NONE ? NULL : take_leaf(q, *slot, word);

		if (job)
			return job;
	}
	return NULL;
}

struct rnl_job *rnl__prioq_take(struct rnl__prioq *q, unsigned *slot)
{
	uint64_t key, word;

	while ((key = rnl__prioq_first(q)) != RNL__PRIOQ_NONE) {
		unsigned index = 0;
		struct rnl_job *job = NULL;

		for (unsigned level = q->nr_levels - 1; level; level--)
			(void)smallest(q->node[level - 1], index * FAN, &index);
		word = read_word(&q->node[0][index]);
		/* A job with a smaller key was put since: it is as good. */
		if (word_key(word) <= key)
			job = take_leaf(q, index, word);
		*slot = index;
		if (job)
			return job;
		/* A node has the key of a job that left: its taker has not come to it yet. */
		refresh(q, index);
	}
	/* Most often a job is being put: then the leaves have nothing, either. */
	if (!rnl__prioq_holds(q) || ++rnl__thread.missed % LOOK_EVERY)
		return NULL;
	return take_any(q, slot);
}

/* ---- scanning ------------------------------------------------------------ */

bool rnl__prioq_mark(struct rnl__prioq *q, unsigned slot, const struct rnl_job *job)
{
	bool known = slot < q->nr_slots &&
		     /* relaxed: if the slot is the job's, this thread knows of its submit */
		     atomic_load_explicit(&q->slots[slot].job, memory_order_relaxed) == job;

	if (known)
		/* [prioq.M3] release: the job's phase, for the scan; pairs with [prioq.M4] */
		atomic_store_explicit(&q->slots[slot].expires_at, 0, memory_order_release);
	/* [prioq.M1] full barrier: the mark precedes the count of the cancel; pairs with [prioq.M2] */
	rnl__full_barrier();
	return known;
}

static bool has_tag(struct rnl__prioq *q, unsigned slot, const uint64_t tags[RNL__PRIOQ_TAGS / 64])
{
	const uint8_t tag = rnl__figure_read(&q->tags[slot]);

	return tags[tag / 64] >> tag % 64 & 1;
}

struct rnl_job *rnl__prioq_scan(struct rnl__prioq *q, unsigned *at, uint64_t now,
				const uint64_t tags[RNL__PRIOQ_TAGS / 64], uint64_t *key, uint64_t *due)
{
	while (*at < q->nr_slots) {
		const unsigned i = (*at)++;
		uint64_t word = read_word(&q->node[0][i]);
		/* relaxed: if the slot has another job by now, the exchange fails, or it is put back */
		uint64_t expires_at = atomic_load_explicit(&q->slots[i].expires_at, memory_order_relaxed);
		struct rnl_job *job;

		*key = word_key(word);
		if (*key == RNL__PRIOQ_NONE)
			continue;
		if (expires_at > now && !has_tag(q, i, tags)) {
			*due = rnl__smaller(*due, expires_at);
			continue;
		}
		job = take_leaf(q, i, word);
		if (!job)
			continue;
		/* [prioq.M4] acquire: the phase of a job that is marked; pairs with [prioq.M3] */
		(void)atomic_exchange_explicit(&q->slots[i].expires_at, RNL__NEVER, memory_order_acquire);
		return job;
	}
	return NULL;
}

/* ---- reading ------------------------------------------------------------- */

bool rnl__prioq_read(struct rnl__prioq *q, unsigned *at, uint64_t *key, uint16_t *cost)
{
	while (*at < q->nr_slots) {
		const unsigned i = *at;

		/* A node that has no key yet has a job that is being put. */
		if (!(i % FAN) && q->nr_levels > 1 && word_key(read_word(&q->node[1][i / FAN])) == RNL__PRIOQ_NONE) {
			*at += FAN;
			continue;
		}
		++*at;
		*key = word_key(read_word(&q->node[0][i]));
		*cost = rnl__figure_read(&q->costs[i]);
		if (*key != RNL__PRIOQ_NONE)
			return true;
	}
	return false;
}
