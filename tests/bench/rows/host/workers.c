/* SPDX-License-Identifier: MIT */
/*
 * The row workers: the memory of a pool, by its number of workers; and that of its classes.
 *
 * DESIGN
 *	Resident memory grows by the pool, its threads' stacks and malloc()'s memory for each
 *	thread. By hand: the same number of idle threads. Most of the address space is stacks. Each
 *	measurement has its own process, so no memory is reused.
 *	What classes take is what malloc() gives out.
 */
#include "bench.h"
#include "heap.h"

#include <pthread.h>
#include <unistd.h>

#include <runnel/class.h>

static const unsigned sizes[] = { 4, 64, 1024 };

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct memory {
	double resident, addresses;	/* KB */
};

static struct memory memory_now(void)
{
	const double kb_of_page = (double)sysconf(_SC_PAGESIZE) / 1024;
	struct memory now;
	FILE *statm = fopen("/proc/self/statm", "re");

	bench_must(statm && fscanf(statm, "%lf %lf", &now.addresses, &now.resident) == 2,
		   "/proc/self/statm");
	fclose(statm);
	now.addresses *= kb_of_page;
	now.resident *= kb_of_page;
	return now;
}

static pthread_barrier_t all_run;

static void *wait_at(void *lock)
{
	pthread_barrier_wait(&all_run);
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

static void make_threads(unsigned nr)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;

	pthread_mutex_lock(&lock);
	bench_must(!pthread_barrier_init(&all_run, NULL, nr + 1), "pthread_barrier_init");
	for (unsigned i = 0; i < nr; i++)
		bench_must(!pthread_create(&thread, NULL, wait_at, &lock), "pthread_create");
	/* After the barrier, each thread's stack is in use. */
	pthread_barrier_wait(&all_run);
}

static int nothing(struct rnl_job *job)
{
	(void)job;
	return 0;
}

static struct rnl_pool *make_pool(unsigned nr)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;

	attr.device = "host";
	attr.nr_workers = nr;
	bench_rnl(rnl_pool_create(&pool, &attr), "rnl_pool_create");
	for (unsigned i = 0; i < nr; i++) {
		bench_rnl(rnl_job_init(&job, nothing), "rnl_job_init");
		bench_rnl(rnl_job_set_key(&job, RNL_KEY_WORKER(i)), "rnl_job_set_key");
		bench_rnl(rnl_submit(pool, &job), "rnl_submit");
		bench_rnl(rnl_job_wait(&job, RNL_FOREVER), "rnl_job_wait");
	}
	return pool;
}

/* Makes the pool or the threads, which end with the process: their remains are not measured. */
static void measure(void *arg, unsigned way, double *values)
{
	const unsigned nr = sizes[way % SIZES];
	const struct memory before = memory_now();
	struct memory after;

	(void)arg;
	if (way < SIZES)
		make_threads(nr);
	else
		(void)make_pool(nr);
	after = memory_now();
	values[0] = after.resident - before.resident;
	values[1] = (after.addresses - before.addresses) / 1024;
}

static void measure_classes(void *arg, unsigned way, double *values)
{
	struct rnl_pool *pool = make_pool(sizes[way]);
	const size_t before = live_bytes();
	struct rnl_class *class = NULL;

	(void)arg;
	for (unsigned i = 0; i < RNL_CLASSES_MAX; i++)
		bench_rnl(rnl_class_create(&class, pool, NULL), "rnl_class_create");
	values[0] = (double)(live_bytes() - before) / 1024;
}

static void *begin(struct bench_run *run)
{
	(void)run;
	return bench_alloc(1);
}

static void end(void *arg, struct bench_line **lines)
{
	(void)arg;
	(void)lines;
}

const struct bench_work bench_workers = { begin, measure, end, NULL };
const struct bench_work bench_classes_memory = { begin, measure_classes, end, NULL };
