/* SPDX-License-Identifier: MIT */
/*
 * A machine that keeps no order but what C11's atomics ask for. The library's own code runs
 * on it.
 *
 * DESIGN
 *	The code is compiled with -fsanitize=thread and linked with this file in place of
 *	ThreadSanitizer. So each access to memory calls a function here, and the atomic ones
 *	tell the order that they want. Threads are coroutines; before each atomic access
 *	another one may go on, by chance.
 *	For each atomic object all values that were stored are kept. A load takes, by chance,
 *	any of them that C11 lets it see: none before one that the thread knows of. A thread's
 *	knowledge is a vector of clocks. A release gives it to the thread that acquires. A
 *	seq_cst fence gives it to later fences, for loads only, as it orders no plain accesses.
 *	For other objects each byte remembers its last writer and reader. Two accesses, one of
 *	them a write, that nothing orders are a race.
 *	A futex sleeps and wakes. When all remaining threads sleep, that is an error, too.
 *
 *	Not simulated: a store that comes before an earlier load, two stores in another order
 *	than they ran, compare exchanges that fail for no reason. Orders are drawn, so not all
 *	of them are tried.
 */
#include <stdio.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "weak.h"

/* Only the compiler calls these. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define MAIN WEAK_THREADS		/* number of main(), before and after the threads */
#define NT (WEAK_THREADS + 1)
#define STACK 65536
#define PLACES 128
#define STORES 64
#define STEPS 20000			/* accesses of one run; more are an endless loop */

struct clocks {
	uint32_t at[NT];
};

/* What a thread knows. */
struct view {
	struct clocks before;		/* happened before */
	struct clocks seen;		/* the same, and what loads must see */
};

struct store {
	uint64_t value;
	struct view message;
	struct clocks seen_by;		/* when; 0: never */
};

struct place {
	const void *at;
	bool plainly;			/* written later by the owner, as if it were not atomic */
	unsigned writer;
	uint32_t written;		/* in the owner's time */
	unsigned nr;
	struct store stores[STORES];	/* the next value in order */
};

struct byte {
	uint8_t writer;
	uint32_t written, read[NT];
};

struct thread {
	ucontext_t context;
	struct view view, to_acquire, released;	/* released by a fence */
	const void *asleep_on;
	bool over;
	char *stack;
};

static const struct weak *now;
static struct thread threads[NT];
static struct place places[PLACES];
static unsigned nr_places, me, steps, switches;
static struct clocks fenced;		/* knowledge of seq_cst fences */
static struct byte *bytes;
static const char *wrong;
static uint64_t random_state;
static ucontext_t home;

static unsigned any(unsigned nr)
{
	/* xorshift64 (Marsaglia 2003) */
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 33) % nr);
}

/* ---- clocks ---------------------------------------------------------------- */

static void join(struct clocks *to, const struct clocks *from)
{
	for (unsigned i = 0; i < NT; i++)
		if (to->at[i] < from->at[i])
			to->at[i] = from->at[i];
}

static void learn(struct view *to, const struct view *from)
{
	join(&to->before, &from->before);
	join(&to->seen, &from->seen);
	join(&to->seen, &from->before);
}

static uint32_t tick(void)
{
	threads[me].view.seen.at[me]++;
	return ++threads[me].view.before.at[me];
}

/* ---- threads --------------------------------------------------------------- */

_Noreturn void weak_wrong(const char *why)
{
	wrong = why;
	setcontext(&home);
	abort();
}

/* Lets another thread go on, or stays; @must: does not stay. */
static void go_on(bool must)
{
	unsigned can[NT], nr = 0, was = me;

	if (me == MAIN)
		return;
	if (++steps > STEPS)
		weak_wrong("it does not end");
	if (!must && any(switches))
		return;
	for (unsigned i = 0; i < WEAK_THREADS; i++)
		if (!threads[i].over && !threads[i].asleep_on)
			can[nr++] = i;
	if (!nr) {
		for (unsigned i = 0; i < WEAK_THREADS; i++)
			if (!threads[i].over)
				weak_wrong("all remaining threads sleep");
		setcontext(&home);
	}
	me = can[any(nr)];
	if (me != was)
		swapcontext(&threads[was].context, &threads[me].context);
}

static void thread_main(void)
{
	now->thread[me]();
	threads[me].over = true;
	go_on(true);
}

/* futex.h's futex. A wake may come for the address alone. */
long syscall(long number, ...)
{
	const void *address;
	int operation;
	uint32_t value;
	long woken = 0;
	va_list args;

	va_start(args, number);
	address = va_arg(args, const void *);
	operation = va_arg(args, int) & FUTEX_CMD_MASK;
	value = va_arg(args, uint32_t);
	va_end(args);
	if (number != SYS_futex)
		abort();
	if (operation == FUTEX_WAIT) {
		go_on(false);
		if (*(const volatile uint32_t *)address != value) {
			errno = EAGAIN;
			return -1;
		}
		threads[me].asleep_on = address;
		go_on(true);
		return 0;
	}
	for (unsigned i = 0; i < WEAK_THREADS && woken < (int)value; i++)
		if (threads[i].asleep_on == address) {
			threads[i].asleep_on = NULL;
			woken++;
		}
	return woken;
}

/* ---- plain accesses ---------------------------------------------------------- */

static struct place *known(const void *at)
{
	for (unsigned i = 0; i < nr_places; i++)
		if (places[i].at == at)
			return &places[i];
	return NULL;
}

static void race(const char *how, ptrdiff_t offset)
{
	static char why[80];

	snprintf(why, sizeof(why), "a race: byte %td was %s", offset, how);
	weak_wrong(why);
}

static void plain(const void *at, size_t size, bool write)
{
	const struct clocks *before = &threads[me].view.before;
	struct place *place;
	size_t offset = now ? (uintptr_t)at - (uintptr_t)now->memory : 0;

	if (!now || offset >= now->bytes)
		return;
	/* For an atomic object this is its owner's access, or a look. */
	place = known(at);
	if (place) {
		if (write)
			place->plainly = true, place->writer = me, place->written = before->at[me];
		return;
	}
	for (struct byte *b = bytes + offset; b < bytes + offset + size; b++) {
		if (b->written > before->at[b->writer])
			race(write ? "written beside a write" : "read beside a write", b - bytes);
		for (unsigned i = 0; write && i < NT; i++)
			if (b->read[i] > before->at[i])
				race("written beside a read", b - bytes);
		if (write)
			b->writer = (uint8_t)me, b->written = before->at[me];
		else
			b->read[me] = before->at[me];
	}
}

#define PLAIN(size) \
	void __tsan_read##size(void *at) { plain(at, size, false); } \
	void __tsan_write##size(void *at) { plain(at, size, true); } \
	void __tsan_unaligned_read##size(void *at) { plain(at, size, false); } \
	void __tsan_unaligned_write##size(void *at) { plain(at, size, true); }
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}
void __tsan_read_range(void *at, size_t size) { plain(at, size, false); }
void __tsan_write_range(void *at, size_t size) { plain(at, size, true); }

/* Later compilers call it. */
void *__tsan_memcpy(void *to, const void *from, size_t size)
{
	plain(from, size, false);
	plain(to, size, true);
	return memcpy(to, from, size);
}

void *__tsan_memset(void *to, int value, size_t size)
{
	plain(to, size, true);
	return memset(to, value, size);
}

/* ---- atomic accesses --------------------------------------------------------- */

static bool acquires(int order) { return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE; }
static bool releases(int order) { return order >= __ATOMIC_RELEASE; }

static void fence(int order)
{
	struct view *view = &threads[me].view;

	if (acquires(order))
		learn(view, &threads[me].to_acquire);
	if (order == __ATOMIC_SEQ_CST) {
		join(&view->seen, &fenced);
		join(&fenced, &view->seen);
	}
	if (releases(order))
		threads[me].released = *view;
	(void)tick();
}

/* @before: a read-modify-write passes on what the replaced value released. */
static void store(struct place *place, uint64_t value, int order, const struct view *before)
{
	struct store *to = &place->stores[place->nr];

	if (place->nr == STORES)
		weak_wrong("too many stores to an object");
	place->nr++;
	*to = (struct store){ .value = value };
	to->message = releases(order) ? threads[me].view : threads[me].released;
	if (before)
		learn(&to->message, before);
	to->seen_by.at[me] = tick();	/* what follows has a later time */
}

static struct place *place_of(const void *at, uint64_t value)
{
	struct place *place = known(at);

	if (place && place->plainly) {
		const unsigned as = me;

		me = place->writer;
		store(place, value, __ATOMIC_RELAXED, NULL);
		me = as;
		place->stores[place->nr - 1].seen_by.at[place->writer] = place->written;
		place->plainly = false;
	}
	if (place)
		return place;
	if (nr_places == PLACES)
		weak_wrong("too many atomic objects");
	place = &places[nr_places++];
	place->at = at;
	place->nr = 1;
	place->plainly = false;
	place->stores[0] = (struct store){ .value = value };
	return place;
}

static void received(struct store *from, int order)
{
	if (!from->seen_by.at[me])
		from->seen_by.at[me] = threads[me].view.before.at[me];
	if (acquires(order))
		learn(&threads[me].view, &from->message);
	else
		learn(&threads[me].to_acquire, &from->message);
}

/* Any value that the thread may see. */
static uint64_t load(const void *at, uint64_t value, int order)
{
	struct place *place;
	struct store *from;
	unsigned oldest;

	place = place_of(at, value);
	(void)tick();
	for (oldest = place->nr - 1; oldest; oldest--) {
		bool known_of = false;

		for (unsigned i = 0; i < NT; i++) {
			uint32_t when = place->stores[oldest].seen_by.at[i];

			known_of |= when && when <= threads[me].view.seen.at[i];
		}
		if (known_of)
			break;
	}
	from = &place->stores[oldest + any(place->nr - oldest)];
	received(from, order);
	return from->value;
}

/* The last value, which a read-modify-write needs. */
static struct store *last(const void *at, uint64_t value, struct place **place)
{
	*place = place_of(at, value);
	return &(*place)->stores[(*place)->nr - 1];
}

static void modify(struct place *place, struct store *was, uint64_t value, int order)
{
	received(was, order);
	store(place, value, order, &was->message);
}

#define ATOMIC(bits, type) \
	type __tsan_atomic##bits##_load(const volatile type *at, int order) \
	{ \
		go_on(false); \
		return (type)load((const void *)at, *at, order); \
	} \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order) \
	{ \
		struct place *place; \
		go_on(false); \
		(void)last((const void *)at, *at, &place); \
		store(place, value, order, NULL); \
		*at = value; \
	} \
	int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *old, \
							  type value, int order, int other) \
	{ \
		struct place *place; \
		struct store *was; \
		go_on(false); \
		was = last((const void *)at, *at, &place); \
		if ((type)was->value != *old) { \
			received(was, other); \
			*old = (type)was->value; \
			return 0; \
		} \
		modify(place, was, value, order); \
		*at = value; \
		return 1; \
	} \
	int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *old, \
							type value, int order, int other) \
	{ \
		return __tsan_atomic##bits##_compare_exchange_strong(at, old, value, order, other); \
	} \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type old, \
							type value, int order, int other) \
	{ \
		(void)__tsan_atomic##bits##_compare_exchange_strong(at, &old, value, order, \
								    other); \
		return old; \
	} \
	MODIFY(bits, type, exchange, operand) \
	MODIFY(bits, type, fetch_add, value + operand) \
	MODIFY(bits, type, fetch_sub, value - operand) \
	MODIFY(bits, type, fetch_or, value | operand) \
	MODIFY(bits, type, fetch_and, value & operand)
#define MODIFY(bits, type, name, result) \
	type __tsan_atomic##bits##_##name(volatile type *at, type operand, int order) \
	{ \
		struct place *place; \
		struct store *was; \
		type value; \
		go_on(false); \
		was = last((const void *)at, *at, &place); \
		value = (type)was->value; \
		*at = (type)(result); \
		modify(place, was, *at, order); \
		return value; \
	}
ATOMIC(8, uint8_t) ATOMIC(16, uint16_t) ATOMIC(32, uint32_t) ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
	go_on(false);
	fence(order);
}

/* ---- a run ------------------------------------------------------------------- */

static void all_know(struct view *view)
{
	for (unsigned i = 0; i < NT; i++)
		learn(view, &threads[i].view);
}

static void run(void)
{
	static bool started;

	memset(now->memory, 0, now->bytes);
	memset(bytes, 0, now->bytes * sizeof(*bytes));
	nr_places = steps = 0;
	memset(&fenced, 0, sizeof(fenced));
	switches = 1u << any(4);
	wrong = NULL;
	for (unsigned i = 0; i < NT; i++) {
		struct thread *t = &threads[i];
		char *stack = t->stack ? t->stack : malloc(STACK);

		*t = (struct thread){ .stack = stack, .over = i == MAIN || !now->thread[i] };
		t->view.before.at[i] = t->view.seen.at[i] = 1;
		getcontext(&t->context);
		t->context.uc_stack.ss_sp = stack;
		t->context.uc_stack.ss_size = STACK;
		makecontext(&t->context, thread_main, 0);
	}
	me = MAIN;
	now->begin();
	for (unsigned i = 0; i < WEAK_THREADS; i++)
		learn(&threads[i].view, &threads[MAIN].view);
	/* What main() wrote is known to all; later stores belong to threads. */
	(void)tick();
	started = false;
	getcontext(&home);
	if (!started) {
		started = true;
		do
			me = any(WEAK_THREADS);
		while (threads[me].over);
		setcontext(&threads[me].context);
	}
	me = MAIN;
	if (wrong)
		return;
	all_know(&threads[MAIN].view);
	started = false;
	getcontext(&home);
	if (!started) {
		started = true;
		now->end();
	}
}

const char *weak_run(const struct weak *weak, unsigned times, uint64_t seed)
{
	random_state = seed | 1;
	now = weak;
	bytes = malloc(weak->bytes * sizeof(*bytes));
	for (wrong = NULL; times && !wrong; times--)
		run();
	free(bytes);
	now = NULL;
	return wrong;
}
