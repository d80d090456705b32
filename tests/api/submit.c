/* SPDX-License-Identifier: MIT */
/* Submitting jobs without a key: stealing, and submits from jobs and from many threads. */
#include <runnel/stats.h>

#include "host_kernel.h"
#include "record.h"

/* ---- stealing ------------------------------------------------------------ */

TEST(no_job_waits_for_a_held_worker_while_another_is_idle)
{
	enum { WORKERS = 4 };

	for (unsigned free_ones = 1; free_ones < WORKERS; free_ones++) {
		struct rnl_pool *pool = pool_of(WORKERS);
		struct gate hold = GATE_INIT, rest = GATE_INIT;
		struct rnl_job held[WORKERS], job, gated[WORKERS];

		hold_workers(pool, &hold, held, WORKERS - free_ones);
		for (int i = 0; i < 1000; i++) {
			submit_job(pool, &job, noop_fn, NULL);
			ck_assert_int_eq(result_of(&job), 0);
		}
		/* Each free worker gets a job, whichever queues they were put in. */
		hold_workers(pool, &rest, gated, free_ones);
		gate_open(&rest);
		gate_open(&hold);
		rnl_pool_destroy(pool);
	}
}

TEST(a_worker_that_sleeps_since_its_pool_was_made_is_found)
{
	enum { WORKERS = 4, POOLS = 400 };

	/* A worker goes to sleep right after it starts. */
	for (int i = 0; i < (int)(POOLS / test_scale()) + 1; i++) {
		struct rnl_pool *pool = pool_of(WORKERS, .spin_us = -1);
		struct gate hold = GATE_INIT;
		struct rnl_job held[WORKERS], job;

		hold_workers(pool, &hold, held, WORKERS - 1);
		submit_job(pool, &job, noop_fn, NULL);
		ck_assert_msg(!rnl_job_wait(&job, patience_ns()),
			      "pool %d: a job lies there, and a worker sleeps", i);
		gate_open(&hold);
		rnl_pool_destroy(pool);
	}
}

TEST(jobs_submitted_together_are_taken_by_all_workers)
{
	enum { WORKERS = 4, ROUNDS = 200 };

	for (unsigned nr = 1; nr <= WORKERS; nr++) {
		struct rnl_pool *pool = pool_of(WORKERS, .spin_us = -1);

		for (int round = 0; round < ROUNDS / WORKERS; round++) {
			struct gate gate = GATE_INIT;
			struct rnl_job jobs[WORKERS], *list[WORKERS];

			for (unsigned i = 0; i < nr; i++) {
				job_of(&jobs[i], gated_fn, &gate);
				list[i] = &jobs[i];
			}
			ck_assert_int_eq(rnl_submit_many(pool, list, nr), (int)nr);
			gate_await(&gate, nr);
			gate_open(&gate);
			for (unsigned i = 0; i < nr; i++)
				ck_assert_int_eq(result_of(&jobs[i]), 0);
		}
		rnl_pool_destroy(pool);
	}
}

TEST(a_job_queued_after_a_held_one_is_taken_by_a_worker_that_slept)
{
	enum { WORKERS = 4, NR = 5 };
	struct rnl_pool *pool;

	skip_unless_done_on_return();
	pool = pool_of(WORKERS, .spin_us = -1);
	for (int round = 0; round < 50; round++) {
		struct gate gate = GATE_INIT;
		struct rnl_job jobs[NR], *list[NR];

		/* The gated jobs will hold three of the four workers. */
		for (int i = 0; i < NR; i++) {
			job_of(&jobs[i], i % 2 ? noop_fn : gated_fn, &gate);
			list[i] = &jobs[i];
		}
		ck_assert_int_eq(rnl_submit_many(pool, list, NR), NR);
		for (int i = 1; i < NR; i += 2)
			ck_assert_int_eq(result_of(&jobs[i]), 0);
		gate_await(&gate, (NR + 1) / 2);
		gate_open(&gate);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

TEST(a_job_released_to_a_held_worker_is_taken_by_one_that_slept)
{
	struct rnl_pool *pool = pool_of(3, .spin_us = -1);

	for (int round = 0; round < 50; round++) {
		struct gate release = GATE_INIT, hold = GATE_INIT, came = GATE_INIT;
		struct rnl_job before, after, held[2];
		struct rnl_barrier barrier;

		must(rnl_barrier_init(&barrier, pool));
		job_in(&barrier, &before, gated_fn, &release);
		must(submit_by_key(pool, &before, RNL_KEY_WORKER(2)));
		gate_await(&release, 1);
		/* The job's worker is chosen now: 0 or 1, whichever sleeps. */
		job_of(&after, gated_fn, &came);
		must(rnl_job_set_after(&after, &barrier));
		must(rnl_submit(pool, &after));
		/* Then worker 0 or 1 is held, and so is worker 2, which releases the job. */
		for (int i = 0; i < 2; i++) {
			job_of(&held[i], gated_fn, &hold);
			must(submit_by_key(pool, &held[i], RNL_KEY_WORKER(i ? 2 : round % 2)));
		}
		gate_await(&hold, 1);
		gate_open(&release);
		gate_await(&came, 1);
		gate_open(&came);
		gate_open(&hold);
		ck_assert_int_eq(result_of(&after), 0);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

TEST(a_worker_whose_stream_is_empty_again_takes_jobs_of_a_held_one)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT, function = GATE_INIT;
	struct rnl_job running, held, jobs[3];

	/* A worker with work on its stream may leave a job to the other worker. */
	skip_unless_host();
	pool = pool_of(2, .spin_us = -1);
	job_of(&running, gated_kernel_fn, &kernel);
	must(submit_by_key(pool, &running, RNL_KEY_WORKER(0)));
	gate_await(&kernel, 1);
	job_of(&held, gated_fn, &function);
	must(submit_by_key(pool, &held, RNL_KEY_WORKER(1)));
	gate_await(&function, 1);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		submit_job(pool, &jobs[i], noop_fn, NULL);
	gate_open(&kernel);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	ck_assert_int_ne(rnl_job_wait(&held, 0), 0);
	gate_open(&function);
	rnl_pool_destroy(pool);
}

/* ---- from a job ---------------------------------------------------------- */

struct tree {
	struct rnl_job job;
	struct rnl_pool *pool;
	struct tree *all;
	int index, nr;
	_Atomic int *runs;
};

/* Node i submits nodes 2i + 1 and 2i + 2. */
static int tree_fn(struct rnl_job *job)
{
	struct tree *t = rnl_container_of(job, struct tree, job);
	int child = 2 * t->index + 1, ret = 0;

	atomic_fetch_add(t->runs, 1);
	if (rnl_submit(t->pool, job) != -EBUSY)
		return -EPROTO;
	if (child < t->nr)
		ret = rnl_submit(t->pool, &t->all[child].job);
	if (!ret && child + 1 < t->nr)
		ret = submit_by_key(t->pool, &t->all[child + 1].job, (uint64_t)child);
	return ret;
}

TEST(jobs_submit_jobs)
{
	enum { NR = 5000 };
	struct rnl_pool *pool = pool_of(3);
	struct tree *tree = calloc(NR, sizeof(*tree));
	_Atomic int runs = 0;

	for (int i = 0; i < NR; i++) {
		tree[i] = (struct tree){ .pool = pool, .all = tree, .index = i, .nr = NR,
					 .runs = &runs };
		job_of(&tree[i].job, tree_fn, NULL);
	}
	must(rnl_submit(pool, &tree[0].job));
	ck_eventually(runs == NR);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(tree[i].job.result, 0);
	rnl_pool_destroy(pool);
	free(tree);
}

struct parent {
	struct rnl_job job, children[3];
	struct rnl_pool *pool;
	struct gate *theirs;
};

/* Holds its worker until other workers have run the jobs that it submitted. */
static int parent_fn(struct rnl_job *job)
{
	struct parent *p = rnl_container_of(job, struct parent, job);

	for (unsigned i = 0; i < COUNT(p->children); i++) {
		if (rnl_submit(p->pool, &p->children[i]))
			return -EPROTO;
	}
	return gate_came(p->theirs, COUNT(p->children)) ? 0 : -ETIME;
}

TEST(other_workers_run_the_jobs_that_a_running_job_submits)
{
	struct rnl_pool *pool = pool_of(4);

	for (int round = 0; round < 50; round++) {
		struct gate theirs = GATE_INIT;
		struct parent parent = { .pool = pool, .theirs = &theirs };

		for (unsigned i = 0; i < COUNT(parent.children); i++)
			job_of(&parent.children[i], gated_fn, &theirs);
		submit_job(pool, &parent.job, parent_fn, NULL);
		ck_assert_int_eq(result_of(&parent.job), 0);
		gate_open(&theirs);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

/* ---- from many threads --------------------------------------------------- */

struct producer {
	struct rnl_pool *pool;
	struct notified *jobs;
	int nr;
};

static int produce(void *arg)
{
	struct producer *p = arg;
	struct rnl_job *list[16];
	int ret;

	for (int i = 0; i < p->nr; i += ret) {
		switch (i % 3) {
		case 0:
			ret = rnl_submit(p->pool, &p->jobs[i].job) ? 0 : 1;
			break;
		case 1:
			ret = submit_by_key(p->pool, &p->jobs[i].job, (uint64_t)i) ? 0 : 1;
			break;
		default:
			ret = p->nr - i < 16 ? p->nr - i : 16;
			for (int k = 0; k < ret; k++)
				list[k] = &p->jobs[i + k].job;
			ret = rnl_submit_many(p->pool, list, (unsigned)ret);
			ret = ret < 0 ? 0 : ret;
		}
	}
	return 0;
}

TEST(jobs_of_many_threads_run_exactly_once)
{
	enum { THREADS = 8, EACH = 10000 };
	struct rnl_pool *pool = pool_of(4, .max_queued = 1000);
	struct notified *jobs = calloc(THREADS * EACH, sizeof(*jobs));
	struct producer producers[THREADS];
	struct call calls[THREADS];

	for (int i = 0; i < THREADS * EACH; i++)
		notified_of(&jobs[i]);
	for (int i = 0; i < THREADS; i++) {
		producers[i] = (struct producer){ pool, jobs + i * EACH, EACH };
		call_start(&calls[i], produce, &producers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		must(call_end(&calls[i]));
	rnl_pool_destroy(pool);
	for (int i = 0; i < THREADS * EACH; i++)
		ck_assert_int_eq(jobs[i].runs, 1);
	free(jobs);
}

static unsigned nr_asleep(struct rnl_pool *pool, unsigned nr_workers)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < nr_workers; i++) {
		struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

		must(rnl_pool_read_stats(pool, i, &stats));
		nr += stats.slept != 0;
	}
	return nr;
}

/* Runs jobs one by one.  Returns how many had another worker than the job before. */
static unsigned nr_moves(struct rnl_pool *pool, unsigned nr)
{
	struct rnl_job job;
	int last = -1;
	unsigned nr_moves = 0;

	job_of(&job, index_fn, NULL);
	for (unsigned i = 0; i < nr; i++) {
		const int worker = submit_and_wait(pool, &job);

		ck_assert_int_ge(worker, 0);
		nr_moves += worker != last;
		last = worker;
	}
	return nr_moves;
}

TEST(jobs_one_by_one_stay_on_one_worker)
{
	enum { WORKERS = 4, NR = 500, TRIES = 20 };
	struct rnl_pool *pool = pool_of(WORKERS);
	unsigned least = NR;

	/* An awake worker may steal, and a busy machine may keep one awake: several tries. */
	ck_eventually(nr_asleep(pool, WORKERS) == WORKERS);
	for (int i = 0; i < TRIES && least > NR / 10; i++) {
		const unsigned nr = nr_moves(pool, NR);

		least = nr < least ? nr : least;
	}
	ck_assert_msg(least <= NR / 10, "%u of %d jobs changed their worker", least, NR);
	rnl_pool_destroy(pool);
}
