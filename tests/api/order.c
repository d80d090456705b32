/* SPDX-License-Identifier: MIT */
/* Orders: jobs that come after different barriers and start in the order of their submits. */
#include <sys/mman.h>

#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/replay.h>

#include "classed.h"
#include "host_kernel.h"
#include "record.h"

TEST(jobs_after_barriers_start_in_the_order_of_their_submits)
{
	enum { NR = 8 };
	struct rnl_pool *pool = pool_of(4);
	struct rnl_barrier barriers[NR];
	struct record record = { 0 };
	struct noted noted[NR];
	struct rnl_order order;
	struct rnl_job before[NR];
	struct gate plug[NR];

	must(rnl_order_init(&order, pool, 7));
	for (int round = 0; round < 10; round++) {
		record.nr = 0;
		for (int i = 0; i < NR; i++) {
			plug[i] = (struct gate)GATE_INIT;
			must(rnl_barrier_init(&barriers[i], pool));
			noted_of(&noted[i], &record, i);
		}
		/* Every second job comes after a barrier, whose own job holds a worker. */
		for (int i = 0; i < 3; i++)
			submit_in(pool, &barriers[2 * i], &before[i], gated_fn, &plug[i]);
		for (int i = 0; i < NR; i++) {
			must(rnl_job_set_after(&noted[i].job, i % 2 ? NULL : &barriers[i]));
			must(submit_in_order(&order, &noted[i].job));
		}
		ck_assert_uint_eq(record.nr, 0);
		/* The job of the last barrier is issued first. */
		for (int i = 2; i >= 0; i--) {
			gate_open(&plug[i]);
			ck_assert_int_eq(result_of(&before[i]), 0);
		}
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(result_of(&noted[i].job), 0);
		ck_assert_uint_eq(record.nr, NR);
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(record.ids[i], i);
	}
	rnl_order_fini(&order);
	rnl_pool_destroy(pool);
}

/* The second barrier's jobs are queued after the order's first job, on the same worker. */
TEST(a_job_that_waits_holds_up_no_job_of_its_worker)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier first, second;
	struct record record = { 0 };
	struct gate plug = GATE_INIT;
	struct noted noted[2];
	struct rnl_order order;
	struct rnl_job before[3];

	must(rnl_order_init(&order, pool, 1));
	must(rnl_barrier_init(&second, pool));
	hold_barrier(pool, &first, &plug, &before[0]);
	for (int i = 0; i < 2; i++)
		noted_of(&noted[i], &record, i);
	must(rnl_job_set_after(&noted[0].job, &first));
	must(submit_in_order(&order, &noted[0].job));
	/* The second job's barrier counts jobs with the order's key. */
	for (int i = 1; i < 3; i++) {
		job_in(&second, &before[i], noop_fn, NULL);
		must(submit_by_key(pool, &before[i], 1));
	}
	must(rnl_job_set_after(&noted[1].job, &second));
	must(submit_in_order(&order, &noted[1].job));
	ck_assert_uint_eq(figures_of(pool).queued, 4);
	gate_open(&plug);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(result_of(&noted[i].job), 0);
	ck_assert_int_eq(record.ids[0], 0);
	ck_assert_int_eq(record.ids[1], 1);
	rnl_order_fini(&order);
	rnl_pool_destroy(pool);
}

TEST(an_order_keeps_its_key_and_its_worker)
{
	struct rnl_pool *pool = pool_of(3);
	struct rnl_order orders[3];
	struct rnl_job job;

	for (unsigned i = 0; i < 3; i++)
		must(rnl_order_init(&orders[i], pool, RNL_KEY_WORKER(i)));
	job_of(&job, index_fn, NULL);
	for (int i = 0; i < 30; i++) {
		must(submit_in_order_wait(&orders[i % 3], &job, RNL_FOREVER));
		ck_assert_int_eq(result_of(&job), i % 3);
	}
	for (int i = 0; i < 3; i++)
		rnl_order_fini(&orders[i]);
	rnl_pool_destroy(pool);
}

TEST(keys_that_name_workers_lead_to_as_many_of_them_and_count_around)
{
	struct rnl_pool *pool = pool_of(3, .nr_class_workers = 1);
	struct rnl_job job;

	(void)own_class(pool, 1);
	job_of(&job, index_fn, NULL);
	for (int i = 0; i < RNL_WORKERS_MAX; i++) {
		must(submit_by_key(pool, &job, RNL_KEY_WORKER(i)));
		ck_assert_int_eq(result_of(&job), 1 + i % 3);
	}
	must(rnl_pool_resize(pool, 2));
	for (int i = 0; i < 6; i++) {
		must(submit_by_key(pool, &job, RNL_KEY_WORKER(i)));
		ck_assert_int_eq(result_of(&job), 1 + i % 2);
	}
	rnl_pool_destroy(pool);
}

/* Makes three jobs; the first one comes after a barrier that is held. */
static void noted_after(struct rnl_pool *pool, struct noted *noted, struct record *record,
			struct rnl_barrier *barrier, struct gate *plug, struct rnl_job *before)
{
	hold_barrier(pool, barrier, plug, before);
	for (int i = 0; i < 3; i++) {
		noted_of(&noted[i], record, i);
		must(rnl_job_set_after(&noted[i].job, i ? NULL : barrier));
	}
}

TEST(a_cancelled_job_of_an_order_is_done_in_its_turn)
{
	struct rnl_pool *pool = pool_of(2);
	struct record record = { 0 };
	struct gate plug = GATE_INIT;
	struct rnl_barrier barrier;
	struct noted noted[3];
	struct rnl_order order;
	struct rnl_job before;

	must(rnl_order_init(&order, pool, 5));
	noted_after(pool, noted, &record, &barrier, &plug, &before);
	for (int i = 0; i < 3; i++)
		must(submit_in_order(&order, &noted[i].job));
	must(rnl_job_cancel(&noted[1].job));
	ck_assert_int_eq(rnl_job_wait(&noted[1].job, MS), -ETIMEDOUT);
	gate_open(&plug);
	ck_assert_int_eq(result_of(&noted[2].job), 0);
	ck_assert_int_eq(result_of(&noted[1].job), -ECANCELED);
	ck_assert_uint_eq(record.nr, 2);
	rnl_order_fini(&order);
	rnl_pool_destroy(pool);
}

TEST(a_closed_pool_runs_an_orders_jobs_and_takes_no_more)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 2);
	struct record record = { 0 };
	struct gate plug = GATE_INIT;
	struct rnl_barrier barrier;
	struct noted noted[3];
	struct rnl_order order;
	struct rnl_job before;

	must(rnl_order_init(&order, pool, 5));
	noted_after(pool, noted, &record, &barrier, &plug, &before);
	for (int i = 0; i < 2; i++)
		must(submit_in_order(&order, &noted[i].job));
	ck_assert_int_eq(submit_in_order(&order, &noted[2].job), -EAGAIN);
	ck_assert_int_eq(submit_in_order_wait(&order, &noted[2].job, MS), -ETIMEDOUT);
	must(rnl_pool_close(pool));
	ck_assert_int_eq(submit_in_order(&order, &noted[2].job), -ESHUTDOWN);
	gate_open(&plug);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, 2);
	rnl_order_fini(&order);
	rnl_pool_destroy(pool);
}

/* api/refused has all settings that exclude each other. */
TEST(refused_submits_leave_a_job_as_it_was)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_order order;
	struct rnl_job job, first;

	must(rnl_order_init(&order, pool, 0));
	job_of(&job, noop_fn, NULL);
	must(set_order(&job, &order));
	job.more->when = RNL_SPACE;
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	job.more->when = RNL_NOW;
	must(rnl_job_set_key(&job, 1));
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	must(rnl_job_set_key(&job, RNL_KEY_NONE));
	job.more->start_ns = 1;
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	job.more->start_ns = 0;
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	job_of(&first, noop_fn, NULL);
	must(rnl_job_set_then(&first, &job));
	ck_assert_int_eq(rnl_submit(pool, &first), -EINVAL);
	must(set_order(&job, NULL));
	must(rnl_submit(pool, &first));
	ck_assert_int_eq(result_of(&job), 0);
	/* An order that has ended takes no job. */
	must(rnl_job_set_then(&first, NULL));
	must(set_order(&job, &order));
	rnl_order_fini(&order);
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	rnl_order_fini(NULL);
	rnl_order_fini(&order);
	rnl_pool_destroy(pool);
}

/* ---- at random ---------------------------------------------------------------- */

enum { JOBS = 300, THREADS = 3 };

/* A thread that submits to one order, after barriers of its own. */
struct submitter {
	struct rnl_pool *pool;
	struct rnl_order *order;
	struct noted noted[JOBS];
	struct rnl_job before[JOBS];
	struct rnl_barrier barriers[4];
	struct record *record;
	int id;
};

static int submit_all(void *arg)
{
	struct submitter *s = arg;

	for (int i = 0; i < JOBS; i++) {
		struct rnl_barrier *barrier = &s->barriers[i % 4];

		noted_of(&s->noted[i], s->record, s->id * JOBS + i);
		if (i % 3) {
			job_in(barrier, &s->before[i], noop_fn, NULL);
			must(rnl_submit_wait(s->pool, &s->before[i], RNL_FOREVER));
			must(rnl_job_set_after(&s->noted[i].job, barrier));
		}
		must(submit_in_order_wait(s->order, &s->noted[i].job, RNL_FOREVER));
	}
	return 0;
}

TEST(each_thread_finds_its_own_order_kept, .loops = 4, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(3, .max_queued = 64);
	static struct submitter s[THREADS];
	struct record *record = calloc(1, sizeof(*record));
	struct call calls[THREADS];
	int next[THREADS] = { 0 };
	struct rnl_order order;

	must(rnl_order_init(&order, pool, (uint64_t)_i));
	for (int t = 0; t < THREADS; t++) {
		s[t] = (struct submitter){ .pool = pool, .order = &order, .record = record,
					   .id = t };
		for (int i = 0; i < 4; i++)
			must(rnl_barrier_init(&s[t].barriers[i], pool));
		call_start(&calls[t], submit_all, &s[t]);
	}
	for (int i = 0; i < 4 && _i % 2; i++)
		must(rnl_pool_resize(pool, 2 + (unsigned)i % 2));
	for (int t = 0; t < THREADS; t++)
		must(call_end(&calls[t]));
	rnl_order_fini(&order);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record->nr, THREADS * JOBS);
	for (int i = 0; i < THREADS * JOBS; i++) {
		int t = record->ids[i] / JOBS;

		ck_assert_int_eq(record->ids[i] % JOBS, next[t]++);
	}
	rnl_pool_destroy(pool);
	free(record);
}

/* ---- the end of an order ----------------------------------------------------- */

static int fill_one(struct rnl_job *job)
{
	return rnl_fill(job->user, 1, 1);
}

TEST(an_order_is_not_read_after_its_end)
{
	enum { NR = 4 };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job plug, jobs[NR];
	struct rnl_job_more more[NR];
	struct rnl_order *order = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *mem;

	ck_assert(order != MAP_FAILED);
	must(rnl_memory_get(pool, 0, 64, &mem, 0));
	must(rnl_order_init(order, pool, 7));
	hold_workers(pool, &gate, &plug, 1);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], fill_one, mem);
		must(rnl_job_set_flags(&jobs[i], RNL_GATHER));
		more[i] = (struct rnl_job_more)RNL_JOB_MORE_INIT;
		more[i].order = order;
		must(rnl_job_set_more(&jobs[i], &more[i]));
		must(rnl_submit(pool, &jobs[i]));
	}
	rnl_order_fini(order);
	ck_assert_int_eq(munmap(order, 4096), 0);
	gate_open(&gate);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}
