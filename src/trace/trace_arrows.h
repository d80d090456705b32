/* SPDX-License-Identifier: MIT */
/*
 * A trace's arrows: from a job's submit to the job, and from the job to the waits for it.
 *
 * DESIGN
 *	An arrow (a flow event) must begin and end in a span.  The arrow from a submit to its job is
 *	written with the job.  A worker's submit is in the span of a job's function or callback; any
 *	other submit gets a short span.
 *	The waits for a job are known only when the trace ends.  Until then each job takes some
 *	bytes of memory.  At the end each job is examined, but nothing is written for a job without
 *	a wait.
 *	A wait gets arrows from the jobs that were taken before the wait ended, and after the end of
 *	the previous wait for the same job or barrier.
 */
#ifndef RNL_TRACE_ARROWS_H
#define RNL_TRACE_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/waits.h"
#include "watch/track.h"

struct rnl__trace;

/* A job that was taken during the trace. */
struct rnl__trace_job {
	uint64_t id, picked;
	const void *job, *barrier;
	uint32_t tid;			/* its worker's thread */
	bool joined;			/* a wait for it was found */
};

struct rnl__trace_arrows {
	uint32_t *threads;		/* sorted: the threads with a name in the file */
	size_t nr_threads, max_threads;
	uint32_t submit_tid;		/* the last written submit */
	uint64_t submit_at;
	struct rnl__trace_job *jobs;
	size_t nr_jobs, max_jobs;
	struct rnl__waits waits;
	uint64_t lost;			/* jobs and waits left out for lack of memory or space */
};

/* Writes the arrow to a job whose record is in the file, and keeps the data for its waits. */
void rnl__trace_note(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *record);

/* Records that a job, picked at @picked, came after a barrier. */
void rnl__trace_note_after(struct rnl__trace *t, const struct rnl__track *track, const void *barrier,
			   uint64_t picked);

/* Writes the waits and the arrows to them, and frees the kept data. */
void rnl__trace_end_arrows(struct rnl__trace *t);

#endif
