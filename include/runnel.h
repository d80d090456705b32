/* SPDX-License-Identifier: MIT */
/*
 * runnel: a multi-threaded worker runtime on CUDA's per-thread default streams.
 *
 * A pool is a set of POSIX threads, the workers.  Every worker has an implicit
 * stream of its own: what a job issues on the worker (copies, fills, kernels)
 * goes to that stream, in order, without a stream being named.  Any thread
 * submits jobs; a barrier joins them, on the host or on the device.
 *
 * Conventions of this header:
 *
 *   Return    0 or a count, or a negative errno; errno itself says nothing.
 *             rnl_strerror() has a text for every code that is used.
 *   Timeouts  int64_t nanoseconds: 0 looks and returns; RNL_FOREVER, as any
 *             negative number, waits.
 *   Context   Every function may be called by any thread, workers included,
 *             and does not block, unless its comment says otherwise.  None is
 *             safe in a signal handler or in a CUDA host function.
 *   Fork      In a forked child every call on an object of the parent returns
 *             -EOWNERDEAD; a child that wants a pool creates its own.
 *   Structs   with a `size` first are extended at their end: set `size` to
 *             sizeof (the RNL_..._INIT macros do), and leave the rest zero.
 */
#ifndef RUNNEL_H
#define RUNNEL_H

#include <stddef.h>
#include <stdint.h>

#define RNL_VERSION_MAJOR 0
#define RNL_VERSION_MINOR 1
#define RNL_VERSION_PATCH 0

#ifndef RNL_API
#define RNL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RNL_FOREVER	(-1)	/* timeout: wait as long as it takes */
#define RNL_WORKERS_MAX 64	/* workers in one pool */
#define RNL_KERNEL_ARGS_MAX 4096 /* bytes of arguments of one kernel */

/* The object that contains `member`, from a pointer to the member. */
#define rnl_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

struct rnl_pool;
struct rnl_job;
struct rnl_barrier;

/* ---- the library --------------------------------------------------------- */

/*
 * The version of the library that runs, as 0x00MMmmpp.  The macros above are
 * the version that was compiled against.
 * Since: 0.1
 */
RNL_API uint32_t rnl_version(void);

/*
 * What an error code means, in runnel's words ("the pool is closed"), or in the
 * C library's, if it is a code of a job's own.
 * @err: as returned by a function of this header; its sign does not matter.
 * Return: a constant string, never NULL.
 * Since: 0.1
 */
RNL_API const char *rnl_strerror(int err);

/*
 * Prepares the process for many concurrent streams: sets
 * CUDA_DEVICE_MAX_CONNECTIONS=32 when it is unset.  CUDA reads the variable
 * when its context is created and then gives each stream a hardware queue of
 * its own, up to that number (CUDA C Programming Guide, environment
 * variables).  With the default of 8, more than 8 workers share queues.
 * Context: first thing in main(), before other threads and before CUDA;
 *	setting an environment variable later would be unsafe.
 * Return: 0, also when the variable is set already;
 *	-EBUSY other threads run: nothing was changed; -ENOMEM.
 * Since: 0.1
 */
RNL_API int rnl_setup(void);

enum rnl_log_level {
	RNL_LOG_ERROR = 0,	/* work fails that should not have */
	RNL_LOG_WARNING = 1,	/* work goes on, worse than it could */
	RNL_LOG_INFO = 2
};

/*
 * Receives what the library has to say; without one it says nothing.
 * @arg: the attribute log_arg; @msg: one line without newline, valid for the
 * call only.
 * Context: any thread that uses the pool, workers included, several at once;
 *	it must not block for long nor call back into the pool.
 */
typedef void rnl_log_fn(void *arg, enum rnl_log_level level, const char *msg);

/* ---- devices ------------------------------------------------------------- */

struct rnl_device_info {
	uint32_t size;			/* sizeof(struct rnl_device_info) */
	uint32_t cuda;			/* 1: a GPU; 0: the host device */
	int32_t ordinal;		/* CUDA's device number; host: 0 */
	uint32_t nr_multiprocessors;	/* host: CPUs that are online */
	uint32_t nr_copy_engines;	/* host: 0 */
	uint32_t stream_writes;		/* a stream can write a word of memory */
	uint64_t memory_bytes;		/* of the device; host: physical memory */
	char name[64];			/* for people: "NVIDIA H200", "host" */
};
#define RNL_DEVICE_INFO_INIT { sizeof(struct rnl_device_info), 0, 0, 0, 0, 0, 0, { 0 } }

/*
 * Describes a device without creating a pool on it.
 * @device: "auto" (CUDA device 0 if a GPU answers, else the host device),
 *	"cuda", "cuda:N" or "host"; NULL is "auto".
 * @info: filled in; its size must be set.
 * Context: blocks while CUDA initialises, on the first call of a process.
 * Return: 0; -EINVAL the name is not one of these, or info is NULL or of a
 *	wrong size; -ENODEV no such device answers, or the library was built
 *	without CUDA.  Fields that a newer program has are set to 0.
 * Since: 0.1
 */
RNL_API int rnl_device_info(const char *device, struct rnl_device_info *info);

/* ---- pools --------------------------------------------------------------- */

enum rnl_stream_kind {
	/*
	 * CUDA's per-thread default stream: raw CUDA calls in a job land there.
	 * It is a blocking stream: it waits for the legacy default stream.
	 */
	RNL_STREAM_PER_THREAD = 0,
	/*
	 * A non-blocking stream of the worker's own: more jobs a second, and
	 * nobody's legacy stream stalls it.  Its jobs use rnl_copy() and its
	 * like, or pass rnl_stream() to CUDA.
	 */
	RNL_STREAM_PRIVATE = 1
};

struct rnl_pool_attr {
	uint32_t size;		/* sizeof(struct rnl_pool_attr) */
	uint32_t nr_workers;	/* 0: min(8, CPUs); at most RNL_WORKERS_MAX */
	const char *device;	/* as rnl_device_info(); NULL: "auto" */
	uint32_t stream;	/* enum rnl_stream_kind */
	uint32_t max_queued;	/* jobs queued in the whole pool; 0: 65536 */
	uint32_t max_in_flight;	/* jobs a worker has on the device; 0: 64, at most 1000 */
	int32_t spin_us;	/* a thread spins so long before it sleeps;
				 * 0: by the number of CPUs; -1: not at all */
	uint32_t watchdog_ms;	/* a device failure is seen within; 0: 100 */
	uint32_t reserved;	/* 0 */
	rnl_log_fn *log;	/* NULL: nothing is logged */
	void *log_arg;
};
#define RNL_POOL_ATTR_INIT \
	{ sizeof(struct rnl_pool_attr), 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL }

/*
 * Creates a pool and starts its workers.
 * @poolp: receives the pool; untouched on failure.
 * @attr: copied; NULL is all defaults.
 * Context: blocks until every worker is attached to its device.  Workers
 *	block all signals, whatever the caller's mask.
 * Return: 0, and the pool is to be given to rnl_pool_destroy();
 *	-EINVAL poolp is NULL, an attribute is out of its range, attr is too
 *	short or its size was never set, or the device's name is unknown; -E2BIG attr is newer than the
 *	library and uses what that does not know; -ENODEV no such device;
 *	-ENOMEM; -EAGAIN the system would not start a thread; -EIO the device
 *	failed.  On failure nothing remains to be cleaned up.
 * Since: 0.1
 */
RNL_API int rnl_pool_create(struct rnl_pool **poolp, const struct rnl_pool_attr *attr);

/*
 * Refuses further jobs: rnl_submit() gives -ESHUTDOWN from now on.  What was
 * accepted before runs and completes.  Closing twice is no error.
 * Ordering: a submit that returned before this call was accepted; one that
 *	runs beside it is either accepted in full or refused.
 * Return: 0; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_close(struct rnl_pool *pool);

/*
 * Waits until every job accepted so far is done.  On an open pool, jobs that
 * others submit meanwhile prolong the wait.
 * Context: blocks.  Not on a worker of the same pool.
 * Ordering: all that those jobs did happens before its return.
 * Return: 0; -ETIMEDOUT jobs remain; -EBUSY called on a worker of the pool;
 *	-EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_drain(struct rnl_pool *pool, int64_t timeout_ns);

/*
 * Closes and drains the pool, ends its workers, and frees it.
 * @pool: may be NULL.  No call on the pool may run beside this one or follow
 *	it, and its barriers' jobs must not be waited for from then on.
 * Context: blocks.  On a worker of the pool itself it only closes the pool
 *	and logs an error: a thread cannot wait for its own end.
 * Since: 0.1
 */
RNL_API void rnl_pool_destroy(struct rnl_pool *pool);

/*
 * Describes the device that the pool runs on; see rnl_device_info().
 * Return: 0; -EINVAL an argument is NULL, or info of a wrong size; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_device(struct rnl_pool *pool, struct rnl_device_info *info);

struct rnl_pool_stats {
	uint32_t size;		/* sizeof(struct rnl_pool_stats) */
	uint32_t nr_workers;
	uint64_t accepted;	/* jobs accepted since the pool was created */
	uint64_t done;		/* jobs completed, failed and cancelled included */
	uint64_t failed;	/* of these: with a negative result */
	uint64_t queued;	/* now: accepted, function not yet run */
	uint64_t in_flight;	/* now: function run, device not yet there */
	uint64_t stolen;	/* jobs run by another worker than the one chosen */
	uint64_t slept;		/* how often a worker went to sleep idle */
};
#define RNL_POOL_STATS_INIT { sizeof(struct rnl_pool_stats), 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Counts what the pool did.  Cheap: it reads every worker's counters once.
 * Ordering: each figure is right for some moment during the call, together
 *	they are not a snapshot.
 * Return: 0; -EINVAL pool or stats is NULL, or stats of a wrong size;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_stats(struct rnl_pool *pool, struct rnl_pool_stats *stats);

/* ---- jobs ---------------------------------------------------------------- */

/*
 * A job: one host function that issues device work.  It lives in the caller's
 * own request, stays there until it is done, and costs no allocation.  All
 * fields belong to the library except `user`, which is the caller's from
 * rnl_job_init() on.
 */
struct rnl_job {
	int (*fn)(struct rnl_job *job);
	int (*check)(void);	/* runnel/cuda.h: the unit's cudaGetLastError */
	void *user;		/* the caller's */
	void *link;
	struct rnl_pool *pool;
	struct rnl_barrier *barrier;
	struct rnl_barrier *after;
	uint64_t seq;
	uint32_t state;
	int32_t result;
	int32_t device_error;
	uint16_t worker;
	uint16_t flags;
	uint32_t generation;
	uint32_t reserved[9];
};

/*
 * Makes a job of caller's memory, not while that is a job under way; `user` is
 * NULL afterwards.
 * @fn: runs once per accepted submit, on a worker.  It issues work to the
 *	worker's implicit stream and returns without waiting for it: 0 or a
 *	number of its own, which becomes the job's result, or a negative errno,
 *	with which the job has failed.  An rnl_copy(), rnl_fill() or rnl_launch()
 *	in it that failed makes the job fail, too, whatever it returned.  While
 *	it runs, nothing else that its worker has on its stream can be told
 *	done: so it does not wait.  It leaves the thread's current CUDA device
 *	as it found it.
 * A job that is done may be submitted again without a new init; its barriers
 * stay as they were set.
 * Units that include runnel/cuda.h get, by a macro of the same name, a job
 * that also fails when a CUDA call or a <<<...>>> in its function failed.
 * Return: 0; -EINVAL job or fn is NULL.
 * Since: 0.1
 */
RNL_API int rnl_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job));

/*
 * Makes the job start after a barrier: once every job that the barrier counts
 * has been issued, this one is started, and its stream waits for theirs on
 * the device.  No host thread blocks for it.  If by then a job of the barrier
 * has failed, this one completes with -ECANCELED and its function does not run.
 * That this job is done, above all with -ECANCELED, does NOT say that the
 * barrier's jobs are: rnl_barrier_wait() before their memory, or the barrier's,
 * is used again.
 * @barrier: of the pool that the job will be submitted to; stays valid until
 *	the job is done.  A job comes after one barrier: another call replaces
 *	it, NULL takes it back.
 * Ordering: "every job" is every one accepted before this one's submit.
 * Return: 0; -EINVAL job is NULL or was not initialised, or the barrier is
 *	the one that the job was added to; -EBUSY the job was submitted and is
 *	not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_after(struct rnl_job *job, struct rnl_barrier *barrier);

/*
 * Submits a job; any worker may run it.
 * @job: the pool's until it is done; on failure still the caller's, and its
 *	function does not run.
 * Context: wait-free up to the wake of a sleeping worker; allocates nothing
 *	and takes no lock.
 * Ordering: what the caller wrote before is visible to the job's function;
 *	what the function wrote, and what the device wrote, to whoever sees the
 *	job done.
 * Return: 0; -EAGAIN the pool is full (the bound is kept for each worker and
 *	adds up to max_queued, rounded up); -ESHUTDOWN it was closed; -EBUSY the
 *	job was submitted before and is not done; -EIO the device has failed;
 *	-EINVAL an argument is NULL, the job was not initialised, or a barrier
 *	of it is of another pool; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_submit(struct rnl_pool *pool, struct rnl_job *job);

/*
 * As rnl_submit(); jobs with the same key run on one worker, in the order of
 * their submits, and are never stolen.
 * @key: any number: a connection, a tenant, a file.
 * Ordering: of submits by different threads, the order is that in which they
 *	happened, if one happened before the other.  A job that comes after a
 *	barrier takes its place when the barrier's last job is issued, and two
 *	such jobs have no order among them.
 * Return: as rnl_submit(); -EAGAIN when the queue of the key's worker is full.
 * Since: 0.1
 */
RNL_API int rnl_submit_keyed(struct rnl_pool *pool, struct rnl_job *job, uint64_t key);

/*
 * Submits several jobs at the price of a few: they are spread over the workers
 * in chains.
 * @jobs: array of @nr pointers; the array is the caller's after the call.
 * Return: how many were accepted, from the first on; the rest is still the
 *	caller's.  If not even the first was, its error, as rnl_submit(); 0 for
 *	nr of 0.
 * Since: 0.1
 */
RNL_API int rnl_submit_many(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr);

/*
 * Waits until a job is done.
 * Context: blocks; not on a worker of the job's own pool.
 * Ordering: all that the job did, on host and device, happens before.
 * Return: 0 done, see rnl_job_result(); -ETIMEDOUT; -EBUSY called on a worker
 *	of the job's pool, and the job is not done; -EINVAL job is NULL or was
 *	never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_wait(struct rnl_job *job, int64_t timeout_ns);

/*
 * Whether a job is done; never blocks.
 * Ordering: as rnl_job_wait() when it returns 1.
 * Return: 1 done; 0 not yet; -EINVAL job is NULL or was never submitted;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_test(struct rnl_job *job);

/*
 * The result of a job that is done: what its function returned, or
 * -ECANCELED  it came after a barrier of which a job failed;
 * -EIO        the device failed, or a CUDA call in the job did;
 * -ENOMEM, -EINVAL, -ENOTSUP, ... the same, where the CUDA code has an errno.
 * Return: that; -EBUSY the job is not done; -EINVAL job is NULL or was never
 *	submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_result(const struct rnl_job *job);

/*
 * CUDA's own code (cudaError_t) behind a job's failure.  For people and logs:
 * rnl_job_result() is what a program acts on.
 * Return: the code; 0 if there was none, or job is NULL or not done.
 * Since: 0.1
 */
RNL_API int rnl_job_device_error(const struct rnl_job *job);

/* ---- barriers ------------------------------------------------------------ */

/*
 * Joins jobs of one pool.  A job counts from the moment a submit accepts it
 * until it is done, so a refused submit leaves nothing behind.  All fields
 * belong to the library.
 */
struct rnl_barrier {
	struct rnl_pool *pool;
	uint32_t undone;	/* jobs not done << 1 | a waiter sleeps */
	uint32_t unissued;	/* the same, of jobs whose end is not yet marked */
	int32_t result;		/* of the first job that failed */
	uint32_t generation;
	void *waiting;		/* jobs to start once unissued is 0 */
	uint64_t reserved[3];
	uint64_t seq[RNL_WORKERS_MAX]; /* the last job of it on each worker */
};

/*
 * Makes a barrier of caller's memory, not while that is a barrier with jobs under
 * way.  It needs no fini.  Its memory may be
 * reused once a call on the barrier itself has told that all its jobs are done
 * (or a drain of the pool), and the jobs that come after it are done.
 * Return: 0; -EINVAL an argument is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_init(struct rnl_barrier *barrier, struct rnl_pool *pool);

/*
 * Adds a job: from its next accepted submit on, and at each later one, the
 * barrier counts it.  A job is in one barrier: another call replaces it.
 * Jobs that come after the barrier and are still put off wait for this one, too.
 * So for a next round take another barrier, or wait for this one first: a round
 * that comes, by way of others, after itself would never start.
 * Return: 0; -EINVAL an argument is NULL, the job was not initialised, or it
 *	comes after this very barrier; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_add(struct rnl_barrier *barrier, struct rnl_job *job);

/*
 * Waits on the host until every job counted so far is done; jobs that others
 * submit meanwhile prolong the wait.  The barrier may be used again afterwards;
 * one of which a job failed is to be initialised again first, as jobs that come
 * after it would be cancelled.
 * Context: blocks; not on a worker of the barrier's pool.
 * Ordering: all that the jobs did, on host and device, happens before.  The
 *	library no longer touches them: their memory may be reused.
 * Return: 0 all are done, see rnl_barrier_result(); -ETIMEDOUT; -EBUSY called
 *	on a worker of the pool, and jobs are not done; -EINVAL barrier is NULL
 *	or was not initialised; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_wait(struct rnl_barrier *barrier, int64_t timeout_ns);

/*
 * Makes the calling thread's implicit stream wait, on the device, for every
 * job counted so far; the host goes on.  What the thread issues next runs
 * after those jobs.  A thread that is not attached to a device is attached to
 * the pool's: see rnl_thread_attach().
 * Context: blocks until the jobs' functions have returned, never for the
 *	device: a stream that waited for work not yet issued could hold the
 *	hardware queue which that work needs.  On a worker of the barrier's own
 *	pool it does not block.
 * Return: 0; -EBUSY on a worker of the pool, and jobs are not issued; -EINVAL
 *	barrier is NULL or was not initialised; -EIO the device has failed;
 *	-ENODEV the calling thread is attached to another device;
 *	-ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_join(struct rnl_barrier *barrier);

/*
 * The result of the first job of the barrier that failed, 0 if none has; it
 * stays until the next rnl_barrier_init().
 * Return: that; -EINVAL barrier is NULL or was not initialised; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_result(const struct rnl_barrier *barrier);

/* ---- work on the implicit stream ----------------------------------------- */

/*
 * The functions of this section issue work to the calling thread's implicit
 * stream and return; the device does it later, in order.  A worker has such a
 * stream always, any other thread after rnl_thread_attach().  All of them return
 * -EOWNERDEAD in a forked child of a thread that was attached.
 * Inside a job, the first error becomes the job's result.
 */

struct rnl_dim {
	uint32_t x, y, z;
};

/*
 * Copies bytes, to or from the device or within it; the direction is found
 * from the pointers.
 * @dst, @src: @bytes bytes each, valid until the device has passed the copy
 *	(for a job: until it is done).  Host memory should come from
 *	rnl_pinned_get(): from pageable memory CUDA makes the caller wait.
 * Return: 0; -EINVAL a pointer is NULL and bytes is not 0, or CUDA refused
 *	it; -ENODEV the thread is attached to no device; -EIO; -ENOMEM.
 * Since: 0.1
 */
RNL_API int rnl_copy(void *dst, const void *src, size_t bytes);

/*
 * Sets @bytes bytes at @dst to @value.
 * Return: as rnl_copy().
 * Since: 0.1
 */
RNL_API int rnl_fill(void *dst, uint8_t value, size_t bytes);

/*
 * A kernel that runs on every device: a host function, and what launches its
 * CUDA twin.  RNL_HOST_KERNEL() below and RNL_KERNEL() in runnel/cuda.h
 * define one.  Its arguments are one struct, which both get whole.
 */
struct rnl_kernel {
	const char *name;
	size_t args_bytes;	/* size of the argument struct */
	/* Does the whole grid's work; NULL: not on the host device. */
	void (*host)(struct rnl_dim grid, struct rnl_dim block, const void *args);
	/* Launches it on a cudaStream_t, returns a cudaError_t; NULL: not on CUDA. */
	int (*cuda)(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream);
};

/* Defines `const struct rnl_kernel NAME` for the host device alone. */
#define RNL_HOST_KERNEL(kernel_name, host_fn, args_type) \
	extern const struct rnl_kernel kernel_name; \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, NULL \
	}

/*
 * Launches a kernel.
 * @kernel: outlives the launch.
 * @grid, @block: as CUDA's; no dimension is 0.
 * @args: the kernel's argument struct, copied before the call returns.
 * Return: 0; -EINVAL an argument is NULL, a dimension is 0, the argument
 *	struct is larger than RNL_KERNEL_ARGS_MAX, or CUDA refused the launch;
 *	-ENOTSUP the kernel has no function for this device; -ENODEV the thread
 *	is attached to no device; -EIO; -ENOMEM.
 * Since: 0.1
 */
RNL_API int rnl_launch(const struct rnl_kernel *kernel, struct rnl_dim grid,
		       struct rnl_dim block, const void *args);

/*
 * Waits on the host until the device has passed all that the calling thread
 * issued.  For threads that are not workers: a job that waits wastes its
 * worker.
 * Context: blocks.
 * Return: 0; -ETIMEDOUT; -EBUSY called inside a job; -ENODEV the thread is
 *	attached to no device; -EIO the device has failed.
 * Since: 0.1
 */
RNL_API int rnl_stream_wait(int64_t timeout_ns);

/*
 * The calling thread's implicit stream as the device knows it: a cudaStream_t
 * on CUDA, to be given to libraries that want one.  Never hand it to another
 * thread: per thread, the same handle names another stream.
 * Return: the stream; NULL on the host device, or if the thread has none.
 * Since: 0.1
 */
RNL_API void *rnl_stream(void);

/*
 * Which worker of its pool the calling thread is, from 0; -1 if it is none.
 * Since: 0.1
 */
RNL_API int rnl_worker_index(void);

/*
 * Gives the calling thread an implicit stream on the pool's device, until
 * rnl_thread_detach() or the thread's end, which on CUDA does not wait for what
 * the thread issued.  A thread that is attached to that device already, by any
 * pool, or as a worker, stays as it is.  The stream outlives the pool.
 * Return: 0; -EINVAL pool is NULL; -EBUSY the thread is attached to another
 *	device; -ENOMEM; -EAGAIN the system would not start a thread; -EIO;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_thread_attach(struct rnl_pool *pool);

/*
 * Waits for what the calling thread issued and takes its stream away.
 * Context: blocks.  Does nothing on a worker or on a thread not attached.
 * Since: 0.1
 */
RNL_API void rnl_thread_detach(void);

/* ---- memory -------------------------------------------------------------- */

/*
 * Host memory that the pool's device copies from and to without holding the
 * caller (page-locked), 64-byte aligned.
 * @bufp: receives the buffer, which is given back by rnl_pinned_put().
 * Context: may block: page-locking a megabyte takes a millisecond.  Get
 *	buffers at start and use them again.
 * Return: 0; -EINVAL an argument is NULL or bytes is 0; -ENOMEM; -EIO;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pinned_get(struct rnl_pool *pool, size_t bytes, void **bufp);

/*
 * Gives a pinned buffer back; nothing may be using it any more.
 * @buf: NULL does nothing.
 * Context: may block.
 * Since: 0.1
 */
RNL_API void rnl_pinned_put(struct rnl_pool *pool, void *buf);

/*
 * Memory of the pool's device; on the host device plain memory, 64-byte
 * aligned.
 * Context: may block.
 * Return: 0; -EINVAL an argument is NULL or bytes is 0; -ENOMEM; -EIO;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_device_alloc(struct rnl_pool *pool, size_t bytes, void **memp);

/*
 * Frees it; no job that uses it may be unfinished.
 * @mem: NULL does nothing.
 * Context: may block.
 * Since: 0.1
 */
RNL_API void rnl_device_free(struct rnl_pool *pool, void *mem);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_H */
