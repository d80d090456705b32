/* SPDX-License-Identifier: MIT */
/* Requests with a queue, a callback or a barrier on the resident kernel: a worker spins for them. */
#include <runnel/batch.h>
#include <runnel/stats.h>

#include "answering.h"
#include "cq.h"
#include "heard.h"
#include "threads.h"

#define BYTES 64

enum how { BY_QUEUE, BY_CALLBACK, BY_BARRIER, NR_HOW };

struct asked {
	struct rnl_request request;
	struct rnl_barrier barrier;
	struct rnl_cq *cq;
	struct gate *gate;		/* the callback waits there; NULL: it does not */
	_Atomic bool called;
};

static _Atomic unsigned nr_off_workers;

static void note_call(struct rnl_job *job)
{
	struct asked *asked = job->user;

	nr_off_workers += rnl_worker().index < 0;
	if (asked->gate)
		gate_wait(asked->gate);
	asked->called = true;
}

static struct rnl_batcher *spinning_batcher(struct rnl_pool *pool, struct answering *a, uint32_t spin_us)
{
	struct rnl_batcher_attr attr = answering_attr(a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	struct rnl_batcher *batcher = NULL;

	attr.spin_us = spin_us;
	must(rnl_batcher_create(&batcher, pool, &attr));
	return batcher;
}

static void end(struct rnl_pool *pool, struct rnl_batcher *batcher)
{
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

static void set_how(struct asked *asked, enum how how)
{
	struct rnl_job *job = &asked->request.job;

	if (how == BY_QUEUE)
		must(rnl_job_set_cq(job, asked->cq));
	if (how == BY_CALLBACK)
		must(rnl_job_set_on_done(job, note_call));
	if (how == BY_BARRIER)
		must(rnl_barrier_add(&asked->barrier, job));
}

/* Commits a request that is reported.  This is known before the reserve, or not until after it. */
static void ask_how(struct rnl_pool *pool, struct rnl_batcher *batcher, struct asked *asked, enum how how,
		    uint64_t seed)
{
	asked->called = false;
	request_of(&asked->request, asked);
	must(rnl_barrier_init(&asked->barrier, pool));
	if (seed % 2)
		set_how(asked, how);
	must(rnl_batcher_reserve(batcher, &asked->request, BYTES, RNL_FOREVER));
	if (!(seed % 2))
		set_how(asked, how);
	request_fill(&asked->request, seed);
	must(rnl_request_commit(&asked->request));
}

/* Waits until the request is reported, and checks it. */
static void answer_how(struct asked *asked, enum how how, uint64_t seed)
{
	struct rnl_job *done = NULL;

	if (how == BY_QUEUE) {
		ck_assert_int_eq(rnl_cq_reap(asked->cq, &done, 1, patience_ns()), 1);
		ck_assert_ptr_eq(done, &asked->request.job);
	}
	if (how == BY_BARRIER)
		ck_assert_int_eq(result_of_barrier(&asked->barrier), 0);
	/* Once the callback was called, the request is done. */
	while (how == BY_CALLBACK && !asked->called)
		sched_yield();
	receive(&asked->request, seed, BYTES);
}

/* Sends requests one by one until the resident kernel has answered @nr of them. */
static void ask_until(struct rnl_pool *pool, struct rnl_batcher *batcher, struct asked *asked,
		      enum how how, uint64_t nr)
{
	const uint64_t before = counts_of(batcher).resident;
	const double until = seconds_now() + PATIENCE_S;

	for (uint64_t i = 0; counts_of(batcher).resident < before + nr; i++) {
		ck_assert_msg(seconds_now() < until, "%d of %d reported answers are the resident "
			      "kernel's", (int)(counts_of(batcher).resident - before), (int)nr);
		ask_how(pool, batcher, asked, how, i);
		answer_how(asked, how, i);
	}
}

TEST(reported_requests_are_answered_while_a_worker_spins)
{
	struct asked asked = { .cq = NULL };
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;
	unsigned before;

	skip_unless_answering();
	asked.cq = cq_of();
	for (unsigned nr_workers = 1; nr_workers <= 3; nr_workers += 2) {
		pool = answering_pool(nr_workers, &a);
		batcher = spinning_batcher(pool, a, 1000);
		before = answering_nr();
		for (enum how how = BY_QUEUE; how < NR_HOW; how++)
			ask_until(pool, batcher, &asked, how, 20);
		ck_assert_uint_eq(counts_of(batcher).failed, 0);
		ck_assert_uint_eq(answering_nr() - before, counts_of(batcher).requests);
		end(pool, batcher);
	}
	ck_assert_uint_eq(nr_off_workers, 0);
	rnl_cq_destroy(asked.cq);
}

TEST(results_are_reported)
{
	struct asked asked = { .cq = NULL };
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = spinning_batcher(pool, a, 1000);
	for (unsigned i = 0; i < 20; i++) {
		ask_until(pool, batcher, &asked, BY_BARRIER, 1);
		a->result = -ERANGE;
		ask_how(pool, batcher, &asked, BY_BARRIER, i);
		ck_assert_int_eq(result_of_barrier(&asked.barrier), -ERANGE);
		ck_assert_int_eq(result_of(&asked.request.job), -ERANGE);
		ck_assert_int_eq(wrong_byte(&asked.request, i, BYTES), -1);
		must(rnl_request_release(&asked.request));
		a->result = 0;
	}
	ck_assert_uint_eq(counts_of(batcher).failed, 20);
	end(pool, batcher);
}

/* Each time after the resident kernel has begun to answer. */
TEST(without_a_time_to_spin_reported_requests_go_in_batches)
{
	struct asked asked = { .cq = NULL };
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;
	uint64_t resident;

	skip_unless_answering();
	asked.cq = cq_of();
	pool = answering_pool(2, &a);
	batcher = spinning_batcher(pool, a, 0);
	for (unsigned i = 0; i < 20 * NR_HOW; i++) {
		ask_until_resident(batcher, BYTES, BYTES, 1);
		resident = counts_of(batcher).resident;
		ask_how(pool, batcher, &asked, i % NR_HOW, i);
		answer_how(&asked, i % NR_HOW, i);
		ck_assert_uint_eq(counts_of(batcher).resident, resident);
	}
	end(pool, batcher);
	rnl_cq_destroy(asked.cq);
}

/* The spinning worker is in the callback of the first request. */
TEST(requests_whose_spinner_has_other_work_are_ended_by_another_worker)
{
	struct asked first = { .cq = NULL }, second = { .cq = NULL };
	struct gate gate;
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;
	uint64_t resident = 0;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	second.cq = cq_of();
	batcher = spinning_batcher(pool, a, 10000);
	/* Until both are answered by the resident kernel. */
	for (unsigned i = 0; counts_of(batcher).resident < resident + 2; i++) {
		ask_until(pool, batcher, &second, BY_QUEUE, 1);
		resident = counts_of(batcher).resident;
		gate = (struct gate)GATE_INIT;
		first.gate = &gate;
		ask_how(pool, batcher, &first, BY_CALLBACK, i);
		gate_await(&gate, 1);
		ask_how(pool, batcher, &second, BY_QUEUE, i);
		answer_how(&second, BY_QUEUE, i);
		ck_assert(!first.called);
		gate_open(&gate);
		answer_how(&first, BY_CALLBACK, i);
	}
	end(pool, batcher);
	rnl_cq_destroy(second.cq);
}

struct asker {
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;
	enum how how;
	unsigned nr;			/* requests; 0: until `over` */
	_Atomic bool over;
};

static void *ask_on(void *arg)
{
	struct asker *asker = arg;
	struct asked asked = { .cq = cq_of() };

	for (unsigned i = 0; asker->nr ? i < asker->nr : !asker->over; i++) {
		const enum how how = (asker->how + i / 16) % NR_HOW;

		ask_how(asker->pool, asker->batcher, &asked, how, i);
		answer_how(&asked, how, i);
	}
	rnl_cq_destroy(asked.cq);
	return NULL;
}

TEST(a_worker_stops_spinning_for_a_job)
{
	struct asker asker = { .how = BY_QUEUE };
	struct answering *a;
	struct rnl_job job;
	pthread_t thread;

	skip_unless_answering();
	asker.pool = answering_pool(1, &a);
	asker.batcher = spinning_batcher(asker.pool, a, 10000);
	must(pthread_create(&thread, NULL, ask_on, &asker));
	for (unsigned i = 0; i < 100; i++) {
		ck_eventually(counts_of(asker.batcher).resident > i);
		submit_job(asker.pool, &job, noop_fn, NULL);
		ck_assert_int_eq(result_of(&job), 0);
	}
	asker.over = true;
	must(pthread_join(thread, NULL));
	end(asker.pool, asker.batcher);
}

/* A batch is a job, and so is what the keeper asks for if no worker spins. */
TEST(a_request_that_a_worker_spins_for_needs_no_job)
{
	struct asked asked = { .cq = NULL };
	const double until = seconds_now() + PATIENCE_S;
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;
	uint64_t resident, jobs;

	skip_unless_answering();
	asked.cq = cq_of();
	pool = answering_pool(2, &a);
	batcher = spinning_batcher(pool, a, 1000);
	for (uint64_t i = 0;; i++) {
		ck_assert(seconds_now() < until);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		resident = counts_of(batcher).resident;
		jobs = figures_of(pool).accepted;
		ask_how(pool, batcher, &asked, BY_QUEUE, i);
		answer_how(&asked, BY_QUEUE, i);
		if (counts_of(batcher).resident > resident && figures_of(pool).accepted == jobs)
			break;
	}
	end(pool, batcher);
	rnl_cq_destroy(asked.cq);
}

TEST(a_worker_sleeps_when_no_request_comes)
{
	struct asked asked = { .cq = NULL };
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;
	uint64_t before;

	skip_unless_answering();
	pool = answering_pool(1, &a);
	batcher = spinning_batcher(pool, a, 2000);
	for (unsigned i = 0; i < 5; i++) {
		/* From the second time on it has spun since it last slept. */
		before = figures_of(pool).slept;
		ask_until(pool, batcher, &asked, BY_CALLBACK, 1);
		ck_eventually(figures_of(pool).slept > before);
	}
	end(pool, batcher);
}

TEST(a_destroy_ends_the_spinning)
{
	struct asked asked = { .cq = NULL }, more[3];
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;

	skip_unless_answering();
	for (unsigned i = 0; i < 20; i++) {
		pool = answering_pool(1 + i % 2, &a);
		batcher = spinning_batcher(pool, a, 10000);
		ask_until(pool, batcher, &asked, BY_CALLBACK, 1);
		for (unsigned j = 0; j < i % 4; j++) {
			more[j].gate = NULL;
			ask_how(pool, batcher, &more[j], i / 4 % 2 ? BY_CALLBACK : BY_BARRIER, j);
		}
		if (i % 3 == 1)
			must(rnl_pool_close(pool));
		if (i % 3 == 2)
			must(rnl_pool_drain(pool, RNL_FOREVER));
		rnl_batcher_destroy(batcher);
		for (unsigned j = 0; j < i % 4; j++)
			ck_assert_int_eq(rnl_job_wait(&more[j].request.job, 0), 0);
		rnl_pool_destroy(pool);
	}
}

#define NR_THREADS 4
#define NR_EACH 200

/* Two batchers, so two workers spin at times. */
TEST(each_reported_request_is_executed_once, .timeout_s = 60)
{
	struct rnl_batcher *batchers[2];
	pthread_t threads[NR_THREADS];
	struct asker askers[NR_THREADS];
	struct answering *a;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	for (unsigned i = 0; i < COUNT(batchers); i++)
		batchers[i] = spinning_batcher(pool, a, 100 + 1000 * i);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		askers[i] = (struct asker){ pool, batchers[i % 2], i % NR_HOW, NR_EACH, false };
		must(pthread_create(&threads[i], NULL, ask_on, &askers[i]));
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		must(pthread_join(threads[i], NULL));
	ck_assert_uint_eq(answering_nr(), NR_THREADS * NR_EACH);
	ck_assert_uint_eq(counts_of(batchers[0]).requests + counts_of(batchers[1]).requests,
			  NR_THREADS * NR_EACH);
	ck_assert_uint_eq(nr_off_workers, 0);
	rnl_batcher_destroy(batchers[0]);
	end(pool, batchers[1]);
}

TEST(wrong_times_to_spin_are_refused)
{
	struct rnl_pool_attr pool_attr = RNL_POOL_ATTR_INIT;
	struct rnl_batcher *batcher = NULL;
	struct rnl_batcher_attr attr;
	struct rnl_pool *pool;
	struct heard heard;

	skip_unless_kernels();
	hear(&heard, &pool_attr);
	pool = pool_with(&pool_attr, 1);
	attr = answering_attr(NULL, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	attr.spin_us = 10001;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &attr), -EINVAL);
	ck_assert_msg(has_heard(&heard, "spin_us is 10001; it must be 0 to 10000"), "%s", heard.text);
	attr = answering_attr(NULL, 0, BYTES, BYTES);
	attr.spin_us = 1;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &attr), -EINVAL);
	ck_assert_msg(has_heard(&heard, "spin_us is 1, and flags lack RNL_BATCHER_RESIDENT"), "%s",
		      heard.text);
	attr.spin_us = 0;
	attr.flags = 1u << 30;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &attr), -EINVAL);
	ck_assert_msg(has_heard(&heard, "flags is 0x40000000; 0x40000000 of that is not known"), "%s", heard.text);
	attr.flags = 0;
	attr.nr_mailboxes = 2;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &attr), -EINVAL);
	ck_assert_msg(has_heard(&heard, "nr_mailboxes is 2, and flags lack RNL_BATCHER_RESIDENT"), "%s",
		      heard.text);
	ck_assert_ptr_null(batcher);
	rnl_pool_destroy(pool);
}
