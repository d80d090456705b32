/* SPDX-License-Identifier: MIT */
/* The end of a map: its report, its memory, its barrier; map.h has the design. */
#include "config.h"

#include <stdlib.h>

#include <runnel/map.h>
#include <runnel/trace.h>

#include "sys/abi.h"
#include "job/barrier.h"
#include "job/rounds.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "sys/tsan.h"
#include "map/map.h"
#include "pool/classes.h"
#include "pool/outside.h"
#include "pool/pool.h"

/* ---- memory -------------------------------------------------------------- */

static void map_free_slot(struct rnl__map *map, struct rnl__map_slot *slot,
			  struct rnl__event_cache *timers)
{
	struct rnl_pool *pool = map->pool;

	if (slot->in)
		(void)rnl__pinned_put(pool->pinned, slot->in);
	if (slot->out)
		(void)rnl__pinned_put(pool->pinned, slot->out);
	for (int i = 0; i < RNL__MAP_STAGES; i++) {
		rnl__event_cache_put(timers, slot->begin[i]);
		rnl__event_cache_put(timers, slot->end[i]);
	}
}

void rnl__map_free_job(struct rnl__map_job *job)
{
	if (job->map->spec.cls)
		rnl__class_unkeep(job->map->spec.cls, &job->job);
	for (unsigned i = 0; i < RNL__MAP_SLOTS; i++)
		map_free_slot(job->map, &job->slots[i], &job->map->pool->timers[job->job.device]);
}

void rnl__map_free(struct rnl__map *map)
{
	for (unsigned i = 0; i < map->nr_jobs; i++)
		rnl__map_free_job(&map->jobs[i]);
	free(map->spans);
	for (unsigned i = 0; i < RNL_DEVICES_MAX; i++)
		rnl__event_cache_put(&map->pool->timers[i], map->bases[i].event);
	if (map->borders_pinned)
		(void)rnl__pinned_put(map->pool->pinned, map->borders);
	else
		free(map->borders);
	pthread_mutex_destroy(&map->lock);
	free(map);
}

/* ---- the end ------------------------------------------------------------- */

static int map_by_begin(const void *a, const void *b)
{
	const struct rnl__map_span *x = a, *y = b;

	return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

uint64_t rnl__map_cover(struct rnl__map_span *spans, uint64_t nr)
{
	uint64_t covered = 0, end = 0;

	qsort(spans, nr, sizeof(*spans), map_by_begin);
	for (uint64_t i = 0; i < nr; i++) {
		const uint64_t begin = rnl__larger(spans[i].begin_ns, end);

		if (spans[i].end_ns <= begin)
			continue;
		covered += spans[i].end_ns - begin;
		end = spans[i].end_ns;
	}
	return covered;
}

static void report_stages(struct rnl__map *map, struct rnl_map_report *r)
{
	const uint64_t nr = map->nr_chunks;
	uint64_t longest;

	r->in_ns = rnl__map_cover(map->spans + RNL__MAP_IN * nr, nr);
	r->kernel_ns = rnl__map_cover(map->spans + RNL__MAP_KERNEL * nr, nr);
	r->out_ns = rnl__map_cover(map->spans + RNL__MAP_OUT * nr, nr);
	longest = rnl__larger(r->in_ns, rnl__larger(r->kernel_ns, r->out_ns));
	r->overlap_percent = (uint32_t)(100 * (r->in_ns + r->kernel_ns + r->out_ns) / r->wall_ns);
	r->limit_percent = (uint32_t)(100 * longest / r->wall_ns);
}

static void map_report(struct rnl__map *map)
{
	struct rnl_map_report r = { .size = sizeof(r), .nr_jobs = map->nr_jobs };

	if (!map->spec.report)
		return;
	r.chunks = rnl__figure_read(&map->chunks);
	r.bytes_in = rnl__figure_read(&map->bytes_in);
	r.bytes_out = rnl__figure_read(&map->bytes_out);
	r.read_ns = rnl__figure_read(&map->read_ns);
	r.write_ns = rnl__figure_read(&map->write_ns);
	r.wall_ns = rnl__now() - map->start + 1;	/* + 1: never 0 */
	if (rnl__map_measured(map))
		report_stages(map, &r);
	rnl__copy_out(map->spec.report, &r, sizeof(r));
}

static void map_end(struct rnl__map *map)
{
	struct rnl_barrier *barrier = map->barrier;
	unsigned round = map->round;
	struct rnl_pool *pool = map->pool;
	/* relaxed: the jobs that wrote it have left, see rnl__map_leave() */
	int error = atomic_load_explicit(&map->error, memory_order_relaxed);

	map_report(map);
	rnl__map_free(map);
	rnl__barrier_note(barrier, error);
	rnl__barrier_drop(barrier, round, 1, 1);
	rnl__outside_leave(pool, RNL__OPERATION);
}

void rnl__map_leave(struct rnl__map *map)
{
	rnl__tsan_release(map);
	/* [map.L1] acq_rel: all jobs' writes come before the end; pairs with [map.L1] */
	if (atomic_fetch_sub_explicit(&map->nr_running, 1, memory_order_acq_rel) != 1)
		return;
	rnl__tsan_acquire(map);
	map_end(map);
}
