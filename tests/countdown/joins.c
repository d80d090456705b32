/* SPDX-License-Identifier: MIT */
/* Completion queues, barriers of both sizes, their notices, and orders. */
#include <poll.h>

#include <runnel/more.h>
#include <runnel/thread.h>

#include "await.h"
#include "countdown.h"

static struct rnl_cq *cq;
static struct rnl_cq *const untouched = (struct rnl_cq *)&(char){ 0 };

/* ---- completion queues ------------------------------------------------------- */

static int create(struct rnl_pool **pool)
{
	int ret;

	(void)pool;
	cq = untouched;
	ret = rnl_cq_create(&cq);
	expect((cq == untouched) == (ret != 0));
	if (ret)
		cq = NULL;
	return ret;
}

static void make(struct rnl_pool *pool)
{
	expect(!create(&pool));
}

static void end(struct rnl_pool *pool, int ret)
{
	(void)pool;
	(void)ret;
	rnl_cq_destroy(cq);
}

/* Returns the number of jobs that will be reaped. */
static unsigned submit_to_queue(struct rnl_pool *pool)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < 3; i++) {
		struct watched *w = watched_next(BY_QUEUE);
		int ret = rnl_job_set_cq(&w->job, cq);

		expect(!ret);
		expect_accepted(ret = watched_submitted(w, rnl_submit(pool, &w->job)));
		nr += !ret;
	}
	return nr;
}

static int reap(struct rnl_pool **pool)
{
	unsigned nr = submit_to_queue(*pool);
	struct rnl_job *jobs[4];

	while (nr) {
		struct pollfd fd = { rnl_cq_fd(cq), POLLIN, 0 };
		int ret;

		own_call(expect(fd.fd >= 0 && poll(&fd, 1, -1) == 1));
		ret = rnl_cq_reap(cq, jobs, COUNT(jobs), 0);
		if (ret < 0)
			return ret;
		expect((unsigned)ret <= nr);
		nr -= (unsigned)ret;
		while (ret)
			watched_reaped(jobs[--ret]);
	}
	return 0;
}

static int wait_for_queue(struct rnl_pool **pool)
{
	unsigned nr = submit_to_queue(*pool);
	struct rnl_job *job;

	while (nr--) {
		int ret = rnl_cq_reap(cq, &job, 1, RNL_FOREVER);

		if (ret < 0)
			return ret;
		expect(ret == 1);
		watched_reaped(job);
	}
	return rnl_cq_reap(cq, &job, 1, 0) == 0 ? 0 : -EPROTO;
}

/* Destroys a queue that contains jobs. */
static int destroy(struct rnl_pool **pool)
{
	(void)submit_to_queue(*pool);
	expect(!rnl_pool_drain(*pool, RNL_FOREVER));
	rnl_cq_destroy(cq);
	/* All jobs count as reaped now. */
	watched_all_reaped();
	return 0;
}

/* ---- barriers ------------------------------------------------------------------ */

static struct rnl_barrier barrier;

static void submit_to_barrier(struct rnl_pool *pool)
{
	expect(!rnl_barrier_init(&barrier, pool));
	for (unsigned i = 0; i < 3; i++) {
		struct watched *w = watched_next(i ? BY_WAIT : BY_CALLBACK);

		expect(!rnl_barrier_add(&barrier, &w->job));
		expect_accepted(watched_submitted(w, rnl_submit(pool, &w->job)));
	}
}

static int wait_for_barrier(struct rnl_pool **pool)
{
	int ret, result;

	submit_to_barrier(*pool);
	ret = rnl_barrier_wait(&barrier, RNL_FOREVER);
	if (ret)
		return ret;
	result = barrier.result;
	expect(!result || result == fault());
	return 0;
}

/* The thread has no stream yet. */
static int join(struct rnl_pool **pool)
{
	int ret;

	submit_to_barrier(*pool);
	ret = rnl_barrier_join(&barrier);
	expect(!rnl_barrier_wait(&barrier, RNL_FOREVER));
	return ret;
}

static void detach(struct rnl_pool *pool, int ret)
{
	(void)pool;
	(void)ret;
	rnl_thread_attach(NULL);
}

static int join_fn(struct rnl_job *job)
{
	rnl_container_of(job, struct watched, job)->ran++;
	return rnl_barrier_join(&barrier);
}

/* A worker joins, in its job. */
static int join_in_job(struct rnl_pool **pool)
{
	struct watched *w = watched_with(BY_CALLBACK, join_fn);

	submit_to_barrier(*pool);
	expect(!rnl_barrier_wait(&barrier, RNL_FOREVER));
	expect_accepted(watched_submitted(w, rnl_submit(*pool, &w->job)));
	expect(!rnl_pool_drain(*pool, RNL_FOREVER));
	return 0;
}

/* ---- barriers that notify -------------------------------------------------------- */

static _Atomic unsigned nr_notified;

static void notified(struct rnl_job *job)
{
	(void)job;
	nr_notified++;
}

/* The notice has the result of a failed job, or 0. */
static void expect_notified(struct rnl_job *notice)
{
	int result = notice->result;

	expect(!rnl_job_wait(notice, 0) && result == barrier.result);
	expect(!result || result == fault());
}

/* A barrier counts jobs and notifies twice: one job by a callback, then another by the queue. */
static int notify(struct rnl_pool **pool)
{
	static struct rnl_job notices[2];
	struct rnl_job *reaped;
	int ret = 0;

	nr_notified = 0;
	for (unsigned i = 0; i < 2; i++)
		expect(!rnl_job_init(&notices[i], NULL));
	expect(!rnl_job_set_on_done(&notices[0], notified) && !rnl_job_set_cq(&notices[1], cq));
	submit_to_barrier(*pool);
	for (unsigned i = 0; i < 2 && !ret; i++)
		ret = rnl_barrier_notify(&barrier, &notices[i]);
	if (ret)
		return ret;
	expect(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER) == 1 && reaped == &notices[1]);
	expect(!rnl_pool_drain(*pool, RNL_FOREVER) && nr_notified == 1);
	for (unsigned i = 0; i < 2; i++)
		expect_notified(&notices[i]);
	return 0;
}

/* ---- orders ---------------------------------------------------------------------- */

/* Submits jobs in an order, some of them after a barrier. */
static int submit_ordered(struct rnl_pool **pool)
{
	static struct rnl_order order;
	int ret = 0;

	expect(!rnl_order_init(&order, *pool, RNL_KEY_WORKER(1)));
	submit_to_barrier(*pool);
	for (unsigned i = 0; i < 3 && !ret; i++) {
		struct watched *w = watched_next(BY_CALLBACK);

		w->late = i != 1;
		expect(!rnl_job_set_after(&w->job, w->late ? &barrier : NULL));
		watched_more(w)->order = &order;
		ret = watched_submitted(w, i ? rnl_submit(*pool, &w->job) :
					rnl_submit_wait(*pool, &w->job, RNL_FOREVER));
	}
	rnl_order_fini(&order);
	expect(!rnl_barrier_wait(&barrier, RNL_FOREVER));
	expect(!rnl_pool_drain(*pool, RNL_FOREVER));
	return ret;
}

const struct operation join_operations[] = {
	{ .name = "rnl_cq_create", .run = create, .after = end,
	  .errnos = { -ENOMEM, -EMFILE, -ENFILE } },
	{ .name = "rnl_cq_reap, rnl_cq_fd", .before = make, .run = reap, .after = end },
	{ .name = "rnl_cq_reap", .before = make, .run = wait_for_queue, .after = end },
	{ .name = "rnl_cq_destroy", .before = make, .run = destroy },
	{ .name = "rnl_barrier_init, rnl_barrier_add, rnl_barrier_wait", .attr = TWO_WORKERS,
	  .run = wait_for_barrier },
	{ .name = "rnl_barrier_join", .attr = TWO_WORKERS, .run = join, .after = detach,
	  .errnos = { -ENOMEM, -EAGAIN, -EIO } },
	{ .name = "rnl_barrier_join, in a job", .attr = TWO_WORKERS, .run = join_in_job },
	{ .name = "rnl_barrier_notify", .attr = TWO_WORKERS, .before = make, .run = notify,
	  .after = end },
	{ .name = "rnl_order_init, rnl_order_fini, rnl_job_set_more", .attr = TWO_WORKERS,
	  .functions = "rnl_submit rnl_submit_wait", .run = submit_ordered, .errnos = { -EIO } },
	{ 0 }
};
