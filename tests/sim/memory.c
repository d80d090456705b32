/* SPDX-License-Identifier: MIT */
/*
 * A memory that keeps no order but what C11's atomics ask for.
 *
 * DESIGN
 *	Memory itself has the last value of each object, so this file can be left out at any time.
 *	Of each atomic object the values before it are kept here, too.  A load takes, by chance, any
 *	that C11 lets it see: none before one that the thread knows of.  A thread's knowledge is a
 *	vector of clocks.  A release gives it to the thread that acquires.  A seq_cst fence gives it
 *	to later fences, for loads only, as it orders no plain accesses.  A seq_cst access has such
 *	a fence before it.  No machine keeps a store back for ever: after DRAINED_NS all see it.
 *	For other objects each byte remembers its last writer and readers.  Two accesses, one of them
 *	a write, that nothing orders are a race.
 *	A plain write to an atomic object is a relaxed store of its owner.  A value that came in some
 *	other way, of memset() or the kernel, begins the object anew: all threads see it.  So does
 *	free(), as the next owner may find the old value there, and an allocator's own lock orders the
 *	two owners.  Where memory changes its owner in another way, the library orders them itself.
 *	What is forgotten is only what was overwritten: a table that is full is emptied.
 *
 *	Not simulated: a store that comes before an earlier load, two stores in another order
 *	than they ran, compare exchanges that fail for no reason.
 */
#include <stdint.h>
#include <string.h>

#include "sim/memory.h"
#include "sim/sim.h"

#define NT MEMORY_THREADS
#define CELLS_BITS 16
#define CELLS (1u << CELLS_BITS)
#define PLACES 4096
#define STORES 16		/* older ones are forgotten */
#define DRAINED_NS 10000
#define LOOKS (1u << 20)	/* bytes of plain accesses, in which races are looked for */

struct clocks {
	uint32_t at[NT];
};

/* What a thread knows. */
struct view {
	struct clocks before;		/* happened before */
	struct clocks seen;		/* the same, and what loads must see */
};

struct store {
	uint64_t value, time;
	struct view message;
	struct clocks seen_by;		/* when; 0: never */
};

/* An atomic object. */
struct place {
	const volatile void *at;
	unsigned size;
	bool plainly;			/* written later by the owner, as if it were not atomic */
	unsigned writer;
	uint32_t written;		/* in the owner's time */
	uint64_t nr;			/* of its stores; 0: nothing is known */
};

struct byte {
	uint32_t writer, written;
	struct clocks read;
};

/* Eight bytes of memory. */
struct cell {
	uintptr_t nr;
	uint32_t epoch;			/* another than now's: the cell is free */
	uint16_t place[8];		/* to which a byte belongs; 0: to none */
	bool has_bytes;			/* else no plain access was seen */
};

struct thread {
	struct view view, to_acquire, released;	/* released by a fence */
};

bool memory_weak;
static struct thread threads[NT];
static struct view ended;		/* what ended threads knew */
static struct clocks fenced;		/* knowledge of seq_cst fences */
static struct cell cells[CELLS];
static struct place places[PLACES + 1];
/* Apart, as most accesses need less. */
static struct byte bytes[CELLS][8];
static struct store stores[PLACES + 1][STORES];
static unsigned used[CELLS / 2];		/* the cells that are not free */
static unsigned nr_cells, nr_places;
static uint32_t epoch = 1;
static uintptr_t watched;
static size_t watched_bytes, looks_left;

/* A thread that the machine does not know, as one at its very end, sees the last values. */
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

/* ---- what is known of memory ------------------------------------------------ */

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

/* NULL: nothing is known of that byte. */
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

/* Of the bytes of a cell those from @at to @end. */
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
	/* The fewer: the cells of that memory, or all that are known. */
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

			/* For an atomic object this is its owner's access, or a look. */
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

	/* A table that is full; or sizes are mixed, of which nothing is known. */
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

/* @before: a read-modify-write passes on what the replaced value released. */
static void store(struct place *place, uint64_t value, int order, const struct view *before)
{
	const unsigned me = sim_slot();
	struct view message = releases(order) ? threads[me].view : threads[me].released;
	struct store *to;

	if (before)
		learn(&message, before);
	to = add_store(place, value, &message);
	to->seen_by.at[me] = tick(me);	/* what follows has a later time */
}

static void received(struct store *from, int order)
{
	const unsigned me = sim_slot();

	if (!from->seen_by.at[me])
		from->seen_by.at[me] = threads[me].view.before.at[me];
	learn(acquires(order) ? &threads[me].view : &threads[me].to_acquire, &from->message);
}

/* Whether a load may return a store before that one. */
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
