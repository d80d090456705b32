/* SPDX-License-Identifier: MIT */
/*
 * No public function is a cancellation point: a thread that is cancelled in a call ends after the
 * call, and the call's objects keep working. unit/countdown tries every function with a pending
 * cancel.
 */
#include <runnel/thread.h>

#include "classed.h"
#include "cq.h"
#include "host_kernel.h"

/* A call by a thread that is cancelled while it blocks, or that has a cancel pending. */
struct cancelled {
	int (*fn)(void *arg);
	void *arg;
	pthread_t thread;
	_Atomic pid_t tid;
	_Atomic bool returned;
	int ret;
};

static void *cancelled_main(void *arg)
{
	struct cancelled *c = arg;

	c->tid = own_tid();
	c->ret = c->fn(c->arg);
	c->returned = true;
	pthread_testcancel();
	return NULL;
}

/* Starts a call and cancels its thread once the thread sleeps in it. */
static void start_cancelled(struct cancelled *c, int (*fn)(void *arg), void *arg)
{
	*c = (struct cancelled){ .fn = fn, .arg = arg };
	must(pthread_create(&c->thread, NULL, cancelled_main, c));
	ck_waits(c->tid);
	must(pthread_cancel(c->thread));
}

/* Joins the thread, which must be cancelled after the call.  Returns the call's result. */
static int end_cancelled(struct cancelled *c)
{
	void *ended;

	must(pthread_join(c->thread, &ended));
	ck_assert_msg(c->returned, "the call was a cancellation point");
	ck_assert(ended == PTHREAD_CANCELED);
	return c->ret;
}

/* ---- a completion queue --------------------------------------------------------------- */

static int wait_cq(void *arg)
{
	struct rnl_job *job;

	return rnl_cq_reap(arg, &job, 1, RNL_FOREVER);
}

TEST(a_queue_whose_reader_was_cancelled_has_a_next_reader, .not_simulated = "pthread_cancel()")
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job jobs[2], *reaped;
	struct cancelled c;
	struct rnl_cq *cq;

	must(rnl_cq_create(&cq));
	start_cancelled(&c, wait_cq, cq);
	for (int i = 0; i < 2; i++) {
		job_of(&jobs[i], noop_fn, NULL);
		must(rnl_job_set_cq(&jobs[i], cq));
	}
	must(rnl_submit(pool, &jobs[0]));
	ck_assert_int_eq(end_cancelled(&c), 1);
	must(rnl_submit(pool, &jobs[1]));
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER), 1);
	ck_assert_ptr_eq(reaped, &jobs[1]);
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

/* ---- a stream ------------------------------------------------------------------------- */

struct own_stream {
	struct rnl_pool *pool;
	struct gate *gate;
};

static int wait_stream(void *arg)
{
	struct own_stream *s = arg;
	int ret = rnl_thread_attach(s->pool);

	/* Check's assertions are cancellation points. */
	if (!ret)
		ret = launch_store(s->gate, NULL, 0);
	if (!ret)
		ret = rnl_stream_wait(RNL_FOREVER);
	return ret ? ret : launch_store(NULL, NULL, 0);
}

TEST(a_thread_that_is_cancelled_in_its_stream_leaves_the_stream_whole,
     .not_simulated = "pthread_cancel()")
{
	struct rnl_pool *pool;
	struct gate gate = GATE_INIT;
	struct cancelled c;
	struct rnl_job job;

	skip_unless_host();
	pool = pool_of(1);
	start_cancelled(&c, wait_stream, &(struct own_stream){ pool, &gate });
	gate_await(&gate, 1);
	gate_open(&gate);
	/* The thread detaches when it ends, and so waits for its stream. */
	ck_assert_int_eq(end_cancelled(&c), 0);
	job_of(&job, gated_kernel_fn, &gate);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
}

/* ---- waits, drains, ends -------------------------------------------------------------- */

static int destroy_pool(void *arg)
{
	rnl_pool_destroy(arg);
	return 0;
}

static int wait_job(void *arg)
{
	return rnl_job_wait(arg, RNL_FOREVER);
}

static int wait_barrier(void *arg)
{
	return rnl_barrier_wait(arg, RNL_FOREVER);
}

static int join_barrier(void *arg)
{
	return rnl_barrier_join(arg);
}

static int destroy_cq(void *arg)
{
	rnl_cq_destroy(arg);
	return 0;
}

TEST(waits_drains_resizes_and_ends_return_first, .not_simulated = "pthread_cancel()")
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 2);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], queued[2], late;
	struct cancelled calls[6];
	struct rnl_barrier barrier;

	must(rnl_barrier_init(&barrier, pool));
	for (unsigned i = 0; i < 2; i++)
		job_in(&barrier, &held[i], gated_fn, &gate);
	for (unsigned i = 0; i < 2; i++)
		must(rnl_submit(pool, &held[i]));
	gate_await(&gate, 2);
	for (unsigned i = 0; i < 2; i++)
		submit_job(pool, &queued[i], noop_fn, NULL);
	job_of(&late, noop_fn, NULL);
	start_cancelled(&calls[0], wait_job, &held[0]);
	start_cancelled(&calls[1], wait_barrier, &barrier);
	start_cancelled(&calls[2], join_barrier, &barrier);
	start_cancelled(&calls[3], drain_fn, pool);
	start_cancelled(&calls[4], submit_waiting, &(struct submitting){
				pool, &late, RNL_FOREVER, 0, false });
	start_cancelled(&calls[5], resize_fn, &(struct resize){ pool, 1 });
	gate_open(&gate);
	for (unsigned i = 0; i < COUNT(calls); i++)
		ck_assert_int_eq(end_cancelled(&calls[i]), 0);
	ck_assert_int_eq(result_of(&late), 0);
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &late), 0);
	rnl_pool_destroy(pool);
}

TEST(a_pool_whose_destroyer_was_cancelled_is_destroyed, .not_simulated = "pthread_cancel()")
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct cancelled c;
	struct rnl_job held;

	submit_job(pool, &held, gated_fn, &gate);
	gate_await(&gate, 1);
	start_cancelled(&c, destroy_pool, pool);
	gate_open(&gate);
	must(end_cancelled(&c));
	ck_assert_int_eq(held.result, 0);
}

/* ---- a cancel that is pending ------------------------------------------------------------- */

static int wait_cq_shortly(void *arg)
{
	struct rnl_job *job;

	return rnl_cq_reap(arg, &job, 1, 1);
}

static void *cancelled_first(void *arg)
{
	pthread_cancel(pthread_self());
	return cancelled_main(arg);
}

/* Makes a call with a cancel pending. */
static int with_pending(int (*fn)(void *arg), void *arg)
{
	struct cancelled c = { .fn = fn, .arg = arg };

	must(pthread_create(&c.thread, NULL, cancelled_first, &c));
	return end_cancelled(&c);
}

TEST(a_cancel_that_is_pending_has_its_effect_after_the_call, .not_simulated = "pthread_cancel()")
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job, *reaped;
	struct rnl_cq *cq;

	must(rnl_cq_create(&cq));
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(with_pending(wait_cq_shortly, cq), 0);
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_cq(&job, cq));
	must(rnl_submit(pool, &job));
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER), 1);
	must(with_pending(destroy_cq, cq));
	must(with_pending(drain_fn, pool));
	must(with_pending(destroy_pool, pool));
}

/* A creation; its workers had another priority before, so their threads end. */
struct creation {
	struct rnl_pool *pool;
	struct rnl_class_attr attr;
	struct rnl_class *cls;
};

static int create_class(void *arg)
{
	struct creation *c = arg;

	return rnl_class_create(&c->cls, c->pool, &c->attr);
}

static int destroy_class(void *cls)
{
	rnl_class_destroy(cls);
	return 0;
}

TEST(a_class_with_workers_is_created_and_ended_first, .not_simulated = "pthread_cancel()")
{
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = 2);
	struct rnl_job job;

	for (uint32_t i = 0; i < 4; i++) {
		struct creation c = { .pool = pool, .attr = { .size = sizeof(c.attr), .nr_workers = 2,
							      .stream_priority = i / 2 } };

		must(with_pending(create_class, &c));
		classed_of(&job, c.cls, noop_fn, NULL);
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
		must(with_pending(destroy_class, c.cls));
	}
	rnl_pool_destroy(pool);
}
