/* SPDX-License-Identifier: MIT */
/* Watches the first runs of job functions; guard.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include <runnel/guard.h>
#include <runnel/stats.h>

#include "sys/clock.h"
#include "sys/futex.h"
#include "device/gather.h"
#include "device/units.h"
#include "pool/guard.h"
#include "pool/holds.h"
#include "stream/job_flags.h"
#include "pool/pool.h"
#include "sys/thread_state.h"
#include "memory/staging.h"
#include "pool/worker.h"

#define HOLD_NS 10000000u	/* longest wait of a watch for the other workers to come out */
#define HELD_NS 200000000u	/* longest wait of another worker at the gate, ... */
#define HELD_TIMER_NS 2000000u	/* ... and of the timer thread, whose jobs must complete soon */
#define FUNCTIONS 256u		/* watched at most; a power of two */
#define FIRST_RUNS 8u		/* runs of each function that are checked for strays */
#define LOOK_EVERY 61u		/* later, 1 in so many calls; a prime, unlike callers' periods */
/* The gate's word: */
#define HELD 1u			/* a function is being watched */
#define MET 2u			/* a worker that was held for too long has come in */
#define INSIDE 4u		/* one worker in callers' code */

enum state { NEW, KNOWN, REFUSED };

struct entry {
	_Atomic(rnl__function *) fn;	/* set once */
	_Atomic uint32_t state;
	_Atomic uint32_t tried;
	_Atomic uint32_t looked;	/* runs that were checked, up to FIRST_RUNS */
	_Atomic uint32_t strays;	/* its calls are diverted */
};

struct rnl__guard {
	bool watches, strict;
	bool strays;			/* work may go to a stream that is not the worker's */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t gate;
	_Alignas(RNL__CACHE_LINE) struct entry entries[FUNCTIONS];
	_Atomic uint64_t functions, twice, postponed, beyond;
	_Atomic uint64_t found[RNL__NR_FINDINGS];
};

int rnl__guard_create(struct rnl_pool *pool, uint32_t mode)
{
	const bool strays = rnl__pool_any_device(pool)->info.cuda && pool->stream == RNL_STREAM_PRIVATE;
	struct rnl__guard *g;

	if (mode == RNL_GUARD_OFF && !strays)
		return 0;
	g = aligned_alloc(RNL__CACHE_LINE, sizeof(*g));
	if (!g)
		return -ENOMEM;
	*g = (struct rnl__guard){
		.watches = mode != RNL_GUARD_OFF, .strict = mode == RNL_GUARD_STRICT,
		.strays = strays,
	};
	pool->guard = g;
	return 0;
}

void rnl__guard_destroy(struct rnl__guard *g)
{
	free(g);
}

void rnl__guard_figures(struct rnl__guard *g, struct rnl_guard_stats *stats)
{
	stats->functions += rnl__figure_read(&g->functions);
	stats->legacy += rnl__figure_read(&g->found[0]);
	stats->waits += rnl__figure_read(&g->found[1]);
	stats->memory += rnl__figure_read(&g->found[2]);
	stats->waits_or_memory += rnl__figure_read(&g->found[3]);
	stats->pageable += rnl__figure_read(&g->found[4]);
	stats->unclear += rnl__figure_read(&g->found[5]);
	stats->strays += rnl__figure_read(&g->found[6]);
	stats->twice += rnl__figure_read(&g->twice);
	stats->postponed += rnl__figure_read(&g->postponed);
	stats->beyond += rnl__figure_read(&g->beyond);
}

/* ---- the gate ------------------------------------------------------------ */

/* Enters callers' code.  Waits for a watch to end, unless another worker has spoilt it (MET). */
static void go_in(struct rnl__guard *g, uint64_t patience_ns)
{
	uint32_t word = rnl__peek(&g->gate), inside;
	uint64_t deadline = 0;

	for (;;) {
		const bool waits = word & HELD && !(word & MET);

		if (waits && !deadline)
			deadline = rnl__now() + patience_ns;
		if (waits && rnl__now() < deadline) {
			(void)rnl__futex_wait(&g->gate, word, deadline);
			word = rnl__peek(&g->gate);
			continue;
		}
		inside = (word & HELD ? word | MET : word) + INSIDE;
		/*
		 * [guard.E1] acquire: the capture that held us has ended before we make a call;
		 * pairs with [guard.H2].
		 */
		if (atomic_compare_exchange_weak_explicit(&g->gate, &word, inside,
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
	if (w->pool->guard->watches && !w->inside++)
		go_in(w->pool->guard, w->index == RNL__TIMER ? HELD_TIMER_NS : HELD_NS);
}

void rnl__guard_leave(struct rnl__worker *w)
{
	if (w->pool->guard->watches && !--w->inside)
		go_out(w->pool->guard);
}

static void let_in(struct rnl__guard *g)
{
	/* [guard.H2] release: the capture has ended; pairs with [guard.E1] */
	atomic_fetch_and_explicit(&g->gate, ~(HELD | MET), memory_order_release);
	(void)rnl__futex_wake(&g->gate, INT_MAX);
}

/* Closes the gate.  Returns 0; -EBUSY: it is closed already; -ETIMEDOUT: a worker stays inside. */
static int guard_hold(struct rnl__guard *g)
{
	uint64_t deadline = rnl__now() + HOLD_NS;
	/* relaxed: HELD stops workers that come; [guard.H1] orders the ones that leave */
	uint32_t word = atomic_fetch_or_explicit(&g->gate, HELD, memory_order_relaxed);

	if (word & HELD)
		return -EBUSY;
	for (;;) {
		/*
		 * [guard.H1] acquire: the calls of workers that left have ended;
		 * pairs with [guard.E2]
		 */
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

/* Returns true if no other worker came in: MET stays if it left again.  Without a gate: false. */
static bool alone(struct rnl__guard *g)
{
	/* relaxed: if CUDA refused our call because of another worker, that worker had come in */
	return g && g->watches &&
	       atomic_load_explicit(&g->gate, memory_order_relaxed) == (INSIDE | HELD);
}

/* ---- functions ------------------------------------------------------------- */

/* Returns the function's entry, or NULL if there are too many functions. */
static struct entry *guard_entry(struct rnl__guard *g, rnl__function *fn)
{
	/* Fibonacci hashing (Knuth, TAOCP 6.4) */
	uint32_t at = (uint32_t)(((uint64_t)(uintptr_t)fn * 0x9e3779b97f4a7c15u) >> 40);

	for (unsigned i = 0; i < FUNCTIONS; i++) {
		struct entry *e = &g->entries[(at + i) % FUNCTIONS];
		/* relaxed: the address is only compared */
		rnl__function *known = atomic_load_explicit(&e->fn, memory_order_relaxed);

		if (known == fn)
			return e;
		/* relaxed: the address is only compared */
		if (!known && atomic_compare_exchange_strong_explicit(&e->fn, &known, fn,
								      memory_order_relaxed,
								      memory_order_relaxed))
			return e;
		if (known == fn)
			return e;
	}
	return NULL;
}

static enum state state_of(struct entry *e)
{
	/* relaxed: a worker with an old value watches once more, or waits at the gate first */
	return (enum state)atomic_load_explicit(&e->state, memory_order_relaxed);
}

/* ---- strays ---------------------------------------------------------------- */

static bool strays(struct entry *e)
{
	/* relaxed: a worker with an old value finds the stray itself */
	return e && atomic_load_explicit(&e->strays, memory_order_relaxed);
}

/* Notes that a function strays.  Returns true the first time. */
static bool note_stray(struct entry *e)
{
	/* relaxed: see strays() */
	return e && !atomic_exchange_explicit(&e->strays, 1, memory_order_relaxed);
}

/* Returns true if the caller should look for strays after this call. */
static bool looks(struct rnl__worker *w, struct entry *e)
{
	/* relaxed: the count orders nothing, and may exceed the limit by a few */
	if (!e || (atomic_load_explicit(&e->looked, memory_order_relaxed) < FIRST_RUNS &&
		   atomic_fetch_add_explicit(&e->looked, 1, memory_order_relaxed) < FIRST_RUNS))
		return true;
	if (++w->unlooked < LOOK_EVERY)
		return false;
	w->unlooked = 0;
	return true;
}

/* Makes a call as in a pool of per-thread streams, ordered with the worker's other jobs. */
static int call_diverted(struct rnl__worker *w, const struct rnl__guard_call *c)
{
	const struct rnl__device_ops *ops = w->device->ops;
	int on, off, result;

	rnl__gather_stop();
	on = ops->divert(true);
	result = on ? on : c->call(c->fn, c->arg);
	off = ops->divert(false);

	/* On failure, the call's joins are on a stream that the worker's stream has not joined. */
	if (off)
		rnl__worker_forget_joins(w);
	return result < 0 ? result : off ? off : result;
}

/* Looks for strays of a call that has returned @result.  Returns @result, or the device's error. */
static int look_for_stray(struct rnl__worker *w, struct entry *e, const struct rnl__guard_call *c,
			  int result)
{
	const struct rnl__guarded guarded = { .found = RNL__STRAY };
	const int stray = w->device->ops->stray();

	if (stray > 0 && note_stray(e)) {
		rnl__figure_add_any(&w->pool->guard->found[6], 1);
		rnl__guard_report(w->pool, c->fn, &guarded);
	}
	return result < 0 || stray >= 0 ? result : stray;
}

/* Makes a call that is not watched. */
static int make_call(struct rnl__worker *w, struct entry *e, const struct rnl__guard_call *c)
{
	int result;

	if (!w->pool->guard->strays)
		return c->call(c->fn, c->arg);
	if (strays(e))
		return call_diverted(w, c);
	result = c->call(c->fn, c->arg);
	return looks(w, e) ? look_for_stray(w, e, c, result) : result;
}

/* ---- watching -------------------------------------------------------------- */

/* Counts a run of a new function.  Returns true if it should be watched: the 1st, 2nd, 4th, ... */
static bool is_due(struct entry *e)
{
	/* relaxed: the count orders nothing */
	uint32_t tried = atomic_fetch_add_explicit(&e->tried, 1, memory_order_relaxed) + 1;

	return !(tried & (tried - 1));
}

/* Makes a call under capture.  Returns true if it had its effect; false: it must be repeated. */
static bool guard_watch(struct rnl__worker *w, const struct rnl__guard_call *c,
			struct rnl__guarded *guarded, int *result)
{
	const struct rnl__device_ops *ops = w->device->ops;
	const int error = rnl__thread.error;

	rnl__thread.guard = guarded;
	*result = c->call(c->fn, c->arg);
	if (w->device->info.cuda && !guarded->unit_code)
		guarded->unit_code = rnl__units_error();
	rnl__thread.guard = NULL;
	/* Another worker that came in may have caused CUDA's error. */
	if (!alone(w->pool->guard) && (guarded->code || guarded->unit_code))
		guarded->disturbed = guarded->again = true;
	if (ops->guard_end(guarded) > 0)
		return true;
	if (rnl__thread.job->flags & RNL__JOB_HELD)
		rnl__holds_end_of(w, rnl__thread.job);
	rnl__thread.error = error;
	rnl__thread.job->device_error = guarded->strict ? guarded->code : 0;
	return false;
}

/* Notes that the function was watched, and counts the new findings. */
static void note_found(struct rnl__guard *g, struct entry *e, struct rnl__guarded *guarded)
{
	uint32_t state = g->strict && guarded->found ? REFUSED : KNOWN;

	if (guarded->disturbed)
		return;
	rnl__figure_add_any(&g->functions, 1);
	/* An unwatched run may have found the stray before. */
	if (guarded->found & RNL__STRAY && !note_stray(e))
		guarded->found &= ~(unsigned)RNL__STRAY;
	for (unsigned i = 0; i < RNL__NR_FINDINGS; i++) {
		if (guarded->found & 1u << i)
			rnl__figure_add_any(&g->found[i], 1);
	}
	/* relaxed: see state_of() */
	atomic_store_explicit(&e->state, state, memory_order_relaxed);
}

static int call_unwatched(struct rnl__worker *w, struct entry *e, const struct rnl__guard_call *c)
{
	switch (state_of(e)) {
	case REFUSED:
		return -ENOTSUP;
	case NEW:
		rnl__figure_add_any(&w->pool->guard->postponed, 1);
		return make_call(w, e, c);
	default:
		return make_call(w, e, c);
	}
}

/* Returns true if the function is in @state and the gate is closed; the caller must open it. */
static bool all_quiet(struct rnl__worker *w, struct entry *e, enum state state)
{
	struct rnl__guard *g = w->pool->guard;
	int ret = guard_hold(g);

	if (ret == -EBUSY) {
		/* Wait outside until the other watch ends; it may be a watch of this function. */
		go_out(g);
		go_in(g, HELD_NS);
		ret = state_of(e) == state ? guard_hold(g) : -EBUSY;
	}
	if (ret)
		return false;
	/* A capture could not wait for copies that a CPU must still do for earlier jobs. */
	if (state_of(e) == state && !rnl__staging_empty(&w->staging, rnl__now() + HOLD_NS))
		return true;
	let_in(g);
	return false;
}

/* Calls a function that was not watched yet. */
static int call_new(struct rnl__worker *w, struct entry *e, const struct rnl__guard_call *c)
{
	struct rnl__guarded guarded = { 0 };
	struct rnl__guard *g = w->pool->guard;
	bool had_effect, captured;
	int result = 0;

	if (!all_quiet(w, e, NEW))
		return call_unwatched(w, e, c);
	guarded.strict = g->strict;
	if (w->device->ops->guard_begin(&guarded)) {
		let_in(g);
		return call_unwatched(w, e, c);
	}
	had_effect = guard_watch(w, c, &guarded, &result);
	captured = guarded.found || !guarded.again;
	note_found(g, e, &guarded);
	let_in(g);
	if (!guarded.disturbed && (guarded.found || !captured))
		rnl__guard_report(w->pool, c->fn, &guarded);
	if (!guarded.disturbed && guarded.found && w->track)
		rnl__track_found(w->track, c->fn, guarded.found);
	if (had_effect)
		return result;
	if (state_of(e) == REFUSED)
		return -ENOTSUP;
	rnl__figure_add_any(&g->twice, 1);
	return call_unwatched(w, e, c);
}

bool rnl__guard_knows(struct rnl__guard *g, rnl__function *fn)
{
	struct entry *e = guard_entry(g, fn);

	return e && !strays(e) && (!g->watches || state_of(e) == KNOWN);
}

int rnl__guard_record(struct rnl__worker *w, const struct rnl__guard_call *c,
		      struct rnl__guarded *guarded)
{
	struct rnl__guard *g = w->pool->guard;
	struct entry *e = g ? guard_entry(g, c->fn) : NULL;
	const bool gated = g && g->watches;
	bool had_effect = false;
	int result = 0;

	guarded->disturbed = true;
	if (g && !rnl__guard_knows(g, c->fn))
		return rnl__guard_call(w, c);
	if (gated ? !all_quiet(w, e, KNOWN) :
		    rnl__staging_empty(&w->staging, rnl__now() + HOLD_NS) != 0)
		return rnl__guard_call(w, c);
	if (!w->device->ops->guard_begin(guarded)) {
		guarded->disturbed = false;
		had_effect = guard_watch(w, c, guarded, &result);
	}
	if (gated)
		let_in(g);
	/* A replay takes no hold, joins nothing, and has no result of its own. */
	if (result || guarded->joins || rnl__thread.error || rnl__thread.job->flags & RNL__JOB_HELD) {
		if (guarded->record)
			w->device->ops->record_drop(guarded->record);
		guarded->record = NULL;
		guarded->same = false;
	}
	return had_effect ? result : rnl__guard_call(w, c);
}

int rnl__guard_call(struct rnl__worker *w, const struct rnl__guard_call *c)
{
	struct rnl__guard *g = w->pool->guard;
	struct entry *e = g ? guard_entry(g, c->fn) : NULL;

	if (!g)
		return c->call(c->fn, c->arg);
	if (!g->watches)
		return make_call(w, e, c);
	if (!e) {
		rnl__figure_add_any(&g->beyond, 1);
		return make_call(w, e, c);
	}
	if (state_of(e) == NEW && is_due(e))
		return call_new(w, e, c);
	return call_unwatched(w, e, c);
}
