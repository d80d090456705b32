/* SPDX-License-Identifier: MIT */
/*
 * Gates: a test holds jobs and kernels where it wants them, so no sleep proves
 * an order; and the few lines that every test of a pool begins with.
 */
#ifndef GATE_H
#define GATE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "suite.h"

#define MS 1000000ll		/* in ns, for timeouts */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned came;		/* threads that have come to it, ever */
	bool is_open;
};
#define GATE_INIT { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false }

static inline void gate_open(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->is_open = true;
	pthread_cond_broadcast(&gate->moved);
	pthread_mutex_unlock(&gate->lock);
}

static inline void gate_wait(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->came++;
	pthread_cond_broadcast(&gate->moved);
	while (!gate->is_open)
		pthread_cond_wait(&gate->moved, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}

/* Waits until @nr threads have come to the gate; false if they never do. */
static inline bool gate_came(struct gate *gate, unsigned nr)
{
	struct timespec until;
	bool came;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)(10 * test_scale());
	pthread_mutex_lock(&gate->lock);
	while (gate->came < nr &&
	       !pthread_cond_timedwait(&gate->moved, &gate->lock, &until))
		;
	came = gate->came >= nr;
	pthread_mutex_unlock(&gate->lock);
	return came;
}
#define gate_await(gate, nr) ck_assert_msg(gate_came(gate, nr), "too few came to " #gate)

static inline double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Awaits what must come, for as long as it may take on a slow machine. */
#define ck_eventually(condition) \
	do { \
		double until_ = seconds_now() + 10 * test_scale(); \
		while (!(condition)) { \
			ck_assert_msg(seconds_now() < until_, "never came true: " #condition); \
			usleep(100); \
		} \
	} while (0)

static inline pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/*
 * What the kernel says of a thread of this process: 'S' it sleeps, so it waits
 * for somebody; 'R' it runs; 0 it is gone.
 */
static inline char thread_state(pid_t tid)
{
	char path[64], line[256], *end;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	stat = fopen(path, "r");
	if (!stat)
		return 0;
	/* "tid (name) state ...": a name may have blanks and brackets. */
	end = fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;
	fclose(stat);
	return end ? end[2] : 0;
}

/* A thread that tells its tid right before a call has come to rest in it: not after. */
#define ck_waits(tid) \
	do { \
		char state_ = 'R'; \
		ck_eventually((tid) && ((state_ = thread_state(tid)) == 'S' || !state_)); \
		ck_assert_msg(state_ == 'S', "did not wait"); \
	} while (0)

/* A call that blocks, made by a thread of its own; ck_waits(call.tid) until it does. */
struct call {
	int (*fn)(void *arg);
	void *arg;
	_Atomic pid_t tid;
	_Atomic bool returned;
	int ret;
	pthread_t thread;
};

static inline void *call_main(void *arg)
{
	struct call *call = arg;

	call->tid = own_tid();
	call->ret = call->fn(call->arg);
	call->returned = true;
	return NULL;
}

static inline void call_start(struct call *call, int (*fn)(void *arg), void *arg)
{
	*call = (struct call){ .fn = fn, .arg = arg };
	ck_assert_int_eq(pthread_create(&call->thread, NULL, call_main, call), 0);
}

/* What it returned, once it has. */
static inline int call_end(struct call *call)
{
	ck_assert_int_eq(pthread_join(call->thread, NULL), 0);
	return call->ret;
}

/* Checks each; ck_assert for every byte would take a second for a million. */
#define ck_assert_bytes(bytes, nr, value) \
	do { \
		const unsigned char *b_ = (bytes); \
		size_t i_ = 0; \
		while (i_ < (size_t)(nr) && b_[i_] == (value)) \
			i_++; \
		ck_assert_msg(i_ == (size_t)(nr), "byte %zu of " #bytes " is %d, not %d", i_, \
			      b_[i_], (value)); \
	} while (0)

/* ---- pools and jobs ------------------------------------------------------ */

static inline bool on_host(void)
{
	return !strcmp(test_device(), "host");
}

/* For tests of what CUDA does otherwise, on a GPU as well as on the double of its runtime. */
#define skip_on_cuda(why) \
	do { \
		if (!on_host()) \
			test_skip("%.*s: " why, (int)strlen(__func__) - 3, __func__); \
	} while (0)

/* For tests whose kernels are host functions, which a gate can hold; the double's are, too. */
#define skip_unless_host() \
	do { \
		if (!on_host() && !test_fake()) \
			test_skip("%.*s: a gate holds kernels of the host device only", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

/*
 * For tests that wait for a job while a gate holds its worker's next function: on
 * the host device a job that issues nothing is done by then, on others the worker
 * tells it when the function has returned.
 */
#define skip_unless_done_on_return() \
	do { \
		if (!on_host()) \
			test_skip("%.*s: its jobs are done on return on the host device only", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

/* A pool on the device that this run is about; @attr may be NULL. */
static inline struct rnl_pool *pool_with(const struct rnl_pool_attr *attr, unsigned nr_workers)
{
	struct rnl_pool_attr own = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	if (attr)
		own = *attr;
	own.nr_workers = nr_workers;
	own.device = test_device();
	ck_assert_int_eq(rnl_pool_create(&pool, &own), 0);
	ck_assert_ptr_nonnull(pool);
	return pool;
}

static inline struct rnl_pool *pool_of(unsigned nr_workers)
{
	return pool_with(NULL, nr_workers);
}

static inline int noop_fn(struct rnl_job *job)
{
	(void)job;
	return 0;
}

/* Waits in its function, on the worker, at the gate `user`. */
static inline int gated_fn(struct rnl_job *job)
{
	gate_wait(job->user);
	return 0;
}

static inline void job_of(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	ck_assert_int_eq(rnl_job_init(job, fn), 0);
	job->user = user;
}

/* Holds all @nr workers of a pool at the gate, each in a job of @jobs. */
static inline void hold_workers(struct rnl_pool *pool, struct gate *gate, struct rnl_job *jobs,
				unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		job_of(&jobs[i], gated_fn, gate);
		ck_assert_int_eq(rnl_submit(pool, &jobs[i]), 0);
	}
	gate_await(gate, nr);
}

/* Waits for a job, which must come; its result. */
static inline int result_of(struct rnl_job *job)
{
	ck_assert_int_eq(rnl_job_wait(job, RNL_FOREVER), 0);
	ck_assert_int_eq(rnl_job_test(job), 1);
	return rnl_job_result(job);
}

/* Fills the worker's own 64 bytes of what `user` points to. */
static inline int fill_own_fn(struct rnl_job *job)
{
	return rnl_fill((char *)job->user + 64 * rnl_worker_index(), 1, 64);
}

static inline int index_fn(struct rnl_job *job)
{
	(void)job;
	return rnl_worker_index();
}

/* A key whose jobs run on that worker. */
static inline uint64_t key_on(struct rnl_pool *pool, int worker)
{
	struct rnl_job job;

	for (uint64_t key = 0; key < 10000; key++) {
		job_of(&job, index_fn, NULL);
		ck_assert_int_eq(rnl_submit_keyed(pool, &job, key), 0);
		if (result_of(&job) == worker)
			return key;
	}
	ck_abort_msg("no key leads to worker %d", worker);
	return 0;
}

static inline struct rnl_pool_stats figures_of(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	ck_assert_int_eq(rnl_pool_stats(pool, &stats), 0);
	return stats;
}

/* A submit that waits for room; submit_waiting() is for a call of another thread. */
struct submitting {
	struct rnl_pool *pool;
	struct rnl_job *job;
	int64_t timeout_ns;
	uint64_t key;
	bool keyed;
};

static inline int submit_waiting(void *arg)
{
	struct submitting *s = arg;

	return s->keyed ? rnl_submit_keyed_wait(s->pool, s->job, s->key, s->timeout_ns) :
			  rnl_submit_wait(s->pool, s->job, s->timeout_ns);
}

/* ---- the order in which jobs ran ----------------------------------------- */

struct record {
	_Atomic unsigned nr;
	int ids[1024];
};

struct noted {
	struct rnl_job job;
	struct record *record;
	int id;
};

/* To be called once by each job; more than fit are counted, not kept. */
static inline void note(struct record *record, int id)
{
	unsigned i = atomic_fetch_add(&record->nr, 1);

	if (i < COUNT(record->ids))
		record->ids[i] = id;
}

static inline int note_fn(struct rnl_job *job)
{
	struct noted *n = rnl_container_of(job, struct noted, job);

	note(n->record, n->id);
	return 0;
}

static inline void noted_of(struct noted *n, struct record *record, int id)
{
	n->record = record;
	n->id = id;
	job_of(&n->job, note_fn, NULL);
}

/* Its place in the order, from 0; -1 it did not run. */
static inline int place_of(const struct record *record, int id)
{
	for (unsigned i = 0; i < record->nr && i < COUNT(record->ids); i++) {
		if (record->ids[i] == id)
			return (int)i;
	}
	return -1;
}

/* ---- kernels that are host functions -------------------------------------- */

/* The double of the CUDA runtime has it: tests/fake_cudart/fake_cudart.h. */
#ifndef __CUDACC__
__attribute__((weak))
int fake_launch(void (*fn)(struct rnl_dim grid, struct rnl_dim block, const void *args),
		struct rnl_dim grid, struct rnl_dim block, const void *args, size_t bytes,
		void *stream);

/* As the library's, but the file's own, and with the double on the CUDA device too. */
#undef RNL_HOST_KERNEL
#define RNL_HOST_KERNEL(kernel_name, host_fn, args_type) \
	static int kernel_name##__fake(struct rnl_dim grid, struct rnl_dim block, \
				       const void *args, void *stream) \
	{ \
		enum { NOT_SUPPORTED = 801 };	/* cudaError_t */ \
		return !fake_launch ? NOT_SUPPORTED : \
		       fake_launch(host_fn, grid, block, args, sizeof(args_type), stream); \
	} \
	static const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, kernel_name##__fake \
	}
#endif

struct gated_store {
	struct gate *gate;	/* NULL: none */
	int *word;		/* NULL: none */
	int value;
};

/* Waits at the gate on the device, then stores. */
static void gated_store_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct gated_store *a = args;

	(void)grid;
	(void)block;
	if (a->gate)
		gate_wait(a->gate);
	if (a->word)
		*a->word = a->value;
}
RNL_HOST_KERNEL(gated_store, gated_store_host, struct gated_store);

/* Launches it on the calling thread's stream. */
static inline int launch_store(struct gate *gate, int *word, int value)
{
	const struct gated_store args = { gate, word, value };
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&gated_store, one, one, &args);
}

#endif /* GATE_H */
