/* SPDX-License-Identifier: MIT */
/* Maps: attributes, memory, the start; map.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/map.h>

#include "sys/abi.h"
#include "job/barrier.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "sys/thread.h"
#include "job/job.h"
#include "map/map.h"
#include "pool/classes.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "job/submit.h"

#define START "rnl_map_start()"
#define CHUNK_BYTES (8u << 20)	/* saturates the bus; a launch costs little next to it */
#define CHUNK_BYTES_MIN (256u << 10)
#define CHUNKS_EACH 4		/* wanted per worker: chunks are made smaller for this */

#define IN_FLIGHT_MIN 4		/* jobs of a GPU without CPU copies: one in each stage, one next */
#define IN_FLIGHT_BYTES (32u << 20) /* with small chunks, more jobs up to this size */
#define STAGED_BYTES (256u << 20) /* limit of page-locked memory that CPUs copy to and from */

#define FLAGS (RNL_MAP_COPIES_FIRST | RNL_MAP_IN_ORDER | RNL_MAP_TIMED)

/* ---- attributes ---------------------------------------------------------- */

static int check_arrays(const struct rnl__log *log, const struct rnl_map *spec)
{
	if (!spec->in == !spec->read)
		return rnl__invalid(log, START ": in and read are both %s; one of them must be set",
				    spec->in ? "set" : "NULL");
	if (spec->out_bytes && !spec->out == !spec->write)
		return rnl__invalid(log, START ": out_bytes is %zu, and out and write are both %s; "
				    "one of them must be set", (size_t)spec->out_bytes,
				    spec->out ? "set" : "NULL");
	if (!spec->out_bytes && (spec->out || spec->write))
		return rnl__invalid(log, START ": out_bytes is 0, and %s is set",
				    spec->out ? "out" : "write");
	if (!spec->in || !spec->out)
		return 0;
	if (spec->in == spec->out && spec->in_bytes != spec->out_bytes)
		return rnl__invalid(log, START ": in and out are one array, but in_bytes is %zu "
				    "and out_bytes is %zu", (size_t)spec->in_bytes,
				    (size_t)spec->out_bytes);
	if (spec->in != spec->out && rnl__overlaps(spec->in, spec->nr * spec->in_bytes, spec->out,
						   spec->nr * spec->out_bytes))
		return rnl__invalid(log, START ": in and out overlap, and are not one array");
	return 0;
}

static int check_map(struct rnl_pool *pool, const struct rnl_map *spec)
{
	/* The bytes of a chunk with two halos must fit into 64 bits. */
	const uint64_t element = rnl__larger(rnl__larger(spec->in_bytes, spec->out_bytes), 1);
	const struct rnl__range ranges[] = {
		{ "in_bytes", spec->in_bytes, 1, UINT64_MAX },
		{ "nr", spec->nr, 0, UINT64_MAX / 4 / element },
		{ "chunk", spec->chunk, 1, UINT64_MAX },
		{ "halo_before", spec->halo_before, 0, spec->chunk },
		{ "halo_after", spec->halo_after, 0, spec->chunk },
	};
	const struct rnl__log *log = &pool->log;

	if (!spec->fn)
		return rnl__invalid(log, START ": fn is NULL");
	if (spec->flags & ~(uint32_t)FLAGS)
		return rnl__invalid(log, START ": flags is 0x%x; 0x%x of that is not known",
				    (unsigned)spec->flags,
				    (unsigned)(spec->flags & ~(uint32_t)FLAGS));
	if (rnl__check_ranges(log, START, ranges, sizeof(ranges) / sizeof(ranges[0])))
		return -EINVAL;
	if (spec->report && rnl__check_out(spec->report, RNL__FIRST_MAP_REPORT))
		return rnl__bad_struct(log, START, "the report", spec->report, -EINVAL);
	if (!rnl__unit_fits(pool, (rnl__function *)spec->fn))
		return rnl__unit_refuse(pool, START, (rnl__function *)spec->fn);
	return check_arrays(log, spec);
}

/* Returns the elements of a chunk for RNL_MAP_AUTO. */
static uint64_t find_chunk(const struct rnl_map *spec, unsigned nr_workers)
{
	const uint64_t element = rnl__larger(spec->in_bytes, spec->out_bytes);
	const uint64_t share = spec->nr / (CHUNKS_EACH * nr_workers);
	uint64_t chunk = rnl__smaller(share, CHUNK_BYTES / element);

	chunk = rnl__larger(chunk, CHUNK_BYTES_MIN / element);
	chunk = rnl__larger(chunk, rnl__larger(spec->halo_before, spec->halo_after));
	return rnl__larger(chunk, 1);
}

/*
 * Returns the kind of an array's memory.  If its begin or its end is pageable, the whole array
 * counts as pageable: CPUs copy it, as a device copy of pageable memory would block its caller.
 */
static enum rnl__memory map_memory_kind(struct rnl_pool *pool, const void *mem, uint64_t bytes)
{
	struct rnl__device *device = rnl__pool_any_device(pool);
	const char *last = (const char *)mem + bytes - 1;
	enum rnl__memory kind;

	if (rnl__pinned_holds(pool->pinned, mem, 1))
		return RNL__PINNED;
	kind = device->ops->kind_of(device, mem);
	return kind == RNL__PAGEABLE ? kind : device->ops->kind_of(device, last);
}

/* ---- memory -------------------------------------------------------------- */

static int make_slot(struct rnl__map *map, struct rnl__map_slot *slot,
		     struct rnl__event_cache *timers)
{
	const struct rnl_map *spec = &map->spec;
	struct rnl_pool *pool = map->pool;
	void *buf;
	int ret = 0;

	if (map->stages_in) {
		ret = rnl__pinned_get(pool->pinned, spec->in_bytes *
				      (spec->halo_before + spec->chunk + spec->halo_after), &buf);
		if (ret)
			return ret;
		slot->in = buf;
	}
	if (map->stages_out) {
		ret = rnl__pinned_get(pool->pinned, spec->chunk * spec->out_bytes, &buf);
		if (ret)
			return ret;
		slot->out = buf;
	}
	for (int i = 0; !ret && rnl__map_measured(map) && i < RNL__MAP_STAGES; i++) {
		ret = rnl__event_cache_get(timers, &slot->begin[i]);
		if (!ret)
			ret = rnl__event_cache_get(timers, &slot->end[i]);
	}
	return ret;
}

static int make_job(struct rnl__map *map, struct rnl__map_job *job, unsigned index)
{
	int ret = rnl_job_init(&job->job, rnl__map_job_run);

	job->map = map;
	if (!ret)
		ret = rnl_job_set_on_done(&job->job, rnl__map_job_done);
	/* LARGE gives the job its own mark: its end must not wait for the worker's next job. */
	job->job.flags |= RNL__JOB_LARGE | RNL__JOB_INTERNAL;
	job->home = rnl__pool_place(map->pool, &map->used, index, &job->job);
	if (!ret && map->spec.cls)
		ret = rnl__class_keep(map->spec.cls, &job->job);
	for (unsigned i = 0; !ret && i < map->per_job; i++)
		ret = make_slot(map, &job->slots[i], &map->pool->timers[job->job.device]);
	if (ret)
		rnl__map_free_job(job);
	return ret;
}

/* Makes up to @nr jobs, as many as memory allows.  Returns an error if it made no job. */
static int make_jobs(struct rnl__map *map, unsigned nr)
{
	int ret = 0;

	while (map->nr_jobs < nr) {
		ret = make_job(map, &map->jobs[map->nr_jobs], map->nr_jobs);
		if (ret)
			break;
		map->nr_jobs++;
	}
	return map->nr_jobs ? 0 : ret;
}

static int make_spans(struct rnl__map *map)
{
	int ret = 0;

	if (!map->spec.report || !(map->spec.flags & RNL_MAP_TIMED))
		return 0;
	map->spans = calloc(map->nr_chunks, RNL__MAP_STAGES * sizeof(*map->spans));
	if (!map->spans)
		return -ENOMEM;
	for (unsigned i = 0; !ret && i < map->used.nr; i++) {
		const unsigned device = map->used.list[i];

		ret = rnl__event_cache_get(&map->pool->timers[device], &map->bases[device].event);
	}
	return ret;
}

/* Saves the halos of chunks, before other chunks' results overwrite them. */
static int save_borders(struct rnl__map *map)
{
	const struct rnl_map *spec = &map->spec;
	const uint64_t each = (spec->halo_before + spec->halo_after) * spec->in_bytes;
	const uint64_t bytes = each * (map->nr_chunks - 1);
	void *mem = NULL;
	int ret = 0;

	if (spec->in != spec->out || !spec->in || !bytes)
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
		const uint64_t at = i * spec->chunk;
		const uint64_t after = rnl__smaller(spec->halo_after, spec->nr - at);

		memcpy(rnl__map_border(map, i),
		       (const char *)spec->in + (at - spec->halo_before) * spec->in_bytes,
		       (spec->halo_before + after) * spec->in_bytes);
	}
	return 0;
}

static int look_at_arrays(struct rnl__map *map)
{
	const struct rnl_map *spec = &map->spec;
	enum rnl__memory in = RNL__PAGEABLE, out = RNL__PAGEABLE;

	if (spec->in)
		in = map_memory_kind(map->pool, spec->in, spec->nr * spec->in_bytes);
	if (spec->out)
		out = map_memory_kind(map->pool, spec->out, spec->nr * spec->out_bytes);
	map->stages_in = in == RNL__PAGEABLE;
	map->stages_out = spec->out_bytes && out == RNL__PAGEABLE;
	if (in != RNL__DEVICE && out != RNL__DEVICE)
		return 0;
	return rnl__invalid(&map->pool->log, START ": %s is in device memory",
			    in == RNL__DEVICE ? "in" : "out");
}

/*
 * Returns the number of jobs that keep the device busy.  If CPUs copy, all workers copy: while one
 * of a worker's two jobs is on the device, the chunk of the other job is copied.  The staged memory
 * is limited to the size of caches.  A GPU without CPU copies has one engine for each direction: a
 * few chunks keep it busy, and further chunks would only wait.
 */
static uint64_t enough_jobs(const struct rnl__map *map, unsigned nr_workers)
{
	const uint64_t in = map->spec.chunk * map->spec.in_bytes;
	const uint64_t out = map->spec.chunk * map->spec.out_bytes;
	const uint64_t staged = (map->stages_in ? in : 0) + (map->stages_out ? out : 0);

	if (staged)
		return rnl__larger(nr_workers, STAGED_BYTES / (staged * map->per_job));
	if (!rnl__pool_any_device(map->pool)->info.cuda)
		return 2 * nr_workers;
	return map->used.nr * rnl__larger(IN_FLIGHT_MIN, IN_FLIGHT_BYTES /
					  (rnl__larger(in, out) * map->per_job));
}

static unsigned nr_jobs_for(const struct rnl__map *map, unsigned nr_workers)
{
	const uint64_t wanted = (map->nr_chunks + map->per_job - 1) / map->per_job;
	const uint64_t jobs = rnl__smaller(2 * nr_workers, enough_jobs(map, nr_workers));

	return (unsigned)rnl__smaller(wanted, jobs);
}

/* Returns roughly the number of workers of these devices. */
static unsigned nr_workers_of(struct rnl_pool *pool, const struct rnl__used *used)
{
	const unsigned nr = rnl__pool_staff(pool).nr;

	return (nr * used->nr + pool->devices.nr - 1) / pool->devices.nr;
}

static int make_map(struct rnl__map **mapp, struct rnl_pool *pool, const struct rnl_map *spec,
		    const struct rnl__used *used, struct rnl_barrier *barrier)
{
	const unsigned nr_workers = nr_workers_of(pool, used);
	struct rnl__map *map = calloc(1, sizeof(*map) + 2 * nr_workers * sizeof(map->jobs[0]));
	int ret;

	if (!map)
		return -ENOMEM;
	map->spec = *spec;
	map->pool = pool;
	map->used = *used;
	map->barrier = barrier;
	map->start = rnl__now();
	map->spec.halo_before = rnl__smaller(spec->halo_before, spec->nr);
	map->spec.halo_after = rnl__smaller(spec->halo_after, spec->nr);
	if (spec->chunk == RNL_MAP_AUTO)
		map->spec.chunk = find_chunk(&map->spec, nr_workers);
	map->spec.chunk = rnl__smaller(map->spec.chunk, spec->nr);
	map->nr_chunks = (spec->nr + map->spec.chunk - 1) / map->spec.chunk;
	map->per_job = spec->flags & RNL_MAP_COPIES_FIRST ? RNL__MAP_SLOTS : 1;
	map->reads_in_order = spec->flags & RNL_MAP_IN_ORDER && spec->read;
	map->writes_in_order = spec->flags & RNL_MAP_IN_ORDER && spec->write;
	map->in_place = spec->in && spec->in == spec->out && !spec->halo_before &&
			!spec->halo_after;
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

/* ---- the begin ----------------------------------------------------------- */

/* Submits the jobs.  If the first job is refused, frees the map and returns the error. */
static int begin_map(struct rnl__map *map)
{
	const unsigned nr = map->nr_jobs;
	int ret;

	/* relaxed: the submits publish it.  Each job counts until it leaves, submitted or not. */
	atomic_store_explicit(&map->nr_running, nr, memory_order_relaxed);
	(void)rnl__outside_enter(map->pool, RNL__OPERATION, 1);
	map->round = rnl__barrier_count(map->barrier);
	ret = rnl_submit(map->pool, &map->jobs[0].job);
	if (ret) {
		rnl__barrier_drop(map->barrier, map->round, 1, 1);
		rnl__outside_leave(map->pool, RNL__OPERATION);
		rnl__map_free(map);
		return ret;
	}
	for (unsigned i = 1; i < nr; i++) {
		/* If the device fails now, the submitted jobs report it. */
		if (rnl__submit_internal(map->pool, &map->jobs[i].job, map->jobs[i].home))
			rnl__map_leave(map);
	}
	return 0;
}

/* Reports on an array without elements. */
static void report_nothing(const struct rnl_map *spec)
{
	const struct rnl_map_report r = { .size = sizeof(r) };

	if (spec->report)
		rnl__copy_out(spec->report, &r, sizeof(r));
}

int rnl_map_start(struct rnl_pool *pool, const struct rnl_map *user_map,
		  struct rnl_barrier *barrier)
{
	RNL__UNCANCELLED();
	struct rnl__used used;
	struct rnl__map *map;
	struct rnl_map spec;
	int ret = rnl__pool_given(pool, START);

	if (ret)
		return ret;
	if (!user_map || !barrier || barrier->pool != pool)
		return rnl__invalid(&pool->log, START ": %s", !user_map ? "map is NULL" :
				    !barrier ? "barrier is NULL" :
				    "the barrier is of another pool, or was not initialised");
	ret = rnl__copy_in(&spec, sizeof(spec), user_map, RNL__FIRST_MAP);
	if (ret)
		return rnl__bad_struct(&pool->log, START, "the map", user_map, ret);
	ret = check_map(pool, &spec);
	if (!ret)
		ret = rnl__pool_used(pool, START, spec.devices, &used);
	if (!ret)
		ret = rnl__pool_accepts(pool);
	if (!ret && !rnl__rounds_have_room(barrier))
		ret = -EAGAIN;
	if (!ret && spec.cls)
		ret = rnl__class_enter_given(pool, START, spec.cls);
	if (ret)
		return ret;
	if (spec.nr) {
		ret = make_map(&map, pool, &spec, &used, barrier);
		ret = ret ? ret : begin_map(map);
	} else {
		report_nothing(&spec);
	}
	if (spec.cls)
		rnl__class_leave(spec.cls);
	return ret;
}
