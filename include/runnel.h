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
struct rnl_cq;

/* ---- the library --------------------------------------------------------- */

/*
 * The version of the library that runs, as 0x00MMmmpp.  RNL_VERSION_MAJOR,
 * RNL_VERSION_MINOR and RNL_VERSION_PATCH are the one that was compiled against.
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
 * @arg: the attribute log_arg.
 * @msg: one line without newline, valid for the call only.
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
 *	without CUDA; -ENOMEM, -EIO it answers, but CUDA cannot describe it.
 *	Fields that a newer program has are set to 0.
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

/*
 * Guard finds what keeps streams from running beside each other.  Each distinct
 * function (of jobs, maps and batchers) is watched when it first runs: what it
 * issues is captured, and then issued, once, in its place, so that the job is as
 * ever, only slower.  What it should not have done is logged, with the function's
 * name (of dladdr(): of an executable's own functions it knows those that are not
 * static, and only if that is linked with -rdynamic; else file and offset are
 * named), what it costs, and what to write instead; and counted in rnl_pool_stats():
 *	- it used the legacy default stream;
 *	- it waited for a stream or the device (cudaDeviceSynchronize(), ...);
 *	- it made or freed memory with cudaMalloc(), cudaFree() and the like, or had
 *	  rnl_pinned_get() page-lock more;
 *	- it copied pageable memory, with rnl_copy() or by itself.
 * CUDA has one error for the second and the third; where the driver does not tell
 * which call it was (its log, since CUDA 12.9), both are named.
 *
 * A function of which something was found has had no effect on the device then, and
 * is CALLED A SECOND TIME, unwatched; the second call's result is the job's, and what it
 * did on the host (counters, submits, ...) is done twice.  So is one that cannot be
 * captured though nothing is wrong with it: it waits for an event of another stream, or
 * joins a barrier, or frees with cudaFreeAsync() what another job has allocated, or some
 * call of it failed.  What it issues to a stream of its own that is not joined with
 * the job's by events is not captured, and done twice, too.  Events that it records
 * (not with cudaEventRecordExternal) belong to the capture: to ask for one of these
 * later, outside of the function, fails with cudaErrorCapturedEvent, after that one run.
 *
 * While a function is watched the pool's other workers are held before they go
 * into a caller's code.  If they are not all out of it within 10 ms, it runs unwatched, and
 * is tried again at its 2nd, 4th, 8th ... run; and who was held for 200 ms goes in,
 * should the watched one wait for it.  Other threads of the process cannot be held:
 * if one uses the legacy stream just then, that call of it fails with
 * cudaErrorStreamCaptureImplicit.  So guard is for tests and for looking, not for service.
 */
enum rnl_guard {
	RNL_GUARD_OFF = 0,
	RNL_GUARD_REPORT = 1,	/* the job is as ever: it is logged and counted */
	/*
	 * Such a job fails with -ENOTSUP, and all later ones of the function do, without a
	 * call; nothing of them is done on the device.
	 */
	RNL_GUARD_STRICT = 2
};

/*
 * Called in a worker's own thread when it begins to serve, and when it ceases
 * to: at the pool's end, or when a resize sends it away.  The thread's implicit
 * stream is there, so a library's handle that is made here (cuBLAS, cuFFT, ...)
 * can be bound to it.
 * @arg: the attribute hook_arg.
 * @worker: its index.
 * @datap: receives what rnl_worker_data() gives to this worker's jobs.
 * @data: that.
 * Context: workers start and stop beside each other.  No waiting for the pool.
 * Return: 0; a negative errno, with which the pool's creation or resize fails.
 *	on_stop is called for just those workers whose on_start returned 0.
 */
typedef int rnl_worker_start_fn(void *arg, unsigned worker, void **datap);
typedef void rnl_worker_stop_fn(void *arg, unsigned worker, void *data);

struct rnl_pool_attr {
	uint32_t size;		/* sizeof(struct rnl_pool_attr) */
	uint32_t nr_workers;	/* 0: min(8, CPUs); with nr_urgent at most RNL_WORKERS_MAX */
	const char *device;	/* as rnl_device_info(); NULL: "auto" */
	uint32_t stream;	/* enum rnl_stream_kind */
	uint32_t max_queued;	/* jobs queued in the whole pool, and as many again that
				 * wait for barriers; 0: 65536 */
	uint32_t max_in_flight;	/* jobs a worker has on the device; 0: 64, at most 1000 */
	int32_t spin_us;	/* a thread spins so long before it sleeps;
				 * 0: by the number of CPUs; -1: not at all */
	uint32_t watchdog_ms;	/* a device failure that CUDA tells is seen within; 0: 100 */
	uint32_t nr_urgent;	/* workers for urgent jobs alone, see rnl_job_urgent() */
	rnl_log_fn *log;	/* NULL: nothing is logged */
	void *log_arg;
	uint32_t high_water;	/* jobs queued, see rnl_submit_when(); 0: 3/4 of max_queued */
	uint32_t low_water;	/* less than high_water; 0: half of it */
	uint32_t stuck_ms;	/* a worker is stuck after, see rnl_pool_health(); 0: 1000 */
	uint32_t time_every;	/* one job in so many is timed, at random, see rnl_pool_stats();
				 * rounded up to a power of two; 0: 64 */
	const char *name;	/* threads are called NAME-0, ...: 12 bytes of it are used;
				 * NULL: "rnl-worker" */
	const uint16_t *cpus;	/* worker i runs on CPU cpus[i % nr_cpus] alone, its host
				 * stream's executor, too; NULL: anywhere */
	uint32_t nr_cpus;	/* 0 if cpus is NULL */
	uint32_t guard;		/* enum rnl_guard */
	rnl_worker_start_fn *on_start; /* may be NULL */
	rnl_worker_stop_fn *on_stop; /* may be NULL */
	void *hook_arg;		/* what these two get */
	uint64_t pinned_max;	/* bytes that rnl_pinned_get() page-locks at most, what the
				 * pool itself stages included; 0: a quarter of the memory */
	uint64_t pinned_preload; /* bytes of these that are page-locked at the start */
	uint64_t staging_max;	/* bytes of pageable copies that a worker has under way
				 * before rnl_copy() holds it; 0: 32 MiB */
	uint64_t scratch_keep;	/* bytes of scratch that a worker keeps for its next job;
				 * 0: 64 MiB */
};
#define RNL_POOL_ATTR_INIT \
	{ sizeof(struct rnl_pool_attr), 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, \
	  NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0 }

/*
 * Creates a pool and starts its workers.
 * @poolp: receives the pool; untouched on failure.
 * @attr: copied; NULL is all defaults.
 * Context: blocks until every worker is attached to its device.  Workers
 *	block all signals, whatever the caller's mask.
 * Return: 0, and the pool is to be given to rnl_pool_destroy(); what on_start
 *	returned, if that failed; -EINVAL poolp is NULL, an attribute is out of its
 *	range, attr is too short or its size was never set, the device's name is
 *	unknown, or a CPU is none that this process may run on; -E2BIG attr is newer
 *	than the library and uses what that does not know; -ENODEV no such device;
 *	-ENOMEM; -EAGAIN the system would not start a thread; -EIO the device
 *	failed.  On failure nothing remains to be cleaned up.
 * Since: 0.1
 */
RNL_API int rnl_pool_create(struct rnl_pool **poolp, const struct rnl_pool_attr *attr);

/*
 * Changes how many workers serve the pool, urgent ones not counted, while
 * others submit.  Workers that go finish what they hold, and others steal from
 * them; their threads and streams are kept for when the pool grows again
 * (CUDA does not return a per-thread stream's memory).  max_queued is shared
 * out anew.
 * Jobs with a key keep their order: those accepted after the change start once
 * all accepted before it are done.
 * @nr_workers: 1 or more; with the urgent ones at most RNL_WORKERS_MAX.
 * Context: blocks until the new number of workers serves and the others have
 *	ceased to: for as long as it takes the jobs that these hold, and all jobs
 *	with a key that were accepted before the change.  Not on a worker of the
 *	pool.  Resizes of several threads happen one after the other.
 * Return: 0; what on_start returned, if that failed; -EINVAL pool is NULL or the
 *	number out of its range; -EBUSY called on a worker of the pool; -ESHUTDOWN
 *	the pool is closed; -ENOMEM, -EAGAIN, -EIO a worker could not start;
 *	-EOWNERDEAD.  On failure the pool is as it was.
 * Since: 0.1
 */
RNL_API int rnl_pool_resize(struct rnl_pool *pool, unsigned nr_workers);

/*
 * Refuses further jobs: rnl_submit() gives -ESHUTDOWN from now on.  What was
 * accepted before runs and completes; notices that still wait complete with
 * -ECANCELED (rnl_submit_when()).  Closing twice is no error.
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
 * Ordering: all that those jobs did happens before its return.  Those that go to
 *	a completion queue are there, and may have to be reaped yet.
 * Return: 0; -ETIMEDOUT jobs remain; -EBUSY called on a worker of the pool;
 *	-EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_drain(struct rnl_pool *pool, int64_t timeout_ns);

/*
 * Closes and drains the pool, ends its workers, and frees it.  If its device has
 * failed, their threads stay, asleep: CUDA may not come back from their end.
 * @pool: may be NULL.  No call on the pool, nor a wait for its jobs or a cancel
 *	of them, may run beside this one or follow it.
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

/*
 * How long something took, of the jobs that were timed.  The quantiles are
 * those of a histogram whose buckets are a sixteenth of their value wide.
 */
struct rnl_latency {
	uint64_t nr;		/* jobs timed; the rest is 0 if that is */
	uint64_t sum_ns;
	uint64_t p50_ns, p99_ns, p999_ns;
	uint64_t max_ns;
};
#define RNL_LATENCY_INIT { 0, 0, 0, 0, 0, 0 }

/*
 * Of one worker, or of all.  Every job accepted is queued, running, in flight or
 * done; one that waits for a barrier counts as queued in the sum of all, and for
 * no worker.
 */
struct rnl_pool_stats {
	uint32_t size;		/* sizeof(struct rnl_pool_stats) */
	uint32_t nr_workers;	/* that serve now, urgent ones included */
	uint64_t accepted;	/* jobs accepted since the pool was created; submits that
				 * are being refused at this very moment may count, too */
	uint64_t done;		/* jobs completed, failed and cancelled included */
	uint64_t failed;	/* of these: with a negative result */
	uint64_t cancelled;	/* of these: -ECANCELED, function not run */
	uint64_t timed_out;	/* of these: -ETIMEDOUT, function not run */
	uint64_t queued;	/* now: accepted, not yet taken by a worker */
	uint64_t in_flight;	/* now: function run, device not yet there */
	uint64_t stolen;	/* jobs run by another worker than the one chosen */
	uint64_t slept;		/* how often a worker went to sleep idle */
	struct rnl_latency queue_wait; /* from the submit to the function's start */
	struct rnl_latency host; /* from there to the function's return */
	struct rnl_latency device; /* from there until the worker saw it done */
	uint64_t staged_bytes;	/* copied by a CPU, since their memory was pageable: what
				 * rnl_pinned_get() would save */
	uint64_t untraced;	/* records of jobs that a trace had no room for: rnl_trace_start() */
	/* In the sum of all alone, 0 for a worker: */
	uint64_t pinned_locked;	/* bytes page-locked now for rnl_pinned_get() */
	uint64_t pinned_used;	/* bytes of these that are in buffers given out */
	uint64_t device_calls;	/* by the process, ever, that had the device allocate or free
				 * memory, scratch not counted, or make an event: slow ones */
	uint64_t guard_functions; /* that enum rnl_guard has watched, and of these, that ... */
	uint64_t guard_legacy;	/* ... used the legacy default stream */
	uint64_t guard_waits;	/* ... waited for a stream, or the device */
	uint64_t guard_memory;	/* ... made memory, or freed it, other than in stream order */
	uint64_t guard_waits_or_memory; /* ... did one of these two: CUDA did not say which */
	uint64_t guard_pageable; /* ... copied pageable memory */
	uint64_t guard_unclear;	/* ... did one of all these, or another thread used the legacy
				 * stream at that time */
	uint64_t guard_twice;	/* calls that were made again */
	uint64_t guard_postponed; /* runs of functions yet to be watched: the pool was not quiet */
	uint64_t guard_beyond;	/* runs of functions not watched, since there are more than 256 */
};
#define RNL_POOL_STATS_INIT \
	{ sizeof(struct rnl_pool_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
	  RNL_LATENCY_INIT, RNL_LATENCY_INIT, RNL_LATENCY_INIT, 0, 0, 0, 0, \
	  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Counts what the pool did.  It reads every worker's counters and histograms
 * once; nobody is held up.
 * Ordering: each figure is right for some moment during the call, together
 *	they are not a snapshot.
 * Return: 0; -EINVAL pool or stats is NULL, or stats of a wrong size;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_stats(struct rnl_pool *pool, struct rnl_pool_stats *stats);

/*
 * The same, of one worker.
 * @worker: its index, as rnl_worker_index() has it.
 * Return: as rnl_pool_stats(); -EINVAL also if no worker ever had that index;
 *	one that was sent away keeps its counts, and has nr_workers 0.
 * Since: 0.1
 */
RNL_API int rnl_worker_stats(struct rnl_pool *pool, unsigned worker, struct rnl_pool_stats *stats);

/*
 * Writes all of it in the text format that Prometheus scrapes (exposition
 * format 0.0.4), every sample with the label pool="NAME".
 * @name: NULL is the attribute's name, or "rnl-worker".
 * @buf: receives the text and a NUL; may be NULL if bytes is 0.
 * @bytes: room at buf.
 * Return: the length of the text without its NUL.  If that is not less than
 *	bytes, nothing of it was written, but that buf is an empty string: call
 *	again with more, the counts have grown meanwhile.  -EINVAL pool or buf
 *	is NULL; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_stats_text(struct rnl_pool *pool, const char *name, char *buf, size_t bytes);

enum rnl_health_state {
	RNL_HEALTH_OK = 0,
	RNL_HEALTH_OVERLOADED = 1,	/* as many jobs are queued as high_water, or more */
	RNL_HEALTH_STUCK = 2,		/* a worker is at one job for longer than stuck_ms */
	RNL_HEALTH_FAILED = 3		/* the device has failed: a new process is needed */
};

struct rnl_health {
	uint32_t size;			/* sizeof(struct rnl_health) */
	uint32_t state;			/* enum rnl_health_state: the worst that holds */
	int32_t device_error;		/* FAILED: CUDA's code, or -1 if it gave none */
	uint32_t nr_stuck;		/* workers that are stuck */
	uint32_t stuck_worker;		/* the one that is for the longest time ... */
	uint32_t on_device;		/* ... 1: waits for the device; 0: is in the function */
	uint64_t stuck_ms;		/* ... for so long, to some milliseconds */
	const struct rnl_job *stuck_job; /* ... in this: for comparing, it may be gone */
	uint64_t queued;		/* as in rnl_pool_stats, without jobs put off */
};
#define RNL_HEALTH_INIT { sizeof(struct rnl_health), 0, 0, 0, 0, 0, 0, NULL, 0 }

/*
 * Says how the pool is: for a server's health check.
 * Context: as rnl_pool_stats(), and cheaper.
 * Return: 0; -EINVAL pool or health is NULL, or health of a wrong size;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pool_health(struct rnl_pool *pool, struct rnl_health *health);

/* ---- jobs ---------------------------------------------------------------- */

/*
 * A job: one host function that issues device work.  It lives in the caller's
 * own request, stays there until it is done, and costs no allocation.  All
 * fields belong to the library except `user`, which is the caller's from
 * rnl_job_init() on.
 */
struct rnl_job {
	int (*fn)(struct rnl_job *job);
	void *link;
	struct rnl_pool *pool;
	uint32_t state;
	uint32_t phase;
	uint32_t generation;
	int32_t result;
	int32_t device_error;
	uint16_t worker;
	uint16_t flags;
	struct rnl_barrier *barrier;
	struct rnl_barrier *after;
	struct rnl_cq *cq;
	void (*on_done)(struct rnl_job *job);
	int (*check)(void);	/* runnel/cuda.h: the unit's cudaGetLastError */
	uint64_t number;	/* its key; then its place on the stream */
	void *user;		/* the caller's */
	uint64_t deadline_ns;
	uint64_t stamp_ns;
	uint32_t table;
	uint32_t producer;
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
 * A job that is done may be submitted again without a new init; its barriers,
 * its queue, its callback, its deadline and its urgency stay as they were set.
 * Units that include runnel/cuda.h get, by a macro of the same name, a job
 * that also fails when a CUDA call or a <<<...>>> in its function failed.
 * Return: 0; -EINVAL job or fn is NULL.
 * Since: 0.1
 */
RNL_API int rnl_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job));

/*
 * Makes the job start after a barrier: once every job that the barrier counts
 * has been issued, this one is started, and its stream waits for theirs on
 * the device.  No host thread blocks for it.  (A job that copies to pageable
 * memory counts as issued when it is done: the last step is a CPU's.)  If by then a job of the barrier
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
 * Has a function called when the job is done: once per accepted submit, on a
 * worker thread, after the device has passed the job, whatever its result.
 * @fn: the job is its: it may submit it again or free it; it may call anything
 *	but a blocking wait on its own pool, and what it issues to the stream
 *	belongs to no job.  While it runs, its worker does nothing else.  NULL
 *	takes a callback back.
 * With a callback, rnl_job_wait() tells that the job is done, not that the
 * callback has run: so who waits does not free the job.  Barriers and drains
 * count the job until the callback has returned.
 * Return: 0; -EINVAL job is NULL, was not initialised, or names a completion
 *	queue; -EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_on_done(struct rnl_job *job, void (*fn)(struct rnl_job *job));

/*
 * Names the completion queue that the job goes to when it is finished.  It is
 * done, and the caller's again, when it is reaped there.
 * @cq: stays valid until the job is reaped; NULL takes it back.
 * Return: 0; -EINVAL job is NULL, was not initialised, or has a callback;
 *	-EBUSY the job was submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_cq(struct rnl_job *job, struct rnl_cq *cq);

/*
 * Gives the job a time to start in: if its function has not been called
 * @timeout_ns after its submit, it will not be, and the job completes with
 * -ETIMEDOUT.  A job that was started runs to its end.
 * It completes when a worker comes to it, which finds it late: not at the
 * deadline itself, if all workers are at other jobs.
 * @timeout_ns: counted anew from each submit; negative: none.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was
 *	submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_deadline(struct rnl_job *job, int64_t timeout_ns);

/*
 * Makes the job urgent.  In a pool with urgent workers (attribute nr_urgent) it
 * goes to one of these, whose streams have the highest priority that the device
 * knows; on the host device, which has no priorities, every worker takes it
 * before other work.  In a pool without, it is taken before what else is in its
 * worker's queue.  The device's priority is that of kernels, not of copies
 * (cudaStreamCreateWithPriority()).
 * @urgent: 0: as any other.
 * Return: 0; -EINVAL job is NULL or was not initialised; -EBUSY the job was
 *	submitted and is not done; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_urgent(struct rnl_job *job, int urgent);

/*
 * Cancels a job that has not started: it completes with -ECANCELED, when a
 * worker comes to it, and its function does not run.  Until it is done it
 * stays the pool's.
 * Of this call and the job's start one comes first: either this returns 0 and
 * the function never runs, or the function runs.
 * Return: 0 it will complete with -ECANCELED (or is to already); -EBUSY it has
 *	started and is not done; -EALREADY it is done, or waits in its
 *	completion queue; -EINVAL job is NULL or was never submitted; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_cancel(struct rnl_job *job);

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
 * An urgent job has no key: its place is before the others.
 * Ordering: of submits by different threads, the order is that in which they
 *	happened, if one happened before the other.  A job that comes after a
 *	barrier takes its place when the barrier's last job is issued, and two
 *	such jobs have no order among them.
 * Return: as rnl_submit(); -EAGAIN when the queue of the key's worker is full;
 *	-EINVAL also if the job is urgent.
 * Since: 0.1
 */
RNL_API int rnl_submit_keyed(struct rnl_pool *pool, struct rnl_job *job, uint64_t key);

/*
 * As rnl_submit() and rnl_submit_keyed(), but wait for room while the pool is
 * full: until some is made; and if queues are long, 3,200 jobs for each worker, not before
 * 20 to 200 us are over, in which no more than an eighth can go.
 * Context: blocks; on a worker of the pool, and with a timeout of 0, not.
 * Return: as those, but -ETIMEDOUT there was no room in time (the job is still
 *	the caller's) instead of -EAGAIN; -EAGAIN on a worker of the pool, and
 *	the pool is full; -ESHUTDOWN also if it was closed meanwhile.
 * Since: 0.1
 */
RNL_API int rnl_submit_wait(struct rnl_pool *pool, struct rnl_job *job, int64_t timeout_ns);
RNL_API int rnl_submit_keyed_wait(struct rnl_pool *pool, struct rnl_job *job, uint64_t key,
				  int64_t timeout_ns);

enum rnl_water {
	RNL_LOW_WATER = 0,	/* so few jobs are queued as the attribute low_water, or fewer */
	RNL_HIGH_WATER = 1	/* so many as high_water, or more; or a submit was refused, full */
};

/*
 * Submits a job that starts once the pool is so full, or so empty: at once if
 * it is.  It goes before what is queued.  A server that stops reading its
 * sockets on -EAGAIN, or on a job for RNL_HIGH_WATER, starts again on one for
 * RNL_LOW_WATER: by the job's function, its callback or its completion queue.
 * A notice, once: submit it again for the next time.  It waits outside of the
 * queues: neither max_queued, nor a drain, nor rnl_pool_stats counts it until
 * it starts.  rnl_pool_close() completes those that wait with -ECANCELED.
 * Ordering: as rnl_submit().  With several workers the marks are looked at by
 *	each of them now and then: the notice may come some jobs late.
 * Return: as rnl_submit(), but never -EAGAIN; -EINVAL also if the job comes
 *	after a barrier, or the mark is none.
 * Since: 0.1
 */
RNL_API int rnl_submit_when(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark);

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
 * -ECANCELED  it was cancelled, or came after a barrier of which a job failed;
 * -ETIMEDOUT  it was not started by its deadline;
 * -EIO        the device failed, or a CUDA call in the job did;
 * -ENOMEM, -EINVAL, -ENODEV, -ENOTSUP  the same, where the CUDA code has an errno;
 * -ENOTSUP    its function does what the strict guard forbids (enum rnl_guard).
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

/* ---- completion queues --------------------------------------------------- */

/*
 * Finished jobs for a thread that also waits for other things: an event loop.
 * Jobs of any number of pools may name one queue, and jobs of one pool
 * different ones.  The queue has no bound: each job in it was submitted by
 * somebody.
 *
 * Its file descriptor is a hint that says "reap now".  It is armed when the queue
 * is created, and when a reap has seen it empty; then it becomes readable, by
 * one write, when the next job comes.  So with a level-triggered poll, reap once
 * whenever it is readable; with an edge-triggered one, until a reap returns less
 * than asked for.  Now and then it is readable and a reap returns 0.
 *
 *		create	reap	wait	destroy	(jobs finish)
 *	reap		X	X	X	-
 *	wait		X	X	X	-	X: one thread at a time
 *	destroy		X	X	X	-
 */

/*
 * Creates a completion queue.
 * @cqp: receives it; untouched on failure.
 * Return: 0; -EINVAL cqp is NULL; -ENOMEM; -EMFILE, -ENFILE no file descriptor
 *	is left.
 * Since: 0.1
 */
RNL_API int rnl_cq_create(struct rnl_cq **cqp);

/*
 * Takes jobs that are still in the queue off it, as a reap does, and frees it.
 * @cq: may be NULL.  No job that names it is under way.
 * Context: may wait for a worker's last write to the descriptor.
 * Since: 0.1
 */
RNL_API void rnl_cq_destroy(struct rnl_cq *cq);

/*
 * The queue's file descriptor, an eventfd, non-blocking and close-on-exec, to
 * be polled for reading.  It is the queue's: whoever polls it does not read
 * from it, and does not close it.
 * Return: that; -EINVAL cq is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_cq_fd(struct rnl_cq *cq);

/*
 * Takes finished jobs off the queue.  From now on they are done, and the
 * caller's.
 * @jobs: receives up to @max jobs, in the order in which they finished.
 * Ordering: all that the jobs did, on host and device, happens before.
 * Context: does not block.
 * Return: how many, 0 if none; if less than max, the queue was seen empty, and
 *	the descriptor is armed.  -EBUSY another thread is reaping; -EINVAL cq
 *	or jobs is NULL, or max is 0; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_cq_reap(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max);

/*
 * As rnl_cq_reap(), but waits until there is a job.
 * Context: blocks; signals do not end it.  On a worker of the pool whose jobs it
 *	waits for, it might wait for ever.
 * Return: as that, but -ETIMEDOUT instead of 0.
 * Since: 0.1
 */
RNL_API int rnl_cq_wait(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max,
			int64_t timeout_ns);

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
 *	library no longer touches them: their memory may be reused, but that of a
 *	job which goes to a completion queue when it is reaped.
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
 * Context: blocks until the jobs' functions have returned, and maps, and jobs
 *	that copy to pageable memory, are done; else never for the device: a stream that waited for work not yet issued
 *	could hold the hardware queue which that work needs.  On a worker of the barrier's own
 *	pool it does not block.
 * Return: 0; -EBUSY on a worker of the pool, and jobs are not issued; -EINVAL
 *	barrier is NULL or was not initialised; -EIO the device has failed;
 *	-ENODEV the calling thread is attached to another device; -EAGAIN the
 *	system would not start a thread; -ENOMEM; -EOWNERDEAD.
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
 * rnl_copy(), rnl_copy_2d(), rnl_fill() and rnl_launch() issue work to the calling
 * thread's implicit stream and return; the device does it later, in order.  A worker
 * has such a stream always, any other thread after rnl_thread_attach().  Inside a
 * job, the first error becomes the job's result.
 */

struct rnl_dim {
	uint32_t x, y, z;
};

/*
 * Copies bytes: to, from, within or between devices, or from host to host; the
 * direction is found from the pointers.
 * @dst, @src: @bytes bytes each, which do not overlap.
 * How long they must last: until the device has passed the copy, that is, for a
 * job, until it is done.  Do not write to @src, nor look at @dst, before.
 * Between the device and memory of rnl_pinned_get(), or other page-locked
 * memory, the copy is the device's own.  Pageable memory (malloc, the stack, a
 * mapped file) goes through page-locked memory of the pool, in pieces, by a CPU:
 * in a job, @src is read before the call returns, and @dst is written by the
 * worker before the job is done.  The call returns at once, however much is
 * queued on the stream, until the worker has staging_max bytes under way, or
 * some 1000 copies; then it waits for the oldest of these, as it does for one
 * that has yet to write what this one reads.  Copies from host to host, and
 * outside of a job those of pageable memory, CUDA does while the caller waits,
 * behind all that is on the stream.
 * Ordering: with all that this thread issues; kernels that reach pageable memory
 *	by themselves, where they can, are in no order with copies of it.
 * Return: 0; -EINVAL a pointer is NULL and bytes is not 0, or CUDA refused
 *	it; -ENODEV the thread is attached to no device; -EIO; -ENOMEM;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_copy(void *dst, const void *src, size_t bytes);

/*
 * As rnl_copy(), for a rectangle: row i of it is at dst + i * dst_pitch, and
 * comes from src + i * src_pitch.
 * @width: bytes of a row.
 * @dst_pitch, @src_pitch: bytes from one row to the next, not less than width, and
 *	less than 2 GiB.
 * Return: as rnl_copy(); -EINVAL also if a pitch is not as said.
 * Since: 0.1
 */
RNL_API int rnl_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			size_t width, size_t rows);

/*
 * Sets @bytes bytes at @dst to @value.
 * @dst: the device's memory, or page-locked; valid until the device has passed it.
 * Return: as rnl_copy(); -EINVAL also for pageable memory.
 * Since: 0.1
 */
RNL_API int rnl_fill(void *dst, uint8_t value, size_t bytes);

/*
 * A kernel that runs on every device: a host function, and what launches its
 * CUDA twin.  RNL_HOST_KERNEL() and, of runnel/cuda.h, RNL_KERNEL()
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
 *	is attached to no device; -EIO; -ENOMEM; -EOWNERDEAD.
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
 *	attached to no device; -EIO the device has failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_stream_wait(int64_t timeout_ns);

/*
 * The calling thread's implicit stream as the device knows it: a cudaStream_t
 * on CUDA, to be given to libraries that want one.  Never hand it to another
 * thread: per thread, the same handle names another stream.
 * Return: the stream; NULL on the host device, or if the thread has none, as in a
 *	forked child.
 * Since: 0.1
 */
RNL_API void *rnl_stream(void);

/*
 * Which worker of its pool the calling thread is, from 0; -1 if it is none.
 * Urgent workers come first, then the others; less than RNL_WORKERS_MAX.
 * Since: 0.1
 */
RNL_API int rnl_worker_index(void);

/*
 * What the pool's on_start gave for the worker that the calling thread is.
 * Return: that; NULL if the thread is no worker, or there was no on_start.
 * Since: 0.1
 */
RNL_API void *rnl_worker_data(void);

/*
 * Gives the calling thread an implicit stream on the pool's device, until
 * rnl_thread_detach() or the thread's end, which on CUDA does not wait for what
 * the thread issued.  A thread that is attached to that device already, by any
 * pool, or as a worker, stays as it is.  The stream outlives the pool.  When the
 * device has failed, CUDA may not come back from the thread's end: do not join it.
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
 * A buffer of host memory that the pool's device copies from and to without
 * holding the caller, and that kernels can reach (page-locked, portable, mapped):
 * 64-byte aligned, from 64 KiB on to a page.  On the host device plain memory.
 * Buffers are cut from large pieces, which the pool keeps: once it has enough of
 * a size, to get one and to put it back takes neither a lock nor CUDA.
 * @bytes: rounded up, above 256 by less than a quarter; and a buffer needs 64 bytes
 *	more, or a page from 64 KiB on.
 * @bufp: receives the buffer, to be given back by rnl_pinned_put() or with the
 *	pool.
 * Context: lock-free; blocks when more is to be page-locked, which takes a
 *	millisecond for each megabyte (attribute pinned_preload).
 * Return: 0; -EINVAL an argument is NULL or bytes is 0; -ENOMEM it would be more
 *	than pinned_max, or than there is; -EIO; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pinned_get(struct rnl_pool *pool, size_t bytes, void **bufp);

/*
 * As rnl_pinned_get(), but while that would be more than pinned_max, waits for
 * others to put buffers back.
 * Context: blocks; on a worker of the pool not: there it is as that.
 * Return: as that; -ETIMEDOUT others have not put enough back in time; -ENOMEM only
 *	if so many bytes can never be had.
 * Since: 0.1
 */
RNL_API int rnl_pinned_get_wait(struct rnl_pool *pool, size_t bytes, void **bufp,
				int64_t timeout_ns);

/*
 * Gives a pinned buffer back; nothing may be using it any more.
 * @buf: as rnl_pinned_get() gave it; NULL does nothing.  One that was put back
 *	already, or was written to in front of its start, is noticed: an error is
 *	logged, and nothing else is done.
 * Context: lock-free.
 * Since: 0.1
 */
RNL_API void rnl_pinned_put(struct rnl_pool *pool, void *buf);

/*
 * Memory of the pool's device for what outlives a job; on the host device plain
 * memory, 64-byte aligned.
 * Context: may block, but not for what is on the device's streams.
 * Return: 0; -EINVAL an argument is NULL or bytes is 0; -ENOMEM; -EIO;
 *	-EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_device_alloc(struct rnl_pool *pool, size_t bytes, void **memp);

/*
 * Frees it; no job that uses it may be unfinished.
 * @mem: NULL does nothing.
 * Context: may block, but not for what is on the device's streams.
 * Since: 0.1
 */
RNL_API void rnl_device_free(struct rnl_pool *pool, void *mem);

/*
 * Device memory for the job that runs: for what it issues, from here on, to its
 * worker's stream.  It is gone when the job is done, whatever its result, and
 * needs no free.  A worker keeps what its jobs used (attribute scratch_keep),
 * and then this takes some nanoseconds; more comes from the device, in stream
 * order, without a wait.  What was there before is not defined.
 * @memp: receives it, 256-byte aligned; may be called several times in a job.
 * Return: 0; -EINVAL called outside of a job, or memp is NULL, or bytes is 0;
 *	-ENOMEM; -EIO.  As with rnl_copy(), an error becomes the job's.
 * Since: 0.1
 */
RNL_API int rnl_scratch(size_t bytes, void **memp);

/* ---- large arrays -------------------------------------------------------- */

/*
 * What the function of a map gets: one chunk, on the device.
 */
struct rnl_chunk {
	uint64_t index;		/* of the chunk, from 0 */
	uint64_t first;		/* number of its first element in the array */
	uint64_t nr;		/* elements; fewer in the last chunk alone */
	uint64_t before, after;	/* elements there are beside them: the halos, or fewer at the
				 * array's ends */
	const void *in;		/* element `first`, 256-byte aligned; halos lie before it and behind
				 * the last */
	void *out;		/* room for nr elements, aligned alike; the same as `in` in place
				 * without halo */
	void *arg;		/* as in struct rnl_map */
};

enum rnl_map_flags {
	/*
	 * A job takes two chunks, and issues both their copies in, then both
	 * kernels, then both copies out; without it, each job issues copy, kernel
	 * and copy of one chunk.
	 */
	RNL_MAP_COPIES_FIRST = 1,
	/*
	 * read() gets the chunks in order, one at a time, and so does write(): for
	 * pipes and the like.  Their turn is waited for by jobs, not by workers.
	 */
	RNL_MAP_IN_ORDER = 2,
	/* The report has the times of the stages; to take them costs some 6 % (H200). */
	RNL_MAP_TIMED = 4
};

#define RNL_MAP_AUTO UINT64_MAX	/* chunk: so large as runnel thinks right */

/* What became of a map. */
struct rnl_map_report {
	uint32_t size;		/* sizeof(struct rnl_map_report) */
	uint32_t nr_jobs;	/* that took turns in it */
	uint64_t chunks;	/* done */
	uint64_t bytes_in, bytes_out; /* copied to the device and from it */
	uint64_t wall_ns;	/* from the call until all was done */
	uint64_t read_ns;	/* of CPUs, all together: in read(), or to stage pageable memory */
	uint64_t write_ns;	/* the same, out */
	/* With RNL_MAP_TIMED; for how long the device had some chunk in this stage: */
	uint64_t in_ns, kernel_ns, out_ns;
	uint32_t overlap_percent; /* these three to wall_ns: 100 one after the other, 300 at best */
	uint32_t limit_percent;	/* the longest of these to wall_ns: 100 is as fast as can be */
};
#define RNL_MAP_REPORT_INIT { sizeof(struct rnl_map_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

struct rnl_map {
	uint32_t size;		/* sizeof(struct rnl_map) */
	uint32_t flags;		/* enum rnl_map_flags */
	/* Issues what is to be done with a chunk, as a job's function does; 0 or an error. */
	int (*fn)(const struct rnl_chunk *chunk);
	void *arg;		/* for the callbacks */
	uint64_t nr;		/* elements of the array; 0: the map is done at once */
	uint64_t chunk;		/* elements of a chunk, or RNL_MAP_AUTO */
	uint64_t halo_before, halo_after; /* elements that a chunk gets of its neighbours; not
				 * more than a chunk */
	size_t in_bytes, out_bytes; /* of an element; out_bytes 0: nothing comes out */
	const void *in;		/* the array, in the host's memory; NULL: read() has it */
	void *out;		/* may be `in` (in place), else does not overlap it; NULL: write() */
	/* Puts elements first, ... first + nr - 1 at @buf, which is pinned; halos are read, too. */
	int (*read)(void *arg, void *buf, uint64_t first, uint64_t nr);
	/* Takes what came out. */
	int (*write)(void *arg, const void *buf, uint64_t first, uint64_t nr);
	struct rnl_map_report *report; /* filled in at the end; NULL: not wanted */
	int (*check)(void);	/* the library's: runnel/cuda.h sets it */
};
#define RNL_MAP_INIT \
	{ sizeof(struct rnl_map), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, \
	  NULL }

/*
 * Streams a large array through the workers: chunks in, a function for each
 * chunk, chunks out, all at the same time.  A few jobs, at most two for each
 * worker, take turns at the chunks, among what else is queued; the device has one
 * chunk's memory for each worker (scratch), two with RNL_MAP_COPIES_FIRST.
 * Arrays should be page-locked; if not, the workers copy them to and from
 * page-locked memory, at most two chunks for each worker, past their caches.
 * What is not in memory comes from read() and goes to write(): any worker calls them, several at once and
 * in any order, unless RNL_MAP_IN_ORDER is set.  A worker in a callback does
 * nothing else meanwhile.
 * @map: copied; what it points to, the report too, stays valid until the
 *	barrier tells that all is done.
 * @barrier: of the pool; it counts the map as one job, from this call until the
 *	last chunk is out.  Jobs after it start then.
 * Context: allocates; starts the first chunks.  Once it has returned 0, a close
 *	does not stop the map, and a drain waits for it.
 * Ordering: chunks have none among them.
 * Return: 0; -E2BIG map is newer than the library and uses what that does not know;
 *	-EINVAL an argument is NULL, or map of a wrong size or with unknown flags;
 *	no fn; an element of 0 bytes in; a chunk of 0; a halo larger than a chunk;
 *	neither in nor read, or both; out or write missing, or both, or there though
 *	out_bytes is 0; in and out overlap and are not the same; in place with
 *	elements that become larger or smaller; an array in the device's memory;
 *	sizes that overflow; the barrier is of another pool; -EAGAIN the pool is
 *	full; -ESHUTDOWN; -ENOMEM; -EIO; -EOWNERDEAD.  Unless it is 0, nothing was
 *	started.
 * The first error of fn(), read(), write() or the device ends the map: no
 * further chunk is begun, and the barrier has it for its result.  What is in `out`
 * then is not defined.
 * Since: 0.1
 */
RNL_API int rnl_map(struct rnl_pool *pool, const struct rnl_map *map, struct rnl_barrier *barrier);

/* ---- traces -------------------------------------------------------------- */

enum rnl_trace_timing {
	/*
	 * On the device, as many jobs as a twentieth of a worker's time allows: all
	 * that take it long, some of those that do not.
	 */
	RNL_TRACE_SOME = 0,
	RNL_TRACE_EVERY = 1,	/* every job, whatever that costs */
	RNL_TRACE_HOST = 2	/* none: only what the host did */
};

struct rnl_trace_attr {
	uint32_t size;		/* sizeof(struct rnl_trace_attr) */
	uint32_t timing;	/* enum rnl_trace_timing */
	uint64_t buffer_bytes;	/* of each worker; 0: 4 MiB; at least 64 KiB, at most 1 GiB */
	uint64_t file_max;	/* bytes that the file has at most, and as much memory as a fifth
				 * of that; 0: 256 MiB; at least 64 KiB */
};
#define RNL_TRACE_ATTR_INIT { sizeof(struct rnl_trace_attr), 0, 0, 0 }

/*
 * Begins to write what the pool's jobs do to a file, in the trace-event format
 * of Chrome and Perfetto (https://ui.perfetto.dev opens it): for each worker a
 * track of its thread and one of its device, with the times at which each job was
 * submitted, taken by the worker, issued, on the device and done; what
 * rnl_copy(), rnl_fill(), rnl_launch() and rnl_map() issue, by its kind; and
 * arrows from the thread that submitted a job, to the job, to the thread that
 * waited for it.  `runnel report` makes a report of it.
 * Workers note jobs in buffers of their own, and take no lock for it; a thread
 * of the trace writes them to the file.  What neither has room for is dropped, and
 * counted in the file and in rnl_pool_stats().
 * @path: is made, or emptied; a regular file.
 * @attr: copied; NULL is all defaults.
 * Context: blocks until every worker has come by: for as long as the functions
 *	take that run now.  Not on a worker of the pool.
 * Return: 0, and the trace runs until rnl_trace_stop(), or the pool's end; what
 *	open(2) or write(2) says of the file (-EACCES, -ENOENT, -ENOSPC, ...);
 *	-EALREADY one runs already; -EBUSY called on a worker of the pool; -EINVAL
 *	pool or path is NULL, an attribute is out of its range, or the path is of no
 *	regular file; -E2BIG attr is newer than the library and uses what that does
 *	not know; -ENOMEM; -EAGAIN the system would not start a thread; -EIO the
 *	device failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_start(struct rnl_pool *pool, const char *path,
			    const struct rnl_trace_attr *attr);

/*
 * Ends the trace and closes its file.  Jobs that are not done yet are in it, as
 * unfinished.
 * Context: as rnl_trace_start(); and it writes to the file.
 * Return: 0 the file is whole; what write(2) said when it failed (-ENOSPC, -EDQUOT,
 *	-EFBIG, -EIO, ...): the file opens, and ends at that time, while jobs went
 *	on; -EALREADY no trace runs; -EBUSY called on a worker of the pool;
 *	-EINVAL pool is NULL; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_stop(struct rnl_pool *pool);

#define RNL_OVERLAP_DEPTH 16	/* so many jobs at once are told apart */

/* What was on the device at the same time, of the jobs that were timed there. */
struct rnl_overlap {
	uint32_t size;		/* sizeof(struct rnl_overlap) */
	uint32_t nr_workers;	/* that had jobs there */
	uint64_t nr_jobs;	/* that it is about: of the latest 65536 spans, each of a job or of
				 * an operation in it */
	uint64_t nr_untimed;	/* jobs of the trace, ever, that were there, but not timed, or are */
	uint64_t elapsed_ns;	/* from the first job's begin to the last one's end */
	uint64_t busy_ns;	/* with at least one job on the device */
	uint64_t sum_ns;	/* what they would have taken one after another */
	uint64_t in_ns, kernel_ns, out_ns; /* with at least one copy in, kernel, copy out */
	uint64_t copies_ns;	/* with copies in and copies out at once */
	uint64_t all_ns;	/* with copies in, kernels and copies out at once */
	uint64_t longest_gap_ns; /* without any job */
	uint32_t speedup_percent; /* sum_ns to busy_ns: 100 one after another */
	uint32_t nr_apart;	/* pairs of workers that never had jobs there at once */
	uint64_t at_once_ns[RNL_OVERLAP_DEPTH + 1]; /* with so many jobs there; the last: or more */
};
#define RNL_OVERLAP_INIT \
	{ sizeof(struct rnl_overlap), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 } }

/*
 * Says how much of what the jobs have on the device was there at the same time, by
 * the trace that runs.
 * @overlap: filled in; its size must be set.
 * Context: may wait for the trace's writer, and for a start or a stop of the trace.
 * Return: 0; -EALREADY no trace runs; -EINVAL an argument is NULL, or overlap of
 *	a wrong size; -ENOMEM; -EBUSY called on a worker of the pool; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_trace_overlap(struct rnl_pool *pool, struct rnl_overlap *overlap);

/* ---- small requests ------------------------------------------------------ */

/*
 * A batcher has many small requests of one kind moved and run together.  A producer
 * reserves a slot, a pointer straight into page-locked memory, fills it, and commits
 * it.  A worker that is free takes all that is committed, copies it to the device at
 * once, and calls one function for all of it.  So a lone request goes at once, and
 * batches grow under load, as far as workers, or max_in_flight, hold them up: that is
 * the only delay.  A request waits for the batches before it, no longer; above all not
 * for other producers: what they have reserved and not committed goes with a later batch.
 *
 *	rnl_request_init(&r->request);
 *	rnl_job_cq(&r->request.job, cq);		or a callback, a barrier, a wait
 *
 *	rnl_batcher_reserve(batcher, &r->request, bytes);
 *	fill(r->request.in, bytes);
 *	rnl_request_commit(&r->request);
 *	... rnl_cq_reap() ...
 *	use(r->request.out);
 *	rnl_request_release(&r->request);
 */
struct rnl_batcher;

/* Where the input of one request is, if they are of different sizes. */
struct rnl_span {
	uint32_t offset;	/* from `in` of the batch; a multiple of 16 */
	uint32_t bytes;
};

/* What the function of a batcher gets: some requests, on the device. */
struct rnl_batch {
	void *arg;		/* as in struct rnl_batcher_attr */
	uint32_t nr;		/* requests, 1 or more */
	uint32_t reserved;
	size_t in_bytes;	/* at `in`, of all of them */
	const void *in;		/* request i: at in + i * attr.in_bytes, or in + spans[i].offset;
				 * the first one 256-byte aligned */
	void *out;		/* its output: at out + i * attr.out_bytes, aligned alike; NULL if
				 * that is 0 */
	const struct rnl_span *spans; /* on the device; NULL without RNL_BATCHER_VARIABLE */
	int32_t *status;	/* on the device, nr times 0; NULL without RNL_BATCHER_STATUS.
				 * What is left in status[i] is the result of request i: 0 or a
				 * number of its own, or a negative errno: it has failed */
};

enum rnl_batcher_flags {
	/* Requests are of up to in_bytes; the function is told where they lie. */
	RNL_BATCHER_VARIABLE = 1,
	/* The kernel sets results of its own: struct rnl_batch, status. */
	RNL_BATCHER_STATUS = 2
};

struct rnl_batcher_attr {
	uint32_t size;		/* sizeof(struct rnl_batcher_attr) */
	uint32_t flags;		/* enum rnl_batcher_flags */
	/*
	 * Issues what is to be done with a batch, as a job's function does, on a worker;
	 * 0, or a negative errno, with which all its requests fail.
	 */
	int (*fn)(const struct rnl_batch *batch);
	void *arg;
	size_t in_bytes;	/* of a request's input, or with RNL_BATCHER_VARIABLE at most */
	size_t out_bytes;	/* of its output; may be 0 */
	uint32_t max_batch;	/* requests in one batch at most; 0: 256, not more than 32768 */
	uint32_t max_in_flight;	/* batches under way at once; 0: 4, not more than 32 */
	size_t slab_bytes;	/* input of one slab; 0: four of the largest batches, or 16 MiB */
	uint32_t nr_slabs;	/* to begin with; 0: 4 */
	uint32_t max_slabs;	/* made when none has room; 0: twice nr_slabs, not more than 32 */
	int (*check)(void);	/* the library's: runnel/cuda.h sets it */
	uint64_t reserved;	/* 0 */
};
#define RNL_BATCHER_ATTR_INIT \
	{ sizeof(struct rnl_batcher_attr), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0 }

/*
 * A request.  It lives in the caller's memory, and ends as a job does: by
 * rnl_job_wait(), rnl_job_on_done(), rnl_job_cq() or rnl_barrier_add() of its `job`,
 * and with rnl_job_result().  `job.user` is the caller's from rnl_request_init() on;
 * all else belongs to the library.
 */
struct rnl_request {
	struct rnl_job job;
	void *in;		/* to be filled, from the reserve to the commit; aligned to the power
				 * of two that divides attr.in_bytes, 64 at most, or with
				 * RNL_BATCHER_VARIABLE to 16 */
	const void *out;	/* from when it is done until its release, aligned alike by
				 * out_bytes; NULL if that is 0, or its whole batch failed */
	size_t in_bytes;	/* at `in` */
	struct rnl_batcher *batcher;
	uint64_t turn;
	uint32_t slab;
	uint32_t slot;
	uint32_t state;
	uint32_t reserved[3];
};

/*
 * Creates a batcher, which takes its memory from the pool's pinned buffers.
 * @batcherp: receives it; untouched on failure.
 * @pool: outlives the batcher.
 * @attr: copied.
 * Context: blocks while memory is page-locked.
 * Return: 0; -EINVAL an argument is NULL, attr is of a wrong size, has unknown flags, no
 *	fn, in_bytes of 0, or a number out of its range: a request or a slab of 1 GiB or
 *	more, a slab smaller than a request, max_slabs less than nr_slabs; -E2BIG attr is
 *	newer than the library and uses what that does not know; -ENOMEM; -ESHUTDOWN the
 *	pool is closed; -EIO the device failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_batcher_create(struct rnl_batcher **batcherp, struct rnl_pool *pool,
			       const struct rnl_batcher_attr *attr);

/*
 * Refuses further requests, waits until those that were committed are done, and frees
 * the batcher.
 * @batcher: may be NULL.  No other call on it, nor on a request that was reserved there,
 *	may run beside this one or follow it, but that callbacks of requests may still
 *	call all but this, and are told -ESHUTDOWN.  Slots that were not committed, and
 *	outputs that were not released, are gone.
 * Context: blocks.  On a worker of the pool it only closes the batcher, and logs an
 *	error: a thread cannot wait for its own end.
 * Since: 0.1
 */
RNL_API void rnl_batcher_destroy(struct rnl_batcher *batcher);

/*
 * Makes a request of caller's memory, not while that is a request that is reserved, under
 * way or not released; `job.user` is NULL afterwards.  How it is to end is set by the
 * functions for jobs, any time that it is not under way, and stays as it was set.
 * Return: 0; -EINVAL request is NULL.
 * Since: 0.1
 */
RNL_API int rnl_request_init(struct rnl_request *request);

/*
 * Reserves a slot for a request: `in` points to it then.
 * The slot is the caller's until it commits or cancels it, however long that takes: others
 * do not wait for it, but its slab is not used again meanwhile.  A producer that dies in
 * between costs that slab's memory, in place of which another one is made, up to max_slabs.
 * @request: initialised, and not in use.
 * @bytes: in_bytes of the attributes; with RNL_BATCHER_VARIABLE, 1 to that.
 * Context: lock-free; allocates nothing.
 * Ordering: what was in the slot before is not defined, and nobody uses it any more.
 * Return: 0, and the request is to be committed or cancelled; -EAGAIN all slabs are in use:
 *	requests are under way, or not released, so try again when one was; -ESHUTDOWN the
 *	batcher or the pool was closed; -EIO the device has failed; -EBUSY the request is
 *	reserved, under way or not released; -EINVAL an argument is NULL, bytes is not as
 *	said, or the request was not initialised; -EOWNERDEAD.  Unless it is 0, the request
 *	is as it was.
 * Since: 0.1
 */
RNL_API int rnl_batcher_reserve(struct rnl_batcher *batcher, struct rnl_request *request,
				size_t bytes);

/*
 * As rnl_batcher_reserve(), but waits for room.
 * Context: blocks; on a worker of the pool, and with a timeout of 0, not.
 * Return: as that, but -ETIMEDOUT instead of -EAGAIN; -EAGAIN on a worker of the pool, and
 *	there is no room; -ESHUTDOWN, -EIO also if the pool was closed, or the device has
 *	failed with requests under way, meanwhile.
 * Since: 0.1
 */
RNL_API int rnl_batcher_reserve_wait(struct rnl_batcher *batcher, struct rnl_request *request,
				     size_t bytes, int64_t timeout_ns);

/*
 * Hands a request that was reserved, and filled, to the workers.
 * From here on it is under way, as a job that was submitted and has started: so
 * rnl_job_cancel() gives -EBUSY.  It is done when the device has passed its batch.
 * A barrier counts it from here on, and as issued when it is done.
 * Context: lock-free up to the wake of a sleeping worker; allocates nothing.
 * Ordering: what the caller wrote before is visible to the device, and what that wrote
 *	to whoever sees the request done.  Requests have no order among them.
 *	rnl_pool_drain() waits for those whose commit has returned.
 * Return: 0; else the slot is still the caller's: -ESHUTDOWN the batcher or the pool was
 *	closed; -EIO the device has failed; -EBUSY it was committed before, and not
 *	released; -EINVAL request is NULL, or not reserved, or its barrier is of another
 *	pool, or it has what only jobs may have: a barrier that it comes after, a
 *	deadline, urgency; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_request_commit(struct rnl_request *request);

/*
 * Gives the slot of a request back that was reserved and not committed: it goes nowhere, and
 * may be reserved again.
 * Context: as rnl_request_commit().
 * Return: 0; -EBUSY it was committed, and not released; -EINVAL request is NULL or not
 *	reserved; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_request_cancel(struct rnl_request *request);

/*
 * Gives the memory of a request back that is done, whatever its result: `out` is gone, and it
 * may be reserved again.  rnl_job_result() of it stays, until then.
 * @request: of one thread at a time.
 * Context: lock-free.
 * Return: 0; -EBUSY it is not done; -EINVAL request is NULL, or was not committed, or was
 *	released already; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_request_release(struct rnl_request *request);

struct rnl_batcher_stats {
	uint32_t size;		/* sizeof(struct rnl_batcher_stats) */
	uint32_t nr_slabs;	/* there are now */
	uint64_t requests;	/* done, failed ones included */
	uint64_t failed;	/* of these: with a negative result */
	uint64_t batches;	/* they were done in */
	uint64_t copies;	/* of inputs: more than batches, where slots lay between that were
				 * not committed */
	uint64_t late;		/* committed after a batch had gone without them */
	uint64_t cancelled;
	uint64_t refused;	/* reservations, for want of room */
	uint32_t largest;	/* requests in a batch, up to now */
	uint32_t reserved;
};
#define RNL_BATCHER_STATS_INIT \
	{ sizeof(struct rnl_batcher_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Counts what a batcher did.  In rnl_pool_stats() its batches are jobs, and requests are not.
 * Ordering: as rnl_pool_stats().
 * Return: 0; -EINVAL an argument is NULL, or stats of a wrong size; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_batcher_stats(struct rnl_batcher *batcher, struct rnl_batcher_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_H */
