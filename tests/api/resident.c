/* SPDX-License-Identifier: MIT */
/* Request kernels, and requests that a resident one answers. */
#include <runnel/batch.h>
#include <runnel/class.h>
#include <runnel/trace.h>

#include "answering.h"
#include "cq.h"
#include "threads.h"
#include "trace.h"

#define BYTES 64

static void end(struct rnl_pool *pool, struct rnl_batcher *batcher)
{
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(a_request_kernel_runs_batches)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_pool *pool;
	unsigned before;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	before = answering_nr();
	for (unsigned variable = 0; variable < 2; variable++) {
		batcher = answering_batcher(pool, a, variable ? RNL_BATCHER_VARIABLE : 0, BYTES, 100);
		for (unsigned i = 0; i < 100; i++)
			ask(batcher, variable ? 1 + i % BYTES : BYTES, 100, i);
		a->result = 7;
		{
			struct rnl_request request;

			request_of(&request, NULL);
			send(batcher, &request, BYTES, 1);
			ck_assert_int_eq(result_of(&request.job), 7);
			must(rnl_request_release(&request));
		}
		a->result = 0;
		ck_assert_uint_eq(counts_of(batcher).resident, 0);
		ck_assert_uint_eq(counts_of(batcher).leases, 0);
		rnl_batcher_destroy(batcher);
	}
	ck_assert_uint_eq(answering_nr() - before, 202);
	rnl_pool_destroy(pool);
}

TEST(lone_requests_are_answered_by_the_resident_kernel)
{
	static const size_t sizes[][2] = {
		{ 1, 1 }, { 12, 12 }, { 13, 11 }, { 64, 0 }, { 100, 500 }, { 4096, 4096 },
		{ 12288, 12 },
	};
	struct answering *a;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	for (unsigned i = 0; i < 2 * COUNT(sizes); i++) {
		const size_t in = sizes[i / 2][0], out = sizes[i / 2][1];
		struct rnl_batcher *batcher = answering_batcher(
			pool, a, RNL_BATCHER_RESIDENT | (i % 2 ? RNL_BATCHER_VARIABLE : 0), in, out);
		struct rnl_batcher_stats stats;
		unsigned before;

		before = answering_nr();
		/* Large ones hardly follow each other closely under a sanitizer. */
		ask_until_resident(batcher, in, out, in + out > 600 ? 3 : 30);
		stats = counts_of(batcher);
		ck_assert_uint_eq(answering_nr() - before, stats.requests);
		ck_assert_uint_ge(stats.leases, 1);
		ck_assert_uint_eq(stats.failed, 0);
		rnl_batcher_destroy(batcher);
	}
	rnl_pool_destroy(pool);
}

/* Sends a request while the resident kernel answers. */
static void send_to_resident(struct rnl_batcher *batcher, struct rnl_request *request)
{
	ask_until_resident(batcher, BYTES, BYTES, 1);
	request_of(request, NULL);
	send(batcher, request, BYTES, 5);
}

TEST(results_of_the_function_are_those_of_the_requests)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	for (int i = 0; i < 20; i++) {
		send_to_resident(batcher, &request);
		must(rnl_job_wait(&request.job, RNL_FOREVER));
		must(rnl_request_release(&request));
		a->result = i % 2 ? 9 : -ERANGE;
		request_of(&request, NULL);
		send(batcher, &request, BYTES, 1);
		ck_assert_int_eq(result_of(&request.job), a->result);
		ck_assert_int_eq(wrong_byte(&request, 1, BYTES), -1);
		must(rnl_request_release(&request));
		a->result = 0;
	}
	ck_assert_uint_eq(counts_of(batcher).failed, 10);
	end(pool, batcher);
}

static _Atomic unsigned nr_called;

/* The job is done before, and may be in use again. */
static void count_call(struct rnl_job *job)
{
	(void)job;
	nr_called++;
}

TEST(queues_callbacks_and_barriers_report_requests)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_barrier barrier;
	struct rnl_pool *pool;
	struct rnl_cq *cq;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	must(rnl_cq_create(&cq));
	for (unsigned i = 0; i < 30; i++) {
		struct rnl_job *done = NULL;

		ask_until_resident(batcher, BYTES, BYTES, 1);
		request_of(&request, NULL);
		reserve(batcher, &request, BYTES);
		request_fill(&request, i);
		/* Set after the reserve, which may have taken a mailbox. */
		must(rnl_barrier_init(&barrier, pool));
		if (i % 3 == 0)
			must(rnl_job_set_cq(&request.job, cq));
		if (i % 3 == 1)
			must(rnl_job_set_on_done(&request.job, count_call));
		if (i % 3 == 2)
			must(rnl_barrier_add(&barrier, &request.job));
		must(rnl_request_commit(&request));
		if (i % 3 == 0) {
			ck_assert_int_eq(rnl_cq_reap(cq, &done, 1, RNL_FOREVER), 1);
			ck_assert_ptr_eq(done, &request.job);
		}
		if (i % 3 == 2)
			ck_assert_int_eq(result_of_barrier(&barrier), 0);
		receive(&request, i, BYTES);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(nr_called, 10);
	rnl_cq_destroy(cq);
	end(pool, batcher);
}

TEST(a_request_that_nobody_waits_for_is_done)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	for (unsigned i = 0; i < 30; i++) {
		send_to_resident(batcher, &request);
		if (i % 3 == 0)
			ck_eventually(!rnl_request_release(&request));
		if (i % 3 == 1)
			must(rnl_pool_drain(pool, RNL_FOREVER));
		if (i % 3 == 2)
			ck_eventually(!rnl_job_wait(&request.job, 0));
		if (i % 3)
			receive(&request, 5, BYTES);
	}
	end(pool, batcher);
}

TEST(a_destroy_ends_what_is_under_way)
{
	struct rnl_request requests[3];
	struct answering *a;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	for (unsigned i = 0; i < 20; i++) {
		struct rnl_batcher *batcher =
			answering_batcher(pool, a, RNL_BATCHER_RESIDENT, BYTES, BYTES);

		for (unsigned j = 0; j < COUNT(requests); j++)
			send_to_resident(batcher, &requests[j]);
		rnl_batcher_destroy(batcher);
		for (unsigned j = 0; j < COUNT(requests); j++)
			ck_assert_int_eq(rnl_job_wait(&requests[j].job, 0), 0);
	}
	rnl_pool_destroy(pool);
}

/* Each lease takes 0.2 ms. */
TEST(leases_end_when_requests_come_seldom)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_pool *pool;
	uint64_t leases;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	for (unsigned i = 0; i < 3; i++) {
		ask_until_resident(batcher, BYTES, BYTES, 3);
		usleep(1000);
		/* Two may follow on a busy machine, whose keeper has decided so before. */
		leases = counts_of(batcher).leases + 2;
		for (unsigned k = 0; k < 20; k++) {
			ask(batcher, BYTES, BYTES, k);
			usleep(2000);	/* the time between requests; no order depends on it */
		}
		ck_assert_uint_le(counts_of(batcher).leases, leases);
	}
	end(pool, batcher);
}

/* ---- many threads ---------------------------------------------------------- */

#define NR_THREADS 4
#define NR_EACH 400

struct asking {
	struct rnl_batcher *batcher;
	unsigned seed;
};

static void *ask_many(void *arg)
{
	const struct asking *asking = arg;
	struct rnl_request requests[2];
	unsigned seed = asking->seed;

	for (unsigned i = 0; i < NR_EACH; i++) {
		const size_t bytes = 1 + (seed + i * 37) % BYTES;

		for (unsigned j = 0; j < 1 + i % 2; j++) {
			request_of(&requests[j], NULL);
			must(rnl_batcher_reserve(asking->batcher, &requests[j], bytes, RNL_FOREVER));
			if (i % 50 == 49) {
				must(rnl_request_release(&requests[j]));
				requests[j].job.user = &requests;
				continue;
			}
			request_fill(&requests[j], seed + i + j);
			must(rnl_request_commit(&requests[j]));
		}
		for (unsigned j = 0; j < 1 + i % 2; j++)
			if (!requests[j].job.user)
				receive(&requests[j], seed + i + j, BYTES);
	}
	return NULL;
}

TEST(each_request_is_executed_once, .timeout_s = 40)
{
	const unsigned nr_requests = NR_THREADS * (NR_EACH + NR_EACH / 2 - NR_EACH / 50 * 2);
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_batcher_stats stats;
	pthread_t threads[NR_THREADS];
	struct asking asking[NR_THREADS];
	struct rnl_pool *pool;
	unsigned before;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	before = answering_nr();
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT | RNL_BATCHER_VARIABLE, BYTES, BYTES);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		asking[i] = (struct asking){ batcher, i * 10000 };
		must(pthread_create(&threads[i], NULL, ask_many, &asking[i]));
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		must(pthread_join(threads[i], NULL));
	stats = counts_of(batcher);
	ck_assert_uint_eq(stats.requests, nr_requests);
	ck_assert_uint_eq(answering_nr() - before, nr_requests);
	ck_assert_uint_eq(stats.failed, 0);
	end(pool, batcher);
}

/* Without output there is no cell: a release names only its own mailbox. */
TEST(requests_without_output_keep_their_mailboxes)
{
	struct rnl_request held[3], request;
	struct rnl_batcher *batcher;
	struct answering *a;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT, BYTES, 0);
	for (unsigned i = 0; i < 200; i++) {
		ask_until_resident(batcher, BYTES, 0, 1);
		/* These have mailboxes, if there are any; the reported one goes in a batch meanwhile. */
		for (unsigned j = 0; j < COUNT(held); j++) {
			request_of(&held[j], NULL);
			reserve(batcher, &held[j], BYTES);
		}
		request_of(&request, NULL);
		must(rnl_job_set_on_done(&request.job, count_call));
		send(batcher, &request, BYTES, i);
		receive(&request, i, 0);
		for (unsigned j = 0; j < COUNT(held); j++) {
			for (unsigned k = 0; k < j; k++)
				ck_assert_ptr_ne(held[j].in, held[k].in);
			request_fill(&held[j], i + j);
			must(rnl_request_commit(&held[j]));
		}
		for (unsigned j = 0; j < COUNT(held); j++)
			receive(&held[j], i + j, 0);
	}
	end(pool, batcher);
}

/* ---- traces ---------------------------------------------------------------- */

/* Creates a batcher with a resident kernel, and its class, called "lone". */
static struct rnl_batcher *classed_batcher(struct rnl_pool *pool, struct answering *a,
					   struct rnl_class **clsp)
{
	struct rnl_class_attr class_attr = RNL_CLASS_ATTR_INIT;
	struct rnl_batcher_attr attr = answering_attr(a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	struct rnl_batcher *batcher = NULL;

	class_attr.name = "lone";
	must(rnl_class_create(clsp, pool, &class_attr));
	attr.cls = *clsp;
	must(rnl_batcher_create(&batcher, pool, &attr));
	return batcher;
}

TEST(a_trace_has_the_answered_requests, .setup = set_path, .teardown = remove_file)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_class *cls;
	struct rnl_pool *pool;
	uint64_t before, nr;
	char *text;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = classed_batcher(pool, a, &cls);
	ask_until_resident(batcher, BYTES, BYTES, 3);
	before = counts_of(batcher).resident;
	must(rnl_trace_start(pool, path, NULL));
	ask_until_resident(batcher, BYTES, BYTES, 10);
	nr = counts_of(batcher).resident - before;
	rnl_batcher_destroy(batcher);
	must(rnl_trace_stop(pool));
	text = text_of(path);
	ck_assert_uint_eq(count(text, "{\"name\":\"answering\",\"cat\":\"request\",\"ph\":\"b\""), nr);
	ck_assert_uint_eq(count(text, "{\"name\":\"answering\",\"cat\":\"request\",\"ph\":\"e\""), nr);
	ck_assert_uint_ge(count(text, "\"args\":{\"class\":\"lone\"}}"), nr);
	free(text);
	rnl_class_destroy(cls);
	rnl_pool_destroy(pool);
}

/* ---- limits ---------------------------------------------------------------- */

TEST(a_class_ends_after_the_requests_of_its_batcher)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_class *cls;
	struct rnl_pool *pool;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = classed_batcher(pool, a, &cls);
	send_to_resident(batcher, &request);
	rnl_class_destroy(cls);
	ck_assert_int_eq(rnl_job_wait(&request.job, 0), 0);
	receive(&request, 5, BYTES);
	end(pool, batcher);
}

TEST(too_large_requests_go_in_batches)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_pool *pool;
	uint64_t resident;

	skip_unless_answering();
	pool = answering_pool(2, &a);
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT | RNL_BATCHER_VARIABLE, 12289, 8);
	ask_until_resident(batcher, 12288, 8, 3);
	resident = counts_of(batcher).resident;
	for (unsigned i = 0; i < 10; i++)
		ask(batcher, 12289, 8, i);
	ck_assert_uint_eq(counts_of(batcher).resident, resident);
	end(pool, batcher);
}
