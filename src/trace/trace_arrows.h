/* SPDX-License-Identifier: MIT */
/*
 * A trace's arrows: from the thread that submitted a job, to the job, to the thread that
 * waited for it.
 *
 * DESIGN
 *	An arrow (a flow event) has to begin and to end in a span.  The arrow from a
 *	submit to its job is written with the job.  So the end of a trace looks at each
 *	job, but prints nothing for one that no thread waited for.  A submit gets a short
 *	span; a worker submits in a job's function or callback, which are spans.
 *	Which waits a job leads to is known when the trace ends.  Until then each job
 *	takes some bytes of memory.
 *	A wait gets arrows from the jobs that were taken before the wait ended, and
 *	after the wait before it, for the same job or barrier, had ended.
 */
#ifndef RNL_TRACE_ARROWS_H
#define RNL_TRACE_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/waits.h"
#include "watch/track.h"

struct rnl__trace;

/* A job that was taken while the trace ran. */
struct rnl__trace_job {
	uint64_t id, picked;
	const void *job, *barrier;
	uint32_t tid;			/* of its worker */
	bool joined;			/* a thread or a job waited for it */
};

struct rnl__trace_arrows {
	uint32_t *threads;		/* sorted: those that have a name in the file */
	size_t nr_threads, max_threads;
	uint32_t submit_tid;		/* the submit that was written last */
	uint64_t submit_at;
	struct rnl__trace_job *jobs;
	size_t nr_jobs, max_jobs;
	struct rnl__waits waits;
	uint64_t lost;			/* jobs and waits that found no memory, or no space */
};

/* Writes the arrow to a job whose record is in the file, and keeps what its waits need. */
void rnl__trace_note(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *record);

/* Notes that a job, which was picked then, came after a barrier. */
void rnl__trace_note_after(struct rnl__trace *t, const struct rnl__track *track, const void *barrier,
			   uint64_t picked);

/* Writes the waits with the arrows that lead to them, and frees what was kept. */
void rnl__trace_end_arrows(struct rnl__trace *t);

#endif
