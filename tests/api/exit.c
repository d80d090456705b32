/* SPDX-License-Identifier: MIT */
/* A process can exit at any time with its own status, whatever its pools do. */
#define _GNU_SOURCE		/* for environ */
#include <spawn.h>

#include "host_kernel.h"
#include "pool.h"
#include "sanitizers.h"

/* The programs below leak everything on purpose. */
SANITIZER_OPTIONS("detect_leaks=0:report_thread_leaks=0:atexit_sleep_ms=0");

/* ---- programs: suite_begin() runs one, in a process of its own ------------------- */

/* In place of assertions: the programs run without Check. A program that fails exits with 100. */
#define OR_END(condition) \
	do { \
		if (!(condition)) { \
			dprintf(2, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(100); \
		} \
	} while (0)

enum { WORKERS = 3, NR = 2000 };

static struct rnl_pool *pool;
static struct rnl_cq *cq;
static struct rnl_barrier barrier;
static struct gate gate = GATE_INIT;
static struct rnl_job held[WORKERS], jobs[NR];

static void create(uint32_t max_queued)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = test_device();
	attr.nr_workers = WORKERS;
	attr.max_queued = max_queued;
	OR_END(!rnl_pool_create(&pool, &attr));
}

static void submit(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	OR_END(!rnl_job_init(job, fn));
	job->user = user;
	OR_END(!rnl_submit(pool, job));
}

static void hold_all(void)
{
	for (int i = 0; i < WORKERS; i++)
		submit(&held[i], gated_fn, &gate);
	OR_END(gate_came(&gate, WORKERS));
}

static int while_workers_are_in_functions(void)
{
	create(0);
	hold_all();
	return 1;
}

static int while_jobs_are_on_the_device(void)
{
	create(0);
	for (int i = 0; i < 100; i++)
		submit(&jobs[i], gated_kernel_fn, &gate);
	OR_END(gate_came(&gate, 1));
	return 2;
}

static _Atomic bool going;

static void again(struct rnl_job *job)
{
	going = true;
	(void)rnl_submit(pool, job);
}

/* Runs jobs that submit themselves again and again. */
static int while_jobs_run(void)
{
	create(0);
	for (int i = 0; i < NR; i++) {
		OR_END(!rnl_job_init(&jobs[i], noop_fn));
		OR_END(!rnl_job_set_on_done(&jobs[i], again));
		OR_END(!rnl_submit(pool, &jobs[i]));
	}
	while (!going)
		sched_yield();
	return 3;
}

/* A function for each kind of wait. */
static int wait_for_cq(void *arg)
{
	struct rnl_job *list[1];

	(void)arg;
	return rnl_cq_reap(cq, list, 1, RNL_FOREVER);
}

static int wait_for_job(void *arg)
{
	(void)arg;
	return rnl_job_wait(&held[0], RNL_FOREVER);
}

static int wait_for_barrier(void *arg)
{
	(void)arg;
	return rnl_barrier_wait(&barrier, RNL_FOREVER);
}

static int wait_for_room(void *arg)
{
	(void)arg;
	return rnl_submit_wait(pool, &jobs[NR - 1], RNL_FOREVER);
}

static int wait_for_all(void *arg)
{
	(void)arg;
	return rnl_pool_drain(pool, RNL_FOREVER);
}

static int wait_for_smaller(void *arg)
{
	(void)arg;
	return rnl_pool_resize(pool, 1);
}

static void wait_in_thread(struct call *call, int (*fn)(void *arg))
{
	call->fn = fn;
	OR_END(!pthread_create(&call->thread, NULL, call_main, call));
	while (!call->tid || thread_state(call->tid) != 'S')
		OR_END(!call->returned);
}

static int while_threads_wait(void)
{
	static int (*const waits[])(void *arg) = {
		wait_for_cq, wait_for_job, wait_for_barrier, wait_for_room, wait_for_all,
	};
	static struct call calls[COUNT(waits)];

	create(WORKERS);
	OR_END(!rnl_cq_create(&cq));
	OR_END(!rnl_barrier_init(&barrier, pool));
	for (int i = 0; i < WORKERS; i++) {
		OR_END(!rnl_job_init(&held[i], gated_fn));
		held[i].user = &gate;
		OR_END(!rnl_barrier_add(&barrier, &held[i]));
		OR_END(!rnl_submit(pool, &held[i]));
	}
	OR_END(gate_came(&gate, WORKERS));
	for (int i = 0; i < WORKERS; i++) {
		OR_END(!rnl_job_init(&jobs[i], noop_fn));
		OR_END(!rnl_job_set_cq(&jobs[i], cq));
		OR_END(!rnl_submit(pool, &jobs[i]));
	}
	OR_END(!rnl_job_init(&jobs[NR - 1], noop_fn));
	for (unsigned i = 0; i < COUNT(waits); i++)
		wait_in_thread(&calls[i], waits[i]);
	return 4;
}

static int while_a_thread_resizes(void)
{
	static struct call call;

	create(0);
	hold_all();
	wait_in_thread(&call, wait_for_smaller);
	return 8;
}

static int exit_fn(struct rnl_job *job)
{
	(void)job;
	exit(5);
}

/* A job calls exit(), so its worker runs the exit handlers. */
static int by_a_worker(void)
{
	create(0);
	submit(&jobs[0], exit_fn, NULL);
	for (;;)
		pause();
	return 100;
}

static void destroy_it(void)
{
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

/* The handler is registered before the pool is created, so it runs last. */
static int with_a_destroy_in_a_handler(void)
{
	OR_END(!atexit(destroy_it));
	create(0);
	hold_all();
	for (int i = 0; i < NR; i++)
		submit(&jobs[i], noop_fn, NULL);
	return 6;
}

static int with_jobs_left_in_a_queue(void)
{
	create(0);
	OR_END(!rnl_cq_create(&cq));
	for (int i = 0; i < NR; i++) {
		OR_END(!rnl_job_init(&jobs[i], noop_fn));
		OR_END(!rnl_job_set_cq(&jobs[i], cq));
		OR_END(!rnl_submit(pool, &jobs[i]));
	}
	rnl_pool_destroy(pool);
	return 7;
}

static const struct {
	const char *name;
	int (*main)(void);
	int status;
	bool host_only;
} programs[] = {
	{ "functions", while_workers_are_in_functions, 1, false },
	{ "device", while_jobs_are_on_the_device, 2, true },
	{ "running", while_jobs_run, 3, false },
	{ "waiting", while_threads_wait, 4, false },
	{ "worker", by_a_worker, 5, false },
	{ "handler", with_a_destroy_in_a_handler, 6, false },
	{ "queue", with_jobs_left_in_a_queue, 7, false },
	{ "resize", while_a_thread_resizes, 8, false },
};

/* ---- the tests ----------------------------------------------------------- */

static char *self;		/* path of this program */

static void check_program(int i)
{
	char *args[] = { self, (char *)(uintptr_t)programs[i].name, NULL };
	int status = -1;
	pid_t pid, got = 0;

	ck_assert_int_eq(posix_spawn(&pid, self, NULL, NULL, args, environ), 0);
	ck_eventually((got = waitpid(pid, &status, WNOHANG)) != 0);
	ck_assert_int_eq(got, pid);
	ck_assert_msg(WIFEXITED(status), "%s died of signal %d", programs[i].name,
		      WTERMSIG(status));
	ck_assert_int_eq(WEXITSTATUS(status), programs[i].status);
}

TEST(a_process_ends_in_time_and_with_its_status, .timeout_s = 60, .loops = COUNT(programs),
     .not_simulated = "fork")
{
	if (programs[_i].host_only && !on_host())
		test_skip("%s: a gate holds kernels of the host device only", programs[_i].name);
	for (int round = 0; round < 5; round++)
		check_program(_i);
}

int suite_begin(int argc, char **argv)
{
	for (unsigned i = 0; argc > 1 && i < COUNT(programs); i++) {
		if (!strcmp(argv[1], programs[i].name))
			return programs[i].main();
	}
	self = argv[0];
	return SUITE_GOES_ON;
}
