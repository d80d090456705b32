/* SPDX-License-Identifier: MIT */
/* Completed work is reported soon, however many jobs are queued after it. */
#include <runnel/replay.h>

#include "host_kernel.h"
#include "pool.h"

/* ---- jobs that never let their worker's queue run empty --------------------- */

struct ball {
	struct rnl_job job;
	struct rnl_pool *pool;
	struct ball *next;
	bool keyed;
	_Atomic bool *over;
	_Atomic int *in_play;
};

static int pass_ball(struct ball *ball)
{
	struct ball *next = ball->next;

	return next->keyed ? submit_by_key(next->pool, &next->job, 1) :
			     rnl_submit(next->pool, &next->job);
}

/* A callback that submits the next job, which may be the same job. */
static void pass_on(struct rnl_job *job)
{
	struct ball *ball = rnl_container_of(job, struct ball, job);

	if (*ball->over || pass_ball(ball))
		atomic_fetch_sub(ball->in_play, 1);
}

/* Loop 0: two keyed jobs submit each other; 1: a job submits itself; 2: a keyed job does so. */
TEST(a_job_is_reported_during_jobs_that_go_on_for_ever, .loops = 3)
{
	const int64_t patience = patience_ns();
	_Atomic bool over = false;
	_Atomic int in_play = 1;
	struct gate kernel = GATE_INIT;
	struct rnl_barrier barrier;
	struct ball balls[2];
	struct rnl_job job;
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(1);
	must(rnl_barrier_init(&barrier, pool));
	submit_in(pool, &barrier, &job, gated_kernel_fn, &kernel);
	gate_await(&kernel, 1);
	for (int i = 0; i < 2; i++) {
		balls[i] = (struct ball){ .pool = pool, .next = &balls[_i ? i : !i],
					  .keyed = _i != 1, .over = &over, .in_play = &in_play };
		job_of(&balls[i].job, noop_fn, NULL);
		must(rnl_job_set_on_done(&balls[i].job, pass_on));
	}
	must(pass_ball(&balls[0]));
	gate_open(&kernel);
	ck_assert_int_eq(rnl_job_wait(&job, patience), 0);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, patience), 0);
	over = true;
	ck_eventually(!in_play);
	rnl_pool_destroy(pool);
}

/* ---- a backlog of slow functions --------------------------------------------- */

enum { SLOW = 40, OPENER = 10, ROUNDS = 20 };

static struct {
	struct gate gate;
	struct rnl_job kernel, slow[SLOW];
	int word;
	unsigned slow_us;
	_Atomic int begun, notified_at;
} backlog;

/* A job is reported after at most @most functions. */
static const struct {
	unsigned flags, slow_us;
	bool keyed;
	int most;
} backlogs[] = {
	{ 0, 3000, false, 1 },
	{ RNL_GATHER, 3000, false, 1 },
	/* Each is in a group of its own, which the next one ends. */
	{ RNL_GATHER, 60, true, 20 },
};

static int kernel_fn(struct rnl_job *job)
{
	(void)job;
	return launch_store(&backlog.gate, &backlog.word, 1);
}

static void note_begun(struct rnl_job *job)
{
	(void)job;
	backlog.notified_at = backlog.begun;
}

/* One of these functions opens the kernel's gate, and gives the device time to complete it. */
static int slow_fn(struct rnl_job *job)
{
	(void)job;
	if (++backlog.begun == OPENER)
		gate_open(&backlog.gate);
	usleep(backlog.slow_us);
	return launch_store(NULL, NULL, 0);
}

/* Returns how many functions began between the kernel's end and its job's callback. */
static int functions_until_told(struct rnl_pool *pool, unsigned flags, bool keyed)
{
	struct gate queued = GATE_INIT;
	struct rnl_job held;

	hold_workers(pool, &queued, &held, 1);
	backlog.gate = (struct gate)GATE_INIT;
	backlog.begun = backlog.notified_at = 0;
	job_of(&backlog.kernel, kernel_fn, NULL);
	must(rnl_job_set_on_done(&backlog.kernel, note_begun));
	must(rnl_submit(pool, &backlog.kernel));
	for (int i = 0; i < SLOW; i++) {
		job_of(&backlog.slow[i], slow_fn, NULL);
		must(rnl_job_set_flags(&backlog.slow[i], flags));
		must(keyed ? submit_by_key(pool, &backlog.slow[i], 1) : rnl_submit(pool, &backlog.slow[i]));
	}
	gate_open(&queued);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(backlog.begun, SLOW);
	return backlog.notified_at - OPENER;
}

TEST(a_job_is_reported_after_about_one_function_of_its_worker, .timeout_s = 60,
     .loops = COUNT(backlogs))
{
	int best = SLOW;
	struct rnl_pool *pool;

	skip_unless_host();
	/* Jobs whose functions returned are on the stream, after the kernel. */
	pool = pool_of(1, .in_flight_ns = UINT64_MAX);
	/* On a busy machine the device may get no CPU for a while, so one good round is enough. */
	backlog.slow_us = backlogs[_i].slow_us;
	for (int i = 0; i < ROUNDS && best > backlogs[_i].most; i++) {
		int nr = functions_until_told(pool, backlogs[_i].flags, backlogs[_i].keyed);

		best = nr < best ? nr : best;
	}
	ck_assert_int_ge(best, 0);
	ck_assert_int_le(best, backlogs[_i].most);
	rnl_pool_destroy(pool);
}

/* ---- a worker's queries ----------------------------------------------------------- */

enum { PASSED = 16, MARKED = 48, QUESTIONS = 8 };

/* Defined by the double: tests/fake_cudart/fake_cudart.h. */
__attribute__((weak)) uint64_t fake_calls(const char *function);

static struct {
	struct gate kernel;
	uint64_t before, after;		/* queries */
} asked;

/* The stream is at the gated kernel, and the worker has not queried for a while. */
static int leave_to_look_fn(struct rnl_job *job)
{
	(void)job;
	gate_await(&asked.kernel, 1);
	usleep(2000);
	asked.before = fake_calls("cudaEventQuery");
	return 0;
}

static int looked_fn(struct rnl_job *job)
{
	(void)job;
	asked.after = fake_calls("cudaEventQuery");
	gate_open(&asked.kernel);
	return 0;
}

/* Each job has its own mark.  Each query holds up all threads that call the driver. */
TEST(a_worker_finds_the_last_mark_that_is_reached_by_halves)
{
	struct rnl_job held, jobs[MARKED], leave, looked;
	struct gate queued = GATE_INIT, open = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_pool *pool;

	if (!test_fake())
		test_skip("only the double counts calls");
	asked.kernel = (struct gate)GATE_INIT;
	gate_open(&open);
	pool = pool_of(1, .in_flight_ns = UINT64_MAX, .max_in_flight = 2 * MARKED);
	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &queued, &held, 1);
	for (int i = 0; i < MARKED; i++)
		submit_in(pool, &barrier, &jobs[i], gated_kernel_fn,
			  i == PASSED ? &asked.kernel : &open);
	submit_job(pool, &leave, leave_to_look_fn, NULL);
	submit_job(pool, &looked, looked_fn, NULL);
	gate_open(&queued);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_ge(asked.after, asked.before + 2);
	ck_assert_uint_le(asked.after, asked.before + QUESTIONS);
	rnl_pool_destroy(pool);
}

/* ---- later work on the stream -------------------------------------------------- */

TEST(a_job_does_not_wait_for_the_barrier_of_the_next_one)
{
	const int64_t patience = patience_ns();
	struct gate function = GATE_INIT, kernel = GATE_INIT;
	struct rnl_job held, first, before, after;
	struct rnl_barrier barrier;
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(2);
	must(rnl_barrier_init(&barrier, pool));
	job_of(&held, gated_fn, &function);
	must(submit_by_key(pool, &held, RNL_KEY_WORKER(0)));
	gate_await(&function, 1);
	job_in(&barrier, &first, gated_kernel_fn, &kernel);
	must(submit_by_key(pool, &first, RNL_KEY_WORKER(1)));
	gate_await(&kernel, 1);
	job_of(&before, gated_kernel_fn, &function);
	must(submit_by_key(pool, &before, RNL_KEY_WORKER(0)));
	job_of(&after, noop_fn, NULL);
	must(rnl_job_set_after(&after, &barrier));
	must(submit_by_key(pool, &after, RNL_KEY_WORKER(0)));
	gate_open(&function);
	ck_assert_int_eq(rnl_job_wait(&before, patience), 0);
	gate_open(&kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}
