/* SPDX-License-Identifier: MIT */
/* Maps: what is asked for, and how they begin; map.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "barrier.h"
#include "clock.h"
#include "job.h"
#include "map.h"
#include "pool.h"
#include "submit.h"

#define CHUNK_BYTES (8u << 20)	/* large enough for the bus, and for a launch not to count */
#define CHUNK_BYTES_MIN (256u << 10)
#define CHUNKS_EACH 4		/* for each worker, before chunks become smaller */

#define IN_FLIGHT_MIN 4		/* jobs, for a GPU alone: a chunk in each stage, and the next */
#define IN_FLIGHT_BYTES (32u << 20) /* and so many while chunks are small */
#define STAGED_BYTES (256u << 20) /* of page-locked memory that CPUs fill and empty */

#define FLAGS (RNL_MAP_COPIES_FIRST | RNL_MAP_IN_ORDER | RNL_MAP_TIMED)

/* ---- what is asked for --------------------------------------------------- */

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
	return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static int check_arrays(const struct rnl_map *is)
{
	/* So large that a chunk with two halos has a size, too. */
	const uint64_t element = is->in_bytes > is->out_bytes ? is->in_bytes : is->out_bytes;

	if (!is->in == !is->read)
		return -EINVAL;
	if (is->out_bytes ? !is->out == !is->write : is->out || is->write)
		return -EINVAL;
	if (is->nr > UINT64_MAX / 4 / element)
		return -EINVAL;
	if (!is->in || !is->out)
		return 0;
	if (is->in == is->out)
		return is->in_bytes == is->out_bytes ? 0 : -EINVAL;
	return overlap(is->in, is->nr * is->in_bytes, is->out, is->nr * is->out_bytes) ? -EINVAL : 0;
}

static int check(const struct rnl_map *is)
{
	if (is->flags & ~(uint32_t)FLAGS || !is->fn || !is->in_bytes || !is->chunk)
		return -EINVAL;
	if (is->halo_before > is->chunk || is->halo_after > is->chunk)
		return -EINVAL;
	if (is->report && rnl__check_out(is->report, RNL__FIRST_MAP_REPORT))
		return -EINVAL;
	return check_arrays(is);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Elements of a chunk, if the caller does not care. */
static uint64_t find_chunk(const struct rnl_map *is, unsigned nr_workers)
{
	const uint64_t element = larger(is->in_bytes, is->out_bytes);
	const uint64_t share = is->nr / (CHUNKS_EACH * nr_workers);
	uint64_t chunk = smaller(share, CHUNK_BYTES / element);

	chunk = larger(chunk, CHUNK_BYTES_MIN / element);
	chunk = larger(chunk, larger(is->halo_before, is->halo_after));
	return larger(chunk, 1);
}

/*
 * Whose memory an array is; if some of it is pageable, a CPU has to copy all of
 * it, since the device would make its caller wait.
 */
static enum rnl__memory kind_of(struct rnl_pool *pool, const void *mem, uint64_t bytes)
{
	const char *last = (const char *)mem + bytes - 1;
	enum rnl__memory kind;

	if (rnl__pinned_holds(pool->pinned, mem))
		return RNL__PINNED;
	kind = pool->device->ops->kind_of(pool->device, mem);
	return kind == RNL__PAGEABLE ? kind : pool->device->ops->kind_of(pool->device, last);
}

/* ---- memory -------------------------------------------------------------- */

static int make_slot(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_map *is = &map->is;
	struct rnl_pool *pool = map->pool;
	void *buf;
	int ret = 0;

	if (map->stages_in) {
		ret = rnl__pinned_get(pool->pinned, (is->halo_before + is->chunk + is->halo_after) *
						    is->in_bytes, &buf);
		if (ret)
			return ret;
		slot->in = buf;
	}
	if (map->stages_out) {
		ret = rnl__pinned_get(pool->pinned, is->chunk * is->out_bytes, &buf);
		if (ret)
			return ret;
		slot->out = buf;
	}
	for (int i = 0; !ret && rnl__map_measured(map) && i < RNL__MAP_STAGES; i++) {
		ret = rnl__timers_get(&pool->timers, &slot->begin[i]);
		if (!ret)
			ret = rnl__timers_get(&pool->timers, &slot->end[i]);
	}
	return ret;
}

static int make_job(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret = rnl_job_init(&job->job, rnl__map_turn);

	job->map = map;
	if (!ret)
		ret = rnl_job_on_done(&job->job, rnl__map_turned);
	job->job.check = map->is.check;
	/* Behind it is the worker's other one: it must not wait for that. */
	job->job.flags |= RNL__JOB_LARGE | RNL__JOB_OWN;
	for (unsigned i = 0; !ret && i < map->per_job; i++)
		ret = make_slot(map, &job->slots[i]);
	if (ret)
		rnl__map_free_job(job);
	return ret;
}

/* As many as there is memory for, one at least. */
static int make_jobs(struct rnl__map *map, unsigned nr)
{
	int ret = 0;

	while (map->nr_jobs < nr) {
		ret = make_job(map, &map->jobs[map->nr_jobs]);
		if (ret)
			break;
		map->nr_jobs++;
	}
	return map->nr_jobs ? 0 : ret;
}

static int make_spans(struct rnl__map *map)
{
	const bool wanted = map->is.report && map->is.flags & RNL_MAP_TIMED;

	for (int i = 0; wanted && i < RNL__MAP_STAGES; i++) {
		map->spans[i] = calloc(map->nr_chunks, sizeof(*map->spans[i]));
		if (!map->spans[i])
			return -ENOMEM;
	}
	return wanted ? rnl__timers_get(&map->pool->timers, &map->base) : 0;
}

/* What chunks need of their neighbours, before those have written over it. */
static int save_borders(struct rnl__map *map)
{
	const struct rnl_map *is = &map->is;
	const uint64_t each = (is->halo_before + is->halo_after) * is->in_bytes;
	const uint64_t bytes = each * (map->nr_chunks - 1);
	void *mem = NULL;
	int ret = 0;

	if (is->in != is->out || !is->in || !bytes)
		return 0;
	map->borders_pinned = !map->stages_in;
	if (map->borders_pinned)
		ret = rnl__pinned_get(map->pool->pinned, bytes, &mem);
	else
		mem = malloc(bytes);
	if (ret || !mem)
		return ret ? ret : -ENOMEM;
	map->borders = mem;
	for (uint64_t i = 1; i < map->nr_chunks; i++) {
		const uint64_t at = i * is->chunk;
		const uint64_t after = smaller(is->halo_after, is->nr - at);

		memcpy(rnl__map_border(map, i),
		       (const char *)is->in + (at - is->halo_before) * is->in_bytes,
		       (is->halo_before + after) * is->in_bytes);
	}
	return 0;
}

static int look_at_arrays(struct rnl__map *map)
{
	const struct rnl_map *is = &map->is;
	enum rnl__memory in = RNL__PAGEABLE, out = RNL__PAGEABLE;

	if (is->in)
		in = kind_of(map->pool, is->in, is->nr * is->in_bytes);
	if (is->out)
		out = kind_of(map->pool, is->out, is->nr * is->out_bytes);
	map->stages_in = in == RNL__PAGEABLE;
	map->stages_out = is->out_bytes && out == RNL__PAGEABLE;
	return in == RNL__DEVICE || out == RNL__DEVICE ? -EINVAL : 0;
}

/*
 * How many jobs take turns.  Where CPUs copy, all workers do: with two jobs each, one is
 * on the device while the other is copied, but no more memory is used than caches keep.
 * A GPU that needs no CPU has one engine for each direction: a few chunks keep it busy,
 * and more wait for each other.
 */
static uint64_t enough_jobs(const struct rnl__map *map, unsigned nr_workers)
{
	const uint64_t in = map->is.chunk * map->is.in_bytes, out = map->is.chunk * map->is.out_bytes;
	const uint64_t staged = (map->stages_in ? in : 0) + (map->stages_out ? out : 0);

	if (staged)
		return larger(nr_workers, STAGED_BYTES / (staged * map->per_job));
	if (!map->pool->device->info.cuda)
		return 2 * nr_workers;
	return larger(IN_FLIGHT_MIN, IN_FLIGHT_BYTES / (larger(in, out) * map->per_job));
}

static unsigned nr_jobs_for(const struct rnl__map *map, unsigned nr_workers)
{
	const uint64_t turns = (map->nr_chunks + map->per_job - 1) / map->per_job;
	const uint64_t jobs = smaller(2 * nr_workers, enough_jobs(map, nr_workers));

	return (unsigned)smaller(turns, jobs);
}

static int make_map(struct rnl__map **mapp, struct rnl_pool *pool, const struct rnl_map *is,
		    struct rnl_barrier *barrier)
{
	const unsigned nr_workers = rnl__pool_table(pool).nr;
	struct rnl__map *map = calloc(1, sizeof(*map) + 2 * nr_workers * sizeof(map->jobs[0]));
	int ret;

	if (!map)
		return -ENOMEM;
	map->is = *is;
	map->pool = pool;
	map->barrier = barrier;
	map->start = rnl__now();
	map->is.halo_before = smaller(is->halo_before, is->nr);
	map->is.halo_after = smaller(is->halo_after, is->nr);
	if (is->chunk == RNL_MAP_AUTO)
		map->is.chunk = find_chunk(&map->is, nr_workers);
	map->is.chunk = smaller(map->is.chunk, is->nr);
	map->nr_chunks = (is->nr + map->is.chunk - 1) / map->is.chunk;
	map->per_job = is->flags & RNL_MAP_COPIES_FIRST ? RNL__MAP_SLOTS : 1;
	map->reads_in_order = is->flags & RNL_MAP_IN_ORDER && is->read;
	map->writes_in_order = is->flags & RNL_MAP_IN_ORDER && is->write;
	map->in_place = is->in && is->in == is->out && !is->halo_before && !is->halo_after;
	pthread_mutex_init(&map->lock, NULL);
	ret = look_at_arrays(map);
	if (!ret)
		ret = make_spans(map);
	if (!ret)
		ret = save_borders(map);
	if (!ret)
		ret = make_jobs(map, nr_jobs_for(map, nr_workers));
	if (ret)
		rnl__map_free(map);
	else
		*mapp = map;
	return ret;
}

/* ---- beginning ----------------------------------------------------------- */

/* Submits the jobs; the first may be refused, then the map has not begun. */
static int begin(struct rnl__map *map)
{
	const unsigned nr = map->nr_jobs;
	int ret;

	/* relaxed: the submits publish it.  Each job counts until it leaves, submitted or not. */
	atomic_store_explicit(&map->nr_running, nr, memory_order_relaxed);
	rnl__pool_hold(map->pool);
	rnl__barrier_count(map->barrier);
	ret = rnl_submit(map->pool, &map->jobs[0].job);
	if (ret) {
		rnl__barrier_issued(map->barrier, 1);
		rnl__barrier_done(map->barrier, 1);
		rnl__pool_unhold(map->pool);
		rnl__map_free(map);
		return ret;
	}
	for (unsigned i = 1; i < nr; i++) {
		/* A device that fails now is the result of those that run. */
		if (rnl__submit_held(map->pool, &map->jobs[i].job, i))
			rnl__map_leave(map);
	}
	return 0;
}

/* Nothing to be done is done at once. */
static void report_nothing(const struct rnl_map *is)
{
	const struct rnl_map_report r = { .size = sizeof(r) };

	if (is->report)
		rnl__copy_out(is->report, &r, sizeof(r));
}

int rnl_map(struct rnl_pool *pool, const struct rnl_map *user_map, struct rnl_barrier *barrier)
{
	struct rnl__map *map;
	struct rnl_map is;
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	if (!user_map || !barrier || barrier->pool != pool)
		return -EINVAL;
	ret = rnl__copy_in(&is, sizeof(is), user_map, RNL__FIRST_MAP);
	if (!ret)
		ret = check(&is);
	if (!ret && rnl__device_failed(pool->device))
		ret = -EIO;
	if (!ret && rnl__queue_closed(&pool->put_off))
		ret = -ESHUTDOWN;
	if (ret)
		return ret;
	if (!is.nr) {
		report_nothing(&is);
		return 0;
	}
	ret = make_map(&map, pool, &is, barrier);
	return ret ? ret : begin(map);
}
