/* SPDX-License-Identifier: MIT */
/*
 * A trace's arrows: from the thread that submitted a job, to the job, to the thread that
 * waited for it.
 *
 * DESIGN
 *	Arrows are written when the trace ends, sorted by thread and time, because
 *	only then it is known what lies between them.  Until then each job takes some
 *	bytes of memory.  An arrow (a flow event) has to begin and to end in a span, so
 *	a submit gets a span, cut off where the next event of its thread begins.  A
 *	worker submits in a job's function or callback: these are spans already.
 *	A wait gets arrows from the jobs that were taken before the wait ended, and
 *	after the wait before it, for the same job or barrier, had ended.
 */
#ifndef RNL_TRACE_ARROWS_H
#define RNL_TRACE_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/waits.h"
#include "pool/track.h"

struct rnl__trace;

/* A job that was submitted while the trace ran. */
struct rnl__trace_job {
	uint64_t id, queued, picked;
	const void *job, *barrier;
	uint32_t producer;		/* thread */
	uint16_t worker;
	bool joined;			/* a thread or a job waited for it */
};

struct rnl__trace_arrows {
	struct rnl__trace_job *jobs;
	size_t nr_jobs, max_jobs;
	struct rnl__waits waits;
	uint64_t lost;			/* jobs that found no memory */
};

/* Keeps what a job's record tells of its arrows. */
void rnl__trace_note(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *record);

/* Writes all arrows, and frees what was kept. */
void rnl__trace_arrows(struct rnl__trace *t);

#endif
