/* SPDX-License-Identifier: MIT */
/*
 * A job of a map: from taking a chunk to writing its result; map.h has the design.
 *
 * DESIGN
 *	The states of a job.  READ and WRITE are states of a job in order only.
 *
 *	submitted	it runs: takes a chunk, reads it, issues it	-> on the device
 *			another job reads				-> waits to READ
 *	on the device	done: its callback writes the chunk		-> submitted
 *			an earlier chunk is not written yet		-> waits to WRITE
 *			there are no more chunks, or an error		-> leaves
 *	waits to READ	that read ends					-> submitted
 *	waits to WRITE	that write ends; it writes when it runs		-> submitted
 *
 *	rnl__map_job_run()	the function	write_chunks(), take_chunks(), issue_chunks()
 *	rnl__map_job_done()	the callback	measure(), write_chunks(), go_on()
 */
#include "config.h"

#include <errno.h>

#include "sys/clock.h"
#include "pool/guard.h"
#include "map/map.h"
#include "sys/nontemporal.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "job/submit.h"

#define BASE_NS (UINT64_C(1) << 63)	/* the time of the map's start, in spans */

/* ---- the map's state ----------------------------------------------------- */

static int error_of(struct rnl__map *map)
{
	/* relaxed: a job that misses it handles one chunk in vain */
	return atomic_load_explicit(&map->error, memory_order_relaxed);
}

/* The first error stays. */
static void note_error(struct rnl__map *map, int error)
{
	int none = 0;

	if (error < 0)
		/* relaxed: [map.L1] publishes it */
		atomic_compare_exchange_strong_explicit(&map->error, &none, error,
							memory_order_relaxed,
							memory_order_relaxed);
}

/* A CPU copied bytes that were not in page-locked memory. */
static void count_staged(uint64_t bytes)
{
	rnl__figure_add(&rnl__thread.worker->staging.staged, bytes);
}

/* A callback returns 0 or a negative errno; more than 0 is wrong, and ends the map. */
static int success_or_errno(const char *callback, int ret)
{
	if (ret <= 0)
		return ret;
	return rnl__invalid(&rnl__thread.worker->pool->log, "a map's %s returned %d; it must return "
			    "0 or a negative errno", callback, ret);
}

/* ---- in ------------------------------------------------------------------ */

static struct rnl_chunk chunk_at(const struct rnl__map *map, uint64_t index)
{
	const struct rnl_map *spec = &map->spec;
	const uint64_t first = index * spec->chunk, left = spec->nr - first;
	const uint64_t nr = spec->chunk < left ? spec->chunk : left;

	return (struct rnl_chunk){
		.index = index,
		.first = first,
		.nr = nr,
		.before = spec->halo_before < first ? spec->halo_before : first,
		.after = spec->halo_after < left - nr ? spec->halo_after : left - nr,
		.arg = spec->arg,
	};
}

/* Bytes of a chunk and its halos. */
static uint64_t in_bytes_of(const struct rnl__map *map, const struct rnl_chunk *c)
{
	return (c->before + c->nr + c->after) * map->spec.in_bytes;
}

/* A part of a chunk and its halos: they lie in up to three places of the host's memory. */
struct source {
	const unsigned char *mem;
	uint64_t bytes;
};

static unsigned sources_of(const struct rnl__map *map, const struct rnl_chunk *c,
			   struct source sources[3])
{
	const uint64_t element = map->spec.in_bytes;
	const unsigned char *in = (const unsigned char *)map->spec.in + c->first * element;
	unsigned nr = 0;

	if (!map->borders) {
		sources[0] = (struct source){ in - c->before * element, in_bytes_of(map, c) };
		return 1;
	}
	if (c->before)
		sources[nr++] = (struct source){ rnl__map_border(map, c->index),
						 c->before * element };
	sources[nr++] = (struct source){ in, c->nr * element };
	if (c->after)
		sources[nr++] = (struct source){
			rnl__map_border(map, c->index + 1) + map->spec.halo_before * element,
			c->after * element,
		};
	return nr;
}

/* Reads or copies a chunk into the slot's pinned memory. */
static int read_chunk(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	const uint64_t start = rnl__now();
	unsigned char *to = slot->in;
	int ret = 0;

	if (map->spec.read) {
		ret = success_or_errno("read()", map->spec.read(map->spec.arg, to,
							     c->first - c->before,
							     c->before + c->nr + c->after));
	} else {
		struct source sources[3];
		const unsigned nr = sources_of(map, c, sources);

		for (unsigned i = 0; i < nr; i++) {
			rnl__nontemporal_copy(to, sources[i].mem, sources[i].bytes);
			to += sources[i].bytes;
			count_staged(sources[i].bytes);
		}
	}
	rnl__figure_add_any(&map->read_ns, rnl__now() - start);
	return ret;
}

/* Takes the next chunks, fewer or none at the end. */
static int take_chunks(struct rnl__map *map, struct rnl__map_job *job)
{
	/* relaxed: in order, `reading` orders it; else jobs take in any order */
	const uint64_t first = atomic_fetch_add_explicit(&map->next, map->per_job,
							 memory_order_relaxed);
	int ret = 0;

	job->nr = 0;
	for (uint64_t i = first; !ret && i < first + map->per_job && i < map->nr_chunks; i++) {
		struct rnl__map_slot *slot = &job->slots[job->nr++];

		slot->chunk = chunk_at(map, i);
		if (map->stages_in)
			ret = read_chunk(map, slot);
	}
	return ret;
}

/* ---- on the device ------------------------------------------------------- */

static const struct rnl__device_ops *ops_of(const struct rnl__map *map)
{
	return rnl__pool_any_device(map->pool)->ops;
}

static int issue_copy(const struct rnl__map *map, void *dst, const void *src, uint64_t bytes)
{
	/* The host side is page-locked, or CUDA stages it. */
	return ops_of(map)->copy(&(struct rnl__copy){
		.dst = dst, .src = src, .width = bytes, .rows = 1,
	});
}

/* Gets memory on the device.  The chunk is aligned, whatever halo comes before it. */
static int get_memory(struct rnl__map *map, struct rnl__map_slot *slot)
{
	struct rnl_chunk *c = &slot->chunk;
	const uint64_t halo = c->before * map->spec.in_bytes, lead = (halo + 255) / 256 * 256;
	void *mem;
	int ret = rnl_scratch(lead + (c->nr + c->after) * map->spec.in_bytes, &mem);

	if (ret)
		return ret;
	slot->device_in = (unsigned char *)mem + lead - halo;
	c->in = (unsigned char *)mem + lead;
	c->out = map->in_place ? (void *)(uintptr_t)c->in : NULL;
	if (map->in_place || !map->spec.out_bytes)
		return 0;
	return rnl_scratch(c->nr * map->spec.out_bytes, &c->out);
}

static int copy_in(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	unsigned char *to = slot->device_in;
	struct source sources[3];
	unsigned nr;
	int ret = 0;

	if (slot->in)
		return issue_copy(map, to, slot->in, in_bytes_of(map, c));
	nr = sources_of(map, c, sources);
	for (unsigned i = 0; !ret && i < nr; i++) {
		ret = issue_copy(map, to, sources[i].mem, sources[i].bytes);
		to += sources[i].bytes;
	}
	return ret;
}

static int call_fn(rnl__function *fn, const void *chunk)
{
	return success_or_errno("fn()", ((int (*)(const struct rnl_chunk *))fn)(chunk));
}

static int call_function(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl__guard_call call = {
		(rnl__function *)map->spec.fn, call_fn, &slot->chunk,
	};

	return rnl__unit_check(rnl__thread.worker, call.fn,
			       rnl__guard_call(rnl__thread.worker, &call));
}

static int copy_out(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	unsigned char *to = slot->out;

	if (!map->spec.out_bytes)
		return 0;
	if (!to)
		to = (unsigned char *)map->spec.out + c->first * map->spec.out_bytes;
	return issue_copy(map, to, c->out, c->nr * map->spec.out_bytes);
}

/* Issues a stage of a chunk between its events.  @begins: no event ended the stage before. */
static int issue_stage(struct rnl__map *map, struct rnl__map_slot *slot, unsigned stage,
		       bool begins)
{
	static int (*const stages[])(struct rnl__map *map, struct rnl__map_slot *slot) = {
		[RNL__MAP_IN] = copy_in,
		[RNL__MAP_KERNEL] = call_function,
		[RNL__MAP_OUT] = copy_out,
	};
	int ret = 0;

	if (rnl__map_measured(map) && begins) {
		if (stage == RNL__MAP_IN)
			slot->issued = rnl__now();
		ret = ops_of(map)->event_record(slot->begin[stage]);
	}
	if (rnl__thread.worker->track && stage != RNL__MAP_KERNEL)
		rnl__track_issue(rnl__thread.worker->track);
	if (!ret)
		ret = stages[stage](map, slot);
	if (!ret && rnl__map_measured(map))
		ret = ops_of(map)->event_record(slot->end[stage]);
	/* What the user's function launches is noted by rnl_launch(). */
	if (!ret && stage != RNL__MAP_KERNEL && rnl__thread.worker->track)
		rnl__track_op(rnl__thread.worker->track,
			      stage == RNL__MAP_IN ? RNL__TRACK_IN : RNL__TRACK_OUT);
	return ret;
}

static int issue_chunks(struct rnl__map *map, struct rnl__map_job *job)
{
	const bool copies_first = map->spec.flags & RNL_MAP_COPIES_FIRST;
	const unsigned nr = job->nr * RNL__MAP_STAGES;
	int ret = 0;

	for (unsigned i = 0; !ret && i < job->nr; i++)
		ret = get_memory(map, &job->slots[i]);
	for (unsigned i = 0; !ret && i < nr; i++) {
		const unsigned slot = copies_first ? i % job->nr : i / RNL__MAP_STAGES;
		const unsigned stage = copies_first ? i / job->nr : i % RNL__MAP_STAGES;

		ret = issue_stage(map, &job->slots[slot], stage, copies_first || !stage);
	}
	return ret;
}

/* ---- times --------------------------------------------------------------- */

/* Times of a device count from the first event of its chunk that is done first. */
static struct rnl__map_base base_of(struct rnl__map *map, struct rnl__map_slot *slot,
				    unsigned device)
{
	struct rnl__map_base *base = &map->bases[device], found;

	pthread_mutex_lock(&map->lock);
	if (!base->found) {
		struct rnl__event *spare = base->event;

		base->event = slot->begin[RNL__MAP_IN];
		slot->begin[RNL__MAP_IN] = spare;
		base->found = true;
		base->ns = slot->issued - map->start;
	}
	found = *base;
	pthread_mutex_unlock(&map->lock);
	return found;
}

static void measure(struct rnl__map *map, struct rnl__map_slot *slot, unsigned device)
{
	static const uint32_t kinds[] = {
		[RNL__MAP_IN] = RNL_OVERLAP_IN, [RNL__MAP_KERNEL] = RNL_OVERLAP_KERNEL,
		[RNL__MAP_OUT] = RNL_OVERLAP_OUT,
	};
	const bool copies_first = map->spec.flags & RNL_MAP_COPIES_FIRST;
	struct rnl_overlap_span *span = &map->spans[RNL__MAP_STAGES * slot->chunk.index];
	struct rnl__event *begin[RNL__MAP_STAGES];
	struct rnl__map_base base;

	for (int i = 0; i < RNL__MAP_STAGES; i++)
		begin[i] = i && !copies_first ? slot->end[i - 1] : slot->begin[i];
	base = base_of(map, slot, device);
	for (int i = 0; i < RNL__MAP_STAGES; i++, span++) {
		int64_t from, to;	/* negative: before the base */

		if (ops_of(map)->event_elapsed(base.event, begin[i], &from) ||
		    ops_of(map)->event_elapsed(base.event, slot->end[i], &to))
			continue;
		span->begin_ns = BASE_NS + base.ns + (uint64_t)from;
		span->end_ns = BASE_NS + base.ns + (uint64_t)to;
		span->kind = kinds[i];
	}
}

/* ---- out ----------------------------------------------------------------- */

static int write_chunk(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	const uint64_t start = rnl__now();
	int ret = 0;

	if (map->spec.write) {
		ret = success_or_errno("write()", map->spec.write(map->spec.arg, slot->out,
							       c->first, c->nr));
	} else {
		const uint64_t element = map->spec.out_bytes;

		rnl__nontemporal_copy((char *)map->spec.out + c->first * element, slot->out,
				      c->nr * element);
		count_staged(c->nr * element);
	}
	rnl__figure_add_any(&map->write_ns, rnl__now() - start);
	return ret;
}

/* Writes a job's chunks to the array or by the callback, and counts them. */
static void write_chunks(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret = error_of(map);

	for (unsigned i = 0; !ret && i < job->nr; i++) {
		const struct rnl_chunk *c = &job->slots[i].chunk;

		if (map->stages_out)
			ret = write_chunk(map, &job->slots[i]);
		if (ret)
			break;
		rnl__figure_add_any(&map->chunks, 1);
		rnl__figure_add_any(&map->bytes_in, in_bytes_of(map, c));
		rnl__figure_add_any(&map->bytes_out, c->nr * map->spec.out_bytes);
	}
	note_error(map, ret);
}

/* ---- in order ------------------------------------------------------------ */

/* Finds a job that waits for @what, or for anything, and ends its wait. */
static struct rnl__map_job *take_waiting(struct rnl__map *map, unsigned what)
{
	for (unsigned i = 0; i < map->nr_jobs; i++) {
		struct rnl__map_job *job = &map->jobs[i];

		if (!job->waits || (what && job->waits != what) ||
		    (what == RNL__MAP_WRITE && job->slots[0].chunk.index != map->next_write))
			continue;
		job->waits = RNL__MAP_NOTHING;
		return job;
	}
	return NULL;
}

/* Submits the job to write, or for its next chunk.  False: it has to leave. */
static bool submit_again(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret;

	if (error_of(map))
		return false;
	/* relaxed: a job that finds no chunk when it runs leaves then */
	if (!job->writes &&
	    atomic_load_explicit(&map->next, memory_order_relaxed) >= map->nr_chunks)
		return false;
	ret = rnl__submit_internal(map->pool, &job->job, job->home);
	note_error(map, ret);
	return !ret;
}

/*
 * Submits a job whose wait has ended.  If it has to leave, the next one that waits for @what is
 * submitted; after an error all leave.  The caller's job has not left yet, so the map exists.
 */
static void resume(struct rnl__map *map, struct rnl__map_job *job, unsigned what)
{
	while (job && !submit_again(map, job)) {
		rnl__map_leave(map);
		pthread_mutex_lock(&map->lock);
		job = take_waiting(map, error_of(map) ? RNL__MAP_NOTHING : what);
		pthread_mutex_unlock(&map->lock);
	}
}

/* The job is submitted again, or leaves.  The one that leaves for an error resumes all others. */
static void go_on(struct rnl__map *map, struct rnl__map_job *job)
{
	struct rnl__map_job *other;

	if (submit_again(map, job))
		return;
	if (error_of(map)) {
		pthread_mutex_lock(&map->lock);
		other = take_waiting(map, RNL__MAP_NOTHING);
		pthread_mutex_unlock(&map->lock);
		resume(map, other, RNL__MAP_NOTHING);
	}
	rnl__map_leave(map);
}

static bool begin_reading(struct rnl__map *map)
{
	bool reading;

	pthread_mutex_lock(&map->lock);
	reading = map->reading;
	map->reading = true;
	pthread_mutex_unlock(&map->lock);
	return !reading;
}

/* Another job may read, and is submitted. */
static void end_reading(struct rnl__map *map)
{
	struct rnl__map_job *job;

	pthread_mutex_lock(&map->lock);
	map->reading = false;
	job = take_waiting(map, RNL__MAP_READ);
	pthread_mutex_unlock(&map->lock);
	resume(map, job, RNL__MAP_READ);
}

/* If the next chunk is done and waits, its job is submitted to write it. */
static void end_writing(struct rnl__map *map)
{
	struct rnl__map_job *job = NULL;

	pthread_mutex_lock(&map->lock);
	map->writing = false;
	if (!error_of(map))
		job = take_waiting(map, RNL__MAP_WRITE);
	if (job) {
		map->writing = job->writes = true;
		map->next_write += job->nr;
	}
	pthread_mutex_unlock(&map->lock);
	resume(map, job, RNL__MAP_WRITE);
}

/* True: the job may read.  False: it waits, and another thread may resume it at once. */
static bool may_read(struct rnl__map *map, struct rnl__map_job *job)
{
	bool may;

	pthread_mutex_lock(&map->lock);
	may = !map->reading || error_of(map);
	if (!may)
		job->waits = RNL__MAP_READ;
	pthread_mutex_unlock(&map->lock);
	return may;
}

static bool may_write(struct rnl__map *map, struct rnl__map_job *job)
{
	bool may;

	pthread_mutex_lock(&map->lock);
	may = (!map->writing && job->slots[0].chunk.index == map->next_write) || error_of(map);
	if (may) {
		map->writing = true;
		map->next_write += job->nr;
	} else {
		job->waits = RNL__MAP_WRITE;
	}
	pthread_mutex_unlock(&map->lock);
	return may;
}

/* ---- the function and the callback --------------------------------------- */

static int take_in_order(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret;

	job->found_reader = !begin_reading(map);
	if (job->found_reader)
		return 0;
	ret = error_of(map);
	if (!ret)
		ret = take_chunks(map, job);
	note_error(map, ret);	/* before another job reads */
	end_reading(map);
	return ret;
}

int rnl__map_job_run(struct rnl_job *job)
{
	struct rnl__map_job *mine = rnl_container_of(job, struct rnl__map_job, job);
	struct rnl__map *map = mine->map;
	int ret;

	if (mine->writes) {
		mine->writes = false;
		write_chunks(map, mine);
		end_writing(map);
	}
	mine->nr = 0;
	if (rnl__pool_stops(map->pool))
		note_error(map, -ECANCELED);
	if (error_of(map))
		return 0;
	ret = map->reads_in_order ? take_in_order(map, mine) : take_chunks(map, mine);
	return ret ? ret : issue_chunks(map, mine);
}

void rnl__map_job_done(struct rnl_job *job)
{
	struct rnl__map_job *mine = rnl_container_of(job, struct rnl__map_job, job);
	struct rnl__map *map = mine->map;

	note_error(map, rnl_job_result(job));
	if (!error_of(map) && rnl__map_measured(map))
		for (unsigned i = 0; i < mine->nr; i++)
			measure(map, &mine->slots[i], mine->job.device);
	if (mine->found_reader) {
		mine->found_reader = false;
		if (!may_read(map, mine))
			return;
	}
	if (map->writes_in_order && mine->nr) {
		if (!may_write(map, mine))
			return;
		write_chunks(map, mine);
		end_writing(map);
	} else {
		write_chunks(map, mine);
	}
	go_on(map, mine);
}
