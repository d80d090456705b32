/* SPDX-License-Identifier: MIT */
/*
 * Classes: which of a pool's jobs start next.
 *
 * A server has more than one kind of client. A class is one of them: it has a share of the devices'
 * time, a priority, and limits. A job names its class; jobs that name none are in the pool's own
 * class, of priority 0 and weight 1. A pool without other classes takes its jobs
 * as if there were no classes.
 *
 * Whenever a worker may start a job, it chooses the class first:
 *
 *   1. a class that has used less than its floor,
 *   2. then the class with the smallest priority,
 *   3. among these, the class that has used the least for its weight.
 *
 * A class that has no job queued is left out, and so is one at a limit, so a device does not idle
 * while a job may start. Running work is not stopped: a class that is chosen waits for the jobs on
 * the workers' streams, which in_flight_ns of the pool's attributes bounds. A class that had no
 * jobs is not owed anything for that time.
 *
 * Shares are of device time. A GPU says only when a job has ended. If jobs run concurrently, a job
 * is charged the time since the end before on its stream, divided at each moment by the number of
 * busy workers. If they run one at a time, because each fills the device, it is charged the time
 * since the last end on any stream. Both add up to the same, and the pool uses the measure by which
 * the means of functions differ more. So give work of different length different functions or
 * classes. Waiting workers check for ends more often than without classes, which costs CPU.
 *
 * A job with a key, and the later jobs of a chain, are charged to their class, but wait in the
 * queue of their worker: a key's order is worth more than a class's. So limits do not hold them
 * back, only a deadline that is over expires them, and a key's worker is not a class's own.
 *
 * A copy engine serves one stream for as long as the stream's next copy is queued, and knows no
 * priorities: small copies of other streams wait until then, whatever their priority (seen on an
 * H200). So rnl_copy() and rnl_copy_2d() cut a copy of more than 8 MiB between page-locked memory and
 * a device, if its job's class is lower: another class, perhaps the pool's own, has a smaller
 * priority, or has workers of its own and this one does not. In the pool one piece of 8 MiB is under
 * way for each device and direction. The call waits until its stream's earlier work is done, until
 * it is its turn (by priority, then by arrival), and until the copy is done. Meanwhile its worker
 * does nothing else: other workers take its queued jobs, but those that it has issued are not done
 * before the function has returned. max_jobs of such a class leaves workers to others.
 * Not cut are copies of other APIs, such as cudaMemcpyAsync(), of a map or batcher, between devices,
 * and in a group or a record (RNL_GATHER, RNL_REPLAY): let a lower class's be small, with other work
 * in between. A small copy that must not wait at all is best made by a kernel that accesses
 * page-locked memory.
 *
 * A map or a batcher may name a class for all of its jobs: cls of its attributes.
 *
 * Jobs that a job waits for inherit its priority, if theirs is served later: jobs before it with its
 * key, jobs of a barrier that it comes after, and those that jobs before it in its order come after.
 * Jobs without a class have priority 0 here, too. So no class between the two delays it. It waits
 * for these jobs, and for the jobs ahead of them: in a worker's queue, all that are queued there at
 * that moment inherit; in a class's queue, those that inherit go first, in the class's order. They
 * are charged to their own class, share its priority by virtual time, and its limits, its rate and
 * other classes' floors hold. A chain is in the place of its first job. Jobs that are queued in
 * their class inherit within some ms. Jobs that wait for a barrier themselves inherit when they are
 * queued, but those that they wait for inherit only from jobs submitted before them. Jobs submitted
 * before the pool's first class was created do not inherit, nor do jobs of maps and batchers.
 *
 * This header may still change before version 1.0.
 */
#ifndef RUNNEL_CLASS_H
#define RUNNEL_CLASS_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RNL_CLASSES_MAX 32	/* most classes of a pool */
#define RNL_CLASS_WORKERS_MAX 64 /* most workers that the classes of a pool have as their own */

struct rnl_class;

enum rnl_class_order {
	RNL_CLASS_FIFO = 0,	/* first submitted, first started, on whichever worker */
	RNL_CLASS_DEADLINE = 1	/* earliest deadline first, to the microsecond; then those without,
				 * in their order */
};

enum rnl_class_flags {
	RNL_CLASS_LATE = 1,	/* a job may end late: only a deadline that is over expires it; without
				 * this flag a job that would end late, by estimate, expires, too */
	RNL_CLASS_KEPT_SMS = 2,	/* kernels of its own workers run on the multiprocessors that the
				 * attribute kept_sms of the pool keeps, and on no others */
	RNL_CLASS_ADMIT = 4	/* refuses a job that would be late: its submit returns -ETIME if it
				 * would end after its deadline, or would make queued jobs of
				 * its class late that have later deadlines (RNL_CLASS_DEADLINE).
				 * This is predicted from estimates, which the first two jobs of
				 * a function do not have. Never refused so are jobs without a
				 * deadline, with a key or an order, with a start time, after a
				 * barrier, and chains. Submits at one moment may each be
				 * accepted as if alone */
};

struct rnl_class_attr {
	uint32_t size;		/* sizeof(struct rnl_class_attr) */
	int32_t priority;	/* -4, served first, to 3; the pool's own class has 0 */
	uint32_t weight;	/* its share among classes of its priority; 1 to 10000; 0: 1 */
	uint32_t floor_permille; /* the share of the devices' time, in thousandths, that it gets
				 * before other priorities; 0: 10, which is 1 % */
	const char *name;	/* for logs and figures; 31 bytes are kept; NULL: "class" */
	uint32_t order;		/* enum rnl_class_order */
	uint32_t flags;		/* enum rnl_class_flags */
	uint32_t max_queued;	/* most queued jobs, at most 65536; 0: 1024. Jobs that wait for a
				 * barrier or their start time count as well, and those with a key do
				 * not. A map's jobs keep a place each while it runs, and a batcher's
				 * batches, max_in_flight of them, while it exists. In a pool of
				 * several devices, jobs placed on one of them are counted by device */
	uint32_t max_jobs;	/* most jobs started that have work to do, "at most half of the
				 * workers", say: jobs that wait for holds do not count; 0: no limit */
	uint64_t max_device_ns;	/* about the most device time of jobs started and not done, by their
				 * estimates; workers that choose at one moment may each start a job
				 * more, and a single job may start in any case; 0: no limit */
	uint64_t deadline_ns;	/* rnl_job_set_deadline() for jobs without one; 0: none */
	uint32_t per_second;	/* most jobs that workers take in a second, on average, also such as
				 * are then found cancelled or late; 0: no limit */
	uint32_t burst;		/* most of them at once, after a pause; 0, or fewer than two ms
				 * have: that many */
	uint32_t nr_workers;	/* workers of its own, which run its jobs without a key, and no others:
				 * successive ones of the pool's nr_class_workers, at least one for
				 * each device. Then weight and floor count no more, and priority only
				 * for large copies and for jobs that inherit it. 0: the pool's
				 * workers */
	uint32_t stream_priority; /* of its own workers' streams, by the device: 0 is the highest,
				 * 1 the next; beyond the device's levels, which `runnel info` shows:
				 * the lowest, which the pool's workers have. It applies to kernels,
				 * not to copies */
	uint32_t spin_us;	/* time that an idle worker of its own spins before it sleeps, at most
				 * 1000000; such a worker sees a job some 20 us sooner, and uses a
				 * CPU all that time. 0: as the pool's workers */
};
#define RNL_CLASS_ATTR_INIT \
	{ sizeof(struct rnl_class_attr), 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

#define RNL_CLASS_NO_FLOOR UINT32_MAX	/* floor_permille: priorities alone decide */

/*
 * Creates a class of a pool.
 * @classp: receives the class; unchanged on failure.
 * @attr: copied; NULL means all defaults.
 * Context: any thread; with nr_workers not on a worker of the pool, and it blocks until they are
 *	attached to their devices. Allocates 6 KiB and the memory of all queued jobs: 28 bytes for
 *	each of max_queued, rounded up to a power of two, and as much for each device if the pool
 *	has several.
 * Return: 0, and rnl_class_destroy() may be called for the class later; the pool's end frees it,
 *	too. -EINVAL classp or pool is NULL, an attribute is out of its range, or one is for workers
 *	or SMs that the class or the pool does not have, which is logged; -E2BIG attr is newer than
 *	the library and sets a field that the library does not know; -EAGAIN the pool has
 *	RNL_CLASSES_MAX classes; or too few of nr_class_workers in a row are left, which is logged;
 *	-EBUSY on a worker of the pool, with
 *	nr_workers; the errors of rnl_pool_resize() for workers that cannot start; -ESHUTDOWN the
 *	pool is closed; -ENOMEM; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_class_create(struct rnl_class **classp, struct rnl_pool *pool,
			     const struct rnl_class_attr *attr);

/*
 * Ends a class: refuses further submits, and waits until its accepted jobs are done, also those whose
 * start time has not come, and its maps and its batchers' committed requests. Jobs that still name the
 * class are refused when they are submitted, and its batchers refuse further requests.
 * @cls: may be NULL. It may still be read by rnl_class_read_stats() until the pool ends or another
 *	class is created.
 * Context: blocks. On a worker of the pool it does not wait, and the class stays until the pool's
 *	end, which is logged. If the class has workers of its own, it also waits until these have
 *	returned from callbacks, and, like the creation, for a concurrent rnl_pool_resize().
 * Since: 0.3
 */
RNL_API void rnl_class_destroy(struct rnl_class *cls);

/*
 * Sets the class of a job for its later submits. A submit returns -EINVAL if the class is of
 * another pool or has ended, -EAGAIN if it has max_queued jobs, and -ETIME if it has
 * RNL_CLASS_ADMIT and the job would be late. Only the class of a chain's first job counts, and not
 * that of a notice or of a job of rnl_barrier_notify().
 * @cls: NULL: the pool's own class.
 * Return: 0; -EINVAL job is NULL or was not initialised, which is logged; -EBUSY the job was
 *	submitted and is not done; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_job_set_class(struct rnl_job *job, struct rnl_class *cls);

/* Figures of a class: of now, or since its creation. Times are in nanoseconds. */
struct rnl_class_stats {
	uint32_t size;		/* sizeof(struct rnl_class_stats) */
	uint32_t queued;	/* jobs in the class's queue now; deferred and delayed ones only
				 * keep their places there */
	uint32_t started;	/* jobs that are started and not done now */
	uint32_t share_permille; /* device_ns in thousandths of all_device_ns; 0 if that is 0 */
	uint64_t accepted;	/* jobs so far */
	uint64_t refused;	/* times that a submit found max_queued jobs; rnl_submit_wait() may
				 * find them more than once */
	uint64_t unadmitted;	/* submits that returned -ETIME */
	uint64_t done;		/* jobs whose function was called */
	uint64_t expired;	/* jobs that were not started, because their deadline was over ... */
	uint64_t late;		/* ... or could not be met, by their estimates */
	uint64_t queue_timed;	/* jobs that were timed in the class's queue: from the submit, the
				 * start time or the end of the barrier until a worker took
				 * them. One in time_every of the pool's attributes is timed */
	uint64_t queue_ns_p50;	/* half of them were queued for at most this time, to a sixteenth
				 * of it; 0 if no job was timed */
	uint64_t queue_ns_p99;	/* ... 99 of 100 were */
	uint64_t device_ns;	/* device time that its jobs have used */
	uint64_t all_device_ns;	/* device time that the pool's jobs of all classes, and of none,
				 * have used since this class was created. So two reads give
				 * its share in between */
	uint64_t error_permille; /* how far estimates were from what jobs then used, in thousandths
				 * of that: a mean of about the last 64 jobs; a job counts at most as
				 * 1000000 */
};
#define RNL_CLASS_STATS_INIT \
	{ sizeof(struct rnl_class_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Reads the figures of a class.
 * @stats: filled in; its size must be set.
 * Return: 0; -EINVAL cls or stats is NULL, or stats has a wrong size; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_class_read_stats(struct rnl_class *cls, struct rnl_class_stats *stats);

/*
 * Predicts how long a job that is submitted now would wait: until the devices have done the work
 * that goes before it, by its estimates, and until its class's rate allows it. A worker may call its
 * function earlier, while the devices work for other jobs. So a server knows what to answer in a
 * Retry-After, and a balancer where to send. Work that is submitted later, to classes with smaller
 * priorities or by deadline, is not predicted.
 * @cls: may have ended, as for rnl_class_read_stats().
 * @wait_ns: receives the time, for a job with the class's deadline_ns, on any device of the pool;
 *	unchanged on failure.
 * Context: any thread; takes no lock. Reads the queues of the class, and of those that are served
 *	before it or share its priority: 8 bytes for each queued job.
 * Return: 0; -EINVAL cls or wait_ns is NULL; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_class_wait(struct rnl_class *cls, uint64_t *wait_ns);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_CLASS_H */
