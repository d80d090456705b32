/* SPDX-License-Identifier: MIT */
/* Waiting for a completion queue, several readers, and misuse. */
#include <signal.h>
#include <sys/resource.h>

#include "cq.h"
#include "sanitizers.h"

SUITE_FORKS

TEST(without_a_limit_of_descriptors_to_poll_a_wait_sleeps_all_the_same,
     .not_simulated = "the CPU time of a process")
{
	struct rlimit limit, none;
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct rnl_job job, *list[1];
	struct timespec before, after;
	double took;

	cq_job(&job, noop_fn, NULL, cq);
	must(getrlimit(RLIMIT_NOFILE, &limit));
	none = (struct rlimit){ .rlim_max = limit.rlim_max };
	must(setrlimit(RLIMIT_NOFILE, &none));
	must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before));
	ck_assert_int_eq(rnl_cq_reap(cq, list, 1, 500 * MS), 0);
	must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after));
	took = (double)(after.tv_sec - before.tv_sec) +
	       (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
	/* At most a tenth of the wait was CPU time. */
	ck_assert_double_lt(took, 0.05 * test_scale());
	must(rnl_submit(pool, &job));
	ck_assert_int_eq(rnl_cq_reap(cq, list, 1, RNL_FOREVER), 1);
	must(setrlimit(RLIMIT_NOFILE, &limit));
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(a_wait_takes_as_long_as_its_timeout)
{
	static const int64_t timeouts[] = { 0, 1, 1000, 2 * MS, 30 * MS };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct rnl_job job, *list[1];

	for (unsigned i = 0; i < COUNT(timeouts); i++) {
		double start = seconds_now();

		ck_assert_int_eq(rnl_cq_reap(cq, list, 1, timeouts[i]), 0);
		ck_assert_double_ge(seconds_now() - start, (double)timeouts[i] * 1e-9);
		ck_assert_double_lt(seconds_now() - start, PATIENCE_S);
	}
	cq_job(&job, noop_fn, NULL, cq);
	for (int i = 0; i < 2; i++) {
		must(rnl_submit(pool, &job));
		fence(pool);
		ck_assert_int_eq(rnl_cq_reap(cq, list, 1, i ? INT64_MAX : 0), 1);
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

struct wait {
	struct rnl_cq *cq;
	int64_t timeout_ns;
	struct rnl_job *list[4];
};

static int wait_for_cq(void *arg)
{
	struct wait *w = arg;

	return rnl_cq_reap(w->cq, w->list, COUNT(w->list), w->timeout_ns);
}

TEST(a_wait_ends_when_a_job_comes_and_not_by_a_second_reader)
{
	struct rnl_pool *pool = pool_of(1);

	for (int i = 0; i < 2; i++) {
		struct wait wait = { .cq = cq_of(), .timeout_ns = i ? RNL_FOREVER : INT64_MAX };
		struct gate gate = GATE_INIT;
		struct rnl_job job, *list[1];
		struct call call;

		cq_job(&job, gated_fn, &gate, wait.cq);
		must(rnl_submit(pool, &job));
		call_start(&call, wait_for_cq, &wait);
		ck_waits(call.tid);
		ck_assert_int_eq(rnl_cq_reap(wait.cq, list, 1, 0), -EBUSY);
		ck_assert_int_eq(rnl_cq_reap(wait.cq, list, 1, RNL_FOREVER), -EBUSY);
		ck_assert(!call.returned);
		gate_open(&gate);
		ck_assert_int_eq(call_end(&call), 1);
		ck_assert_ptr_eq(wait.list[0], &job);
		ck_assert_int_eq(rnl_cq_reap(wait.cq, list, 1, 0), 0);
		rnl_cq_destroy(wait.cq);
	}
	rnl_pool_destroy(pool);
}

struct one_reader {
	struct rnl_cq *cq;
	struct rnl_job *job;
	_Atomic bool over;
};

static int reap_one(void *arg)
{
	struct one_reader *r = arg;
	int nr = rnl_cq_reap(r->cq, &r->job, 1, 0);

	/* relaxed: only the queue orders the two readers, which ThreadSanitizer checks */
	atomic_store_explicit(&r->over, true, memory_order_relaxed);
	return nr;
}

TEST(the_next_reader_finds_the_queue_as_the_last_one_left_it)
{
	struct rnl_pool *pool = pool_of(1);
	struct one_reader reader = { .cq = cq_of() };
	struct rnl_job jobs[2], *next;
	struct call call;

	for (unsigned i = 0; i < 2; i++) {
		cq_job(&jobs[i], noop_fn, NULL, reader.cq);
		must(rnl_submit(pool, &jobs[i]));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	call_start(&call, reap_one, &reader);
	while (!atomic_load_explicit(&reader.over, memory_order_relaxed))
		sched_yield();
	ck_assert_int_eq(rnl_cq_reap(reader.cq, &next, 1, 0), 1);
	ck_assert_int_eq(call_end(&call), 1);
	ck_assert_ptr_eq(reader.job, &jobs[0]);
	ck_assert_ptr_eq(next, &jobs[1]);
	rnl_cq_destroy(reader.cq);
	rnl_pool_destroy(pool);
}

static _Atomic int nr_signals;

static void on_signal(int sig)
{
	(void)sig;
	nr_signals++;
}

TEST(signals_do_not_end_a_wait, .not_simulated = "signals")
{
	struct rnl_pool *pool = pool_of(1);
	struct wait wait = { .cq = cq_of(), .timeout_ns = RNL_FOREVER };
	struct sigaction action = { .sa_handler = on_signal };	/* no SA_RESTART */
	struct gate gate = GATE_INIT;
	struct rnl_job job;
	struct call call;

	must(sigaction(SIGUSR1, &action, NULL));
	cq_job(&job, gated_fn, &gate, wait.cq);
	must(rnl_submit(pool, &job));
	call_start(&call, wait_for_cq, &wait);
	for (int i = 0; i < 5; i++) {
		ck_waits(call.tid);
		must(pthread_kill(call.thread, SIGUSR1));
		if (!SANITIZED)		/* sanitizers delay the handler */
			ck_eventually(nr_signals == i + 1);
	}
	ck_waits(call.tid);
	ck_assert(!call.returned);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 1);
	rnl_cq_destroy(wait.cq);
	rnl_pool_destroy(pool);
}

struct reader {
	struct rnl_cq *cq;
	_Atomic int *nr_left;
	int bad;
};

/* Reaps concurrently with other threads, and stores the reader of each job in `user`. */
static int read_all(void *arg)
{
	struct reader *r = arg;
	struct rnl_job *list[5];

	while (*r->nr_left > 0) {
		int ret = rnl_cq_reap(r->cq, list, COUNT(list), 0);

		r->bad += ret < 0 && ret != -EBUSY;
		for (int i = 0; i < ret; i++) {
			r->bad += list[i]->user != NULL;
			list[i]->user = r;
			atomic_fetch_sub(r->nr_left, 1);
		}
	}
	return 0;
}

TEST(of_several_readers_one_gets_each_job_and_the_others_ebusy)
{
	enum { READERS = 3, NR = 5000 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_cq *cq = cq_of();
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs));
	_Atomic int nr_left = NR;
	struct reader readers[READERS];
	struct call calls[READERS];

	for (int i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ cq, &nr_left, 0 };
		call_start(&calls[i], read_all, &readers[i]);
	}
	for (int i = 0; i < NR; i++) {
		cq_job(&jobs[i], noop_fn, NULL, cq);
		must(rnl_submit(pool, &jobs[i]));
	}
	for (int i = 0; i < READERS; i++) {
		call_end(&calls[i]);
		ck_assert_int_eq(readers[i].bad, 0);
	}
	ck_assert_int_eq(nr_left, 0);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(rnl_job_wait(&jobs[i], 0), 0);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
	free(jobs);
}
