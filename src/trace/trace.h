/* SPDX-License-Identifier: MIT */
/*
 * A trace: records the workers' activity in a file for Perfetto and chrome://tracing.
 *
 * DESIGN
 *	Workers record jobs in tracks (watch/track.h).  A thread of the trace, the writer, takes the
 *	records out every few milliseconds and writes them as JSON.  So a trace may be longer than
 *	its buffers, and a worker never waits for a disk.  If records arrive faster than the writer
 *	writes, the excess is dropped and counted.  The file has a size limit, and arrows take
 *	memory in proportion to it.
 *
 *	trace.c		start, stop, the writer
 *	trace_json.c	events: the JSON of each record
 *	trace_arrows.c	arrows from the submit of a job, and to the waits for it
 *	trace_file.c	the file, which has whole events only
 */
#ifndef RNL_TRACE_H
#define RNL_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/trace.h>

#include "pool/classes.h"
#include "watch/track.h"
#include "trace/trace_arrows.h"
#include "trace/trace_file.h"

struct rnl_pool;

struct rnl__trace_name {
	const void *fn;
	char text[120];			/* escaped for JSON */
};

struct rnl__trace_class {
	uint32_t id;			/* 0: none */
	char text[2 * RNL__CLASS_NAME];	/* its name, escaped for JSON; "": not known any more */
};

struct rnl__trace {
	struct rnl_pool *pool;
	int pid;
	uint64_t start;			/* time 0 of the file */
	enum rnl_trace_timing timing;
	pthread_t writer;
	_Atomic uint32_t stops;		/* GOES_ON, ENDS or HANDS_OVER: see trace.c */

	struct rnl__trace_file file;
	struct rnl__trace_arrows arrows;
	struct rnl__trace_name names[64];
	struct rnl__trace_class classes[RNL__CLASSES_NR];
	uint64_t named[RNL_WORKERS_MAX / 64]; /* bits: tracks whose names are in the file */
	uint64_t too_much;		/* jobs for which the file had no space */
	uint64_t nr_jobs, nr_flown, nr_timed, nr_cut; /* flown: left work on the stream */

	struct rnl__tracks tracks;
};

#endif
