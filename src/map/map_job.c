/* SPDX-License-Identifier: MIT */
/*
 * A job of a map, by its states: which chunks it takes, and when; map.h has the design.
 *
 * DESIGN
 *	The states of a job.  A job waits to READ or to WRITE only in a map in order.
 *
 *	submitted	it runs: takes a chunk, reads it, issues it	-> on the device
 *			another job reads				-> waits to READ
 *	on the device	done: its callback writes the chunk		-> submitted
 *			an earlier chunk is not written yet		-> waits to WRITE
 *			there are no more chunks, or an error		-> leaves
 *	waits to READ	the other job's read ends			-> submitted
 *	waits to WRITE	the earlier write ends; it writes when it runs	-> submitted
 *
 *	rnl__map_job_run()	the function	write_chunks(), take_chunks(), rnl__map_issue()
 *	rnl__map_job_done()	the callback	rnl__map_measure(), write_chunks(), map_go_on()
 */
#include "config.h"

#include <errno.h>

#include <runnel/map.h>

#include "job/submit.h"
#include "map/map.h"
#include "pool/pool.h"

/* ---- the map's state ----------------------------------------------------- */

static int map_error(struct rnl__map *map)
{
	/* relaxed: a job that misses it processes one chunk in vain */
	return atomic_load_explicit(&map->error, memory_order_relaxed);
}

/* Records an error; the first error stays. */
static void map_note_error(struct rnl__map *map, int error)
{
	int none = 0;

	if (error < 0)
		/* relaxed: [map.L1] publishes it */
		atomic_compare_exchange_strong_explicit(&map->error, &none, error,
							memory_order_relaxed,
							memory_order_relaxed);
}

/* ---- its chunks ---------------------------------------------------------- */

/* Takes and reads the next chunks: per_job of them, at the end fewer, or no chunk. */
static int take_chunks(struct rnl__map *map, struct rnl__map_job *job)
{
	/* relaxed: in order, `reading` orders it; otherwise the order of jobs does not matter */
	const uint64_t first = atomic_fetch_add_explicit(&map->next, map->per_job,
							 memory_order_relaxed);
	int ret = 0;

	job->nr = 0;
	for (uint64_t i = first; !ret && i < first + map->per_job && i < map->nr_chunks; i++)
		ret = rnl__map_read(map, &job->slots[job->nr++], i);
	return ret;
}

/* Writes a job's chunks to the array or by the callback, and counts them. */
static void write_chunks(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret = map_error(map);

	for (unsigned i = 0; !ret && i < job->nr; i++) {
		const struct rnl_chunk *c = &job->slots[i].chunk;

		if (map->stages_out)
			ret = rnl__map_write(map, &job->slots[i]);
		if (ret)
			break;
		rnl__figure_add_any(&map->chunks, 1);
		rnl__figure_add_any(&map->bytes_in, rnl__map_chunk_bytes(map, c));
		rnl__figure_add_any(&map->bytes_out, c->nr * map->spec.out_bytes);
	}
	map_note_error(map, ret);
}

/* ---- in order ------------------------------------------------------------ */

/* Finds a job that waits for @what, or, if @what is 0, any waiting job.  Ends its wait. */
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

/* Submits the job to write, or for its next chunk.  Returns false if the job must leave. */
static bool submit_again(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret;

	if (map_error(map))
		return false;
	/* relaxed: a job that finds no chunk when it runs leaves then */
	if (!job->writes &&
	    atomic_load_explicit(&map->next, memory_order_relaxed) >= map->nr_chunks)
		return false;
	ret = rnl__submit_internal(map->pool, &job->job, job->home);
	map_note_error(map, ret);
	return !ret;
}

/*
 * Submits a job whose wait has ended.  If the job must leave, submits the next one that waits for
 * @what; after an error, all waiting jobs leave.  The caller's job has not left, so the map exists.
 */
static void resume(struct rnl__map *map, struct rnl__map_job *job, unsigned what)
{
	while (job && !submit_again(map, job)) {
		rnl__map_leave(map);
		pthread_mutex_lock(&map->lock);
		job = take_waiting(map, map_error(map) ? RNL__MAP_NOTHING : what);
		pthread_mutex_unlock(&map->lock);
	}
}

/* Submits the job again, or ends it.  A job that leaves after an error resumes all other jobs. */
static void map_go_on(struct rnl__map *map, struct rnl__map_job *job)
{
	struct rnl__map_job *other;

	if (submit_again(map, job))
		return;
	if (map_error(map)) {
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

/* Ends a read, and submits a job that waits to read. */
static void end_reading(struct rnl__map *map)
{
	struct rnl__map_job *job;

	pthread_mutex_lock(&map->lock);
	map->reading = false;
	job = take_waiting(map, RNL__MAP_READ);
	pthread_mutex_unlock(&map->lock);
	resume(map, job, RNL__MAP_READ);
}

/* Ends a write.  If the job of the next chunk waits, submits it to write. */
static void end_writing(struct rnl__map *map)
{
	struct rnl__map_job *job = NULL;

	pthread_mutex_lock(&map->lock);
	map->writing = false;
	if (!map_error(map))
		job = take_waiting(map, RNL__MAP_WRITE);
	if (job) {
		map->writing = job->writes = true;
		map->next_write += job->nr;
	}
	pthread_mutex_unlock(&map->lock);
	resume(map, job, RNL__MAP_WRITE);
}

/* Returns true if the job may read; otherwise it waits, and may be resumed immediately. */
static bool may_read(struct rnl__map *map, struct rnl__map_job *job)
{
	bool may;

	pthread_mutex_lock(&map->lock);
	may = !map->reading || map_error(map);
	if (!may)
		job->waits = RNL__MAP_READ;
	pthread_mutex_unlock(&map->lock);
	return may;
}

static bool may_write(struct rnl__map *map, struct rnl__map_job *job)
{
	bool may;

	pthread_mutex_lock(&map->lock);
	may = (!map->writing && job->slots[0].chunk.index == map->next_write) || map_error(map);
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

static int map_take_in_order(struct rnl__map *map, struct rnl__map_job *job)
{
	int ret;

	job->found_reader = !begin_reading(map);
	if (job->found_reader)
		return 0;
	ret = map_error(map);
	if (!ret)
		ret = take_chunks(map, job);
	map_note_error(map, ret);	/* before another job reads */
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
		map_note_error(map, -ECANCELED);
	if (map_error(map))
		return 0;
	ret = map->reads_in_order ? map_take_in_order(map, mine) : take_chunks(map, mine);
	return ret ? ret : rnl__map_issue(map, mine);
}

void rnl__map_job_done(struct rnl_job *job)
{
	struct rnl__map_job *mine = rnl_container_of(job, struct rnl__map_job, job);
	struct rnl__map *map = mine->map;

	map_note_error(map, job->result);
	if (!map_error(map) && rnl__map_measured(map))
		for (unsigned i = 0; i < mine->nr; i++)
			rnl__map_measure(map, &mine->slots[i], mine->job.device);
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
	map_go_on(map, mine);
}
