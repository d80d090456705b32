/* SPDX-License-Identifier: MIT */
/* Batchers: many small requests moved to the device and run together. */
#ifndef RUNNEL_BATCH_H
#define RUNNEL_BATCH_H

#include <runnel.h>
#include <runnel/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A batcher moves and runs many small requests of one kind together. A producer reserves a slot (a
 * place in page-locked memory), fills the slot, and commits it. A free worker takes all committed
 * requests as one batch, copies them to the device together, and calls one function for the batch.
 * A small batch is not copied: the device accesses it in host memory. A single request is not
 * delayed. Under load, batches grow while all workers are busy or max_in_flight batches are under
 * way. A request waits only for earlier batches, never for other producers: a slot that is reserved
 * but not committed is left to a later batch. In a pool of several devices, batches and slabs are
 * divided among the devices, and a batch takes the requests of its device. A done request keeps the
 * memory of its output until its release, and delays nothing else.
 * With a class (cls), batches start by that class's rules, and each keeps one of its max_queued
 * places until the batcher is destroyed. So a full class does not stop them. The class's deadline_ns
 * and admission are not for them: a committed request is done, whenever that is. With
 * RNL_CLASS_DEADLINE they start after jobs that have deadlines. rnl_class_destroy() waits for the
 * committed requests, and the batcher refuses further ones.
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

/* The place of one request's input, if requests have different sizes. */
struct rnl_span {
	uint32_t offset;	/* from `in` of the batch; a multiple of 16 */
	uint32_t bytes;
};

/*
 * One batch: the argument of the batcher's function. The batch is in device memory. If its inputs
 * and its outputs have at most 64 KiB each, the batch is in page-locked memory instead, and kernels
 * access it there, because a copy of so few bytes takes longer. Kernels must not write to `in`.
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
	int32_t *status;	/* for the kernel: nr numbers, initially 0; NULL without
				 * RNL_BATCHER_STATUS. The kernel may set status[i] to the result
				 * of request i: 0 or a positive number of its own; a negative
				 * errno fails the request */
};

/* One request, as the function of a request kernel gets it. */
struct rnl_request_view {
	void *arg;		/* of struct rnl_batcher_attr */
	const void *in;		/* the input; in a resident kernel it is in shared memory */
	void *out;		/* the output, likewise; NULL if out_bytes is 0 */
	uint32_t in_bytes;	/* of this request */
	uint32_t out_bytes;	/* of the batcher */
};

/*
 * A function for one request, for every device. The host's does all the work. The GPU's is called
 * by all threads of one block, of which there are 32 to 1024: it uses threadIdx.x and blockDim.x,
 * may use __syncthreads(), and all threads must return. Each function returns the request's result,
 * as in `status` of struct rnl_batch; of a block, the first thread's counts.
 * RNL_HOST_REQUEST_KERNEL(), and RNL_REQUEST_KERNEL() of runnel/cuda.h, define a request kernel.
 * Since: 0.3
 */
struct rnl_request_kernel {
	const char *name;
	int (*host)(const struct rnl_request_view *view); /* NULL: not on the host device */
	const struct rnl_kernel *batch; /* CUDA: a block for each request; NULL: not on CUDA */
	const struct rnl_kernel *lease; /* CUDA: the resident kernel; NULL: there is none */
};

/* Defines `const struct rnl_request_kernel NAME` for the host device only. Since: 0.3 */
#define RNL_HOST_REQUEST_KERNEL(kernel_name, host_fn) \
	extern __attribute__((visibility("hidden"))) const struct rnl_request_kernel kernel_name; \
	const struct rnl_request_kernel kernel_name = { #kernel_name, host_fn, NULL, NULL }

enum rnl_batcher_flags {
	/* Requests have up to in_bytes; `spans` of the batch locates their inputs. */
	RNL_BATCHER_VARIABLE = 1,
	/* The kernel sets the results: struct rnl_batch, field status. */
	RNL_BATCHER_STATUS = 2,
	/*
	 * Small batches are copied, too, so every batch is in device memory. Set the flag if
	 * kernels access the same bytes often, or access bytes one by one in one thread, or if the
	 * function itself copies from `in` to `out`. Since: 0.1
	 */
	RNL_BATCHER_ALWAYS_COPY = 4,
	/*
	 * While lone requests come close together, `kernel` stays resident on the device. A request
	 * that somebody waits for by rnl_job_wait() then needs no driver call and no worker: its
	 * commit writes it to a mailbox in page-locked memory, which the resident kernel polls, and
	 * the waiting thread reads the answer from there. Requests that come while a batch is
	 * queued go in batches, as do all requests of batchers with more than 12 KiB of input or
	 * output. A request with a callback, a completion queue or a barrier takes a mailbox if a
	 * worker spins for the answer (spin_us); otherwise it goes in a batch. Such a worker stops as
	 * soon as it has a job; a worker of the pool then ends what is in the mailboxes 0.1 ms later.
	 * Callbacks are called on workers only.
	 * The resident kernel is a sequence of leases of 0.2 ms; on sm_90 and later the next one
	 * waits on the device. So there are up to two blocks for each mailbox. The last lease ends at
	 * most 0.6 ms after the last request: cudaFree(), cudaDeviceSynchronize() and the loading of
	 * modules wait as long. If no lease gets a multiprocessor, requests are taken back after 20 to
	 * 100 us, and go in batches. Each request is executed once, unless the device fails. A thread
	 * in rnl_job_wait() spins for up to 0.2 ms; the call counts as one on the request.
	 * In a resident kernel the function may use `in`, `out`, and memory that does not change while
	 * the batcher exists. For other memory it needs __threadfence_system(), before it reads what
	 * the host has written since the lease began, and after it writes what the host is to read.
	 * In a pool with kept SMs, the resident kernel of a batcher with a class runs on the kept ones.
	 * Since: 0.3
	 */
	RNL_BATCHER_RESIDENT = 8,
	/*
	 * With RNL_BATCHER_RESIDENT: also under MPS, and while other processes use the device. A
	 * process that takes turns with others does not run for some milliseconds at a time. Without
	 * this flag there is no resident kernel under MPS (as CUDA 13 and later report it), and after a
	 * lease of more than 1 ms none follows for 0.1 s. Since: 0.3
	 */
	RNL_BATCHER_SHARED = 16
};

struct rnl_batcher_attr {
	uint32_t size;		/* sizeof(struct rnl_batcher_attr) */
	uint32_t flags;		/* enum rnl_batcher_flags */
	/*
	 * Issues the work for a batch on a worker, like a job's function. Returns 0, or a negative
	 * errno, which becomes the result of all requests of the batch. NULL: batches run `kernel`.
	 */
	int (*fn)(const struct rnl_batch *batch);
	void *arg;
	size_t in_bytes;	/* input of a request; with RNL_BATCHER_VARIABLE, of the largest */
	size_t out_bytes;	/* output of a request; may be 0 */
	uint32_t max_batch;	/* most requests in one batch; 0: 256; at most 32768. With thousands
				 * under way an eighth of them is a good number: several batches then
				 * overlap, and each is large */
	uint32_t max_in_flight;	/* most batches under way; 0: 4 for each device; at most 32. With
				 * fewer batches than devices, some devices get none */
	size_t slab_bytes;	/* input of one slab; 0: four of the largest batches, or 16 MiB.
				 * A slab has outputs for slab_bytes / in_bytes requests, with
				 * RNL_BATCHER_VARIABLE at least for four of the largest batches */
	uint32_t nr_slabs;	/* initial number of slabs; 0: 4 for each device */
	uint32_t max_slabs;	/* most slabs, made when those of a device are full; 0: twice
				 * nr_slabs; at most 32 */
	void *reserved;
	uint64_t devices;	/* devices of the pool to use, a bit each; 0: all */
	struct rnl_class *cls;	/* class of the batches (runnel/class.h); NULL: the pool's own */
	const struct rnl_request_kernel *kernel; /* function for one request, valid until the
				 * destroy. With it, RNL_BATCHER_STATUS is implied. Since: 0.3 */
	uint32_t nr_mailboxes;	/* requests that the resident kernel has at a time, on each device;
				 * 0: 4; at most 16. Since: 0.3 */
	uint32_t spin_us;	/* with RNL_BATCHER_RESIDENT: for so long after a request with a
				 * callback, a completion queue or a barrier, a worker that has
				 * nothing else to do spins, and looks for the answer of the next
				 * one; 0: never; at most 10000. Since: 0.3 */
};
#define RNL_BATCHER_ATTR_INIT \
	{ sizeof(struct rnl_batcher_attr), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, \
	  NULL, 0, 0 }

/*
 * A request, in the program's memory. Initialise it with rnl_job_init(&request->job, NULL); from
 * then on `job.user` belongs to the program, and everything else to the library. `job` reports the
 * end of the request like that of a job: by rnl_job_wait(), rnl_job_set_on_done(), rnl_job_set_cq()
 * or rnl_barrier_add(). `job.result` is the result. The settings of `job` stay, and may be changed
 * while the request is not under way. rnl_submit() refuses `job`.
 */
struct rnl_request {
	struct rnl_job job;
	void *in;		/* the input, to write between reserve and commit; NULL once the
				 * request is done; aligned to the largest power of two that divides
				 * attr.in_bytes, at most 64; with RNL_BATCHER_VARIABLE to 16 */
	const void *out;	/* the output, from when the request is done to its release;
				 * aligned like `in`, but by out_bytes; NULL if out_bytes is 0 or
				 * the whole batch failed */
	size_t in_bytes;	/* size of `in` */
	struct rnl_batcher *batcher;
	uint64_t round;
	uint32_t slab;
	uint32_t slot;
	uint32_t cell;
	uint32_t reserved;
	void *answers;		/* where a resident kernel answers; NULL: the request is in a batch */
};

/*
 * Creates a batcher. Its memory comes from the pool's pinned buffers.
 * @batcherp: receives the batcher; unchanged on failure.
 * @pool: must outlive the batcher.
 * @attr: copied.
 * Context: blocks while memory is page-locked.
 * Return: 0; -EINVAL an argument is NULL; attr has a wrong size, unknown flags, no fn and no
 *	kernel, RNL_BATCHER_RESIDENT without a kernel, spin_us without RNL_BATCHER_RESIDENT, a kernel
 *	without a function for the pool's devices, or an in_bytes of 0; a number is out of its range;
 *	a request or a slab has 1 GiB or more; a slab is smaller than a request; max_slabs is less
 *	than nr_slabs; cls is of another pool, or has ended; -E2BIG attr is newer than the library
 *	and sets a field that the library does not know; -EAGAIN the class has fewer places than
 *	max_in_flight, or the system starts no more threads, of which a resident kernel needs one for
 *	each device; -ENOMEM; -ESHUTDOWN the pool is closed; -EIO the device failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_batcher_create(struct rnl_batcher **batcherp, struct rnl_pool *pool,
			       const struct rnl_batcher_attr *attr);

/*
 * Refuses further requests, waits until the committed requests are done, and frees the batcher,
 * including slots that are not committed and outputs that are not released.
 * @batcher: may be NULL. No other call on the batcher, or on a request that was reserved there, may
 *	run concurrently with this call or after it. Callbacks of requests are an exception: they
 *	may call every function except this one, and get -ESHUTDOWN.
 * Context: blocks. On a worker of the pool it only closes the batcher and logs an error, because a
 *	thread cannot wait for its own end.
 * Since: 0.1
 */
RNL_API void rnl_batcher_destroy(struct rnl_batcher *batcher);

/*
 * Reserves a slot for a request, and points the request's `in` to the slot. The slot belongs to the
 * caller until a commit or a release, without a time limit. Other producers do not wait for it, but
 * the input memory of its slab is not reused meanwhile. If a producer never commits, that memory is
 * lost; the batcher replaces the slab, up to max_slabs. A slab is in use until all its requests are
 * done; an output, until its own request is released. So threads may wait for space while they hold
 * done requests, provided that there are more outputs than such requests. A waiting thread should
 * hold no uncommitted slot, because such a slot keeps a whole slab in use.
 * @request: its job is initialised, and the request is not in use.
 * @bytes: the attribute in_bytes; with RNL_BATCHER_VARIABLE any number from 1 to in_bytes.
 * @timeout_ns: longest time to wait while there is no space on any device; 0: no wait.
 * Context: lock-free, and allocates nothing; blocks with a timeout, except on a worker of the pool.
 *	If a wait takes stuck_ms of the pool, and no request is under way, it logs a warning: only a
 *	release, or a commit, ends such a wait.
 * Ordering: the slot's content is undefined, and no other thread uses the slot.
 * Return: 0, and the request must be committed or released; -EAGAIN all slabs, or all outputs, are
 *	in use, and the timeout is 0 or the caller is a worker of the pool: try again after a
 *	request was done and released; -ETIMEDOUT there was no space in time; -ESHUTDOWN the batcher
 *	or the pool is closed; -EIO the device has failed; -EBUSY the request is reserved, under way
 *	or not released; -EINVAL an argument is NULL, bytes is out of its range, the request was
 *	not initialised, or the batcher's class has ended; -EOWNERDEAD. On failure the request is unchanged.
 * Since: 0.1
 */
RNL_API int rnl_batcher_reserve(struct rnl_batcher *batcher, struct rnl_request *request,
				size_t bytes, int64_t timeout_ns);

/*
 * Commits a request that was reserved and filled, and so gives it to the workers. The request is
 * under way like a job that has started, so rnl_job_cancel() returns -EBUSY. It is done when the
 * device has completed its batch. A barrier counts the request from the commit on; for the barrier,
 * the request is issued when it is done.
 * Context: lock-free, except for the wake of a sleeping worker; allocates nothing.
 * Ordering: the caller's earlier writes are visible to the device. The device's writes are visible
 *	to each thread that learns that the request is done. Requests have no order among them.
 *	rnl_pool_drain() waits for requests whose commit has returned.
 * Return: 0; -EAGAIN the request's barrier counts too many jobs, as for rnl_submit(); -ESHUTDOWN
 *	the batcher or the pool is closed; -EIO the device has failed; -EBUSY the request was
 *	committed before and is not released; -EINVAL request is NULL or not reserved, or its
 *	barrier is of another pool, or its job has a setting that requests do not support: a barrier
 *	to come after, a next job, a deadline, a device, gathering, a replay, a class; or
 *	the batcher's class has ended; -EOWNERDEAD.
 *	On failure the slot remains the caller's.
 * Since: 0.1
 */
RNL_API int rnl_request_commit(struct rnl_request *request);

/*
 * Releases the memory of a request that is done, whatever its result, or that was reserved and not
 * committed. `in` and `out` are invalid afterwards, and the request may be reserved again.
 * `job.result` stays until the next reserve.
 * @request: used by one thread at a time.
 * Context: as for rnl_request_commit().
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
	uint64_t batches;	/* batches of the done requests */
	uint64_t copies;	/* copies of input; a small batch needs none; an uncommitted slot
				 * divides a batch's input into two copies */
	uint64_t late;		/* requests committed after a batch had left them out */
	uint64_t cancelled;	/* requests released without a commit */
	uint64_t refused;	/* reserves refused, as all slabs or all outputs were in use */
	uint32_t largest;	/* requests in the largest batch so far */
	uint32_t reserved;
	uint64_t resident;	/* done requests that the resident kernel answered. Since: 0.3 */
	uint64_t taken_back;	/* requests taken back from its mailboxes. Since: 0.3 */
	uint64_t leases;	/* launches of the resident kernel. Since: 0.3 */
};
#define RNL_BATCHER_STATS_INIT \
	{ sizeof(struct rnl_batcher_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Reads the figures of a batcher. In rnl_pool_read_stats() its batches count as jobs, and its
 * requests do not.
 * @stats: filled in; its size must be set.
 * Ordering: as for rnl_pool_read_stats().
 * Return: 0; -EINVAL batcher or stats is NULL, or stats has a wrong size; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_batcher_read_stats(struct rnl_batcher *batcher, struct rnl_batcher_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_BATCH_H */
