/* SPDX-License-Identifier: MIT */
/* Maps of a class: its rules are for their jobs, and a full class does not stop them. */
#include <sched.h>

#include "asks.h"
#include "classed.h"
#include "heard.h"
#include "map.h"
#include "places.h"
#include "record.h"

enum { CHUNKS = 40 };

/* A map of CHUNKS chunks. */
static struct task task_of(struct rnl_class *cls, uint32_t flags, enum where in, enum where out)
{
	return (struct task){
		.in = in, .out = out, .nr = CHUNKS * 8 - 3, .chunk = 8, .in_bytes = 4, .out_bytes = 4,
		.flags = flags, .cls = cls, .reports = true,
	};
}

TEST(a_map_of_a_class_is_done_with_every_array_and_order, .loops = 4, .timeout_s = 60)
{
	static const uint32_t flags[] = {
		0, RNL_MAP_COPIES_FIRST, RNL_MAP_IN_ORDER, RNL_MAP_IN_ORDER | RNL_MAP_COPIES_FIRST,
	};
	struct rnl_pool *pool = pool_of(2);
	/* One job at a time, late by the class's deadline, and not what the class admits. */
	struct rnl_class *cls[] = {
		class_of(pool, .priority = 2), class_of(pool, .max_jobs = 1),
		class_of(pool, .deadline_ns = 1, .flags = RNL_CLASS_ADMIT),
		class_of(pool, .deadline_ns = 1, .order = RNL_CLASS_DEADLINE),
	};
	static const enum where wheres[][2] = {
		{ PINNED, PINNED }, { PAGEABLE, PAGEABLE }, { CALLED, CALLED }, { PINNED, IN_PLACE },
	};

	for (unsigned i = 0; i < COUNT(cls) * COUNT(wheres); i++) {
		const enum where *where = wheres[i % COUNT(wheres)];
		struct task t = task_of(cls[i / COUNT(wheres)], flags[_i], where[0],
					where[1] == IN_PLACE ? PINNED : where[1]);

		task_run(&t, pool);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (unsigned i = 0; i < COUNT(cls); i++) {
		const struct rnl_class_stats stats = stats_of(cls[i]);

		ck_assert_uint_ge(stats.accepted, COUNT(wheres) * CHUNKS / 2);
		ck_assert_uint_eq(stats.done, stats.accepted);
		ck_assert_uint_eq(stats.queued + stats.started + stats.expired + stats.unadmitted, 0);
	}
	rnl_pool_destroy(pool);
}

TEST(a_full_class_does_not_stop_its_map, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .max_queued = 3);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], jobs[3], more;
	struct task t = task_of(cls, 0, PINNED, PINNED), none = task_of(cls, 0, PINNED, PINNED);
	struct rnl_barrier barrier;

	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &gate, held, 2);
	task_prepare(&none, pool);
	/* Two places are left for it, then none for others. */
	submit_classed(pool, &jobs[0], cls, noop_fn, NULL);
	task_prepare(&t, pool);
	must(rnl_map_start(pool, &t.map, &barrier));
	classed_of(&more, cls, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &more), -EAGAIN);
	ck_assert_int_eq(rnl_map_start(pool, &none.map, &barrier), -EAGAIN);
	gate_open(&gate);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	task_verify(&t);
	task_check_report(&t);
	ck_assert_uint_eq(t.report.nr_jobs, 2);
	ck_assert_uint_eq(none.nr_fn, 0);
	task_end(&none);
	task_end(&t);
	/* It has given its places back. */
	must(rnl_pool_drain(pool, RNL_FOREVER));
	gate = (struct gate)GATE_INIT;
	hold_workers(pool, &gate, held, 2);
	ck_assert_uint_eq(fill_class(pool, cls, jobs, 3), 3);
	ck_assert_int_eq(rnl_submit(pool, &more), -EAGAIN);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

struct flood {
	struct rnl_pool *pool;
	struct rnl_class *cls;
	struct rnl_job jobs[16];
	_Atomic bool ends;
};

static void flood_done(struct rnl_job *job)
{
	struct flood *flood = job->user;

	if (!flood->ends)
		(void)rnl_submit(flood->pool, job);
}

TEST(a_map_ends_in_a_class_that_is_always_full, .timeout_s = 60)
{
	static struct flood flood;
	struct rnl_class *cls;

	flood = (struct flood){ .pool = pool_of(2) };
	cls = flood.cls = class_of(flood.pool, .max_queued = 6);
	for (unsigned i = 0; i < COUNT(flood.jobs); i++) {
		classed_of(&flood.jobs[i], cls, noop_fn, &flood);
		must(rnl_job_set_on_done(&flood.jobs[i], flood_done));
		(void)rnl_submit(flood.pool, &flood.jobs[i]);
	}
	for (unsigned round = 0; round < 10; round++) {
		struct task t = task_of(cls, round % 2 ? RNL_MAP_IN_ORDER : 0, CALLED, CALLED);
		struct rnl_barrier barrier;
		int ret;

		task_prepare(&t, flood.pool);
		must(rnl_barrier_init(&barrier, flood.pool));
		while ((ret = rnl_map_start(flood.pool, &t.map, &barrier)) == -EAGAIN)
			sched_yield();
		must(ret);
		ck_assert_int_eq(result_of_barrier(&barrier), 0);
		task_verify(&t);
		task_end(&t);
	}
	flood.ends = true;
	must(rnl_pool_drain(flood.pool, RNL_FOREVER));
	rnl_pool_destroy(flood.pool);
}

TEST(the_chunks_of_a_class_wait_for_other_classes_and_its_limits)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .priority = 3, .floor_permille = RNL_CLASS_NO_FLOOR);
	struct gate gate = GATE_INIT, second = GATE_INIT;
	struct task t = task_of(cls, 0, PINNED, PINNED);
	struct rnl_barrier barrier;
	struct rnl_job held, other;

	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &gate, &held, 1);
	task_prepare(&t, pool);
	must(rnl_map_start(pool, &t.map, &barrier));
	ck_assert_uint_ge(stats_of(cls).queued, 1);
	submit_job(pool, &other, gated_fn, &second);
	gate_open(&gate);
	gate_await(&second, 1);
	ck_assert_uint_eq(t.nr_fn, 0);
	gate_open(&second);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	task_verify(&t);
	task_end(&t);
	rnl_pool_destroy(pool);
}

TEST(max_jobs_of_a_class_is_for_the_jobs_of_its_maps)
{
	struct rnl_pool *pool = pool_of(3);
	struct rnl_class *cls = class_of(pool, .max_jobs = 1);
	struct gate gate = GATE_INIT;
	struct task t = task_of(cls, 0, PINNED, PINNED);
	struct rnl_barrier barrier;
	struct rnl_job job;

	must(rnl_barrier_init(&barrier, pool));
	t.at_fn = (struct event){ .wanted = true, .gate = &gate };
	task_prepare(&t, pool);
	must(rnl_map_start(pool, &t.map, &barrier));
	gate_await(&gate, 1);
	ck_assert_uint_eq(stats_of(cls).started, 1);
	ck_assert_uint_ge(stats_of(cls).queued, 1);
	/* Other workers are free. */
	submit_job(pool, &job, noop_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_uint_eq(t.nr_fn, 1);
	gate_open(&gate);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	task_verify(&t);
	task_end(&t);
	rnl_pool_destroy(pool);
}

static int destroy_fn(void *arg)
{
	rnl_class_destroy(arg);
	return 0;
}

TEST(the_end_of_a_class_waits_for_its_maps, .loops = 2)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool);
	struct gate gate = GATE_INIT;
	struct task t = task_of(cls, _i ? RNL_MAP_IN_ORDER : 0, CALLED, CALLED);
	struct rnl_barrier barrier;
	struct call call;

	must(rnl_barrier_init(&barrier, pool));
	if (_i)
		t.at_write = (struct event){ .wanted = true, .gate = &gate };
	else
		t.at_fn = (struct event){ .wanted = true, .gate = &gate };
	task_prepare(&t, pool);
	must(rnl_map_start(pool, &t.map, &barrier));
	gate_await(&gate, 1);
	call_start(&call, destroy_fn, cls);
	ck_waits(call.tid);
	ck_assert_int_eq(rnl_map_start(pool, &t.map, &barrier), -EINVAL);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	task_verify(&t);
	task_end(&t);
	rnl_pool_destroy(pool);
}

TEST(a_map_of_a_class_ends_with_its_error_or_its_pool, .loops = 2)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .max_queued = 4, .per_second = _i ? 1 : 0);
	struct task t = task_of(cls, 0, PINNED, PINNED);
	struct rnl_barrier barrier;
	struct rnl_job jobs[4];

	must(rnl_barrier_init(&barrier, pool));
	if (!_i)
		t.at_fn = (struct event){ .wanted = true, .element = 60, .error = -EXDEV };
	task_prepare(&t, pool);
	must(rnl_map_start(pool, &t.map, &barrier));
	if (_i)
		(void)rnl_pool_stop(pool, RNL_FOREVER);
	ck_assert_int_eq(result_of_barrier(&barrier), _i ? -ECANCELED : -EXDEV);
	if (!_i) {
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_uint_eq(fill_class(pool, cls, jobs, 4), 4);
	}
	task_end(&t);
	rnl_pool_destroy(pool);
}

TEST(a_map_of_a_class_uses_every_device, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_over_of(2, 1);
	struct rnl_class *cls;

	skip_if_alone(pool);
	cls = class_of(pool, .max_queued = 1);
	for (unsigned i = 0; i < 4; i++) {
		struct task t = task_of(cls, 0, PINNED, PAGEABLE);

		task_run(&t, pool);
		/* A place for each device. */
		ck_assert_uint_eq(t.report.nr_jobs, nr_devices_of(pool));
	}
	rnl_pool_destroy(pool);
}

TEST(a_class_of_another_pool_or_one_that_has_ended_is_refused)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *other = pool_of(1), *pool;
	struct rnl_class *cls = class_of(other);
	struct rnl_barrier barrier;
	struct heard heard;
	struct task t;

	hear(&heard, &attr);
	pool = pool_with(&attr, 1);
	must(rnl_barrier_init(&barrier, pool));
	for (int i = 0; i < 4; i++) {
		if (i == 2) {
			cls = class_of(pool);
			rnl_class_destroy(cls);
		}
		heard.bytes = 0;
		t = task_of(cls, 0, PINNED, PINNED);
		task_prepare(&t, pool);
		t.map.nr = i % 2 ? t.map.nr : 0;
		ck_assert_int_eq(rnl_map_start(pool, &t.map, &barrier), -EINVAL);
		ck_assert(has_heard(&heard, "rnl_map_start(): cls is of another pool, or has ended"));
		task_end(&t);
	}
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}
