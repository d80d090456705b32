/* SPDX-License-Identifier: MIT */
/* Maps: their order, barriers and errors, and pools that end or change during a map. */
#include <runnel/map.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "full.h"
#include "map.h"

#define CHUNKS 50

/* Returns a map of many chunks through callbacks. */
static struct task through_callbacks(uint32_t flags)
{
	return (struct task){ .in = CALLED, .out = CALLED, .nr = CHUNKS * 7 - 3, .chunk = 7,
			      .in_bytes = 4, .out_bytes = 4, .flags = flags };
}

static void start(struct task *t, struct rnl_pool *pool, struct rnl_barrier *barrier)
{
	task_prepare(t, pool);
	must(rnl_barrier_init(barrier, pool));
	must(rnl_map_start(pool, &t->map, barrier));
}

/* The call for an element waits at the gate, then returns @error. */
static struct event stop_at(uint64_t element, struct gate *gate, int error)
{
	return (struct event){ .wanted = true, .element = element, .gate = gate, .error = error };
}

static void submit_after(struct rnl_pool *pool, struct rnl_barrier *barrier, struct rnl_job *job)
{
	must(rnl_job_set_after(job, barrier));
	must(rnl_submit(pool, job));
}

/* Waits for the map, and checks all of its elements. */
static void finish(struct task *t, struct rnl_barrier *barrier)
{
	ck_assert_int_eq(result_of_barrier(barrier), 0);
	task_verify(t);
	task_end(t);
}

/* ---- in order ------------------------------------------------------------ */

TEST(in_order_callbacks_get_chunks_one_after_the_other, .timeout_s = 60)
{
	static const enum where ins[] = { CALLED, CALLED, PINNED, PAGEABLE };
	static const enum where outs[] = { CALLED, PINNED, CALLED, NOWHERE };

	for (unsigned workers = 1; workers <= 8; workers += workers > 2 ? 5 : 1) {
		struct rnl_pool *pool = pool_of(workers);

		for (unsigned i = 0; i < 48; i++) {
			struct task t = through_callbacks(RNL_MAP_IN_ORDER | i / 4 % 2);

			t.in = ins[i % 4];
			t.out = outs[i % 4];
			t.out_bytes = t.out == NOWHERE ? 0 : 4;
			t.before = i / 8 % 3 * 3;
			t.after = i / 24 * 7;
			t.reports = i % 3;
			task_run(&t, pool);
		}
		rnl_pool_destroy(pool);
	}
}

TEST(in_order_none_is_written_before_the_first, .timeout_s = 60)
{
	enum { WORKERS = 3, JOBS = 2 * WORKERS };
	struct rnl_pool *pool = pool_of(WORKERS);

	for (unsigned round = 0; round < 2; round++) {
		struct gate gate = GATE_INIT;
		struct task t = through_callbacks(RNL_MAP_IN_ORDER);
		struct rnl_barrier barrier;

		t.at_fn = stop_at(0, &gate, 0);
		start(&t, pool, &barrier);
		/* Every job of the map has a chunk and waits for the first chunk. */
		ck_eventually(t.nr_fn == JOBS);
		ck_assert_int_eq(rnl_barrier_wait(&barrier, 2 * MS), -ETIMEDOUT);
		ck_assert_uint_eq(t.nr_fn, JOBS);
		ck_assert_uint_eq(t.nr_written, 0);
		gate_open(&gate);
		finish(&t, &barrier);
	}
	rnl_pool_destroy(pool);
}

TEST(without_an_order_others_are_written_before_the_first, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct task t = through_callbacks(0);
	struct rnl_barrier barrier;

	t.at_fn = stop_at(0, &gate, 0);
	start(&t, pool, &barrier);
	ck_eventually(t.nr_written == CHUNKS - 1);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 0), -ETIMEDOUT);
	gate_open(&gate);
	finish(&t, &barrier);
	rnl_pool_destroy(pool);
}

TEST(in_order_a_slow_read_holds_one_worker_alone, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(3);
	struct gate gate = GATE_INIT;
	struct task t = through_callbacks(RNL_MAP_IN_ORDER);
	struct rnl_barrier barrier;
	struct rnl_job jobs[20];

	t.at_read = stop_at(20, &gate, 0);
	start(&t, pool, &barrier);
	gate_await(&gate, 1);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		submit_job(pool, &jobs[i], noop_fn, NULL);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		must(rnl_job_wait(&jobs[i], patience_ns()));
	gate_open(&gate);
	finish(&t, &barrier);
	rnl_pool_destroy(pool);
}

TEST(in_order_no_job_is_forgotten_at_the_end, .timeout_s = 60)
{
	const unsigned rounds = (unsigned)(4000 / test_scale());
	struct rnl_pool *pool = pool_of(3);

	/* With so few chunks, no later job makes up for a chunk that two racing jobs lose. */
	for (unsigned i = 0; i < rounds; i++) {
		struct task t = through_callbacks(RNL_MAP_IN_ORDER);

		t.nr = 1 + i % 30;
		t.out = i % 2 ? CALLED : PINNED;
		task_run(&t, pool);
	}
	rnl_pool_destroy(pool);
}

/* A map whose writes wait until the function has run for later chunks. */
struct slow {
	struct task t;
	struct rnl_job *keyed;		/* on the writing worker; must run before its last write */
	struct rnl_pool *pool;
	uint64_t keys[2];
	unsigned nr_late;		/* that worker's writes before the job is done */
	int worker;			/* the writing worker; -1: the job is not submitted */
};

static int slow_write(void *arg, const void *buf, uint64_t first, uint64_t nr)
{
	struct slow *s = rnl_container_of(arg, struct slow, t);
	int ret = task_write(arg, buf, first, nr);

	if (ret)
		return ret;
	/* Counts the worker's writes before the keyed job: a job that never pauses does all. */
	if (s->worker >= 0) {
		s->nr_late += rnl_worker().index == s->worker && rnl_job_wait(s->keyed, 0);
	} else if (first) {
		s->worker = rnl_worker().index;
		ret = submit_by_key(s->pool, s->keyed, s->keys[s->worker]);
	}
	for (double until = seconds_now() + 5; s->t.nr_fn < first / s->t.chunk + 4 && !ret &&
	     s->t.nr_fn < CHUNKS && seconds_now() < until;)
		usleep(100);
	return ret;
}

TEST(in_order_the_writing_worker_runs_other_jobs_between, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	const uint64_t keys[] = { key_on(pool, 0), key_on(pool, 1) };

	for (unsigned i = 0; i < 10; i++) {
		struct slow s = { .t = through_callbacks(RNL_MAP_IN_ORDER), .pool = pool,
				  .keys = { keys[0], keys[1] }, .worker = -1 };
		struct rnl_barrier barrier;
		struct rnl_job keyed;

		job_of(&keyed, noop_fn, NULL);
		s.keyed = &keyed;
		task_prepare(&s.t, pool);
		s.t.map.write = slow_write;
		must(rnl_barrier_init(&barrier, pool));
		must(rnl_map_start(pool, &s.t.map, &barrier));
		finish(&s.t, &barrier);
		ck_assert_int_eq(result_of(&keyed), 0);
		/* Before the keyed job its worker wrote some more chunks, but not all. */
		ck_assert_uint_lt(s.nr_late, CHUNKS / 2);
	}
	rnl_pool_destroy(pool);
}

/* ---- barriers ------------------------------------------------------------ */

struct after {
	struct rnl_job job;
	struct task *t;
	_Atomic uint64_t written;
};

static int after_fn(struct rnl_job *job)
{
	struct after *after = rnl_container_of(job, struct after, job);

	after->written = after->t->nr_written;
	return memcmp(after->t->to, after->t->original, after->t->nr * 4) ? -EPROTO : 0;
}

TEST(jobs_after_a_map_start_when_all_of_it_is_out, .timeout_s = 60)
{
	static const enum where outs[] = { CALLED, PINNED, PAGEABLE };
	const unsigned rounds = (unsigned)(150 / test_scale()) + 6;
	struct rnl_pool *pool = pool_of(3);

	for (unsigned i = 0; i < rounds; i++) {
		struct task t = through_callbacks(i % 4);
		struct after after = { .t = &t };
		struct gate gate = GATE_INIT;
		struct rnl_barrier barrier;

		t.out = outs[i % 3];
		t.at_fn = stop_at(i * 7 % t.nr, &gate, 0);
		job_of(&after.job, after_fn, NULL);
		start(&t, pool, &barrier);
		submit_after(pool, &barrier, &after.job);
		ck_assert_int_ne(rnl_job_wait(&after.job, 0), 0);
		gate_open(&gate);
		ck_assert_int_eq(result_of(&after.job), 0);
		if (t.out == CALLED)
			ck_assert_uint_eq(after.written, CHUNKS);
		finish(&t, &barrier);
	}
	rnl_pool_destroy(pool);
}

TEST(a_wait_for_a_map_may_time_out, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct task t = through_callbacks(0);
	struct rnl_barrier barrier;

	t.at_write = stop_at(t.nr - 1, &gate, 0);
	start(&t, pool, &barrier);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 0), -ETIMEDOUT);
	gate_await(&gate, 1);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 5 * MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_pool_drain(pool, 5 * MS), -ETIMEDOUT);
	gate_open(&gate);
	finish(&t, &barrier);
	rnl_pool_destroy(pool);
}

TEST(a_join_waits_for_all_of_a_map, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);

	must(rnl_thread_attach(pool));
	for (unsigned i = 0; i < 20; i++) {
		struct task t = through_callbacks(i % 4);
		struct rnl_barrier barrier;
		unsigned char *copy;

		t.out = PINNED;
		start(&t, pool, &barrier);
		copy = array_get(pool, PINNED, t.nr * 4);
		must(rnl_barrier_join(&barrier));
		must(rnl_copy(copy, t.to, t.nr * 4));
		must(rnl_stream_wait(RNL_FOREVER));
		ck_assert_int_eq(memcmp(copy, t.original, t.nr * 4), 0);
		array_put(pool, PINNED, copy, t.nr * 4);
		finish(&t, &barrier);
	}
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

TEST(many_maps_and_other_jobs_share_barriers, .timeout_s = 60)
{
	enum { MAPS = 12, JOBS = 100 };
	static const enum where wheres[] = { PINNED, PAGEABLE, CALLED };
	struct rnl_pool *pool = pool_of(3);

	for (unsigned nr_barriers = 1; nr_barriers <= 4; nr_barriers++) {
		struct rnl_barrier barriers[4];
		struct rnl_job jobs[JOBS];
		struct task tasks[MAPS];

		for (unsigned i = 0; i < nr_barriers; i++)
			must(rnl_barrier_init(&barriers[i], pool));
		for (unsigned i = 0; i < MAPS; i++) {
			struct task *t = &tasks[i];

			*t = through_callbacks(i % 4);
			t->in = wheres[i % 3];
			t->out = wheres[i / 3 % 3];
			t->before = i % 5;
			task_prepare(t, pool);
			must(rnl_map_start(pool, &t->map, &barriers[i % nr_barriers]));
			for (unsigned k = i * JOBS / MAPS; k < (i + 1) * JOBS / MAPS; k++) {
				job_in(&barriers[k % nr_barriers], &jobs[k], noop_fn, NULL);
				must(submit_by_key(pool, &jobs[k], k));
			}
		}
		for (unsigned i = 0; i < nr_barriers; i++)
			ck_assert_int_eq(result_of_barrier(&barriers[i]), 0);
		for (unsigned i = 0; i < MAPS; i++)
			finish(&tasks[i], &barriers[i % nr_barriers]);
	}
	rnl_pool_destroy(pool);
}

TEST(barrier_and_pool_may_go_when_the_map_is_done, .timeout_s = 60)
{
	const unsigned rounds = (unsigned)(200 / test_scale()) + 8;

	for (unsigned i = 0; i < rounds; i++) {
		struct rnl_pool *pool = pool_of(1 + i % 3);
		struct rnl_barrier *barrier = malloc(sizeof(*barrier));
		struct task t = through_callbacks(i % 4);

		t.nr = 1 + i % 50;
		start(&t, pool, barrier);
		must(rnl_barrier_wait(barrier, RNL_FOREVER));
		memset(barrier, 0xa5, sizeof(*barrier));
		free(barrier);
		rnl_pool_destroy(pool);
		task_verify(&t);
		task_end(&t);
	}
}

/* ---- a pool that ends, or changes ---------------------------------------- */

static int destroy_fn(void *arg)
{
	rnl_pool_destroy(arg);
	return 0;
}

TEST(a_close_lets_a_map_go_on_and_the_end_of_the_pool_waits_for_it, .timeout_s = 60)
{
	for (unsigned i = 0; i < 8; i++) {
		struct rnl_pool *pool = pool_of(2);
		struct gate gate = GATE_INIT;
		struct task t = through_callbacks(i % 4), late = through_callbacks(0);
		struct rnl_barrier barrier;
		struct call call;

		t.at_fn = stop_at(30, &gate, 0);
		start(&t, pool, &barrier);
		gate_await(&gate, 1);
		must(rnl_pool_close(pool));
		task_prepare(&late, pool);
		ck_assert_int_eq(rnl_map_start(pool, &late.map, &barrier), -ESHUTDOWN);
		task_end(&late);
		call_start(&call, i / 4 ? destroy_fn : drain_fn, pool);
		ck_waits(call.tid);
		gate_open(&gate);
		must(call_end(&call));
		must(rnl_barrier_wait(&barrier, 0));
		finish(&t, &barrier);
		if (!(i / 4))
			rnl_pool_destroy(pool);
	}
}

TEST(workers_come_and_go_during_a_map, .timeout_s = 60)
{
	static const unsigned nrs[] = { 2, 3, 1 };
	const unsigned rounds = (unsigned)(20 / test_scale()) + 2;
	struct rnl_pool *pool = pool_of(1);

	for (unsigned i = 0; i < rounds; i++) {
		struct task t = through_callbacks(i % 4);
		struct gate gate = GATE_INIT;
		struct rnl_barrier barrier;

		t.nr *= 10;
		t.at_fn = stop_at(70, &gate, 0);
		start(&t, pool, &barrier);
		gate_await(&gate, 1);
		must(rnl_pool_resize(pool, 4));
		gate_open(&gate);
		for (unsigned k = 0; k < COUNT(nrs); k++)
			must(rnl_pool_resize(pool, nrs[k]));
		finish(&t, &barrier);
	}
	rnl_pool_destroy(pool);
}

TEST(a_map_that_a_full_pool_refuses_leaves_no_trace, .timeout_s = 60)
{
	for (unsigned max_queued = 1; max_queued <= 4; max_queued++) {
		struct task t = through_callbacks(max_queued % 4);
		struct rnl_barrier barrier;
		struct full f;
		uint64_t used;

		full_start(&f, max_queued);
		t.reports = true;
		task_prepare(&t, f.pool);
		used = figures_of(f.pool).pinned_used;
		must(rnl_barrier_init(&barrier, f.pool));
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(rnl_map_start(f.pool, &t.map, &barrier), -EAGAIN);
		must(rnl_barrier_wait(&barrier, 0));
		ck_assert_int_eq(barrier.result, 0);
		ck_assert_uint_eq(figures_of(f.pool).pinned_used, used);
		ck_assert_uint_eq(figures_of(f.pool).queued, max_queued);
		ck_assert_uint_eq(t.report.wall_ns, 0);
		gate_open(&f.gate);
		must(rnl_pool_drain(f.pool, RNL_FOREVER));
		ck_assert_uint_eq(t.nr_fn + t.nr_read, 0);
		must(rnl_map_start(f.pool, &t.map, &barrier));
		finish(&t, &barrier);
		full_end(&f);
	}
}

TEST(a_map_takes_no_room_but_that_of_its_jobs, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1, .max_queued = 1);
	struct gate gate = GATE_INIT;
	struct task t = through_callbacks(0);
	struct rnl_barrier barrier;
	struct rnl_job after;

	/* One chunk, so the map has one job, which runs. */
	t.nr = t.chunk;
	t.at_fn = stop_at(0, &gate, 0);
	start(&t, pool, &barrier);
	gate_await(&gate, 1);
	ck_assert_uint_eq(figures_of(pool).accepted, 1);
	ck_assert_uint_eq(figures_of(pool).queued, 0);
	job_of(&after, noop_fn, NULL);
	submit_after(pool, &barrier, &after);
	ck_assert_uint_eq(figures_of(pool).queued, 1);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&after), 0);
	finish(&t, &barrier);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).accepted, 2);
	ck_assert_uint_eq(figures_of(pool).done, 2);
	rnl_pool_destroy(pool);
}

TEST(a_map_goes_on_while_others_fill_the_pool, .timeout_s = 60)
{
	for (uint32_t max_queued = 1; max_queued <= 4; max_queued++) {
		struct gate gate = GATE_INIT;
		struct rnl_job queued[16];
		struct rnl_barrier barrier;
		struct rnl_pool *pool = pool_of(1, .max_queued = max_queued);
		struct task t = through_callbacks(max_queued % 4);
		unsigned nr = 0;
		int ret = 0;

		t.at_fn = stop_at(3, &gate, 0);
		start(&t, pool, &barrier);
		gate_await(&gate, 1);
		for (; !ret && nr < COUNT(queued); nr++) {
			job_of(&queued[nr], noop_fn, NULL);
			ret = rnl_submit(pool, &queued[nr]);
		}
		ck_assert_int_eq(ret, -EAGAIN);
		gate_open(&gate);
		finish(&t, &barrier);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_uint_eq(figures_of(pool).accepted, figures_of(pool).done);
		rnl_pool_destroy(pool);
	}
}

/* ---- errors -------------------------------------------------------------- */

/* Runs a map that fails; the barrier's result must be @expected. */
static void run_to_error(struct rnl_pool *pool, struct task *t, int expected)
{
	const uint64_t used = figures_of(pool).pinned_used;
	struct rnl_barrier barrier;
	struct rnl_job after;

	start(t, pool, &barrier);
	job_of(&after, noop_fn, NULL);
	submit_after(pool, &barrier, &after);
	ck_assert_int_eq(result_of_barrier(&barrier), expected);
	ck_assert_int_eq(result_of(&after), -ECANCELED);
	task_end(t);
	ck_assert_uint_eq(figures_of(pool).pinned_used, used);
}

TEST(an_error_anywhere_ends_the_map_and_is_the_barriers, .timeout_s = 60)
{
	static const int errors[][2] = { { -ENOSPC, -ENOSPC }, { 7, -EINVAL }, { -EPERM, -EPERM } };
	static const unsigned chunks[] = { 0, 1, 3, 20, CHUNKS - 1 };

	for (unsigned workers = 1; workers <= 4; workers += 3) {
		struct rnl_pool *pool = pool_of(workers);

		for (unsigned i = 0; i < 3 * 4 * COUNT(errors) * COUNT(chunks); i++) {
			struct task t = through_callbacks(i / 3 % 4);
			struct event *events[] = { &t.at_fn, &t.at_read, &t.at_write };
			const int *error = errors[i / 12 % COUNT(errors)];

			*events[i % 3] = stop_at(chunks[i / 36] * t.chunk, NULL, error[0]);
			t.reports = i % 2;
			run_to_error(pool, &t, error[1]);
		}
		rnl_pool_destroy(pool);
	}
}

TEST(after_an_error_no_chunk_begins, .timeout_s = 60)
{
	enum { AT = 10 };
	struct rnl_pool *pool = pool_of(1);

	for (unsigned i = 0; i < 12; i++) {
		struct task t = through_callbacks(i / 3);
		struct event *events[] = { &t.at_fn, &t.at_read, &t.at_write };

		*events[i % 3] = stop_at(AT * t.chunk, NULL, -ENOSPC);
		run_to_error(pool, &t, -ENOSPC);
		/* Each of the map's two jobs may have had a chunk, and have begun its next one. */
		ck_assert_uint_le(t.nr_fn, AT + 4 * 2);
		ck_assert_uint_le(t.nr_read, AT + 4 * 2);
		ck_assert_uint_le(t.nr_written, AT + 1 + 2);
	}
	rnl_pool_destroy(pool);
}

TEST(of_several_errors_the_first_counts, .timeout_s = 60)
{
	for (unsigned i = 0; i < 4; i++) {
		struct rnl_pool *pool = pool_of(2);
		struct gate gate = GATE_INIT;
		struct task t = through_callbacks(i);
		struct rnl_barrier barrier;
		struct rnl_job after;

		/* The job of chunk 0 is held, and fails after the job of chunk 3 has failed. */
		t.at_fn = stop_at(0, &gate, -EPERM);
		t.at_read = stop_at(7 * 3, NULL, -ENOSPC);
		start(&t, pool, &barrier);
		gate_await(&gate, 1);
		ck_eventually(figures_of(pool).failed > 0);
		/* The other worker runs this job after it has reported its error to the map. */
		submit_job(pool, &after, noop_fn, NULL);
		ck_assert_int_eq(result_of(&after), 0);
		gate_open(&gate);
		ck_assert_int_eq(result_of_barrier(&barrier), -ENOSPC);
		task_end(&t);
		rnl_pool_destroy(pool);
	}
}

TEST(in_order_an_error_frees_those_that_wait_for_their_turn, .timeout_s = 60)
{
	enum { WORKERS = 3, JOBS = 2 * WORKERS };
	const unsigned rounds = (unsigned)(100 / test_scale()) + 6;
	struct rnl_pool *pool = pool_of(WORKERS);

	for (unsigned i = 0; i < rounds; i++) {
		struct gate gate = GATE_INIT;
		struct task t = through_callbacks(RNL_MAP_IN_ORDER | i % 2);
		const unsigned begun = i % 2 ? 2 * JOBS - 1 : JOBS;
		struct rnl_barrier barrier;

		t.at_fn = stop_at(0, &gate, -ENOSPC);
		start(&t, pool, &barrier);
		ck_eventually(t.nr_fn == begun);
		gate_open(&gate);
		ck_assert_int_eq(result_of_barrier(&barrier), -ENOSPC);
		ck_assert_uint_eq(t.nr_fn, begun);
		ck_assert_uint_eq(t.nr_written, 0);
		task_end(&t);
	}
	rnl_pool_destroy(pool);
}

static int fails_silently_fn(const struct rnl_chunk *c)
{
	(void)rnl_copy(NULL, c->in, 1);
	return 0;
}

TEST(an_error_of_an_operation_in_the_function_counts_too, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct task t = through_callbacks(0);
	struct rnl_barrier barrier;

	task_prepare(&t, pool);
	t.map.fn = fails_silently_fn;
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_map_start(pool, &t.map, &barrier));
	ck_assert_int_eq(result_of_barrier(&barrier), -EINVAL);
	task_end(&t);
	rnl_pool_destroy(pool);
}

/* ---- from a worker ------------------------------------------------------- */

struct starter {
	struct rnl_job job;
	struct rnl_pool *pool;
	struct task t;
	struct rnl_barrier barrier;
	_Atomic int ret, waited;
};

static void start_done(struct rnl_job *job)
{
	struct starter *s = rnl_container_of(job, struct starter, job);

	s->ret = rnl_map_start(s->pool, &s->t.map, &s->barrier);
	s->waited = rnl_barrier_wait(&s->barrier, RNL_FOREVER);
}

static int start_fn(struct rnl_job *job)
{
	start_done(job);
	return 0;
}

TEST(a_worker_may_start_a_map, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);

	for (unsigned i = 0; i < 16; i++) {
		struct starter s = { .pool = pool, .ret = 1, .t = through_callbacks(i % 4) };

		job_of(&s.job, i / 4 % 2 ? noop_fn : start_fn, NULL);
		if (i / 4 % 2)
			must(rnl_job_set_on_done(&s.job, start_done));
		task_prepare(&s.t, pool);
		must(rnl_barrier_init(&s.barrier, pool));
		must(rnl_submit(pool, &s.job));
		ck_eventually(s.ret <= 0 && s.waited);
		ck_assert_int_eq(s.ret, 0);
		/* The pool's only worker would wait for itself. */
		ck_assert_int_eq(s.waited, -EBUSY);
		finish(&s.t, &s.barrier);
	}
	rnl_pool_destroy(pool);
}
