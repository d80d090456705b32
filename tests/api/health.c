/* SPDX-License-Identifier: MIT */
/* The health of a pool: OK, overloaded or stuck, the stuck job and its time, and the recovery. */
#include <runnel/memory.h>
#include <runnel/stats.h>

#include "host_kernel.h"
#include "pool.h"
#include "sanitizers.h"

/* A job ends its worker's thread, so the thread's stream leaks. */
SANITIZER_OPTIONS("report_thread_leaks=0:detect_leaks=0");

static struct rnl_health health_of(struct rnl_pool *pool)
{
	struct rnl_health health = RNL_HEALTH_INIT;

	ck_assert_int_eq(rnl_pool_health(pool, &health), 0);
	ck_assert_uint_eq(health.size, sizeof(health));
	return health;
}

static struct rnl_pool *pool_bounded(unsigned nr_workers, uint32_t max_queued, uint32_t stuck_ms)
{
	return pool_of(nr_workers, .max_queued = max_queued, .stuck_ms = stuck_ms);
}

#define NEVER_STUCK 3600000u

static void check_ok(struct rnl_pool *pool)
{
	struct rnl_health health = health_of(pool);

	ck_assert_uint_eq(health.state, RNL_HEALTH_OK);
	ck_assert_int_eq(health.device_error, 0);
	ck_assert_uint_eq(health.nr_stuck, 0);
	ck_assert_uint_eq(health.stuck_worker, 0);
	ck_assert_uint_eq(health.on_device, 0);
	ck_assert_uint_eq(health.stuck_ms, 0);
	ck_assert_ptr_null(health.stuck_job);
}

TEST(a_pool_that_is_idle_or_at_short_jobs_is_well)
{
	/* Long enough for a job without a CPU on a busy machine; a simulated one is never busy. */
	uint32_t stuck_ms = sim_begin ? 60 : (uint32_t)(600 * test_scale());
	double longer = 1.5e-3 * stuck_ms, end;
	struct rnl_pool *pool = pool_bounded(2, 0, stuck_ms);
	void *mem;

	check_ok(pool);
	ck_assert_uint_eq(health_of(pool).queued, 0);
	usleep((useconds_t)(longer * 1e6));	/* idle for longer than a job may take */
	check_ok(pool);
	/* Busy for longer than a job may take, with many jobs. */
	must(rnl_memory_get(pool, 0, 2 * 64, &mem, 0));
	for (end = seconds_now() + longer; seconds_now() < end;) {
		struct rnl_job jobs[20];

		for (int i = 0; i < 20; i++)
			submit_job(pool, &jobs[i], i % 2 ? noop_fn : fill_own_fn, mem);
		for (int i = 0; i < 20; i++)
			ck_assert_int_eq(result_of(&jobs[i]), 0);
	}
	check_ok(pool);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

/* ---- overloaded ---------------------------------------------------------- */

static void check_mark(uint32_t max_queued, unsigned mark)
{
	struct rnl_pool *pool = pool_bounded(1, max_queued, NEVER_STUCK);
	struct gate gate = GATE_INIT;
	struct rnl_job held, *jobs = calloc(mark, sizeof(*jobs));

	hold_workers(pool, &gate, &held, 1);
	for (unsigned i = 0; i < mark; i++) {
		ck_assert_uint_eq(health_of(pool).state, RNL_HEALTH_OK);
		ck_assert_uint_eq(health_of(pool).queued, i);
		submit_job(pool, &jobs[i], noop_fn, NULL);
	}
	ck_assert_uint_eq(health_of(pool).state, RNL_HEALTH_OVERLOADED);
	ck_assert_uint_eq(health_of(pool).queued, mark);
	ck_assert_uint_eq(health_of(pool).nr_stuck, 0);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	check_ok(pool);
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(a_pool_is_overloaded_from_three_quarters_on)
{
	check_mark(1, 1);
	check_mark(10, 8);
	check_mark(100, 75);
}

TEST(jobs_that_are_deferred_are_no_load)
{
	struct rnl_pool *pool = pool_bounded(1, 10, NEVER_STUCK);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, queued[2], deferred[5];

	hold_barrier(pool, &barrier, &gate, &held);
	for (int i = 0; i < 5; i++) {
		job_of(&deferred[i], noop_fn, NULL);
		must(rnl_job_set_after(&deferred[i], &barrier));
		must(rnl_submit(pool, &deferred[i]));
	}
	for (int i = 0; i < 2; i++)
		submit_job(pool, &queued[i], noop_fn, NULL);
	ck_assert_uint_eq(figures_of(pool).queued, 7);
	ck_assert_uint_eq(health_of(pool).queued, 2);
	ck_assert_uint_eq(health_of(pool).state, RNL_HEALTH_OK);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

/* ---- stuck --------------------------------------------------------------- */

/* Waits until @nr workers are stuck, and the reported one is @worker at @job, since @since. */
static void await_stuck(struct rnl_pool *pool, unsigned nr, int worker, const struct rnl_job *job,
			bool on_device, unsigned stuck_ms, double since)
{
	struct rnl_health health;

	ck_eventually((health = health_of(pool)).nr_stuck == nr);
	ck_assert_uint_eq(health.state, RNL_HEALTH_STUCK);
	ck_assert_int_eq((int)health.stuck_worker, worker);
	ck_assert_ptr_eq(health.stuck_job, job);
	ck_assert_uint_eq(health.on_device, on_device);
	/* "To some milliseconds": cheap clocks tick every 4 ms. */
	ck_assert_uint_ge(health.stuck_ms + 10, stuck_ms);
	ck_assert_double_le((double)health.stuck_ms, (seconds_now() - since) * 1e3 + 10);
	/* The reported time grows. */
	ck_eventually(health_of(pool).stuck_ms >= health.stuck_ms + 20);
}

TEST(workers_are_stuck_in_functions_and_the_first_is_reported)
{
	enum { STUCK_MS = 60 };
	struct rnl_pool *pool = pool_bounded(2, 4, STUCK_MS);
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held[2], queued[3];
	double since[2];

	for (int i = 0; i < 2; i++) {
		since[i] = seconds_now();
		job_of(&held[i], gated_fn, &gates[i]);
		must(submit_by_key(pool, &held[i], RNL_KEY_WORKER(1 - i)));
		gate_await(&gates[i], 1);
		await_stuck(pool, (unsigned)i + 1, 1, &held[0], false, STUCK_MS, since[0]);
	}
	/* The pool is overloaded, too; the worse state is reported. */
	for (int i = 0; i < 3; i++) {
		job_of(&queued[i], noop_fn, NULL);
		must(submit_by_key(pool, &queued[i], RNL_KEY_WORKER(1 - i % 2)));
	}
	ck_assert_uint_eq(health_of(pool).state, RNL_HEALTH_STUCK);
	ck_assert_uint_eq(health_of(pool).queued, 3);
	gate_open(&gates[0]);
	ck_assert_int_eq(result_of(&held[0]), 0);
	await_stuck(pool, 1, 0, &held[1], false, STUCK_MS, since[1]);
	gate_open(&gates[1]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	check_ok(pool);
	rnl_pool_destroy(pool);
}

TEST(a_worker_is_stuck_on_its_device_with_the_first_job_there)
{
	enum { STUCK_MS = 60, NR = 2 };
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_job jobs[NR];
	double since;

	skip_unless_host();
	pool = pool_bounded(2, 0, STUCK_MS);
	for (int round = 0; round < 2; round++) {
		kernel = (struct gate)GATE_INIT;
		since = seconds_now();
		for (int i = 0; i < NR; i++) {
			job_of(&jobs[i], gated_kernel_fn, &kernel);
			must(submit_by_key(pool, &jobs[i], RNL_KEY_WORKER(1)));
		}
		ck_eventually(figures_of(pool).in_flight == NR);
		await_stuck(pool, 1, 1, &jobs[0], true, STUCK_MS, since);
		ck_assert_uint_eq(health_of(pool).queued, 0);
		gate_open(&kernel);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		check_ok(pool);
	}
	rnl_pool_destroy(pool);
}

static struct gate in_callback = GATE_INIT;

static void gated_callback(struct rnl_job *job)
{
	(void)job;
	gate_wait(&in_callback);
}

TEST(a_worker_is_stuck_in_a_callback_as_in_a_function)
{
	enum { STUCK_MS = 60 };
	struct rnl_pool *pool = pool_bounded(2, 0, STUCK_MS);
	struct rnl_job job;
	double since = seconds_now();

	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_on_done(&job, gated_callback));
	must(submit_by_key(pool, &job, RNL_KEY_WORKER(1)));
	gate_await(&in_callback, 1);
	await_stuck(pool, 1, 1, &job, false, STUCK_MS, since);
	gate_open(&in_callback);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	check_ok(pool);
	rnl_pool_destroy(pool);
}

TEST(without_a_time_of_its_own_a_pool_gives_a_job_a_second)
{
	struct rnl_pool *pool = pool_bounded(1, 0, 0);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	double since = seconds_now();

	hold_workers(pool, &gate, &held, 1);
	ck_eventually(health_of(pool).state == RNL_HEALTH_STUCK);
	ck_assert_double_ge(seconds_now() - since, 0.95);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	check_ok(pool);
	rnl_pool_destroy(pool);
}

/* ---- misuse -------------------------------------------------------------- */

TEST(health_is_filled_in_as_far_as_both_sides_know_it)
{
	struct rnl_pool *pool = pool_of(1);
	union {
		struct rnl_health health;
		unsigned char bytes[256];
	} other;
	const uint32_t size = sizeof(struct rnl_health), first = offsetof(struct rnl_health, stuck_kernel);

	/* Fields of a newer program become 0; memory after them is not touched. */
	memset(&other, 0xee, sizeof(other));
	other.health.size = size + 24;
	other.health.max_unfinished = 0;
	ck_assert_int_eq(rnl_pool_health(pool, &other.health), 0);
	ck_assert_uint_eq(other.health.size, size + 24);
	ck_assert_bytes(other.bytes + size, 24, 0);
	ck_assert_bytes(other.bytes + size + 24, sizeof(other) - size - 24, 0xee);
	/* A program of the first version has no `stuck_kernel`. */
	memset(&other, 0xee, sizeof(other));
	other.health.size = first;
	other.health.max_unfinished = 0;
	ck_assert_int_eq(rnl_pool_health(pool, &other.health), 0);
	ck_assert_bytes(other.bytes + first, sizeof(other) - first, 0xee);
	for (uint32_t shorter = 0; shorter < first; shorter++) {
		memset(&other, 0xee, sizeof(other));
		other.health.size = shorter;
		ck_assert_int_eq(rnl_pool_health(pool, &other.health), -EINVAL);
		ck_assert_bytes(other.bytes + 4, sizeof(other) - 4, 0xee);
	}
	rnl_pool_destroy(pool);
}

/* ---- a job that does not return ----------------------------------------------------- */

static int exit_fn(struct rnl_job *job)
{
	(void)job;
	pthread_exit(NULL);
}

TEST(a_worker_whose_job_ended_its_thread_is_stuck)
{
	static struct rnl_pool *pool;	/* it can never be destroyed */
	static struct rnl_job job;
	struct rnl_health health;

	pool = pool_of(1, .stuck_ms = 1);
	submit_job(pool, &job, exit_fn, NULL);
	ck_eventually((health = health_of(pool)).state == RNL_HEALTH_STUCK);
	ck_assert_ptr_eq(health.stuck_job, &job);
	ck_assert_uint_eq(health.on_device, 0);
	ck_assert_int_ne(rnl_job_wait(&job, 0), 0);
}

static int cancel_fn(struct rnl_job *job)
{
	(void)job;
	pthread_cancel(pthread_self());
	pthread_testcancel();
	return 3;
}

TEST(a_job_cannot_cancel_its_worker)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	submit_job(pool, &job, cancel_fn, NULL);
	ck_assert_int_eq(result_of(&job), 3);
	job_of(&job, noop_fn, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
}
