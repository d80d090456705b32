/* SPDX-License-Identifier: MIT */
/* A pool's statistics and health: counters, latencies, stuck workers. */
#include "config.h"

#include <errno.h>

#include <runnel/stats.h>

#include "sys/abi.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "pool/classes.h"
#include "pool/guard.h"
#include "pool/holds.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "stats/stats.h"

static bool serves(struct rnl__worker *w)
{
	return w->in_staff ? w->index < w->pool->nr_class_workers + rnl__pool_staff(w->pool).nr :
			     rnl__figure_read(&w->own.class) != 0;
}

void rnl__stats_add(struct rnl__figures *sum, struct rnl__worker *w)
{
	struct rnl_pool_stats *stats = &sum->stats;

	if (w->index != RNL__TIMER && !rnl__worker_is_made(w))
		return;
	stats->nr_workers += serves(w);
	stats->done += rnl__figure_read(&w->completed);
	stats->failed += rnl__figure_read(&w->failed);
	stats->cancelled += rnl__figure_read(&w->cancelled);
	stats->timed_out += rnl__figure_read(&w->timed_out);
	stats->stolen += rnl__figure_read(&w->stolen);
	stats->slept += rnl__figure_read(&w->slept);
	stats->staged_bytes += rnl__figure_read(&w->staging.staged);
	stats->untraced += rnl__figure_read(&w->untraced);
	stats->in_flight += rnl__inflight_nr(&w->inflight);
	stats->held += rnl__figure_read(&w->held);
	stats->gathered += rnl__figure_read(&w->gathered);
	stats->graphs += rnl__figure_read(&w->gather.nr_graphs);
	stats->replayed += rnl__figure_read(&w->replays.nr);
	stats->queued += rnl__queue_length(&w->queue);
	stats->accepted += rnl__queue_accepted(&w->queue);
	if (!w->timing)
		return;		/* the timer thread runs no functions */
	rnl__hist_add(&sum->queue_wait, &w->timing->queue_wait);
	rnl__hist_add(&sum->host, &w->timing->host);
	rnl__hist_add(&sum->device, &w->timing->device);
}

void rnl__stats_add_all(struct rnl__figures *sum, struct rnl_pool *pool)
{
	unsigned nr = rnl__pool_nr_workers(pool);
	struct rnl__pinned_figures pinned;
	uint64_t deferred;

	for (unsigned i = 0; i < nr; i++)
		rnl__stats_add(sum, rnl__worker_at(pool, i));
	rnl__stats_add(sum, &pool->timer.self);
	/* Deferred jobs that were released to a queue are counted by their workers. */
	deferred = rnl__outside_nr(pool, RNL__DEFERRED);
	sum->stats.accepted += deferred + rnl__tally_entered(&pool->outside[RNL__CHAINED]) +
			       rnl__tally_entered(&pool->outside[RNL__CLASSED]);
	sum->stats.queued += deferred + rnl__outside_nr(pool, RNL__CHAINED) +
			     rnl__outside_nr(pool, RNL__CLASSED);
	rnl__pinned_figures(pool->pinned, &pinned);
	sum->stats.pinned_locked = pinned.locked;
	sum->stats.pinned_used = pinned.used;
	if (pool->guard)
		rnl__guard_figures(pool->guard, &sum->stats.guard);
	for (unsigned i = 0; i < pool->devices.nr; i++)
		sum->stats.device_calls += rnl__figure_read(&pool->devices.list[i]->nr_slow);
}

static void write_out(struct rnl__figures *sum, struct rnl_pool_stats *stats)
{
	sum->stats.size = sizeof(sum->stats);
	rnl__hist_latency(&sum->queue_wait, &sum->stats.queue_wait);
	rnl__hist_latency(&sum->host, &sum->stats.host);
	rnl__hist_latency(&sum->device, &sum->stats.device);
	rnl__copy_out(stats, &sum->stats, sizeof(sum->stats));
}

int rnl_pool_read_stats(struct rnl_pool *pool, int worker, struct rnl_pool_stats *stats)
{
	struct rnl__figures sum = { 0 };
	int ret = rnl__pool_given(pool, "rnl_pool_read_stats()");
	int nr;

	if (!ret)
		ret = rnl__check_given(&pool->log, "rnl_pool_read_stats()", "stats", stats,
				       RNL__FIRST_POOL_STATS);
	if (ret)
		return ret;
	nr = (int)rnl__pool_nr_workers(pool);
	if (worker < RNL_ALL_WORKERS || worker >= nr)
		return rnl__invalid(&pool->log, "rnl_pool_read_stats(): worker is %d; the pool has "
				    "had workers 0 to %d", worker, nr - 1);
	if (worker == RNL_ALL_WORKERS)
		rnl__stats_add_all(&sum, pool);
	else
		rnl__stats_add(&sum, rnl__worker_at(pool, worker));
	write_out(&sum, stats);
	return 0;
}

/* ---- health -------------------------------------------------------------- */

/* Returns how long a worker has had its current job; 0: it has no job, or has just started it. */
static uint64_t busy_for(struct rnl__worker *w, uint64_t now, const struct rnl_job **job,
			 bool *on_device)
{
	_Atomic uint64_t *at = &w->running_since;
	uint64_t since;

	/* [stats.H1] acquire: the time of this job or of a later one; pairs with [worker.H1] */
	*job = atomic_load_explicit(&w->running, memory_order_acquire);
	*on_device = !*job;
	if (*on_device) {
		at = &w->inflight.oldest_since;
		/* [stats.H2] acquire: like [stats.H1]; pairs with [inflight.H1] */
		*job = atomic_load_explicit(&w->inflight.oldest, memory_order_acquire);
	}
	since = rnl__figure_read(at);
	return *job && now > since ? now - since : 0;
}

/* State of a call of rnl_pool_health(). */
struct stats_look {
	struct rnl_health health;
	uint64_t now, held_since;
};

static void add_unfinished(struct stats_look *look, unsigned worker, const struct rnl_job *job,
			   enum rnl_unfinished_where where, uint64_t since)
{
	struct rnl_health *health = &look->health;

	if (!health->max_unfinished)
		return;
	if (health->nr_unfinished < health->max_unfinished)
		health->unfinished[health->nr_unfinished] = (struct rnl_unfinished){
			.job = job, .worker = worker, .where = where,
			.for_ns = look->now > since ? look->now - since : 0,
		};
	health->nr_unfinished++;
}

static void add_held(void *arg, const struct rnl_job *job, unsigned worker, uint64_t since)
{
	struct stats_look *look = arg;

	look->health.held++;
	look->held_since = rnl__smaller(look->held_since, since);
	add_unfinished(look, worker, job, RNL_IN_HOLD, since);
}

/* Reads the stream first: a job that moves there meanwhile is not listed twice. */
static void add_unfinished_of(struct stats_look *look, struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	const struct rnl_job *job;

	for (unsigned i = 0; f->places && i < f->limit; i++) {
		struct rnl__place *place = &f->places[i];

		/* [stats.H3] acquire: like [stats.H2]; pairs with [inflight.H3] */
		job = atomic_load_explicit(&place->job, memory_order_acquire);
		if (job)
			add_unfinished(look, w->index, job, RNL_IN_DEVICE,
				 rnl__figure_read(&place->since));
	}
	/* [stats.H4] acquire: like [stats.H1]; pairs with [worker.H1] */
	job = atomic_load_explicit(&w->running, memory_order_acquire);
	if (job)
		add_unfinished(look, w->index, job, RNL_IN_FUNCTION,
			 rnl__figure_read(&w->running_since));
}

/* Something has been stuck for @busy_ns: @job of a worker, or @kernel. */
static void add_stuck(struct stats_look *look, uint64_t busy_ns, unsigned worker, bool on_device,
		      const struct rnl_job *job, const char *kernel)
{
	struct rnl_health *health = &look->health;

	if (health->nr_stuck++ && busy_ns / 1000000 <= health->stuck_ms)
		return;
	health->stuck_worker = worker;
	health->on_device = on_device;
	health->stuck_ms = busy_ns / 1000000;
	health->stuck_job = job;
	health->stuck_kernel = kernel;
}

static void stats_look_at(struct stats_look *look, struct rnl__worker *w)
{
	const struct rnl_job *job;
	bool on_device;
	uint64_t busy_ns = busy_for(w, look->now, &job, &on_device);

	if (look->health.max_unfinished)
		add_unfinished_of(look, w);
	if (busy_ns >= w->pool->stuck_ns)
		add_stuck(look, busy_ns, w->index, on_device, job, NULL);
}

/* Looks at the lease that a keeper has found not to end. */
static void look_at_hung(struct stats_look *look, struct rnl_pool *pool)
{
	/* [stats.H5] acquire: its time, or that of a later one, or 0; pairs with [keeper.H1] */
	const char *kernel = atomic_load_explicit(&pool->hung, memory_order_acquire);
	const uint64_t since = rnl__figure_read(&pool->hung_since);
	const uint64_t busy_ns = look->now > since ? look->now - since : 0;

	if (kernel && since && busy_ns >= pool->stuck_ns)
		add_stuck(look, busy_ns, RNL_WORKERS_MAX, true, NULL, kernel);
}

int rnl_pool_health(struct rnl_pool *pool, struct rnl_health *out)
{
	struct stats_look look = { .now = rnl__now_coarse(), .held_since = RNL__NEVER };
	struct rnl_health *health = &look.health;
	int ret = rnl__pool_given(pool, "rnl_pool_health()");
	unsigned nr;

	if (!ret)
		ret = rnl__check_given(&pool->log, "rnl_pool_health()", "health", out,
				       RNL__FIRST_HEALTH);
	if (ret)
		return ret;
	if (!out->unfinished && out->max_unfinished)
		return rnl__invalid(&pool->log, "rnl_pool_health(): unfinished is NULL, and "
				    "max_unfinished is %u", out->max_unfinished);
	health->unfinished = out->unfinished;
	health->max_unfinished = out->max_unfinished;
	rnl__holds_list(pool, add_held, &look);
	nr = rnl__pool_nr_workers(pool);
	for (unsigned i = 0; i < nr; i++)
		if (rnl__worker_is_made(rnl__worker_at(pool, i)))
			stats_look_at(&look, rnl__worker_at(pool, i));
	stats_look_at(&look, &pool->timer.self);
	look_at_hung(&look, pool);
	health->queued = rnl__pool_queued(pool) + rnl__outside_nr(pool, RNL__CLASSED);
	health->held_ms = look.held_since < look.now ?
			     (look.now - look.held_since) / 1000000 : 0;
	health->device_error = rnl__figure_read(rnl__pool_any_device(pool)->failed);
	if (health->device_error)
		health->state = RNL_HEALTH_FAILED;
	else if (health->nr_stuck)
		health->state = RNL_HEALTH_STUCK;
	else if (rnl__pool_queued(pool) >= pool->max_queued - pool->max_queued / 4 ||
		 rnl__classes_crowded(pool))
		health->state = RNL_HEALTH_OVERLOADED;
	rnl__copy_out(out, health, sizeof(*health));
	return 0;
}
