/* SPDX-License-Identifier: MIT */
/* Streams that join barriers: the host goes on, and later work of the stream finds the data. */
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "host_kernel.h"
#include "pool.h"

enum { NR = 6 };

struct filling {
	struct rnl_job job;
	unsigned char *to;
	size_t bytes;
};

static int filling_fn(struct rnl_job *job)
{
	struct filling *f = rnl_container_of(job, struct filling, job);

	return rnl_fill(f->to, 9, f->bytes);
}

struct storing {
	struct rnl_job job;
	struct gate *kernel;
	int *word, value;
};

static int storing_fn(struct rnl_job *job)
{
	struct storing *s = rnl_container_of(job, struct storing, job);

	return launch_store(s->kernel, s->word, s->value);
}

static void submit_storing(struct rnl_pool *pool, struct rnl_barrier *barrier, struct storing *job,
			   uint64_t key)
{
	job_in(barrier, &job->job, storing_fn, NULL);
	must(submit_by_key(pool, &job->job, key));
}

/* Submits jobs of a barrier that store 1, 2, ... in @words when the kernels' gate opens. */
static void start_storing(struct rnl_pool *pool, struct rnl_barrier *barrier,
			  struct storing *jobs, struct gate *kernel, int *words)
{
	must(rnl_barrier_init(barrier, pool));
	for (int i = 0; i < NR; i++) {
		words[i] = 0;
		jobs[i] = (struct storing){ .kernel = kernel, .word = &words[i], .value = i + 1 };
		submit_storing(pool, barrier, &jobs[i], (uint64_t)i);
	}
}

/* Waits for the thread's stream, which has copied the words. */
static void check_copy(const int *copy)
{
	must(rnl_stream_wait(RNL_FOREVER));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(copy[i], i + 1);
}

TEST(a_stream_that_joins_finds_the_jobs_data)
{
	enum { BYTES = 4 << 20 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_barrier barrier;
	struct filling jobs[NR];
	unsigned char *from, *to;
	void *mem;

	must(rnl_memory_get(pool, 0, NR * BYTES, &mem, 0));
	from = mem;
	must(rnl_memory_get(pool, RNL_PINNED, NR * BYTES, &mem, 0));
	to = mem;
	for (int round = 0; round < 3; round++) {
		must(rnl_thread_attach(pool));
		must(rnl_fill(from, 0, NR * BYTES));
		must(rnl_stream_wait(RNL_FOREVER));
		if (round == 1)
			rnl_thread_attach(NULL);	/* the join attaches again */
		memset(to, 0, NR * BYTES);
		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < NR; i++) {
			jobs[i] = (struct filling){ .to = from + i * BYTES, .bytes = BYTES };
			submit_in(pool, &barrier, &jobs[i].job, filling_fn, NULL);
		}
		must(rnl_barrier_join(&barrier));
		must(rnl_copy(to, from, NR * BYTES));
		must(rnl_stream_wait(RNL_FOREVER));
		ck_assert_bytes(to, NR * BYTES, 9);
		/* The device has completed the jobs, but the pool may not have. */
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	}
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, from);
	rnl_memory_put(pool, to);
	rnl_pool_destroy(pool);
}

TEST(a_join_attaches_its_thread)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier barrier;

	must(rnl_barrier_init(&barrier, pool));
	ck_assert_int_eq(rnl_stream_wait(0), -ENODEV);
	must(rnl_barrier_join(&barrier));
	must(rnl_stream_wait(RNL_FOREVER));
	rnl_thread_attach(NULL);
	ck_assert_int_eq(rnl_stream_wait(0), -ENODEV);
	rnl_pool_destroy(pool);
}

TEST(a_join_does_not_wait_for_the_device_but_the_stream_does)
{
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct storing jobs[NR];
	struct gate kernel = GATE_INIT;
	int words[NR], copy[NR];

	skip_on_cuda("a copy of pageable memory holds a thread that is no worker");
	pool = pool_of(3, .in_flight_ns = UINT64_MAX);
	start_storing(pool, &barrier, jobs, &kernel, words);
	/* These calls must not wait for the kernels, because the gate would never open. */
	must(rnl_barrier_join(&barrier));
	must(rnl_barrier_join(&barrier));
	memset(copy, 0, sizeof(copy));
	must(rnl_copy(copy, words, sizeof(copy)));
	ck_assert_int_eq(rnl_stream_wait(20 * MS), -ETIMEDOUT);
	ck_assert_int_eq(copy[0] + copy[NR - 1], 0);
	gate_open(&kernel);
	check_copy(copy);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

TEST(without_a_join_the_data_is_not_there)
{
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct storing jobs[NR];
	struct gate kernel = GATE_INIT;
	int words[NR], copy[NR];

	/* The counter-test: without a join the copy is too early. */
	skip_unless_host();
	pool = pool_of(3, .in_flight_ns = UINT64_MAX);
	start_storing(pool, &barrier, jobs, &kernel, words);
	must(rnl_thread_attach(pool));
	memset(copy, 0xff, sizeof(copy));
	must(rnl_copy(copy, words, sizeof(copy)));
	must(rnl_stream_wait(RNL_FOREVER));
	ck_assert_bytes((unsigned char *)copy, sizeof(copy), 0);
	gate_open(&kernel);
	must(rnl_barrier_join(&barrier));
	must(rnl_copy(copy, words, sizeof(copy)));
	check_copy(copy);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

/* ---- joins that wait no longer than needed -------------------------------- */

/* Waits until all jobs queued so far on the worker of @key are issued. */
static void await_issued(struct rnl_pool *pool, struct rnl_job *job, uint64_t key)
{
	static _Atomic int runs;
	int before = runs;

	job_of(job, count_fn, &runs);
	must(submit_by_key(pool, job, key));
	ck_eventually(runs > before);
}

/* Loop 0: a job after the barrier waits for its jobs; loop 1: a thread's stream does. */
TEST(a_join_waits_for_the_jobs_and_not_for_later_ones_of_their_workers, .loops = 2)
{
	enum { LATER = 3 };
	const int64_t patience = patience_ns();
	struct gate kernel = GATE_INIT, later = GATE_INIT;
	struct rnl_barrier barriers[1 + LATER];
	struct storing jobs[1 + LATER], after;
	struct rnl_job probes[2];
	struct rnl_pool *pool;
	int words[3] = { 0 };

	skip_unless_host();
	pool = pool_of(2, .in_flight_ns = UINT64_MAX);
	for (int i = 0; i <= LATER; i++) {
		jobs[i] = (struct storing){ .kernel = i ? &later : &kernel, .word = &words[i > 0],
					    .value = 1 };
		must(rnl_barrier_init(&barriers[i], pool));
		submit_storing(pool, &barriers[i], &jobs[i], RNL_KEY_WORKER(0));
	}
	await_issued(pool, &probes[0], RNL_KEY_WORKER(0));
	after = (struct storing){ .word = &words[2], .value = 2 };
	if (_i) {
		must(rnl_barrier_join(&barriers[0]));
		must(launch_store(NULL, &words[2], 2));
		ck_assert_int_eq(rnl_stream_wait(0), -ETIMEDOUT);
	} else {
		job_of(&after.job, storing_fn, NULL);
		must(rnl_job_set_after(&after.job, &barriers[0]));
		must(submit_by_key(pool, &after.job, RNL_KEY_WORKER(1)));
		await_issued(pool, &probes[1], RNL_KEY_WORKER(1));
	}
	ck_assert_int_eq(words[2], 0);
	gate_open(&kernel);
	must(_i ? rnl_stream_wait(patience) : rnl_job_wait(&after.job, patience));
	ck_assert_int_eq(words[0], 1);
	ck_assert_int_eq(words[1], 0);
	ck_assert_int_eq(words[2], 2);
	gate_open(&later);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

/* The same, with more workers than a barrier has places for their last jobs. */
TEST(a_join_of_many_workers_waits_for_no_later_job_of_one, .loops = 2)
{
	enum { PLACES = 8, MANY = 12 };
	const int64_t patience = patience_ns();
	struct gate kernel = GATE_INIT, last = GATE_INIT, later = GATE_INIT;
	struct storing jobs[MANY], next[MANY], after;
	struct rnl_barrier barrier, other;
	int words[2 * MANY + 1] = { 0 };
	struct rnl_job probes[MANY + 1];
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(MANY + 1, .in_flight_ns = UINT64_MAX);
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_init(&other, pool));
	for (int i = 0; i < MANY; i++) {
		jobs[i] = (struct storing){ .kernel = i < MANY - 1 ? &kernel : &last,
					    .word = &words[i], .value = 1 };
		next[i] = (struct storing){ .kernel = &later, .word = &words[MANY + i],
					    .value = 1 };
		submit_storing(pool, &barrier, &jobs[i], RNL_KEY_WORKER(i));
		submit_storing(pool, &other, &next[i], RNL_KEY_WORKER(i));
		/* The first workers take the barrier's places. */
		if (i < PLACES)
			await_issued(pool, &probes[i], RNL_KEY_WORKER(i));
	}
	for (int i = PLACES; i < MANY; i++)
		await_issued(pool, &probes[i], RNL_KEY_WORKER(i));
	after = (struct storing){ .word = &words[2 * MANY], .value = 2 };
	if (_i) {
		must(rnl_barrier_join(&barrier));
		must(launch_store(NULL, &words[2 * MANY], 2));
	} else {
		job_of(&after.job, storing_fn, NULL);
		must(rnl_job_set_after(&after.job, &barrier));
		must(submit_by_key(pool, &after.job, RNL_KEY_WORKER(MANY)));
		await_issued(pool, &probes[MANY], RNL_KEY_WORKER(MANY));
	}
	gate_open(&kernel);
	ck_assert_int_eq(_i ? rnl_stream_wait(20 * MS) : rnl_job_wait(&after.job, 20 * MS),
			 -ETIMEDOUT);
	ck_assert_int_eq(words[2 * MANY], 0);
	gate_open(&last);
	must(_i ? rnl_stream_wait(patience) : rnl_job_wait(&after.job, patience));
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(words[i], 1);
		ck_assert_int_eq(words[MANY + i], 0);
	}
	ck_assert_int_eq(words[2 * MANY], 2);
	gate_open(&later);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

/* ---- joins in their own threads, so a test sees one that hangs ------------ */

static int join_fn(void *barrier)
{
	return rnl_barrier_join(barrier);
}

/* Returns true if a join returns before @gate opens; then opens it. */
static bool join_returns(struct rnl_barrier *barrier, struct gate *gate)
{
	double until = seconds_now() + PATIENCE_S;
	struct call call;
	bool returned;

	call_start(&call, join_fn, barrier);
	while (!call.returned && seconds_now() < until)
		sched_yield();
	returned = call.returned;
	gate_open(gate);
	must(call_end(&call));
	return returned;
}

TEST(a_join_waits_for_functions)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job job;
	struct call call;

	hold_barrier(pool, &barrier, &gate, &job);
	call_start(&call, join_fn, &barrier);
	ck_waits(call.tid);
	gate_open(&gate);
	must(call_end(&call));
	rnl_pool_destroy(pool);
}

TEST(a_join_does_not_wait_for_the_device_when_a_worker_has_as_much_as_it_may)
{
	struct gate kernel;
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct storing jobs[NR * 3];
	int words[NR * 3];

	skip_unless_host();
	for (unsigned limit = 1; limit <= COUNT(jobs); limit++) {
		kernel = (struct gate)GATE_INIT;
		pool = pool_of(1, .max_in_flight = limit, .in_flight_ns = UINT64_MAX);
		must(rnl_barrier_init(&barrier, pool));
		for (unsigned i = 0; i < limit; i++) {
			jobs[i] = (struct storing){ .kernel = &kernel, .word = &words[i] };
			submit_in(pool, &barrier, &jobs[i].job, storing_fn, NULL);
		}
		ck_assert_msg(join_returns(&barrier, &kernel), "max_in_flight %u", limit);
		rnl_pool_destroy(pool);
	}
}

TEST(a_join_does_not_wait_for_functions_of_other_jobs)
{
	struct rnl_pool *pool;
	struct gate hold = GATE_INIT, other = GATE_INIT;
	struct rnl_barrier barrier;
	struct storing job;
	struct rnl_job held, blocking;
	int word;

	/* A join "blocks until the jobs' functions have returned", not for other functions. */
	skip_unless_host();
	pool = pool_of(1);
	hold_workers(pool, &hold, &held, 1);
	must(rnl_barrier_init(&barrier, pool));
	job = (struct storing){ .word = &word };
	submit_in(pool, &barrier, &job.job, storing_fn, NULL);
	submit_job(pool, &blocking, gated_fn, &other);
	gate_open(&hold);
	gate_await(&other, 1);
	ck_assert(join_returns(&barrier, &other));
	rnl_pool_destroy(pool);
}

/* ---- on workers ---------------------------------------------------------- */

struct joining {
	struct rnl_job job;
	struct rnl_barrier *barrier;
	void *to;
	const void *from;
	size_t bytes;
};

static int joining_fn(struct rnl_job *job)
{
	struct joining *j = rnl_container_of(job, struct joining, job);
	int ret = rnl_barrier_join(j->barrier);

	return ret ? ret : rnl_copy(j->to, j->from, j->bytes);
}

TEST(a_worker_joins_only_a_barrier_whose_jobs_are_issued)
{
	struct rnl_pool *pool;
	struct gate function = GATE_INIT, kernel = GATE_INIT;
	struct rnl_barrier barrier, unissued;
	struct storing jobs[NR];
	struct rnl_job held;
	struct joining joining;
	int words[NR], copy[NR];

	skip_unless_host();
	pool = pool_of(3, .in_flight_ns = UINT64_MAX);
	start_storing(pool, &barrier, jobs, &kernel, words);
	must(rnl_barrier_join(&barrier));	/* all are issued now */
	memset(copy, 0, sizeof(copy));
	joining = (struct joining){ .barrier = &barrier, .to = copy, .from = words,
				    .bytes = sizeof(copy) };
	submit_job(pool, &joining.job, joining_fn, NULL);
	ck_assert_int_eq(rnl_job_wait(&joining.job, 10 * MS), -ETIMEDOUT);
	ck_assert_int_eq(copy[NR - 1], 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&joining.job), 0);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(copy[i], i + 1);

	must(rnl_barrier_init(&unissued, pool));
	submit_in(pool, &unissued, &held, gated_fn, &function);
	joining.barrier = &unissued;
	ck_assert_int_eq(submit_and_wait(pool, &joining.job), -EBUSY);
	gate_open(&function);
	must(rnl_barrier_wait(&unissued, RNL_FOREVER));
	ck_assert_int_eq(submit_and_wait(pool, &joining.job), 0);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

/* The worker's stream has this wait already, or needs none; the job waits nevertheless. */
TEST(a_job_that_only_joins_is_not_done_before_the_barriers_jobs)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_barrier barrier;
	struct joining joining[3];
	struct storing stores;
	int word = 0, copy = 0;

	skip_unless_host();
	pool = pool_of(2, .in_flight_ns = UINT64_MAX);
	must(rnl_barrier_init(&barrier, pool));
	stores = (struct storing){ .kernel = &kernel, .word = &word, .value = 1 };
	submit_storing(pool, &barrier, &stores, RNL_KEY_WORKER(0));
	must(rnl_barrier_join(&barrier));	/* it is issued now */
	for (int i = 0; i < 3; i++) {
		/* Job 0 on another stream, job 1 after it, and job 2 on the kernel's stream. */
		joining[i] = (struct joining){ .barrier = &barrier, .to = &copy, .from = &word,
					       .bytes = i ? 0 : sizeof(copy) };
		job_of(&joining[i].job, joining_fn, NULL);
		must(submit_by_key(pool, &joining[i].job, RNL_KEY_WORKER(i < 2 ? 1 : 0)));
	}
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(rnl_job_wait(&joining[i].job, 10 * MS), -ETIMEDOUT);
	gate_open(&kernel);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(result_of(&joining[i].job), 0);
	ck_assert_int_eq(copy, 1);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

TEST(a_worker_of_another_pool_joins)
{
	enum { BYTES = 8 << 20 };
	struct rnl_pool *pool = pool_of(2), *other = pool_of(1);
	struct rnl_barrier barrier;
	struct gate gate = GATE_INIT;
	struct filling filling;
	struct joining joining;
	struct rnl_job held;
	unsigned char *to;
	void *from, *mem;

	must(rnl_memory_get(pool, 0, BYTES, &from, 0));
	must(rnl_memory_get(other, RNL_PINNED, BYTES, &mem, 0));
	to = mem;
	hold_barrier(pool, &barrier, &gate, &held);
	filling = (struct filling){ .to = from, .bytes = BYTES };
	submit_in(pool, &barrier, &filling.job, filling_fn, NULL);

	joining = (struct joining){ .barrier = &barrier, .to = to, .from = from, .bytes = BYTES };
	submit_job(other, &joining.job, joining_fn, NULL);
	ck_assert_int_eq(rnl_job_wait(&joining.job, 5 * MS), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&joining.job), 0);
	ck_assert_bytes(to, BYTES, 9);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_memory_put(pool, from);
	rnl_memory_put(other, to);
	rnl_pool_destroy(other);
	rnl_pool_destroy(pool);
}

/* ---- events ----------------------------------------------------------------- */

__attribute__((weak)) uint64_t fake_calls(const char *function);

static int count_calls_fn(struct rnl_job *job)
{
	uint64_t *calls = job->user;

	calls[0] = fake_calls("cudaEventRecord");
	calls[1] = fake_calls("cudaStreamWaitEvent");
	return 0;
}

/*
 * A worker runs six jobs of a barrier, and a job after it, without a wait.  Returns true if they need one
 * event, and no stream waits: on a busy machine the six take long, and get more events.
 */
static bool fan_in_shares_an_event(struct rnl_pool *pool)
{
	enum { JOBS = 6 };
	struct storing stores[JOBS], last = { .value = 1 };
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, begin, end;
	uint64_t calls[2][2];
	int words[JOBS + 1] = { 0 };

	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &gate, &held, 1);
	submit_job(pool, &begin, count_calls_fn, calls[0]);
	for (int i = 0; i < JOBS; i++) {
		stores[i] = (struct storing){ .word = &words[i], .value = 1 };
		submit_in(pool, &barrier, &stores[i].job, storing_fn, NULL);
	}
	last.word = &words[JOBS];
	job_of(&last.job, storing_fn, NULL);
	must(rnl_job_set_after(&last.job, &barrier));
	must(rnl_submit(pool, &last.job));
	gate_open(&gate);
	ck_assert_int_eq(result_of(&last.job), 0);
	submit_job(pool, &end, count_calls_fn, calls[1]);
	ck_assert_int_eq(result_of(&end), 0);
	must(rnl_job_wait(&held, RNL_FOREVER));
	must(rnl_job_wait(&begin, RNL_FOREVER));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	for (int i = 0; i <= JOBS; i++)
		ck_assert_int_eq(words[i], 1);
	return calls[1][0] - calls[0][0] <= 2 && calls[1][1] == calls[0][1];
}

TEST(jobs_of_a_round_share_an_event, .timeout_s = 60)
{
	const double until = seconds_now() + PATIENCE_S;
	struct rnl_pool *pool;
	bool shared = false;

	if (!test_fake())
		test_skip("only the double counts calls of CUDA");
	pool = pool_of(1, .in_flight_ns = UINT64_MAX);
	for (int i = 0; (i < 100 || seconds_now() < until) && !shared; i++)
		shared = fan_in_shares_an_event(pool);
	ck_assert(shared);
	rnl_pool_destroy(pool);
}
