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
 * This header is what a program needs to submit, to wait and to be told. It includes the others:
 *
 *	runnel/batch.h	many small requests moved and run together
 *	runnel/guard.h	finds functions that keep streams from running side by side
 *	runnel/map.h	a large array streamed through the workers
 *	runnel/memory.h	pinned, device and scratch memory
 *	runnel/stats.h	counters, latencies and the health of a pool
 *	runnel/trace.h	a file with what each job did, and when
 *
 * Only CUDA code needs one more, runnel/cuda.h.
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
 *   Fork      In a forked child every call on an object of the parent returns -EOWNERDEAD. A
 *             child that wants a pool creates one.
 *   Structs   A struct with `size` as its first field grows at its end in later versions. Set
 *             `size` to its sizeof, as the RNL_..._INIT macros do, and leave unused fields zero.
 *
 * Words: a job is accepted when its submit returned 0; queued in a worker's queue; started when
 * its function was called; issued when its function returned; passed when the device has executed
 * what it issued; done when its result is set and the library will not touch it again. A job that
 * waits for a barrier before it is queued is deferred, and one that waits for its time is delayed. A
 * hold keeps a job from being done until it is released.
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
#define RNL_KERNEL_ARGS_MAX 4096 /* bytes of arguments of one kernel */

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
struct rnl_order;
struct rnl_barrier;
struct rnl_cq;

/* ---- the library --------------------------------------------------------- */

/*
 * The version of the library that runs, as 0x00MMmmpp. The program was compiled for
 * RNL_VERSION_MAJOR, RNL_VERSION_MINOR and RNL_VERSION_PATCH.
 * Since: 0.1
 */
RNL_API uint32_t rnl_version(void);

/*
 * The meaning of an error code, for people. A code that the library does not use itself gets the
 * C library's text.
 * @err: a function's return value, a job's result, or an errno: its sign does not matter. A result
 *	above 0 that a job's function returned is a value, and no error.
 * Return: a constant string, never NULL.
 * Since: 0.1
 */
RNL_API const char *rnl_strerror(int err);

/*
 * Prepares the process for many concurrent streams: sets CUDA_DEVICE_MAX_CONNECTIONS=32 if the
 * variable is unset. CUDA reads it when it creates its context, and gives each stream a hardware
 * queue of its own, up to that number. Its default is 8: with more workers, streams share queues.
 * Context: call it first in main(), before the program starts threads and before it uses CUDA. To
 *	set an environment variable later is unsafe.
 * Return: 0, also if the variable was set before; -EBUSY other threads run, and nothing was
 *	changed; -ENOTSUP the system does not say whether other threads run, which is logged: /proc
 *	is not mounted, and unshare(2) is refused; -ENOMEM.
 * Since: 0.1
 */
RNL_API int rnl_setup(void);

enum rnl_log_level {
	RNL_LOG_ERROR = 0,	/* work failed */
	RNL_LOG_WARNING = 1,	/* work goes on, worse than it could */
	RNL_LOG_INFO = 2
};

/*
 * Receives the library's messages: rnl_log_stderr(), or a function of the program's. Without one the
 * library prints nothing. Each call that is refused for a mistake is logged, with the value and what
 * to do: each -EINVAL, -ENODEV and -ENOTSUP; the -EBUSY for a job or a request that is under way, of a
 * wait that would not end, and of rnl_setup() and rnl_thread_attach(). An answer is not logged: a
 * limit, a timeout, a closed pool, a job that is not done, the -EBUSY of rnl_request_release(),
 * -EALREADY. Nothing is logged for an object of a forked child's parent. Calls that belong to no pool,
 * and those that change a job or ask about one, use the log of rnl_set_log(). Of lines of one kind
 * the first 100 in a second are logged; then the log says how many were left out.
 * @arg: the attribute log_arg, or the argument of rnl_set_log().
 * @msg: one line without newline; valid during the call.
 * Context: any thread that uses the pool, workers included; several threads at once. It must not
 *	block for long, and must not call the pool.
 */
typedef void rnl_log_fn(void *arg, enum rnl_log_level level, const char *msg);

/*
 * Sets the log of the process: for pools that have no log of their own, and for calls that have no
 * pool, above all an rnl_pool_create() that fails.
 * @fn: NULL: nothing is logged, as at the start.
 * @arg: argument of fn.
 * Context: call it first in main(): no other thread may be in a call of the library, and no pool
 *	without a log of its own may exist.
 * Since: 0.1
 */
RNL_API void rnl_set_log(rnl_log_fn *fn, void *arg);

/*
 * A log: writes each message to the standard error output, as "runnel: error: ..." and a newline.
 * rnl_set_log(rnl_log_stderr, NULL) first in main() tells why calls are refused.
 * @arg: not used.
 * @level: its name begins the line.
 * @msg: one line without newline; the caller's.
 * Context: any thread; a message is one write(2), and blocks as long as that. If the write fails,
 *	the message is lost.
 * Since: 0.2
 */
RNL_API void rnl_log_stderr(void *arg, enum rnl_log_level level, const char *msg);

/* ---- devices ------------------------------------------------------------- */

struct rnl_device_info {
	uint32_t size;			/* sizeof(struct rnl_device_info) */
	uint32_t cuda;			/* 1: a GPU; 0: the host device */
	int32_t ordinal;		/* CUDA's device number; host: 0 */
	uint32_t nr_multiprocessors;	/* host: CPUs that are online */
	uint32_t nr_copy_engines;	/* host: 0 */
	uint32_t stream_writes;		/* 1: a stream can write a word of memory */
	uint64_t memory_bytes;		/* memory of the device; host: physical memory, 0: unknown */
	char name[64];			/* for people: "NVIDIA H200", "host" */
};
#define RNL_DEVICE_INFO_INIT { sizeof(struct rnl_device_info), 0, 0, 0, 0, 0, 0, { 0 } }

/*
 * Describes a device. No pool is needed.
 * @device: the name of one device or several, as attr.device of a pool takes it; of several, the
 *	first is described.
 * @info: filled in; its size must be set. Fields that this library does not know become 0.
 * Context: the first call of a process blocks while CUDA initialises.
 * Return: 0; -EINVAL the name is unknown, or info is NULL or has a wrong size; -ENODEV no such
 *	device answers, or the library was built without CUDA; -ENOMEM, -EIO the device answers,
 *	but CUDA cannot describe it.
 * Since: 0.1
 */
RNL_API int rnl_device_describe(const char *device, struct rnl_device_info *info);

/* ---- pools --------------------------------------------------------------- */

enum rnl_stream_kind {
	/*
	 * CUDA's per-thread default stream: CUDA calls of a job that name no stream go there. It
	 * is a blocking stream: it waits for the legacy default stream.
	 */
	RNL_STREAM_PER_THREAD = 0,
	/*
	 * A non-blocking stream that the library creates for the worker. It has a higher rate of
	 * jobs, and the legacy stream does not stall it. Its jobs use rnl_copy() and its
	 * siblings, or pass rnl_stream() to CUDA: work on stream 0 would not be waited for. So the
	 * pool refuses jobs, maps and batchers of units that include runnel/cuda.h and do not say
	 * that they pass it: RNL_NAMES_STREAM. Which unit a function is in is known by the place of
	 * its code, whichever unit makes the job: runnel/cuda.h. For units that say so, and
	 * for units that do not include the header, it looks at the first runs of each function,
	 * and then at one call in some sixty, whether work was left on stream 0. If so, it logs the function, and from then
	 * on the function's calls are made with the per-thread stream as rnl_stream(), in order
	 * with the worker's own stream: slower, and right. struct rnl_pool_stats counts such
	 * functions. With more than 256 functions, calls of the others are looked at each time,
	 * and not logged.
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
 * @datap: receives what rnl_worker_data() returns on this worker.
 * @data: what on_start stored at datap.
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
	 * and if not, the log says why;
	 * else "host". Worker i has device i % n of n, for its life. With several, unkeyed jobs go
	 * to workers with room, on any device. One device's failure is that of all: CUDA's contexts
	 * in a process do not outlive each other.
	 */
	const char *device;
	uint32_t stream;	/* enum rnl_stream_kind */
	uint32_t max_queued;	/* queued jobs in the pool; deferred jobs have a limit of this
				 * number to themselves; 0: 65536 */
	uint32_t max_in_flight;	/* jobs that a worker has on the device at most, see in_flight_ns;
				 * 0: 64; at most 1000 */
	int32_t spin_us;	/* time that a thread spins before it sleeps; 0: chosen by the
				 * number of CPUs, as for nr_workers; -1: no spinning */
	uint32_t watchdog_ms;	/* time in which the pool notices a failure that CUDA reports;
				 * 0: 100 */
	uint32_t nr_urgent;	/* workers for urgent jobs only: rnl_job_urgent(); one at least for
				 * each device, or none */
	rnl_log_fn *log;	/* NULL: the log of rnl_set_log() */
	void *log_arg;
	uint32_t stuck_ms;	/* time after which a worker is stuck: rnl_pool_health();
				 * 0: 1000 */
	uint32_t time_every;	/* one job in time_every is timed, at random, for
				 * rnl_pool_read_stats(); rounded up to a power of two; 0: 64 */
	const char *name;	/* workers are called NAME-0, ..., their host streams NAME:0, ..., the
				 * keeper NAME-keep, a trace's writer NAME-trace; the UTF-8 characters
				 * in the first 12 (10, 9) bytes are used, or 11 from worker 100 on, 10
				 * from 1000 on; NULL: "rnl-worker" */
	const uint16_t *cpus;	/* worker i runs on CPU cpus[i % nr_cpus] only, and so does the
				 * thread of its host stream; NULL: on any CPU */
	uint32_t nr_cpus;	/* 0 if cpus is NULL */
	uint32_t guard;		/* enum rnl_guard */
	rnl_worker_start_fn *on_start; /* may be NULL */
	rnl_worker_stop_fn *on_stop; /* may be NULL */
	void *hook_arg;		/* argument of on_start and on_stop */
	uint64_t pinned_max;	/* bytes that the pool page-locks at most, for rnl_pinned_get()
				 * and for its own staging; 0: a quarter of the memory */
	uint64_t pinned_preload; /* bytes that the pool page-locks when it is created. On a GPU,
				 * several threads touch 64 MiB or more, which is registered
				 * then: it counts as the process's own memory (cgroups) */
	uint64_t staging_max;	/* bytes of pageable copies that a worker has under way before
				 * rnl_copy() waits; 0: 32 MiB */
	uint64_t scratch_keep;	/* bytes of scratch that a worker keeps for its next job;
				 * 0: 64 MiB */
	uint64_t in_flight_ns;	/* a worker that has two jobs on the device starts another one only
				 * if those there keep the device busy for less than this, by what
				 * jobs with their functions took before; 0: 1000000, a ms;
				 * UINT64_MAX: only max_in_flight bounds them */
	const char *top;	/* path of a local socket that shows the pool's figures as long as
				 * the pool exists: `runnel top PATH` reads them. At most 107 bytes;
				 * only the process's user, and root, can connect. A socket that a
				 * killed program left is replaced, anything else of that name is
				 * not. No directory where others may create files. NULL: none */
};
#define RNL_POOL_ATTR_INIT \
	{ sizeof(struct rnl_pool_attr), 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, \
	  NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL }

/*
 * Creates a pool and starts its workers, and one more thread, the keeper, which sleeps until a
 * queued job is cancelled or late.
 * @poolp: receives the pool; unchanged on failure.
 * @attr: copied; NULL means all defaults.
 * Context: blocks until every worker is attached to its device. The library's threads block all
 *	signals but SIGPROF and the synchronous ones (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 *	SIGSYS), whatever the caller's mask is. So the application's handler is called for a fault
 *	in a job, on the worker.
 * Return: 0, and rnl_pool_destroy() must be called for the pool later; the error of on_start,
 *	or of socket(2), bind(2) or listen(2) for top (-EADDRINUSE, -EACCES, ...), which is logged; -EINVAL on_start returned more than 0, poolp is NULL, an attribute is out of its
 *	range, attr is too short or its size was not set, the device's name is unknown, or the
 *	process may not run on one of the CPUs; -E2BIG attr is newer than the library and has a
 *	field set that the library does not know; -ENODEV no such device; -ENOMEM; -EAGAIN the
 *	system started no more threads; -ENOTSUP it refuses threads, or to keep them on a CPU, as a
 *	filter of system calls does (seccomp): the log says what; -EIO the device failed. On failure
 *	there is nothing to clean up.
 * Since: 0.1
 */
RNL_API int rnl_pool_create(struct rnl_pool **poolp, const struct rnl_pool_attr *attr);

/*
 * Changes the number of workers that serve the pool, urgent workers not counted. Other threads
 * may submit meanwhile. A worker that leaves completes the jobs that it has started, and other
 * workers steal the jobs in its queue. Its thread and its stream are kept for when the pool grows
 * again, because CUDA does not give the memory of a per-thread stream back. max_queued is divided
 * among the new number of workers.
 * Jobs with a key keep their order: those accepted after the change start when all those accepted
 * before it are done.
 * @nr_workers: at least one for each device; with the urgent workers at most RNL_WORKERS_MAX.
 * Context: blocks until the new workers serve and the leaving workers have stopped. That takes as
 *	long as the jobs on the leaving workers, and all jobs with a key that were accepted before
 *	the change. Not on a worker of the pool. Resizes by several threads happen one after
 *	another.
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
 * a barrier, and notices. Each completes with -ECANCELED, as by rnl_job_cancel(). The pool goes on:
 * a job that is submitted after this call runs. The jobs of maps go on, as do the requests of
 * batchers.
 * Context: its time does not depend on the number of jobs.
 * Ordering: a job whose submit or start runs beside this call is cancelled or not.
 * Return: how many jobs have not started, with the jobs of maps and batchers, notices for RNL_SPACE, and
 *	jobs that were cancelled earlier but have not completed yet; an estimate if other threads
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
 *	may run beside this call. After it these calls are legal: rnl_job_test(), rnl_job_wait(),
 *	rnl_job_result(), rnl_job_device_error(), rnl_job_cancel() and rnl_job_is_cancelled() on
 *	jobs that are done; a reap of the jobs that
 *	are in a completion queue, which makes them done; rnl_barrier_result(); a submit of a done
 *	job to another pool. Pinned buffers are gone. Memory of rnl_device_alloc() has to be
 *	freed before.
 * Context: blocks until all jobs are done: a hold that nobody releases keeps it waiting for ever. It
 *	logs a warning after stuck_ms with holds. rnl_pool_stop() waits for a time, and then
 *	rnl_pool_health() tells of them; a deadline of the job ends its holds. On a worker of the pool
 *	it only closes the pool and logs an error, because a thread cannot wait for its own end.
 * Since: 0.1
 */
RNL_API void rnl_pool_destroy(struct rnl_pool *pool);

/*
 * How many devices the pool has.
 * Return: 1 to RNL_DEVICES_MAX; -EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_nr_devices(struct rnl_pool *pool);

/*
 * Describes a device of the pool.
 * @device: its number in the pool, from 0; the order is that of the attribute `device`.
 * @info: as in rnl_device_describe().
 * Return: 0; -EINVAL pool or info is NULL, info has a wrong size, or the pool has no such device,
 *	which is logged; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_device(struct rnl_pool *pool, unsigned device, struct rnl_device_info *info);

/* ---- jobs ---------------------------------------------------------------- */

/*
 * A job: one host function that issues device work. A job is a member of a struct of the program's
 * own and needs no allocation. Its memory must stay valid until the job is done. All fields belong
 * to the library except `user`, which belongs to the program from rnl_job_init() on.
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
	int32_t result;
	union {
		uint32_t cancels; /* of all jobs, before its submit; until it is started */
		int32_t device_error; /* from then on */
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
	uint8_t unused;
	uint64_t reserved;
};

/*
 * A barrier that a job comes after: struct rnl_job_more. Each job has its own list of them, which begins
 * as zero, and is not changed while the job is submitted and not done.
 */
struct rnl_after {
	struct rnl_barrier *barrier;
	uint64_t round;		/* the library's */
};

enum rnl_when {
	RNL_NOW = 0,
	RNL_SPACE = 1,	/* the pool has room: at most half of max_queued jobs are in the workers'
			 * queues, at most half are deferred, at most half are behind others, and
			 * rnl_submit_wait() blocks no thread for either of the latter */
	RNL_EMPTY = 2	/* the pool is closed, and all other jobs are done, or in their completion
			 * queue */
};

/*
 * What few jobs have: rnl_job_set_more(). It is memory of the program's, of one job, and is not changed
 * while that is submitted and not done. It begins as RNL_JOB_MORE_INIT. The second part belongs to the
 * library.
 */
struct rnl_job_more {
	int64_t start_ns;	/* a time of rnl_clock(), not before which it is queued; 0: none */
	struct rnl_order *order; /* NULL: none */
	struct rnl_after *after; /* further barriers that it comes after: rnl_job_after() */
	uint32_t nr_after;
	uint32_t when;		/* enum rnl_when: what it waits for, as a notice */
	uint8_t trace_id[16];	/* is in a trace with the job, unless it is zero: a W3C trace-id, say */

	struct rnl_job *job;
	struct rnl_barrier *first; /* of rnl_job_after() */
	uint64_t gate;		/* whether it is ready in its order, and at its head */
	void *next, *before, *child, *cancelled; /* while it is delayed */
};
#define RNL_JOB_MORE_INIT { 0, NULL, NULL, 0, RNL_NOW, { 0 }, NULL, NULL, 0, NULL, NULL, NULL, NULL }

/*
 * Makes a job. `user` is NULL afterwards.
 * @job: memory of the program; not a job that was submitted and is not done.
 * @fn: NULL: the job is a notification only: rnl_barrier_notify(), enum rnl_when. Else a worker
 *	calls it once for each accepted submit. It issues work to the worker's implicit stream and
 *	returns without waiting for that work. Its return value becomes the job's result: 0 or a
 *	positive number of its own, or a negative errno, and then the job has failed. A positive
 *	errno (return EIO) is a value: the job succeeds. The pool's log says so of the first positive
 *	result, once. If an rnl_copy(), rnl_fill() or
 *	rnl_launch() in it failed, the job fails, whatever the function returned. The function must
 *	not wait: while it runs, no other job of its worker can become done. It leaves the thread's
 *	current CUDA device as it was. It returns: if it ends its thread (pthread_exit()), its job
 *	and those behind it are never done, and rnl_pool_health() tells of a stuck worker; a C++
 *	exception that leaves it ends the process (std::terminate()). A pthread_cancel() of a
 *	worker has no effect.
 * A job that is done may be submitted again without another rnl_job_init(). Its barriers, queue,
 * callback, deadline and urgency stay set.
 * If a CUDA call or a <<<...>>> in its function fails, the job fails, provided that the unit of
 * that call, or another one that uses the same copy of the CUDA runtime, includes runnel/cuda.h.
 * Return: 0; -EINVAL job is NULL.
 * Since: 0.1
 */
RNL_API int rnl_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job));

/*
 * Makes the job come after a barrier. It waits for the jobs that the barrier counts when this job
 * is submitted. The job starts when they have been issued, and its stream waits on the device for
 * their streams; if later jobs of the barrier are issued before it starts, its stream waits for
 * them as well. No host thread blocks. A barrier that counts no job, or no job yet, holds nothing
 * back: this job starts at once, and nothing is logged, as the library cannot know that jobs are to
 * follow. So submit the barrier's jobs before this one.
 * If a job of the barrier has failed by then, this job completes with -ECANCELED, and
 * its function is not called. A cancelled job has failed, so the jobs after it are cancelled in their
 * turn, and the cause is the result of the first barrier. A job that copies to
 * pageable memory counts as issued when it is done, because a CPU does its last step.
 * This job is done when the jobs that it waits for are, and not before, also if it was cancelled,
 * or missed its deadline: so its end tells that their memory may be reused.
 * @barrier: a barrier of the pool that the job will be submitted to; valid until the job is done.
 *	It replaces an earlier one. NULL removes it.
 * Ordering: the barrier counts every job that was accepted before this job's submit. All that
 *	these jobs did happens before this job is done.
 * Return: 0; -EINVAL job is NULL or was not initialised, or was added to this very barrier; -EBUSY
 *	the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_after(struct rnl_job *job, struct rnl_barrier *barrier);

/*
 * Puts a job behind another one: a chain, of any length. A submit of the first job accepts the whole
 * chain, or refuses it; the others are not submitted. When a job has been issued, its worker calls
 * the next one's function at once, before the jobs of its queue, and on the same stream: so the next
 * one works on what the job leaves on the device, and nothing waits on host or device between them.
 * Each is a job of its own, with its own result, barrier, callback or queue, and is done after the one
 * before it. The next one starts when the job is done, and not when it is issued, if the job has
 * holds, copies to pageable memory, or comes after a barrier.
 * If a job's function or a hold of it fails, or it is cancelled or late, those behind it complete
 * with -ECANCELED. Jobs that wait for their turn count as queued. A cancel, or a deadline, of such a
 * job is told when its turn has come; the urgency and the key are those of the first job, and for
 * rnl_pool_resize() only that job has the key. The deadline of a job behind counts from the submit's
 * call. If the first job waits for its time, a drain waits for those behind it, and so for the first
 * one.
 * @job: at most one job comes behind it; another call replaces that one.
 * @next: comes behind no other job, and after no barrier. NULL: nothing comes behind the job.
 *	It stays set: a later submit of the job submits both again.
 * Return: 0; -EINVAL a job is NULL or was not initialised, or both are one, or `next` is of a
 *	batcher's request, which is logged; -EBUSY one of them was submitted and is not done;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_then(struct rnl_job *job, struct rnl_job *next);

/*
 * Sets a callback for when the job is done, whatever its result. A worker calls it once for each
 * accepted submit, after the device has passed the job. If the job's function was not called, the
 * pool's own thread, the keeper, may call it: there rnl_worker_index() is -1, and the thread has
 * no implicit stream. While the keeper runs it, the pool starts no delayed job and no notice, and does
 * not complete other jobs that are cancelled or past their deadline. Where a comment says "on a worker of the pool", the keeper is one.
 * @fn: owns the job: it may submit it again or free it. It may call every function except a
 *	blocking wait on its own pool. Work that it issues to the stream belongs to no job. While it
 *	runs, its worker does nothing else. NULL removes a callback.
 * If a job has a callback, a return from rnl_job_wait() does not mean that the callback has run,
 * so the waiting thread must not free the job. Barriers and drains count the job until the
 * callback has returned.
 * Return: 0; -EINVAL job is NULL, was not initialised, or has a completion queue; -EBUSY the job
 *	was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_on_done(struct rnl_job *job, void (*fn)(struct rnl_job *job));

/*
 * Sets the completion queue that the job goes to after the device has passed it. The job is done,
 * and the program's again, when it is reaped there.
 * @cq: valid until the job is reaped; NULL removes the queue.
 * Return: 0; -EINVAL job is NULL, was not initialised, or has a callback; -EBUSY the job was
 *	submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_cq(struct rnl_job *job, struct rnl_cq *cq);

/*
 * Sets a deadline for the job's start. If the job has not started @timeout_ns after its submit,
 * its function is not called, and the job completes with -ETIMEDOUT. A job that has started runs
 * to its end, but its holds do not last longer: rnl_job_hold(). A queued job is told within 10 ms
 * of its deadline, also while all workers are busy, by the pool's keeper, a thread that needs a CPU
 * for a moment.
 * A job that comes after a barrier is told when a worker takes it. With tens of thousands of jobs
 * in a queue all this takes longer.
 * @timeout_ns: counted from each submit; negative: no deadline.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_deadline(struct rnl_job *job, int64_t timeout_ns);

/*
 * Makes the job urgent. In a pool with urgent workers (attribute nr_urgent) one of them runs it, on
 * a stream of the highest priority that the device has. On the host device, which has no
 * priorities, all workers take urgent jobs first. In a pool without urgent workers, the job is
 * taken before the other jobs in its worker's queue. A device's priorities apply to kernels, not
 * to copies: cudaStreamCreateWithPriority().
 * @urgent: 0 makes the job an ordinary one.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_urgent(struct rnl_job *job, int urgent);

/*
 * Places the job on a device of its pool: one of that device's workers runs it, also if it has a key
 * or is urgent. An unplaced job may run on any device of the pool, so what it does must not depend
 * on the device; rnl_worker_device() tells its function which one that is.
 * @device: its number in the pool; -1: none, as at the start. In a pool of one device it is 0. A job
 *	behind another one, by rnl_job_then(), runs where that one does.
 * Return: 0; -EINVAL job is NULL or was not initialised, or device is out of range, which is logged;
 *	-EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_device(struct rnl_job *job, int device);

/*
 * Says that the job's work may be gathered with that of other jobs: while there is a backlog, a
 * worker calls the functions of several such jobs one after the other, and only then issues what
 * they have issued: the copies of all of them together, and their kernels as a graph. So small jobs
 * take fewer calls of the driver. Kernels of RNL_KERNEL() go into graphs; a graph runs those of
 * several jobs at the same time. A job that is alone is run as ever, and so are urgent jobs, jobs of
 * a chain, all while a trace runs, and the first runs of a function, which the guard watches.
 * Built with a toolkit before CUDA 13, the library gathers, but issues each call by itself.
 * The code of the job's kernels stays loaded until the pool is destroyed.
 *
 * The function must issue by rnl_ calls alone, and wait for no other job. From rnl_stream() on, a
 * function's calls are issued at once, behind what it has issued before.
 * A copy, fill or launch that CUDA refuses fails the job as ever, but the call has returned 0; what
 * the job has issued behind it is left out. In the function, rnl_barrier_join() returns -EBUSY for
 * jobs that are gathered with it.
 * A job's operations have their order. Jobs with one key have theirs, and so have jobs of a chain,
 * and jobs after a barrier. Other jobs of one worker may see each other's work half done: they
 * must not share memory that one of them writes.
 * @gather: 0 makes the job an ordinary one.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was submitted and is not
 *	done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_gather(struct rnl_job *job, int gather);

/* How a worker records what a job's function issues: rnl_job_replay(). */
enum rnl_replay {
	RNL_REPLAY_OFF = 0,
	RNL_REPLAY_CALLS = 1,	/* the function's rnl_ calls are noted; no other thread notices */
	/*
	 * The function runs under CUDA's stream capture, which has what the function issues by CUDA
	 * itself, too. While it runs, CUDA makes calls of ALL threads of the process fail.
	 */
	RNL_REPLAY_CAPTURE = 2
};

/*
 * Says that the job's function issues the same work each time, and does nothing else. Then a worker
 * records what the function issues, on CUDA as a graph, and issues the record for later jobs of
 * that function; the function is not called. The work of a job of many kernels takes one call of
 * the driver.
 *
 * RNL_REPLAY_CALLS: the function must issue by rnl_copy(), rnl_copy_2d(), rnl_fill(), rnl_launch()
 * and rnl_job_args() alone. A run that is recorded is an ordinary run. Functions that call
 * rnl_stream(), and functions of a unit that includes runnel/cuda.h without RNL_NAMES_STREAM 1, are
 * not recorded: they may call CUDA by themselves, and a record would lack that work. The
 * library does not see work that another function puts on stream 0 in a pool of per-thread streams.
 *
 * RNL_REPLAY_CAPTURE: the function may launch by itself, or call libraries as cuBLAS, on
 * rnl_stream(). A worker captures two runs, and one after each 1000 replays; each worker does so.
 * During such a run, in each thread of the process, cudaDeviceSynchronize() fails with
 * cudaErrorStreamCaptureUnsupported, and, with per-thread streams, a use of the legacy default
 * stream with cudaErrorStreamCaptureImplicit. Both break the capture: the function is called a
 * second time. A driver (580.159.04) has been seen to crash in cudaDeviceSynchronize() then. So
 * choose it only if no thread makes such calls while the pool has these jobs. A pool with a guard
 * stops its own other workers meanwhile. The host device records both ways alike.
 *
 * The kernels and copies of a record have the addresses, the sizes and the arguments that the
 * function gave them. What differs from job to job lies in memory that they read: page-locked or
 * device memory at one address, or the bytes at the job's `user`, see rnl_job_args().
 * A worker replays a function that has issued the same in two runs, one after the other. It calls
 * it again after 1000 replays, to compare. If the function has issued something else, the pool's
 * log says so, and its jobs are run as ever until two runs are the same again. So are jobs of a
 * function that returns anything but 0, issues nothing, copies pageable memory, takes a hold, joins
 * a barrier, or makes a call that CUDA does not capture; the log says once which of them it was.
 * A job that gathers, too (rnl_job_gather()), is not recorded. Its function is called each time, and
 * the addresses and the arguments may differ. What it issues is launched as one graph, even if it
 * is alone. That needs rnl_ calls alone, and kernels of RNL_KERNEL().
 * The code of the job's kernels stays loaded until the pool is destroyed.
 * @replay: enum rnl_replay; RNL_REPLAY_OFF makes the job an ordinary one.
 * Return: 0; -EINVAL job is NULL or was not initialised, or replay is no value of enum
 *	rnl_replay, which is logged; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_replay(struct rnl_job *job, int replay);

/*
 * Gets the bytes at the running job's `user` on the device, for work that the job issues from now
 * on. They are read before the call returns; of a job that is replayed, when it is.
 * @bytes: 1 to RNL_JOB_ARGS_MAX.
 * @memp: receives device memory of rnl_scratch() with the bytes, aligned to 256 bytes.
 * Return: 0; -EINVAL called outside of a job's function (that of a map or a batcher is none), `user`
 *	or memp is NULL, or bytes is out of range; -ENODEV the thread is attached to no device;
 *	-ENOMEM; -EIO; -EOWNERDEAD. An error becomes the job's result, as with rnl_copy().
 * Since: 0.1
 */
RNL_API int rnl_job_args(size_t bytes, void **memp);
#define RNL_JOB_ARGS_MAX 1024u

/*
 * Gives a job a key, for this submit and later ones. One worker runs all jobs with one key, in the
 * order of their submits. They are never stolen.
 * In a pool of several devices a key has a device, by rendezvous hashing. A resize does not change
 * it. If a pool has more devices than another one, a key has the same device in both, or one of those
 * that the other pool lacks. A placed job has a worker of its own device; so jobs of one key that are
 * placed on different devices have no order.
 * An urgent job cannot have a key, because it overtakes other jobs; nor can a job behind another one
 * (rnl_job_then()), which runs where the first one does.
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
RNL_API int rnl_job_key(struct rnl_job *job, uint64_t key);

/*
 * Keys that say which worker: i from 0 to RNL_WORKERS_MAX - 1. In a pool with more than i workers,
 * urgent ones not counted, RNL_KEY_WORKER(0) to RNL_KEY_WORKER(i) are as many different workers: so
 * computing and communication, or the stages of a pipeline, never share a stream by chance. In a
 * smaller pool i counts around. Other keys may lead to the same workers. For a placed job, i is
 * the number of a worker among those of its device.
 */
#define RNL_KEY_WORKER(i) (UINT64_MAX - UINT64_C(1) * (i))
#define RNL_KEY_NONE (UINT64_MAX - RNL_WORKERS_MAX)

/*
 * An order: jobs that start in the order of their submits though they come after different barriers;
 * a communicator's collectives, say, must start in one order on all ranks. All fields belong to the
 * library.
 *
 *		init	submit	fini
 *	submit	X	-	X	-: no outside synchronisation needed
 */
struct rnl_order {
	struct rnl_pool *pool;
	uint64_t key;
	void *waiting;		/* jobs that came while another one waits */
	struct rnl_job *first;	/* those that were taken off there, in their order */
	uint32_t generation;
	uint32_t reserved;
};

/*
 * Makes an order.
 * @key: all its jobs have this key, and so one worker: rnl_job_key(), RNL_KEY_WORKER(). In a pool
 *	of several devices, jobs that are placed are all placed on one.
 * Return: 0; -EINVAL order or pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_order_init(struct rnl_order *order, struct rnl_pool *pool, uint64_t key);

/*
 * Ends the use of an order, whose memory may be reused then.
 * @order: may be NULL. No submit to it runs beside this call, and none follows.
 * Context: blocks until all its jobs were queued: until their barriers' jobs are issued. So not on a
 *	worker of the pool, which may be the one that has to issue them.
 * Since: 0.1
 */
RNL_API void rnl_order_fini(struct rnl_order *order);

/*
 * The time now: CLOCK_MONOTONIC, in nanoseconds.
 * Since: 0.1
 */
RNL_API int64_t rnl_clock(void);

/*
 * Names what few jobs have: a time, an order, several barriers to come after, what a notice waits for,
 * a trace id. It is looked at with each submit, which refuses what cannot be together.
 *
 * `start_ns` delays the job: its submit queues it at that time, not before; one that has passed is now.
 * On an idle machine it starts within a millisecond of its time. It may be 366 days from now at most: a
 * time of day is refused, as it is decades later. For a job that starts each 10 ms, let its callback add
 * 10 ms to the time and submit the job again, unless a flag of the program says that this was the last
 * time: a cancel may come while the job runs, and is forgotten by its next submit. A deadline counts from
 * the time. A delayed job is in no queue: max_queued, drains and rnl_pool_read_stats() do not count it
 * until its time has come; its barrier does. Its submit returns -EAGAIN only if its barrier counts too
 * many jobs, or there is no space for the jobs behind it. Delayed jobs cost the pool O(log n) each, on
 * average, and so does a cancel of one: it completes within 10 ms (the first one of a million within
 * some 100 ms). rnl_pool_close() completes delayed jobs with -ECANCELED.
 *
 * `order` has the job start behind the jobs of the order that were submitted before, with the order's
 * key. If it comes after barriers it waits for these in no queue, and the jobs behind it in the order
 * wait with it; jobs of the key that have no order, and above all the barriers' own, go on. A job only
 * waits for jobs that were submitted earlier, in this order or another one, so orders cannot deadlock:
 * also if a job of the order is in a barrier that another one comes after, and both are submitted at
 * once. Submits by different threads have the order in which they happened, if one happened before the
 * other. A submit may queue jobs of other threads that wait in the order. Its jobs count as deferred
 * until they are queued. A cancelled or expired one completes in its turn.
 *
 * `after` has the job come after further barriers, each as rnl_job_after() says: after the tasks that a
 * task of a graph needs, say, each of which is in a barrier of its own. It starts when the jobs that all
 * of them count at its submit are issued, and is done when these are.
 *
 * `when` makes the job a notice, which starts when the pool has room, or has ended, or at once if that is
 * so already. It is for an event loop, which cannot block in rnl_submit_wait() or rnl_pool_drain(): the
 * notice's function, its callback or its completion queue notifies the loop. A notice needs no
 * function: rnl_job_init() takes NULL. It is a job: while all workers are in functions, or callbacks,
 * it waits until one of them returns. It comes once for each submit, which never returns -EAGAIN.
 * RNL_SPACE is for backpressure: a server that gets -EAGAIN stops reading its sockets, submits a
 * notice, and reads again when it comes. A notice that finds no room at its submit starts before the
 * queued jobs then; one that finds room starts after them, so that it may submit itself again. A
 * submit may still find no space: in the part of max_queued that a key's worker, one device's workers
 * or the urgent ones have, for a chain of more than half of max_queued jobs, or in its barrier.
 * RNL_EMPTY reports the end of a pool to the loop that closed or stopped it. It may be submitted
 * before or after the close, also when the device has failed (then it completes with -EIO). Only
 * rnl_job_cancel() cancels it: rnl_pool_close(), rnl_pool_cancel() and rnl_pool_stop() do not. A drain
 * or a destroy of a closed pool waits for it, too.
 * A waiting notice is in no queue, as a delayed job. rnl_pool_close() completes those for RNL_SPACE with
 * -ECANCELED. A deadline counts from the submit, and is checked only when the notice starts. A notice
 * may start some milliseconds late.
 *
 * A submit refuses these combinations: a later job of a chain with anything but a trace id; a time with a
 * barrier to come after, or with an order; a notice with a barrier, a next job in its chain, a key, an
 * order or a time; an order with urgency, or with a key other than the order's.
 * @more: NULL removes them. The barrier that rnl_job_after() set stays. The struct that the job named
 *	until now must be valid until this call returns.
 * Return: 0; -EINVAL job is NULL or was not initialised, or `more` has begun anew while the job named it,
 *	which is logged; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.2
 */
RNL_API int rnl_job_set_more(struct rnl_job *job, struct rnl_job_more *more);

/*
 * Submits a job, as it was set. Without a key any worker may run it, and jobs have no order of their
 * starts, whatever the number of workers: a job may start before one that was submitted earlier, by the
 * same thread, too. rnl_job_key(), rnl_job_then() and rnl_job_after() give jobs an
 * order; rnl_job_set_more() has more, and a time.
 * If others are behind this job, by rnl_job_then(), they are submitted with it, all or none; the first
 * error is returned.
 * @job: belongs to the pool until it is done. On failure it remains the caller's, and its function
 *	is not called.
 * Context: wait-free, except for the wake of a sleeping worker, or of a thread in
 *	rnl_submit_wait(), for which it takes a lock; allocates nothing.
 * Ordering: what the caller wrote before is visible to the job's function. What the function and
 *	the device wrote is visible to each thread that knows by a wait, a test, a callback or a reap
 *	that the job is done. Short jobs of one worker may complete together, after the last of them:
 *	so a kernel must not wait for what the program does when another job completes, unless
 *	max_in_flight is 1.
 * Return: 0; -EAGAIN a limit is reached, and passes by itself: the pool is full, of whose
 *	max_queued each worker's queue has a part, rounded up, so a key's worker may be full alone (an
 *	event loop keeps the job, and submits it again after its next reap, or its notice
 *	for RNL_SPACE); or a thread waits in rnl_submit_wait() for a place of the same kind:
 *	as a deferred job, or for jobs behind this one; or the job's barrier counts 2^24 jobs that are not issued, or 2^30 that are
 *	not done; or the job comes after a barrier with seven rounds under way: rnl_barrier_add();
 *	-ESHUTDOWN the pool is closed; -EBUSY the job was
 *	submitted before and is not done; -EIO the device has failed; -ENODEV the pool is on the
 *	host device, and the function's unit says RNL_NEEDS_CUDA, which is logged; -EINVAL pool or
 *	job is NULL, the job was not initialised, or has no function, or is of a batcher's request,
 *	or is placed on a device that the pool lacks, or a barrier or the order of it is of another
 *	pool, or it has a key and is urgent, or a time and comes after a barrier or is in an order, or
 *	a job behind it comes after a barrier or has a key, an order or a time, or they make a circle,
 *	or are more than max_queued; each is logged; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_submit(struct rnl_pool *pool, struct rnl_job *job);

/*
 * Submits a job as rnl_submit() does; while the pool is full, it waits for space. If queues are long
 * (3,200 jobs for each worker), the wait takes at least 20 to 200 us: at most an eighth of a queue
 * empties in that time.
 * Places for deferred jobs, and for jobs behind others, are given to waiting threads first, in first-in,
 * first-out order for each kind: a stream of short chains cannot starve a long one. A thread that times
 * out loses its turn.
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
 * -ECANCELED. Until then it belongs to the pool. A queued job, or a notice, is told within 10 ms,
 * also while all workers are busy: rnl_job_deadline() says more. A cancel and a start exclude each
 * other: if this call returns 0, the function does not run.
 * Return: 0 the job completes with -ECANCELED, also if it was cancelled before, by itself or with
 *	all jobs; -EBUSY the job is not done, and has started: its function may learn of the cancel
 *	by rnl_job_is_cancelled(); or a worker or the keeper is at it, and completes it without a
 *	call, as it is late, was cancelled, or comes after a barrier with a job that failed;
 *	-EALREADY the job is done, or waits in its completion queue; -EINVAL job is NULL or was never
 *	submitted; -EOWNERDEAD.
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
 * Waits until a job is done. A job that goes to a completion queue is done when it is reaped.
 * rnl_cq_wait() waits for such a job and reaps it. If another thread reaps, this call waits for that,
 * with a timeout: with RNL_FOREVER it is refused, as it would never return if no thread reaped.
 * Context: blocks. Not on a worker of the job's pool.
 * Ordering: all that the job did, on host and device, happens before the return.
 * Return: 0 the job is done, and rnl_job_result() has its result; -ETIMEDOUT; -EBUSY the job is not
 *	done, and the call was made on a worker of its pool, or with RNL_FOREVER for a job that goes
 *	to a completion queue; -EINVAL job is NULL or was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_wait(struct rnl_job *job, int64_t timeout_ns);

/*
 * Tells if a job is done. It never blocks.
 * Ordering: if it returns 1, all that the job did, on host and device, happens before.
 * Return: 1 done; 0 not done; -EINVAL job is NULL or was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_test(struct rnl_job *job);

/*
 * The result of a job that is done: what its function returned, or
 * -ECANCELED  it was cancelled, or a job of the barrier before it failed;
 * -ETIMEDOUT  it was not started by its deadline;
 * -EIO        the device failed, or a CUDA call in the job failed;
 * -ENOMEM, -EINVAL, -ENODEV, -ENOTSUP  a CUDA call in the job failed, and CUDA's code has an errno;
 * -ENOTSUP    its function does what the strict guard forbids: enum rnl_guard.
 * Return: the result; -EBUSY the job is not done; -EINVAL job is NULL or was never submitted;
 *	-EOWNERDEAD. A job may have such a result of its own: what is returned once rnl_job_test(),
 *	a wait, a reap or a callback has told that the job is done is the result.
 * Since: 0.1
 */
RNL_API int rnl_job_result(const struct rnl_job *job);

/*
 * CUDA's code (cudaError_t) for a job's failure. It is for people and logs; a program acts on
 * rnl_job_result().
 * Return: the code; 0 if there is none, or if job is NULL or not done.
 * Since: 0.1
 */
RNL_API int rnl_job_device_error(const struct rnl_job *job);

/* ---- jobs that are finished from outside ---------------------------------- */

/*
 * A hold keeps a job from being done until any thread releases it: a reply that comes from a
 * network, the end of an MPI request, of a read, of a person's work. It names the job and no memory
 * of the job, so it may be copied, and may lie in memory that outlives the job. All fields belong
 * to the library.
 *
 *		hold	release	(of one job)
 *	hold	X	-	X: in the job's function, which runs on one thread
 *	release	-	-	-: no outside synchronisation needed
 */
struct rnl_hold {
	uint64_t use;
	uint32_t slot;
	uint32_t generation;
	uint32_t pool, epoch;
};

/*
 * Takes a hold on the job whose function calls this; any number of times. The job is done when its
 * function has returned, the device has passed what it issued, and all its holds are released. No
 * worker waits for that. Until then barriers, drains, queues and callbacks wait for the job, as do
 * jobs that come after its barrier, and rnl_barrier_join(): to them it is not issued before. The next
 * jobs of its key do not wait.
 * A deadline of the job bounds its holds, too: some ms after it the pool ends those that are not
 * released, with -ETIMEDOUT as a result. A cancel does not: rnl_job_is_cancelled() tells the thread
 * that has the hold. With a guard, a function that is called a second time starts with no hold: what
 * the first call took has ended.
 * @job: the job whose function runs on this thread.
 * @hold: receives the hold; unchanged on failure. rnl_hold_release() is due for it, once.
 * Context: in the job's function. When its worker has no free hold, it allocates memory for 64 of
 *	them, and each time for twice as many, which goes with the pool. If a worker takes holds of jobs
 *	with a deadline faster than the pool can clear them away, the call may wait for up to 10 ms.
 * Return: 0; -EINVAL hold is NULL, or job is not the one whose function runs on this thread, which
 *	is logged; -ENOMEM, also with four million holds of one worker in use; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_hold(struct rnl_job *job, struct rnl_hold *hold);

/*
 * Releases a hold. With the last one the job may become done: do not touch it afterwards.
 * @hold: the hold, or a copy of it; not used after the call.
 * @result: a negative errno fails the job, unless it has failed already. 0, or a positive number,
 *	changes nothing: then the function's return value is the job's result.
 * Context: any thread; it may run beside the function. It takes no lock, and wakes the job's worker.
 *	It may run beside rnl_pool_destroy(), which waits for the job.
 * Ordering: what the caller wrote before is visible to each thread that is told that the job is
 *	done, and to jobs that come after its barrier.
 * Return: 0; -EALREADY the hold was released before; -ESTALE the hold was released before, and
 *	another one has its place in the library now, or the job's deadline has ended it, or a
 *	second call of the job's function. With both codes nothing happens, and the job may be
 *	gone; -EINVAL hold is NULL, or is no hold, which is logged; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_hold_release(const struct rnl_hold *hold, int result);

/* ---- completion queues --------------------------------------------------- */

/*
 * A completion queue hands jobs to a thread that also waits for other things: an event loop. Jobs
 * of several pools may use one queue, and jobs of one pool may use several. The queue has no
 * limit: it holds only jobs that the program has submitted.
 *
 * Its file descriptor is a hint that says "reap now". It is armed when the queue is created, and
 * when a reap finds the queue empty. An armed descriptor becomes readable, by one write, when the
 * next job comes. With an edge-triggered poll, reap until a call returns fewer jobs than it asked for.
 * With a level-triggered poll one reap each time is enough, and more of them save polls. The
 * descriptor may be readable although a reap returns 0.
 *
 *		create	reap	wait	destroy	(jobs arrive)
 *	reap		X	X	X	-
 *	wait		X	X	X	-	X: one thread at a time
 *	destroy		X	X	X	-
 */

/*
 * Creates a completion queue.
 * @cqp: receives the queue; unchanged on failure.
 * Return: 0; -EINVAL cqp is NULL; -ENOMEM; -EMFILE, -ENFILE no file descriptor is left; -ENOTSUP the
 *	system refuses eventfd2, which is logged.
 * Since: 0.1
 */
RNL_API int rnl_cq_create(struct rnl_cq **cqp);

/*
 * Reaps the jobs that are still in the queue, and frees the queue. In a forked child, it frees the
 * child's copy of the parent's queue, with its descriptor, and does nothing else.
 * @cq: may be NULL. No job that uses the queue is under way.
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
 * Takes jobs off the queue. Each of them is done then, and the program's again.
 * @jobs: receives up to @max jobs, in the order in which they came to the queue.
 * Ordering: all that the jobs did, on host and device, happens before the return.
 * Return: the number of jobs, 0 if there is none. If it is less than max, the queue was empty, and
 *	the descriptor is armed. -EBUSY another thread is reaping; -EINVAL cq or jobs is NULL, or
 *	max is 0; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_cq_reap(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max);

/*
 * Takes jobs off the queue as rnl_cq_reap() does, and waits until there is one.
 * Context: blocks; a signal does not end the wait. On a worker of the pool whose jobs it waits for,
 *	it can wait for ever.
 * Return: as rnl_cq_reap(), but -ETIMEDOUT instead of 0.
 * Since: 0.1
 */
RNL_API int rnl_cq_wait(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max,
			int64_t timeout_ns);

/* ---- barriers ------------------------------------------------------------ */

/*
 * A barrier joins jobs of one pool. It counts a job from the submit that accepts the job until the
 * job is done; a refused submit changes nothing. All fields belong to the library.
 */
struct rnl_barrier {
	struct rnl_pool *pool;
	uint64_t open;		/* the open round: its slot, its counts */
	int32_t result;		/* of the first job that failed */
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
 *	jobs that come after the barrier are done, and rnl_barrier_wait() has returned 0; a timeout
 *	of 0 asks without waiting. That the barrier's own jobs are done is not enough: a worker tells
 *	the barrier of it afterwards, even after a job's callback. A drain of the pool is enough,
 *	too, and so is the end of a job that comes after all of them: rnl_barrier_notify() has one.
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
 * each after the other barrier, and no host waits. Up to seven ended rounds of a barrier may have
 * jobs that are not done, or jobs after that are not; then the submit of a job after is refused
 * with -EAGAIN, and rnl_submit_wait() waits.
 * Return: 0; -EINVAL barrier or job is NULL, the job was not initialised, or it comes after this
 *	very barrier, by rnl_job_after(); -EBUSY the job was submitted and is not done; -EOWNERDEAD.
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
 * Return: 0 all are done, and rnl_barrier_result() has the result; -ETIMEDOUT; -EBUSY called on a
 *	worker of the pool, and jobs are not done; -EINVAL barrier is NULL or was not initialised;
 *	-EOWNERDEAD.
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
 * Has a job tell that all jobs which the barrier counts now are done: so an event loop hears of a
 * fan-in, and no thread waits. The call ends the barrier's round, as the submit of a job after the
 * barrier does, and the job is done when the round is over. Its function is not called: rnl_job_init()
 * takes NULL for such a job. It goes to its completion queue, or its callback is called, once for
 * each call; rnl_job_wait() waits for it as for any job. Its result is 0, or that of the first job of
 * the barrier that failed. Nothing is started on a device, and no worker runs anything.
 * @job: initialised; in no barrier, after no barrier, first of no chain. It belongs to the pool until
 *	it is done. On failure it remains the caller's.
 * Context: any thread. The job is counted as queued. A callback runs on the worker that ended the
 *	round, or on the keeper. A cancel of the job returns -EBUSY, and changes nothing.
 * Ordering: all that the counted jobs did, on host and device, happens before the job is done. The
 *	library no longer touches them, and if it counts no others, nor the barrier.
 * Return: 0; -EAGAIN the barrier has as many ended rounds under way as it may: rnl_barrier_add(), or
 *	counts too many jobs, or max_queued jobs wait so; -ESHUTDOWN the pool is closed; -EBUSY the
 *	job was submitted and is not done; -EINVAL barrier or job is NULL or was not initialised, or
 *	the job is in a barrier, after one, or has one behind it; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_barrier_notify(struct rnl_barrier *barrier, struct rnl_job *job);

/*
 * The result of the barrier's first job that failed, or 0. It stays until the next
 * rnl_barrier_init().
 * Return: the result; -EINVAL barrier is NULL or was not initialised; -EOWNERDEAD. For a barrier
 *	that this process has initialised, these are results of a job.
 * Since: 0.1
 */
RNL_API int rnl_barrier_result(const struct rnl_barrier *barrier);

/* ---- work on the implicit stream ----------------------------------------- */

/*
 * rnl_copy(), rnl_copy_2d(), rnl_fill() and rnl_launch() issue work to the calling thread's
 * implicit stream and return. The device does the work later, in the order in which it was issued.
 * A worker always has an implicit stream; any other thread has one after rnl_thread_attach(). In a
 * job, the first error becomes the job's result.
 */

struct rnl_dim {
	uint32_t x, y, z;
};

/*
 * Copies bytes between host and device, within or between devices, or from host to host. The
 * pointers tell the direction.
 * @dst, @src: @bytes bytes each; they do not overlap.
 * Both must stay valid until the device has passed the copy: in a job, until the job is done. Do
 * not write to @src and do not read @dst before that.
 * The device copies page-locked memory, such as that of rnl_pinned_get(), by itself. Pageable
 * memory (malloc, the stack, a mapped file) is staged: a CPU copies it in pieces through
 * page-locked memory of the pool. In a job, @src is read before the call returns, and the worker
 * writes @dst before the job is done. The call returns at once, however much work is on the
 * stream. It waits for the oldest staged copy when the worker has staging_max bytes, or some 1000
 * copies, under way. It also waits for a staged copy that must still write what this call reads.
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
 * Copies a rectangle: row i from src + i * src_pitch to dst + i * dst_pitch. Otherwise it is
 * rnl_copy().
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
 * A kernel for every device: a host function, and a function that launches the CUDA kernel. Both
 * get the kernel's arguments as one struct. RNL_HOST_KERNEL() and RNL_KERNEL() of runnel/cuda.h
 * define a kernel.
 */
struct rnl_kernel {
	const char *name;
	size_t args_bytes;	/* size of the argument struct */
	/* Does the whole grid's work. NULL: the kernel cannot run on the host device. */
	void (*host)(struct rnl_dim grid, struct rnl_dim block, const void *args);
	/*
	 * Launches the kernel on a cudaStream_t and returns a cudaError_t. NULL: the kernel cannot
	 * run on CUDA.
	 */
	int (*cuda)(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream);
	/*
	 * Gives the CUfunction of the kernel that cuda() launches, with args as its one parameter
	 * and nothing else; returns a cudaError_t. NULL: no graph has the kernel.
	 */
	int (*cuda_function)(void **functionp);
};

/*
 * Defines `const struct rnl_kernel NAME` for the host device only. Its name has hidden visibility:
 * two modules of one process may each have a kernel of that name.
 */
#define RNL_HOST_KERNEL(kernel_name, host_fn, args_type) \
	extern __attribute__((visibility("hidden"))) const struct rnl_kernel kernel_name; \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, NULL, NULL \
	}

/*
 * Launches a kernel.
 * @kernel: valid until the device has passed the launch.
 * @grid, @block: CUDA's dimensions; none is 0.
 * @args: the kernel's argument struct; copied before the call returns.
 * Return: 0; -EINVAL an argument is NULL, a dimension is 0, the argument struct is larger than
 *	RNL_KERNEL_ARGS_MAX, or CUDA refused the launch; -ENOTSUP the kernel has no function for
 *	this device; -ENODEV the thread is attached to no device; -EIO; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_launch(const struct rnl_kernel *kernel, struct rnl_dim grid,
		       struct rnl_dim block, const void *args);

/*
 * Waits on the host until the device has passed all that the calling thread issued. It is for
 * threads that are not workers: a job that waits wastes its worker.
 * Context: blocks.
 * Return: 0; -ETIMEDOUT; -EBUSY called in a job; -ENODEV the thread is attached to no device; -EIO
 *	the device has failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_stream_wait(int64_t timeout_ns);

/*
 * The calling thread's implicit stream: on CUDA a cudaStream_t, for libraries that take one. Do not
 * give it to another thread: with per-thread streams, a handle names another stream there.
 * Return: the stream; NULL on the host device, on a thread that has none, and in a forked child.
 * Since: 0.1
 */
RNL_API void *rnl_stream(void);

/*
 * The index of the calling thread in its pool, from 0 to RNL_WORKERS_MAX - 1; -1 if the thread is
 * no worker. Urgent workers have the first indices.
 * Since: 0.1
 */
RNL_API int rnl_worker_index(void);

/*
 * The device of the calling worker, as its number in the pool: rnl_pool_device(), rnl_job_device().
 * Return: the number; -1 if the thread is no worker.
 * Since: 0.1
 */
RNL_API int rnl_worker_device(void);

/*
 * What the pool's on_start stored for the calling worker.
 * Return: the pointer; NULL if the thread is no worker, or the pool has no on_start.
 * Since: 0.1
 */
RNL_API void *rnl_worker_data(void);

/*
 * Gives the calling thread an implicit stream on the pool's device, of several on the first. The
 * thread keeps it until rnl_thread_detach() or until its end; on CUDA, a thread's end does not wait
 * for work that it issued. If the thread is attached to a device of the pool already, by any pool or
 * as a worker, nothing changes. The stream outlives the pool. If the device has failed, do not join
 * the thread: CUDA may not return from its end.
 * Return: 0; -EINVAL pool is NULL; -EBUSY the thread is attached to a device that is none of the
 *	pool's; -ENODEV it is a pool's keeper, in a callback, which has no stream; -ENOMEM;
 *	-EAGAIN the system started no more threads; -ENOTSUP it refuses threads; -EIO; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_thread_attach(struct rnl_pool *pool);

/*
 * Waits for the work that the calling thread issued, and takes its stream away. It does nothing on
 * a worker, or on a thread that is not attached.
 * Context: blocks.
 * Since: 0.1
 */
RNL_API void rnl_thread_detach(void);

#ifdef __cplusplus
}
#endif

#include <runnel/batch.h>
#include <runnel/guard.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/trace.h>

#endif /* RUNNEL_H */
