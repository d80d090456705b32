/* SPDX-License-Identifier: MIT */
/*
 * A map: processes a large array in chunks on the workers.
 *
 * DESIGN
 *	A few jobs share the chunks, at most two jobs for each worker.  When a job runs, it takes
 *	the next chunk, reads the chunk if needed, and issues its copies and its kernel.  When the
 *	job is done, its callback writes the result if needed, and submits the job again.  So while
 *	one chunk of a worker is on the device, the next one is queued after it, and no thread
 *	waits.  The chunks' device memory is scratch, so a stream has one chunk at a time.
 *	Until the last job leaves, the pool cannot drain, and the map's barrier counts the map.
 *	In order, a job waits for its chunk, but no thread does: map_job.c has the states.
 *	A job calls read() and write() for its own chunks only, so a map keeps no worker for long.
 *	After an error no job waits: a job that leaves then resumes the waiting jobs.
 *
 *	map.c		attributes, memory, the start
 *	map_job.c	a job, by its states: which chunks it takes, and when
 *	map_chunk.c	a chunk: read, on the device, written
 *	map_end.c	the end
 */
#ifndef RNL_MAP_H
#define RNL_MAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/map.h>
#include <runnel/trace.h>

#include "device/device.h"
#include "pool/pool.h"

#define RNL__MAP_SLOTS 2	/* most chunks of one job */

enum { RNL__MAP_IN, RNL__MAP_KERNEL, RNL__MAP_OUT, RNL__MAP_STAGES };

/* A chunk's memory and times while a job has the chunk. */
struct rnl__map_slot {
	struct rnl_chunk chunk;
	unsigned char *in, *out;	/* pinned: input, output; NULL: not staged */
	unsigned char *device_in;	/* begins with the halo before the chunk */
	struct rnl__event *begin[RNL__MAP_STAGES], *end[RNL__MAP_STAGES];
	uint64_t issued;		/* when the first event was recorded, if measured */
};

/* Why a job waits; a waiting job is not submitted. */
enum { RNL__MAP_NOTHING, RNL__MAP_READ, RNL__MAP_WRITE };

struct rnl__map_job {
	struct rnl_job job;
	struct rnl__map *map;
	unsigned home;			/* worker to submit to */
	unsigned waits;			/* RNL__MAP_NOTHING, ...; under `lock` */
	bool found_reader;		/* took no chunk because another job reads */
	bool writes;			/* writes its chunks when it runs next */
	unsigned nr;			/* chunks that the job has; 0: there were no more */
	struct rnl__map_slot slots[RNL__MAP_SLOTS];
};

/*
 * The event from which a device's times count.  Only the host's clock relates several devices, so
 * the times of two devices may be off by the delay between a clock read and the event's record.
 */
struct rnl__map_base {
	struct rnl__event *event;
	bool found;			/* false: `event` is a spare event */
	uint64_t ns;			/* time of the record since the map's start */
};

/* Time span of one stage of a chunk on the device. */
struct rnl__map_span {
	uint64_t begin_ns, end_ns;
};

struct rnl__map {
	struct rnl_map spec;		/* the caller's, with the actual `chunk` */
	struct rnl_pool *pool;
	struct rnl__used used;		/* the map's devices */
	struct rnl_barrier *barrier;
	unsigned round;			/* round of the barrier */
	uint64_t nr_chunks;
	unsigned per_job;		/* chunks that a job takes at a time */
	bool stages_in, stages_out;	/* slots have pinned memory for input, for output */
	bool in_place;			/* input and output are one array, on the device too */
	unsigned char *borders;		/* saved halos of an array that is overwritten; or NULL */
	bool borders_pinned;

	_Atomic uint64_t next;		/* the next chunk to take */
	_Atomic int error;		/* the first error */
	_Atomic unsigned nr_running;	/* jobs that have not left */

	bool reads_in_order, writes_in_order; /* by callbacks */
	pthread_mutex_t lock;
	bool reading, writing;		/* in order: a job reads, a job writes; under `lock` */
	uint64_t next_write;		/* the next chunk to write; under `lock` */

	/* For the report. */
	uint64_t start;
	_Atomic uint64_t chunks, bytes_in, bytes_out, read_ns, write_ns;
	struct rnl__map_base bases[RNL_DEVICES_MAX]; /* base of each device; under `lock` */
	/* Spans of all chunks in the first stage, then in the second ...; NULL: not measured. */
	struct rnl__map_span *spans;

	unsigned nr_jobs;
	struct rnl__map_job jobs[];
};

/* Sets a slot's chunk, and reads the chunk if the map stages its input. */
int rnl__map_read(struct rnl__map *map, struct rnl__map_slot *slot, uint64_t index);

/* Issues a job's chunks: copies each in, calls the function, and copies the result out. */
int rnl__map_issue(struct rnl__map *map, struct rnl__map_job *job);

/* Records the device times of a chunk's stages. */
void rnl__map_measure(struct rnl__map *map, struct rnl__map_slot *slot, unsigned device);

/* Returns the time that at least one of the spans covers.  Sorts the spans. */
uint64_t rnl__map_cover(struct rnl__map_span *spans, uint64_t nr);

/* Writes a chunk's result to the array or by the callback. */
int rnl__map_write(struct rnl__map *map, struct rnl__map_slot *slot);

/* Returns the bytes of a chunk and its halos. */
uint64_t rnl__map_chunk_bytes(const struct rnl__map *map, const struct rnl_chunk *c);

/* The function and the callback of the map's jobs. */
int rnl__map_job_run(struct rnl_job *job);
void rnl__map_job_done(struct rnl_job *job);

static inline bool rnl__map_measured(const struct rnl__map *map)
{
	return map->spans;
}

/* Returns the border before chunk @index: halo_before elements, then halo_after. */
static inline unsigned char *rnl__map_border(const struct rnl__map *map, uint64_t index)
{
	return map->borders +
	       (index - 1) * (map->spec.halo_before + map->spec.halo_after) * map->spec.in_bytes;
}

void rnl__map_free_job(struct rnl__map_job *job);
void rnl__map_free(struct rnl__map *map);

/* Ends a job.  The last job ends the map and frees it. */
void rnl__map_leave(struct rnl__map *map);

#endif
