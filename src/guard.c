/* SPDX-License-Identifier: MIT */
/* Jobs' functions watched when they first run; guard.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "futex.h"
#include "guard.h"
#include "pool.h"
#include "self.h"
#include "staging.h"
#include "worker.h"

#define HOLD_NS 10000000u	/* how long who watches waits for the others to come out */
#define HELD_NS 200000000u	/* how long these wait then to come in */
#define FUNCTIONS 256u		/* watched at most; a power of two */
#define HELD 1u			/* of the gate: a function is being watched */
#define MET 2u			/* and somebody, held for too long, has come in meanwhile */
#define INSIDE 4u		/* one worker */

enum state { NEW, KNOWN, REFUSED };

struct entry {
	_Atomic(rnl__function *) fn;	/* set once */
	_Atomic uint32_t state;
	_Atomic uint32_t tried;
};

struct rnl__guard {
	bool strict;
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t gate;
	_Alignas(RNL__CACHE_LINE) struct entry entries[FUNCTIONS];
	_Atomic uint64_t functions, twice, postponed, beyond;
	_Atomic uint64_t found[RNL__NR_FINDINGS];
};

int rnl__guard_create(struct rnl__guard **guardp, uint32_t mode)
{
	struct rnl__guard *g = aligned_alloc(RNL__CACHE_LINE, sizeof(*g));

	if (!g)
		return -ENOMEM;
	*g = (struct rnl__guard){ .strict = mode == RNL_GUARD_STRICT };
	*guardp = g;
	return 0;
}

void rnl__guard_destroy(struct rnl__guard *g)
{
	free(g);
}

static void count(_Atomic uint64_t *figure)
{
	/* relaxed: a figure */
	atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

static uint64_t read_count(_Atomic uint64_t *figure)
{
	/* relaxed: a figure */
	return atomic_load_explicit(figure, memory_order_relaxed);
}

void rnl__guard_figures(struct rnl__guard *g, struct rnl_pool_stats *stats)
{
	stats->guard_functions += read_count(&g->functions);
	stats->guard_legacy += read_count(&g->found[0]);
	stats->guard_waits += read_count(&g->found[1]);
	stats->guard_memory += read_count(&g->found[2]);
	stats->guard_waits_or_memory += read_count(&g->found[3]);
	stats->guard_pageable += read_count(&g->found[4]);
	stats->guard_unclear += read_count(&g->found[5]);
	stats->guard_twice += read_count(&g->twice);
	stats->guard_postponed += read_count(&g->postponed);
	stats->guard_beyond += read_count(&g->beyond);
}

/* ---- the gate ------------------------------------------------------------ */

static void go_in(struct rnl__guard *g)
{
	/* relaxed: the exchange below orders */
	uint32_t word = atomic_load_explicit(&g->gate, memory_order_relaxed);
	uint64_t deadline = 0;

	for (;;) {
		if (word & HELD && !deadline)
			deadline = rnl__now() + HELD_NS;
		if (word & HELD && rnl__now() < deadline) {
			(void)rnl__futex_wait(&g->gate, word, deadline);
			/* relaxed: as above */
			word = atomic_load_explicit(&g->gate, memory_order_relaxed);
			continue;
		}
		/*
		 * [guard.E1] acquire: the capture that held us has ended before we call
		 * anything; pairs with [guard.H2].
		 */
		if (atomic_compare_exchange_weak_explicit(&g->gate, &word,
							  (word & HELD ? word | MET : word) + INSIDE,
							  memory_order_acquire,
							  memory_order_relaxed))
			return;
	}
}

static void go_out(struct rnl__guard *g)
{
	/* [guard.E2] release: our calls end before a capture begins; pairs with [guard.H1] */
	uint32_t word = atomic_fetch_sub_explicit(&g->gate, INSIDE, memory_order_release);

	if (word & HELD)
		(void)rnl__futex_wake(&g->gate, INT_MAX);
}

void rnl__guard_enter(struct rnl__worker *w)
{
	if (!w->inside++)
		go_in(w->pool->guard);
}

void rnl__guard_leave(struct rnl__worker *w)
{
	if (!--w->inside)
		go_out(w->pool->guard);
}

static void let_in(struct rnl__guard *g)
{
	/* [guard.H2] release: the capture has ended; pairs with [guard.E1] */
	atomic_fetch_and_explicit(&g->gate, ~(HELD | MET), memory_order_release);
	(void)rnl__futex_wake(&g->gate, INT_MAX);
}

/* Holds the others outside: 0; -EBUSY somebody else does; -ETIMEDOUT they do not come out. */
static int hold(struct rnl__guard *g)
{
	uint64_t deadline = rnl__now() + HOLD_NS;
	/* relaxed: HELD is only a word to those who come */
	uint32_t word = atomic_fetch_or_explicit(&g->gate, HELD, memory_order_relaxed);

	if (word & HELD)
		return -EBUSY;
	for (;;) {
		/* [guard.H1] acquire: the calls of those who left have ended; pairs with [guard.E2] */
		word = atomic_load_explicit(&g->gate, memory_order_acquire);
		if (word == (INSIDE | HELD))
			return 0;
		if (rnl__now() >= deadline)
			break;
		(void)rnl__futex_wait(&g->gate, word, deadline);
	}
	let_in(g);
	return -ETIMEDOUT;
}

/* Whether we have been alone; who was held for too long comes in, and may have left again. */
static bool alone(struct rnl__guard *g)
{
	/* relaxed: what CUDA refused us for another's sake, it did after that one had come in */
	return atomic_load_explicit(&g->gate, memory_order_relaxed) == (INSIDE | HELD);
}

/* ---- functions ------------------------------------------------------------- */

/* NULL: there are too many. */
static struct entry *entry_of(struct rnl__guard *g, rnl__function *fn)
{
	/* Fibonacci hashing (Knuth, TAOCP 6.4) */
	uint32_t at = (uint32_t)(((uint64_t)(uintptr_t)fn * 0x9e3779b97f4a7c15u) >> 40);

	for (unsigned i = 0; i < FUNCTIONS; i++) {
		struct entry *e = &g->entries[(at + i) % FUNCTIONS];
		/* relaxed: an address to compare with, it leads nowhere */
		rnl__function *is = atomic_load_explicit(&e->fn, memory_order_relaxed);

		if (is == fn)
			return e;
		/* relaxed: as that */
		if (!is && atomic_compare_exchange_strong_explicit(&e->fn, &is, fn,
								   memory_order_relaxed,
								   memory_order_relaxed))
			return e;
		if (is == fn)
			return e;
	}
	return NULL;
}

static enum state state_of(struct entry *e)
{
	/* relaxed: who sees it late watches once more, or waits at the gate for who does */
	return (enum state)atomic_load_explicit(&e->state, memory_order_relaxed);
}

/* ---- watching -------------------------------------------------------------- */

/* Whether this run is one to try at: the 1st, the 2nd, the 4th, ... that was not watched. */
static bool is_due(struct entry *e)
{
	/* relaxed: a count */
	uint32_t tried = atomic_fetch_add_explicit(&e->tried, 1, memory_order_relaxed) + 1;

	return !(tried & (tried - 1));
}

/* Calls it under capture; true: it has had its effect, false: it is to be called again. */
static bool watch(struct rnl__worker *w, const struct rnl__guard_call *c,
		  struct rnl__guarded *guarded, int *result)
{
	const struct rnl__device_ops *ops = w->pool->device->ops;
	const int error = rnl__self.error;

	rnl__self.guard = guarded;
	*result = c->call(c->arg);
	if (c->check && !guarded->unit_code)
		guarded->unit_code = c->check();
	rnl__self.guard = NULL;
	/* Then what CUDA said may be due to who came in. */
	if (!alone(w->pool->guard) && (guarded->code || guarded->unit_code))
		guarded->disturbed = guarded->again = true;
	if (ops->guard_end(guarded) > 0)
		return true;
	rnl__self.error = error;
	rnl__self.job->device_error = guarded->strict ? guarded->code : 0;
	return false;
}

static void note(struct rnl__guard *g, struct entry *e, const struct rnl__guarded *guarded)
{
	uint32_t state = g->strict && guarded->found ? REFUSED : KNOWN;

	if (guarded->disturbed)
		return;
	count(&g->functions);
	for (unsigned i = 0; i < RNL__NR_FINDINGS; i++) {
		if (guarded->found & 1u << i)
			count(&g->found[i]);
	}
	/* relaxed: see state_of() */
	atomic_store_explicit(&e->state, state, memory_order_relaxed);
}

static int call_unwatched(struct rnl__guard *g, struct entry *e, const struct rnl__guard_call *c)
{
	switch (state_of(e)) {
	case REFUSED:
		return -ENOTSUP;
	case NEW:
		count(&g->postponed);
		return c->call(c->arg);
	default:
		return c->call(c->arg);
	}
}

/* Whether the others are held, for a function that is still new; then they are to be let in. */
static bool all_quiet(struct rnl__worker *w, struct entry *e)
{
	struct rnl__guard *g = w->pool->guard;
	int ret = hold(g);

	if (ret == -EBUSY) {
		/* We wait outside until that is over; perhaps it is this function. */
		go_out(g);
		go_in(g);
		ret = state_of(e) == NEW ? hold(g) : -EBUSY;
	}
	if (ret)
		return false;
	/* What a CPU has yet to copy for earlier jobs, a capture could not wait for. */
	if (state_of(e) == NEW && !rnl__staging_settle(&w->staging, rnl__now() + HOLD_NS))
		return true;
	let_in(g);
	return false;
}

/* It has not been watched yet. */
static int call_new(struct rnl__worker *w, struct entry *e, const struct rnl__guard_call *c)
{
	struct rnl__guarded guarded = { 0 };
	struct rnl__guard *g = w->pool->guard;
	bool had_effect;
	int result = 0;

	if (!all_quiet(w, e))
		return call_unwatched(g, e, c);
	guarded.strict = g->strict;
	guarded.checked = c->check != NULL;
	if (w->pool->device->ops->guard_begin(&guarded)) {
		let_in(g);
		return call_unwatched(g, e, c);
	}
	had_effect = watch(w, c, &guarded, &result);
	note(g, e, &guarded);
	let_in(g);
	if (!guarded.disturbed && (guarded.found || guarded.again))
		rnl__guard_report(w->pool, c->fn, &guarded);
	if (!guarded.disturbed && guarded.found && w->track)
		rnl__track_found(w->track, c->fn, guarded.found);
	if (had_effect)
		return result;
	if (state_of(e) == REFUSED)
		return -ENOTSUP;
	count(&g->twice);
	return call_unwatched(g, e, c);
}

int rnl__guard_call(struct rnl__worker *w, const struct rnl__guard_call *c)
{
	struct rnl__guard *g = w->pool->guard;
	struct entry *e = entry_of(g, c->fn);

	if (!e) {
		count(&g->beyond);
		return c->call(c->arg);
	}
	if (state_of(e) == NEW && is_due(e))
		return call_new(w, e, c);
	return call_unwatched(g, e, c);
}
