/* SPDX-License-Identifier: MIT */
/* Jobs after a barrier: when they start, their order on the device, and cancellation. */
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "host_kernel.h"
#include "timer.h"

struct counted {
	struct rnl_job job;
	struct gate *gate;
	_Atomic int *runs;
	int ret;
};

static int counted_fn(struct rnl_job *job)
{
	struct counted *c = rnl_container_of(job, struct counted, job);

	if (c->gate)
		gate_wait(c->gate);
	if (c->runs)
		atomic_fetch_add(c->runs, 1);
	return c->ret;
}

/* Initialises a job in the barrier @in that comes after the barrier @after; either may be NULL. */
static void counted_of(struct counted *c, struct rnl_barrier *in, struct rnl_barrier *after)
{
	job_of(&c->job, counted_fn, NULL);
	if (in)
		must(rnl_barrier_add(in, &c->job));
	if (after)
		must(rnl_job_set_after(&c->job, after));
}

static void submit_in_by_key(struct rnl_barrier *barrier, struct rnl_job *job,
			     int (*fn)(struct rnl_job *job), void *user, uint64_t key)
{
	job_in(barrier, job, fn, user);
	must(submit_by_key(barrier->pool, job, key));
}

/* ---- a wait on the device ------------------------------------------------------ */

static int launch_store_fn(struct rnl_job *job)
{
	return launch_store(NULL, job->user, 1);
}

/* One worker has a kernel that waits; the other runs a job, and then one whose stream waits for the kernel. */
TEST(a_job_before_one_that_waits_is_reported)
{
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(2, .in_flight_ns = UINT64_MAX);
	for (int round = 0; round < 50; round++) {
		struct gate kernel = GATE_INIT, gate = GATE_INIT;
		struct rnl_job held, waits, before, after;
		struct rnl_barrier barrier;
		int words[2] = { 0 };

		must(rnl_barrier_init(&barrier, pool));
		job_of(&held, gated_fn, &gate);
		must(submit_by_key(pool, &held, RNL_KEY_WORKER(0)));
		submit_in_by_key(&barrier, &waits, gated_kernel_fn, &kernel, RNL_KEY_WORKER(1));
		job_of(&before, launch_store_fn, &words[0]);
		must(submit_by_key(pool, &before, RNL_KEY_WORKER(0)));
		job_of(&after, launch_store_fn, &words[1]);
		must(rnl_job_set_after(&after, &barrier));
		must(submit_by_key(pool, &after, RNL_KEY_WORKER(0)));
		gate_open(&gate);
		/* The kernel's end depends on it. */
		ck_assert_int_eq(rnl_job_wait(&before, patience_ns()), 0);
		ck_assert_int_eq(words[0], 1);
		gate_open(&kernel);
		ck_assert_int_eq(result_of(&after), 0);
		ck_assert_int_eq(result_of(&waits), 0);
		ck_assert_int_eq(result_of(&held), 0);
	}
	rnl_pool_destroy(pool);
}

/* ---- start --------------------------------------------------------------- */

TEST(a_job_starts_when_all_jobs_before_it_are_issued)
{
	enum { NR = 4 };
	struct rnl_pool *pool;

	skip_unless_done_on_return();
	pool = pool_of(3);
	for (int keyed = 0; keyed < 2; keyed++) {
		struct rnl_barrier barrier;
		struct gate gates[NR] = { GATE_INIT, GATE_INIT, GATE_INIT, GATE_INIT };
		struct counted before[NR], after;
		_Atomic int runs = 0;

		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < NR; i++) {
			before[i] = (struct counted){ .gate = &gates[i] };
			counted_of(&before[i], &barrier, NULL);
			must(submit_by_key(pool, &before[i].job, (uint64_t)i));
		}
		after = (struct counted){ .runs = &runs };
		counted_of(&after, NULL, &barrier);
		ck_assert_int_eq(keyed ? submit_by_key(pool, &after.job, 77) :
					 rnl_submit(pool, &after.job), 0);
		for (int i = 0; i < NR; i++) {
			ck_assert_int_eq(rnl_job_wait(&after.job, 2 * MS), -ETIMEDOUT);
			ck_assert_int_eq(runs, 0);
			gate_open(&gates[i]);
			ck_assert_int_eq(result_of(&before[i].job), 0);
		}
		ck_assert_int_eq(result_of(&after.job), 0);
		ck_assert_int_eq(runs, 1);
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

TEST(a_job_after_an_empty_barrier_starts_at_once)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	struct counted before = { 0 }, after = { 0 };

	must(rnl_barrier_init(&barrier, pool));
	counted_of(&after, NULL, &barrier);
	ck_assert_int_eq(submit_and_wait(pool, &after.job), 0);

	/* Finished jobs, and a job that was added but not submitted, do not delay @after. */
	counted_of(&before, &barrier, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &after.job), 0);
	must(rnl_submit(pool, &before.job));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	must(submit_by_key(pool, &after.job, 3));
	ck_assert_int_eq(result_of(&after.job), 0);
	rnl_pool_destroy(pool);
}

TEST(the_order_can_be_taken_back)
{
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct gate gate = GATE_INIT;
	struct counted before = { .gate = &gate }, after = { 0 };

	skip_unless_done_on_return();
	pool = pool_of(2);
	must(rnl_barrier_init(&barrier, pool));
	counted_of(&before, &barrier, NULL);
	counted_of(&after, NULL, &barrier);
	must(rnl_submit(pool, &before.job));
	must(rnl_job_set_after(&after.job, NULL));
	ck_assert_int_eq(submit_and_wait(pool, &after.job), 0);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(each_round_of_a_barrier_releases_the_jobs_after_it)
{
	int rounds = (int)(2000 / test_scale());
	struct rnl_pool *pool = pool_of(3);
	struct rnl_barrier first, second;
	_Atomic int runs = 0;
	struct counted before[3] = { 0 }, after[2] = { { .runs = &runs }, { .runs = &runs } };

	must(rnl_barrier_init(&first, pool));
	must(rnl_barrier_init(&second, pool));
	for (int i = 0; i < 3; i++)
		counted_of(&before[i], &first, NULL);
	for (int i = 0; i < 2; i++)
		counted_of(&after[i], &second, &first);
	for (int round = 1; round <= rounds; round++) {
		for (int i = 0; i < 3; i++)
			must(rnl_submit(pool, &before[i].job));
		for (int i = 0; i < 2; i++)
			must(rnl_submit(pool, &after[i].job));
		must(rnl_barrier_wait(&second, RNL_FOREVER));
		ck_assert_int_eq(runs, 2 * round);
		/* The jobs of @second came after @first, so @first is done or almost done. */
		must(rnl_barrier_wait(&first, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

/* ---- order on the device ------------------------------------------------- */

struct copying {
	struct rnl_job job;
	unsigned char *to, *from;	/* from NULL: fills with 5 instead */
	size_t bytes;
	struct gate *came;
};

static int copying_fn(struct rnl_job *job)
{
	struct copying *c = rnl_container_of(job, struct copying, job);

	if (c->came)
		gate_wait(c->came);
	return c->from ? rnl_copy(c->to, c->from, c->bytes) : rnl_fill(c->to, 5, c->bytes);
}

struct storing {
	struct rnl_job job;
	struct gate *kernel;
	int *word;
};

static int storing_fn(struct rnl_job *job)
{
	struct storing *s = rnl_container_of(job, struct storing, job);

	return launch_store(s->kernel, s->word, 31);
}

TEST(its_stream_waits_for_theirs_and_no_thread_does)
{
	struct rnl_pool *pool;
	int *words;
	void *mem;

	skip_unless_done_on_return();
	pool = pool_of(2, .in_flight_ns = UINT64_MAX);
	/* Page-locked memory: the device itself copies from @from to @to. */
	must(rnl_memory_get(pool, RNL_PINNED, 2 * sizeof(*words), &mem, 0));
	words = mem;
	/* Bit 0: both jobs on one worker. Bit 1: the second job issues no work. */
	for (int variant = 0; variant < 4; variant++) {
		struct gate kernel = GATE_INIT, came = GATE_INIT;
		int *word = &words[0], *copy = &words[1];
		struct storing slow = { .kernel = &kernel, .word = word };
		struct copying after = { .to = (unsigned char *)copy, .bytes = sizeof(*copy),
					 .from = (unsigned char *)word, .came = &came };
		struct rnl_barrier barrier;

		*word = 0;
		*copy = -1;
		must(rnl_barrier_init(&barrier, pool));
		gate_open(&came);
		submit_in_by_key(&barrier, &slow.job, storing_fn, NULL, RNL_KEY_WORKER(0));
		if (variant & 2)
			job_of(&after.job, gated_fn, &came);
		else
			job_of(&after.job, copying_fn, NULL);
		must(rnl_job_set_after(&after.job, &barrier));
		must(submit_by_key(pool, &after.job, RNL_KEY_WORKER(!(variant & 1))));
		/* The function runs while the kernel is held; both workers are free. */
		gate_await(&came, 1);
		(void)key_on(pool, 0);
		(void)key_on(pool, 1);
		ck_assert_int_eq(rnl_job_wait(&after.job, 10 * MS), -ETIMEDOUT);
		ck_assert_int_eq(*copy, -1);
		gate_open(&kernel);
		ck_assert_int_eq(result_of(&after.job), 0);
		ck_assert_int_eq(*word, 31);
		ck_assert_int_eq(*copy, variant & 2 ? -1 : 31);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_memory_put(pool, words);
	rnl_pool_destroy(pool);
}

TEST(callbacks_do_not_delay_jobs_after_a_barrier)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT, came = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job before[2], after;

	must(rnl_barrier_init(&barrier, pool));
	for (int i = 0; i < 2; i++)
		job_in(&barrier, &before[i], noop_fn, &gate);
	must(rnl_job_set_on_done(&before[1], gated_callback));
	job_of(&after, gated_fn, &came);
	must(rnl_job_set_after(&after, &barrier));
	for (int i = 0; i < 2; i++)
		must(submit_by_key(pool, &before[i], RNL_KEY_WORKER(0)));
	must(submit_by_key(pool, &after, RNL_KEY_WORKER(1)));
	gate_await(&gate, 1);
	/* @after runs now, but completes only after the callback has returned. */
	gate_await(&came, 1);
	gate_open(&came);
	ck_assert_int_eq(rnl_job_wait(&after, 2 * MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 0), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&after), 0);
	must(rnl_barrier_wait(&barrier, 0));
	rnl_pool_destroy(pool);
}

TEST(a_full_stream_does_not_delay_jobs_after_a_barrier)
{
	struct gate plug = GATE_INIT, kernel = GATE_INIT, came = GATE_INIT;
	struct rnl_job held, nothing, after;
	struct storing slow;
	struct rnl_barrier barrier;
	struct rnl_pool *pool;
	void *word;

	skip_unless_done_on_return();
	pool = pool_of(2, .max_in_flight = 1);
	must(rnl_memory_get(pool, RNL_PINNED, sizeof(int), &word, 0));
	must(rnl_barrier_init(&barrier, pool));
	/* On one worker: a job that completes immediately, then a job that fills the stream. */
	job_of(&held, gated_fn, &plug);
	must(submit_by_key(pool, &held, RNL_KEY_WORKER(0)));
	gate_await(&plug, 1);
	submit_in_by_key(&barrier, &nothing, noop_fn, NULL, RNL_KEY_WORKER(0));
	slow = (struct storing){ .kernel = &kernel, .word = word };
	submit_in_by_key(&barrier, &slow.job, storing_fn, NULL, RNL_KEY_WORKER(0));
	job_of(&after, gated_fn, &came);
	must(rnl_job_set_after(&after, &barrier));
	must(submit_by_key(pool, &after, RNL_KEY_WORKER(1)));
	gate_open(&plug);
	gate_await(&came, 1);
	gate_open(&came);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&after), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(*(int *)word, 31);
	rnl_memory_put(pool, word);
	rnl_pool_destroy(pool);
}

TEST(a_chain_of_barriers_hands_data_on)
{
	enum { LINKS = 24, BYTES = 1 << 20 };
	struct rnl_pool *pool = pool_of(4);
	struct rnl_barrier barriers[LINKS];
	struct copying jobs[LINKS];
	unsigned char *buffers[LINKS + 1], *host;
	void *mem;

	for (int i = 0; i <= LINKS; i++) {
		must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
		buffers[i] = mem;
	}
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &mem, 0));
	host = mem;
	for (int round = 0; round < 5; round++) {
		memset(host, 0, BYTES);
		must(rnl_thread_attach(pool));
		for (int i = 0; i <= LINKS; i++)
			must(rnl_fill(buffers[i], 0, BYTES));
		must(rnl_stream_wait(RNL_FOREVER));
		for (int i = 0; i < LINKS; i++) {
			bool last = i == LINKS - 1;

			must(rnl_barrier_init(&barriers[i], pool));
			jobs[i] = (struct copying){ .to = last ? host : buffers[i], .bytes = BYTES,
						    .from = i ? buffers[i - 1] : NULL };
			job_in(&barriers[i], &jobs[i].job, copying_fn, NULL);
			if (i)
				must(rnl_job_set_after(&jobs[i].job, &barriers[i - 1]));
		}
		/* All jobs except the first are deferred. */
		for (int i = 0; i < LINKS; i++)
			must(submit_by_key(pool, &jobs[i].job, (uint64_t)i));
		must(rnl_barrier_wait(&barriers[LINKS - 1], RNL_FOREVER));
		ck_assert_bytes(host, BYTES, 5);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	for (int i = 0; i <= LINKS; i++)
		rnl_memory_put(pool, buffers[i]);
	rnl_memory_put(pool, host);
	rnl_pool_destroy(pool);
}

/* ---- cancellation -------------------------------------------------------- */

TEST(a_failure_cancels_all_later_jobs_and_their_functions_do_not_run)
{
	enum { LINKS = 20 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_barrier barriers[LINKS];
	struct gate gate = GATE_INIT;
	_Atomic int runs = 0;
	struct counted links[LINKS], other = { .runs = &runs }, late = { .runs = &runs };

	for (int i = 0; i < LINKS; i++) {
		must(rnl_barrier_init(&barriers[i], pool));
		links[i] = (struct counted){ .runs = i ? &runs : NULL, .gate = i ? NULL : &gate,
					     .ret = i ? 0 : -EPROTO };
		counted_of(&links[i], &barriers[i], i ? &barriers[i - 1] : NULL);
		ck_assert_int_eq(i % 2 ? submit_by_key(pool, &links[i].job, (uint64_t)i) :
					 rnl_submit(pool, &links[i].job), 0);
	}
	/* A successful job of the first barrier does not change the outcome. */
	counted_of(&other, &barriers[0], NULL);
	must(rnl_submit(pool, &other.job));
	gate_open(&gate);
	must(rnl_barrier_wait(&barriers[LINKS - 1], RNL_FOREVER));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < LINKS; i++) {
		ck_assert_int_eq(links[i].job.result, i ? -ECANCELED : -EPROTO);
		ck_assert_int_eq(barriers[i].result, i ? -ECANCELED : -EPROTO);
	}
	ck_assert_int_eq(runs, 1);

	/* A job submitted later is cancelled, too, until the barrier is initialised again. */
	counted_of(&late, NULL, &barriers[0]);
	ck_assert_int_eq(submit_and_wait(pool, &late.job), -ECANCELED);
	ck_assert_int_eq(runs, 1);
	ck_assert_uint_eq(figures_of(pool).failed, LINKS + 1);
	ck_assert_uint_eq(figures_of(pool).done, LINKS + 2);
	must(rnl_barrier_init(&barriers[0], pool));
	ck_assert_int_eq(submit_and_wait(pool, &late.job), 0);
	ck_assert_int_eq(runs, 2);
	rnl_pool_destroy(pool);
}

/* ---- keys ---------------------------------------------------------------- */

TEST(keyed_jobs_that_come_after_a_barrier_run_on_the_worker_of_their_key)
{
	enum { NR = 8, WORKERS = 3 };
	int rounds = (int)(1000 / test_scale());
	struct rnl_pool *pool = pool_of(WORKERS);
	struct rnl_barrier barrier;
	struct counted before = { 0 };
	struct rnl_job jobs[NR];
	int worker[NR];

	must(rnl_barrier_init(&barrier, pool));
	counted_of(&before, &barrier, NULL);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], index_fn, NULL);
		must(submit_by_key(pool, &jobs[i], (uint64_t)i));
		worker[i] = result_of(&jobs[i]);
		must(rnl_job_set_after(&jobs[i], &barrier));
	}
	for (int round = 0; round < rounds; round++) {
		/* Submits before the barrier's release, during it and after it. */
		must(rnl_submit(pool, &before.job));
		for (int i = 0; i < NR; i++)
			must(submit_by_key(pool, &jobs[i], (uint64_t)i));
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(result_of(&jobs[i]), worker[i]);
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

TEST(a_keyed_job_that_waits_for_a_barrier_delays_no_other_of_its_key)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	struct gate gate = GATE_INIT;
	struct counted before = { .gate = &gate }, waits = { 0 }, next = { 0 };

	/* A keyed job gets its place in the queue when the barrier's last job is issued. */
	must(rnl_barrier_init(&barrier, pool));
	counted_of(&before, &barrier, NULL);
	must(submit_by_key(pool, &before.job, RNL_KEY_WORKER(0)));
	counted_of(&waits, NULL, &barrier);
	must(submit_by_key(pool, &waits.job, RNL_KEY_WORKER(1)));
	counted_of(&next, NULL, NULL);
	must(submit_by_key(pool, &next.job, RNL_KEY_WORKER(1)));
	ck_assert_int_eq(result_of(&next.job), 0);
	ck_assert_int_ne(rnl_job_wait(&waits.job, 0), 0);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&waits.job), 0);
	rnl_pool_destroy(pool);
}
