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

/* Flushes output, which would otherwise be written twice, and forks. */
static pid_t fork_clean(void)
{
	fflush(NULL);
	return fork();
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

/* Creates, uses and destroys a pool of the host device, as CUDA does not survive a fork. */
static void use_own_pool(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct rnl_job jobs[20];
	char from[64], to[64];

	attr.nr_workers = 2;
	attr.device = "host";
	CHILD_ASSERT(!rnl_pool_create(&pool, &attr));
	CHILD_ASSERT(!rnl_barrier_init(&barrier, pool));
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		CHILD_ASSERT(!rnl_job_init(&jobs[i], noop_fn));
		CHILD_ASSERT(!rnl_barrier_add(&barrier, &jobs[i]));
		CHILD_ASSERT(!rnl_submit(pool, &jobs[i]));
	}
	CHILD_ASSERT(!rnl_barrier_wait(&barrier, RNL_FOREVER));
	CHILD_ASSERT(!rnl_barrier_join(&barrier));
	memset(from, 3, sizeof(from));
	CHILD_ASSERT(!rnl_copy(to, from, sizeof(to)));
	CHILD_ASSERT(!rnl_stream_wait(RNL_FOREVER));
	CHILD_ASSERT(!memcmp(from, to, sizeof(to)));
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

struct parents {
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct rnl_job done, running, fresh;
	struct gate gate;
	void *pinned, *on_device;
};

static void parents_setup(struct parents *p)
{
	p->pool = pool_of(2);
	ck_assert(use_threads(p->pool, 2));
	p->gate = (struct gate)GATE_INIT;
	submit_job(p->pool, &p->done, noop_fn, NULL);
	ck_assert_int_eq(result_of(&p->done), 0);
	must(rnl_barrier_init(&p->barrier, p->pool));
	submit_in(p->pool, &p->barrier, &p->running, gated_fn, &p->gate);
	gate_await(&p->gate, 1);
	job_of(&p->fresh, noop_fn, NULL);
	must(rnl_memory_get(p->pool, RNL_PINNED, 64, &p->pinned, 0));
	must(rnl_memory_get(p->pool, 0, 64, &p->on_device, 0));
}

static void parents_goes_on(struct parents *p)
{
	ck_assert_int_ne(rnl_job_wait(&p->running, 0), 0);
	gate_open(&p->gate);
	must(rnl_barrier_wait(&p->barrier, RNL_FOREVER));
	ck_assert_int_eq(submit_and_wait(p->pool, &p->fresh), 0);
	must(rnl_fill(p->on_device, 1, 64));
	must(rnl_copy(p->pinned, p->on_device, 64));
	must(rnl_stream_wait(RNL_FOREVER));
	ck_assert_bytes(p->pinned, 64, 1);
	rnl_thread_attach(NULL);
	rnl_memory_put(p->pool, p->pinned);
	rnl_memory_put(p->pool, p->on_device);
	rnl_pool_destroy(p->pool);
}

static void check_all_owner_dead(struct parents *p)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_job *list[1] = { &p->fresh };
	struct rnl_barrier barrier;
	void *mem;

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
	CHILD_ASSERT(rnl_fill(p->on_device, 2, 64) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_copy(p->pinned, p->on_device, 64) == -EOWNERDEAD);
	CHILD_ASSERT(!rnl_stream());
	CHILD_ASSERT(launch_store(NULL, NULL, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_stream_wait(RNL_FOREVER) == -EOWNERDEAD);
	mem = p;
	CHILD_ASSERT(rnl_memory_get(p->pool, RNL_PINNED, 64, &mem, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_memory_get(p->pool, 0, 64, &mem, 0) == -EOWNERDEAD);
	CHILD_ASSERT(mem == p);
	rnl_memory_put(p->pool, p->pinned);
	rnl_memory_put(p->pool, p->on_device);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(p->pool);
}

TEST(in_a_child_every_call_on_the_parents_objects_returns_eownerdead)
{
	struct parents p;
	pid_t pid;

	parents_setup(&p);
	pid = fork_clean();
	if (!pid) {
		check_all_owner_dead(&p);
		_exit(0);
	}
	await_child(pid);
	parents_goes_on(&p);
}

TEST(a_child_creates_its_own_pool_and_so_does_its_child)
{
	struct parents p;
	pid_t pid;

	if (NO_THREADS_AFTER_FORK)
		test_skip("a_child_creates_its_own_pool_and_so_does_its_child: clang's sanitizer can, gcc's cannot");
	parents_setup(&p);
	pid = fork_clean();
	if (!pid) {
		struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
		struct rnl_pool *own;
		int status;

		use_own_pool();
		attr.nr_workers = 1;
		attr.device = "host";
		CHILD_ASSERT(!rnl_pool_create(&own, &attr));
		CHILD_ASSERT(use_threads(own, 1));
		/* The grandchild owns no objects of its parent or grandparent. */
		pid = fork_clean();
		if (!pid) {
			CHILD_ASSERT(rnl_pool_close(own) == -EOWNERDEAD);
			CHILD_ASSERT(rnl_pool_close(p.pool) == -EOWNERDEAD);
			use_own_pool();
			_exit(0);
		}
		CHILD_ASSERT(waitpid(pid, &status, 0) == pid && !status);
		CHILD_ASSERT(!rnl_job_init(&p.fresh, noop_fn));
		CHILD_ASSERT(!rnl_submit(own, &p.fresh));
		CHILD_ASSERT(!rnl_job_wait(&p.fresh, RNL_FOREVER));
		rnl_pool_destroy(own);
		_exit(0);
	}
	await_child(pid);
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

TEST(a_job_that_forks_harms_neither_process)
{
	struct parents p;
	struct forking forking = { .parents = &p };

	if (NO_THREADS_AFTER_FORK)
		test_skip("a_job_that_forks_harms_neither_process: clang's sanitizer can, gcc's cannot");
	parents_setup(&p);
	fflush(NULL);
	submit_job(p.pool, &forking.job, forking_fn, NULL);
	ck_assert_int_eq(result_of(&forking.job), 0);
	await_child(forking.pid);
	parents_goes_on(&p);
}

/* ---- exits --------------------------------------------------------------- */

TEST(a_child_that_exits_does_it_cleanly)
{
	struct parents p;

	if (NO_THREADS_AFTER_FORK)
		test_skip("a_child_that_exits_does_it_cleanly: clang's sanitizer can, gcc's cannot");
	parents_setup(&p);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork_clean();

		if (!pid) {
			if (i == 1)
				rnl_pool_destroy(p.pool);
			if (i == 2)
				use_own_pool();
			/* CUDA's own exit handlers do not survive a fork. */
			if (!on_host())
				_exit(0);
			exit(0);
		}
		await_child(pid);
	}
	parents_goes_on(&p);
}

TEST(a_process_that_exits_under_load_does_it_cleanly)
{
	enum { NR = 2000, WORKERS = 3 };

	for (int round = 0; round < 5; round++) {
		pid_t pid = fork_clean();

		if (!pid) {
			struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
			struct rnl_job *jobs = calloc(NR, sizeof(*jobs));
			static struct rnl_pool *pool;
			void *mem;

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
		await_child(pid);
	}
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

static void *gate_thread(void *gate)
{
	gate_wait(gate);
	return NULL;
}

TEST(setup_changes_nothing_beside_other_threads)
{
	struct gate gate = GATE_INIT;
	pthread_t thread;

	must(pthread_create(&thread, NULL, gate_thread, &gate));
	gate_await(&gate, 1);
	unsetenv(VARIABLE);
	ck_assert_int_eq(rnl_setup(), -EBUSY);
	ck_assert_ptr_null(getenv(VARIABLE));
	setenv(VARIABLE, "9", 1);
	must(rnl_setup());
	ck_assert_str_eq(getenv(VARIABLE), "9");
	gate_open(&gate);
	pthread_join(thread, NULL);
}

/* ---- queues, resizes, figures -------------------------------------------- */

struct more {
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct gate gate;
	struct rnl_job running, done, finished, fresh;	/* finished: in the queue */
	struct rnl_job held, notice;
	struct rnl_hold hold;
	struct rnl_order order;
	struct rnl_barrier barrier;
	int fd;
};

static int take_hold_fn(struct rnl_job *job)
{
	return rnl_job_hold(job, &rnl_container_of(job, struct more, held)->hold);
}

static void never(struct rnl_job *job)
{
	(void)job;
	_exit(1);
}

static void more_setup(struct more *m)
{
	m->pool = pool_of(2);
	ck_assert(use_threads(m->pool, 2));
	m->gate = (struct gate)GATE_INIT;
	must(rnl_cq_create(&m->cq));
	m->fd = rnl_cq_fd(m->cq);
	submit_job(m->pool, &m->done, noop_fn, NULL);
	ck_assert_int_eq(result_of(&m->done), 0);
	job_of(&m->finished, index_fn, NULL);
	must(rnl_job_set_cq(&m->finished, m->cq));
	must(rnl_submit(m->pool, &m->finished));
	must(rnl_pool_drain(m->pool, RNL_FOREVER));
	submit_job(m->pool, &m->held, take_hold_fn, NULL);
	ck_eventually(figures_of(m->pool).held == 1);
	must(rnl_order_init(&m->order, m->pool, 1));
	must(rnl_barrier_init(&m->barrier, m->pool));
	job_of(&m->notice, NULL, NULL);
	submit_job(m->pool, &m->running, gated_fn, &m->gate);
	gate_await(&m->gate, 1);
	job_of(&m->fresh, noop_fn, NULL);
}

static void check_more_owner_dead(struct more *m)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_job *list[1] = { NULL };
	char text[10] = "untouched";

	CHILD_ASSERT(rnl_pool_resize(m->pool, 1) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_read_stats(m->pool, 0, &stats) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_health(m->pool, &health) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_stats_text(m->pool, NULL, text, sizeof(text)) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_pool_stats_text(m->pool, NULL, NULL, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_submit_wait(m->pool, &m->fresh, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(submit_by_key_wait(m->pool, &m->fresh, 1, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(submit_when(m->pool, &m->fresh, RNL_SPACE) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_hold(&m->held, &m->hold) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_hold_release(&m->hold, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_then(&m->held, &m->fresh) == -EOWNERDEAD);
	CHILD_ASSERT(submit_in_order(&m->order, &m->fresh) == -EOWNERDEAD);
	CHILD_ASSERT(submit_in_order_wait(&m->order, &m->fresh, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_barrier_notify(&m->barrier, &m->notice) == -EOWNERDEAD);
	rnl_order_fini(&m->order);
	CHILD_ASSERT(rnl_cq_fd(m->cq) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_cq_reap(m->cq, list, 1, 0) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_cq_reap(m->cq, list, 1, RNL_FOREVER) == -EOWNERDEAD);
	CHILD_ASSERT(!list[0]);
	CHILD_ASSERT(rnl_job_set_cq(&m->fresh, m->cq) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_cancel(&m->running) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_cancel(&m->done) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_cq(&m->done, NULL) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_on_done(&m->done, never) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_deadline(&m->done, 1) == -EOWNERDEAD);
	CHILD_ASSERT(rnl_job_set_flags(&m->done, RNL_URGENT) == -EOWNERDEAD);
	CHILD_ASSERT(!rnl_worker().data);
	/* The destroy frees the child's descriptor and memory. */
	CHILD_ASSERT(fcntl(m->fd, F_GETFD) >= 0);
	rnl_cq_destroy(m->cq);
	CHILD_ASSERT(fcntl(m->fd, F_GETFD) == -1 && errno == EBADF);
	m->cq = NULL;
}

/* Creates and uses a queue of the child's own. */
static void use_own_queue(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct rnl_job jobs[20], *list[20];

	attr.nr_workers = 2;
	attr.device = "host";
	CHILD_ASSERT(!rnl_pool_create(&pool, &attr));
	CHILD_ASSERT(!rnl_cq_create(&cq));
	CHILD_ASSERT(!rnl_pool_resize(pool, 3));
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		CHILD_ASSERT(!rnl_job_init(&jobs[i], noop_fn));
		CHILD_ASSERT(!rnl_job_set_cq(&jobs[i], cq));
		CHILD_ASSERT(!rnl_submit_wait(pool, &jobs[i], RNL_FOREVER));
	}
	for (int left = COUNT(jobs), ret; left; left -= ret) {
		ret = rnl_cq_reap(cq, list, COUNT(list), RNL_FOREVER);
		CHILD_ASSERT(ret > 0);
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(in_a_child_the_parents_queues_and_jobs_are_left_alone)
{
	struct rnl_job *list[2];
	struct more m;
	pid_t pid;

	more_setup(&m);
	pid = fork_clean();
	if (!pid) {
		check_more_owner_dead(&m);
		_exit(0);
	}
	await_child(pid);
	/* The child has not reaped, and has not read the shared descriptor. */
	ck_assert_int_eq(rnl_cq_fd(m.cq), m.fd);
	ck_assert_int_eq(rnl_cq_reap(m.cq, list, 2, 0), 1);
	ck_assert_ptr_eq(list[0], &m.finished);
	must(rnl_submit(m.pool, &m.finished));
	ck_assert_int_eq(rnl_cq_reap(m.cq, list, 2, RNL_FOREVER), 1);
	gate_open(&m.gate);
	must(rnl_hold_release(&m.hold, 0));
	ck_assert_int_eq(result_of(&m.running), 0);
	ck_assert_int_eq(submit_and_wait(m.pool, &m.done), 0);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(m.pool);
	rnl_cq_destroy(m.cq);
}

TEST(a_child_has_queues_and_resizes_of_its_own)
{
	struct more m;
	pid_t pid;

	if (NO_THREADS_AFTER_FORK)
		test_skip("a_child_has_queues_and_resizes_of_its_own: clang's sanitizer can, gcc's cannot");
	more_setup(&m);
	pid = fork_clean();
	if (!pid) {
		use_own_queue();
		check_more_owner_dead(&m);
		_exit(0);
	}
	await_child(pid);
	gate_open(&m.gate);
	must(rnl_hold_release(&m.hold, 0));
	rnl_thread_attach(NULL);
	rnl_pool_destroy(m.pool);
	rnl_cq_destroy(m.cq);
}
