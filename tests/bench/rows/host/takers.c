/* SPDX-License-Identifier: MIT */
/*
 * The row takers of make bench: how long a taker that the system has preempted delays the others.
 *
 * DESIGN
 *	Three takers take empty jobs, which are put again at once. The first one has SCHED_IDLE and
 *	shares a CPU with a thread that is busy for 10 ms at a time; whenever that wakes up, the
 *	taker is preempted, wherever it is. The other two share another CPU. The figure is their
 *	longest time from the end of a job to the start of the next one. A time in which one of them
 *	was preempted itself, by the other one or by another program, is left out.
 *	By hand, the jobs are in a list with a lock.
 */
#define _GNU_SOURCE		/* SCHED_IDLE, cpu_set_t, RUSAGE_THREAD */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include <runnel/class.h>

#define TAKERS 3		/* the first one has SCHED_IDLE */
#define JOBS 64
#define BUSY_NS 10000000
#define PAUSE_NS 300000
#define RUN_MS_PART 10		/* multiplies --run-ms */
#define LEAST 100		/* jobs that the first taker takes */
#define LOOK_NS 20000		/* a longer time is looked at */

enum way { BY_LOCK, BY_CLASS };

struct bench {
	unsigned cpus[2], run_ms;
	struct rnl_pool *pool;
	struct rnl_job jobs[JOBS];
	pthread_mutex_t lock;
	unsigned nr_listed;		/* by hand: under the lock */
};

/* Of a taker, in its thread. */
static __thread struct {
	bool measured;
	uint64_t ended;
	long preempted;			/* so often, until then */
} taker;

static atomic_bool stop;
static atomic_uint_fast64_t longest, nr_taken[2]; /* [1]: by the first taker */

/* Moves the calling thread to a CPU.  @idle: it gets only time that no other thread wants. */
static void move_to(unsigned cpu, bool idle)
{
	const struct sched_param param = { .sched_priority = 0 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	bench_must(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
	bench_must(!idle || !sched_setscheduler(0, SCHED_IDLE, &param), "sched_setscheduler");
}

static long times_preempted(void)
{
	struct rusage usage;

	bench_must(!getrusage(RUSAGE_THREAD, &usage), "getrusage");
	return usage.ru_nivcsw;
}

/* A job's begin and end. */
static void job_runs(void)
{
	const uint64_t now = bench_now();
	uint64_t most = atomic_load(&longest);

	atomic_fetch_add(&nr_taken[!taker.measured], 1);
	if (!taker.measured)
		return;
	if (taker.ended && now - taker.ended > LOOK_NS) {
		const long preempted = times_preempted();

		while (preempted == taker.preempted && now - taker.ended > most)
			if (atomic_compare_exchange_weak(&longest, &most, now - taker.ended))
				break;
		taker.preempted = preempted;
	}
	taker.ended = bench_now();
}

/* ---- by hand: a lock ----------------------------------------------------- */

static void take_by_hand(struct bench *b)
{
	unsigned taken;

	pthread_mutex_lock(&b->lock);
	taken = b->nr_listed ? b->nr_listed-- : 0;
	pthread_mutex_unlock(&b->lock);
	if (!taken)
		return;
	job_runs();
	pthread_mutex_lock(&b->lock);
	b->nr_listed++;
	pthread_mutex_unlock(&b->lock);
}

struct thread {
	struct bench *b;
	unsigned index;
};

static void *take_all(void *arg)
{
	const struct thread *thread = arg;

	move_to(thread->b->cpus[thread->index != 0], !thread->index);
	taker.measured = thread->index;
	while (!atomic_load(&stop))
		take_by_hand(thread->b);
	return NULL;
}

/* ---- by a pool with classes ---------------------------------------------- */

static int run_job(struct rnl_job *job)
{
	(void)job;
	job_runs();
	return 0;
}

static void put_again(struct rnl_job *job)
{
	const struct bench *b = job->user;
	const int ret = atomic_load(&stop) ? 0 : rnl_submit(b->pool, job);

	/* The pool may be closed meanwhile: a taker may be preempted here for long. */
	if (ret != -ESHUTDOWN || !atomic_load(&stop))
		bench_rnl(ret, "rnl_submit");
}

static int move_worker(struct rnl_job *job)
{
	const struct thread *thread = job->user;

	move_to(thread->b->cpus[thread->index != 0], !thread->index);
	taker.measured = thread->index;
	return 0;
}

static void begin_pool(struct bench *b, const struct thread *threads)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class *class = NULL;
	struct rnl_job job;

	attr.device = "host";
	attr.nr_workers = TAKERS;
	bench_rnl(rnl_pool_create(&b->pool, &attr), "rnl_pool_create");
	bench_rnl(rnl_class_create(&class, b->pool, NULL), "rnl_class_create");
	for (unsigned i = 0; i < TAKERS; i++) {
		bench_rnl(rnl_job_init(&job, move_worker), "rnl_job_init");
		job.user = (void *)(uintptr_t)&threads[i];
		bench_rnl(rnl_job_set_key(&job, RNL_KEY_WORKER(i)), "rnl_job_set_key");
		bench_rnl(rnl_submit(b->pool, &job), "rnl_submit");
		bench_rnl(rnl_job_wait(&job, RNL_FOREVER), "rnl_job_wait");
	}
	for (unsigned i = 0; i < JOBS; i++) {
		bench_rnl(rnl_job_init(&b->jobs[i], run_job), "rnl_job_init");
		b->jobs[i].user = b;
		bench_rnl(rnl_job_set_class(&b->jobs[i], class), "rnl_job_set_class");
		bench_rnl(rnl_job_set_on_done(&b->jobs[i], put_again), "rnl_job_set_on_done");
		bench_rnl(rnl_submit(b->pool, &b->jobs[i]), "rnl_submit");
	}
}

/* ---- the row ------------------------------------------------------------- */

/* Is busy on the first taker's CPU, and lets that taker run for a moment each time. */
static void *keep_busy(void *arg)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	move_to(((struct bench *)arg)->cpus[0], false);
	while (!atomic_load(&stop)) {
		const uint64_t end = bench_now() + BUSY_NS;

		while (bench_now() < end)
			bench_relax();
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	struct thread threads[TAKERS];
	pthread_t ids[TAKERS + 1];

	atomic_store(&stop, false);
	atomic_store(&longest, 0);
	atomic_store(&nr_taken[0], 0);
	atomic_store(&nr_taken[1], 0);
	b->nr_listed = JOBS;
	for (unsigned i = 0; i < TAKERS; i++)
		threads[i] = (struct thread){ b, i };
	for (unsigned i = 0; i < TAKERS && way == BY_LOCK; i++)
		bench_must(!pthread_create(&ids[i], NULL, take_all, &threads[i]), "pthread_create");
	if (way == BY_CLASS)
		begin_pool(b, threads);
	bench_must(!pthread_create(&ids[TAKERS], NULL, keep_busy, b), "pthread_create");
	bench_sleep_ms(b->run_ms);
	/* On a busy machine the first taker runs rarely. */
	while (atomic_load(&nr_taken[1]) < LEAST)
		bench_sleep_ms(10);
	atomic_store(&stop, true);
	for (unsigned i = way == BY_LOCK ? 0 : TAKERS; i <= TAKERS; i++)
		pthread_join(ids[i], NULL);
	if (way == BY_CLASS)
		rnl_pool_destroy(b->pool);
	values[0] = (double)atomic_load(&longest) * 1e-3;
	values[1] = (double)atomic_load(&nr_taken[1]) * 1e-3;
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	unsigned nr = 0;
	cpu_set_t set;

	b->run_ms = RUN_MS_PART * run->opt->run_ms;
	bench_must(!pthread_mutex_init(&b->lock, NULL), "pthread_mutex_init");
	bench_must(!sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity");
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && nr < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			b->cpus[nr++] = cpu;
	/* On one CPU nobody takes while the first taker is preempted by the busy thread. */
	return nr < 2 ? NULL : b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	(void)arg;
	(void)lines;
}

const struct bench_work bench_classes_takers = { begin_row, measure, end_row, NULL };
