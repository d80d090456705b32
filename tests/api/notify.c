/* SPDX-License-Identifier: MIT */
/* Barriers that notify, into a queue or by a callback; and joins of many workers. */
#include <runnel/kernel.h>

#include "cq.h"
#include "host_kernel.h"
#include "record.h"

static void notice_of(struct rnl_job *job, struct rnl_cq *cq)
{
	job_of(job, NULL, NULL);
	if (cq)
		must(rnl_job_set_cq(job, cq));
}

TEST(a_queue_gets_the_notice_of_a_fan_in_once_for_each_call)
{
	enum { NR = 20 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_cq *cq = cq_of();
	struct gate plug = GATE_INIT;
	struct rnl_job jobs[NR], notice, *reaped;
	struct rnl_barrier barrier;

	must(rnl_barrier_init(&barrier, pool));
	notice_of(&notice, cq);
	for (int round = 0; round < 20; round++) {
		plug = (struct gate)GATE_INIT;
		for (int i = 0; i < NR; i++)
			submit_in(pool, &barrier, &jobs[i], i ? noop_fn : gated_fn, &plug);
		must(rnl_barrier_notify(&barrier, &notice));
		ck_assert_int_eq(rnl_barrier_notify(&barrier, &notice), -EBUSY);
		ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, 0), 0);
		ck_assert_int_eq(rnl_job_cancel(&notice), -EBUSY);
		gate_open(&plug);
		reap_all(cq, &reaped, 1);
		ck_assert_ptr_eq(reaped, &notice);
		ck_assert_int_eq(notice.result, 0);
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(rnl_job_wait(&jobs[i], 0), 0);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, 0), 0);
	ck_assert_uint_eq(figures_of(pool).done, 20 * (NR + 1));
	ck_assert_uint_eq(figures_of(pool).accepted, 20 * (NR + 1));
	ck_assert_uint_eq(figures_of(pool).queued, 0);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(a_barrier_without_jobs_notifies_at_once)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate plug = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job notice, busy;

	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &plug, &busy, 1);
	notice_of(&notice, NULL);
	for (int i = 0; i < 5; i++) {
		must(rnl_barrier_notify(&barrier, &notice));
		/* A notice needs no worker. */
		ck_assert_int_eq(result_of(&notice), 0);
	}
	gate_open(&plug);
	rnl_pool_destroy(pool);
}

TEST(a_notice_has_the_result_of_the_first_job_that_failed_and_no_device_error)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	struct rnl_job jobs[2], notice;

	must(rnl_barrier_init(&barrier, pool));
	notice_of(&notice, NULL);
	for (int i = 0; i < 3; i++)
		ck_assert_int_ge(rnl_pool_cancel(pool), 0);
	submit_in(pool, &barrier, &jobs[0], result_fn, (void *)(intptr_t)-EPROTO);
	submit_in(pool, &barrier, &jobs[1], noop_fn, NULL);
	must(rnl_barrier_notify(&barrier, &notice));
	ck_assert_int_eq(result_of(&notice), -EPROTO);
	ck_assert_int_eq(notice.device_error, 0);
	rnl_pool_destroy(pool);
}

/* An object whose notice's callback frees it, with the barrier and the barrier's jobs. */
struct item {
	struct rnl_barrier barrier;
	struct rnl_job notice, jobs[3];
	_Atomic int *freed;
};

static void free_item(struct rnl_job *job)
{
	struct item *item = rnl_container_of(job, struct item, notice);

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(rnl_job_wait(&item->jobs[i], 0), 0);
	(*item->freed)++;
	free(item);
}

TEST(a_callback_may_free_the_barrier_and_its_jobs, .timeout_s = 60)
{
	enum { NR = 2000 };
	struct rnl_pool *pool = pool_of(3);
	_Atomic int freed = 0;

	for (int n = 0; n < NR; n++) {
		struct item *item = calloc(1, sizeof(*item));

		item->freed = &freed;
		must(rnl_barrier_init(&item->barrier, pool));
		for (int i = 0; i < 3; i++) {
			job_in(&item->barrier, &item->jobs[i], noop_fn, NULL);
			must(rnl_submit_wait(pool, &item->jobs[i], RNL_FOREVER));
		}
		job_of(&item->notice, NULL, NULL);
		must(rnl_job_set_on_done(&item->notice, free_item));
		must(rnl_barrier_notify(&item->barrier, &item->notice));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(freed, NR);
	rnl_pool_destroy(pool);
}

TEST(a_notice_seals_its_round_and_later_jobs_do_not_delay_it)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate first = GATE_INIT, later = GATE_INIT;
	struct rnl_job jobs[2], notices[2], after;
	struct rnl_barrier barrier;
	_Atomic int ran = 0;

	must(rnl_barrier_init(&barrier, pool));
	submit_in(pool, &barrier, &jobs[0], gated_fn, &first);
	for (int i = 0; i < 2; i++)
		notice_of(&notices[i], NULL);
	must(rnl_barrier_notify(&barrier, &notices[0]));
	/* A job after the same round; then a job and a notice of the next round. */
	job_of(&after, count_fn, &ran);
	must(rnl_job_set_after(&after, &barrier));
	must(rnl_submit(pool, &after));
	submit_in(pool, &barrier, &jobs[1], gated_fn, &later);
	must(rnl_barrier_notify(&barrier, &notices[1]));
	gate_await(&later, 1);
	gate_open(&first);
	ck_assert_int_eq(result_of(&notices[0]), 0);
	ck_assert_int_eq(result_of(&after), 0);
	ck_assert_int_ne(rnl_job_wait(&notices[1], 0), 0);
	gate_open(&later);
	ck_assert_int_eq(result_of(&notices[1]), 0);
	rnl_pool_destroy(pool);
}

TEST(a_worker_that_leaves_completes_the_barrier_of_its_last_job)
{
	struct rnl_pool *pool = pool_of(2);
	struct resize to_one = { pool, 1 };
	struct gate plug = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job job, notice;
	struct call call;

	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &job, gated_fn, &plug);
	must(submit_by_key(pool, &job, RNL_KEY_WORKER(1)));
	gate_await(&plug, 1);
	notice_of(&notice, NULL);
	must(rnl_barrier_notify(&barrier, &notice));
	call_start(&call, resize_fn, &to_one);
	ck_waits(call.tid);
	gate_open(&plug);
	must(call_end(&call));
	ck_assert_int_eq(result_of(&notice), 0);
	rnl_pool_destroy(pool);
}

/* A hook's notice of a barrier without jobs, which completes immediately. */
struct hooked {
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct rnl_job notice;
};

static void notify_on_stop(void *arg, unsigned worker, void *data)
{
	struct hooked *h = arg;

	(void)data;
	if (worker == 1 && h->pool)
		must(rnl_barrier_notify(&h->barrier, &h->notice));
}

static int start_nothing(void *arg, unsigned worker, void **datap)
{
	(void)arg;
	(void)worker;
	*datap = NULL;
	return 0;
}

TEST(a_notice_that_a_worker_submits_when_it_stops_completes)
{
	struct hooked h = { .pool = NULL };
	struct rnl_pool *pool = pool_of(2, .on_start = start_nothing, .on_stop = notify_on_stop,
					.hook_arg = &h);

	must(rnl_barrier_init(&h.barrier, pool));
	notice_of(&h.notice, NULL);
	h.pool = pool;
	must(rnl_pool_resize(pool, 1));
	ck_assert_int_eq(result_of(&h.notice), 0);
	h.pool = NULL;
	rnl_pool_destroy(pool);
}

struct again {
	struct rnl_barrier barrier;
	struct rnl_job notice, delayed;
	_Atomic int ran;
};

/* Runs on the timer thread, which must not serve notices only. */
static void notify_again(struct rnl_job *notice)
{
	struct again *again = rnl_container_of(notice, struct again, notice);

	if (!again->ran)
		must(rnl_barrier_notify(&again->barrier, notice));
}

TEST(a_notice_that_is_given_again_and_again_holds_up_no_delayed_job)
{
	struct rnl_pool *pool = pool_of(1);
	struct again again = { .ran = 0 };

	must(rnl_barrier_init(&again.barrier, pool));
	notice_of(&again.notice, NULL);
	must(rnl_job_set_on_done(&again.notice, notify_again));
	job_of(&again.delayed, count_fn, (void *)&again.ran);
	must(rnl_barrier_notify(&again.barrier, &again.notice));
	must(submit_at(pool, &again.delayed, rnl_clock() + 5 * MS));
	ck_assert_int_eq(result_of(&again.delayed), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_notice_waits_for_the_device_and_for_holds)
{
	struct gate kernel = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job job, notice;
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(2);
	must(rnl_barrier_init(&barrier, pool));
	submit_in(pool, &barrier, &job, gated_kernel_fn, &kernel);
	gate_await(&kernel, 1);
	notice_of(&notice, NULL);
	must(rnl_barrier_notify(&barrier, &notice));
	ck_assert_int_eq(rnl_job_wait(&notice, MS), -ETIMEDOUT);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&notice), 0);
	ck_assert_int_eq(rnl_job_wait(&job, 0), 0);
	rnl_pool_destroy(pool);
}

TEST(a_wrong_notice_is_refused)
{
	struct rnl_pool *pool = pool_of(1, .max_queued = 2);
	struct rnl_barrier barrier;
	struct gate plug = GATE_INIT;
	struct rnl_job job, notices[3], busy;

	hold_barrier(pool, &barrier, &plug, &busy);
	job_of(&job, NULL, NULL);
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	ck_assert_int_eq(submit_at(pool, &job, 0), -EINVAL);
	ck_assert_int_eq(rnl_barrier_notify(&barrier, NULL), -EINVAL);
	must(rnl_barrier_add(&barrier, &job));
	ck_assert_int_eq(rnl_barrier_notify(&barrier, &job), -EINVAL);
	job_of(&job, NULL, NULL);
	must(rnl_job_set_after(&job, &barrier));
	ck_assert_int_eq(rnl_barrier_notify(&barrier, &job), -EINVAL);
	for (int i = 0; i < 3; i++) {
		notice_of(&notices[i], NULL);
		ck_assert_int_eq(rnl_barrier_notify(&barrier, &notices[i]), i < 2 ? 0 : -EAGAIN);
	}
	must(rnl_pool_close(pool));
	ck_assert_int_eq(rnl_barrier_notify(&barrier, &notices[2]), -ESHUTDOWN);
	gate_open(&plug);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_refused_notice_has_no_device_error)
{
	enum { ROUNDS = 7 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job job[ROUNDS + 1], after[ROUNDS], notice;
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	int ret, code;

	ck_assert_int_ge(rnl_pool_cancel(pool), 0);
	hold_barrier(pool, &barrier, &gate, &job[ROUNDS]);
	for (int i = 0; i < ROUNDS; i++) {
		job_of(&after[i], noop_fn, NULL);
		must(rnl_job_set_after(&after[i], &barrier));
		must(rnl_submit(pool, &after[i]));
		submit_in(pool, &barrier, &job[i], noop_fn, NULL);
	}
	must(rnl_job_init(&notice, NULL));
	ret = rnl_barrier_notify(&barrier, &notice);
	code = notice.device_error;
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
	ck_assert_int_eq(ret, -EAGAIN);
	ck_assert_int_eq(code, 0);
}

/* ---- exact joins -------------------------------------------------------------- */

/* The words that jobs of many workers write, and the sum that a job after their barrier reads. */
struct sums {
	int *words, total;
	unsigned nr;
};

static int add_fn(struct rnl_job *job)
{
	return launch_store(NULL, &((int *)job->user)[rnl_worker().index], 1);
}

static void sum_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	struct sums *s = *(struct sums *const *)args;

	(void)grid;
	(void)block;
	for (unsigned i = 0; i < s->nr; i++)
		s->total += s->words[i];
}
RNL_HOST_KERNEL(sum, sum_host, struct sums *);

static int sum_fn(struct rnl_job *job)
{
	const struct rnl_dim one = { 1, 1, 1 };
	struct sums *s = job->user;

	return rnl_launch(&sum, one, one, &s);
}

TEST(a_stream_joins_more_workers_than_a_barrier_has_places_for)
{
	enum { NR = 12 };
	struct rnl_barrier barrier;
	struct rnl_pool *pool;
	struct rnl_job jobs[NR], after;

	skip_unless_host();
	pool = pool_of(NR);
	must(rnl_barrier_init(&barrier, pool));
	for (int round = 0; round < 20; round++) {
		int words[RNL_WORKERS_MAX] = { 0 };
		struct sums sums = { .words = words, .nr = NR };

		for (unsigned i = 0; i < NR; i++) {
			job_in(&barrier, &jobs[i], add_fn, words);
			must(submit_by_key(pool, &jobs[i], RNL_KEY_WORKER(i)));
		}
		job_of(&after, sum_fn, &sums);
		must(rnl_job_set_after(&after, &barrier));
		must(rnl_submit(pool, &after));
		ck_assert_int_eq(result_of(&after), 0);
		ck_assert_int_eq(sums.total, NR);
	}
	rnl_pool_destroy(pool);
}
