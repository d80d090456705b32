/* SPDX-License-Identifier: MIT */
/* Traces: a file with what each job did, and when; and how much of it overlapped. */
#ifndef RUNNEL_TRACE_H
#define RUNNEL_TRACE_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rnl_trace_timing {
	/*
	 * Jobs are timed on the device for a twentieth of a worker's time: all long jobs, and some
	 * of the short ones.
	 */
	RNL_TRACE_SOME = 0,
	RNL_TRACE_EVERY = 1,	/* every job is timed, whatever the cost */
	RNL_TRACE_HOST = 2	/* no job is timed on the device */
};

struct rnl_trace_attr {
	uint32_t size;		/* sizeof(struct rnl_trace_attr) */
	uint32_t timing;	/* enum rnl_trace_timing */
	uint64_t buffer_bytes;	/* buffer of each worker: 64 KiB to 1 GiB; 0: 4 MiB */
	uint64_t file_max;	/* bytes of the file at most; a fifth of this is taken as memory,
				 * too; at least 64 KiB; 0: 256 MiB */
};
#define RNL_TRACE_ATTR_INIT { sizeof(struct rnl_trace_attr), 0, 0, 0 }

/*
 * Starts a trace: a file in the trace-event format of Chrome and Perfetto
 * (https://ui.perfetto.dev opens it). Each worker has one track for its thread and one for its
 * device, which is named. The tracks show when each job was submitted, taken by the worker, issued,
 * on the device and done, and each operation that rnl_copy(), rnl_fill(), rnl_launch() and
 * rnl_map_start() issue.
 * Arrows lead from the thread that submitted a job to the job, and on to the thread that waited
 * for it. The program runnel makes a report of the file: `runnel report`.
 * Workers write records into buffers of their own without a lock; a thread of the trace writes the
 * buffers to the file. A record that finds no space in a buffer or in the file is lost; the file
 * and rnl_pool_read_stats() count it.
 * @path: a regular file; created, or emptied.
 * @attr: copied; NULL means all defaults.
 * Context: blocks until each worker has taken notice: as long as the functions take that run now.
 *	Not on a worker of the pool.
 * Return: 0, and the trace runs until rnl_trace_stop() or the pool's end; the error of open(2) or
 *	write(2) for the file (-EACCES, -ENOENT, -ENOSPC, ...); -EALREADY a trace runs; -EBUSY
 *	called on a worker of the pool; -EINVAL pool or path is NULL, an attribute is out of its
 *	range, or path is not a regular file; -E2BIG attr is newer than the library and has a field
 *	set that the library does not know; -ENOMEM; -EAGAIN the system started no more threads;
 *	-ENOTSUP it refuses threads; -EIO the device failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_start(struct rnl_pool *pool, const char *path,
			    const struct rnl_trace_attr *attr);

/*
 * Ends the trace and closes its file. The file shows jobs that are not done yet as unfinished.
 * Context: blocks as rnl_trace_start() does, and writes to the file. Not on a worker of the pool.
 * Return: 0 the file is complete; the error of a write(2) that failed (-ENOSPC, -EDQUOT, -EFBIG,
 *	-EIO, ...): the file is valid and ends at the time of the error, while jobs went on;
 *	-EALREADY no trace runs; -EBUSY called on a worker of the pool; -EINVAL pool is NULL;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_stop(struct rnl_pool *pool);

#define RNL_OVERLAP_DEPTH 16	/* struct rnl_overlap counts up to this number of jobs at once */
#define RNL_OVERLAP_GAPS 5	/* struct rnl_overlap has this number of gaps */

/* A time without a job on the device. */
struct rnl_overlap_gap {
	uint64_t begin_ns, end_ns;
};

/*
 * What was on the device at once. rnl_trace_overlap() computes it from the jobs that were
 * timed there: from the latest 65536 spans, each of which is a job or an operation of a job.
 */
struct rnl_overlap {
	uint32_t size;		/* sizeof(struct rnl_overlap) */
	uint32_t nr_workers;	/* workers that had timed jobs on the device */
	uint64_t nr_jobs;	/* jobs that the figures are computed from */
	uint64_t nr_untimed;	/* jobs of the whole trace that went to the device without timing */
	uint64_t elapsed_ns;	/* from the first span's begin to the last span's end */
	uint64_t busy_ns;	/* time with at least one job on the device */
	uint64_t sum_ns;	/* time that the jobs take one after another */
	uint64_t in_ns, kernel_ns, out_ns; /* time with at least one copy in, kernel, copy out */
	uint64_t copies_ns;	/* time with copies in and copies out at once */
	uint64_t all_ns;	/* time with copies in, kernels and copies out at once */
	uint64_t longest_gap_ns; /* longest time without a job */
	uint32_t speedup_percent; /* sum_ns to busy_ns; 100: one job after another */
	uint32_t nr_apart;	/* pairs of workers that never had jobs on the device at once */
	uint64_t at_once_ns[RNL_OVERLAP_DEPTH + 1]; /* [i]: time with i jobs; the last: or more */
	uint64_t in_kernel_ns;	/* time with copies in and kernels at once */
	uint64_t out_kernel_ns;	/* time with copies out and kernels at once */
	struct rnl_overlap_gap gaps[RNL_OVERLAP_GAPS]; /* the longest first; the rest: 0 to 0 */
	uint64_t workers;	/* bits: workers that had timed jobs on the device */
	uint64_t worker_jobs[RNL_WORKERS_MAX]; /* [i]: jobs of worker i */
	uint64_t worker_ns[RNL_WORKERS_MAX]; /* [i]: time with at least one job of worker i */
	uint64_t apart[RNL_WORKERS_MAX]; /* [i]: bits: workers that never had jobs on the device at
				 * once with worker i, while both had some */
};
#define RNL_OVERLAP_INIT \
	{ sizeof(struct rnl_overlap), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 }, 0, 0, \
	  { { 0, 0 } }, 0, { 0 }, { 0 }, { 0 } }

/*
 * Computes from the running trace how much of the jobs' device work ran at once.
 * @overlap: filled in; its size must be set.
 * Context: may wait for the trace's writer, and for a start or a stop of the trace. Not on a worker
 *	of the pool.
 * Return: 0; -EALREADY no trace runs; -EINVAL pool or overlap is NULL, or overlap has a wrong
 *	size; -ENOMEM; -EBUSY called on a worker of the pool; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_overlap(struct rnl_pool *pool, struct rnl_overlap *overlap);

enum rnl_overlap_kind {
	RNL_OVERLAP_JOB = 0,	/* everything that a job has on the device */
	RNL_OVERLAP_IN = 1,	/* a copy to the device */
	RNL_OVERLAP_KERNEL = 2,	/* a kernel */
	RNL_OVERLAP_OUT = 3	/* a copy from the device */
};

/* Something that was on the device. */
struct rnl_overlap_span {
	uint64_t begin_ns, end_ns; /* of any clock; the span is empty if it ends before its begin */
	uint32_t worker;	/* less than RNL_WORKERS_MAX */
	uint32_t kind;		/* enum rnl_overlap_kind */
};

/*
 * Computes from spans how much of them was at the same time: what rnl_trace_overlap() tells of the
 * running trace, for spans that a program has read from a trace's file. Spans of one worker that
 * overlap count once. A span with an unknown worker or kind is left out.
 * @spans: @nr spans, in any order; may be NULL if @nr is 0.
 * @overlap: filled in; its size must be set; nr_untimed is 0.
 * Context: any thread; no pool is needed. Takes as long as sorting the spans.
 * Return: 0; -EINVAL spans is NULL and nr is not 0, or overlap is NULL or has a wrong size;
 *	-ENOMEM.
 * Since: 0.1
 */
RNL_API int rnl_overlap_find(const struct rnl_overlap_span *spans, size_t nr,
			     struct rnl_overlap *overlap);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_TRACE_H */
