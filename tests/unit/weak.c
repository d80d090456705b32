/* SPDX-License-Identifier: MIT */
/*
 * The machine that keeps no order (sim/memory.c): small programs with each kind of error that it
 * must find, and the same programs without the error.  Without this check, unit/orders might be
 * unable to fail.
 */
#include "seed.h"
#include "suite.h"

#include "sim/weak.h"

#include "sys/fence.h"
#include "sys/futex.h"

#define TIMES 2000
#define right(what) ((what) ? (void)0 : weak_wrong(#what))

static struct {
	_Atomic uint32_t flag, other;
	int plain;
	uint32_t saw[2];
} all;

/* The expected message, or a part of it; NULL: no error. */
struct program {
	const char *finds;
	struct weak is;
};

static void nothing(void)
{
}

static uint32_t get(_Atomic uint32_t *word, memory_order order)
{
	return atomic_load_explicit(word, order);
}

static void set(_Atomic uint32_t *word, uint32_t value, memory_order order)
{
	atomic_store_explicit(word, value, order);
}

/* ---- a message ------------------------------------------------------------- */

static void send(void)
{
	all.plain = 1;
	set(&all.flag, 1, memory_order_release);
}

static void send_relaxed(void)
{
	all.plain = 1;
	set(&all.flag, 1, memory_order_relaxed);
}

static void receive(void)
{
	if (get(&all.flag, memory_order_acquire))
		right(all.plain == 1);
}

static void receive_relaxed(void)
{
	if (get(&all.flag, memory_order_relaxed))
		right(all.plain == 1);
}

/* Like send(), with an atomic word, whose old value may be seen. */
static void send_word(void)
{
	set(&all.other, 1, memory_order_relaxed);
	set(&all.flag, 1, memory_order_release);
}

static void send_word_fenced(void)
{
	set(&all.other, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	set(&all.flag, 1, memory_order_relaxed);
}

static void receive_word(void)
{
	if (get(&all.flag, memory_order_acquire))
		right(get(&all.other, memory_order_relaxed) == 1);
}

static void receive_word_relaxed(void)
{
	if (get(&all.flag, memory_order_relaxed))
		right(get(&all.other, memory_order_relaxed) == 1);
}

static void receive_word_fenced(void)
{
	if (!get(&all.flag, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_acquire);
	right(get(&all.other, memory_order_relaxed) == 1);
}

/* Passes the message on, as a third thread. */
static void hand_on(void)
{
	if (get(&all.flag, memory_order_acquire))
		set(&all.other, 1, memory_order_release);
}

static void hand_on_relaxed(void)
{
	if (get(&all.flag, memory_order_relaxed))
		set(&all.other, 1, memory_order_release);
}

static void receive_handed(void)
{
	if (get(&all.other, memory_order_acquire))
		right(all.plain == 1);
}

/* ---- Dekker ----------------------------------------------------------------- */

static void first(void)
{
	set(&all.flag, 1, memory_order_release);
	all.saw[0] = get(&all.other, memory_order_acquire);
}

static void second(void)
{
	set(&all.other, 1, memory_order_release);
	all.saw[1] = get(&all.flag, memory_order_acquire);
}

static void first_with_barrier(void)
{
	set(&all.flag, 1, memory_order_relaxed);
	rnl__full_barrier();
	all.saw[0] = get(&all.other, memory_order_relaxed);
}

static void second_with_barrier(void)
{
	set(&all.other, 1, memory_order_relaxed);
	rnl__full_barrier();
	all.saw[1] = get(&all.flag, memory_order_relaxed);
}

static void one_saw_the_other(void)
{
	right(all.saw[0] || all.saw[1]);
}

/* ---- one word ---------------------------------------------------------------- */

static void add(void)
{
	atomic_fetch_add_explicit(&all.flag, 1, memory_order_relaxed);
}

static void load_and_store(void)
{
	set(&all.flag, get(&all.flag, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void two_were_added(void)
{
	right(get(&all.flag, memory_order_relaxed) == 2);
}

/* After a value was seen, no older value may be seen. */
static void look_twice(void)
{
	uint32_t seen = get(&all.flag, memory_order_relaxed);

	right(get(&all.flag, memory_order_relaxed) >= seen);
}

static void write_plain(void)
{
	all.plain = 2;
}

static void read_plain(void)
{
	right(all.plain != 1);
}

/* ---- sleep -------------------------------------------------------------------- */

static void sleep_on_flag(void)
{
	while (!get(&all.flag, memory_order_acquire))
		(void)rnl__futex_wait(&all.flag, 0, RNL__NEVER);
	right(all.plain == 1);
}

static void send_and_wake(void)
{
	send();
	(void)rnl__futex_wake(&all.flag, 1);
}

static void spin_on_flag(void)
{
	while (!get(&all.flag, memory_order_acquire))
		;
}

#define OF(last, ...) { .begin = nothing, .thread = { __VA_ARGS__ }, .end = last, \
			.memory = &all, .bytes = sizeof(all) }

static const struct program programs[] = {
	{ NULL, OF(nothing, send, receive) },
	{ "a race", OF(nothing, send_relaxed, receive) },
	{ "a race", OF(nothing, send, receive_relaxed) },
	{ NULL, OF(nothing, send_word, receive_word) },
	{ NULL, OF(nothing, send_word_fenced, receive_word_fenced) },
	{ NULL, OF(nothing, send_word, receive_word_fenced) },
	{ "get(&all.other", OF(nothing, send_word, receive_word_relaxed) },
	{ "get(&all.other", OF(nothing, send_word_fenced, receive_word_relaxed) },
	{ NULL, OF(nothing, send, hand_on, receive_handed) },
	{ "a race", OF(nothing, send, hand_on_relaxed, receive_handed) },
	{ NULL, OF(one_saw_the_other, first_with_barrier, second_with_barrier) },
	{ "all.saw[0]", OF(one_saw_the_other, first, second) },
	{ "all.saw[0]", OF(one_saw_the_other, first_with_barrier, second) },
	{ NULL, OF(two_were_added, add, add, look_twice) },
	{ "== 2", OF(two_were_added, load_and_store, add) },
	{ NULL, OF(nothing, write_plain) },
	{ NULL, OF(nothing, read_plain, read_plain) },
	{ "beside a write", OF(nothing, write_plain, write_plain) },
	{ "a race", OF(nothing, write_plain, read_plain) },
	{ NULL, OF(nothing, send_and_wake, sleep_on_flag) },
	{ "sleep", OF(nothing, send, sleep_on_flag) },
	{ "does not end", OF(nothing, spin_on_flag) },
};

TEST(faulty_programs_are_found_and_right_ones_are_not,
     .loops = sizeof(programs) / sizeof(programs[0]))
{
	const struct program *p = &programs[_i];
	const char *found = weak_run(&p->is, TIMES, test_seed());

	ck_assert_msg(!found == !p->finds && (!found || strstr(found, p->finds)),
		      "found: %s, not: %s", found ? found : "nothing",
		      p->finds ? p->finds : "nothing");
}
