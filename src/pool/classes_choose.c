/* SPDX-License-Identifier: MIT */
/* The classes of a pool: which job a worker starts next; classes.h has the design. */
#include "config.h"

#include "pool/classes.h"
#include "pool/inherit.h"
#include "pool/outside.h"
#include "stream/job_flags.h"
#include "sys/clock.h"
#include "sys/sizes.h"

bool rnl__classes_wake_idle(struct rnl_pool *pool, struct rnl_class *c, const uint64_t *among)
{
	/* Workers of classes are in the first word of their set. */
	const uint64_t own = rnl__class_workers(c) & rnl__among(among, 0);

	if (rnl__class_workers(c))
		return rnl__idle_set_wake_one(&pool->class_idle_set, &own);
	return rnl__idle_set_any(&pool->idle_set) && rnl__idle_set_wake_one(&pool->idle_set, among);
}

/* Wakes an idle worker for each of the class's queues that has a job.  A full barrier precedes. */
static void wake_for(struct rnl_pool *pool, struct rnl_class *c)
{
	for (unsigned i = 0; i < c->nr_queues; i++)
		if (rnl__prioq_holds(rnl__class_queue(c, i)))
			(void)rnl__classes_wake_idle(pool, c, i ? pool->of_device[i - 1] : RNL__ANY_WORKER);
}

/* Returns true if a class has jobs that compete with another class's: queued, or under way. */
static bool competes(struct rnl_class *other, const struct rnl_class *c)
{
	if (other == c || rnl__figure_read(&other->tier) != rnl__figure_read(&c->tier))
		return false;
	/* A class with workers of its own needs no others. */
	if (rnl__class_workers(other) || rnl__class_workers(c))
		return false;
	if (!other->index)
		return !rnl__figure_read(&other->behind);
	return rnl__class_has_queued(other) || rnl__figure_read(&other->under_way);
}

void rnl__classes_owe_nothing(struct rnl__classes *classes, struct rnl_class *c)
{
	uint64_t least = 0;
	bool any = false;

	for (uint64_t bits = rnl__classes_used(classes); bits; bits &= bits - 1) {
		struct rnl_class *other = rnl__class_at(classes, (unsigned)__builtin_ctzll(bits));

		if (competes(other, c))
			rnl__class_least(other, &least, &any);
	}
	if (any)
		rnl__class_wakes(c, least);
}

/* Returns the class's queue with the first job that the worker may take, or NULL. */
static struct rnl__prioq *queue_for(struct rnl_class *c, const struct rnl__worker *w)
{
	struct rnl__prioq *any = rnl__class_queue(c, 0), *placed;

	if (c->nr_queues == 1)
		return rnl__prioq_holds(any) ? any : NULL;
	placed = rnl__class_queue(c, 1 + w->device_index);
	if (!rnl__prioq_holds(placed))
		return rnl__prioq_holds(any) ? any : NULL;
	return rnl__prioq_first(placed) <= rnl__prioq_first(any) ? placed : any;
}

/* Returns true if the worker serves the class. */
static bool serves_class(struct rnl__worker *w, const struct rnl_class *c)
{
	return w->in_staff ? !rnl__class_workers(c) : c->index && c->index == rnl__figure_read(&w->own.class);
}

struct rnl__cut *rnl__classes_cut(const struct rnl__worker *w, const struct rnl_job *job, unsigned *rank)
{
	struct rnl__classes *classes = rnl__classes_of(w->pool);

	*rank = rnl__class_rank(rnl__class_at(classes, job->class_index & RNL__CLASS_INDEX));
	for (uint64_t bits = rnl__classes_used(classes); bits; bits &= bits - 1)
		if (rnl__class_rank(rnl__class_at(classes, (unsigned)__builtin_ctzll(bits))) < *rank)
			return &classes->cuts[w->device_index];
	return NULL;
}

/* Returns true if limits do not count any more, since jobs only have to be completed. */
static bool has_no_limits(struct rnl_pool *pool)
{
	return rnl__pool_stops(pool) || rnl__pool_failed(pool);
}

/* Returns the tier of the first job of the class's queue. */
static uint32_t tier_of_first(struct rnl_class *c, struct rnl__prioq *queue)
{
	return (uint32_t)rnl__smaller(rnl__figure_read(&c->tier),
				      rnl__prioq_first(queue) >> RNL__CLASS_KEY_TIER_SHIFT);
}

/*
 * Chooses a class; NULL: no class may start a job.  @own_tier: of the pool's own class.  @at: lowered to
 * when a rate allows one.
 */
static struct rnl_class *choose_class(struct rnl__worker *w, uint64_t among, uint32_t own_tier,
				      uint64_t now, uint64_t *at)
{
	struct rnl__classes *classes = rnl__classes_of(w->pool);
	struct rnl__class_choice best = { 0 };

	for (uint64_t bits = among; bits; bits &= bits - 1) {
		struct rnl_class *c = rnl__class_at(classes, (unsigned)__builtin_ctzll(bits));
		struct rnl__prioq *queue = c->index ? queue_for(c, w) : NULL;

		if (!serves_class(w, c) || (c->index && !queue))
			continue;
		if (__builtin_expect(has_no_limits(w->pool), false))
			return c;
		rnl__class_compare(c, queue ? tier_of_first(c, queue) : own_tier, now, &best, at);
	}
	return best.class;
}

/* The pool's own class has no submits that wake it: its takers see that it had no job. */
static void note_own(struct rnl_pool *pool, bool own)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	struct rnl_class *c = rnl__class_at(classes, 0);
	const bool behind = rnl__figure_read(&c->behind);

	if (own && behind) {
		rnl__figure_write(&c->behind, false);
		rnl__classes_owe_nothing(classes, c);
	} else if (!own && !behind && !rnl__pool_queued(pool)) {
		rnl__figure_write(&c->behind, true);
	}
}

/* Counts how long a timed job was queued. */
static void count_wait(struct rnl_class *c, const struct rnl_job *job, uint64_t now)
{
	const uint64_t since = (uint64_t)(uintptr_t)job->link;

	/* The taker may have read the time before the put did. */
	if (job->flags & RNL__JOB_TIMED)
		rnl__hist_count_any(&c->queue_wait, now > since ? now - since : 0);
}

static struct rnl_job *take_of(struct rnl__worker *w, struct rnl_class *c, uint64_t now)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__prioq *queue = queue_for(c, w);
	struct rnl__class_start start;
	struct rnl_job *job;
	unsigned slot;

	/* The class may have ended since, and its place have one with workers of its own. */
	if (!queue || !serves_class(w, c) || !rnl__class_start(c, now, has_no_limits(pool), &start))
		return NULL;
	job = rnl__prioq_take(queue, &slot);
	if (!job) {
		rnl__class_take_back(c, &start);
		rnl__classes_freed(pool, c);
		return NULL;
	}
	if (!(job->flags & RNL__JOB_INTERNAL))
		rnl__prioq_free(queue, slot);
	if (rnl__figure_read(&c->behind)) {
		rnl__figure_write(&c->behind, false);
		rnl__classes_owe_nothing(rnl__classes_of(pool), c);
	}
	count_wait(c, job, now);
	rnl__job_set_class_slot(job, rnl__class_charge(c, (const void *)(uintptr_t)job->fn, now,
						       pool->devices.nr));
	rnl__job_set_class_index(job, job->class_index | RNL__CLASS_CHARGED);
	rnl__outside_leave(pool, RNL__CLASSED);
	/* The barrier of rnl__outside_leave() orders the freed slot, too. */
	rnl__class_wake_space(c);
	return job;
}

struct rnl_job *rnl__classes_take(struct rnl__worker *w, struct rnl__worker *from)
{
	struct rnl__classes *classes = rnl__classes_of(w->pool);
	uint64_t among = rnl__classes_used(classes) & (from ? UINT64_MAX : ~UINT64_C(1));
	const uint32_t own_tier = from ? rnl__inherit_tier_at(w, from) : RNL__TIER_OWN;
	uint64_t now, at = RNL__NEVER;
	struct rnl_class *c;
	struct rnl_job *job;

	if (w->in_staff)
		note_own(w->pool, from);
	now = rnl__now();
	while ((c = choose_class(w, among, own_tier, now, &at)) != NULL && c->index) {
		job = take_of(w, c, now);
		if (job)
			return job;
		/* Other takers were first, or the job is half put. */
		among &= ~(UINT64_C(1) << c->index);
	}
	return NULL;
}

void rnl__classes_lower(struct rnl_pool *pool, _Atomic uint64_t *due, uint64_t at)
{
	uint64_t old = rnl__peek(due);

	while (at < old) {
		/* relaxed: the caller's full barrier orders it, like rnl__queue_expect() */
		if (atomic_compare_exchange_weak_explicit(due, &old, at, memory_order_relaxed,
							  memory_order_relaxed)) {
			rnl__timer_wake(pool);
			return;
		}
	}
}

bool rnl__classes_have(struct rnl__worker *w)
{
	struct rnl__classes *classes = rnl__classes_of(w->pool);
	uint64_t at = RNL__NEVER;
	bool have = choose_class(w, rnl__classes_used(classes) & ~UINT64_C(1), RNL__TIER_OWN,
				 rnl__now(), &at);

	if (!have && at != RNL__NEVER)
		rnl__classes_lower(w->pool, &classes->wake_at, at);
	return have;
}

void rnl__classes_freed(struct rnl_pool *pool, struct rnl_class *c)
{
	if (rnl__figure_read(&c->max_jobs) || rnl__figure_read(&c->max_ns))
		wake_for(pool, c);
}

void rnl__classes_wake(struct rnl_pool *pool)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	const uint64_t now = rnl__now();
	uint64_t at = RNL__NEVER;

	for (uint64_t bits = rnl__classes_used(classes) & ~UINT64_C(1); bits; bits &= bits - 1) {
		struct rnl_class *c = rnl__class_at(classes, (unsigned)__builtin_ctzll(bits));

		if (rnl__class_has_queued(c) && (rnl__class_may_start(c, now, &at) || has_no_limits(pool)))
			wake_for(pool, c);
	}
	if (at != RNL__NEVER)
		rnl__classes_lower(pool, &classes->wake_at, at);
}
