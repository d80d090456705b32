/* SPDX-License-Identifier: MIT */
/* Batchers: many small requests moved to the device and run together. */
#ifndef RUNNEL_BATCH_H
#define RUNNEL_BATCH_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A batcher moves and runs many small requests of one kind together. A producer reserves a slot,
 * which is a place in page-locked memory, fills it, and commits it. A free worker takes all
 * committed requests as one batch, copies them to the device at once, and calls one function for
 * them. A small batch is not copied: the device reaches it where it lies. A lone request is not
 * delayed. Under load, batches grow while all workers are busy or max_in_flight batches are under
 * way. A request waits only for the batches before it. It never waits for other producers: a slot
 * that is reserved and not committed goes with a later batch. Over several devices, batches and
 * slabs are divided among them: a batch takes the requests that went to its device. A done request
 * holds the memory of its output until it is released, and holds up nothing else.
 *
 *	rnl_job_init(&r->request.job, NULL);
 *	rnl_job_set_cq(&r->request.job, cq);		or a callback, a barrier, a wait
 *
 *	rnl_batcher_reserve(batcher, &r->request, bytes, 0);
 *	fill(r->request.in, bytes);
 *	rnl_request_commit(&r->request);
 *	... rnl_cq_reap() ...
 *	use(r->request.out);
 *	rnl_request_release(&r->request);
 */
struct rnl_batcher;

/* Where the input of one request is, if requests have different sizes. */
struct rnl_span {
	uint32_t offset;	/* from `in` of the batch; a multiple of 16 */
	uint32_t bytes;
};

/*
 * One batch: the argument of the batcher's function. Its memory is the device's. If its inputs, and
 * its outputs, have at most 64 KiB each, its memory is page-locked instead, and kernels reach it
 * where it lies: for so few bytes copies take longer. Kernels may not write to `in`.
 */
struct rnl_batch {
	void *arg;		/* of struct rnl_batcher_attr */
	uint32_t nr;		/* requests, at least 1 */
	uint32_t reserved;
	size_t in_bytes;	/* size of all inputs at `in` */
	const void *in;		/* the inputs, aligned to 256 bytes; request i is at
				 * in + i * attr.in_bytes, or at in + spans[i].offset */
	void *out;		/* the outputs, aligned to 256 bytes; request i is at
				 * out + i * attr.out_bytes; NULL if out_bytes is 0 */
	const struct rnl_span *spans; /* for the kernel; NULL without RNL_BATCHER_VARIABLE */
	int32_t *status;	/* for the kernel: nr numbers, 0 at first; NULL without
				 * RNL_BATCHER_STATUS. The kernel may set status[i] to the result
				 * of request i: 0 or a positive number of its own, or a negative
				 * errno, and then the request has failed */
};

enum rnl_batcher_flags {
	/* Requests have up to in_bytes; the function is told where they are. */
	RNL_BATCHER_VARIABLE = 1,
	/* The kernel sets results of its own: struct rnl_batch, field status. */
	RNL_BATCHER_STATUS = 2,
	/*
	 * Small batches are copied as well, so all memory of a batch is the device's. Set it if
	 * kernels read or write bytes often, or one after the other in one thread, or if the
	 * function itself copies from `in` to `out`. Since: 0.1
	 */
	RNL_BATCHER_ALWAYS_COPY = 4
};

struct rnl_batcher_attr {
	uint32_t size;		/* sizeof(struct rnl_batcher_attr) */
	uint32_t flags;		/* enum rnl_batcher_flags */
	/*
	 * Issues the work for a batch on a worker, as a job's function does. It returns 0, or a
	 * negative errno, which becomes the result of all requests of the batch.
	 */
	int (*fn)(const struct rnl_batch *batch);
	void *arg;
	size_t in_bytes;	/* input of a request; with RNL_BATCHER_VARIABLE the largest one */
	size_t out_bytes;	/* output of a request; may be 0 */
	uint32_t max_batch;	/* requests in one batch; 0: 256; at most 32768 */
	uint32_t max_in_flight;	/* batches under way at once; 0: 4 for each device; at most 32; with
				 * fewer than devices, some devices have none */
	size_t slab_bytes;	/* input of one slab; 0: four of the largest batches, or 16 MiB. A
				 * slab has outputs for as many requests: slab_bytes / in_bytes, and
				 * with RNL_BATCHER_VARIABLE at least four of the largest batches */
	uint32_t nr_slabs;	/* slabs at the start; 0: 4 for each device */
	uint32_t max_slabs;	/* slabs when those of a device are full; 0: twice nr_slabs; at
				 * most 32 */
	void *reserved;
	uint64_t devices;	/* of the pool, a bit each; 0: all */
};
#define RNL_BATCHER_ATTR_INIT \
	{ sizeof(struct rnl_batcher_attr), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }

/*
 * A request. It lives in the program's memory, and its end is told as a job's is: by
 * rnl_job_wait(), rnl_job_set_on_done(), rnl_job_set_cq() or rnl_barrier_add() of its `job`, which
 * has its `result`. It begins with rnl_job_init(&request->job, NULL); `job.user` belongs to the program
 * from then on, all else belongs to the library. What these functions set stays, and may be changed
 * whenever the request is not under way. rnl_submit() refuses its job.
 */
struct rnl_request {
	struct rnl_job job;
	void *in;		/* the input, to be written between reserve and commit; NULL once the
				 * request is done; aligned to the largest power of two that divides
				 * attr.in_bytes, at most 64; with RNL_BATCHER_VARIABLE to 16 */
	const void *out;	/* the output, from when the request is done to its release; aligned
				 * as `in`, by out_bytes; NULL if out_bytes is 0 or the whole batch
				 * failed */
	size_t in_bytes;	/* size of `in` */
	struct rnl_batcher *batcher;
	uint64_t round;
	uint32_t slab;
	uint32_t slot;
	uint32_t cell;
	uint32_t reserved[3];
};

/*
 * Creates a batcher. Its memory comes from the pool's pinned buffers.
 * @batcherp: receives the batcher; unchanged on failure.
 * @pool: outlives the batcher.
 * @attr: copied.
 * Context: blocks while memory is page-locked.
 * Return: 0; -EINVAL an argument is NULL; attr has a wrong size, unknown flags, no fn, or an
 *	in_bytes of 0; a number is out of its range; a request or a slab has 1 GiB or more; a slab
 *	is smaller than a request; max_slabs is less than nr_slabs; -E2BIG attr is newer than the
 *	library and has a field set that the library does not know; -ENOMEM; -ESHUTDOWN the pool
 *	is closed; -EIO the device failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_batcher_create(struct rnl_batcher **batcherp, struct rnl_pool *pool,
			       const struct rnl_batcher_attr *attr);

/*
 * Refuses further requests, waits until the committed requests are done, and frees the batcher.
 * Slots that are not committed, and outputs that are not released, are gone.
 * @batcher: may be NULL. No other call on the batcher, or on a request that was reserved there, may
 *	run beside this call or after it. An exception are callbacks of requests: they may call
 *	every function but this one, and get -ESHUTDOWN.
 * Context: blocks. On a worker of the pool it only closes the batcher and logs an error, because a
 *	thread cannot wait for its own end.
 * Since: 0.1
 */
RNL_API void rnl_batcher_destroy(struct rnl_batcher *batcher);

/*
 * Reserves a slot for a request. The request's `in` points to the slot then.
 * The slot belongs to the caller until a commit or a release, however long that takes. Other
 * producers do not wait for it, but the input of its slab is not reused meanwhile. If a producer
 * never commits, that memory is lost; the batcher replaces the slab, up to max_slabs.
 * A slab is in use until all its requests are done; an output, until its own request is released.
 * So threads may wait for space while they hold done requests, as long as they hold fewer than
 * there are outputs. A thread that waits should hold no slot that is not committed: it keeps a
 * whole slab.
 * @request: its job is initialised, and it is not in use.
 * @bytes: the attribute in_bytes; with RNL_BATCHER_VARIABLE any number from 1 to in_bytes.
 * @timeout_ns: how long to wait while there is no space on any device; 0: not at all.
 * Context: lock-free, and allocates nothing; blocks with a timeout, except on a worker of the pool.
 * Ordering: the slot's content is undefined, and no other thread uses the slot.
 * Return: 0, and the request must be committed or released; -EAGAIN all slabs, or all outputs, are
 *	in use, and the timeout is 0 or a worker of the pool calls: try again when a request was
 *	done and released; -ETIMEDOUT there was no space in time; -ESHUTDOWN the batcher or the
 *	pool is closed; -EIO the device has failed; -EBUSY the request is reserved, under way or not
 *	released; -EINVAL an argument is NULL, bytes is out of its range, or the request was not
 *	initialised; -EOWNERDEAD. On failure the request is unchanged.
 * Since: 0.1
 */
RNL_API int rnl_batcher_reserve(struct rnl_batcher *batcher, struct rnl_request *request,
				size_t bytes, int64_t timeout_ns);

/*
 * Commits a request that was reserved and filled: the workers have it then. The request is under
 * way like a job that has started, so rnl_job_cancel() returns -EBUSY. It is done when the device
 * has passed its batch. A barrier counts it from the commit on. For the barrier it counts as issued
 * when it is done.
 * Context: lock-free, except for the wake of a sleeping worker; allocates nothing.
 * Ordering: what the caller wrote before is visible to the device. What the device wrote is visible
 *	to each thread that was told that the request is done. Requests have no order among them.
 *	rnl_pool_drain() waits for requests whose commit has returned.
 * Return: 0; -EAGAIN the request's barrier counts too many jobs, as for rnl_submit(); -ESHUTDOWN
 *	the batcher or the pool is closed; -EIO the device has failed; -EBUSY the request was
 *	committed before and is not released; -EINVAL request is NULL or not reserved, or its
 *	barrier is of another pool, or it has what only other jobs may have: a barrier that it comes
 *	after, a job behind it, a deadline, urgency, a device, gathering, a replay; -EOWNERDEAD. On
 *	failure the slot remains the caller's.
 * Since: 0.1
 */
RNL_API int rnl_request_commit(struct rnl_request *request);

/*
 * Gives back the memory of a request that is done, whatever its result, or that was reserved and
 * not committed. Its `in` and `out` are gone, and it may be reserved again. `job.result`
 * stays until then.
 * @request: used by one thread at a time.
 * Context: as rnl_request_commit().
 * Return: 0; -EBUSY the request was committed and is not done; -EINVAL request is NULL, or has no
 *	memory: not reserved, or released before; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_request_release(struct rnl_request *request);

struct rnl_batcher_stats {
	uint32_t size;		/* sizeof(struct rnl_batcher_stats) */
	uint32_t nr_slabs;	/* slabs now */
	uint64_t requests;	/* requests done, failed ones included */
	uint64_t failed;	/* done requests with a negative result */
	uint64_t batches;	/* batches that the done requests were in */
	uint64_t copies;	/* copies of input, none of a small batch; a slot that is not
				 * committed divides a batch's input into two copies */
	uint64_t late;		/* requests committed after a batch had gone without them */
	uint64_t cancelled;	/* requests released without a commit */
	uint64_t refused;	/* reserves refused because all slabs, or all outputs, were in use */
	uint32_t largest;	/* requests in the largest batch up to now */
	uint32_t reserved;
};
#define RNL_BATCHER_STATS_INIT \
	{ sizeof(struct rnl_batcher_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Reads the figures of a batcher. In rnl_pool_read_stats() its batches count as jobs, and its
 * requests do not.
 * @stats: filled in; its size must be set.
 * Ordering: as rnl_pool_read_stats().
 * Return: 0; -EINVAL batcher or stats is NULL, or stats has a wrong size; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_batcher_read_stats(struct rnl_batcher *batcher, struct rnl_batcher_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_BATCH_H */
