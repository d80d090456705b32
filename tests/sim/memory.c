/* SPDX-License-Identifier: MIT */
/*
 * A memory that keeps only the orders that C11's atomics request.
 *
 * DESIGN
 *	Memory itself has each object's last value, so this file can stop simulating at any time.
 *	The file keeps earlier values of each atomic object.  A load returns, at random, any value
 *	that C11 allows: not older than one that the thread knows of.  A thread's knowledge is a
 *	vector of clocks.  A release passes it to the thread that acquires.  A seq_cst fence passes
 *	it to later ones, only for loads: such a fence orders no plain accesses.  A seq_cst access
 *	has such a fence before it.  All threads see a store at the latest after DRAINED_NS.
 *	Each byte of other objects has its last writer and readers.  Two unordered accesses are a
 *	race if one of them is a write.
 *	A plain write to an atomic object is a relaxed store of its owner.  A value from memset() or
 *	the kernel resets the object: all threads see that value.  A free() resets it, too: the next
 *	owner may find the old value there, and the allocator's lock orders the two owners.  The
 *	library itself orders other changes of owner.
 *	A full table is emptied, which forgets only overwritten values.
 *
 *	Not simulated: a store that moves before an earlier load, two stores in another order than
 *	they ran, and compare exchanges that fail spuriously.
 */
#include <stdint.h>
#include <string.h>

#include "sim/memory.h"
#include "sim/sim.h"

#define NT MEMORY_THREADS
#define CELLS_BITS 16
#define CELLS (1u << CELLS_BITS)
#define PLACES 4096
#define STORES 16		/* older stores are forgotten */
#define DRAINED_NS 10000
#define LOOKS (1u << 20)	/* bytes of plain accesses that are checked for races */

struct clocks {
	uint32_t at[NT];
};

/* A thread's knowledge. */
struct view {
	struct clocks before;		/* happened before */
	struct clocks seen;		/* `before`, and stores that loads must see */
};

struct store {
	uint64_t value, time;
	struct view message;
	struct clocks seen_by;		/* time of the thread's look; 0: never */
};

/* An atomic object. */
struct place {
	const volatile void *at;
	unsigned size;
	bool plainly;			/* later written by the owner with plain writes */
	unsigned writer;
	uint32_t written;		/* the owner's clock */
	uint64_t nr;			/* number of its stores; 0: unknown */
};

struct byte {
	uint32_t writer, written;
	struct clocks read;
};

/* Eight bytes of memory. */
struct cell {
	uintptr_t nr;
	uint32_t epoch;			/* not the current epoch: the cell is free */
	uint16_t place[8];		/* each byte's place; 0: no place */
	bool has_bytes;			/* false: no plain access was seen */
};

struct thread {
	struct view view, to_acquire, released;	/* released: by a fence */
};

bool memory_weak;
static struct thread threads[NT];
static struct view ended;		/* knowledge of ended threads */
static struct clocks fenced;		/* knowledge of seq_cst fences */
static struct cell cells[CELLS];
static struct place places[PLACES + 1];
/* Separate from the cells, because most accesses do not need these. */
static struct byte bytes[CELLS][8];
static struct store stores[PLACES + 1][STORES];
static unsigned used[CELLS / 2];		/* indices of the cells in use */
static unsigned nr_cells, nr_places;
static uint32_t epoch = 1;
static uintptr_t watched;
static size_t watched_bytes, looks_left;

/* A thread unknown to the machine, like one at its very end, sees the last values. */
static bool is_weak(void)
{
	return memory_weak && sim_runs();
}

/* ---- clocks ---------------------------------------------------------------- */

static void join(struct clocks *to, const struct clocks *from)
{
	for (unsigned i = 0; i < NT; i++)
		to->at[i] = to->at[i] < from->at[i] ? from->at[i] : to->at[i];
}

static void learn(struct view *to, const struct view *from)
{
	join(&to->before, &from->before);
	join(&to->seen, &from->seen);
	join(&to->seen, &from->before);
}

static uint32_t tick(unsigned me)
{
	threads[me].view.seen.at[me]++;
	return ++threads[me].view.before.at[me];
}

void memory_thread_begins(unsigned slot, unsigned parent)
{
	struct thread *t = &threads[slot];

	learn(&t->view, &threads[parent].view);
	learn(&t->view, &ended);
	memset(&t->to_acquire, 0, sizeof(t->to_acquire));
	memset(&t->released, 0, sizeof(t->released));
	(void)tick(slot);
	(void)tick(parent);
}

void memory_thread_ends(unsigned slot)
{
	learn(&ended, &threads[slot].view);
}

/* ---- knowledge of memory ----------------------------------------------------- */

void memory_forget_all(void)
{
	epoch++;
	nr_cells = nr_places = 0;
}

void memory_watch(const volatile void *at, size_t size)
{
	watched = (uintptr_t)at;
	watched_bytes = size;
	looks_left = LOOKS;
}

/* Finds the cell of an address; NULL: that byte is unknown. */
static struct cell *known(uintptr_t at, bool begin)
{
	const uintptr_t nr = at / 8;
	size_t i = nr * 0x9e3779b97f4a7c15u >> (64 - CELLS_BITS);

	while (cells[i].epoch == epoch && cells[i].nr != nr)
		i = (i + 1) % CELLS;
	if (cells[i].epoch == epoch)
		return &cells[i];
	if (!begin)
		return NULL;
	if (nr_cells == CELLS / 2) {
		memory_forget_all();
		return known(at, begin);
	}
	used[nr_cells++] = (unsigned)i;
	cells[i] = (struct cell){ .nr = nr, .epoch = epoch };
	return &cells[i];
}

static struct byte *bytes_of(struct cell *cell)
{
	struct byte *of = bytes[cell - cells];

	if (!cell->has_bytes)
		memset(of, 0, sizeof(bytes[0]));
	cell->has_bytes = true;
	return of;
}

/* Forgets a cell's bytes from @at to @end. */
static void forget_bytes(struct cell *cell, uintptr_t at, uintptr_t end)
{
	for (uintptr_t i = 0; i < 8; i++) {
		if (cell->nr * 8 + i < at || cell->nr * 8 + i >= end)
			continue;
		cell->place[i] = 0;
		if (cell->has_bytes)
			bytes_of(cell)[i] = (struct byte){ 0 };
	}
}

void memory_forget(const volatile void *mem, size_t size)
{
	uintptr_t at = (uintptr_t)mem, end = at + size;

	if (!is_weak())
		return;
	/* Visits the smaller set: the freed memory's cells, or all known cells. */
	if (size / 8 > nr_cells) {
		for (unsigned i = 0; i < nr_cells; i++)
			forget_bytes(&cells[used[i]], at, end);
		return;
	}
	for (uintptr_t cell_at = at & ~(uintptr_t)7; cell_at < end; cell_at += 8) {
		struct cell *cell = known(cell_at, false);

		if (cell)
			forget_bytes(cell, at, end);
	}
}

/* ---- plain accesses ---------------------------------------------------------- */

static void look_for_race(struct byte *b, unsigned me, bool write, const void *at, const void *pc)
{
	const struct clocks *before = &threads[me].view.before;

	if (b->written > before->at[b->writer])
		sim_race(write ? "written beside a write" : "read beside a write", b->writer, at, pc);
	for (unsigned i = 0; write && i < NT; i++)
		if (b->read.at[i] > before->at[i])
			sim_race("written beside a read", i, at, pc);
	if (write)
		b->writer = me, b->written = before->at[me];
	else
		b->read.at[me] = before->at[me];
}

__attribute__((noinline))
static void look_for_races(uintptr_t at, uintptr_t end, bool write, const void *pc)
{
	const unsigned me = sim_slot();

	while (at < end) {
		struct cell *cell = known(at, true);

		do {
			struct place *place = &places[cell->place[at % 8]];

			/* Plain accesses to an atomic object are its owner's, and not checked. */
			if (place == places)
				look_for_race(&bytes_of(cell)[at % 8], me, write, (void *)at, pc);
			else if (write)
				place->plainly = true, place->writer = me,
				place->written = threads[me].view.before.at[me];
		} while (++at < end && at % 8);
	}
}

void memory_plain(const volatile void *mem, size_t size, bool write, const void *pc)
{
	const uintptr_t at = (uintptr_t)mem;

	if (looks_left < size || at - watched >= watched_bytes || !is_weak())
		return;
	looks_left -= size;
	look_for_races(at, at + size, write, pc);
}

/* ---- atomic accesses --------------------------------------------------------- */

static bool acquires(int order) { return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE; }
static bool releases(int order) { return order >= __ATOMIC_RELEASE; }

static struct store *store_of(const struct place *place, uint64_t nr)
{
	return &stores[place - places][nr % STORES];
}

static struct store *last(const struct place *place)
{
	return store_of(place, place->nr - 1);
}

static struct store *add_store(struct place *place, uint64_t value, const struct view *message)
{
	struct store *to = store_of(place, place->nr++);

	to->value = value;
	to->time = sim_now();
	to->message = *message;
	to->seen_by = (struct clocks){ 0 };
	return to;
}

static struct place *place_of(const volatile void *at, unsigned size, uint64_t value)
{
	static const struct view nothing;
	struct cell *cell = known((uintptr_t)at, true);
	uint16_t *nr = &cell->place[(uintptr_t)at % 8];
	struct place *place = &places[*nr];

	/* The table is full, or sizes are mixed, which is not supported. */
	if (*nr ? place->at != at || place->size != size : nr_places == PLACES) {
		memory_forget_all();
		return place_of(at, size, value);
	}
	if (!*nr) {
		place = &places[++nr_places];
		place->at = at;
		place->size = size;
		place->nr = 0;
		for (unsigned i = 0; i < size; i++)
			nr[i] = (uint16_t)nr_places;
	}
	if (place->nr && place->plainly)
		add_store(place, value, &nothing)->seen_by.at[place->writer] = place->written;
	else if (place->nr && last(place)->value != value)
		place->nr = 0;
	if (!place->nr)
		(void)add_store(place, value, &nothing);
	place->plainly = false;
	return place;
}

void memory_fence(int order)
{
	struct thread *t = is_weak() ? &threads[sim_slot()] : NULL;

	if (!t)
		return;
	if (acquires(order))
		learn(&t->view, &t->to_acquire);
	if (order == __ATOMIC_SEQ_CST) {
		join(&t->view.seen, &fenced);
		join(&fenced, &t->view.seen);
	}
	if (releases(order))
		t->released = t->view;
	(void)tick(sim_slot());
}

/* Begins an atomic access.  Returns false if memory is sequentially consistent. */
static bool begin_access(int order)
{
	if (!is_weak())
		return false;
	if (order == __ATOMIC_SEQ_CST)
		memory_fence(order);
	return true;
}

/* @before: a read-modify-write passes on the releases of the replaced value. */
static void store(struct place *place, uint64_t value, int order, const struct view *before)
{
	const unsigned me = sim_slot();
	struct view message = releases(order) ? threads[me].view : threads[me].released;
	struct store *to;

	if (before)
		learn(&message, before);
	to = add_store(place, value, &message);
	to->seen_by.at[me] = tick(me);	/* later events have a later time */
}

static void received(struct store *from, int order)
{
	const unsigned me = sim_slot();

	if (!from->seen_by.at[me])
		from->seen_by.at[me] = threads[me].view.before.at[me];
	learn(acquires(order) ? &threads[me].view : &threads[me].to_acquire, &from->message);
}

/* Returns true if a load may return a store older than that one. */
static bool may_be_older(const struct place *place, uint64_t nr, const struct clocks *seen)
{
	const struct store *s = store_of(place, nr);
	bool known_of = false;

	if (!nr || place->nr - nr == STORES || s->time + DRAINED_NS < sim_now())
		return false;
	for (unsigned i = 0; i < NT; i++)
		known_of |= s->seen_by.at[i] && s->seen_by.at[i] <= seen->at[i];
	return !known_of;
}

uint64_t memory_load(const volatile void *at, unsigned size, uint64_t value, int order)
{
	struct place *place;
	struct store *from;
	uint64_t oldest;

	if (!begin_access(order))
		return value;
	place = place_of(at, size, value);
	(void)tick(sim_slot());
	oldest = place->nr - 1;
	while (may_be_older(place, oldest, &threads[sim_slot()].view.seen))
		oldest--;
	if (place->nr - oldest > 1)
		oldest += sim_any(place->nr - oldest);
	from = store_of(place, oldest);
	if (from != last(place))
		sim_old_value();
	received(from, order);
	return from->value;
}

void memory_look(const volatile void *at, unsigned size, uint64_t value, int order)
{
	if (begin_access(order))
		received(last(place_of(at, size, value)), order);
}

void memory_store(const volatile void *at, unsigned size, uint64_t was, uint64_t value, int order)
{
	if (begin_access(order))
		store(place_of(at, size, was), value, order, NULL);
}

void memory_modify(const volatile void *at, unsigned size, uint64_t was, uint64_t value, int order)
{
	struct place *place;
	struct store *replaced;

	if (!begin_access(order))
		return;
	place = place_of(at, size, was);
	replaced = last(place);
	received(replaced, order);
	store(place, value, order, &replaced->message);
}

void memory_meet(const volatile void *object)
{
	memory_modify(object, 1, 0, 0, __ATOMIC_ACQ_REL);
}
