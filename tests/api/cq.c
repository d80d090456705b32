/* SPDX-License-Identifier: MIT */
/* Completion queues: content, order, and the owner of the jobs before and after a reap. */
#include "cq.h"
#include "host_kernel.h"
#include "record.h"

/* ---- content and order --------------------------------------------------- */

TEST(jobs_are_reaped_in_the_order_in_which_they_finished)
{
	enum { NR = 500 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct noted *noted = calloc(NR, sizeof(*noted));
	struct record record = { 0 };
	struct rnl_job *jobs[NR];

	for (int i = 0; i < NR; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_job_set_cq(&noted[i].job, cq));
		ck_assert_int_eq(i % 3 ? rnl_submit(pool, &noted[i].job) :
					 submit_by_key(pool, &noted[i].job, 1), 0);
	}
	reap_all(cq, jobs, NR);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(rnl_container_of(jobs[i], struct noted, job)->id, record.ids[i]);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
	free(noted);
}

TEST(a_reap_takes_no_more_than_it_is_asked_for)
{
	enum { NR = 10 };
	static const struct {
		unsigned max;
		int taken;
	} reaps[] = { { 3, 3 }, { 1, 1 }, { 4, 4 }, { 4, 2 }, { 4, 0 }, { UINT32_MAX, 0 } };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct rnl_job jobs[NR], *list[NR + 1];
	unsigned nr = 0;

	for (int i = 0; i < NR; i++) {
		cq_job(&jobs[i], noop_fn, NULL, cq);
		must(rnl_submit(pool, &jobs[i]));
	}
	fence(pool);
	for (unsigned i = 0; i < COUNT(reaps); i++) {
		list[nr + (unsigned)reaps[i].taken] = (struct rnl_job *)&list;
		ck_assert_int_eq(rnl_cq_reap(cq, list + nr, reaps[i].max, 0), reaps[i].taken);
		nr += (unsigned)reaps[i].taken;
		ck_assert_ptr_eq(list[nr], (struct rnl_job *)&list);	/* no more entries */
	}
	for (int i = 0; i < NR; i++)
		ck_assert_ptr_eq(list[i], &jobs[i]);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(several_pools_share_a_queue_that_outlives_them)
{
	enum { POOLS = 3, NR = 300 };
	struct rnl_pool *pools[POOLS];
	struct rnl_cq *cq = cq_of();
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs)), *list[NR];
	bool seen[NR] = { false };

	for (unsigned p = 0; p < POOLS; p++)
		pools[p] = pool_of(1 + p % 2);
	for (int i = 0; i < NR; i++) {
		cq_job(&jobs[i], index_fn, NULL, cq);
		must(rnl_submit(pools[i % POOLS], &jobs[i]));
	}
	/* A destroy waits until the jobs are in the queue, not until they are reaped. */
	for (int p = 0; p < POOLS; p++)
		rnl_pool_destroy(pools[p]);
	ck_assert_int_eq(rnl_cq_reap(cq, list, NR, 0), NR);
	for (int i = 0; i < NR; i++) {
		ck_assert(!seen[list[i] - jobs]);
		seen[list[i] - jobs] = true;
		ck_assert_int_ge(list[i]->result, 0);
	}
	rnl_cq_destroy(cq);
	free(jobs);
}

TEST(jobs_of_one_pool_go_to_the_queues_that_they_name)
{
	enum { QUEUES = 3, NR = 300 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_cq *cqs[QUEUES];
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs)), *list[NR];

	for (int q = 0; q < QUEUES; q++)
		cqs[q] = cq_of();
	for (int i = 0; i < NR; i++) {
		cq_job(&jobs[i], noop_fn, cqs[0], cqs[0]);
		/* The last call counts. It removes the queue of every third job. */
		jobs[i].user = i % 3 == 2 ? NULL : cqs[1 + i % 2];
		must(rnl_job_set_cq(&jobs[i], jobs[i].user));
		must(rnl_submit(pool, &jobs[i]));
	}
	for (int q = 1; q < QUEUES; q++) {
		reap_all(cqs[q], list, NR / 3);
		for (int i = 0; i < NR / 3; i++)
			ck_assert_ptr_eq(list[i]->user, cqs[q]);
	}
	for (int i = 2; i < NR; i += 3)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	for (int q = 0; q < QUEUES; q++) {
		ck_assert_int_eq(rnl_cq_reap(cqs[q], list, NR, 0), 0);
		rnl_cq_destroy(cqs[q]);
	}
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(jobs_that_failed_or_never_ran_are_in_the_queue_with_their_results)
{
	static const int results[] = { 0, -EPROTO, -ECANCELED, -ECANCELED, -ETIMEDOUT };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, jobs[5], *list[5];

	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < 5; i++)
		cq_job(&jobs[i], result_fn, (void *)(intptr_t)(i == 1 ? -EPROTO : 0), cq);
	must(rnl_barrier_add(&barrier, &jobs[1]));
	must(rnl_job_set_after(&jobs[2], &barrier));
	must(rnl_job_set_deadline(&jobs[4], 0));
	for (int i = 0; i < 5; i++)
		must(rnl_submit(pool, &jobs[i]));
	must(rnl_job_cancel(&jobs[3]));
	gate_open(&gate);
	reap_all(cq, list, 5);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(jobs[i].result, results[i]);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

/* ---- the owner of a job -------------------------------------------------- */

TEST(a_job_is_done_once_it_is_reaped_and_not_before)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of(), *other = cq_of();
	struct rnl_job job, *list[2];

	cq_job(&job, index_fn, NULL, cq);
	for (int round = 0; round < 3; round++) {
		must(rnl_submit(pool, &job));
		fence(pool);
		for (int i = 0; i < 2; i++) {
			ck_assert_int_eq(rnl_job_wait(&job, 0), -ETIMEDOUT);
			ck_assert_int_eq(rnl_job_wait(&job, MS), -ETIMEDOUT);
			ck_assert_int_eq(rnl_submit(pool, &job), -EBUSY);
			ck_assert_int_eq(submit_by_key(pool, &job, 1), -EBUSY);
			ck_assert_int_eq(rnl_submit_wait(pool, &job, RNL_FOREVER), -EBUSY);
			ck_assert_int_eq(rnl_job_set_cq(&job, other), -EBUSY);
			ck_assert_int_eq(rnl_job_set_cq(&job, NULL), -EBUSY);
			ck_assert_int_eq(rnl_job_cancel(&job), -EALREADY);
		}
		ck_assert_int_eq(rnl_cq_reap(other, list, 2, 0), 0);
		ck_assert_int_eq(rnl_cq_reap(cq, list, 2, 0), 1);
		ck_assert_ptr_eq(list[0], &job);
		must(rnl_job_wait(&job, 0));
		ck_assert_int_eq(job.result, 0);
		ck_assert_int_eq(rnl_job_cancel(&job), -EALREADY);
	}
	rnl_cq_destroy(other);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

static int wait_for_job(void *job)
{
	return rnl_job_wait(job, patience_ns());
}

TEST(a_wait_for_a_job_returns_when_it_is_reaped)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct rnl_job job, *list[1];
	struct call call;

	cq_job(&job, noop_fn, NULL, cq);
	must(rnl_submit(pool, &job));
	fence(pool);
	call_start(&call, wait_for_job, &job);
	ck_waits(call.tid);
	ck_assert_int_eq(rnl_cq_reap(cq, list, 1, 0), 1);
	must(call_end(&call));
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_was_reaped_is_submitted_again_at_once)
{
	enum { WINDOW = 16 };
	int nr = (int)(30000 / test_scale()), reaped = 0, submitted = 0;
	struct rnl_pool *pool = pool_of(2);
	struct rnl_cq *cq = cq_of();
	struct rnl_job jobs[WINDOW], *list[WINDOW];
	_Atomic int ran = 0;
	int ret;

	for (; submitted < WINDOW; submitted++) {
		cq_job(&jobs[submitted], index_fn, &ran, cq);
		must(rnl_submit(pool, &jobs[submitted]));
	}
	while (reaped < nr) {
		ret = rnl_cq_reap(cq, list, WINDOW, RNL_FOREVER);
		ck_assert_int_gt(ret, 0);
		reaped += ret;
		for (int i = 0; i < ret && submitted < nr; i++, submitted++)
			must(rnl_submit(pool, list[i]));
	}
	ck_assert_int_eq(reaped, nr);
	ck_assert_uint_eq(figures_of(pool).accepted, (uint64_t)nr);
	ck_assert_int_eq(rnl_cq_reap(cq, list, WINDOW, 0), 0);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(jobs_left_in_a_queue_that_is_destroyed_are_done)
{
	enum { NR = 200 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs)), *list[7];

	for (int i = 0; i < NR; i++) {
		cq_job(&jobs[i], result_fn, (void *)(intptr_t)(i % 2 ? 0 : -EPROTO), cq);
		must(rnl_submit(pool, &jobs[i]));
	}
	fence(pool);
	ck_assert_int_eq(rnl_cq_reap(cq, list, 7, 0), 7);	/* the reader may keep the rest */
	rnl_cq_destroy(cq);
	for (int i = 0; i < NR; i++) {
		ck_assert_int_eq(rnl_job_wait(&jobs[i], 0), 0);
		ck_assert_int_eq(jobs[i].result, i % 2 ? 0 : -EPROTO);
		must(rnl_job_set_cq(&jobs[i], NULL));
		must(rnl_submit(pool, &jobs[i]));
	}
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), i % 2 ? 0 : -EPROTO);
	rnl_pool_destroy(pool);
	free(jobs);
}

struct stored {
	struct rnl_job job;
	struct gate *kernel;
	int word;
};

static int stored_fn(struct rnl_job *job)
{
	struct stored *s = rnl_container_of(job, struct stored, job);

	return launch_store(s->kernel, &s->word, 5);
}

TEST(a_job_is_in_the_queue_after_the_device_has_completed_it)
{
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct gate kernel = GATE_INIT;
	struct stored stored = { .kernel = &kernel };
	struct rnl_job *list[1];

	skip_unless_host();
	pool = pool_of(1);
	cq = cq_of();
	cq_job(&stored.job, stored_fn, NULL, cq);
	must(rnl_submit(pool, &stored.job));
	gate_await(&kernel, 1);
	ck_assert_int_eq(rnl_cq_reap(cq, list, 1, 10 * MS), 0);
	gate_open(&kernel);
	reap_all(cq, list, 1);
	ck_assert_int_eq(stored.word, 5);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}
