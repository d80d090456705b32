/* SPDX-License-Identifier: MIT */
/*
 * A batcher: many small requests, moved and run together.
 *
 * DESIGN
 *	Requests are written straight into slabs, pinned arrays of slots.  One slab
 *	is open: to reserve a slot is one exchange of its word, which has its turn,
 *	its state, and how many slots and bytes are given out.  A free slab's has
 *	the turn that was open when it became free: it opens for later ones only,
 *	so that nobody who is late meets a turn again.  Who finds it full
 *	closes it and opens the next free one; turn t is slab t % max_slabs's, and
 *	slabs that are not free have no turn.
 *	A commit exchanges its slot's state, then looks at the batcher's word: if
 *	nobody is asked to take yet, it asks, and if a batch is idle it submits
 *	that one's job.  So a lone request goes at once.  The job, on whichever
 *	worker is free, takes all that is committed: while workers or batches are
 *	busy it takes more.  One takes at a time; TAKER in the word is its lock,
 *	but nobody waits for it: who has it looks, before it lets go, whether it
 *	was asked again.
 *	A slot that was reserved and is not committed is passed over: the taker
 *	marks it, and its commit, which finds the mark, puts the request on the
 *	list of late ones, which a later batch takes first.  So nobody waits for a
 *	slow producer, and no clock is needed; one that died costs its slab, in
 *	place of which another is made, up to max_slabs.  As most are only in the
 *	middle of their copy, a taker looks again for about a microsecond first:
 *	each slot passed over is one copy more.
 *	A batch's slots are of one slab; neighbours are copied at once, so usually
 *	there is one copy in.  On the device requests lie dense, in the order of
 *	the batch; results and status come back by one copy, to the slab's output
 *	memory, in that order, too.  Batches take it from its start, as they come.
 *	A slab is free again when it is closed and all its slots were released.
 *	Model: tests/model/batch.pml.
 *
 *	batcher.c	its life
 *	batch_slab.c	slabs: reserving, turning over
 *	batch_turns.c	who takes when
 *	batch_take.c	taking
 *	batch_job.c	a batch on a worker, from its taking to the requests' ends
 *	batch_request.c	what producers do
 *
 *			reserve	commit	cancel	release	take	destroy
 *	reserve		-	-	-	-	-	X
 *	commit, cancel	-	-	-	-	-	X
 *	release		-	-	-	-	-	X
 *	take		-	-	-	-	X	-
 *	destroy		X	X	X	X	-	X	X: needs outside synchronisation
 *	One request is one thread's at a time, from its reserve to its commit.
 */
#ifndef RNL_BATCHER_H
#define RNL_BATCHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "atomic.h"
#include "job.h"

#define RNL__SLABS_MAX 32u
#define RNL__SLOTS_MAX 32768u
#define RNL__SLAB_UNIT 16u	/* variable requests begin at multiples of it */

/*
 * A slab's word: state (2 bits), turn (20), slots given out (16), units of input given
 * out, if requests are variable (26).
 */
enum rnl__slab_state { RNL__SLAB_NONE, RNL__SLAB_FREE, RNL__SLAB_OPEN, RNL__SLAB_CLOSED };

#define RNL__SLAB_UNIT_BITS 26
#define RNL__SLAB_SLOT_BITS 16
#define RNL__SLAB_TURN_BITS 20
#define RNL__SLAB_TURN_SHIFT (RNL__SLAB_UNIT_BITS + RNL__SLAB_SLOT_BITS)
#define RNL__SLAB_ONE (UINT64_C(1) << RNL__SLAB_UNIT_BITS)
#define RNL__SLAB_UNITS_MAX ((1u << RNL__SLAB_UNIT_BITS) - 1)

static inline uint64_t rnl__slab_word(enum rnl__slab_state state, uint64_t turn)
{
	turn &= (1u << RNL__SLAB_TURN_BITS) - 1;
	return (uint64_t)state << (RNL__SLAB_TURN_SHIFT + RNL__SLAB_TURN_BITS) |
	       turn << RNL__SLAB_TURN_SHIFT;
}

/* Whether it is in that state, in that turn. */
static inline bool rnl__slab_is(uint64_t word, enum rnl__slab_state state, uint64_t turn)
{
	return (word ^ rnl__slab_word(state, turn)) >> RNL__SLAB_TURN_SHIFT == 0;
}

/* Whether a turn is later than that of a word; turns that are compared are near each other. */
static inline bool rnl__slab_before(uint64_t word, uint64_t turn)
{
	const uint64_t mask = (1u << RNL__SLAB_TURN_BITS) - 1;
	const uint64_t ahead = (turn - (word >> RNL__SLAB_TURN_SHIFT)) & mask;

	return ahead && ahead <= mask / 2;
}

static inline enum rnl__slab_state rnl__slab_state(uint64_t word)
{
	return (enum rnl__slab_state)(word >> (RNL__SLAB_TURN_SHIFT + RNL__SLAB_TURN_BITS));
}

static inline uint32_t rnl__slab_slots(uint64_t word)
{
	return word >> RNL__SLAB_UNIT_BITS & ((1u << RNL__SLAB_SLOT_BITS) - 1);
}

static inline uint32_t rnl__slab_units(uint64_t word)
{
	return word & RNL__SLAB_UNITS_MAX;
}

/* A slot's state: the turn that it is of, and what became of it there. */
enum { RNL__SLOT_PASSED = 1, RNL__SLOT_COMMITTED, RNL__SLOT_CANCELLED };

static inline uint32_t rnl__slot_state(uint64_t turn, unsigned what)
{
	/* Never 0, which is what slots begin with. */
	return ((uint32_t)turn + 1) << 2 | what;
}

struct rnl__slot {
	_Alignas(32) _Atomic uint32_t state;
	uint32_t bytes;			/* of variable requests: how many, ... */
	uint32_t offset;		/* ... where in the slab */
	struct rnl_request *request;
};

struct rnl__slab {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word;
	/* Slots given out, once it is closed, less those released: free at 0. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t held;
	/* The taker's, from its turn's beginning on. */
	_Alignas(RNL__CACHE_LINE) uint64_t out_used; /* bytes, by batches up to now */
	uint32_t spans_used;
	/* Constant once it is made; one buffer. */
	unsigned char *in, *out;
	struct rnl_span *spans;		/* NULL: requests are of one size */
	struct rnl__slot *slots;
};

/* A batch: an ordinary job of the pool, and what it has taken. */
struct rnl__batch {
	struct rnl_job job;
	struct rnl_batcher *batcher;
	unsigned index;
	bool ran;			/* its function did; else the pool refused it */
	struct rnl__slab *slab;
	uint32_t nr;
	unsigned char *out;		/* of the slab: its results, then its status */
	struct rnl_span *spans;		/* of the slab, too; NULL: requests are of one size */
	uint16_t *slots;		/* taken, room for the largest batch */
};

/* The batcher's word; above its idle batches, a bit each. */
#define RNL__BATCHER_ASKED UINT64_C(1)	/* something is committed; nobody has begun to take it */
#define RNL__BATCHER_TAKER UINT64_C(2)	/* a batch is queued to take, or takes */
#define RNL__BATCHER_IDLE_SHIFT 32
#define RNL__BATCHES_MAX 32u

struct rnl__batch_figures {
	_Atomic uint64_t requests, failed, batches, late, cancelled, copies;
	_Atomic uint32_t largest;
};

struct rnl_batcher {
	/* Constant once created, but `closed`, which is set once. */
	struct rnl_pool *pool;
	int (*fn)(const struct rnl_batch *batch);
	void *arg;
	bool variable, has_status;
	uint32_t max_batch, nr_slots;	/* nr_slots: of a slab */
	uint32_t nr_units;		/* of a slab's input, if variable */
	size_t in_bytes, out_bytes, slab_bytes;
	unsigned max_slabs, nr_batches;
	struct rnl__batch *batches;
	_Atomic bool closed;

	/* Read with every reservation, changed with every slab. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t open; /* the turn whose slab is open */

	/* Read with every commit, changed with every batch. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word;
	_Atomic uint32_t busy;		/* latch: batches that are not idle */

	_Alignas(RNL__CACHE_LINE) _Atomic(struct rnl_request *) late;

	/* The taker's. */
	_Alignas(RNL__CACHE_LINE) uint64_t at; /* turn that it has come to, ... */
	uint32_t seen;			/* ... and slots of it that it has */
	struct rnl_request *late_first;	/* taken off `late`, not yet in a batch */

	_Alignas(RNL__CACHE_LINE) struct rnl__batch_figures figures;
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t refused;
	_Atomic uint32_t nr_slabs;	/* that have memory */
	_Atomic bool starved;		/* a reservation found no free slab */

	struct rnl__slab slabs[RNL__SLABS_MAX];
};

static inline struct rnl__slab *rnl__slab_of(struct rnl_batcher *b, uint64_t turn)
{
	return &b->slabs[turn % b->max_slabs];
}

/* ---- slabs ---------------------------------------------------------------- */

/* Gives memory to the next slab that has none: 0, -EAGAIN there is none such, -ENOMEM, -EIO. */
int rnl__slab_make(struct rnl_batcher *b);
void rnl__slabs_free(struct rnl_batcher *b);

/* A slot for a request of that size, which knows its place then: 0, -EAGAIN. */
int rnl__slab_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes);

/* Slots are not used any more. */
void rnl__slab_release(struct rnl_batcher *b, struct rnl__slab *slab, uint32_t nr);

/* ---- whose turn ----------------------------------------------------------- */

/*
 * Has somebody take what is committed.  A full barrier stands between the commit and
 * this.
 */
void rnl__batch_ask(struct rnl_batcher *b);

/* The taker: what is committed from here on is asked for anew. */
void rnl__batch_heed(struct rnl_batcher *b);
bool rnl__batch_asked(struct rnl_batcher *b);

/* The taker has taken what it will; @more: there was more. */
void rnl__batch_took(struct rnl_batcher *b, bool more);

/* A batch is done: it takes again if nobody else does, or is idle, and the batcher may be gone. */
void rnl__batch_ended(struct rnl__batch *batch);

/* ---- taking --------------------------------------------------------------- */

/* The taker: puts what is committed into the batch; true if there may be more. */
bool rnl__batch_take(struct rnl__batch *batch);

/* ---- a batch's job --------------------------------------------------------- */

int rnl__batch_turn(struct rnl_job *job);
void rnl__batch_turned(struct rnl_job *job);

#endif
