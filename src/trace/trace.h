/* SPDX-License-Identifier: MIT */
/*
 * A trace: what the workers of a pool do, as a file for Perfetto and chrome://tracing.
 *
 * DESIGN
 *	Workers note jobs in tracks (watch/track.h).  A thread of the trace, the writer,
 *	takes the records out every few milliseconds and writes JSON.  So a trace may
 *	be longer than its buffers, and a worker never waits for a disk.  Records that
 *	come faster than the writer writes are dropped and counted.  The file has a
 *	bound, and arrows take memory in proportion to it.
 *	The latest spans of the device are kept for rnl_trace_overlap().
 *
 *	trace.c		start, stop, the writer
 *	trace_json.c	events: what a record becomes
 *	trace_arrows.c	which thread submitted a job, which one waited for it
 *	trace_file.c	the file: events are in it whole
 *	trace_overlap.c	figures of the trace that runs
 *	overlap.c	what was on a device at the same time
 *
 *	`lock` is for the figures, which the writer and rnl_trace_overlap() bring up to date: so
 *	neither waits while the other writes, or computes.  The file is the writer's alone.
 */
#ifndef RNL_TRACE_H
#define RNL_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "watch/track.h"
#include "trace/trace_arrows.h"
#include "trace/trace_file.h"

struct rnl_pool;

#define RNL__TRACE_SPANS 65536u	/* kept for the figures */

struct rnl__trace_name {
	const void *fn;
	char text[120];			/* as JSON has it */
};

struct rnl__trace {
	struct rnl_pool *pool;
	int pid;
	uint64_t start;			/* all times of the file count from here */
	enum rnl_trace_timing timing;
	pthread_t writer;
	_Atomic uint32_t stops;		/* the writer is to end, or to hand over */

	struct rnl__trace_file file;
	struct rnl__trace_arrows arrows;
	struct rnl__trace_name names[64];
	uint64_t named;			/* bits: tracks that the file has names of */
	uint64_t too_much;		/* jobs that the file had no space for */

	pthread_mutex_t lock;
	uint64_t nr_jobs, nr_flown, nr_timed, nr_cut; /* flown: left work on the stream */
	uint64_t nr_spans;		/* ever */
	struct rnl_overlap_span *spans; /* ring of the last RNL__TRACE_SPANS */

	struct rnl__track_record *records;	/* of all tracks */
	size_t records_bytes;
	struct rnl__track tracks[RNL_WORKERS_MAX];
};

/* Has the figures count what the workers have noted; `lock` is held. */
void rnl__trace_count(struct rnl__trace *t);

#endif
