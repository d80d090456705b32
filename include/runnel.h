/* SPDX-License-Identifier: MIT */
/*
 * runnel: a pool of worker threads, each with a GPU stream of its own.
 *
 * Any thread submits jobs to a pool. A job is one function, which a worker calls. The copies, fills
 * and kernels that the function issues go to the worker's stream, in order; the function does not
 * name the stream. A job is done when its function has returned and the device has completed all
 * that the function issued. A callback, completion queue, barrier or wait notifies the program.
 *
 * This header declares what a program needs to submit jobs, to wait for them and to be notified.
 * Include the other headers as needed; each of them includes this one:
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
 *	runnel/class.h	which jobs start next: priorities, shares, limits
 *	runnel/guard.h	finds functions that keep streams from running concurrently
 *	runnel/replay.h	work that is gathered, or recorded and replayed
 *	runnel/trace.h	a file with what each job did, and when
 *
 * Conventions of these headers:
 *
 *   Return    0 or a count, or a negative errno; the variable errno is not used. A code that is
 *             listed without a cause has the meaning that rnl_strerror() returns.
 *   Timeouts  int64_t nanoseconds. 0 checks once and returns. RNL_FOREVER, like any negative
 *             number, waits without a limit. The process may run with a faked clock
 *             (libfaketime): it may be ahead or behind, but must advance at the ordinary rate.
 *   Context   Any thread may call any function, workers included. No function blocks unless its
 *             comment says so. No function is safe in a signal handler or in a CUDA host function.
 *             No function is a cancellation point: a pthread_cancel() takes effect after the
 *             call. (A thread that can be cancelled asynchronously must not call the library.)
 *   Fork      In a forked child, calls on its parent's objects return -EOWNERDEAD: create new ones.
 *   Structs   A struct with `size` as its first field grows at its end in later versions. Set
 *             `size` to its sizeof, as the RNL_..._INIT macros do, and leave unused fields zero.
 *
 * States of a job:
 *
 *   accepted  its submit returned 0; the pool owns the job until it is done
 *   delayed   it waits for its start time
 *   deferred  it waits for a barrier before it is queued
 *   queued    it is in a worker's queue
 *   started   its function was called
 *   issued    its function returned, and the device may still work on what the function issued
 *   done      the device completed that work, `result` is set, and the job is the program's again
 */
#ifndef RUNNEL_H
#define RUNNEL_H

#include <stddef.h>
#include <stdint.h>

#define RNL_VERSION_MAJOR 0
#define RNL_VERSION_MINOR 3
#define RNL_VERSION_PATCH 0

#ifndef RNL_API
#define RNL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RNL_FOREVER	(-1)	/* timeout: wait without a limit */
#define RNL_WORKERS_MAX 1024	/* most workers of one pool */
#define RNL_DEVICES_MAX 16	/* most devices of one pool */

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
 * Returns the version of the library that runs, as 0x00MMmmpp. The header's version is
 * RNL_VERSION_MAJOR, RNL_VERSION_MINOR and RNL_VERSION_PATCH.
 * Since: 0.1
 */
RNL_API uint32_t rnl_version(void);

/*
 * Describes an error code for people. A code that runnel does not define has the C library's text.
 * @err: a return value, a negative result of a job, or an errno; the sign does not matter.
 * Return: a constant string.
 * Since: 0.1
 */
RNL_API const char *rnl_strerror(int err);

/*
 * Returns the current time of CLOCK_MONOTONIC, in nanoseconds.
 * Since: 0.1
 */
RNL_API int64_t rnl_clock(void);

enum rnl_log_level {
	RNL_LOG_ERROR = 0,	/* work failed */
	RNL_LOG_WARNING = 1,	/* work goes on, worse than it could */
	RNL_LOG_INFO = 2,	/* something worth knowing, not a mistake */
	RNL_LOG_DEBUG = 3	/* what the library chose: only if RUNNEL_LOG is debug. Since: 0.3 */
};

/*
 * Receives the library's messages. Without a log function, errors and warnings are written to the
 * standard error output, as "runnel: error: ...", each by one write(2), and lost if the write
 * fails. A function that does nothing silences the library.
 * The environment variable RUNNEL_LOG, one of error, warning, info and debug, changes what is
 * logged, by functions and without: that level and the more severe ones. Without it, functions get
 * errors, warnings and infos. The variable is read once, at the latest by rnl_pool_create().
 * A call that is refused because of a mistake is logged, with the wrong value and the remedy: every
 * -EINVAL, -ENODEV and -ENOTSUP; the -EBUSY for a job or a request that is under way, and for a
 * wait that would never end; the -EBUSY of rnl_setup() and rnl_thread_attach(). Other errors are
 * ordinary answers and are not logged, nor are a forked child's calls on its parent's objects.
 * Calls without a pool, and calls that change or query a job, use the log of rnl_set_log(). At
 * most 100 lines of one kind are logged in a second; then the log reports how many were left out.
 * If a CUDA call fails in a job's function, or the device refuses an rnl_copy(), rnl_fill() or
 * rnl_launch(), the line has the driver's reason, if the driver gives one (CUDA 13).
 * @arg: the attribute log_arg, or the argument of rnl_set_log().
 * @msg: one line without newline; valid during the call.
 * Context: any thread that uses the pool, workers included; several threads concurrently. The
 *	function must not block for long, and must not call the pool.
 */
typedef void rnl_log_fn(void *arg, enum rnl_log_level level, const char *msg);

/*
 * Sets the log of the process. It serves pools that have no log of their own, and calls that have
 * no pool, above all an rnl_pool_create() that fails.
 * @fn: NULL restores the initial log, the standard error output.
 * @arg: argument of fn.
 * Context: call it first in main(): no other thread may be in a call of the library, and no pool
 *	without a log of its own may exist.
 * Since: 0.1
 */
RNL_API void rnl_set_log(rnl_log_fn *fn, void *arg);

/* ---- pools --------------------------------------------------------------- */

enum rnl_stream_kind {
	/*
	 * CUDA's per-thread default stream: a job's CUDA calls that name no stream go there. It is
	 * a blocking stream: it waits for the legacy default stream.
	 */
	RNL_STREAM_PER_THREAD = 0,
	/*
	 * A non-blocking stream that the library creates for the worker. It runs more jobs per
	 * second, and the legacy stream does not stall it. Its jobs use rnl_copy() and its
	 * siblings, or pass rnl_stream() to CUDA, because the library does not wait for work on
	 * stream 0. The pool refuses functions of units that include runnel/cuda.h without
	 * RNL_NAMES_STREAM 1. It checks the first runs of every other function, and later about one
	 * run in sixty, for work on stream 0. If the pool finds such work, it logs the function,
	 * and from then on runs the function on the per-thread stream, in order with the worker's
	 * own stream, which is slower, but correct. struct rnl_pool_stats counts these functions.
	 * Beyond 256 functions, every call is checked, and nothing is logged.
	 */
	RNL_STREAM_PRIVATE = 1
};

/*
 * Called on a worker's thread: on_start when the worker begins to serve, on_stop when the worker
 * stops serving, because the pool ends or a resize removed the worker. The thread's implicit stream
 * exists during both calls, so on_start can create a library's handle (cuBLAS, cuFFT, ...) and bind
 * the handle to the stream. on_stop is called only for workers whose on_start returned 0.
 * @arg: the attribute hook_arg.
 * @worker: the worker's index.
 * @datap, @data: rnl_worker().data of this worker, which on_start stores.
 * Context: several workers may call their hooks concurrently. A hook must not wait for the pool.
 * Return: 0; a negative errno fails the pool's creation or its resize.
 */
typedef int rnl_worker_start_fn(void *arg, unsigned worker, void **datap);
typedef void rnl_worker_stop_fn(void *arg, unsigned worker, void *data);

struct rnl_pool_attr {
	uint32_t size;		/* sizeof(struct rnl_pool_attr) */
	uint32_t nr_workers;	/* at least one for each device; with nr_class_workers at
				 * most RNL_WORKERS_MAX; 0: one for each CPU that the process may use, by
				 * its affinity and the quota of its control groups (cpu.max; 1.5
				 * CPUs count as 2), but at most 8 for each device */
	/*
	 * "cuda" or "cuda:N", one GPU; "cuda:0,2", several; "cuda:all"; "host"; "host:N", N host
	 * devices, for tests of code for several devices; NULL or "auto": "cuda" if a GPU answers,
	 * else "host", and the log says why. Worker i always uses device i % n of n. With several
	 * devices, a job without a key goes to a worker with room, on any device. If one device
	 * fails, all fail, because a process's CUDA contexts fail together.
	 */
	const char *device;
	uint32_t stream;	/* enum rnl_stream_kind */
	uint32_t max_queued;	/* most queued jobs; deferred jobs, and later jobs of chains, have
				 * separate limits of the same number; 0: 65536 */
	uint32_t max_in_flight;	/* most jobs of a worker on the device; 0: 64; at most 1000 */
	int32_t spin_us;	/* time that a thread spins before it sleeps; 0: chosen by the CPUs,
				 * counted as for nr_workers; -1: none */
	uint32_t watchdog_ms;	/* time to notice a failure that CUDA reports; 0: 100 */
	uint32_t nr_class_workers; /* more workers, which classes may have as their own: nr_workers
				 * in runnel/class.h; at most RNL_CLASS_WORKERS_MAX. Their threads
				 * start when a class gets them */
	rnl_log_fn *log;	/* NULL: the log of rnl_set_log() */
	void *log_arg;
	uint32_t stuck_ms;	/* time on one job that rnl_pool_health() calls stuck; 0: 1000 */
	uint32_t time_every;	/* one job in time_every, chosen at random, is timed for
				 * rnl_pool_read_stats(); rounded up to a power of two; 0: 64 */
	const char *name;	/* workers are called NAME-0, ..., their host streams NAME:0, ...,
				 * the timer thread NAME-time, a trace's writer NAME-trace, cut to
				 * the UTF-8 characters that fit 15 bytes; NULL: "rnl-worker" */
	const uint16_t *cpus;	/* worker i, and the thread of its host stream, run only on CPU
				 * cpus[i % nr_cpus]; NULL: on any CPU */
	uint32_t nr_cpus;	/* 0 if cpus is NULL */
	uint32_t guard;		/* enum rnl_guard */
	rnl_worker_start_fn *on_start; /* may be NULL */
	rnl_worker_stop_fn *on_stop; /* may be NULL */
	void *hook_arg;		/* argument of on_start and on_stop */
	uint64_t pinned_max;	/* most bytes that the pool page-locks, for rnl_memory_get() and
				 * its own staging; 0: a quarter of the memory */
	uint64_t pinned_preload; /* bytes that the pool page-locks at its creation. On a GPU, from
				 * 64 MiB on, several threads touch the memory before the pool
				 * registers it: it counts as the process's own memory (cgroups) */
	uint64_t staging_max;	/* bytes of pageable copies that a worker has under way before
				 * rnl_copy() waits; 0: 32 MiB */
	uint64_t scratch_keep;	/* bytes of scratch memory that a worker keeps; 0: 64 MiB */
	uint64_t in_flight_ns;	/* a worker with two jobs on the device starts another one only if
				 * the jobs there keep the device busy for less than this time,
				 * estimated from earlier jobs with their functions; 0: 1000000, a
				 * ms; UINT64_MAX: only max_in_flight limits the jobs */
	const char *top;	/* path of a local socket for `runnel top PATH`, at most 107 bytes,
				 * not in a directory where others may create files. Only the user
				 * and root can connect. The pool replaces a socket that a killed
				 * program left there, and nothing else. NULL: none */
	uint32_t kept_sms;	/* multiprocessors (SMs) of each GPU that are kept for classes'
				 * own workers, with RNL_CLASS_KEPT_SMS: their kernels run only
				 * there, and other workers' kernels only on the rest, so they do not
				 * wait for the end of others' blocks. A multiple of struct
				 * rnl_device_info.sm_group; needs RNL_STREAM_PRIVATE and
				 * nr_class_workers. Other pools, per-thread
				 * streams (to which work on stream 0 goes), rnl_thread_attach() and
				 * the program's own streams still use every SM. The library makes
				 * no graphs in this pool, because a graph's kernels would use every
				 * SM: RNL_GATHER and RNL_REPLAY issue each kernel by a call. CUDA
				 * keeps some 8 MiB of each GPU when such a pool ends. 0: none */
};
#define RNL_POOL_ATTR_INIT \
	{ sizeof(struct rnl_pool_attr), 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, \
	  NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, 0 }

/*
 * Creates a pool, and starts its workers and its timer thread. The timer thread sleeps until a
 * queued job is cancelled or expires, or a delayed job is due.
 * @poolp: receives the pool; unchanged on failure.
 * @attr: copied; NULL means all defaults.
 * Context: blocks until every worker is attached to its device. The library's threads block all
 *	signals except SIGPROF and the synchronous ones (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 *	SIGSYS), whatever the caller's mask is. A fault in a job calls the handler on the worker.
 * Return: 0, and rnl_pool_destroy() must be called for the pool later; the error of on_start, or of
 *	socket(2), bind(2) (-EADDRINUSE) or listen(2) for `top`, which is logged; -EINVAL on_start
 *	returned more than 0, poolp is NULL, an attribute is out of its range, attr is too short or
 *	its size was not set, the device's name is unknown, or the process may not run on one of the
 *	CPUs; -E2BIG attr is newer than the library and sets a field that the library does not know;
 *	-ENODEV no such device; -ENOMEM; -EAGAIN the system started no more threads; -ENOTSUP the
 *	system, a seccomp filter for example, refuses to start threads or to bind them to a CPU, and
 *	the log names the call, or kept_sms is set and the device or its driver cannot keep SMs,
 *	which the log explains; -EIO the device failed. On failure there is nothing to clean up.
 * Since: 0.1
 */
RNL_API int rnl_pool_create(struct rnl_pool **poolp, const struct rnl_pool_attr *attr);

/*
 * Changes the number of workers that serve the pool and are not a class's own. Other threads may submit
 * jobs meanwhile. A worker that leaves completes the jobs that it has started, and other workers
 * steal the jobs in its queue. Its thread and its stream are kept for when the pool grows again,
 * because CUDA does not free the memory of a per-thread stream. max_queued is divided among the new
 * number of workers. Jobs with a key keep their order: jobs accepted after the change start when
 * all jobs with a key that were accepted before the change are done.
 * @nr_workers: at least one for each device; with nr_class_workers at most RNL_WORKERS_MAX.
 * Context: blocks until the new workers serve, all jobs on the leaving workers are done, and all
 *	jobs with a key that were accepted before the change are done. Not on a worker of the pool.
 *	Resizes by several threads happen one after another.
 * Return: 0; the error of on_start, which is logged; -EINVAL on_start returned more than 0, pool is
 *	NULL, or nr_workers is out of its range; -EBUSY called on a worker of the pool; -ESHUTDOWN
 *	the pool is closed; -ENOMEM, -EAGAIN, -ENOTSUP, -EIO a worker could not start, as in
 *	rnl_pool_create(); -EOWNERDEAD. On failure the pool is unchanged.
 * Since: 0.1
 */
RNL_API int rnl_pool_resize(struct rnl_pool *pool, unsigned nr_workers);

/*
 * Refuses further jobs: every later submit returns -ESHUTDOWN. Queued and started jobs go on.
 * Delayed jobs and waiting notices complete with -ECANCELED, except notices for RNL_EMPTY, which
 * are accepted even after a close. Closing a pool twice is no error.
 * Ordering: a submit that returned 0 before this call was accepted. A submit that runs concurrently
 *	with this call is either accepted or refused.
 * Return: 0; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_close(struct rnl_pool *pool);

/*
 * Cancels all jobs that have not started: queued jobs, delayed jobs, jobs that wait for a barrier,
 * and notices for RNL_SPACE. Each completes with -ECANCELED, as after rnl_job_cancel(). The jobs of
 * maps, the requests of batchers, and jobs that are submitted after this call go on.
 * Context: its time does not depend on the number of jobs.
 * Ordering: a job whose submit or start runs concurrently with this call may be cancelled or not.
 * Return: the number of jobs that have not started, at most INT_MAX, including jobs of maps and
 *	batchers, notices for RNL_SPACE, and cancelled jobs that have not completed yet; an estimate
 *	if other threads submit or start jobs meanwhile; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_cancel(struct rnl_pool *pool);

/*
 * Waits until every accepted job is done, except delayed jobs and waiting notices. If other threads
 * submit jobs meanwhile, the wait takes longer.
 * Context: blocks, also for jobs with holds that are not released. Not on a worker of the pool.
 * Ordering: everything that the jobs did, on host and device, happens before the return. A job that
 *	goes to a completion queue is in the queue then, and is done when it is reaped.
 * Return: 0; -ETIMEDOUT jobs remain; -EBUSY called on a worker of the pool; -EINVAL pool is NULL;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_drain(struct rnl_pool *pool, int64_t timeout_ns);

/*
 * Ends a pool's work within a time: closes the pool, cancels all jobs that have not started, and
 * waits for the started ones. From now on rnl_job_is_cancelled() returns 1 in their functions, and
 * a map issues no more chunks: it ends with -ECANCELED. The requests of batchers go on.
 * @timeout_ns: longest time to wait; 0: no wait. The pool exists afterwards, and the call may be
 *	repeated. rnl_pool_destroy() must be called in any case; it waits for the remaining jobs.
 * Context: blocks. On a worker of the pool it does not wait.
 * Ordering: as for rnl_pool_close(), rnl_pool_cancel() and rnl_pool_drain().
 * Return: 0 all jobs are done; -ETIMEDOUT jobs remain; -EBUSY called on a worker of the pool: the
 *	pool is closed and its jobs are cancelled; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_stop(struct rnl_pool *pool, int64_t timeout_ns);

/*
 * Closes the pool, drains it, ends its workers, and frees it. If the device has failed, the
 * workers' threads remain, asleep: CUDA may not return from the end of such a thread.
 * @pool: may be NULL. No other call on the pool, and no wait for its jobs or cancel of its jobs,
 *	may run at the same time. Afterwards a done job may still be waited for, cancelled, queried
 *	by rnl_job_is_cancelled(), and submitted to another pool; a job in a completion queue may be
 *	reaped. Pinned buffers are freed. Memory of a device must be put back before the call.
 * Context: blocks until all jobs are done: a hold that is never released blocks it forever. It logs
 *	a warning if holds remain after stuck_ms. A deadline ends a job's holds. To limit the wait,
 *	call rnl_pool_stop() first; rnl_pool_health() then lists the remaining jobs. On a worker of
 *	the pool, it only closes the pool and logs an error: a thread cannot wait for its own end.
 * Since: 0.1
 */
RNL_API void rnl_pool_destroy(struct rnl_pool *pool);

/* ---- jobs ---------------------------------------------------------------- */

/*
 * A job: one host function that issues device work. A job is a member of a struct of the program's
 * own and needs no allocation. Its memory must stay valid until the job is done. `user` belongs to
 * the program from rnl_job_init() on. `result` and `device_error` may be read while the job is
 * done. All other fields belong to the library. The result is the function's return value, or
 * -ECANCELED  the job was cancelled, or comes after a barrier with a failed job;
 * -ETIMEDOUT  the job was not started by its deadline;
 * -EIO        the device failed, or a CUDA call in the job failed;
 * -ENOMEM, -EINVAL, -ENODEV, -ENOTSUP  a CUDA call in the job failed, and its code has this errno;
 * -ENOTSUP    the job's function does what the strict guard forbids: enum rnl_guard.
 */
struct rnl_job {
	int (*fn)(struct rnl_job *job);
	struct rnl_pool *pool;
	void *link;		/* next job of the one list that the job is on */
	uint32_t state;
	uint32_t generation;
	uint32_t flags;
	uint8_t phase;
	uint8_t rounds;		/* slots of rounds of its barriers */
	uint16_t worker;
	int32_t result; /* valid while the job is done */
	union {
		uint32_t cancels; /* until the start: the pool's count of cancels of all jobs */
		int32_t device_error; /* while the job is done with a negative result: CUDA's
				       * code (cudaError_t), or 0; for people and logs */
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
	struct rnl_job *then;	/* next job of the chain */
	uint64_t key;
	uint64_t deadline_ns;
	union {
		uint64_t submit_ns; /* until the function has returned */
		uint64_t seq;	/* from then on: sequence number on the worker's stream */
		void *waiting;	/* while the job waits for its holds: its place among such jobs */
	};
	void *user;		/* belongs to the program */
	union {
		uint32_t producer; /* until the function is called */
		uint32_t holds;	/* from then on: unreleased holds, and one that the worker has */
	};
	uint16_t staff;		/* of a keyed job: generation of the workers that serve */
	uint8_t device;		/* device of the pool, if the job is placed; and a flag */
	uint8_t request;	/* state of a batcher's request */
	uint32_t class_id;	/* of rnl_job_set_class() */
	uint16_t class_slot;	/* its place in its class's queue; then its estimated cost */
	uint8_t class_index;	/* its class while it is accepted, and whether it was charged */
	uint8_t reserved;
};

/*
 * Makes a job. `user` is NULL afterwards.
 * @job: memory of the program. A job that was submitted from this memory must be done.
 * @fn: called by a worker once for each accepted submit. NULL makes a job without a function, for
 *	rnl_barrier_notify(), for a notice (enum rnl_when), or for a batcher's request. The function
 *	issues work to the worker's implicit stream and returns without waiting for that work. It
 *	must not wait: while it runs, no other job of its worker can become done. It must leave the
 *	thread's current CUDA device unchanged. It must return: if it ends its thread
 *	(pthread_exit()), its job and later jobs of the worker are never done, and rnl_pool_health()
 *	reports a stuck worker. A C++ exception that leaves it ends the process (std::terminate()).
 *	A pthread_cancel() of a worker has no effect.
 *	Its return value becomes the job's result: 0 or a positive number means success, a negative
 *	errno fails the job. A positive errno (return EIO) means success, too; the pool's log
 *	reports the first positive result, as a warning if it is EIO or another common errno. If
 *	an rnl_copy(), rnl_fill() or rnl_launch() in the function failed, the job fails, whatever
 *	the function returned. If a CUDA call or a <<<...>>> in it failed, the job fails as well,
 *	provided that runnel/cuda.h is included by the unit of that call, or by another unit that
 *	uses the same copy of the CUDA runtime.
 * A job that is done may be submitted again without another rnl_job_init(); it keeps its settings.
 * Return: 0; -EINVAL job is NULL.
 * Since: 0.1
 */
RNL_API int rnl_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job));

/*
 * Makes the job come after a barrier, that is, after the jobs that the barrier counts when this job
 * is submitted. This job starts when those jobs have been issued, and its stream waits on the
 * device for their streams; no host thread blocks. Submit the barrier's jobs before this one: a
 * barrier that counts no job holds nothing back, and the library logs nothing, as jobs may follow.
 * If a job of the barrier has failed by then, this job completes with -ECANCELED, and its function
 * is not called. The jobs after this job end in the same way; the `result` of the first barrier is
 * the cause. A job that copies to pageable memory counts as issued when it is done, because a CPU
 * does its last step. This job is never done before the jobs that it comes after, even if it was
 * cancelled or missed its deadline. When this job is done, the memory of those jobs may be reused.
 * @barrier: a barrier of the pool that the job will be submitted to; valid until the job is done.
 *	It replaces an earlier one. NULL removes it. For several barriers: struct rnl_job_more.
 * Ordering: the barrier counts every job that was accepted before this job's submit. Everything
 *	that those jobs did happens before this job is done.
 * Return: 0; -EINVAL job is NULL or was not initialised, or was added to this very barrier; -EBUSY
 *	the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_after(struct rnl_job *job, struct rnl_barrier *barrier);

/*
 * Makes `next` the job after `job` in a chain, which may have any length. A submit of the first job
 * submits the whole chain, or refuses it; do not submit the later jobs. When a job has been issued,
 * its worker immediately calls the function of the next job, on the same stream. The next job finds
 * the data that this one leaves on the device, and nothing waits in between, on host or device.
 * Each job has its own result, barrier, callback or queue, and is done after the job before it. If
 * a job copies to pageable memory, has holds, or comes after a barrier, the next job starts when
 * that job is done.
 * If a job's function or one of its holds fails, or the job is cancelled or expires, the later jobs
 * complete with -ECANCELED. Jobs that wait for their turn in the chain count as queued. A cancel or
 * the deadline of such a job takes effect at its turn; deadlines count from the submit. Urgency,
 * key and device of the first job apply to the whole chain; for rnl_pool_resize() only the first
 * job has the key. If the first job is delayed, a drain waits for the whole chain.
 * @job: has at most one next job; another call replaces it.
 * @next: not the next job of another job, and not after a barrier. NULL ends the chain with `job`.
 *	The setting stays: a later submit of `job` submits both again.
 * Return: 0; -EINVAL a job is NULL or was not initialised, or both are one job, or `next` belongs
 *	to a batcher's request, which is logged; -EBUSY one of them was submitted and is not done;
 *	-EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_then(struct rnl_job *job, struct rnl_job *next);

/*
 * Sets a callback for when the job is done, whatever its result. A worker calls it once for each
 * accepted submit, after the device has completed the job's work. If the job's function was not
 * called, the timer thread may call the callback. That thread has no stream, and its
 * rnl_worker().index is -1; rules for "a worker of the pool" apply to it, too. Until the callback
 * returns, the pool starts no delayed job or notice, and completes no cancelled or expired job.
 * @fn: owns the job: it may submit the job again or free it. It may call every function except a
 *	blocking wait on its own pool. Work that it issues to the stream belongs to no job. While it
 *	runs, its worker does nothing else. NULL removes a callback.
 * A return from rnl_job_wait() does not mean that the callback has run, so the waiting thread must
 * not free the job. Barriers and drains count the job until the callback has returned.
 * Return: 0; -EINVAL job is NULL, was not initialised, or has a completion queue; -EBUSY the job
 *	was submitted and is not done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_on_done(struct rnl_job *job, void (*fn)(struct rnl_job *job));

/*
 * Sets the completion queue that the job goes to after the device has completed its work. The job
 * is done, and belongs to the program again, when it is reaped there.
 * @cq: valid until the job is reaped; NULL removes the queue.
 * Return: 0; -EINVAL job is NULL, was not initialised, or has a callback; -EBUSY the job was
 *	submitted and is not done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_cq(struct rnl_job *job, struct rnl_cq *cq);

/*
 * Sets a deadline for the job's start. If the job has not started @timeout_ns after its submit, its
 * function is not called, and the job completes with -ETIMEDOUT. A job that has started runs to its
 * end, but the deadline ends its holds: rnl_job_hold(). A queued job completes within 10 ms of its
 * deadline, even while all workers are busy, provided that the timer thread gets a CPU and no queue
 * has tens of thousands of jobs. A job that comes after a barrier completes when a worker takes it.
 * In a class without RNL_CLASS_LATE the deadline is one for the end: a job that would end later, by what
 * is known of its function, is not called either.
 * @timeout_ns: counted from each submit; negative: no deadline.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_deadline(struct rnl_job *job, int64_t timeout_ns);

/*
 * Sets a job's flags.
 * @flags: of enum rnl_replay_flags (runnel/replay.h); they replace all earlier ones.
 * Return: 0; -EINVAL job is NULL or was not initialised, or a flag is unknown, or both ways of
 *	replay are set; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_flags(struct rnl_job *job, unsigned flags);

/*
 * Places the job on a device of its pool: one of that device's workers runs it, even if it has a
 * key. Any device may run an unplaced job, so it must work on all:
 * rnl_worker().device.
 * @device: a number in the pool, 0 in a pool of one device; -1: no placement, the initial value.
 * Return: 0; -EINVAL job is NULL or was not initialised, or device is out of range, which is
 *	logged; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_device(struct rnl_job *job, int device);

/*
 * Gives a job a key, for its next submit and all later ones. One worker runs all jobs with one key,
 * in the order of their submits. Jobs with a key are never stolen.
 * In a pool of several devices, rendezvous hashing maps each key to a device. A resize does not
 * change that device; with more devices, a key keeps its device or goes to an added one. A placed
 * job goes to a worker of its own device, so jobs with one key that are placed on different devices
 * have no order.
 * @key: any number: a connection, a tenant, a file; RNL_KEY_WORKER(i). RNL_KEY_NONE removes it.
 * Ordering: submits by different threads are ordered only if one happened before the other. A job
 *	that comes after a barrier gets its place when the last job of the barrier is issued. Two
 *	such jobs have no order, unless a struct rnl_order gives them one. Jobs with a start time
 *	are queued in the order of their times.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_key(struct rnl_job *job, uint64_t key);

/*
 * Keys that select a worker: i from 0 to RNL_WORKERS_MAX - 1, modulo the number of workers, less those
 * of classes. So computing and communication, or stages of a pipeline, never share a stream by
 * chance. Other keys may select the same worker. For a placed job, i counts its device's workers.
 */
#define RNL_KEY_WORKER(i) (UINT64_MAX - UINT64_C(1) * (i))
#define RNL_KEY_NONE (UINT64_MAX - RNL_WORKERS_MAX)

/*
 * Submits a job with its settings. Any worker may run a job without a key, and jobs start in no
 * particular order, whatever the number of workers. rnl_job_set_key(), rnl_job_set_then(),
 * rnl_job_set_after() and struct rnl_order give jobs an order. The later jobs of the job's chain
 * are submitted with it, all or none; the first error is returned.
 * @job: belongs to the pool until it is done. On failure it remains the caller's, and its function
 *	is not called.
 * Context: wait-free, except for the wake of a sleeping worker or of a thread in rnl_submit_wait(),
 *	which takes a lock; allocates nothing.
 * Ordering: the caller's earlier writes are visible to the job's function. The writes of the
 *	function and of the device are visible to each thread that learns by a wait, a callback or a
 *	reap that the job is done. Short jobs of one worker may complete together, after the last of
 *	them. So a kernel must not wait for something that the program does when another job
 *	completes, unless max_in_flight is 1.
 * Return: 0;
 *	-EAGAIN a limit is reached for now: the pool or the job's class is full; or a thread in
 *	rnl_submit_wait() waits for a place of the same kind, for a deferred job or for the later
 *	jobs of a chain; or the job's barrier counts 2^24 jobs that are not issued, or 2^30 that are
 *	not done; or the job comes after a barrier with seven ended rounds under way:
 *	rnl_barrier_add(). Each worker's queue has a part of max_queued, rounded up, so the queue of
 *	a key's worker may be full while others are not. An event loop submits again after its next
 *	reap or a notice for RNL_SPACE;
 *	-ETIME the job's class admits jobs that would end in time only (RNL_CLASS_ADMIT), and this
 *	one would be late, or would make others late;
 *	-ESHUTDOWN the pool is closed; -EBUSY the job was submitted before and is not done; -EIO the
 *	device has failed; -ENODEV the pool is on the host device, and the function's unit says
 *	RNL_NEEDS_CUDA, which is logged; -EOWNERDEAD;
 *	-EINVAL, which is logged: pool or job is NULL; the job was not initialised, has no function,
 *	belongs to a batcher's request, or is placed on a device that the pool does not have; its
 *	barrier, order or class is of another pool, or its class has ended; its struct rnl_job_more is
 *	refused, see rnl_job_set_more(); a later job of its chain comes after a barrier, or has a key,
 *	an order or a time; the chain is a circle, or longer than max_queued.
 * Since: 0.1
 */
RNL_API int rnl_submit(struct rnl_pool *pool, struct rnl_job *job);

/*
 * Submits a job like rnl_submit(). While the pool is full, it waits for space. If max_queued is
 * 3,200 or more for each worker, a wait takes at least 20 to 200 us, in which at most an eighth of
 * a queue empties. For deferred jobs and for the later jobs of chains, waiting threads get free
 * places first, and in first-in, first-out order for each kind, so a stream of short chains cannot
 * starve a long one. A thread that times out loses its turn.
 * Context: blocks, except on a worker of the pool or with a timeout of 0.
 * Return: as for rnl_submit(); -ETIMEDOUT there was no space in time, and the job remains the
 *	caller's; -EAGAIN called on a worker of the pool, and the pool is full; -ESHUTDOWN also if
 *	the pool is closed meanwhile.
 * Since: 0.1
 */
RNL_API int rnl_submit_wait(struct rnl_pool *pool, struct rnl_job *job, int64_t timeout_ns);

/*
 * Submits several jobs at the cost of a few. Each worker gets several successive jobs.
 * @jobs: array of @nr pointers; not used after the call.
 * Return: the number of accepted jobs; the jobs from that index on remain the caller's; 0 if nr is
 *	0. If the first job was not accepted, its error, as for rnl_submit().
 * Since: 0.1
 */
RNL_API int rnl_submit_many(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr);

/*
 * Cancels a job that has not started: its function will not be called, and the job completes with
 * -ECANCELED. A queued job or a notice completes within 10 ms, under the conditions of
 * rnl_job_set_deadline(). Until then the job belongs to the pool. A cancel and a start exclude each
 * other: if this call returns 0, the function does not run.
 * Return: 0 the job completes with -ECANCELED, also if an earlier call cancelled the job or all
 *	jobs; -EBUSY the job has started and is not done, and its function can detect the cancel by
 *	rnl_job_is_cancelled(); or a worker or the timer thread is completing the job without
 *	calling its function, because the job is past its deadline, was cancelled, or comes after a
 *	barrier with a job that failed; -EALREADY the job is done, or waits in its completion queue;
 *	-EINVAL job is NULL or was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_cancel(struct rnl_job *job);

/*
 * Returns whether a job's function should return early. A long function asks from time to time, and
 * then returns a result of its own choice. The device work that it has issued goes on.
 * @job: a job that belongs to the caller, or that the caller knows to be not done.
 * Return: 1 rnl_job_cancel() was called for the job, or rnl_pool_stop() for its pool; 0 otherwise,
 *	or if the job is done. An rnl_pool_cancel() shows only in the job's result; -EINVAL job is
 *	NULL or was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_is_cancelled(const struct rnl_job *job);

/*
 * Waits until a job is done. A job that goes to a completion queue is done when it is reaped;
 * rnl_cq_reap() waits for such a job. A wait for it with RNL_FOREVER is refused, because the wait
 * would never return if no thread reaped.
 * Context: blocks. On a worker of the job's pool it only checks whether the job is done.
 * Ordering: everything that the job did, on host and device, happens before a return of 0.
 * Return: 0 the job is done, and `result` is set; -ETIMEDOUT; -EBUSY the job is not done, and the
 *	call was made on a worker of its pool, or with RNL_FOREVER for a job that goes to a
 *	completion queue; -EINVAL job is NULL or was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_wait(struct rnl_job *job, int64_t timeout_ns);

/* ---- completion queues --------------------------------------------------- */

/*
 * Creates a completion queue, which returns jobs to a thread that also waits for other events: an
 * event loop. Jobs of several pools may use one queue, and jobs of one pool several queues. A queue
 * has no limit, as it holds only submitted jobs. One thread reaps at a time, while jobs may arrive.
 *
 * The queue's file descriptor is a hint to reap now. It is armed when the queue is created, and
 * when a reap finds the queue empty; before the first rnl_cq_fd() a reap need not arm it, and that call
 * makes it readable then. An armed descriptor becomes readable, by one write, when the
 * next job arrives. With an edge-triggered poll, reap until a call returns fewer jobs than it asked
 * for. With a level-triggered poll, one reap after each poll is enough, and further reaps save
 * polls. The descriptor may be readable although a reap returns 0.
 * @cqp: receives the queue; unchanged on failure.
 * Return: 0; -EINVAL cqp is NULL; -ENOMEM; -EMFILE, -ENFILE no file descriptor is left; -ENOTSUP
 *	the system refuses eventfd2, which is logged.
 * Since: 0.1
 */
RNL_API int rnl_cq_create(struct rnl_cq **cqp);

/*
 * Reaps the jobs that are still in the queue, and frees the queue. In a forked child, it only frees
 * the child's copy of the parent's queue, with its descriptor.
 * @cq: may be NULL. No job that uses the queue is under way, and no thread reaps.
 * Context: may wait for a worker's last write to the descriptor.
 * Since: 0.1
 */
RNL_API void rnl_cq_destroy(struct rnl_cq *cq);

/*
 * Returns the queue's file descriptor, to be polled for reading: an eventfd, non-blocking and
 * close-on-exec. The descriptor belongs to the queue: do not read from it, and do not close it.
 * Return: the descriptor; -EINVAL cq is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_cq_fd(struct rnl_cq *cq);

/*
 * Takes jobs off the queue, and waits for the first one. The jobs are done and the program's again.
 * @jobs: receives up to @max jobs, in the order in which they reached the queue.
 * Context: blocks, unless the timeout is 0; a signal does not end the wait. If the last wait was short,
 *	it spins for up to 50 us before it sleeps. On a worker of a pool whose jobs it waits for, it can
 *	wait forever.
 * Ordering: everything that the jobs did, on host and device, happens before the return.
 * Return: the number of jobs, 0 if none arrived in time. If it is less than max, the queue was
 *	empty, and the descriptor, if the program has it, is armed. -EBUSY another thread is reaping;
 *	-EINVAL cq or jobs is NULL, or max is 0; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_cq_reap(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max, int64_t timeout_ns);

/* ---- barriers ------------------------------------------------------------ */

/*
 * A barrier joins jobs of one pool. It counts a job from the submit that accepts the job until the
 * job is done; a refused submit changes nothing. `result` may be read when a wait has returned 0:
 * the result of the first job that failed since rnl_barrier_init(), or 0. All other fields belong
 * to the library.
 */
struct rnl_barrier {
	struct rnl_pool *pool;
	uint64_t open;		/* slot and counts of the open round */
	int32_t result;
	uint32_t generation;
	uint64_t others;	/* workers without a place, by their index % 64 */
	uint64_t waiting[8];	/* of each round: jobs that wait for it, and its state */
	uint64_t counts[8];	/* of each round that is no longer open */
	uint32_t users[8];	/* users of a round's slot, and the slot of the next round */
	uint64_t slots;		/* slots in use, a bit each; what jobs of each round inherit */
	uint32_t places[8];	/* the barrier's last job on each of the first workers */
};

/*
 * Makes a barrier. It needs no destroy.
 * @barrier: memory of the program; not a barrier that counts jobs. The memory may be reused when
 *	the jobs that come after the barrier are done, and rnl_barrier_wait() has returned 0. An
 *	rnl_job_wait() for each of its jobs is not enough: a worker updates the barrier even after a
 *	job's callback. A drain of the pool, or the end of a job of rnl_barrier_notify(), is enough.
 * Return: 0; -EINVAL barrier or pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_init(struct rnl_barrier *barrier, struct rnl_pool *pool);

/*
 * Adds a job to the barrier: the barrier counts the job at its next accepted submit, and at each
 * later one. A job is in at most one barrier; another call replaces the barrier.
 * A barrier is used in rounds: the submit of a job that comes after the barrier ends a round, and
 * the next job that the barrier counts begins another round. The job after the barrier waits for
 * all rounds that began before. So the stages of a pipeline can alternate between two barriers:
 * each comes after the last stage's barrier, and no host thread waits. With seven ended rounds
 * under way, a further job after the barrier is refused with -EAGAIN, and rnl_submit_wait() waits.
 * Return: 0; -EINVAL barrier or job is NULL, the job was not initialised, or it comes after this
 *	very barrier, by rnl_job_set_after(); -EBUSY the job was submitted and is not done;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_add(struct rnl_barrier *barrier, struct rnl_job *job);

/*
 * Waits on the host until every counted job is done. If other threads submit jobs of the barrier
 * meanwhile, the wait takes longer. The barrier may be used again afterwards. If one of its jobs
 * failed, initialise it first: otherwise jobs that come after it are cancelled.
 * Context: blocks. Not on a worker of the barrier's pool.
 * Ordering: everything that the jobs did, on host and device, happens before the return. The
 *	library no longer touches the jobs: their memory may be reused, but the memory of a job with
 *	a completion queue only when the job is reaped.
 * Return: 0 all are done, and the field `result` is set; -ETIMEDOUT; -EBUSY called on a worker of
 *	the pool, and jobs are not done; -EINVAL barrier is NULL or was not initialised;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_wait(struct rnl_barrier *barrier, int64_t timeout_ns);

/*
 * Makes the calling thread's implicit stream wait, on the device, for every counted job. Work that
 * the thread issues next runs after those jobs, on whichever device they run. A thread that is
 * attached to no device is attached to the pool's device: rnl_thread_attach().
 * Context: blocks until the jobs are issued; maps, and jobs that copy to pageable memory, count as
 *	issued when they are done. The call waits for the device only while jobs are queued because
 *	their worker has as much on the device as in_flight_ns allows. Without this wait, the
 *	thread's stream, which waits for those jobs, could occupy the hardware queue that they
 *	need. On a worker of the barrier's pool the call does not block.
 * Return: 0; -EBUSY called on a worker of the pool, and jobs are not issued; -EINVAL barrier is
 *	NULL or was not initialised; -EIO the device has failed; -ENODEV the calling thread is
 *	attached to a device that is not one of the pool's; -EAGAIN the system started no more
 *	threads; -ENOTSUP the system refuses to start threads; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_join(struct rnl_barrier *barrier);

/*
 * Makes a job complete when all jobs that the barrier counts now are done. So an event loop learns
 * of a fan-in, and no thread waits. The call ends the barrier's round, like the submit of a job
 * after the barrier. When the round has ended, the job goes to its completion queue or its callback
 * is called, once for each call. rnl_job_wait() works, too. The job's function is not called, and
 * may be NULL. The job's result is 0, or that of the first failed job of the barrier.
 * @job: initialised; in no barrier, after no barrier, no next job; the pool's until it is done.
 * Context: any thread. A callback runs on the worker that ended the round, or on the timer thread.
 *	The job counts as queued. A cancel of the job returns -EBUSY and changes nothing.
 * Ordering: everything that the counted jobs did, on host and device, happens before the job is
 *	done. The library no longer touches those jobs, nor the barrier if it counts no other jobs.
 * Return: 0; -EAGAIN the barrier has seven ended rounds under way, rnl_barrier_add(), or counts too
 *	many jobs, or max_queued jobs wait like this one; -ESHUTDOWN the pool is closed; -EBUSY the
 *	job was submitted and is not done; -EINVAL barrier or job is NULL or was not initialised, or
 *	the job is in a barrier, comes after one, or has a next job in a chain; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_notify(struct rnl_barrier *barrier, struct rnl_job *job);

/* ---- work on the implicit stream ----------------------------------------- */

/*
 * Copies, fills and launches (runnel/kernel.h) go to the calling thread's implicit stream, and
 * return. The device executes them later, in this order. A worker always has a stream; any other
 * thread has one after rnl_thread_attach(). In a job, the first error becomes the job's result.
 */

/*
 * Copies bytes from any host or device memory to any other; the pointers determine the direction.
 * @dst, @src: @bytes bytes each; they do not overlap.
 * Both must stay valid, @src must not be written, and @dst must not be read, until the device has
 * completed the copy; in a job, until the job is done.
 * The device copies page-locked memory, such as a pinned buffer of rnl_memory_get(), without a CPU.
 * Pageable memory (malloc, the stack, a mapped file) is staged: a CPU copies it in pieces through
 * page-locked memory of the pool. In a job, @src is read before the call returns, and the worker
 * writes @dst before the job is done. The call returns immediately, unless the worker has
 * staging_max bytes, or some 1000 copies, under way, or this call reads what a staged copy has yet
 * to write. CUDA makes the caller wait for two kinds of copies, and runs them after all work on the
 * stream: copies from host to host, and copies of pageable memory outside of a job.
 * In a job of a class that another class goes before, the call waits for a copy of more than 8 MiB
 * between page-locked memory and its device: runnel/class.h.
 * Ordering: in order with all work that this thread issues. A kernel that accesses pageable memory
 *	directly has no order with copies of that memory.
 * Return: 0; -EINVAL a pointer is NULL and bytes is not 0, or CUDA refused the copy; -ENODEV the
 *	thread is attached to no device; -EIO; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_copy(void *dst, const void *src, size_t bytes);

/*
 * Copies a rectangle like rnl_copy(): row i from src + i * src_pitch to dst + i * dst_pitch.
 * @width: bytes of a row.
 * @dst_pitch, @src_pitch: bytes from one row to the next; at least width, and less than 2 GiB.
 * Return: as for rnl_copy(); -EINVAL also if a pitch is out of its range.
 * Since: 0.1
 */
RNL_API int rnl_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			size_t width, size_t rows);

/*
 * Sets @bytes bytes at @dst to @value.
 * @dst: memory of the device, or page-locked memory; valid until the device has completed the fill.
 * Return: as for rnl_copy(); -EINVAL also for pageable memory.
 * Since: 0.1
 */
RNL_API int rnl_fill(void *dst, uint8_t value, size_t bytes);

/*
 * Returns the calling thread's implicit stream for libraries that take one, on CUDA a cudaStream_t.
 * Do not pass it to another thread: the handle of a per-thread stream names another stream there.
 * Return: the stream; NULL on the host device, on a thread without a stream, in a forked child.
 * Since: 0.1
 */
RNL_API void *rnl_stream(void);

struct rnl_worker_info {
	int index;		/* 0 to RNL_WORKERS_MAX - 1; classes' own workers have the first ones */
	int device; /* number in the pool: rnl_device_describe(), rnl_job_set_device() */
	void *data;		/* the pointer that the pool's on_start stored */
};

/*
 * Returns the calling thread as a worker of its pool.
 * Return: the worker; index and device are -1, and data is NULL, if the thread is no worker.
 * Since: 0.3
 */
RNL_API struct rnl_worker_info rnl_worker(void);

#ifdef __cplusplus
}
#endif

#endif /* RUNNEL_H */
