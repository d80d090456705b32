/* SPDX-License-Identifier: MIT */
/* Completion of requests: once, by each means that jobs have. */
#include <runnel/batch.h>

#include "batch.h"
#include "cq.h"

/* ---- completion ------------------------------------------------------------ */

TEST(a_request_is_done_when_its_output_is_there)
{
	struct gate gate = GATE_INIT;
	struct rnl_request *request;
	struct all all;

	all_begin(&all, 1, 0);
	request = &all.requests[0];
	all.kind.gate = &gate;
	reserve(all.batcher, request, ALL_BYTES);
	request_fill(request, 5);
	ck_assert_int_eq(rnl_job_wait(&request->job, 0), -EINVAL);
	must(rnl_request_commit(request));
	gate_await(&gate, 1);
	ck_assert_int_ne(rnl_job_wait(&request->job, 0), 0);
	ck_assert_int_eq(rnl_job_wait(&request->job, MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_job_cancel(&request->job), -EBUSY);
	ck_assert_int_eq(rnl_job_set_on_done(&request->job, NULL), -EBUSY);
	gate_open(&gate);
	receive(request, 5, ALL_BYTES);
	ck_assert_int_eq(rnl_job_cancel(&request->job), -EALREADY);
	ck_assert_ptr_null(request->in);
	ck_assert_ptr_null(request->out);
	ck_assert_ptr_eq(request->job.user, &all);
	all_end(&all);
}

TEST(callbacks_are_called_once_for_each_on_a_worker)
{
	struct all all;

	all_begin(&all, 2, 0);
	for (unsigned i = 0; i < NR_ALL; i++)
		must(rnl_job_set_on_done(&all.requests[i].job, all_on_done));
	for (unsigned round = 1; round <= 3; round++) {
		send_all(&all);
		ck_eventually(all.nr_called == round * NR_ALL);
	}
	must(rnl_pool_drain(all.pool, RNL_FOREVER));
	ck_assert_uint_eq(all.nr_called, 3 * NR_ALL);
	ck_assert_uint_eq(all.nr_wrong, 0);
	all_end(&all);
}

#define ROUNDS 20

/* Releases the request and sends it again. */
static void again(struct rnl_job *job)
{
	struct rnl_request *request = rnl_container_of(job, struct rnl_request, job);
	struct all *all = job->user;

	all->nr_wrong += job->result != 0;
	all->nr_wrong += rnl_request_release(request) != 0;
	if (all->nr_called++ >= ROUNDS * NR_ALL)
		return;
	all->nr_wrong += rnl_batcher_reserve(all->batcher, request, ALL_BYTES, 0) != 0;
	if (!all->nr_wrong)
		all->nr_wrong += rnl_request_commit(request) != 0;
}

TEST(a_callback_may_send_the_request_again)
{
	struct all all;

	all_begin(&all, 2, 0);
	for (unsigned i = 0; i < NR_ALL; i++)
		must(rnl_job_set_on_done(&all.requests[i].job, again));
	send_all(&all);
	/* At the limit, NR_ALL requests are under way; these complete, too. */
	ck_eventually(all.nr_called == ROUNDS * NR_ALL + NR_ALL || all.nr_wrong);
	ck_assert_uint_eq(all.nr_wrong, 0);
	all_end(&all);
}

TEST(completion_queues_get_each_once)
{
	struct rnl_job *jobs[NR_ALL];
	struct rnl_cq *cqs[10];
	struct all all;

	all_begin(&all, 2, 0);
	for (unsigned i = 0; i < COUNT(cqs); i++)
		cqs[i] = cq_of();
	for (unsigned i = 0; i < NR_ALL; i++)
		must(rnl_job_set_cq(&all.requests[i].job, cqs[i % COUNT(cqs)]));
	for (unsigned round = 0; round < 3; round++) {
		send_all(&all);
		for (unsigned i = 0; i < COUNT(cqs); i++) {
			unsigned last = 0;

			reap_all(cqs[i], jobs, NR_ALL / COUNT(cqs));
			for (unsigned k = 0; k < NR_ALL / COUNT(cqs); k++) {
				struct rnl_request *request =
					rnl_container_of(jobs[k], struct rnl_request, job);
				const unsigned number = (unsigned)(request - all.requests);

				ck_assert_uint_eq(number % COUNT(cqs), i);
				if (all.kind.nr_calls == 1)
					ck_assert(!k || number > last);
				last = number;
				receive(request, number, ALL_BYTES);
			}
			ck_assert_int_eq(rnl_cq_reap(cqs[i], jobs, NR_ALL, 0), 0);
		}
	}
	for (unsigned i = 0; i < COUNT(cqs); i++)
		rnl_cq_destroy(cqs[i]);
	all_end(&all);
}

TEST(a_request_that_is_done_waits_in_its_queue)
{
	struct rnl_cq *cq = cq_of();
	struct rnl_request *request;
	struct rnl_job *job;
	struct all all;

	all_begin(&all, 1, 0);
	request = &all.requests[0];
	must(rnl_job_set_cq(&request->job, cq));
	send(all.batcher, request, ALL_BYTES, 1);
	ck_eventually(readable(rnl_cq_fd(cq)));
	ck_assert_int_ne(rnl_job_wait(&request->job, 0), 0);
	ck_assert_int_eq(rnl_request_release(request), -EBUSY);
	reap_all(cq, &job, 1);
	ck_assert_ptr_eq(job, &request->job);
	receive(request, 1, ALL_BYTES);
	rnl_cq_destroy(cq);
	all_end(&all);
}

TEST(a_barrier_counts_from_the_commit)
{
	struct rnl_barrier barrier;
	struct gate gate = GATE_INIT;
	struct rnl_cq *cq = cq_of();
	struct rnl_job after, *jobs[NR_ALL];
	struct all all;

	all_begin(&all, 2, 0);
	all.kind.gate = &gate;
	must(rnl_barrier_init(&barrier, all.pool));
	for (unsigned i = 0; i < NR_ALL; i++) {
		must(rnl_barrier_add(&barrier, &all.requests[i].job));
		if (i % 2)
			must(rnl_job_set_cq(&all.requests[i].job, cq));
		reserve(all.batcher, &all.requests[i], ALL_BYTES);
		request_fill(&all.requests[i], i);
	}
	must(rnl_barrier_wait(&barrier, 0));
	for (unsigned i = 0; i < NR_ALL; i++)
		must(rnl_request_commit(&all.requests[i]));
	ck_assert_int_eq(rnl_barrier_wait(&barrier, MS), -ETIMEDOUT);
	job_of(&after, noop_fn, NULL);
	must(rnl_job_set_after(&after, &barrier));
	must(rnl_submit(all.pool, &after));
	ck_assert_int_eq(rnl_job_wait(&after, MS), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	ck_assert_int_eq(result_of(&after), 0);
	reap_all(cq, jobs, NR_ALL / 2);
	receive_all(&all);
	rnl_cq_destroy(cq);
	all_end(&all);
}

/* ---- cancelling ------------------------------------------------------------ */

TEST(what_is_cancelled_goes_nowhere)
{
	struct all all;

	all_begin(&all, 2, 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < NR_ALL; i++) {
			reserve(all.batcher, &all.requests[i], ALL_BYTES);
			request_fill(&all.requests[i], i);
		}
		for (unsigned i = 0; i < NR_ALL; i++) {
			int (*end)(struct rnl_request *) = i % 3 ? rnl_request_commit :
								   rnl_request_release;

			ck_assert_int_eq(end(&all.requests[i]), 0);
		}
		for (unsigned i = 0; i < NR_ALL; i++) {
			if (i % 3)
				receive(&all.requests[i], i, ALL_BYTES);
			else
				ck_assert_ptr_null(all.requests[i].in);
		}
	}
	ck_assert_uint_eq(counts_of(all.batcher).requests, 5 * (NR_ALL - (NR_ALL + 2) / 3));
	ck_assert_uint_eq(counts_of(all.batcher).cancelled, 5 * ((NR_ALL + 2) / 3));
	all_end(&all);
}
