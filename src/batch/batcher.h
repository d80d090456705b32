/* SPDX-License-Identifier: MIT */
/*
 * A batcher: copies and runs many small requests together.
 *
 * DESIGN
 *	Producers write requests directly into slabs, which are pinned arrays of slots.  One slab is
 *	open.  To reserve a slot is one exchange of the slab's word: its state, its round, and the
 *	number of slots and bytes given out.  A producer that finds the open slab full closes it and
 *	opens the next free one.
 *	A commit sets its slot's state, then asks for a taker (schedule.c).  If a batch is idle, its
 *	job is submitted, so a single request starts immediately.  The job takes all committed
 *	requests, on any free worker; while all workers are busy, requests collect, and a batch
 *	takes more.  If a slot is reserved but not committed, the taker marks it as skipped and goes
 *	on.  The commit finds the mark and puts the request on the list of late requests, which a
 *	later batch takes first.  So no request waits for a slow producer, and no clock is needed.
 *	A producer that died costs its slab; another slab is made instead, up to max_slabs.  A
 *	producer that has not committed is usually near the end of its copy, and a skipped slot
 *	costs one more copy to the device, so a taker first polls for about a microsecond.
 *	All slots of a batch are in one slab.  A run of neighbours is one copy, so usually there is
 *	one copy in.  On the device requests are dense, in the order of the batch.  A slab is reused
 *	when all its requests are done, even if they are not released yet.
 *	A result has a cell from its batch until the release of its request, and each cell is reused
 *	separately.  A slot is given out only with a promise of a cell, so a committed request does
 *	not wait for a release either.  Cells are promised for all slots of a slab together, or for
 *	as many as are free, so a reserve and a release change one shared word each.  The taker
 *	picks the cells of a batch.  If there are enough neighbours, it picks those, and there is
 *	one copy out; otherwise it picks any free cells, with one copy for each run of neighbours.
 *	A small batch is not copied: the function gets the slots and cells themselves.  If they are
 *	not neighbours, or not aligned as promised, it gets pinned memory of the batch.  The worker
 *	copies the requests to this memory and the results from it to their cells.
 *	A batcher over several devices has parts, usually one for each device, with their own slabs
 *	and batches.  A thread uses the parts in turn, and stays with a part for as many requests as
 *	a batch has, at most 32.  This loads the parts evenly, and few producers write to one part's
 *	words at a time.  A request that would wait goes to a part that has space.
 *	Model: tests/model/batch.pml.
 *
 *	Each file calls only files after it:
 *	batcher.c	a batcher's life
 *	request.c	reserve, commit and release, called by producers
 *	batch_job.c	a batch on a worker, from its taking to the ends of its requests
 *	schedule.c	which batch takes, and when: the states of the batcher's word
 *	take.c		taking: the states of a slot
 *	each.c		batches by a function for one request
 *	keeper.c	the thread that launches a resident kernel's leases
 *	resident.c	requests that a resident kernel answers: resident.h
 *	mailbox.c	the mailboxes of that kernel: mailbox.h
 *	lease_host.c	what that kernel does on the host device
 *	slab.c		slabs: reserving, closing, opening: the states of a slab
 *	cells.c		cells: promising, picking, giving back
 *
 *			reserve	commit	release	take	destroy
 *	reserve		-	-	-	-	X
 *	commit		-	-	-	-	X
 *	release		-	-	-	-	X
 *	take		-	-	-	X	-
 *	destroy		X	X	X	-	X
 *	X: needs outside synchronisation.  One thread at a time uses a request until its commit.
 */
#ifndef RNL_BATCHER_H
#define RNL_BATCHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/kernel.h>

#include "sys/atomic.h"
#include "sys/inbox.h"
#include "job/job.h"

#define RNL__SLABS_MAX 32u
#define RNL__BOX_SLAB RNL__SLABS_MAX /* see resident.h */
#define RNL__SLOTS_MAX 32768u
#define RNL__SLAB_UNIT 16u	/* alignment of variable requests */
#define RNL__BATCH_ALIGNMENT 256u	/* of each array in a batch's memory */
/*
 * Limit of a small batch's input bytes, and of its output bytes.  Up to this size a kernel that
 * accesses pinned memory directly was measured to be faster; docs/patterns.md has the figures.
 * Pinned buffers of this size begin on a page.
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

/* Returns true if the word has that state and that round. */
static inline bool rnl__slab_is(uint64_t word, enum rnl__slab_state state, uint64_t round)
{
	return (word ^ rnl__slab_word(state, round)) >> RNL__SLAB_ROUND_SHIFT == 0;
}

/* Returns true if @round is later than the word's round, by less than half of all rounds. */
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

/* Returns a slab's limit: in @round the first @nr slots may be given out, with promised cells. */
static inline uint64_t rnl__slab_limit(uint64_t round, uint32_t nr)
{
	return (round + 1) << RNL__SLAB_SLOT_BITS | nr;
}

/*
 * A slot's state: a round, and what happened to the slot in that round.  It has all bits of the
 * round, because a slot may be unused for any number of rounds.
 */
enum { RNL__SLOT_SKIPPED = 1, RNL__SLOT_COMMITTED, RNL__SLOT_CANCELLED };

static inline uint64_t rnl__slot_state(uint64_t round, unsigned what)
{
	/* round + 1, because slots begin with state 0, which belongs to no round */
	return (round + 1) << 2 | what;
}

struct rnl__resident;

struct rnl__slot {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t state;	/* producers write neighbouring slots */
	uint32_t bytes;			/* size of the request */
	uint32_t offset;		/* offset of a variable request in the slab */
	struct rnl_request *request;
};

struct rnl__slab {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word;
	_Atomic uint64_t limit;		/* rnl__slab_limit(); 0: the slab is closed */
	/* Slots whose requests are not done, counted from the close on.  At 0 the slab is free. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t held;
	/* Used by the taker only. */
	_Alignas(RNL__CACHE_LINE) uint32_t spans_used; /* spans used in this round */
	/* Constant after the slab is made; `in`, `out` and `spans` are one buffer. */
	unsigned char *in, *out;	/* slots; cells, used independently of the slots */
	struct rnl_span *spans;		/* NULL: requests are of one size */
	struct rnl__slot *slots;
	_Atomic uint64_t *cells;	/* set bits: free cells; after the slots, on own lines */
};

/* A cell's number is its slab and its index, so cells of two slabs are never neighbours. */
#define RNL__CELL_SHIFT 16

/* A batch: an ordinary job of the pool, and the requests that it took. */
struct rnl__batch {
	struct rnl_job job;
	struct rnl_batcher *batcher;
	unsigned index, home;		/* home: the worker to submit to */
	bool ran;			/* the function ran; false: the pool refused the job */
	struct rnl__slab *slab;
	uint32_t nr;
	struct rnl_span *spans;		/* in the slab; NULL: requests are of one size */
	/* The taken requests, their cells and slots; space for the largest batch. */
	struct rnl_request **requests;
	uint32_t *cells;
	uint16_t *slots;
	/* Pinned memory, or NULL. */
	unsigned char *gathered;	/* dense input of a small batch */
	unsigned char *results;		/* dense output of a small batch */
	int32_t *status;
	bool scatters;			/* its output is in `results`, to be copied to the cells */
};

/* The batcher's word: two flags, then a bit for each idle batch; see schedule.c. */
#define RNL__BATCHER_ASKED UINT64_C(1)	/* a request was committed; no taker has begun since */
#define RNL__BATCHER_TAKER UINT64_C(2)	/* a batch is queued to take, or is taking */
#define RNL__BATCHER_IDLE_SHIFT 32
#define RNL__BATCHES_MAX 32u

struct rnl__batch_figures {
	_Atomic uint64_t requests, failed, batches, late, cancelled, copies;
	_Atomic uint32_t largest;
};

/* A part of a batcher.  The first part represents the batcher: it begins the array of all parts. */
struct rnl_batcher {
	/* Constant after the create, except `closed`, which is set once. */
	struct rnl_pool *pool;
	struct rnl__used used;		/* devices of all parts */
	unsigned part, nr_parts;
	unsigned turn;			/* requests of a thread before it uses the next part */
	int (*fn)(const struct rnl_batch *batch); /* NULL: `each` */
	struct rnl_kernel each;		/* runs a batch by the function for one request */
	int (*one)(const struct rnl_request_view *view); /* that function, on the host */
	void (*named)(void);		/* the function that reports name, and whose unit is checked */
	void *arg;
	struct rnl_class *class;	/* of the batches' jobs; NULL: the pool's own */
	uint32_t class_id;
	bool variable, has_status;
	uint32_t max_batch, nr_slots;	/* nr_slots: slots of a slab */
	uint32_t nr_units;		/* units of a slab's input, if variable */
	uint32_t cell_unit;		/* cells at a multiple of this index are aligned */
	size_t in_bytes, out_bytes, slab_bytes;
	size_t small_bytes;		/* RNL__BATCH_SMALL; 0: all batches are copied */
	unsigned max_slabs, nr_batches;
	struct rnl__batch *batches;
	_Atomic bool closed;

	/* Read by each reserve and release, changed with each slab. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t open; /* the open round */
	_Atomic uint64_t promised;	/* cells promised since the create */
	_Atomic bool lacks_cells;	/* a reserve found no cell to promise */

	/* Read by each commit, changed by each batch. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word;
	_Atomic uint32_t busy;		/* in the first part only: see rnl__batcher_busy() */

	_Alignas(RNL__CACHE_LINE) struct rnl__inbox late;

	/* Used by the taker only. */
	_Alignas(RNL__CACHE_LINE) uint64_t at; /* the round that takers have reached */
	uint32_t seen;			/* slots of that round that are taken or skipped */
	struct rnl_request *late_first;	/* removed from `late`, not yet in a batch */
	uint32_t next_cell;		/* where the next search for cells begins */
	_Atomic uint64_t settled;	/* promises kept or given up since the create */

	_Alignas(RNL__CACHE_LINE) struct rnl__batch_figures figures;
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t refused;
	_Atomic uint32_t nr_slabs;	/* slabs with memory */
	_Atomic bool starved;		/* a reserve found no free slab, or no cell */

	struct rnl__resident *resident;	/* constant; NULL: there is no resident kernel */

	/* The last one's slots and cells are the mailboxes of the resident kernel. */
	struct rnl__slab slabs[RNL__SLABS_MAX + 1];
};

/*
 * Returns the latch that counts the busy batches of all parts.  A batch's callback may commit to
 * any part, so a destroy that waited for one part after the other could miss a batch.
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

/* Makes one more slab.  Returns 0, -EAGAIN if there are max_slabs, -ENOMEM or -EIO. */
int rnl__slab_make(struct rnl_batcher *b);
void rnl__slabs_free(struct rnl_batcher *b);

/* Gives a request of @bytes a slot and a promised cell.  Returns 0; -EAGAIN: no slot or no cell. */
int rnl__slab_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes);

/* Releases @nr slots; the last release frees the slab.  Mailboxes are not counted. */
void rnl__slab_release(struct rnl_batcher *b, struct rnl__slab *slab, uint32_t nr);

/* ---- cells ----------------------------------------------------------------- */

/* Promises up to @most cells.  Returns the number of promises; 0: no cell is left. */
uint32_t rnl__cells_promise(struct rnl_batcher *b, uint32_t most);

/* Settles @nr promises that were kept, or are not needed. */
void rnl__cells_settle(struct rnl_batcher *b, uint32_t nr);

/* Wakes threads that found no cell.  A full barrier must precede the call. */
void rnl__cells_wake(struct rnl_batcher *b);

/* Called by the taker: picks cells for the batch's requests, which have promises. */
void rnl__cells_pick(struct rnl__batch *batch);

/* Frees a request's cell. */
void rnl__cell_release(struct rnl_batcher *b, uint32_t cell);

static inline unsigned char *rnl__cell_at(const struct rnl_batcher *b, uint32_t cell)
{
	const struct rnl__slab *slab = &b->slabs[cell >> RNL__CELL_SHIFT];

	return slab->out + (cell & ((1u << RNL__CELL_SHIFT) - 1)) * b->out_bytes;
}

/* ---- schedule ------------------------------------------------------------- */

/* Asks for a batch to take a committed request.  A full barrier must precede the call. */
void rnl__schedule_ask(struct rnl_batcher *b);

/* Called by the taker before it looks for requests: later commits ask again. */
void rnl__schedule_begin(struct rnl_batcher *b);
bool rnl__schedule_asked(struct rnl_batcher *b);

/* Ends the taking.  @more: requests are left. */
void rnl__schedule_taken(struct rnl_batcher *b, bool more);

/* Ends a batch: it takes again, or becomes idle.  The batcher may be gone on return. */
void rnl__schedule_ended(struct rnl__batch *batch);

/* ---- taking --------------------------------------------------------------- */

/*
 * Called by the taker: puts committed requests into the batch.  Returns true if more may be left.
 */
bool rnl__batch_take(struct rnl__batch *batch);

/* ---- a batch's job --------------------------------------------------------- */

/* The job's function and its callback. */
int rnl__batch_run(struct rnl_job *job);
void rnl__batch_done(struct rnl_job *job);

#endif
