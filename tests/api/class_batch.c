/* SPDX-License-Identifier: MIT */
/* Batchers of a class: its rules are for their batches, a full class does not stop them. */
#include <sched.h>

#include "batch.h"
#include "classed.h"
#include "heard.h"
#include "places.h"
#include "record.h"

#define BYTES 64u

static struct rnl_batcher *batcher_in(struct rnl_pool *pool, struct kind *kind, struct rnl_class *cls)
{
	*kind = kind_of(0, BYTES, BYTES);
	kind->attr.cls = cls;
	return batcher_of(pool, kind);
}

/* ---- a class's rules -------------------------------------------------------- */

static int note_batch(const struct rnl_batch *batch)
{
	struct noted *n = batch->arg;

	note(n->record, n->id);
	return 0;
}

TEST(batches_start_by_the_priority_of_their_class)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct noted noted[7];
	struct rnl_batcher *batchers[2];
	struct rnl_request requests[2];
	struct rnl_job held;

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < 2; i++) {
		struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;

		noted_of(&noted[i], &record, i);
		attr.fn = note_batch;
		attr.arg = &noted[i];
		attr.in_bytes = BYTES;
		attr.cls = class_of(pool, .priority = i ? -4 : 3, .floor_permille = i ? 0 : RNL_CLASS_NO_FLOOR);
		must(rnl_batcher_create(&batchers[i], pool, &attr));
		request_of(&requests[i], NULL);
		send(batchers[i], &requests[i], BYTES, 0);
	}
	for (int i = 2; i < 7; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_submit(pool, &noted[i].job));
	}
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, 7);
	/* The own class has a floor of 1 %, which may put one of its jobs first. */
	ck_assert_int_le(place_of(&record, 1), 1);
	ck_assert_int_eq(place_of(&record, 0), 6);
	for (int i = 0; i < 2; i++)
		rnl_batcher_destroy(batchers[i]);
	rnl_pool_destroy(pool);
}

TEST(max_jobs_of_a_class_is_for_its_batches)
{
	struct rnl_pool *pool = pool_of(3);
	struct rnl_class *cls = class_of(pool, .max_jobs = 1);
	struct gate gate = GATE_INIT;
	struct rnl_request requests[3];
	struct rnl_batcher *batcher;
	struct kind kind;
	struct rnl_job job;

	batcher = batcher_in(pool, &kind, cls);
	kind.gate = &gate;
	for (unsigned i = 0; i < 3; i++) {
		request_of(&requests[i], NULL);
		send(batcher, &requests[i], BYTES, i);
		gate_await(&gate, 1);
	}
	ck_assert_uint_eq(stats_of(cls).started, 1);
	ck_assert_uint_eq(stats_of(cls).queued, 1);
	submit_job(pool, &job, noop_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_uint_eq(kind.nr_calls, 1);
	gate_open(&gate);
	for (unsigned i = 0; i < 3; i++)
		receive(&requests[i], i, BYTES);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

static int note_worker(const struct rnl_batch *batch)
{
	*(_Atomic int *)batch->arg = rnl_worker().index;
	return 0;
}

TEST(a_class_runs_its_batches_on_its_own_workers)
{
	struct rnl_pool *pool = pool_of(2, .nr_class_workers = 1);
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct gate gate = GATE_INIT;
	_Atomic int worker = -1;
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_job held[2];

	attr.fn = note_worker;
	attr.arg = &worker;
	attr.in_bytes = BYTES;
	attr.cls = class_of(pool, .nr_workers = 1);
	must(rnl_batcher_create(&batcher, pool, &attr));
	hold_workers(pool, &gate, held, 2);
	request_of(&request, NULL);
	send(batcher, &request, BYTES, 0);
	ck_assert_int_eq(result_of(&request.job), 0);
	ck_assert_int_eq(worker, 0);
	gate_open(&gate);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(no_deadline_of_a_class_expires_a_batch_and_admission_refuses_none, .loops = 2)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .deadline_ns = 1, .flags = _i ? RNL_CLASS_ADMIT : 0,
					 .order = RNL_CLASS_DEADLINE);
	struct gate gate = GATE_INIT;
	struct rnl_request requests[NR_ALL];
	struct rnl_batcher *batcher;
	struct rnl_job held, job;
	struct kind kind;
	int ret;

	batcher = batcher_in(pool, &kind, cls);
	/* The class learns what a batch takes. */
	for (unsigned i = 0; i < 5; i++) {
		request_of(&requests[i], NULL);
		send(batcher, &requests[i], BYTES, i);
		receive(&requests[i], i, BYTES);
	}
	hold_workers(pool, &gate, &held, 1);
	for (unsigned i = 0; i < NR_ALL; i++) {
		request_of(&requests[i], NULL);
		send(batcher, &requests[i], BYTES, i);
	}
	classed_of(&job, cls, noop_fn, NULL);
	ret = rnl_submit(pool, &job);
	ck_assert(!ret || (_i && ret == -ETIME));
	gate_open(&gate);
	for (unsigned i = 0; i < NR_ALL; i++)
		receive(&requests[i], i, BYTES);
	if (!ret)
		ck_assert_int_eq(result_of(&job), -ETIMEDOUT);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(stats_of(cls).expired, !ret);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* ---- a full class ------------------------------------------------------------ */

TEST(a_full_class_does_not_stop_its_batches)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .max_queued = 6);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], jobs[7];
	struct rnl_request requests[NR_ALL];
	struct rnl_batcher *batcher, *none;
	struct kind kind, second;
	uint64_t pinned;

	batcher = batcher_in(pool, &kind, cls);
	hold_workers(pool, &gate, held, 2);
	/* The batcher has a place for each of its four batches. */
	ck_assert_uint_eq(fill_class(pool, cls, jobs, 3), 2);
	second = kind_of(0, BYTES, BYTES);
	second.attr.fn = kind_fn;
	second.attr.cls = cls;
	pinned = figures_of(pool).pinned_used;
	ck_assert_int_eq(rnl_batcher_create(&none, pool, &second.attr), -EAGAIN);
	ck_assert_uint_eq(figures_of(pool).pinned_used, pinned);
	for (unsigned i = 0; i < NR_ALL; i++) {
		request_of(&requests[i], NULL);
		send(batcher, &requests[i], BYTES, i);
	}
	gate_open(&gate);
	for (unsigned i = 0; i < NR_ALL; i++)
		receive(&requests[i], i, BYTES);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_batcher_destroy(batcher);
	/* It has given its places back. */
	gate = (struct gate)GATE_INIT;
	hold_workers(pool, &gate, held, 2);
	ck_assert_uint_eq(fill_class(pool, cls, jobs, 7), 6);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

struct flood {
	struct rnl_pool *pool;
	struct rnl_job jobs[16];
	_Atomic bool ends;
};

static void flood_done(struct rnl_job *job)
{
	struct flood *flood = job->user;

	if (!flood->ends)
		(void)rnl_submit(flood->pool, job);
}

TEST(batches_are_done_in_a_class_that_is_always_full, .timeout_s = 60)
{
	enum { ROUNDS = 40 };
	static struct flood flood;
	struct rnl_request requests[NR_ALL];
	struct rnl_batcher *batcher;
	struct rnl_class *cls;
	struct kind kind;

	flood = (struct flood){ .pool = pool_of(2) };
	cls = class_of(flood.pool, .max_queued = 6);
	batcher = batcher_in(flood.pool, &kind, cls);
	for (unsigned i = 0; i < COUNT(flood.jobs); i++) {
		classed_of(&flood.jobs[i], cls, noop_fn, &flood);
		must(rnl_job_set_on_done(&flood.jobs[i], flood_done));
		(void)rnl_submit(flood.pool, &flood.jobs[i]);
	}
	for (unsigned i = 0; i < NR_ALL; i++)
		request_of(&requests[i], NULL);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < NR_ALL; i++)
			send(batcher, &requests[i], BYTES, round + i);
		for (unsigned i = 0; i < NR_ALL; i++)
			receive(&requests[i], round + i, BYTES);
	}
	flood.ends = true;
	must(rnl_pool_drain(flood.pool, RNL_FOREVER));
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(flood.pool);
}

TEST(a_batcher_of_a_class_has_a_place_for_each_batch_on_each_device, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_over_of(2, 1);
	struct rnl_request requests[NR_ALL];
	struct rnl_batcher *batcher;
	struct kind kind;

	skip_if_alone(pool);
	batcher = batcher_in(pool, &kind, class_of(pool, .max_queued = 4));
	for (unsigned i = 0; i < NR_ALL; i++)
		request_of(&requests[i], NULL);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < NR_ALL; i++)
			send(batcher, &requests[i], BYTES, round + i);
		for (unsigned i = 0; i < NR_ALL; i++)
			receive(&requests[i], round + i, BYTES);
	}
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* ---- the end of a class -------------------------------------------------------- */

static int destroy_fn(void *arg)
{
	rnl_class_destroy(arg);
	return 0;
}

struct reserves {
	struct rnl_batcher *batcher;
	struct rnl_request request;
};

static int reserve_fn(void *arg)
{
	struct reserves *r = arg;

	return rnl_batcher_reserve(r->batcher, &r->request, BYTES, RNL_FOREVER);
}

TEST(a_class_without_places_for_all_batches_is_refused_with_the_reason)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct rnl_batcher *batcher = NULL;
	struct rnl_pool *pool;
	struct heard heard;

	hear(&heard, &attr);
	pool = pool_with(&attr, 1);
	kind.attr.cls = class_of(pool, .max_queued = 2);
	kind.attr.max_in_flight = 3;
	kind.attr.fn = kind_fn;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &kind.attr), -EAGAIN);
	ck_assert_msg(has_heard(&heard, "the class has no place for batch 3 of 3"), "%s", heard.text);
	kind.attr.max_in_flight = 2;
	batcher = batcher_of(pool, &kind);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(the_end_of_a_class_waits_for_committed_requests_and_refuses_others)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_request requests[4];
	struct reserves waiting;
	struct rnl_batcher *batcher;
	struct rnl_pool *pool;
	struct rnl_class *cls;
	struct heard heard;
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct call call, reserves;

	hear(&heard, &attr);
	attr.stuck_ms = 1000000;	/* after it, who waits looks again */
	pool = pool_with(&attr, 1);
	cls = class_of(pool);
	kind.attr.cls = cls;
	kind.attr.slab_bytes = 2 * BYTES;
	kind.attr.nr_slabs = kind.attr.max_slabs = 2;
	kind.gate = &gate;
	batcher = batcher_of(pool, &kind);
	for (unsigned i = 0; i < 4; i++) {
		request_of(&requests[i], NULL);
		reserve(batcher, &requests[i], BYTES);
		request_fill(&requests[i], i);
	}
	must(rnl_request_commit(&requests[0]));
	gate_await(&gate, 1);
	must(rnl_request_commit(&requests[1]));
	waiting.batcher = batcher;
	request_of(&waiting.request, NULL);
	call_start(&reserves, reserve_fn, &waiting);
	ck_waits(reserves.tid);
	call_start(&call, destroy_fn, cls);
	/* One that waited for space is refused, though there is none. */
	ck_assert_int_eq(call_end(&reserves), -EINVAL);
	ck_waits(call.tid);
	ck_assert(has_heard(&heard, "rnl_batcher_reserve(): request"));
	heard.bytes = 0;
	ck_assert_int_eq(rnl_request_commit(&requests[2]), -EINVAL);
	ck_assert(has_heard(&heard, "rnl_request_commit(): request"));
	ck_assert(has_heard(&heard, "has a batcher whose class has ended, by rnl_class_destroy()"));
	must(rnl_request_release(&requests[2]));
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(rnl_job_wait(&requests[1].job, 0), 0);
	receive(&requests[0], 0, BYTES);
	receive(&requests[1], 1, BYTES);
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &requests[0], BYTES, 0), -EINVAL);
	ck_assert_int_eq(rnl_request_commit(&requests[3]), -EINVAL);
	must(rnl_request_release(&requests[3]));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(a_batcher_of_a_class_that_has_ended_takes_no_place_of_the_next_one)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *first = class_of(pool, .max_queued = 8), *next;
	struct gate gate = GATE_INIT;
	struct rnl_request request, cancelled;
	struct rnl_batcher *batcher;
	struct rnl_job held, jobs[9];
	struct kind kind;

	batcher = batcher_in(pool, &kind, first);
	request_of(&request, NULL);
	request_of(&cancelled, NULL);
	reserve(batcher, &request, BYTES);
	reserve(batcher, &cancelled, BYTES);
	rnl_class_destroy(first);
	next = class_of(pool, .max_queued = 8);
	ck_assert_ptr_eq(next, first);	/* in the same place */
	hold_workers(pool, &gate, &held, 1);
	ck_assert_uint_eq(fill_class(pool, next, jobs, 9), 8);
	must(rnl_request_release(&cancelled));
	ck_assert_int_eq(rnl_request_commit(&request), -EINVAL);
	rnl_batcher_destroy(batcher);
	ck_assert_uint_eq(fill_class(pool, next, &jobs[8], 1), 0);
	ck_assert_uint_eq(stats_of(next).queued, 8);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(stats_of(next).done, 8);
	rnl_pool_destroy(pool);
}

/* Producers commit until the class ends. */
struct producer {
	pthread_t thread;
	struct rnl_batcher *batcher;
	struct rnl_request requests[8];
	_Atomic unsigned committed;
	_Atomic int ret;
};

static void *producer_main(void *arg)
{
	struct producer *p = arg;
	unsigned i = 0;

	for (p->ret = 0; !p->ret; i = (i + 1) % COUNT(p->requests)) {
		struct rnl_request *request = &p->requests[i];

		if (p->committed >= COUNT(p->requests)) {
			ck_assert_int_eq(result_of(&request->job), 0);
			must(rnl_request_release(request));
		}
		p->ret = rnl_batcher_reserve(p->batcher, request, BYTES, RNL_FOREVER);
		if (p->ret)
			break;
		memset(request->in, 0, BYTES);
		p->ret = rnl_request_commit(request);
		p->committed += !p->ret;
	}
	return NULL;
}

static void hear_nothing(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

TEST(no_request_is_lost_when_a_class_ends, .loops = 20, .timeout_s = 60)
{
	enum { PRODUCERS = 2 };
	static struct producer producers[PRODUCERS];
	struct rnl_pool *pool = pool_of(2, .log = hear_nothing);
	struct rnl_class *cls = class_of(pool, .max_queued = 4);
	struct rnl_batcher *batcher;
	struct kind kind;

	batcher = batcher_in(pool, &kind, cls);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		struct producer *p = &producers[i];

		*p = (struct producer){ .batcher = batcher };
		for (unsigned k = 0; k < COUNT(p->requests); k++)
			request_of(&p->requests[k], p);
		must(pthread_create(&p->thread, NULL, producer_main, p));
	}
	while (producers[0].committed + producers[1].committed < (unsigned)_i * 3)
		sched_yield();
	rnl_class_destroy(cls);
	/* What was accepted is done. */
	for (unsigned i = 0; i < PRODUCERS; i++) {
		must(pthread_join(producers[i].thread, NULL));
		ck_assert_int_eq(producers[i].ret, -EINVAL);
		for (unsigned k = 0; k < COUNT(producers[i].requests) && k < producers[i].committed; k++) {
			ck_assert_int_eq(rnl_job_wait(&producers[i].requests[k].job, 0), 0);
			ck_assert_int_eq(producers[i].requests[k].job.result, 0);
		}
	}
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(a_class_of_another_pool_or_one_that_has_ended_is_refused)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *other = pool_of(1), *pool;
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct rnl_batcher *batcher = NULL;
	struct heard heard;

	hear(&heard, &attr);
	pool = pool_with(&attr, 1);
	kind.attr.fn = kind_fn;
	kind.attr.cls = class_of(other);
	for (int i = 0; i < 2; i++) {
		heard.bytes = 0;
		ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &kind.attr), -EINVAL);
		ck_assert_ptr_null(batcher);
		ck_assert(has_heard(&heard, "rnl_batcher_create(): cls is of another pool, or has "
					    "ended"));
		kind.attr.cls = class_of(pool);
		rnl_class_destroy(kind.attr.cls);
	}
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}

TEST(batches_of_a_class_end_with_their_pool, .loops = 2)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .per_second = _i ? 0 : 1);
	struct rnl_request requests[NR_ALL];
	struct rnl_batcher *batcher;
	struct kind kind;

	batcher = batcher_in(pool, &kind, cls);
	for (unsigned i = 0; i < NR_ALL; i++) {
		request_of(&requests[i], NULL);
		send(batcher, &requests[i], BYTES, i);
	}
	if (_i)
		must(rnl_pool_close(pool));
	else
		(void)rnl_pool_stop(pool, RNL_FOREVER);
	for (unsigned i = 0; i < NR_ALL; i++)
		receive(&requests[i], i, BYTES);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}
