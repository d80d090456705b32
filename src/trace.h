/* SPDX-License-Identifier: MIT */
/*
 * A trace: what the workers of a pool do, as a file for Perfetto and chrome://tracing.
 *
 * DESIGN
 *	Workers note jobs in tracks (track.h).  A thread of the trace, the
 *	writer, takes the records out, every few milliseconds, and writes JSON:
 *	so a trace may be longer than its buffers, and a worker never waits for
 *	a disk.  What comes faster than the writer writes is dropped, and counted.
 *	After each piece the file ends as JSON does: a process that dies, or a disk
 *	that is full, leaves a trace that opens.  It has a bound, too.
 *	The arrows from the threads that submit to the jobs, and from there to
 *	those that wait, are written at the end, sorted by time: until then it is
 *	not known what lies between them.  For these a job takes some bytes of
 *	memory, so the bound of the file is one of memory as well.
 *	The latest spans of the device are kept, for rnl_trace_overlap().
 *
 *	trace.c		start, stop, the writer
 *	trace_file.c	the file: what is in it is whole
 *	trace_json.c	events: what a record becomes
 *	trace_arrows.c	who submitted, who waited
 *	trace_overlap.c	live figures
 *
 *	`lock` is that of whoever takes records out.
 */
#ifndef RNL_TRACE_H
#define RNL_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <runnel.h>

#include "overlap.h"
#include "track.h"

struct rnl_pool;

#define RNL__TRACE_SPANS 65536u	/* kept for live figures */

/* What is written is in the file whole, or not at all. */
struct rnl__trace_file {
	int fd;
	int error;			/* of the first write that failed: nothing more is written */
	uint64_t size;			/* in the file, without what ends it */
	uint64_t max, reserved;		/* bytes; what the end will need */
	bool full;			/* it came to its bound */
	size_t used, mark;		/* in buf; up to here events are whole */
	char buf[65536];
};

/* A job that was submitted while the trace ran, and perhaps waited for. */
struct rnl__trace_job {
	uint64_t id, queued, picked;
	const void *job, *barrier;
	uint32_t producer;	/* thread */
	uint16_t worker;
	bool joined;		/* somebody waited for it */
};

/* A wait that ended. */
struct rnl__trace_join {
	uint64_t begin, end;
	const void *what;		/* the job or the barrier */
	uint32_t tid;
	bool of_job;			/* no thread waited, but a job that comes after it */
};

struct rnl__trace_arrows {
	struct rnl__trace_job *jobs;
	size_t nr_jobs, room_jobs;
	struct rnl__trace_join *joins;
	size_t nr_joins, room_joins;
	uint64_t lost;			/* there was no memory for them */
};

struct rnl__trace_name {
	const void *fn;
	char text[120];			/* as JSON has it */
};

struct rnl__trace {
	struct rnl_pool *pool;
	uint64_t start;			/* all times of the file count from here */
	enum rnl_trace_timing timing;
	pthread_t writer;
	_Atomic uint32_t stops;		/* the writer is to end */

	pthread_mutex_t lock;
	struct rnl__trace_file file;
	struct rnl__trace_arrows arrows;
	struct rnl__trace_name names[64];
	uint64_t named;			/* bits: tracks that the file knows */
	uint64_t nr_jobs, nr_flown, nr_timed, nr_cut; /* flown: left something on the stream */
	uint64_t too_much;		/* jobs for which the file had no room */
	uint64_t nr_spans;		/* ever */
	struct rnl__overlap_span *spans; /* ring of the last RNL__TRACE_SPANS */

	struct rnl__record *records;	/* of all tracks */
	size_t records_bytes;
	struct rnl__track tracks[RNL_WORKERS_MAX];
};

static inline struct rnl__track *rnl__trace_track(struct rnl__trace *trace, unsigned worker)
{
	return &trace->tracks[worker];
}

/* Stops the trace that runs, if one does; as rnl_trace_stop(). */
int rnl__trace_end(struct rnl_pool *pool);

/* Takes out and writes what the tracks have; `lock` is held.  True if that was much. */
bool rnl__trace_drain(struct rnl__trace *t);

/* ---- the file ------------------------------------------------------------ */

/* 0, or what open(2) says; -EINVAL it is no regular file. */
int rnl__trace_open(struct rnl__trace_file *f, const char *path, uint64_t max);

/* Whether an event of so many bytes has room; @end: at the end of the file so many more. */
bool rnl__trace_room(struct rnl__trace_file *f, uint64_t bytes, uint64_t end);

/* Adds text to an event. */
__attribute__((format(printf, 2, 3)))
void rnl__trace_print(struct rnl__trace_file *f, const char *format, ...);

/* An event is whole. */
void rnl__trace_mark(struct rnl__trace_file *f);

/* What is whole goes to the file, which is JSON then. */
void rnl__trace_flush(struct rnl__trace_file *f);

/* Flushes; 0, or the first error. */
int rnl__trace_close(struct rnl__trace_file *f);

/* ---- events -------------------------------------------------------------- */

/* Nothing that a record becomes is longer; nor what a job gets at the end; nor the footer. */
#define RNL__TRACE_EVENT_MAX 640
#define RNL__TRACE_ARROWS_MAX 560
#define RNL__TRACE_FOOTER_MAX (1024 + RNL__TRACE_NAMES_MAX * 256)
#define RNL__TRACE_NAMES_MAX 64u	/* of threads that submit or wait, in any case */

/* Where a worker's device is a track: no thread has such a number. */
#define RNL__TRACE_DEVICE_TID 0x40000000u

void rnl__trace_header(struct rnl__trace *t);
void rnl__trace_name_track(struct rnl__trace *t, const struct rnl__track *track);
void rnl__trace_name_thread(struct rnl__trace *t, uint32_t tid);

/* True: the file has the job now, and room for its arrows. */
bool rnl__trace_record(struct rnl__trace *t, const struct rnl__track *track,
		       const struct rnl__record *record);
void rnl__trace_footer(struct rnl__trace *t);

/* A time of the host's clock as the file has it: microseconds, and their thousandths. */
#define RNL__TRACE_TIME "%" PRIu64 ".%03u"
#define rnl__trace_time(ns) (uint64_t)((ns) / 1000), (unsigned)((ns) % 1000)

/* ---- arrows -------------------------------------------------------------- */

/* What a record tells of them. */
void rnl__trace_note(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__record *record);

/* Writes them all. */
void rnl__trace_arrows(struct rnl__trace *t);

/*
 * The calling thread begins, and has ended, to wait for a job or a barrier of a pool,
 * which stands.  @begin: what the first returned; 0: no trace ran.
 */
uint64_t rnl__trace_wait_begin(struct rnl_pool *pool);
void rnl__trace_wait_end(struct rnl_pool *pool, uint64_t begin, const void *what);

/* A job that came after a barrier has waited for it. */
void rnl__trace_after(struct rnl_pool *pool, const struct rnl__trace_join *join);

#endif
