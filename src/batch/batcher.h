/* SPDX-License-Identifier: MIT */
/*
 * A batcher: many small requests, moved and run together.
 *
 * DESIGN
 *	Producers write requests straight into slabs, pinned arrays of slots.  One slab
 *	is open.  To reserve a slot is one exchange of the slab's word: its state, its
 *	round, and how many slots and bytes are given out.  The producer that finds
 *	the open slab full closes it, and opens the next free one.
 *	A commit sets its slot's state, then asks for a taker (schedule.c).  If a batch
 *	is idle, its job is submitted, so a lone request goes at once.  The job takes
 *	everything that is committed, on whichever worker is free: while workers or
 *	batches are busy, a batch takes more.
 *	The taker passes over a slot that is reserved and not committed: it marks the slot.  The
 *	commit finds the mark and puts the request on the list of late requests, which a later batch
 *	takes first.  So nothing waits for a slow producer, and no clock is needed.  A producer that
 *	died costs its slab; another slab is made in its place, up to max_slabs.  Most producers are
 *	only in the middle of a copy, and each slot passed over is one more copy to the device, so a
 *	taker looks again for about a microsecond first.
 *	The slots of a batch are of one slab.  Neighbours are copied at once, so usually
 *	there is one copy in.  On the device requests lie dense, in the order of the
 *	batch.  A done request has left its slot: a slab is used again when all its requests are
 *	done, and waits for no release.
 *	A result has a cell from its batch on until its request is released, and each cell is used
 *	again by itself.  A slot is given out when a cell is promised for it, so a committed request
 *	waits for no release either.  Cells are promised for all slots of a slab at once, as far as
 *	there are any: so a reserve, and a release, change one shared word each.  The taker picks the
 *	cells of a batch: neighbours if there are enough, so usually there is one copy out, else
 *	whatever is free, and one copy for each run of neighbours.
 *	Of a small batch nothing is copied: the function gets the slots and cells themselves.  If
 *	they are no neighbours, or begin at no multiple of the alignment that the function is
 *	promised, it gets pinned memory of the batch, to which the worker moves the requests, and
 *	from which it moves the results to their cells.
 *	Over several devices a batcher has a part for each, with slabs and batches of its own.  A
 *	thread takes the parts in turn, and stays at each for one batch's requests, or 32.  This
 *	loads the parts evenly, and few producers write to the words of one part at a time.  A
 *	request that would wait goes to a part that has space.
 *	Model: tests/model/batch.pml.
 *
 *	Calls go down:
 *	batcher.c	a batcher's life
 *	request.c	what producers do
 *	batch_job.c	a batch on a worker, from its taking to the ends of its requests
 *	schedule.c	which batch takes, and when: the states of the batcher's word
 *	take.c		taking: the states of a slot
 *	slab.c		slabs: reserving, closing, opening: the states of a slab
 *	cells.c		cells: promising, picking, giving back
 *
 *			reserve	commit	release	take	destroy
 *	reserve		-	-	-	-	X
 *	commit		-	-	-	-	X
 *	release		-	-	-	-	X
 *	take		-	-	-	X	-
 *	destroy		X	X	X	-	X
 *	X: needs outside synchronisation.  One thread at a time uses a request, from its reserve to
 *	its commit.
 */
#ifndef RNL_BATCHER_H
#define RNL_BATCHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/batch.h>

#include "sys/atomic.h"
#include "sys/inbox.h"
#include "job/job.h"

#define RNL__SLABS_MAX 32u
#define RNL__SLOTS_MAX 32768u
#define RNL__SLAB_UNIT 16u	/* variable requests begin at multiples of it */
#define RNL__BATCH_ALIGNMENT 256u	/* of each part of a batch's memory */
/*
 * Bytes of a small batch's inputs, and of its outputs.  A kernel that reaches pinned memory itself
 * was measured to win up to there, docs/patterns.md has the figures.  Pinned buffers of that size
 * begin on a page.
 */
#define RNL__BATCH_SMALL ((size_t)64 << 10)

/*
 * A slab's word: state (2 bits), round (20), slots given out (16), units of input given out
 * (26; 0 if requests are of one size).
 */
enum rnl__slab_state { RNL__SLAB_NONE, RNL__SLAB_FREE, RNL__SLAB_OPEN, RNL__SLAB_CLOSED };

#define RNL__SLAB_UNIT_BITS 26
#define RNL__SLAB_SLOT_BITS 16
#define RNL__SLAB_ROUND_BITS 20
#define RNL__SLAB_ROUND_SHIFT (RNL__SLAB_UNIT_BITS + RNL__SLAB_SLOT_BITS)
#define RNL__SLAB_ONE (UINT64_C(1) << RNL__SLAB_UNIT_BITS)
#define RNL__SLAB_UNITS_MAX ((1u << RNL__SLAB_UNIT_BITS) - 1)

static inline uint64_t rnl__slab_word(enum rnl__slab_state state, uint64_t round)
{
	round &= (1u << RNL__SLAB_ROUND_BITS) - 1;
	return (uint64_t)state << (RNL__SLAB_ROUND_SHIFT + RNL__SLAB_ROUND_BITS) |
	       round << RNL__SLAB_ROUND_SHIFT;
}

/* Whether the word has that state and that round. */
static inline bool rnl__slab_is(uint64_t word, enum rnl__slab_state state, uint64_t round)
{
	return (word ^ rnl__slab_word(state, round)) >> RNL__SLAB_ROUND_SHIFT == 0;
}

/* Whether a round is later than the word's.  Both are less than half of all rounds apart. */
static inline bool rnl__slab_before(uint64_t word, uint64_t round)
{
	const uint64_t mask = (1u << RNL__SLAB_ROUND_BITS) - 1;
	const uint64_t ahead = (round - (word >> RNL__SLAB_ROUND_SHIFT)) & mask;

	return ahead && ahead <= mask / 2;
}

static inline enum rnl__slab_state rnl__slab_state(uint64_t word)
{
	return (enum rnl__slab_state)(word >> (RNL__SLAB_ROUND_SHIFT + RNL__SLAB_ROUND_BITS));
}

static inline uint32_t rnl__slab_slots(uint64_t word)
{
	return word >> RNL__SLAB_UNIT_BITS & ((1u << RNL__SLAB_SLOT_BITS) - 1);
}

static inline uint32_t rnl__slab_units(uint64_t word)
{
	return word & RNL__SLAB_UNITS_MAX;
}

/* The first @nr slots of a slab may be given out in a round: cells are promised for them. */
static inline uint64_t rnl__slab_limit(uint64_t round, uint32_t nr)
{
	return (round + 1) << RNL__SLAB_SLOT_BITS | nr;
}

/*
 * A slot's state: a round, and what became of the slot in that round.  It has all bits of the
 * round: a slot may lie unused for any number of rounds.
 */
enum { RNL__SLOT_SKIPPED = 1, RNL__SLOT_COMMITTED, RNL__SLOT_CANCELLED };

static inline uint64_t rnl__slot_state(uint64_t round, unsigned what)
{
	/* Of no round: slots begin with 0. */
	return (round + 1) << 2 | what;
}

struct rnl__slot {
	_Alignas(32) _Atomic uint64_t state;
	uint32_t bytes;			/* of the request */
	uint32_t offset;		/* of a variable request, in the slab */
	struct rnl_request *request;
};

struct rnl__slab {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word;
	_Atomic uint64_t limit;		/* rnl__slab_limit(); 0: the slab is closed */
	/* Slots whose requests are not done; counted when the slab is closed.  At 0 it is free. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t held;
	/* The taker's. */
	_Alignas(RNL__CACHE_LINE) uint32_t spans_used; /* in this round */
	/* Constant once the slab is made; one buffer. */
	unsigned char *in, *out;	/* slots; cells, which are in use apart from the slots */
	struct rnl_span *spans;		/* NULL: requests are of one size */
	struct rnl__slot *slots;
	_Atomic uint64_t *cells;	/* a bit for each free cell; behind the slots, on own lines */
};

/* A cell's number is its slab's, and its index.  So cells of two slabs are never neighbours. */
#define RNL__CELL_SHIFT 16

/* A batch: an ordinary job of the pool, and the requests that it has taken. */
struct rnl__batch {
	struct rnl_job job;
	struct rnl_batcher *batcher;
	unsigned index, home;		/* home: for its submit */
	bool ran;			/* the job's function ran; else the pool refused the job */
	struct rnl__slab *slab;
	uint32_t nr;
	struct rnl_span *spans;		/* in the slab; NULL: requests are of one size */
	/* What is taken; space for the largest batch. */
	struct rnl_request **requests;
	uint32_t *cells;
	uint16_t *slots;
	/* Pinned, or NULL. */
	unsigned char *gathered;	/* input of a small batch */
	unsigned char *results;		/* and output */
	int32_t *status;
	bool scatters;			/* its output is in `results`, and goes to the cells */
};

/* The batcher's word: two flags, and above them a bit for each idle batch; see schedule.c. */
#define RNL__BATCHER_ASKED UINT64_C(1)	/* a request is committed; no taker has begun since */
#define RNL__BATCHER_TAKER UINT64_C(2)	/* a batch is queued to take, or takes */
#define RNL__BATCHER_IDLE_SHIFT 32
#define RNL__BATCHES_MAX 32u

struct rnl__batch_figures {
	_Atomic uint64_t requests, failed, batches, late, cancelled, copies;
	_Atomic uint32_t largest;
};

/* A part of a batcher.  The first one stands for the batcher: it begins an array of all parts. */
struct rnl_batcher {
	/* Constant once created, except `closed`, which is set once. */
	struct rnl_pool *pool;
	struct rnl__used used;		/* devices, of all parts */
	unsigned part, nr_parts;
	unsigned turn;			/* requests of a thread before it goes to the next part */
	int (*fn)(const struct rnl_batch *batch);
	void *arg;
	bool variable, has_status;
	uint32_t max_batch, nr_slots;	/* nr_slots: of a slab */
	uint32_t nr_units;		/* of a slab's input, if variable */
	uint32_t cell_unit;		/* cells at multiples of it are aligned for a batch */
	size_t in_bytes, out_bytes, slab_bytes;
	size_t small_bytes;		/* RNL__BATCH_SMALL; 0: all batches are copied */
	unsigned max_slabs, nr_batches;
	struct rnl__batch *batches;
	_Atomic bool closed;

	/* Read by every reserve and release, changed with every slab. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t open; /* the round that is open */
	_Atomic uint64_t promised;	/* cells, in all */
	_Atomic bool lacks_cells;	/* a reserve found no cell that can be promised */

	/* Read by every commit, changed by every batch. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word;
	_Atomic uint32_t busy;		/* of the first part: see rnl__batcher_busy() */

	_Alignas(RNL__CACHE_LINE) struct rnl__inbox late;

	/* The taker's. */
	_Alignas(RNL__CACHE_LINE) uint64_t at; /* the round that takers have come to */
	uint32_t seen;			/* slots of that round that are taken or passed over */
	struct rnl_request *late_first;	/* taken off `late`, not yet in a batch */
	uint32_t next_cell;		/* where the search for cells begins */
	_Atomic uint64_t settled;	/* promises that were kept, or are not needed; in all */

	_Alignas(RNL__CACHE_LINE) struct rnl__batch_figures figures;
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t refused;
	_Atomic uint32_t nr_slabs;	/* slabs that have memory */
	_Atomic bool starved;		/* a reserve found no free slab, or no cell */

	struct rnl__slab slabs[RNL__SLABS_MAX];
};

/*
 * A latch: batches of all parts that are not idle.  A batch's callback may commit to any part, so
 * a destroy that waited for one part after the other would miss what comes behind it.
 */
static inline _Atomic uint32_t *rnl__batcher_busy(struct rnl_batcher *b)
{
	return &(b - b->part)->busy;
}

static inline struct rnl__slab *rnl__slab_of(struct rnl_batcher *b, uint64_t round)
{
	return &b->slabs[round % b->max_slabs];
}

/* ---- slabs ---------------------------------------------------------------- */

/* Makes one more slab.  Return: 0; -EAGAIN there are max_slabs; -ENOMEM; -EIO. */
int rnl__slab_make(struct rnl_batcher *b);
void rnl__slabs_free(struct rnl_batcher *b);

/* Gives a request of @bytes a slot, and promises it a cell.  Return: 0; -EAGAIN there is none. */
int rnl__slab_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes);

/* @nr slots are not used any more; the last one frees the slab. */
void rnl__slab_release(struct rnl_batcher *b, struct rnl__slab *slab, uint32_t nr);

/* ---- cells ----------------------------------------------------------------- */

/* Promises up to @most cells.  Returns how many; 0: none is left. */
uint32_t rnl__cells_promise(struct rnl_batcher *b, uint32_t most);

/* @nr promises were kept, or are not needed. */
void rnl__cells_settle(struct rnl_batcher *b, uint32_t nr);

/* Wakes threads that found no cell: there may be some.  A full barrier stands before the call. */
void rnl__cells_wake(struct rnl_batcher *b);

/* The taker: picks cells for the requests of a batch, which are promised. */
void rnl__cells_pick(struct rnl__batch *batch);

/* A request's cell is not used any more. */
void rnl__cell_release(struct rnl_batcher *b, uint32_t cell);

static inline unsigned char *rnl__cell_at(const struct rnl_batcher *b, uint32_t cell)
{
	const struct rnl__slab *slab = &b->slabs[cell >> RNL__CELL_SHIFT];

	return slab->out + (cell & ((1u << RNL__CELL_SHIFT) - 1)) * b->out_bytes;
}

/* ---- schedule ------------------------------------------------------------- */

/* A request was committed: a batch is to take it.  A full barrier stands before the call. */
void rnl__schedule_ask(struct rnl_batcher *b);

/* The taker, before it looks for requests: later commits ask again. */
void rnl__schedule_begin(struct rnl_batcher *b);
bool rnl__schedule_asked(struct rnl_batcher *b);

/* The taker has taken its requests.  @more: it has left some. */
void rnl__schedule_taken(struct rnl_batcher *b, bool more);

/* A batch is done.  It takes again, or is idle; then the batcher may be gone. */
void rnl__schedule_ended(struct rnl__batch *batch);

/* ---- taking --------------------------------------------------------------- */

/* The taker: puts committed requests into the batch.  True: there may be more. */
bool rnl__batch_take(struct rnl__batch *batch);

/* ---- a batch's job --------------------------------------------------------- */

/* The job's function and its callback. */
int rnl__batch_run(struct rnl_job *job);
void rnl__batch_done(struct rnl_job *job);

#endif
