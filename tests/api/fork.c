/* SPDX-License-Identifier: MIT */
/* Calls on a parent's objects fail in a forked child, and new objects work. */
#include <fcntl.h>

#include <runnel/device.h>
#include <runnel/hold.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "host_kernel.h"
#include "pool.h"
#include "sanitizers.h"

SUITE_FORKS

/* Children start threads, and exit. Memory of the parent's threads is no leak in a child. */
SANITIZER_OPTIONS("die_after_fork=0");

/* For a child: an assertion of Check would report as if from the parent. */
#define CHILD_ASSERT(condition) \
	do { \
		if (!(condition)) { \
			dprintf(2, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

/* Waits until a child exits, and checks that its status is 0. */
static void await_child(pid_t pid)
{
	int status = -1;
	pid_t got = 0;

	ck_assert_int_gt(pid, 0);
	ck_eventually((got = waitpid(pid, &status, WNOHANG)) != 0);
	ck_assert_int_eq(got, pid);
	ck_assert_msg(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* Calls a function in a child, which must exit with 0. */
static void run_child(void (*fn)(void *arg), void *arg)
{
	pid_t pid;

	fflush(NULL);	/* else output would be written twice */
	pid = fork();
	if (!pid) {
		fn(arg);
		_exit(0);
	}
	await_child(pid);
}

/*
 * Uses every thread of a pool once. A thread that is still starting may hold a lock of the
 * sanitizer's allocator, which would stay locked in the child.
 */
static bool use_threads(struct rnl_pool *pool, int nr_workers)
{
	unsigned seen = 0;
	struct rnl_job job;
	void *mem;

	if (rnl_memory_get(pool, 0, (size_t)(nr_workers + 1) * 64, &mem, 0) ||
	    rnl_thread_attach(pool))
		return false;
	for (uint64_t key = 0; seen != (1u << nr_workers) - 1; key++) {
		if (rnl_job_init(&job, index_fn) || submit_by_key(pool, &job, key) ||
		    rnl_job_wait(&job, RNL_FOREVER))
			return false;
		seen |= 1u << job.result;
		if (rnl_job_init(&job, fill_own_fn))
			return false;
		job.user = mem;
		if (submit_by_key(pool, &job, key) || rnl_job_wait(&job, RNL_FOREVER))
			return false;
	}
	if (rnl_fill((char *)mem + nr_workers * 64, 0, 64) || rnl_stream_wait(RNL_FOREVER))
		return false;
	rnl_memory_put(pool, mem);
	return true;
}

/* Creates a pool of the host device, as CUDA does not survive a fork. */
static struct rnl_pool *own_pool_of(unsigned nr_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	attr.nr_workers = nr_workers;
	attr.device = "host";
	CHILD_ASSERT(!rnl_pool_create(&pool, &attr));
	return pool;
}

/* Creates, uses and destroys a pool, a barrier and a queue. */
static void use_own_pool(void)
{
	struct rnl_pool *pool = own_pool_of(2);
	struct rnl_barrier barrier;
	struct rnl_cq *cq;
	struct rnl_job jobs[20], *list[20];
	char from[64], to[64];

	CHILD_ASSERT(!rnl_cq_create(&cq));
	CHILD_ASSERT(!rnl_barrier_init(&barrier, pool));
	CHILD_ASSERT(!rnl_pool_resize(pool, 3));
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		CHILD_ASSERT(!rnl_job_init(&jobs[i], noop_fn));
		CHILD_ASSERT(!rnl_barrier_add(&barrier, &jobs[i]));
		CHILD_ASSERT(!rnl_job_set_cq(&jobs[i], i % 2 ? cq : NULL));
		CHILD_ASSERT(!rnl_submit_wait(pool, &jobs[i], RNL_FOREVER));
	}
	for (int left = COUNT(jobs) / 2, ret; left; left -= ret) {
		ret = rnl_cq_reap(cq, list, COUNT(list), RNL_FOREVER);
		CHILD_ASSERT(ret > 0);
	}
	CHILD_ASSERT(!rnl_barrier_wait(&barrier, RNL_FOREVER));
	CHILD_ASSERT(!rnl_barrier_join(&barrier));
	memset(from, 3, sizeof(from));
	CHILD_ASSERT(!rnl_copy(to, from, sizeof(to)));
	CHILD_ASSERT(!rnl_stream_wait(RNL_FOREVER));
	CHILD_ASSERT(!memcmp(from, to, sizeof(to)));
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

/* The parent's objects. */
struct parents {
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct rnl_cq *cq;
	struct rnl_order order;
	struct rnl_job done, running, fresh;
	struct rnl_job finished, held, notice;	/* finished: in the queue */
	struct rnl_hold hold;
	struct gate gate;
	void *pinned, *on_device;
	int fd;
};

static int take_hold_fn(struct rnl_job *job)
{
	return rnl_job_hold(job, &rnl_container_of(job, struct parents, held)->hold);
}

static void parents_setup(struct parents *p)
{
	p->pool = pool_of(2);
	ck_assert(use_threads(p->pool, 2));
	p->gate = (struct gate)GATE_INIT;
	must(rnl_cq_create(&p->cq));
	p->fd = rnl_cq_fd(p->cq);
	submit_job(p->pool, &p->done, noop_fn, NULL);
	ck_assert_int_eq(result_of(&p->done), 0);
	job_of(&p->finished, index_fn, NULL);
	must(rnl_job_set_cq(&p->finished, p->cq));
	must(rnl_submit(p->pool, &p->finished));
	must(rnl_pool_drain(p->pool, RNL_FOREVER));
	submit_job(p->pool, &p->held, take_hold_fn, NULL);
	ck_eventually(figures_of(p->pool).held == 1);
	must(rnl_order_init(&p->order, p->pool, 1));
	must(rnl_barrier_init(&p->barrier, p->pool));
	submit_in(p->pool, &p->barrier, &p->running, gated_fn, &p->gate);
	gate_await(&p->gate, 1);
	job_of(&p->notice, NULL, NULL);
	job_of(&p->fresh, noop_fn, NULL);
	must(rnl_memory_get(p->pool, RNL_PINNED, 64, &p->pinned, 0));
	must(rnl_memory_get(p->pool, 0, 64, &p->on_device, 0));
}

static void parents_goes_on(struct parents *p)
{
	struct rnl_job *list[2];

	/* The child has not reaped, and has not read the shared descriptor. */
	ck_assert_int_eq(rnl_cq_fd(p->cq), p->fd);
	ck_assert_int_eq(rnl_cq_reap(p->cq, list, 2, 0), 1);
	ck_assert_ptr_eq(list[0], &p->finished);
	must(rnl_submit(p->pool, &p->finished));
	ck_assert_int_eq(rnl_cq_reap(p->cq, list, 2, RNL_FOREVER), 1);
	ck_assert_int_ne(rnl_job_wait(&p->running, 0), 0);
	gate_open(&p->gate);
	must(rnl_hold_release(&p->hold, 0));
	must(rnl_barrier_wait(&p->barrier, RNL_FOREVER));
	ck_assert_int_eq(submit_and_wait(p->pool, &p->fresh), 0);
	ck_assert_int_eq(submit_and_wait(p->pool, &p->done), 0);
	must(rnl_fill(p->on_device, 1, 64));
	must(rnl_copy(p->pinned, p->on_device, 64));
	must(rnl_stream_wait(RNL_FOREVER));
	ck_assert_bytes(p->pinned, 64, 1);
	rnl_thread_attach(NULL);
	rnl_memory_put(p->pool, p->pinned);
	rnl_memory_put(p->pool, p->on_device);
	rnl_pool_destroy(p->pool);
	rnl_cq_destroy(p->cq);
}

static void never(struct rnl_job *job)
{
	(void)job;
	_exit(1);
}

static void check_cq_owner_dead(struct parents *p)
{
	struct rnl_job *list[1] = { NULL };

	CHILD_ASSERT(rnl_cq_fd(p->cq) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_cq_reap(p->cq, list, 1, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_cq_reap(p->cq, list, 1, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(!list[0]);
	CHILD_ASSERT(rnl_job_set_cq(&p->fresh, p->cq) == -EOWNERDEAD);
	/* The destroy frees the child's descriptor and memory. */
	CHILD_ASSERT(fcntl(p->fd, F_GETFD) >= 0);
	rnl_cq_destroy(p->cq);
	CHILD_ASSERT(fcntl(p->fd, F_GETFD) == -1 && errno == EBADF);
}

static void check_objects_owner_dead(struct parents *p)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_job *list[1] = { &p->fresh };
	struct rnl_barrier barrier;
	char text[10];
	void *mem;

	CHILD_ASSERT(rnl_pool_resize(p->pool, 1) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_read_stats(p->pool, 0, &stats) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_health(p->pool, &health) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_stats_text(p->pool, NULL, text, sizeof(text)) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_stats_text(p->pool, NULL, NULL, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_submit_wait(p->pool, &p->fresh, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(submit_by_key_wait(p->pool, &p->fresh, 1, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(submit_when(p->pool, &p->fresh, RNL_SPACE) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_hold(&p->held, &p->hold) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_hold_release(&p->hold, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_then(&p->held, &p->fresh) == -EOWNERDEAD);
	CHILD_ASSERT(submit_in_order(&p->order, &p->fresh) == -EOWNERDEAD);
	CHILD_ASSERT(submit_in_order_wait(&p->order, &p->fresh, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_barrier_notify(&p->barrier, &p->notice) == -EOWNERDEAD);
	rnl_order_fini(&p->order);
	submit_anew(&p->fresh);
	check_cq_owner_dead(p);
	CHILD_ASSERT(rnl_job_cancel(&p->running) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_cancel(&p->done) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_cq(&p->done, NULL) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_on_done(&p->done, never) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_deadline(&p->done, 1) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_flags(&p->done, 0) == -EOWNERDEAD);
	CHILD_ASSERT(!rnl_worker().data);
	CHILD_ASSERT(rnl_pool_close(p->pool) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_drain(p->pool, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_device_describe(p->pool, NULL, 0, &info) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_read_stats(p->pool, RNL_ALL_WORKERS, &stats) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_submit(p->pool, &p->fresh) == -EOWNERDEAD);
	CHILD_ASSERT(submit_by_key(p->pool, &p->fresh, 1) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_submit_many(p->pool, list, 1) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_submit(p->pool, &p->running) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_wait(&p->running, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_wait(&p->done, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_wait(&p->running, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_after(&p->fresh, &p->barrier) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_barrier_init(&barrier, p->pool) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_barrier_add(&p->barrier, &p->fresh) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_barrier_wait(&p->barrier, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_barrier_join(&p->barrier) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_thread_attach(p->pool) == -EOWNERDEAD);
	mem = p;
	CHILD_ASSERT(rnl_memory_get(p->pool, RNL_PINNED, 64, &mem, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_memory_get(p->pool, 0, 64, &mem, 0) == -EOWNERDEAD);
	CHILD_ASSERT(mem == p);
	rnl_memory_put(p->pool, p->pinned);
	rnl_memory_put(p->pool, p->on_device);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(p->pool);
}

static void check_all_owner_dead(void *arg)
{
	struct parents *p = arg;

	CHILD_ASSERT(rnl_fill(p->on_device, 2, 64) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_copy(p->pinned, p->on_device, 64) == -EOWNERDEAD);
	CHILD_ASSERT(!rnl_stream());
	CHILD_ASSERT(launch_store(NULL, NULL, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_stream_wait(RNL_FOREVER) == -EOWNERDEAD);
	check_objects_owner_dead(p);
}

TEST(in_a_child_every_call_on_the_parents_objects_returns_eownerdead)
{
	struct parents p;

	parents_setup(&p);
	run_child(check_all_owner_dead, &p);
	parents_goes_on(&p);
}

#define skip_without_threads_after_fork() \
	do { \
		if (NO_THREADS_AFTER_FORK) \
			test_skip("%.*s: clang's sanitizer can, gcc's cannot", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

/* Uses pools in a child, and in a grandchild, which owns no objects of parent or grandparent. */
static void use_own_pools(void *arg)
{
	struct parents *p = arg;
	struct rnl_pool *own;
	struct rnl_job job;
	int status;
	pid_t pid;

	use_own_pool();
	own = own_pool_of(1);
	CHILD_ASSERT(use_threads(own, 1));
	pid = fork();
	if (!pid) {
		CHILD_ASSERT(rnl_pool_close(own) == -EOWNERDEAD);
		CHILD_ASSERT(rnl_pool_close(p->pool) == -EOWNERDEAD);
		use_own_pool();
		_exit(0);
	}
	CHILD_ASSERT(waitpid(pid, &status, 0) == pid && !status);
	CHILD_ASSERT(!rnl_job_init(&job, noop_fn));
	CHILD_ASSERT(!rnl_submit(own, &job));
	CHILD_ASSERT(!rnl_job_wait(&job, RNL_FOREVER));
	rnl_pool_destroy(own);
	check_objects_owner_dead(p);
}

TEST(a_child_creates_its_own_pool_and_so_does_its_child)
{
	struct parents p;

	skip_without_threads_after_fork();
	parents_setup(&p);
	run_child(use_own_pools, &p);
	parents_goes_on(&p);
}

struct forking {
	struct rnl_job job;
	struct parents *parents;
	pid_t pid;
};

static int forking_fn(struct rnl_job *job)
{
	struct forking *f = rnl_container_of(job, struct forking, job);

	f->pid = fork();
	if (f->pid)
		return 0;
	/* The child's only thread was a worker. */
	CHILD_ASSERT(rnl_worker().index == -1);
	check_all_owner_dead(f->parents);
	use_own_pool();
	_exit(0);
}

TEST(a_job_that_forks_does_no_harm_to_parent_and_child)
{
	struct parents p;
	struct forking forking = { .parents = &p };

	skip_without_threads_after_fork();
	parents_setup(&p);
	fflush(NULL);
	submit_job(p.pool, &forking.job, forking_fn, NULL);
	ck_assert_int_eq(result_of(&forking.job), 0);
	await_child(forking.pid);
	parents_goes_on(&p);
}

/* ---- exits --------------------------------------------------------------- */

/* CUDA's own exit handlers do not survive a fork. */
static void leave(void)
{
	if (on_host())
		exit(0);
}

static void only_exit(void *arg)
{
	(void)arg;
	leave();
}

static void destroy_and_exit(void *arg)
{
	struct parents *p = arg;

	rnl_pool_destroy(p->pool);
	leave();
}

static void use_own_and_exit(void *arg)
{
	(void)arg;
	use_own_pool();
	leave();
}

TEST(a_child_that_exits_does_it_cleanly)
{
	struct parents p;

	skip_without_threads_after_fork();
	parents_setup(&p);
	run_child(only_exit, &p);
	run_child(destroy_and_exit, &p);
	run_child(use_own_and_exit, &p);
	parents_goes_on(&p);
}

static void exit_under_load(void *arg)
{
	enum { NR = 2000, WORKERS = 3 };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs));
	static struct rnl_pool *pool;
	void *mem;

	(void)arg;
	attr.nr_workers = WORKERS;
	attr.device = test_device();
	CHILD_ASSERT(!rnl_pool_create(&pool, &attr));
	CHILD_ASSERT(!rnl_memory_get(pool, 0, (WORKERS + 1) * 64, &mem, 0));
	CHILD_ASSERT(!rnl_thread_attach(pool));
	for (int i = 0; i < NR; i++) {
		CHILD_ASSERT(!rnl_job_init(&jobs[i], fill_own_fn));
		jobs[i].user = mem;
		CHILD_ASSERT(!rnl_submit(pool, &jobs[i]));
	}
	CHILD_ASSERT(!rnl_fill((char *)mem + WORKERS * 64, 2, 64));
	exit(0);
}

TEST(a_process_that_exits_under_load_does_it_cleanly)
{
	for (int round = 0; round < 5; round++)
		run_child(exit_under_load, NULL);
}

/* ---- rnl_setup() --------------------------------------------------------- */

#define VARIABLE "CUDA_DEVICE_MAX_CONNECTIONS"

TEST(setup_leaves_a_variable_that_is_set)
{
	setenv(VARIABLE, "5", 1);
	must(rnl_setup());
	ck_assert_str_eq(getenv(VARIABLE), "5");
}

TEST(setup_sets_the_variable_while_there_is_one_thread)
{
	unsetenv(VARIABLE);
	if (rnl_setup() == -EBUSY && SANITIZED)
		test_skip("setup_sets_the_variable: the sanitizer runs a thread of its own");
	must(rnl_setup());
	ck_assert_ptr_nonnull(getenv(VARIABLE));
	ck_assert_str_eq(getenv(VARIABLE), "32");
	must(rnl_setup());
}

TEST(setup_changes_nothing_if_other_threads_run)
{
	struct gate gate = GATE_INIT;
	struct call call;

	call_start(&call, call_gate, &gate);
	gate_await(&gate, 1);
	unsetenv(VARIABLE);
	ck_assert_int_eq(rnl_setup(), -EBUSY);
	ck_assert_ptr_null(getenv(VARIABLE));
	setenv(VARIABLE, "9", 1);
	must(rnl_setup());
	ck_assert_str_eq(getenv(VARIABLE), "9");
	gate_open(&gate);
	must(call_end(&call));
}
