/* SPDX-License-Identifier: MIT */
/*
 * A map: a large array on its way through the workers.
 *
 * DESIGN
 *	A few jobs, at most two for each worker, take turns at the chunks: a job takes
 *	the next chunk when it runs, reads it if need be, and issues its copies
 *	and its kernel; when it is done its callback writes the result, if need
 *	be, and submits it again.  So while one chunk of a worker is on the
 *	device the next one is queued behind it, and no thread waits.  The
 *	chunks' device memory is scratch: a stream has one chunk at a time.
 *	The map holds the pool, and its barrier counts it, until the last of the
 *	jobs leaves.
 *	In order, callbacks have a job wait for its turn, and no thread: who has
 *	read submits another one that waits to read; who has written submits the
 *	one that comes next, if that waits, to write when it runs.  So no worker
 *	is at the map for longer than one callback.  All that is under `lock`.
 *	After an error nobody waits: whoever notes it lets them all go on.
 *
 *	map.c		what is asked for, and the beginning
 *	map_job.c	a job's turn
 *	map_end.c	the end
 */
#ifndef RNL_MAP_H
#define RNL_MAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "device.h"
#include "spans.h"

#define RNL__MAP_SLOTS 2	/* chunks of one job at most */

enum { RNL__MAP_IN, RNL__MAP_KERNEL, RNL__MAP_OUT, RNL__MAP_STAGES };

/* A chunk's memory and times, while a job has it. */
struct rnl__map_slot {
	struct rnl_chunk chunk;
	unsigned char *in, *out;	/* pinned: what is read, what is to be written; or NULL */
	unsigned char *device_in;	/* the halo before the chunk is here */
	struct rnl__event *begin[RNL__MAP_STAGES], *end[RNL__MAP_STAGES];
};

/* What a job waits for; nobody runs it meanwhile. */
enum { RNL__MAP_NOTHING, RNL__MAP_READ, RNL__MAP_WRITE };

struct rnl__map_job {
	struct rnl_job job;
	struct rnl__map *map;
	unsigned waits;			/* for that; under `lock` */
	bool found_reader;		/* its turn came to nothing: another one reads */
	bool writes;			/* has chunks that are done, and their turn has come */
	unsigned nr;			/* chunks that it has; 0: there were no more */
	struct rnl__map_slot slots[RNL__MAP_SLOTS];
};

struct rnl__map {
	struct rnl_map is;		/* as asked for, `chunk` found */
	struct rnl_pool *pool;
	struct rnl_barrier *barrier;
	uint64_t nr_chunks;
	unsigned per_job;		/* chunks that a job takes */
	bool stages_in, stages_out;	/* slots have pinned memory for it */
	bool in_place;			/* on the device, too */
	unsigned char *borders;		/* in place: what neighbours need, from before; or NULL */
	bool borders_pinned;

	_Atomic uint64_t next;		/* chunk to be taken */
	_Atomic int error;		/* the first */
	_Atomic unsigned nr_running;	/* jobs that have not left */

	bool reads_in_order, writes_in_order; /* by callbacks */
	pthread_mutex_t lock;
	bool reading, writing;		/* in order: some job does; under `lock` */
	uint64_t next_write;		/* chunk; under `lock` */

	/* For the report. */
	uint64_t start;
	_Atomic uint64_t chunks, bytes_in, bytes_out, read_ns, write_ns;
	struct rnl__event *base;	/* what all times count from; under `lock` */
	bool has_base;			/* it is that; else a spare one; under `lock` */
	struct rnl__span *spans[RNL__MAP_STAGES]; /* of each chunk; NULL: not measured */

	unsigned nr_jobs;
	struct rnl__map_job jobs[];
};

/* The function and the callback of its jobs. */
int rnl__map_turn(struct rnl_job *job);
void rnl__map_turned(struct rnl_job *job);

static inline bool rnl__map_measured(const struct rnl__map *map)
{
	return map->spans[0];
}

/* What a border between chunk @index - 1 and @index has: halo_before elements, then halo_after. */
static inline unsigned char *rnl__map_border(const struct rnl__map *map, uint64_t index)
{
	return map->borders +
	       (index - 1) * (map->is.halo_before + map->is.halo_after) * map->is.in_bytes;
}

void rnl__map_free_job(struct rnl__map_job *job);
void rnl__map_free(struct rnl__map *map);

/* One job less; the last one ends the map, which is gone then. */
void rnl__map_leave(struct rnl__map *map);

#endif
