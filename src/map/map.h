/* SPDX-License-Identifier: MIT */
/*
 * A map: a large array on its way through the workers.
 *
 * DESIGN
 *	A few jobs share the chunks, at most two jobs for each worker.  A job takes the next chunk
 *	when it runs, reads the chunk if need be, and issues its copies and its kernel.  When the
 *	job is done, its callback writes the result, if need be, and submits the job again.  So
 *	while one chunk of a worker is on the device, the next one is queued behind it, and no
 *	thread waits.  The chunks' device memory is scratch: a stream has one chunk at a time.
 *	The pool cannot drain, and the map's barrier counts the map, until the last job leaves.
 *	In order, a job waits for its chunk, and no thread does: map_job.c has the states.
 *	No worker is in a map for longer than one callback.  After an error no job
 *	waits: the job that notes the error resumes all others.
 *
 *	map.c		attributes, memory, the begin
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

#define RNL__MAP_SLOTS 2	/* chunks of one job, at most */

enum { RNL__MAP_IN, RNL__MAP_KERNEL, RNL__MAP_OUT, RNL__MAP_STAGES };

/* A chunk's memory and times, while a job has it. */
struct rnl__map_slot {
	struct rnl_chunk chunk;
	unsigned char *in, *out;	/* pinned: read, to be written; NULL: not staged */
	unsigned char *device_in;	/* the halo before the chunk is here */
	struct rnl__event *begin[RNL__MAP_STAGES], *end[RNL__MAP_STAGES];
	uint64_t issued;		/* when the first event was recorded; measured */
};

/* What a job waits for; it is not submitted meanwhile. */
enum { RNL__MAP_NOTHING, RNL__MAP_READ, RNL__MAP_WRITE };

struct rnl__map_job {
	struct rnl_job job;
	struct rnl__map *map;
	unsigned home;			/* for its submit */
	unsigned waits;			/* for that; under `lock` */
	bool found_reader;		/* it took no chunk, because another job reads */
	bool writes;			/* it writes its chunks when it runs next */
	unsigned nr;			/* chunks that it has; 0: there were no more */
	struct rnl__map_slot slots[RNL__MAP_SLOTS];
};

/*
 * An event that a device's times count from.  Between devices only the host's clock tells, so the
 * times of several are right to what passes between a record and its event.
 */
struct rnl__map_base {
	struct rnl__event *event;
	bool found;			/* false: it is a spare one */
	uint64_t ns;			/* when it was recorded, since the map's start */
};

/* When the device did a stage of a chunk. */
struct rnl__map_span {
	uint64_t begin_ns, end_ns;
};

struct rnl__map {
	struct rnl_map spec;		/* the caller's; `chunk` is found */
	struct rnl_pool *pool;
	struct rnl__used used;		/* devices */
	struct rnl_barrier *barrier;
	unsigned round;			/* of the barrier */
	uint64_t nr_chunks;
	unsigned per_job;		/* chunks that a job takes */
	bool stages_in, stages_out;	/* slots have pinned memory for input, for output */
	bool in_place;			/* input and output are one memory, on the device too */
	unsigned char *borders;		/* in place: what chunks need of neighbours; or NULL */
	bool borders_pinned;

	_Atomic uint64_t next;		/* the next chunk to take */
	_Atomic int error;		/* the first */
	_Atomic unsigned nr_running;	/* jobs that have not left */

	bool reads_in_order, writes_in_order; /* by callbacks */
	pthread_mutex_t lock;
	bool reading, writing;		/* in order: a job reads, a job writes; under `lock` */
	uint64_t next_write;		/* the next chunk to write; under `lock` */

	/* For the report. */
	uint64_t start;
	_Atomic uint64_t chunks, bytes_in, bytes_out, read_ns, write_ns;
	struct rnl__map_base bases[RNL_DEVICES_MAX]; /* of each device; under `lock` */
	/* When each chunk was at its first stage, then at the second ...; NULL: not measured. */
	struct rnl__map_span *spans;

	unsigned nr_jobs;
	struct rnl__map_job jobs[];
};

/* Gives a slot its chunk, and reads the chunk if the map stages its input. */
int rnl__map_read(struct rnl__map *map, struct rnl__map_slot *slot, uint64_t index);

/* Issues a job's chunks: each is copied in, worked on, and copied out. */
int rnl__map_issue(struct rnl__map *map, struct rnl__map_job *job);

/* Notes when the device did the stages of a chunk. */
void rnl__map_measure(struct rnl__map *map, struct rnl__map_slot *slot, unsigned device);

/* The time that is in at least one of the spans, which it sorts. */
uint64_t rnl__map_cover(struct rnl__map_span *spans, uint64_t nr);

/* Writes a chunk's result to the array, or by the callback. */
int rnl__map_write(struct rnl__map *map, struct rnl__map_slot *slot);

/* Bytes of a chunk and its halos. */
uint64_t rnl__map_chunk_bytes(const struct rnl__map *map, const struct rnl_chunk *c);

/* The function and the callback of its jobs. */
int rnl__map_job_run(struct rnl_job *job);
void rnl__map_job_done(struct rnl_job *job);

static inline bool rnl__map_measured(const struct rnl__map *map)
{
	return map->spans;
}

/* The border between chunk @index - 1 and @index: halo_before elements, then halo_after. */
static inline unsigned char *rnl__map_border(const struct rnl__map *map, uint64_t index)
{
	return map->borders +
	       (index - 1) * (map->spec.halo_before + map->spec.halo_after) * map->spec.in_bytes;
}

void rnl__map_free_job(struct rnl__map_job *job);
void rnl__map_free(struct rnl__map *map);

/* A job leaves.  The last one ends the map and frees it. */
void rnl__map_leave(struct rnl__map *map);

#endif
