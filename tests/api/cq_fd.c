/* SPDX-License-Identifier: MIT */
/* A completion queue's descriptor: when it is readable, its reads and writes, and poll loops. */
#undef _FORTIFY_SOURCE	/* its inline read() would conflict with the one below */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "cq.h"
#include "host_kernel.h"

/* ---- system calls on the descriptor -------------------------------------- */

/* The program defines these functions, so the library calls them. */
#define INTERPOSED __attribute__((visibility("default")))

static _Atomic int watched = -1;
static _Atomic unsigned nr_writes, nr_reads, nr_may_block;

INTERPOSED ssize_t write(int fd, const void *buf, size_t bytes)
{
	nr_writes += fd == watched;
	return syscall(SYS_write, fd, buf, bytes);
}

INTERPOSED ssize_t read(int fd, void *buf, size_t bytes)
{
	if (fd == watched) {
		nr_reads++;
		nr_may_block += !(fcntl(fd, F_GETFL) & O_NONBLOCK);
	}
	return syscall(SYS_read, fd, buf, bytes);
}

static struct rnl_cq *watched_cq(void)
{
	struct rnl_cq *cq = cq_of();

	watched = rnl_cq_fd(cq);
	ck_assert_int_ge(watched, 0);
	nr_writes = nr_reads = nr_may_block = 0;
	return cq;
}

TEST(the_descriptor_is_an_eventfd_that_lives_as_long_as_the_queue, .timeout_s = 60)
{
	struct rnl_cq *cqs[2] = { cq_of(), cq_of() };
	char path[64], target[64] = "";
	int fds[2];

	for (int i = 0; i < 2; i++) {
		fds[i] = rnl_cq_fd(cqs[i]);
		ck_assert_int_ge(fds[i], 0);
		ck_assert_int_eq(rnl_cq_fd(cqs[i]), fds[i]);
		ck_assert(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
		ck_assert(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[i]);
		ck_assert_int_gt(readlink(path, target, sizeof(target) - 1), 0);
		ck_assert_ptr_nonnull(strstr(target, "eventfd"));
		ck_assert(!readable(fds[i]));
	}
	ck_assert_int_ne(fds[0], fds[1]);
	rnl_cq_destroy(cqs[0]);
	ck_assert_int_eq(fcntl(fds[0], F_GETFD), -1);
	ck_assert_int_ge(fcntl(fds[1], F_GETFD), 0);
	rnl_cq_destroy(cqs[1]);
	ck_assert_int_eq(fcntl(fds[1], F_GETFD), -1);
}

TEST(without_a_descriptor_left_there_is_no_queue, .timeout_s = 60)
{
	struct rnl_cq *const untouched = (struct rnl_cq *)&(char){ 0 };
	struct rnl_cq *cq = untouched;
	struct rlimit limit, none;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_int_eq(rnl_cq_create(&cq), -EMFILE);
	ck_assert_ptr_eq(cq, untouched);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	must(rnl_cq_create(&cq));
	rnl_cq_destroy(cq);
}

/* ---- one write per burst ------------------------------------------------- */

enum { BURST = 100 };

/* Submits @nr jobs, and waits until all of them are in the queue. */
static void burst(struct rnl_pool *pool, struct rnl_job *jobs, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		must(rnl_submit(pool, &jobs[i]));
	fence(pool);
}

TEST(a_burst_is_told_by_one_write, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = watched_cq();
	struct rnl_job jobs[BURST], *list[BURST + 1];
	int fd = watched;

	for (int i = 0; i < BURST; i++)
		cq_job(&jobs[i], noop_fn, NULL, cq);
	/* The queue is armed when it is created, and by each reap that finds it empty. */
	for (unsigned round = 1; round <= 20; round++) {
		ck_assert(!readable(fd));
		burst(pool, jobs, BURST);
		ck_assert(readable(fd));
		ck_assert_uint_eq(nr_writes, round);
		ck_assert_int_eq(rnl_cq_reap(cq, list, BURST + 1, 0), BURST);
		ck_assert_uint_eq(nr_writes, round);
	}
	ck_assert(!readable(fd));
	ck_assert_uint_le(nr_reads, 2 * 20);
	ck_assert_uint_eq(nr_may_block, 0);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(the_descriptor_is_readable_until_a_reap_has_seen_the_queue_empty, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = watched_cq();
	struct rnl_job jobs[BURST], *list[BURST];
	int fd = watched;

	for (int i = 0; i < BURST; i++)
		cq_job(&jobs[i], noop_fn, NULL, cq);
	burst(pool, jobs, 30);
	for (int i = 0; i < 3; i++) {
		ck_assert(readable(fd));
		ck_assert_int_eq(rnl_cq_reap(cq, list, 10, 0), 10);
	}
	/* No reap found the queue empty, so it is not armed, and a push does not write. */
	ck_assert(readable(fd));
	burst(pool, jobs, 5);
	ck_assert_uint_eq(nr_writes, 1);
	ck_assert_int_eq(rnl_cq_reap(cq, list, 5, 0), 5);
	ck_assert(readable(fd));
	ck_assert_int_eq(rnl_cq_reap(cq, list, 5, 0), 0);
	ck_assert(!readable(fd));
	/* The queue is armed: the first push writes. */
	burst(pool, jobs, 1);
	ck_assert(readable(fd));
	ck_assert_uint_eq(nr_writes, 2);
	burst(pool, jobs + 1, BURST - 1);
	ck_assert_uint_eq(nr_writes, 2);
	ck_assert_int_eq(rnl_cq_reap(cq, list, BURST, 0), BURST);
	ck_assert(readable(fd));
	ck_assert_uint_eq(nr_may_block, 0);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(a_wait_leaves_the_descriptor_as_a_reap_does, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = watched_cq();
	struct rnl_job jobs[3], *list[4];
	int fd = watched;

	for (int i = 0; i < 3; i++)
		cq_job(&jobs[i], noop_fn, NULL, cq);
	ck_assert_int_eq(rnl_cq_reap(cq, list, 4, MS), 0);
	ck_assert(!readable(fd));
	burst(pool, jobs, 3);
	ck_assert(readable(fd));
	ck_assert_int_eq(rnl_cq_reap(cq, list, 2, RNL_FOREVER), 2);
	ck_assert(readable(fd));
	ck_assert_int_eq(rnl_cq_reap(cq, list, 2, RNL_FOREVER), 1);
	ck_assert(!readable(fd));
	burst(pool, jobs, 1);
	ck_assert(readable(fd));
	ck_assert_uint_eq(nr_writes, 2);
	ck_assert_int_eq(rnl_cq_reap(cq, list, 4, 0), 1);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

/* ---- the order of what completes together -------------------------------- */

struct watcher {
	struct rnl_job job;
	int fd;
	bool saw;
	struct gate called;
};

static void look_at_fd(struct rnl_job *job)
{
	struct watcher *w = rnl_container_of(job, struct watcher, job);

	w->saw = readable(w->fd);
	gate_open(&w->called);
}

/* All three complete when the first kernel ends, nearly always together. */
TEST(a_callback_comes_after_earlier_jobs_are_in_their_queue, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);

	skip_unless_host();
	for (int round = 0; round < 20; round++) {
		struct rnl_cq *cq = cq_of();
		struct gate kernel = GATE_INIT, open = GATE_INIT;
		struct watcher watcher = { .fd = rnl_cq_fd(cq), .called = GATE_INIT };
		struct rnl_job first, queued, *list[1];

		gate_open(&open);
		submit_job(pool, &first, gated_kernel_fn, &kernel);
		gate_await(&kernel, 1);
		cq_job(&queued, gated_kernel_fn, &open, cq);
		must(rnl_submit(pool, &queued));
		job_of(&watcher.job, gated_kernel_fn, &open);
		must(rnl_job_set_on_done(&watcher.job, look_at_fd));
		must(rnl_submit(pool, &watcher.job));
		ck_assert(!readable(watcher.fd));
		gate_open(&kernel);
		gate_wait(&watcher.called);
		ck_assert(watcher.saw);
		reap_all(cq, list, 1);
		ck_assert_int_eq(result_of(&watcher.job), 0);
		ck_assert_int_eq(result_of(&first), 0);
		rnl_cq_destroy(cq);
	}
	rnl_pool_destroy(pool);
}

/* ---- poll loops ---------------------------------------------------------- */

enum { WINDOW = 48, LOOP_POOLS = 2 };

struct loop {
	struct rnl_cq *cq;
	struct rnl_pool *pools[LOOP_POOLS];
	struct rnl_job jobs[WINDOW];
	unsigned nr, submitted, reaped, nr_reaps, nr_empty;
};

static void loop_start(struct loop *loop, unsigned nr_workers)
{
	*loop = (struct loop){ .cq = watched_cq(), .nr = (unsigned)(30000 / test_scale()) };
	for (int i = 0; i < LOOP_POOLS; i++)
		loop->pools[i] = pool_of(nr_workers);
	for (; loop->submitted < WINDOW; loop->submitted++) {
		struct rnl_job *job = &loop->jobs[loop->submitted];

		job->user = NULL;
		cq_job(job, noop_fn, NULL, loop->cq);
		must(rnl_submit(loop->pools[loop->submitted % LOOP_POOLS], job));
	}
}

static void loop_end(struct loop *loop)
{
	struct rnl_job *list[WINDOW];

	ck_assert_uint_eq(loop->reaped, loop->nr);
	ck_assert_uint_eq(loop->submitted, loop->nr);
	ck_assert_int_eq(rnl_cq_reap(loop->cq, list, WINDOW, 0), 0);
	printf("%u jobs: %u reaps, %u of them empty; %u writes, %u reads\n", loop->nr,
	       loop->nr_reaps, loop->nr_empty, nr_writes, nr_reads);
	/* Each arming causes at most one write, and each reap arms the queue at most once. */
	ck_assert_uint_le(nr_writes, loop->nr_reaps + 1);
	ck_assert_uint_eq(nr_may_block, 0);
	for (int i = 0; i < LOOP_POOLS; i++)
		rnl_pool_destroy(loop->pools[i]);
	rnl_cq_destroy(loop->cq);
}

/* Reaps at most @max jobs, once, and submits them again. Returns the number of reaped jobs. */
static unsigned loop_reap(struct loop *loop, unsigned max)
{
	struct rnl_job *list[WINDOW];
	int ret = rnl_cq_reap(loop->cq, list, max, 0);

	ck_assert_int_ge(ret, 0);
	loop->nr_reaps++;
	loop->nr_empty += !ret;
	loop->reaped += (unsigned)ret;
	for (int i = 0; i < ret && loop->submitted < loop->nr; i++, loop->submitted++)
		must(rnl_submit(loop->pools[loop->submitted % LOOP_POOLS], list[i]));
	return (unsigned)ret;
}

static int patience(void)
{
	return (int)(PATIENCE_S * 1e3);
}

static void serve_by_epoll(unsigned nr_workers, unsigned max, bool edges)
{
	struct epoll_event event = { .events = EPOLLIN | (edges ? EPOLLET : 0) };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct loop loop;

	ck_assert_int_ge(epoll, 0);
	loop_start(&loop, nr_workers);
	ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, rnl_cq_fd(loop.cq), &event), 0);
	while (loop.reaped < loop.nr) {
		ck_assert_msg(epoll_wait(epoll, &event, 1, patience()) == 1,
			      "%u of %u jobs came", loop.reaped, loop.nr);
		while (loop_reap(&loop, max) == max && edges)
			;
	}
	loop_end(&loop);
	close(epoll);
}

TEST(a_level_triggered_loop_reaps_once_whenever_it_is_told, .timeout_s = 60)
{
	serve_by_epoll(1, WINDOW, false);
	serve_by_epoll(2, WINDOW, false);
	serve_by_epoll(1, 7, false);
	serve_by_epoll(2, 1, false);
}

TEST(an_edge_triggered_loop_reaps_until_it_gets_less_than_it_asked_for, .timeout_s = 60)
{
	serve_by_epoll(1, WINDOW, true);
	serve_by_epoll(2, WINDOW, true);
	serve_by_epoll(1, 7, true);
	serve_by_epoll(2, 1, true);
}

TEST(a_loop_of_poll_gets_every_job, .timeout_s = 60)
{
	for (unsigned max = 1; max <= WINDOW; max += WINDOW - 1) {
		struct loop loop;
		struct pollfd look = { .events = POLLIN };

		loop_start(&loop, 2);
		look.fd = rnl_cq_fd(loop.cq);
		while (loop.reaped < loop.nr) {
			ck_assert_msg(poll(&look, 1, patience()) == 1, "%u of %u jobs came",
				      loop.reaped, loop.nr);
			loop_reap(&loop, max);
		}
		loop_end(&loop);
	}
}

/* ---- a descriptor that the program gets late -------------------------------------- */

static void *reap_one(void *arg)
{
	struct rnl_job *job = NULL;

	ck_assert_int_eq(rnl_cq_reap(arg, &job, 1, patience_ns()), 1);
	return NULL;
}

/* While it gets the descriptor, another thread waits for a job, and leaves the others. */
TEST(a_late_descriptor_is_readable_if_jobs_are_left, .timeout_s = 60)
{
	enum { NR = 3 };
	struct rnl_pool *pool = pool_of(1);

	for (int round = 0; round < 200; round++) {
		struct rnl_cq *cq = cq_of();
		struct rnl_job jobs[NR], *list[NR];
		pthread_t thread;
		int fd;

		for (int i = 0; i < NR; i++)
			cq_job(&jobs[i], noop_fn, NULL, cq);
		ck_assert_int_eq(pthread_create(&thread, NULL, reap_one, cq), 0);
		for (int i = 0; i < NR; i++)
			must(rnl_submit(pool, &jobs[i]));
		fd = rnl_cq_fd(cq);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		for (int left = NR - 1; left; left -= rnl_cq_reap(cq, list, 1, 0)) {
			struct pollfd look = { .fd = fd, .events = POLLIN };

			ck_assert_int_eq(poll(&look, 1, patience()), 1);
		}
		rnl_cq_destroy(cq);
	}
	rnl_pool_destroy(pool);
}

TEST(a_late_descriptor_becomes_readable_by_the_next_job, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct rnl_job jobs[3], *list[3];

	for (int i = 0; i < 3; i++)
		cq_job(&jobs[i], noop_fn, NULL, cq);
	burst(pool, jobs, 3);
	reap_all(cq, list, 3);
	/* It is readable though the queue is empty: nothing has armed the queue. */
	watched = rnl_cq_fd(cq);
	ck_assert(readable(watched));
	ck_assert_int_eq(rnl_cq_reap(cq, list, 3, 0), 0);
	ck_assert(!readable(watched));
	burst(pool, jobs, 3);
	ck_assert(readable(watched));
	reap_all(cq, list, 3);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

/* Without its descriptor a queue needs no system call, unless a thread sleeps. */
TEST(a_queue_that_nobody_polls_writes_nothing, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job jobs[BURST], *list[BURST];
	struct rnl_cq *cq;

	watched = dup(0);
	ck_assert_int_ge(watched, 0);
	ck_assert_int_eq(close(watched), 0);
	cq = cq_of();
	for (int i = 0; i < BURST; i++)
		cq_job(&jobs[i], noop_fn, NULL, cq);
	/* The first burst finds the queue armed, as it was created. */
	burst(pool, jobs, BURST);
	reap_all(cq, list, BURST);
	nr_writes = nr_reads = 0;
	for (int round = 0; round < 20; round++) {
		burst(pool, jobs, BURST);
		reap_all(cq, list, BURST);
	}
	ck_assert_uint_eq(nr_writes + nr_reads, 0);
	ck_assert_int_eq(rnl_cq_fd(cq), watched);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}
