/* SPDX-License-Identifier: MIT */
/*
 * What ran at the same time: figures of spans of a device.  Pure functions; the
 * library has them of a running trace, the tool `runnel report` of a file.
 *
 * DESIGN
 *	The ends of all spans, sorted by time, cut it into pieces in each of
 *	which the same is going on; each piece is added to what it counts for.
 *	A worker's own spans do not overlap, since a stream does one thing after
 *	the other: where clocks say so, the worker counts once.
 */
#ifndef RNL_OVERLAP_H
#define RNL_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

enum rnl__overlap_kind {
	RNL__OVERLAP_JOB,	/* all that a job has on the device */
	RNL__OVERLAP_IN,	/* an operation in it */
	RNL__OVERLAP_KERNEL,
	RNL__OVERLAP_OUT,
	RNL__NR_OVERLAPS,
};

struct rnl__overlap_span {
	uint64_t begin, end;	/* ns */
	uint32_t worker;	/* below RNL_WORKERS_MAX */
	uint32_t kind;		/* enum rnl__overlap_kind */
};

struct rnl__overlap_gap {
	uint64_t begin, end;	/* no job was on the device */
};

#define RNL__OVERLAP_GAPS 5

struct rnl__overlap {
	uint64_t begin, end;	/* of the first and of the last span */
	uint64_t nr_jobs;	/* spans that are jobs */
	uint64_t sum_ns;	/* of all jobs: one after the other they take so long */
	uint64_t at_once_ns[RNL_OVERLAP_DEPTH + 1]; /* so many jobs at once; the last: or more */
	uint64_t kind_ns[RNL__NR_OVERLAPS]; /* at least one of that kind; JOB: busy */
	uint64_t copies_ns;	/* copies in and copies out at once */
	uint64_t in_kernel_ns, out_kernel_ns; /* such copies and kernels at once */
	uint64_t all_ns;	/* all three */
	struct rnl__overlap_gap gaps[RNL__OVERLAP_GAPS]; /* the longest first */
	uint64_t workers;	/* bits: those that have jobs here */
	uint64_t worker_ns[RNL_WORKERS_MAX]; /* for how long each had one on the device */
	uint64_t worker_jobs[RNL_WORKERS_MAX];
	uint64_t worker_begin[RNL_WORKERS_MAX], worker_end[RNL_WORKERS_MAX];
	uint64_t together_ns[RNL_WORKERS_MAX][RNL_WORKERS_MAX]; /* [i][j], i < j */
};

/* Finds them; 0 or -ENOMEM.  Spans that end before they begin count as empty. */
int rnl__overlap_find(const struct rnl__overlap_span *spans, size_t nr, struct rnl__overlap *o);

/*
 * Whether two workers had jobs on the device during the same stretch of time, some
 * each, and never at once.
 */
int rnl__overlap_apart(const struct rnl__overlap *o, unsigned i, unsigned j);

#endif
