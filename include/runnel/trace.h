/* SPDX-License-Identifier: MIT */
/* Traces: a file with what each job did, and when. */
#ifndef RUNNEL_TRACE_H
#define RUNNEL_TRACE_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rnl_trace_timing {
	/*
	 * Each worker times its first 4096 jobs of the trace on the device. After these, the timing
	 * takes a twentieth of the worker's time: all long jobs are timed, and some of the short ones.
	 */
	RNL_TRACE_SOME = 0,
	RNL_TRACE_EVERY = 1,	/* every job is timed, whatever the cost */
	RNL_TRACE_HOST = 2	/* no job is timed on the device */
};

struct rnl_trace_attr {
	uint32_t size;		/* sizeof(struct rnl_trace_attr) */
	uint32_t timing;	/* enum rnl_trace_timing */
	uint64_t buffer_bytes;	/* buffer of each worker: 64 KiB to 1 GiB; 0: 4 MiB */
	uint64_t file_max;	/* most bytes of the file, at least 64 KiB; 0: 256 MiB. The trace
				 * also takes a fifth of this as memory */
};
#define RNL_TRACE_ATTR_INIT { sizeof(struct rnl_trace_attr), 0, 0, 0 }

/*
 * Starts a trace: a file in the trace-event format of Chrome and Perfetto (https://ui.perfetto.dev
 * opens it). Each worker has one track for its thread, and one track for its device, with the
 * device's name. The tracks show when each job was submitted, taken by the worker, issued, on the
 * device and done, and each operation that rnl_copy(), rnl_fill(), rnl_launch() and rnl_map_start()
 * issue. The span of a job has the name of its class and its trace id
 * (rnl_job_trace_id()). Arrows lead from the thread that submitted a
 * job to the job, and from the job to the thread that waited for it. A request that a resident kernel
 * answered (RNL_BATCHER_RESIDENT) has an event with the request kernel's name and the batcher's class,
 * from its commit to its end, on the track of the thread that ended it. `runnel report` makes a
 * report of the file.
 * Workers write records into buffers of their own without a lock; a thread of the trace writes the
 * buffers to the file. A record that finds no space in a buffer or in the file is lost; the file
 * and rnl_pool_read_stats() count lost records.
 * @path: a regular file; created, or emptied.
 * @attr: copied; NULL means all defaults.
 * Context: blocks until each worker has begun to trace, that is, until the functions that run now
 *	have returned. Not on a worker of the pool.
 * Return: 0, and the trace runs until rnl_trace_stop() or the pool's end; the error of open(2) or
 *	write(2) for the file (-EACCES, -ENOENT, -ENOSPC, ...); -EALREADY a trace runs; -EBUSY
 *	called on a worker of the pool; -EINVAL pool or path is NULL, an attribute is out of its
 *	range, or path is not a regular file; -E2BIG attr is newer than the library and sets a field
 *	that the library does not know; -ENOMEM; -EAGAIN the system started no more threads;
 *	-ENOTSUP the system refuses to start threads; -EIO the device failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_start(struct rnl_pool *pool, const char *path,
			    const struct rnl_trace_attr *attr);

/*
 * Ends the trace and closes its file. The file shows jobs that are not done yet as unfinished.
 * Context: blocks like rnl_trace_start(), and writes to the file. Not on a worker of the pool.
 * Return: 0 the file is complete; the error of a write(2) that failed (-ENOSPC, -EDQUOT, -EFBIG,
 *	-EIO, ...): the file is valid, but ends at the time of the error, while jobs went on;
 *	-EALREADY no trace runs; -EBUSY called on a worker of the pool; -EINVAL pool is NULL;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_stop(struct rnl_pool *pool);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_TRACE_H */
