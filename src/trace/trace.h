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
 *
 *	trace.c		start, stop, the writer
 *	trace_json.c	events: what a record becomes
 *	trace_arrows.c	which thread submitted a job, which one waited for it
 *	trace_file.c	the file: events are in it whole
 */
#ifndef RNL_TRACE_H
#define RNL_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/trace.h>

#include "watch/track.h"
#include "trace/trace_arrows.h"
#include "trace/trace_file.h"

struct rnl_pool;

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
	uint64_t named[RNL_WORKERS_MAX / 64]; /* bits: tracks that the file has names of */
	uint64_t too_much;		/* jobs that the file had no space for */
	uint64_t nr_jobs, nr_flown, nr_timed, nr_cut; /* flown: left work on the stream */

	struct rnl__tracks tracks;
};

#endif
