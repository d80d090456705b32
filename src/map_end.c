/* SPDX-License-Identifier: MIT */
/* How a map ends: its report, its memory, its barrier; map.h has the design. */
#include "config.h"

#include <stdlib.h>

#include "abi.h"
#include "barrier.h"
#include "clock.h"
#include "map.h"
#include "pool.h"

/* ---- memory -------------------------------------------------------------- */

static void free_slot(struct rnl__map *map, struct rnl__map_slot *slot)
{
	struct rnl_pool *pool = map->pool;

	if (slot->in)
		(void)rnl__pinned_put(pool->pinned, slot->in);
	if (slot->out)
		(void)rnl__pinned_put(pool->pinned, slot->out);
	for (int i = 0; i < RNL__MAP_STAGES; i++) {
		rnl__timers_put(&pool->timers, slot->begin[i]);
		rnl__timers_put(&pool->timers, slot->end[i]);
	}
}

void rnl__map_free_job(struct rnl__map_job *job)
{
	for (unsigned i = 0; i < RNL__MAP_SLOTS; i++)
		free_slot(job->map, &job->slots[i]);
}

void rnl__map_free(struct rnl__map *map)
{
	for (unsigned i = 0; i < map->nr_jobs; i++)
		rnl__map_free_job(&map->jobs[i]);
	for (int i = 0; i < RNL__MAP_STAGES; i++)
		free(map->spans[i]);
	rnl__timers_put(&map->pool->timers, map->base);
	if (map->borders_pinned)
		(void)rnl__pinned_put(map->pool->pinned, map->borders);
	else
		free(map->borders);
	pthread_mutex_destroy(&map->lock);
	free(map);
}

/* ---- the end ------------------------------------------------------------- */

static uint64_t figure(_Atomic uint64_t *count)
{
	/* relaxed: the jobs that counted have left, see rnl__map_leave() */
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void report(struct rnl__map *map)
{
	struct rnl_map_report r = { .size = sizeof(r), .nr_jobs = map->nr_jobs };
	uint64_t *const stages[] = { &r.in_ns, &r.kernel_ns, &r.out_ns };
	uint64_t sum = 0, longest = 0;

	if (!map->is.report)
		return;
	r.chunks = figure(&map->chunks);
	r.bytes_in = figure(&map->bytes_in);
	r.bytes_out = figure(&map->bytes_out);
	r.read_ns = figure(&map->read_ns);
	r.write_ns = figure(&map->write_ns);
	r.wall_ns = rnl__now() - map->start + 1;	/* never 0 */
	for (int i = 0; rnl__map_measured(map) && i < RNL__MAP_STAGES; i++) {
		*stages[i] = rnl__spans_cover(map->spans[i], map->nr_chunks);
		sum += *stages[i];
		longest = *stages[i] > longest ? *stages[i] : longest;
	}
	r.overlap_percent = (uint32_t)(100 * sum / r.wall_ns);
	r.limit_percent = (uint32_t)(100 * longest / r.wall_ns);
	rnl__copy_out(map->is.report, &r, sizeof(r));
}

static void end(struct rnl__map *map)
{
	struct rnl_barrier *barrier = map->barrier;
	struct rnl_pool *pool = map->pool;
	/* relaxed: as figure() */
	int error = atomic_load_explicit(&map->error, memory_order_relaxed);

	report(map);
	rnl__map_free(map);
	rnl__barrier_note(barrier, error);
	rnl__barrier_issued(barrier, 1);
	rnl__barrier_done(barrier, 1);
	rnl__pool_unhold(pool);
}

void rnl__map_leave(struct rnl__map *map)
{
	/* [map.L1] acq_rel: what all jobs did comes before the end; pairs with [map.L1] */
	if (atomic_fetch_sub_explicit(&map->nr_running, 1, memory_order_acq_rel) == 1)
		end(map);
}
