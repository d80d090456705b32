/* SPDX-License-Identifier: MIT */
/*
 * runnel: a pool of worker threads, each with a GPU stream of its own.
 *
 * Any thread submits jobs to a pool. A job is one function, which a worker calls. The copies,
 * fills and kernels that the function issues go to the worker's stream, in order; the function
 * does not name the stream. A job is done when its function has returned and the device has
 * passed all that the function issued. A callback, a completion queue, a barrier or a wait tells
 * the program that the job is done.
 *
 * This header has what a program needs to submit jobs, to wait for them and to be notified. The
 * other headers are included by need, and each includes this one:
 *
 *	runnel/batch.h	many small requests moved and run together
 *	runnel/cuda.h	for each unit that calls CUDA or has kernels
 *	runnel/device.h	the devices of the machine; rnl_setup()
 *	runnel/hold.h	jobs that are finished from outside
 *	runnel/kernel.h	kernels for every device, and their launch
 *	runnel/map.h	a large array streamed through the workers
 *	runnel/memory.h	pinned, device and scratch memory
 *	runnel/more.h	a job's time, order, further barriers, notices and trace id
 *	runnel/stats.h	counters, latencies and the health of a pool
 *	runnel/thread.h	streams for the program's own threads
 *
 * These may still change before version 1.0:
 *
 *	runnel/guard.h	finds functions that keep streams from running side by side
 *	runnel/replay.h	work that is gathered, or recorded and replayed
 *	runnel/trace.h	a file with what each job did, and when
 *
 * Conventions of these headers:
 *
 *   Return    0 or a count, or a negative errno. The variable errno is not used.
 *             rnl_strerror() has a text for every code.
 *   Timeouts  int64_t nanoseconds. 0 looks once and returns. RNL_FOREVER, like any negative
 *             number, waits as long as it takes. The clock that the process sees may be faked
 *             (libfaketime): it may be ahead or behind, but must go on at its ordinary rate.
 *   Context   Any thread may call any function, workers included. No function blocks unless its
 *             comment says so. No function is safe in a signal handler or in a CUDA host function.
 *             No function is a cancellation point: a pthread_cancel() has its effect after the
 *             call. (A thread that can be cancelled asynchronously must not call the library.)
 *   Fork      A forked child's calls on its parent's objects return -EOWNERDEAD: it creates its own.
 *   Structs   A struct with `size` as its first field grows at its end in later versions. Set
 *             `size` to its sizeof, as the RNL_..._INIT macros do, and leave unused fields zero.
 *
 * Words: a job is accepted when its submit returned 0; queued in a worker's queue; started when
 * its function was called; issued when its function returned; passed when the device has executed
 * what it issued; done when its result is set and the library will not touch it again. A job that
 * waits for a barrier before it is queued is deferred; one that waits for its time is delayed.
 */
#ifndef RUNNEL_H
#define RUNNEL_H

#include <stddef.h>
#include <stdint.h>

#define RNL_VERSION_MAJOR 0
#define RNL_VERSION_MINOR 2
#define RNL_VERSION_PATCH 0

#ifndef RNL_API
#define RNL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RNL_FOREVER	(-1)	/* timeout: wait as long as it takes */
#define RNL_WORKERS_MAX 1024	/* workers in one pool */
#define RNL_DEVICES_MAX 16	/* devices in one pool */

/* The object that contains `member`, from a pointer to the member. */
#ifdef __cplusplus
#define rnl_container_of(ptr, type, member) \
	static_cast<type *>(static_cast<void *>(const_cast<char *>( \
		reinterpret_cast<const char *>(ptr) - offsetof(type, member))))
#else
#define rnl_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#endif

struct rnl_pool;
struct rnl_job;
struct rnl_barrier;
struct rnl_cq;

/* ---- the library --------------------------------------------------------- */

/*
 * The version of the library that runs, as 0x00MMmmpp. The header's is RNL_VERSION_MAJOR,
 * RNL_VERSION_MINOR and RNL_VERSION_PATCH.
 * Since: 0.1
 */
RNL_API uint32_t rnl_version(void);

/*
 * The meaning of an error code, for people; of a code that is not the library's, the C library's text.
 * @err: a return value, a negative result of a job, or an errno: its sign does not matter.
 * Return: a constant string.
 * Since: 0.1
 */
RNL_API const char *rnl_strerror(int err);

/*
 * The time now: CLOCK_MONOTONIC, in nanoseconds.
 * Since: 0.1
 */
RNL_API int64_t rnl_clock(void);

enum rnl_log_level {
	RNL_LOG_ERROR = 0,	/* work failed */
	RNL_LOG_WARNING = 1,	/* work goes on, worse than it could */
	RNL_LOG_INFO = 2
};

/*
 * Receives the library's messages. Without one, errors and warnings are written to the standard error
 * output, as "runnel: error: ...", each by one write(2); a line that cannot be written is lost. For
 * silence, give a function that does nothing. Each call that is refused for a mistake is logged, with
 * the value and the remedy: each -EINVAL, -ENODEV and -ENOTSUP; the -EBUSY for a job or a request that
 * is under way, of a wait that would not end, of rnl_setup() and rnl_thread_attach(). Other errors are
 * answers, and are not logged, nor is anything for an object of a forked child's parent. Calls that
 * belong to no pool, and those that change a job or ask about one, use the log of rnl_set_log(). Of
 * lines of one kind the first 100 in a second are logged; then the log says how many were left out.
 * @arg: the attribute log_arg, or the argument of rnl_set_log().
 * @msg: one line without newline; valid during the call.
 * Context: any thread that uses the pool, workers included; several threads at once. It must not
 *	block for long, and must not call the pool.
 */
typedef void rnl_log_fn(void *arg, enum rnl_log_level level, const char *msg);

/*
 * Sets the log of the process: for pools that have no log of their own, and for calls that have no
 * pool, above all an rnl_pool_create() that fails.
 * @fn: NULL: the standard error output, as at the start.
 * @arg: argument of fn.
 * Context: call it first in main(): no other thread may be in a call of the library, and no pool
 *	without a log of its own may exist.
 * Since: 0.1
 */
RNL_API void rnl_set_log(rnl_log_fn *fn, void *arg);

/* ---- pools --------------------------------------------------------------- */

enum rnl_stream_kind {
	/*
	 * CUDA's per-thread default stream: CUDA calls of a job that name no stream go there. It
	 * is a blocking stream: it waits for the legacy default stream.
	 */
	RNL_STREAM_PER_THREAD = 0,
	/*
	 * A non-blocking stream that the library creates for the worker. It has a higher rate of
	 * jobs, and the legacy stream does not stall it. Its jobs use rnl_copy() and its siblings,
	 * or pass rnl_stream() to CUDA: work on stream 0 would not be waited for. The pool refuses
	 * functions of units that include runnel/cuda.h without RNL_NAMES_STREAM 1. It checks the
	 * first runs of each other function, and then one in some sixty, for work on stream 0. If
	 * there is some, it logs the function, and runs it on the per-thread stream from then on,
	 * in order with the worker's own: slower, and right. struct rnl_pool_stats counts such
	 * functions. Beyond 256 functions, each call is checked, and nothing is logged.
	 */
	RNL_STREAM_PRIVATE = 1
};

/*
 * Called on a worker's thread: on_start when the worker begins to serve, on_stop when it ceases
 * to serve, at the pool's end or because a resize removed the worker. The thread's implicit
 * stream exists during both calls, so on_start can create a library's handle (cuBLAS, cuFFT, ...)
 * and bind it to the stream. on_stop is called only for workers whose on_start returned 0.
 * @arg: the attribute hook_arg.
 * @worker: the worker's index.
 * @datap, @data: rnl_worker().data of this worker, which on_start stores.
 * Context: calls of several workers run at once. A hook must not wait for the pool.
 * Return: 0; a negative errno fails the pool's creation or its resize.
 */
typedef int rnl_worker_start_fn(void *arg, unsigned worker, void **datap);
typedef void rnl_worker_stop_fn(void *arg, unsigned worker, void *data);

struct rnl_pool_attr {
	uint32_t size;		/* sizeof(struct rnl_pool_attr) */
	uint32_t nr_workers;	/* one at least for each device; with nr_urgent at most
				 * RNL_WORKERS_MAX; 0: the CPUs that the process may use, by its
				 * affinity and the quota of its control groups (cpu.max; 1.5 CPUs
				 * count as 2), and at most 8 for each device */
	/*
	 * "cuda" or "cuda:N", one GPU; "cuda:0,2", several; "cuda:all"; "host"; "host:N", N host
	 * devices, for tests of what several devices do; NULL or "auto": "cuda" if a GPU answers,
	 * else "host", and the log says why. Worker i has device i % n of n, for its life. With
	 * several, unkeyed jobs go to workers with room, on any device. If one fails, so do all:
	 * CUDA's contexts in a process do not outlive each other.
	 */
	const char *device;
	uint32_t stream;	/* enum rnl_stream_kind */
	uint32_t max_queued;	/* queued jobs in the pool; deferred jobs have a limit of this
				 * number to themselves; 0: 65536 */
	uint32_t max_in_flight;	/* jobs that a worker has on the device; 0: 64; at most 1000 */
	int32_t spin_us;	/* time that a thread spins before it sleeps; 0: chosen by the CPUs, as
				 * nr_workers; -1: none */
	uint32_t watchdog_ms;	/* in which a failure that CUDA reports is noticed; 0: 100 */
	uint32_t nr_urgent;	/* workers for urgent jobs only: RNL_URGENT; one at least for
				 * each device, or none */
	rnl_log_fn *log;	/* NULL: the log of rnl_set_log() */
	void *log_arg;
	uint32_t stuck_ms;	/* after it a worker is stuck: rnl_pool_health(); 0: 1000 */
	uint32_t time_every;	/* one job in time_every is timed, at random, for
				 * rnl_pool_read_stats(); rounded up to a power of two; 0: 64 */
	const char *name;	/* workers are called NAME-0, ..., their host streams NAME:0, ..., the
				 * timer thread NAME-timer, a trace's writer NAME-trace; of its UTF-8 characters
				 * those that fit into 15 bytes are used; NULL: "rnl-worker" */
	const uint16_t *cpus;	/* worker i runs on CPU cpus[i % nr_cpus] only, and so does the
				 * thread of its host stream; NULL: on any CPU */
	uint32_t nr_cpus;	/* 0 if cpus is NULL */
	uint32_t guard;		/* enum rnl_guard */
	rnl_worker_start_fn *on_start; /* may be NULL */
	rnl_worker_stop_fn *on_stop; /* may be NULL */
	void *hook_arg;		/* argument of on_start and on_stop */
	uint64_t pinned_max;	/* bytes that the pool page-locks at most, for rnl_memory_get()
				 * and for its own staging; 0: a quarter of the memory */
	uint64_t pinned_preload; /* bytes that the pool page-locks when it is created. On a GPU,
				 * several threads touch 64 MiB or more, which is registered
				 * then: it counts as the process's own memory (cgroups) */
	uint64_t staging_max;	/* bytes of pageable copies that a worker has under way before
				 * rnl_copy() waits; 0: 32 MiB */
	uint64_t scratch_keep;	/* bytes of scratch that a worker keeps; 0: 64 MiB */
	uint64_t in_flight_ns;	/* a worker that has two jobs on the device starts another one only
				 * if those there keep the device busy for less than this, by what
				 * jobs with their functions took before; 0: 1000000, a ms;
				 * UINT64_MAX: only max_in_flight bounds them */
	const char *top;	/* path of a local socket for `runnel top PATH`, of 107 bytes at most,
				 * not in a directory where others may create files. Only the user
				 * and root can connect. A socket that a killed program left there is
				 * replaced, nothing else is. NULL: none */
};
#define RNL_POOL_ATTR_INIT \
	{ sizeof(struct rnl_pool_attr), 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, \
	  NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL }

/*
 * Creates a pool and starts its workers, and one more thread, the timer thread, which sleeps until a
 * queued job is cancelled or late.
 * @poolp: receives the pool; unchanged on failure.
 * @attr: copied; NULL means all defaults.
 * Context: blocks until every worker is attached to its device. The library's threads block all
 *	signals but SIGPROF and the synchronous ones (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 *	SIGSYS), whatever the caller's mask is. So the application's handler is called for a fault
 *	in a job, on the worker.
 * Return: 0, and rnl_pool_destroy() must be called for the pool later; the error of on_start, or of
 *	socket(2), bind(2) (-EADDRINUSE) or listen(2) for `top`, which is logged; -EINVAL on_start
 *	than 0, poolp is NULL, an attribute is out of its range, attr is too short or its size was
 *	not set, the device's name is unknown, or the process may not run on one of the CPUs; -E2BIG
 *	attr is newer than the library and has a field set that the library does not know; -ENODEV
 *	no such device; -ENOMEM; -EAGAIN the system started no more threads; -ENOTSUP it refuses
 *	threads, or to keep them on a CPU, as a filter of system calls does (seccomp): the log says
 *	what; -EIO the device failed. On failure there is nothing to clean up.
 * Since: 0.1
 */
RNL_API int rnl_pool_create(struct rnl_pool **poolp, const struct rnl_pool_attr *attr);

/*
 * Changes the number of workers that serve the pool, urgent workers not counted. Other threads
 * may submit meanwhile. A worker that leaves completes the jobs that it has started, and others
 * steal those in its queue. Its thread and its stream are kept for when the pool grows again, because
 * CUDA does not give the memory of a per-thread stream back. max_queued is divided among the new
 * number of workers. Jobs with a key keep their order: those accepted after the change start when
 * all those accepted before it are done.
 * @nr_workers: at least one for each device; with the urgent workers at most RNL_WORKERS_MAX.
 * Context: blocks until the new workers serve, the jobs on the leaving workers are done, and so are
 *	all jobs with a key that were accepted before the change. Not on a worker of the pool.
 *	Resizes by several threads happen one after another.
 * Return: 0; the error of on_start, which is logged; -EINVAL on_start returned more than 0, pool is
 *	NULL, or nr_workers is out of its range; -EBUSY called on a worker of the pool; -ESHUTDOWN
 *	the pool is closed; -ENOMEM, -EAGAIN, -ENOTSUP, -EIO a worker could not start, as in
 *	rnl_pool_create(); -EOWNERDEAD. On failure the pool is unchanged.
 * Since: 0.1
 */
RNL_API int rnl_pool_resize(struct rnl_pool *pool, unsigned nr_workers);

/*
 * Refuses further jobs: a submit returns -ESHUTDOWN from now on. Jobs that are queued or started go
 * on. Delayed jobs and waiting notices complete with -ECANCELED, but for notices for RNL_EMPTY,
 * which are accepted after a close as well. To close a pool twice is no error.
 * Ordering: a submit that returned 0 before this call was accepted. A submit that runs beside this
 *	call is either accepted or refused.
 * Return: 0; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_close(struct rnl_pool *pool);

/*
 * Cancels all jobs that have not started: those that are queued, that are delayed, that wait for
 * a barrier, and notices. Each completes with -ECANCELED, as by rnl_job_cancel(). The jobs of maps go
 * on, as do the requests of batchers, and jobs that are submitted after this call.
 * Context: its time does not depend on the number of jobs.
 * Ordering: a job whose submit or start runs beside this call is cancelled or not.
 * Return: how many jobs have not started, with the jobs of maps and batchers, notices for RNL_SPACE,
 *	and jobs that were cancelled earlier but have not completed yet; an estimate if other threads
 *	submit or start jobs meanwhile; INT_MAX if more; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_cancel(struct rnl_pool *pool);

/*
 * Waits until every accepted job is done, but for delayed jobs and notices that still wait. If
 * other threads submit jobs meanwhile, the wait takes longer.
 * Context: blocks, also for jobs whose holds nobody has released. Not on a worker of the pool.
 * Ordering: all that the jobs did, on host and device, happens before the return. A job that goes
 *	to a completion queue is in the queue then, and done when it is reaped.
 * Return: 0; -ETIMEDOUT jobs remain; -EBUSY called on a worker of the pool; -EINVAL pool is NULL;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_drain(struct rnl_pool *pool, int64_t timeout_ns);

/*
 * Ends a pool's work within a time: closes it, cancels all jobs that have not started, and waits
 * for the others. From now on rnl_job_is_cancelled() tells their functions to return early, and a
 * map issues no more chunks: it ends with -ECANCELED. The requests of batchers go on.
 * @timeout_ns: after it the call returns; 0: at once. The pool still exists then, and the call may
 *	be repeated. rnl_pool_destroy() is due in any case; it waits for what is left.
 * Context: blocks. On a worker of the pool it does not wait.
 * Ordering: as rnl_pool_close(), rnl_pool_cancel() and rnl_pool_drain().
 * Return: 0 all jobs are done; -ETIMEDOUT jobs remain; -EBUSY called on a worker of the pool, which
 *	is closed and its jobs cancelled; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_stop(struct rnl_pool *pool, int64_t timeout_ns);

/*
 * Closes the pool, drains it, ends its workers, and frees it. If the device has failed, the
 * workers' threads remain, asleep: CUDA may not return from the end of such a thread.
 * @pool: may be NULL. No other call on the pool, and no wait for its jobs or cancel of its jobs,
 *	may run at the same time. Afterwards a job that is done may still be passed to rnl_job_wait(),
 *	_cancel() and _is_cancelled(), and to a submit of another pool; a job in a completion
 *	queue may be reaped. Pinned buffers are gone. Put memory of a device back first.
 * Context: blocks until all jobs are done: a hold that is never released keeps it waiting for ever.
 *	It logs a warning after stuck_ms with holds. rnl_pool_stop() waits for a time, and then
 *	rnl_pool_health() lists them; a deadline of the job ends its holds. On a worker of the pool
 *	it only closes the pool and logs an error, because a thread cannot wait for its own end.
 * Since: 0.1
 */
RNL_API void rnl_pool_destroy(struct rnl_pool *pool);

/* ---- jobs ---------------------------------------------------------------- */

/*
 * A job: one host function that issues device work. A job is a member of a struct of the program's
 * own and needs no allocation. Its memory must stay valid until the job is done. `user` belongs to
 * the program from rnl_job_init() on. `result` and `device_error` may be read while the job is done;
 * all other fields belong to the library. The result is what the job's function returned, or
 * -ECANCELED  it was cancelled, or a job of a barrier before it failed;
 * -ETIMEDOUT  it was not started by its deadline;
 * -EIO        the device failed, or a CUDA call in the job failed;
 * -ENOMEM, -EINVAL, -ENODEV, -ENOTSUP  a CUDA call in the job failed, and CUDA's code has an errno;
 * -ENOTSUP    its function does what the strict guard forbids: enum rnl_guard.
 */
struct rnl_job {
	int (*fn)(struct rnl_job *job);
	struct rnl_pool *pool;
	void *link;		/* the next job of the one list that the job is on */
	uint32_t state;
	uint32_t generation;
	uint32_t flags;
	uint8_t phase;
	uint8_t rounds;		/* of its barriers */
	uint16_t worker;
	int32_t result; /* when the job is done */
	union {
		uint32_t cancels; /* of all jobs, before its submit; until it is started */
		int32_t device_error; /* when the job is done with a negative result: CUDA's code
				       * (cudaError_t) for it, or 0; for people and logs */
	};
	struct rnl_barrier *barrier;
	union {			/* flags say which */
		struct rnl_barrier *after;
		struct rnl_job_more *more;
	};
	union {			/* flags say which */
		struct rnl_cq *cq;
		void (*on_done)(struct rnl_job *job);
	};
	struct rnl_job *then;	/* the next job of its chain */
	uint64_t key;
	uint64_t deadline_ns;
	union {
		uint64_t submit_ns; /* until its function has returned */
		uint64_t seq;	/* from then on: its sequence on the worker's stream */
		void *waiting;	/* while it waits for its holds: its place among them */
	};
	void *user;		/* the program's */
	union {
		uint32_t producer; /* until its function is called */
		uint32_t holds;	/* from then on: those not released, and one of the worker's */
	};
	uint16_t staff;		/* its generation, of a keyed job */
	uint8_t device;		/* of its pool, if it is placed on one; and a bit */
	uint8_t request;	/* the state of a batcher's request */
	uint64_t reserved;
};

/*
 * Makes a job. `user` is NULL afterwards.
 * @job: memory of the program; not a job that was submitted and is not done.
 * @fn: NULL: the job is a notification only, rnl_barrier_notify(), enum rnl_when, or of a batcher's
 *	request. Else a worker
 *	calls it once for each accepted submit. It issues work to the worker's implicit stream and
 *	returns without waiting for that work. Its return value becomes the job's result: 0 or a
 *	positive number of its own, or a negative errno, and then the job has failed. A positive
 *	errno (return EIO) is a value: the job succeeds; the pool's log says so of the first positive
 *	result. If an rnl_copy(), rnl_fill() or rnl_launch() in it failed, the job fails, whatever
 *	the function returned; and so it does if a CUDA call or a <<<...>>> failed, provided that
 *	the unit of that call, or one that uses the same copy of the CUDA runtime, includes
 *	runnel/cuda.h. The function must not wait: while it runs, no other job of its worker can
 *	become done. It leaves the thread's current CUDA device as it was. It returns: if it ends
 *	its thread (pthread_exit()), its job and those after it are never done, and
 *	rnl_pool_health() reports a stuck worker; a C++ exception that leaves it ends the process
 *	(std::terminate()). A pthread_cancel() of a worker has no effect.
 * A job that is done may be submitted again without another rnl_job_init(). What was set stays.
 * Return: 0; -EINVAL job is NULL.
 * Since: 0.1
 */
RNL_API int rnl_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job));

/*
 * Makes the job come after a barrier: after the jobs that the barrier counts when this job is
 * submitted. The job starts when they have been issued, and its stream waits on the device for
 * their streams; no host thread blocks. A barrier that counts no job, or no job yet, holds nothing
 * back, and nothing is logged, as the library cannot know that jobs are to follow: submit the
 * barrier's jobs before this one.
 * If a job of the barrier has failed by then, this job completes with -ECANCELED, and its function
 * is not called; so do the jobs after it in their turn. The cause is the result of the first
 * barrier. A job that copies to pageable memory counts as issued when it is done, because a CPU
 * does its last step.
 * This job is never done before the jobs that it comes after, also if it was cancelled, or missed
 * its deadline: its end says that their memory may be reused.
 * @barrier: a barrier of the pool that the job will be submitted to; valid until the job is done.
 *	It replaces an earlier one. NULL removes it. For several: struct rnl_job_more.
 * Ordering: the barrier counts every job that was accepted before this job's submit. All that
 *	these jobs did happens before this job is done.
 * Return: 0; -EINVAL job is NULL or was not initialised, or was added to this very barrier; -EBUSY
 *	the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_set_after(struct rnl_job *job, struct rnl_barrier *barrier);

/*
 * Makes a job the next one of a chain, of any length. A submit of the first job accepts the whole
 * chain, or refuses it; the others are not submitted. When a job has been issued, its worker calls
 * the next one's function at once, on the same stream: the next job works on what this one leaves
 * on the device, and nothing waits on host or device between them. Each has its own result,
 * barrier, callback or queue, and is done after the one before it. The next job starts when this
 * one is done, rather than issued, if this one has holds, copies to pageable memory, or comes after
 * a barrier.
 * If a job's function or a hold of it fails, or it is cancelled or late, the later ones complete
 * with -ECANCELED. Jobs that wait for their turn count as queued. A cancel, or the deadline, of
 * such a job has its effect at its turn; deadlines count from the submit. The chain has the urgency,
 * the key and the device of its first job, and for rnl_pool_resize() only that job has the key. If
 * the first job waits for its time, a drain waits for the others, and so for the first one.
 * @job: has at most one next job; another call replaces it.
 * @next: is next to no other job, and comes after no barrier. NULL: the chain ends with the job.
 *	It stays set: a later submit of the job submits both again.
 * Return: 0; -EINVAL a job is NULL or was not initialised, or both are one, or `next` is of a
 *	batcher's request, which is logged; -EBUSY one of them was submitted and is not done;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_set_then(struct rnl_job *job, struct rnl_job *next);

/*
 * Sets a callback for when the job is done, whatever its result. A worker calls it once for each
 * accepted submit, after the device has passed the job. If the job's function was not called, the
 * pool's own thread, the timer thread, may call it: there rnl_worker().index is -1, the thread has no
 * stream, and meanwhile the pool starts no delayed job and no notice, and completes no other
 * cancelled or expired job. Where a comment says "on a worker of the pool", the timer thread is one.
 * @fn: owns the job: it may submit it again or free it. It may call every function except a
 *	blocking wait on its own pool. Work that it issues to the stream belongs to no job. While it
 *	runs, its worker does nothing else. NULL removes a callback.
 * A return from rnl_job_wait() does not mean that the callback has run: the waiting thread must not
 * free the job. Barriers and drains count the job until the callback has returned.
 * Return: 0; -EINVAL job is NULL, was not initialised, or has a completion queue; -EBUSY the job
 *	was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_set_on_done(struct rnl_job *job, void (*fn)(struct rnl_job *job));

/*
 * Sets the completion queue that the job goes to after the device has passed it. The job is done,
 * and the program's again, when it is reaped there.
 * @cq: valid until the job is reaped; NULL removes the queue.
 * Return: 0; -EINVAL job is NULL, was not initialised, or has a callback; -EBUSY the job was
 *	submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_set_cq(struct rnl_job *job, struct rnl_cq *cq);

/*
 * Sets a deadline for the job's start. If the job has not started @timeout_ns after its submit,
 * its function is not called, and the job completes with -ETIMEDOUT. A job that has started runs
 * to its end, but its holds do not last longer: rnl_job_hold(). A queued job completes within 10 ms
 * of its deadline, also while all workers are busy, if the timer thread gets a CPU and no queue has tens of
 * thousands of jobs. A job that comes after a barrier completes when a worker takes it.
 * @timeout_ns: counted from each submit; negative: no deadline.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_set_deadline(struct rnl_job *job, int64_t timeout_ns);

enum rnl_job_flags {
	/*
	 * In a pool with urgent workers (attribute nr_urgent) one of them runs the job, on a stream
	 * of the highest priority that the device has. On the host device, which has no priorities,
	 * all workers take urgent jobs first. In a pool without urgent workers, the job is taken
	 * before the other jobs in its worker's queue. A device's priorities apply to kernels, not
	 * to copies: cudaStreamCreateWithPriority().
	 */
	RNL_URGENT = 1
};

/*
 * Sets a job's flags.
 * @flags: of enum rnl_job_flags and enum rnl_replay_flags (runnel/replay.h); they replace all that
 *	were set.
 * Return: 0; -EINVAL job is NULL or was not initialised, or a flag is unknown, or both ways of
 *	replay are set; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.2
 */
RNL_API int rnl_job_set_flags(struct rnl_job *job, unsigned flags);

/*
 * Places the job on a device of its pool: one of that device's workers runs it, also if it has a key
 * or is urgent. An unplaced job may run on any device of the pool, so what it does must not depend
 * on the device; rnl_worker().device is that device.
 * @device: its number in the pool; -1: none, as at the start. In a pool of one device it is 0.
 * Return: 0; -EINVAL job is NULL or was not initialised, or device is out of range, which is logged;
 *	-EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_set_device(struct rnl_job *job, int device);

/*
 * Gives a job a key, for this submit and later ones. One worker runs all jobs with one key, in the
 * order of their submits. They are never stolen.
 * In a pool of several devices a key has a device, by rendezvous hashing: a resize does not change
 * it, and with more devices a key keeps its device or goes to one of the new ones. A placed job has
 * a worker of its own device, so jobs of one key that are placed on different devices have no order.
 * An urgent job cannot have a key, because it overtakes other jobs.
 * @key: any number: a connection, a tenant, a file. RNL_KEY_WORKER(i) is a key, too. RNL_KEY_NONE takes
 *	the job's key away.
 * Ordering: the order of submits by different threads is the order in which they happened, if one
 *	happened before the other. A job that comes after a barrier gets its place when the last
 *	job of the barrier is issued; two such jobs have no order, but by a struct rnl_order. Jobs that
 *	have a time are queued in the order of their times.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.2
 */
RNL_API int rnl_job_set_key(struct rnl_job *job, uint64_t key);

/*
 * Keys that say which worker, i from 0 to RNL_WORKERS_MAX - 1, modulo the number of workers, urgent
 * ones not counted: computing and communication, or the stages of a pipeline, never share a stream
 * by chance. Other keys may lead to the same workers. For a placed job, i counts its device's workers.
 */
#define RNL_KEY_WORKER(i) (UINT64_MAX - UINT64_C(1) * (i))
#define RNL_KEY_NONE (UINT64_MAX - RNL_WORKERS_MAX)

/*
 * Submits a job, as it was set. Without a key any worker may run it, and jobs start in no order,
 * whatever the number of workers. rnl_job_set_key(), rnl_job_set_then(), rnl_job_set_after() and
 * struct rnl_order give jobs an order. The later jobs of its chain are submitted with it, all or
 * none; the first error is returned.
 * @job: belongs to the pool until it is done. On failure it remains the caller's, and its function
 *	is not called.
 * Context: wait-free, except for the wake of a sleeping worker, or of a thread in
 *	rnl_submit_wait(), for which it takes a lock; allocates nothing.
 * Ordering: what the caller wrote before is visible to the job's function. What the function and
 *	the device wrote is visible to each thread that knows by a wait, a callback or a reap that the
 *	job is done. Short jobs of one worker may complete together, after the last of them: so a
 *	kernel must not wait for what the program does when another job completes, unless
 *	max_in_flight is 1.
 * Return: 0;
 *	-EAGAIN a limit is reached, and passes by itself: the pool is full, of whose max_queued each
 *	worker's queue has a part, rounded up, so a key's worker may be full alone (an event loop
 *	submits the job again after its next reap, or its notice for RNL_SPACE); or a thread waits in
 *	rnl_submit_wait() for the same kind of place, as a deferred job or for the later jobs of a
 *	chain; or the job's barrier counts 2^24 jobs that are not issued, or 2^30 that are not done;
 *	or the job comes after a barrier with seven rounds under way: rnl_barrier_add();
 *	-ESHUTDOWN the pool is closed; -EBUSY the job was submitted before and is not done; -EIO the
 *	device has failed; -ENODEV the pool is on the host device, and the function's unit says
 *	RNL_NEEDS_CUDA, which is logged; -EOWNERDEAD;
 *	-EINVAL, which is logged: pool or job is NULL; the job was not initialised, has no function,
 *	is of a batcher's request, or is placed on a device that the pool lacks; its barrier or order
 *	is of another pool; it has a key and is urgent; rnl_job_set_more() refuses what it has; a later
 *	job of its chain comes after a barrier or has a key, an order or a time; the chain is a circle,
 *	or longer than max_queued.
 * Since: 0.1
 */
RNL_API int rnl_submit(struct rnl_pool *pool, struct rnl_job *job);

/*
 * Submits a job as rnl_submit() does; while the pool is full, it waits for space. With long queues
 * (3,200 jobs for each worker) the wait takes at least 20 to 200 us: at most an eighth of a queue
 * empties in that time. Places for deferred jobs, and for the later jobs of chains, are given to
 * waiting threads first, in first-in, first-out order for each kind: a stream of short chains cannot
 * starve a long one. A thread that times out loses its turn.
 * Context: blocks, except on a worker of the pool and with a timeout of 0.
 * Return: as rnl_submit(); -ETIMEDOUT there was no space in time, and the job remains the caller's;
 *	-EAGAIN called on a worker of the pool, and the pool is full; -ESHUTDOWN also if the pool was
 *	closed meanwhile.
 * Since: 0.1
 */
RNL_API int rnl_submit_wait(struct rnl_pool *pool, struct rnl_job *job, int64_t timeout_ns);

/*
 * Submits several jobs at the cost of a few. They are spread over the workers in rows.
 * @jobs: array of @nr pointers; not used after the call.
 * Return: the number of accepted jobs; the jobs from that index on remain the caller's; 0 if nr is
 *	0. If the first job was not accepted, its error: as rnl_submit().
 * Since: 0.1
 */
RNL_API int rnl_submit_many(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr);

/*
 * Cancels a job that has not started: its function will not be called, and the job completes with
 * -ECANCELED, within 10 ms if it is queued or a notice: rnl_job_set_deadline() says more. Until then
 * it belongs to the pool. A cancel and a start exclude each other: if this call returns 0, the
 * function does not run.
 * Return: 0 the job completes with -ECANCELED, also if it was cancelled before, by itself or with
 *	all jobs; -EBUSY the job is not done, and has started: its function may learn of the cancel
 *	by rnl_job_is_cancelled(); or a worker or the timer thread is completing it without a call, as it
 *	is late, was cancelled, or comes after a barrier with a job that failed; -EALREADY the job is
 *	done, or waits in its completion queue; -EINVAL job is NULL or was never submitted;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_cancel(struct rnl_job *job);

/*
 * Whether a job's function should return early. One that takes long asks from time to time, and
 * then returns a result of its own choice. What it has issued to the device goes on.
 * @job: the caller's own, or one that the caller knows to be not done.
 * Return: 1 rnl_job_cancel() was called for the job, or rnl_pool_stop() for its pool; 0 neither
 *	(rnl_pool_cancel() shows in the result alone), or the job is done; -EINVAL job is NULL or
 *	was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_is_cancelled(const struct rnl_job *job);

/*
 * Waits until a job is done. A job that goes to a completion queue is done when it is reaped;
 * rnl_cq_reap() waits for such a job. A wait with RNL_FOREVER for it is refused, as it would never
 * return if no thread reaped.
 * Context: blocks. A worker of the job's pool does not wait: it looks whether the job is done.
 * Ordering: all that the job did, on host and device, happens before a return of 0.
 * Return: 0 the job is done, and `result` is set; -ETIMEDOUT; -EBUSY the job is not
 *	done, and the call was made on a worker of its pool, or with RNL_FOREVER for a job that goes
 *	to a completion queue; -EINVAL job is NULL or was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_wait(struct rnl_job *job, int64_t timeout_ns);

/* ---- completion queues --------------------------------------------------- */

/*
 * Creates a completion queue, which hands jobs to a thread that also waits for other things: an event
 * loop. Jobs of several pools may use one queue, and jobs of one pool several. It has no limit: it
 * holds only jobs that the program has submitted. One thread reaps at a time; meanwhile jobs arrive.
 *
 * Its file descriptor is a hint that says "reap now". It is armed when the queue is created, and
 * when a reap finds the queue empty. An armed descriptor becomes readable, by one write, when the
 * next job comes. With an edge-triggered poll, reap until a call returns fewer jobs than it asked for.
 * With a level-triggered poll one reap each time is enough, and more of them save polls. The
 * descriptor may be readable although a reap returns 0.
 * @cqp: receives the queue; unchanged on failure.
 * Return: 0; -EINVAL cqp is NULL; -ENOMEM; -EMFILE, -ENFILE no file descriptor is left; -ENOTSUP the
 *	system refuses eventfd2, which is logged.
 * Since: 0.1
 */
RNL_API int rnl_cq_create(struct rnl_cq **cqp);

/*
 * Reaps the jobs that are still in the queue, and frees the queue. In a forked child, it frees the
 * child's copy of the parent's queue, with its descriptor, and does nothing else.
 * @cq: may be NULL. No job that uses the queue is under way, and no thread reaps.
 * Context: may wait for a worker's last write to the descriptor.
 * Since: 0.1
 */
RNL_API void rnl_cq_destroy(struct rnl_cq *cq);

/*
 * The queue's file descriptor, to be polled for reading: an eventfd, non-blocking and
 * close-on-exec. It belongs to the queue: do not read from it, and do not close it.
 * Return: the descriptor; -EINVAL cq is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_cq_fd(struct rnl_cq *cq);

/*
 * Takes jobs off the queue, and waits for the first one. Each job is done then, and the program's
 * again.
 * @jobs: receives up to @max jobs, in the order in which they came to the queue.
 * Context: blocks, unless the timeout is 0; a signal does not end the wait. On a worker of the pool
 *	whose jobs it waits for, it can wait for ever.
 * Ordering: all that the jobs did, on host and device, happens before the return.
 * Return: the number of jobs, 0 if none came in time. If it is less than max, the queue was empty,
 *	and the descriptor is armed. -EBUSY another thread is reaping; -EINVAL cq or jobs is NULL, or
 *	max is 0; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_cq_reap(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max, int64_t timeout_ns);

/* ---- barriers ------------------------------------------------------------ */

/*
 * A barrier joins jobs of one pool. It counts a job from the submit that accepts the job until the
 * job is done; a refused submit changes nothing. `result` may be read when a wait has returned 0: the
 * result of the first job that failed, or 0, until the next rnl_barrier_init(). All other fields
 * belong to the library.
 */
struct rnl_barrier {
	struct rnl_pool *pool;
	uint64_t open;		/* the open round: its slot, its counts */
	int32_t result;
	uint32_t generation;
	uint64_t others;	/* workers without a place, by their index % 64 */
	uint64_t waiting[8];	/* of each round: the jobs that wait for it, and its state */
	uint64_t counts[8];	/* of a round that is no longer open */
	uint32_t users[8];	/* of a round's slot, and the slot of the round that came next */
	uint32_t slots;		/* those in use, a bit each */
	uint32_t reserved;
	uint32_t places[8];	/* the barrier's last job on each of the first workers */
};

/*
 * Makes a barrier. It needs no destroy.
 * @barrier: memory of the program; not a barrier that counts jobs. The memory may be reused when the
 *	jobs that come after the barrier are done, and rnl_barrier_wait() has returned 0. That the
 *	barrier's own jobs are done is not enough: a worker counts them off afterwards, even after a
 *	job's callback. A drain of the pool, or the end of a job of rnl_barrier_notify(), is enough.
 * Return: 0; -EINVAL barrier or pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_init(struct rnl_barrier *barrier, struct rnl_pool *pool);

/*
 * Adds a job to the barrier: the barrier counts it at its next accepted submit, and at each later
 * one. A job is in one barrier; another call replaces it.
 * A barrier is used in rounds: the submit of a job that comes after it ends a round, and the next
 * job that the barrier counts begins another one. A job after waits for the rounds that were begun
 * before, so two barriers may be used alternately: stage after stage of a pipeline is submitted,
 * each after the other barrier, and no host waits. With seven ended rounds under way, the submit of
 * another job after is refused with -EAGAIN, and rnl_submit_wait() waits.
 * Return: 0; -EINVAL barrier or job is NULL, the job was not initialised, or it comes after this
 *	very barrier, by rnl_job_set_after(); -EBUSY the job was submitted and is not done;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_add(struct rnl_barrier *barrier, struct rnl_job *job);

/*
 * Waits on the host until every counted job is done. If other threads submit jobs of the barrier
 * meanwhile, the wait takes longer. The barrier may be used again afterwards. If one of its jobs
 * failed, initialise it first: otherwise jobs that come after it would be cancelled.
 * Context: blocks. Not on a worker of the barrier's pool.
 * Ordering: all that the jobs did, on host and device, happens before the return. The library no
 *	longer touches the jobs, and their memory may be reused. A job that goes to a completion
 *	queue may be reused when it is reaped.
 * Return: 0 all are done, and the field `result` is set; -ETIMEDOUT; -EBUSY called on a worker of the
 *	pool, and jobs are not done; -EINVAL barrier is NULL or was not initialised; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_wait(struct rnl_barrier *barrier, int64_t timeout_ns);

/*
 * Makes the calling thread's implicit stream wait, on the device, for every counted job. Work that
 * the thread issues next runs after those jobs, whichever device they are on. If the thread is
 * attached to no device, it is attached to the pool's: rnl_thread_attach().
 * Context: blocks until the jobs are issued; maps, and jobs that copy to pageable memory, count as
 *	issued when they are done. For the device it waits only while jobs are queued behind as
 *	much as a worker has there at once: in_flight_ns. A stream that waited for work not yet
 *	issued could occupy the hardware queue that this work needs. On a worker of the barrier's
 *	pool it does not block.
 * Return: 0; -EBUSY called on a worker of the pool, and jobs are not issued; -EINVAL barrier is
 *	NULL or was not initialised; -EIO the device has failed; -ENODEV the calling thread is
 *	attached to a device that is none of the pool's; -EAGAIN the system started no more threads;
 *	-ENOTSUP it refuses threads; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_join(struct rnl_barrier *barrier);

/*
 * Has a job notify that all jobs which the barrier counts now are done: an event loop learns of a
 * fan-in, and no thread waits. The call ends the barrier's round, as the submit of a job after the
 * barrier does, and the job is done when the round is over. Its function is not called, and may be
 * NULL. It goes to its completion queue, or its callback is called, once for each call;
 * rnl_job_wait() waits for it as for any job. Its result is 0, or that of the first job of the
 * barrier that failed. Nothing is started on a device, and no worker runs anything.
 * @job: initialised; in no barrier, after none, first of no chain. It is the pool's until it is done.
 * Context: any thread. A callback runs on the worker that ended the round, or on the timer thread. The job
 *	is counted as queued. A cancel of it returns -EBUSY, and changes nothing.
 * Ordering: all that the counted jobs did, on host and device, happens before the job is done. The
 *	library no longer touches them, and if it counts no others, nor the barrier.
 * Return: 0; -EAGAIN the barrier has as many ended rounds under way as it may: rnl_barrier_add(), or
 *	counts too many jobs, or max_queued jobs wait so; -ESHUTDOWN the pool is closed; -EBUSY the
 *	job was submitted and is not done; -EINVAL barrier or job is NULL or was not initialised, or
 *	the job is in a barrier, after one, or has a next job in a chain; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_notify(struct rnl_barrier *barrier, struct rnl_job *job);

/* ---- work on the implicit stream ----------------------------------------- */

/*
 * Copies, fills and launches (runnel/kernel.h) go to the calling thread's implicit stream, and return.
 * The device does them later, in this order. A worker always has a stream; any other thread has one
 * after rnl_thread_attach(). In a job, the first error becomes the job's result.
 */

/*
 * Copies bytes between host and device, within or between devices, or from host to host. The
 * pointers tell the direction.
 * @dst, @src: @bytes bytes each; they do not overlap.
 * Until the device has passed the copy, in a job until it is done, both must stay valid, @src is not
 * written to, and @dst is not read.
 * The device copies page-locked memory, such as a pinned buffer of rnl_memory_get(), by itself. Pageable
 * memory (malloc, the stack, a mapped file) is staged: a CPU copies it in pieces through
 * page-locked memory of the pool. In a job, @src is read before the call returns, and the worker
 * writes @dst before the job is done. The call returns at once, unless the worker has staging_max
 * bytes, or some 1000 copies, under way, or a staged copy must still write what this call reads.
 * CUDA does two kinds of copies while the caller waits, after all work on the stream: those from
 * host to host, and those of pageable memory outside of a job.
 * Ordering: with all that this thread issues. A kernel that reaches pageable memory by itself has
 *	no order with copies of that memory.
 * Return: 0; -EINVAL a pointer is NULL and bytes is not 0, or CUDA refused the copy; -ENODEV the
 *	thread is attached to no device; -EIO; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_copy(void *dst, const void *src, size_t bytes);

/*
 * Copies a rectangle, as rnl_copy(): row i from src + i * src_pitch to dst + i * dst_pitch.
 * @width: bytes of a row.
 * @dst_pitch, @src_pitch: bytes from one row to the next; at least width, and less than 2 GiB.
 * Return: as rnl_copy(); -EINVAL also if a pitch is out of its range.
 * Since: 0.1
 */
RNL_API int rnl_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			size_t width, size_t rows);

/*
 * Sets @bytes bytes at @dst to @value.
 * @dst: memory of the device, or page-locked memory; valid until the device has passed the fill.
 * Return: as rnl_copy(); -EINVAL also for pageable memory.
 * Since: 0.1
 */
RNL_API int rnl_fill(void *dst, uint8_t value, size_t bytes);

/*
 * The calling thread's implicit stream: on CUDA a cudaStream_t, for libraries that take one. Do not
 * give it to another thread: with per-thread streams, a handle names another stream there.
 * Return: the stream; NULL on the host device, on a thread that has none, and in a forked child.
 * Since: 0.1
 */
RNL_API void *rnl_stream(void);

struct rnl_worker_info {
	int index;		/* from 0 to RNL_WORKERS_MAX - 1; urgent workers have the first ones */
	int device; /* its number in the pool: rnl_device_describe(), rnl_job_set_device() */
	void *data;		/* what the pool's on_start stored */
};

/*
 * The calling thread as a worker of its pool.
 * Return: the worker; index and device are -1, and data is NULL, if the thread is no worker.
 * Since: 0.2
 */
RNL_API struct rnl_worker_info rnl_worker(void);

#ifdef __cplusplus
}
#endif

#endif /* RUNNEL_H */
