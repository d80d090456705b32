/* SPDX-License-Identifier: MIT */
/* A job's turn in a map: from taking a chunk to its result; map.h has the design. */
#include "config.h"

#include <errno.h>

#include "clock.h"
#include "guard.h"
#include "map.h"
#include "nontemporal.h"
#include "pool.h"
#include "submit.h"

/* ---- the map's state ----------------------------------------------------- */

static int error_of(struct rnl__map *map)
{
	/* relaxed: who misses it goes on for a chunk in vain */
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

static void add(_Atomic uint64_t *figure, uint64_t n)
{
	/* relaxed: [map.L1] publishes it */
	atomic_fetch_add_explicit(figure, n, memory_order_relaxed);
}

/* A CPU copied what page-locked memory would have spared it. */
static void count_staged(uint64_t bytes)
{
	rnl__count(&rnl__self.worker->staging.staged, bytes);
}

/* A callback's word: it has succeeded, or it names an errno. */
static int success_or_errno(int ret)
{
	return ret > 0 ? -EINVAL : ret;
}

/* ---- in ------------------------------------------------------------------ */

static struct rnl_chunk chunk_at(const struct rnl__map *map, uint64_t index)
{
	const struct rnl_map *is = &map->is;
	const uint64_t first = index * is->chunk, left = is->nr - first;
	const uint64_t nr = is->chunk < left ? is->chunk : left;

	return (struct rnl_chunk){
		.index = index,
		.first = first,
		.nr = nr,
		.before = is->halo_before < first ? is->halo_before : first,
		.after = is->halo_after < left - nr ? is->halo_after : left - nr,
		.arg = is->arg,
	};
}

/* Where a chunk comes from, its halos with it: up to three places in the host's memory. */
struct source {
	const unsigned char *mem;
	uint64_t bytes;
};

static unsigned sources_of(const struct rnl__map *map, const struct rnl_chunk *c,
			   struct source sources[3])
{
	const uint64_t element = map->is.in_bytes;
	const unsigned char *in = (const unsigned char *)map->is.in + c->first * element;
	unsigned nr = 0;

	if (!map->borders) {
		sources[0] = (struct source){ in - c->before * element,
					      (c->before + c->nr + c->after) * element };
		return 1;
	}
	if (c->before)
		sources[nr++] = (struct source){ rnl__map_border(map, c->index),
						 c->before * element };
	sources[nr++] = (struct source){ in, c->nr * element };
	if (c->after)
		sources[nr++] = (struct source){
			rnl__map_border(map, c->index + 1) + map->is.halo_before * element,
			c->after * element,
		};
	return nr;
}

/* Brings a chunk into the slot's pinned memory. */
static int load(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	const uint64_t start = rnl__now();
	unsigned char *to = slot->in;
	int ret = 0;

	if (map->is.read) {
		ret = success_or_errno(map->is.read(map->is.arg, to, c->first - c->before,
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
	add(&map->read_ns, rnl__now() - start);
	return ret;
}

/* Takes the next chunks, fewer or none at the end. */
static int take(struct rnl__map *map, struct rnl__map_job *job)
{
	/* relaxed: in order `reading` orders it, else each takes what no other takes */
	const uint64_t first = atomic_fetch_add_explicit(&map->next, map->per_job,
							 memory_order_relaxed);
	int ret = 0;

	job->nr = 0;
	for (uint64_t i = first; !ret && i < first + map->per_job && i < map->nr_chunks; i++) {
		struct rnl__map_slot *slot = &job->slots[job->nr++];

		slot->chunk = chunk_at(map, i);
		if (map->stages_in)
			ret = load(map, slot);
	}
	return ret;
}

/* ---- on the device ------------------------------------------------------- */

static const struct rnl__device_ops *ops_of(const struct rnl__map *map)
{
	return map->pool->device->ops;
}

static int copy(const struct rnl__map *map, void *dst, const void *src, uint64_t bytes)
{
	/* Page-locked on its host side, or CUDA's own to stage. */
	return ops_of(map)->copy(&(struct rnl__copy){
		.dst = dst, .src = src, .width = bytes, .rows = 1,
	});
}

/* Memory on the device; its chunk is aligned, whatever the halo before it. */
static int get_memory(struct rnl__map *map, struct rnl__map_slot *slot)
{
	struct rnl_chunk *c = &slot->chunk;
	const uint64_t halo = c->before * map->is.in_bytes, lead = (halo + 255) / 256 * 256;
	void *mem;
	int ret = rnl_scratch(lead + (c->nr + c->after) * map->is.in_bytes, &mem);

	if (ret)
		return ret;
	slot->device_in = (unsigned char *)mem + lead - halo;
	c->in = (unsigned char *)mem + lead;
	c->out = map->in_place ? (void *)(uintptr_t)c->in : NULL;
	if (map->in_place || !map->is.out_bytes)
		return 0;
	return rnl_scratch(c->nr * map->is.out_bytes, &c->out);
}

static int copy_in(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	unsigned char *to = slot->device_in;
	struct source sources[3];
	unsigned nr;
	int ret = 0;

	if (slot->in)
		return copy(map, to, slot->in, (c->before + c->nr + c->after) * map->is.in_bytes);
	nr = sources_of(map, c, sources);
	for (unsigned i = 0; !ret && i < nr; i++) {
		ret = copy(map, to, sources[i].mem, sources[i].bytes);
		to += sources[i].bytes;
	}
	return ret;
}

/* What guard calls. */
struct handed {
	const struct rnl__map *map;
	const struct rnl_chunk *chunk;
};

static int call_fn(void *arg)
{
	const struct handed *handed = arg;

	return success_or_errno(handed->map->is.fn(handed->chunk));
}

static int call(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_pool *pool = map->pool;
	struct handed handed = { map, &slot->chunk };
	const struct rnl__guard_call guarded = {
		(rnl__function *)map->is.fn, call_fn, &handed,
		pool->device->info.cuda ? map->is.check : NULL,
	};

	return pool->guard ? rnl__guard_call(rnl__self.worker, &guarded) : call_fn(&handed);
}

static int copy_out(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	unsigned char *to = slot->out;

	if (!map->is.out_bytes)
		return 0;
	if (!to)
		to = (unsigned char *)map->is.out + c->first * map->is.out_bytes;
	return copy(map, to, c->out, c->nr * map->is.out_bytes);
}

/* One stage of one chunk, between its marks; if stages follow each other, they share one. */
static int issue(struct rnl__map *map, struct rnl__map_slot *slot, unsigned stage, bool begins)
{
	static int (*const stages[])(struct rnl__map *map, struct rnl__map_slot *slot) = {
		[RNL__MAP_IN] = copy_in, [RNL__MAP_KERNEL] = call, [RNL__MAP_OUT] = copy_out,
	};
	int ret = 0;

	if (rnl__map_measured(map) && begins)
		ret = ops_of(map)->event_record(slot->begin[stage]);
	if (rnl__self.worker->track && stage != RNL__MAP_KERNEL)
		rnl__track_issue(rnl__self.worker->track);
	if (!ret)
		ret = stages[stage](map, slot);
	if (!ret && rnl__map_measured(map))
		ret = ops_of(map)->event_record(slot->end[stage]);
	/* What the callback launches is noted there. */
	if (!ret && stage != RNL__MAP_KERNEL && rnl__self.worker->track)
		rnl__track_op(rnl__self.worker->track,
			      stage == RNL__MAP_IN ? RNL__TRACK_IN : RNL__TRACK_OUT);
	return ret;
}

static int issue_all(struct rnl__map *map, struct rnl__map_job *job)
{
	const bool copies_first = map->is.flags & RNL_MAP_COPIES_FIRST;
	const unsigned nr = job->nr * RNL__MAP_STAGES;
	int ret = 0;

	for (unsigned i = 0; !ret && i < job->nr; i++)
		ret = get_memory(map, &job->slots[i]);
	for (unsigned i = 0; !ret && i < nr; i++) {
		const unsigned slot = copies_first ? i % job->nr : i / RNL__MAP_STAGES;
		const unsigned stage = copies_first ? i / job->nr : i % RNL__MAP_STAGES;

		ret = issue(map, &job->slots[slot], stage, copies_first || !stage);
	}
	return ret;
}

/* ---- times --------------------------------------------------------------- */

/* What all times count from is the first mark of whichever chunk is done first. */
static struct rnl__event *base_of(struct rnl__map *map, struct rnl__map_slot *slot)
{
	struct rnl__event *base;

	pthread_mutex_lock(&map->lock);
	if (!map->has_base) {
		struct rnl__event *spare = map->base;

		map->base = slot->begin[RNL__MAP_IN];
		slot->begin[RNL__MAP_IN] = spare;
		map->has_base = true;
	}
	base = map->base;
	pthread_mutex_unlock(&map->lock);
	return base;
}

static void measure(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const bool copies_first = map->is.flags & RNL_MAP_COPIES_FIRST;
	struct rnl__event *begin[RNL__MAP_STAGES], *base;

	for (int i = 0; i < RNL__MAP_STAGES; i++)
		begin[i] = i && !copies_first ? slot->end[i - 1] : slot->begin[i];
	base = base_of(map, slot);
	for (int i = 0; i < RNL__MAP_STAGES; i++) {
		struct rnl__span span;

		if (!ops_of(map)->event_elapsed(base, begin[i], &span.begin) &&
		    !ops_of(map)->event_elapsed(base, slot->end[i], &span.end))
			map->spans[i][slot->chunk.index] = span;
	}
}

/* ---- out ----------------------------------------------------------------- */

static int store(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	const uint64_t start = rnl__now();
	int ret = 0;

	if (map->is.write) {
		ret = success_or_errno(map->is.write(map->is.arg, slot->out, c->first, c->nr));
	} else {
		rnl__nontemporal_copy((char *)map->is.out + c->first * map->is.out_bytes, slot->out,
				      c->nr * map->is.out_bytes);
		count_staged(c->nr * map->is.out_bytes);
	}
	add(&map->write_ns, rnl__now() - start);
	return ret;
}

/* Brings what a job has done to where it is wanted, and counts it. */
static void finish(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret = error_of(map);

	for (unsigned i = 0; !ret && i < job->nr; i++) {
		const struct rnl_chunk *c = &job->slots[i].chunk;

		if (map->stages_out)
			ret = store(map, &job->slots[i]);
		if (ret)
			break;
		add(&map->chunks, 1);
		add(&map->bytes_in, (c->before + c->nr + c->after) * map->is.in_bytes);
		add(&map->bytes_out, c->nr * map->is.out_bytes);
	}
	note_error(map, ret);
}

/* ---- whose turn it is ---------------------------------------------------- */

static bool go_on(struct rnl__map *map, struct rnl__map_job *job);

/* Takes off one that waits for that; or for anything. */
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

/* Has one that waits go on, which tells the others; if it leaves, then the next one. */
static void release(struct rnl__map *map, struct rnl__map_job *job, unsigned what)
{
	while (job && !go_on(map, job)) {
		pthread_mutex_lock(&map->lock);
		job = take_waiting(map, what);
		pthread_mutex_unlock(&map->lock);
	}
}

/* After an error they wait for nothing.  The caller has yet to leave. */
static void release_all(struct rnl__map *map)
{
	struct rnl__map_job *job;

	pthread_mutex_lock(&map->lock);
	job = take_waiting(map, RNL__MAP_NOTHING);
	pthread_mutex_unlock(&map->lock);
	release(map, job, RNL__MAP_NOTHING);
}

/* For the next chunk, if there is one; else it leaves: false. */
static bool go_on(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret = error_of(map);

	/* relaxed: a job that finds none leaves then */
	if (!ret && (job->writes ||
		     atomic_load_explicit(&map->next, memory_order_relaxed) < map->nr_chunks)) {
		ret = rnl__submit_held(map->pool, &job->job, (unsigned)(job - map->jobs));
		if (!ret)
			return true;
		note_error(map, ret);
		release_all(map);
	}
	rnl__map_leave(map);
	return false;
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

/* Another one may read, and is told. */
static void end_reading(struct rnl__map *map)
{
	struct rnl__map_job *job;

	pthread_mutex_lock(&map->lock);
	map->reading = false;
	job = take_waiting(map, RNL__MAP_READ);
	pthread_mutex_unlock(&map->lock);
	release(map, job, RNL__MAP_READ);
}

/* Has what is done written next, if its turn has come. */
static void end_writing(struct rnl__map *map)
{
	struct rnl__map_job *job = NULL;

	pthread_mutex_lock(&map->lock);
	map->writing = false;
	if (!error_of(map))
		job = take_waiting(map, RNL__MAP_WRITE);
	if (job) {
		map->writing = true;
		map->next_write += job->nr;
	}
	pthread_mutex_unlock(&map->lock);
	if (!job)
		return;
	job->writes = true;
	(void)go_on(map, job);
}

/* Whether a job may go on at once; else it waits, and is another's from here on. */
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

/* ---- a turn -------------------------------------------------------------- */

static int take_in_order(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret;

	job->found_reader = !begin_reading(map);
	if (job->found_reader)
		return 0;
	ret = error_of(map);
	if (!ret)
		ret = take(map, job);
	note_error(map, ret);	/* nobody reads on behind it */
	end_reading(map);
	return ret;
}

int rnl__map_turn(struct rnl_job *job)
{
	struct rnl__map_job *mine = rnl_container_of(job, struct rnl__map_job, job);
	struct rnl__map *map = mine->map;
	int ret;

	if (mine->writes) {
		mine->writes = false;
		finish(map, mine);
		end_writing(map);
	}
	mine->nr = 0;
	if (error_of(map))
		return 0;
	ret = map->reads_in_order ? take_in_order(map, mine) : take(map, mine);
	return ret ? ret : issue_all(map, mine);
}

void rnl__map_turned(struct rnl_job *job)
{
	struct rnl__map_job *mine = rnl_container_of(job, struct rnl__map_job, job);
	struct rnl__map *map = mine->map;

	note_error(map, rnl_job_result(job));
	if (!error_of(map) && rnl__map_measured(map))
		for (unsigned i = 0; i < mine->nr; i++)
			measure(map, &mine->slots[i]);
	if (mine->found_reader) {
		mine->found_reader = false;
		if (!may_read(map, mine))
			return;
	}
	if (map->writes_in_order && mine->nr) {
		if (!may_write(map, mine))
			return;
		finish(map, mine);
		end_writing(map);
	} else {
		finish(map, mine);
	}
	if (error_of(map))
		release_all(map);
	(void)go_on(map, mine);
}
