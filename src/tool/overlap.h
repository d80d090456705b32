/* SPDX-License-Identifier: MIT */
/*
 * Computes from spans which work was on a device at the same time.
 *
 * DESIGN
 *	The begins and ends of all spans, sorted by time, cut the time into pieces.  No span
 *	begins or ends within a piece, so a piece counts in full for each figure that includes it.
 *	A worker's own spans do not overlap, because a stream runs its work in order.  If they
 *	overlap in the trace, because of inexact clocks, the worker counts once.
 */
#ifndef TOOL_OVERLAP_H
#define TOOL_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#define OVERLAP_DEPTH 16	/* more jobs at once count as this many */
#define OVERLAP_GAPS 5
#define OVERLAP_PAIRS 64	/* only pairs of the first workers are examined */

enum overlap_kind {
	OVERLAP_JOB = 0,	/* all of a job's work on the device */
	OVERLAP_IN = 1,		/* a copy to the device */
	OVERLAP_KERNEL = 2,
	OVERLAP_OUT = 3		/* a copy from the device */
};

/* A period in which a job, a copy or a kernel was on the device. */
struct overlap_span {
	uint64_t begin_ns, end_ns; /* of any clock; a span that ends before its begin is left out */
	uint32_t worker;	/* less than RNL_WORKERS_MAX */
	uint32_t kind;		/* enum overlap_kind */
};

/* A time without a job on the device. */
struct overlap_gap {
	uint64_t begin_ns, end_ns;
};

struct overlap_figures {
	uint64_t nr_jobs;	/* jobs in the figures */
	uint64_t elapsed_ns;	/* from the first span's begin to the last span's end */
	uint64_t busy_ns;	/* time with at least one job on the device */
	uint64_t sum_ns;	/* time that the jobs take one after another */
	uint64_t in_ns, kernel_ns, out_ns; /* time with at least one copy in, kernel, copy out */
	uint64_t copies_ns;	/* time with copies in and copies out at once */
	uint64_t in_kernel_ns;	/* time with copies in and kernels at once */
	uint64_t out_kernel_ns;	/* time with copies out and kernels at once */
	uint64_t all_ns;	/* time with copies in, kernels and copies out at once */
	uint64_t at_once_ns[OVERLAP_DEPTH + 1]; /* [i]: time with i jobs; the last: i or more */
	struct overlap_gap gaps[OVERLAP_GAPS]; /* the longest first; unused ones are 0 to 0 */
	uint64_t workers;	/* bit mask: which of the first workers had timed jobs */
	uint64_t worker_jobs[RNL_WORKERS_MAX]; /* [i]: jobs of worker i */
	uint64_t worker_ns[RNL_WORKERS_MAX]; /* [i]: time with at least one job of worker i */
	uint64_t apart[OVERLAP_PAIRS]; /* [i]: bit mask of workers whose jobs never overlapped
				 * worker i's, although they could have: see apart() */
};

/*
 * Computes the figures of @nr spans, in any order.  Overlapping spans of one worker count once.
 * Spans with an unknown worker or kind are left out.  Returns 0 or -ENOMEM.
 */
int overlap_find(const struct overlap_span *spans, size_t nr, struct overlap_figures *o);

#endif
