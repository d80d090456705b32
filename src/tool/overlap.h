/* SPDX-License-Identifier: MIT */
/*
 * What was on a device at the same time: figures of spans.
 *
 * DESIGN
 *	The begins and ends of all spans, sorted by time, cut the time into pieces.  Within a piece
 *	nothing begins or ends, so a piece is added to each figure that it counts for.
 *	A worker's own spans do not overlap, because a stream does one thing after
 *	another.  Where clocks say that they do, the worker counts once.
 */
#ifndef TOOL_OVERLAP_H
#define TOOL_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#define OVERLAP_DEPTH 16	/* jobs at once are counted up to this number */
#define OVERLAP_GAPS 5
#define OVERLAP_PAIRS 64	/* of the first workers it is known which had jobs, and were apart */

enum overlap_kind {
	OVERLAP_JOB = 0,	/* everything that a job has on the device */
	OVERLAP_IN = 1,		/* a copy to the device */
	OVERLAP_KERNEL = 2,
	OVERLAP_OUT = 3		/* a copy from the device */
};

/* Something that was on the device. */
struct overlap_span {
	uint64_t begin_ns, end_ns; /* of any clock; the span is empty if it ends before its begin */
	uint32_t worker;	/* less than RNL_WORKERS_MAX */
	uint32_t kind;		/* enum overlap_kind */
};

/* A time without a job on the device. */
struct overlap_gap {
	uint64_t begin_ns, end_ns;
};

struct overlap_figures {
	uint64_t nr_jobs;	/* jobs that the figures are computed from */
	uint64_t elapsed_ns;	/* from the first span's begin to the last span's end */
	uint64_t busy_ns;	/* time with at least one job on the device */
	uint64_t sum_ns;	/* time that the jobs take one after another */
	uint64_t in_ns, kernel_ns, out_ns; /* time with at least one copy in, kernel, copy out */
	uint64_t copies_ns;	/* time with copies in and copies out at once */
	uint64_t in_kernel_ns;	/* time with copies in and kernels at once */
	uint64_t out_kernel_ns;	/* time with copies out and kernels at once */
	uint64_t all_ns;	/* time with copies in, kernels and copies out at once */
	uint64_t at_once_ns[OVERLAP_DEPTH + 1]; /* [i]: time with i jobs; the last: or more */
	struct overlap_gap gaps[OVERLAP_GAPS]; /* the longest first; the rest: 0 to 0 */
	uint64_t workers;	/* bits: of the first workers, those that had timed jobs on the device */
	uint64_t worker_jobs[RNL_WORKERS_MAX]; /* [i]: jobs of worker i */
	uint64_t worker_ns[RNL_WORKERS_MAX]; /* [i]: time with at least one job of worker i */
	uint64_t apart[OVERLAP_PAIRS]; /* [i]: bits: workers that never had jobs on the device at
				 * once with worker i, while both had some */
};

/*
 * Finds the figures of @nr spans, in any order.  Spans of one worker that overlap count once.  A
 * span with an unknown worker or kind is left out.  Returns 0 or -ENOMEM.
 */
int overlap_find(const struct overlap_span *spans, size_t nr, struct overlap_figures *o);

#endif
