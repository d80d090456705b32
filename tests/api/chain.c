/* SPDX-License-Identifier: MIT */
/* Chains: jobs that run directly after another job, on its worker. */
#include <runnel/hold.h>
#include <runnel/memory.h>
#include <runnel/more.h>

#include "classed.h"
#include "cq.h"
#include "heard.h"
#include "host_kernel.h"
#include "record.h"

enum { LENGTH = 5 };

/* A job of a chain that records its worker and its place in the order. */
struct ring {
	struct rnl_job job;
	struct record *record;
	int id, worker, result;
	struct rnl_hold *hold;
	_Atomic bool has_hold;
	void *fills;			/* device memory; NULL: the job issues nothing */
};

static int ring_fn(struct rnl_job *job)
{
	struct ring *l = rnl_container_of(job, struct ring, job);

	l->worker = rnl_worker().index;
	note(l->record, l->id);
	if (l->hold) {
		must(rnl_job_hold(job, l->hold));
		l->has_hold = true;
	}
	if (l->fills)
		must(rnl_fill(l->fills, 1, 64));
	return l->result;
}

static void chain_of(struct ring *rings, int nr, struct record *record)
{
	for (int i = 0; i < nr; i++) {
		rings[i] = (struct ring){ .record = record, .id = i, .worker = -1 };
		job_of(&rings[i].job, ring_fn, NULL);
		if (i)
			must(rnl_job_set_then(&rings[i - 1].job, &rings[i].job));
	}
}

static void check_order(const struct record *record, int nr)
{
	ck_assert_uint_eq(record->nr, (unsigned)nr);
	for (int i = 0; i < nr; i++)
		ck_assert_int_eq(record->ids[i], i);
}

TEST(a_chain_runs_in_order_on_one_worker_and_is_submitted_with_its_first_job)
{
	struct rnl_pool *pool = pool_of(4);
	struct ring rings[LENGTH];

	for (int round = 0; round < 50; round++) {
		struct record record = { 0 };

		chain_of(rings, LENGTH, &record);
		if (round % 2)
			must(submit_by_key(pool, &rings[0].job, (uint64_t)round));
		else
			must(rnl_submit(pool, &rings[0].job));
		ck_assert_int_eq(result_of(&rings[LENGTH - 1].job), 0);
		check_order(&record, LENGTH);
		for (int i = 0; i < LENGTH; i++) {
			ck_assert_int_eq(rnl_job_wait(&rings[i].job, 0), 0);
			ck_assert_int_eq(rings[i].worker, rings[0].worker);
		}
	}
	ck_assert_uint_eq(figures_of(pool).accepted, 50 * LENGTH);
	ck_eventually(figures_of(pool).done == 50 * LENGTH);
	rnl_pool_destroy(pool);
}

TEST(a_chain_may_be_submitted_again_or_cut)
{
	struct rnl_pool *pool = pool_of(2);
	struct record record = { 0 };
	struct ring rings[2];

	chain_of(rings, 2, &record);
	for (int i = 0; i < 3; i++) {
		must(rnl_submit(pool, &rings[0].job));
		ck_assert_int_eq(result_of(&rings[1].job), 0);
	}
	ck_assert_uint_eq(record.nr, 6);
	must(rnl_job_set_then(&rings[0].job, NULL));
	ck_assert_int_eq(submit_and_wait(pool, &rings[0].job), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, 7);
	rnl_pool_destroy(pool);
}

TEST(the_next_job_is_issued_while_the_device_works_and_is_done_after_the_first, .loops = 2)
{
	struct gate kernel = GATE_INIT;
	struct rnl_job first, second;
	struct rnl_pool *pool;
	_Atomic int ran = 0;

	skip_unless_host();
	pool = pool_of(2);
	job_of(&first, gated_kernel_fn, &kernel);
	job_of(&second, count_fn, &ran);
	/* The class of a later job does not change its place. */
	must(rnl_job_set_class(&second, _i ? first_class(pool) : NULL));
	must(rnl_job_set_then(&first, &second));
	must(rnl_submit(pool, &first));
	gate_await(&kernel, 1);
	ck_eventually(ran == 1);
	/* @second has issued nothing, but does not complete before @first. */
	ck_assert_int_eq(rnl_job_wait(&second, MS), -ETIMEDOUT);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&second), 0);
	ck_assert_int_eq(rnl_job_wait(&first, 0), 0);
	rnl_pool_destroy(pool);
}

/* The second job is cancelled or expired at its turn, while the first is still on the device. */
TEST(a_job_of_a_chain_that_does_not_run_is_done_after_the_one_before_it, .loops = 2)
{
	struct gate plug = GATE_INIT, kernel = GATE_INIT;
	struct rnl_job busy, first, second, third;
	struct rnl_pool *pool;
	_Atomic int ran = 0;

	skip_unless_host();
	pool = pool_of(1);
	hold_workers(pool, &plug, &busy, 1);
	job_of(&first, gated_kernel_fn, &kernel);
	job_of(&second, count_fn, &ran);
	job_of(&third, count_fn, &ran);
	must(rnl_job_set_then(&first, &second));
	must(rnl_job_set_then(&second, &third));
	if (_i)
		must(rnl_job_set_deadline(&second, 1));
	must(rnl_submit(pool, &first));
	if (!_i)
		must(rnl_job_cancel(&second));
	gate_open(&plug);
	gate_await(&kernel, 1);
	ck_assert_int_eq(rnl_job_wait(&second, 20 * MS), -ETIMEDOUT);
	ck_assert_int_ne(rnl_job_wait(&third, 0), 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&third), -ECANCELED);
	ck_assert_int_eq(second.result, _i ? -ETIMEDOUT : -ECANCELED);
	ck_assert_int_eq(first.result, 0);
	ck_assert_int_eq(ran, 0);
	ck_assert_uint_eq(figures_of(pool).cancelled, _i ? 1 : 2);
	rnl_pool_destroy(pool);
}

TEST(the_jobs_after_one_that_fails_are_cancelled_in_order)
{
	struct rnl_pool *pool = pool_of(2);
	struct record record = { 0 };
	struct ring rings[LENGTH];

	chain_of(rings, LENGTH, &record);
	rings[1].result = -EPROTO;
	must(rnl_submit(pool, &rings[0].job));
	ck_assert_int_eq(result_of(&rings[LENGTH - 1].job), -ECANCELED);
	ck_assert_int_eq(rings[0].job.result, 0);
	ck_assert_int_eq(rings[1].job.result, -EPROTO);
	ck_assert_int_eq(rings[2].job.result, -ECANCELED);
	check_order(&record, 2);
	rnl_pool_destroy(pool);
}

TEST(a_cancel_ends_a_chain_where_it_meets_it, .loops = 2)
{
	const int nr_run = _i ? 0 : 3;
	struct rnl_pool *pool = pool_of(1);
	struct gate plug = GATE_INIT;
	struct record record = { 0 };
	struct ring rings[LENGTH];
	struct rnl_job busy;

	hold_workers(pool, &plug, &busy, 1);
	chain_of(rings, LENGTH, &record);
	must(rnl_submit(pool, &rings[0].job));
	ck_assert_uint_eq(figures_of(pool).queued, LENGTH);
	must(rnl_job_cancel(&rings[nr_run].job));
	/* The timer thread completes a whole chain while the worker is busy. */
	if (nr_run)
		gate_open(&plug);
	for (int i = 0; i < LENGTH; i++)
		ck_assert_int_eq(result_of(&rings[i].job), i < nr_run ? 0 : -ECANCELED);
	gate_open(&plug);
	check_order(&record, nr_run);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).queued, 0);
	rnl_pool_destroy(pool);
}

/* @_i: the held job issues device work. */
TEST(the_next_job_of_a_held_one_starts_after_the_release, .loops = 2)
{
	struct rnl_pool *pool = pool_of(2);
	struct record record = { 0 };
	struct ring rings[2];
	struct rnl_hold hold;
	void *mem;

	must(rnl_memory_get(pool, 0, 64, &mem, 0));
	for (int i = 0; i < 2; i++) {
		record.nr = 0;
		chain_of(rings, 2, &record);
		rings[0].hold = &hold;
		rings[0].fills = _i ? mem : NULL;
		must(rnl_submit(pool, &rings[0].job));
		ck_eventually(rings[0].has_hold && figures_of(pool).held == 1);
		ck_assert_int_eq(rnl_job_wait(&rings[1].job, MS), -ETIMEDOUT);
		ck_assert_uint_eq(record.nr, 1);
		must(rnl_hold_release(&hold, i ? -EPROTO : 0));
		ck_assert_int_eq(result_of(&rings[1].job), i ? -ECANCELED : 0);
		ck_assert_uint_eq(record.nr, i ? 1 : 2);
	}
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

/* A job whose kernel waits at a gate, before a copy to pageable memory. */
struct staged {
	struct rnl_job job, next;
	struct gate kernel;
	void *mem;
	char copied[64];
};

static int staged_fn(struct rnl_job *job)
{
	struct staged *s = job->user;

	must(launch_store(&s->kernel, NULL, 0));
	must(rnl_fill(s->mem, 7, sizeof(s->copied)));
	return rnl_copy(s->copied, s->mem, sizeof(s->copied));
}

static int read_fn(struct rnl_job *job)
{
	const struct staged *s = job->user;

	for (size_t i = 0; i < sizeof(s->copied); i++)
		if (s->copied[i] != 7)
			return -EPROTO;
	return 0;
}

/*
 * The worker goes on to @other in its queue. If the next job did not wait, the worker would call it
 * before @other. So once @other has run, it is certain that the next job waits for the copy.
 */
TEST(the_next_job_starts_after_a_copy_to_pageable_memory_is_written)
{
	struct gate plug = GATE_INIT;
	struct rnl_job busy, other;
	struct rnl_pool *pool;
	_Atomic int ran = 0;
	static struct staged s;

	skip_unless_host();
	pool = pool_of(1);
	s = (struct staged){ .kernel = GATE_INIT };
	must(rnl_memory_get(pool, 0, sizeof(s.copied), &s.mem, 0));
	hold_workers(pool, &plug, &busy, 1);
	job_of(&s.job, staged_fn, &s);
	job_of(&s.next, read_fn, &s);
	must(rnl_job_set_then(&s.job, &s.next));
	must(rnl_submit(pool, &s.job));
	submit_job(pool, &other, count_fn, &ran);
	gate_open(&plug);
	ck_eventually(ran == 1);
	ck_assert_uint_eq(figures_of(pool).queued, 1);
	gate_open(&s.kernel);
	ck_assert_int_eq(result_of(&s.next), 0);
	ck_assert_int_eq(s.job.result, 0);
	rnl_memory_put(pool, s.mem);
	rnl_pool_destroy(pool);
}

/* Like the test before, but the next job waits for the barrier's job on the device. */
TEST(the_next_job_starts_after_the_barriers_jobs_are_done_that_the_first_one_follows)
{
	struct gate kernel = GATE_INIT, came = GATE_INIT;
	struct rnl_job before, first, next, other;
	struct rnl_barrier barrier;
	struct rnl_pool *pool;
	_Atomic int ran = 0;

	skip_unless_host();
	pool = pool_of(2);
	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &before, gated_kernel_fn, &kernel);
	must(submit_by_key(pool, &before, RNL_KEY_WORKER(0)));
	gate_await(&kernel, 1);
	job_of(&first, gated_fn, &came);
	must(rnl_job_set_after(&first, &barrier));
	job_of(&next, noop_fn, NULL);
	must(rnl_job_set_then(&first, &next));
	must(submit_by_key(pool, &first, RNL_KEY_WORKER(1)));
	gate_await(&came, 1);
	job_of(&other, count_fn, &ran);
	must(submit_by_key(pool, &other, RNL_KEY_WORKER(1)));
	gate_open(&came);
	ck_eventually(ran == 1);
	ck_assert_uint_eq(figures_of(pool).queued, 1);
	ck_assert_int_ne(rnl_job_wait(&first, 0), 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&next), 0);
	ck_assert_int_eq(rnl_job_wait(&before, 0), 0);
	rnl_pool_destroy(pool);
}

TEST(a_chain_comes_after_a_barrier_and_each_job_may_be_in_one)
{
	struct rnl_pool *pool = pool_of(3);
	struct gate plug = GATE_INIT;
	struct rnl_barrier first, all;
	struct record record = { 0 };
	struct ring rings[LENGTH];
	struct rnl_job before;

	hold_barrier(pool, &first, &plug, &before);
	must(rnl_barrier_init(&all, pool));
	chain_of(rings, LENGTH, &record);
	must(rnl_job_set_after(&rings[0].job, &first));
	for (int i = 0; i < LENGTH; i++)
		must(rnl_barrier_add(&all, &rings[i].job));
	must(rnl_submit(pool, &rings[0].job));
	ck_assert_int_eq(rnl_barrier_wait(&all, MS), -ETIMEDOUT);
	ck_assert_uint_eq(record.nr, 0);
	gate_open(&plug);
	ck_assert_int_eq(result_of_barrier(&all), 0);
	check_order(&record, LENGTH);
	rnl_pool_destroy(pool);
}

TEST(chains_are_delayed_wait_for_marks_and_end_in_queues)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_cq *cq = cq_of();
	struct rnl_job *reaped[2 * LENGTH];
	struct record record = { 0 };
	struct ring rings[LENGTH];

	for (int i = 0; i < 2; i++) {
		record.nr = 0;
		chain_of(rings, LENGTH, &record);
		for (int j = 0; j < LENGTH; j++)
			must(rnl_job_set_cq(&rings[j].job, cq));
		must(submit_at(pool, &rings[0].job, rnl_clock() + i * MS));
		reap_all(cq, reaped, LENGTH);
		for (int j = 0; j < LENGTH; j++)
			ck_assert_ptr_eq(reaped[j], &rings[j].job);
		check_order(&record, LENGTH);
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(several_chains_go_on_after_one_another)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate plug = GATE_INIT;
	struct record record = { 0 };
	struct ring rings[3][2];
	struct rnl_hold holds[3];
	struct rnl_job busy;

	for (int i = 0; i < 3; i++) {
		chain_of(rings[i], 2, &record);
		rings[i][1].id = 10 + i;
		rings[i][0].hold = &holds[i];
		must(rnl_submit(pool, &rings[i][0].job));
	}
	ck_eventually(rings[0][0].has_hold && rings[1][0].has_hold && rings[2][0].has_hold &&
		      figures_of(pool).held == 3);
	/* All holds are released while the worker is busy. */
	hold_workers(pool, &plug, &busy, 1);
	for (int i = 0; i < 3; i++)
		must(rnl_hold_release(&holds[i], 0));
	gate_open(&plug);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(result_of(&rings[i][1].job), 0);
	ck_assert_uint_eq(record.nr, 6);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(record.ids[3 + i], 10 + i);
	rnl_pool_destroy(pool);
}

/* A barrier whose rounds are all under way until the gate opens. */
struct full_barrier {
	struct rnl_barrier barrier;
	struct gate plug;
	struct rnl_job before[8], after[7];
};

static void fill_rounds(struct rnl_pool *pool, struct full_barrier *full)
{
	full->plug = (struct gate)GATE_INIT;
	must(rnl_barrier_init(&full->barrier, pool));
	submit_in(pool, &full->barrier, &full->before[0], gated_fn, &full->plug);
	for (int i = 0; i < 7; i++) {
		job_of(&full->after[i], noop_fn, NULL);
		must(rnl_job_set_after(&full->after[i], &full->barrier));
		must(rnl_submit(pool, &full->after[i]));
		submit_in(pool, &full->barrier, &full->before[1 + i], noop_fn, NULL);
	}
}

TEST(a_chain_after_a_barrier_with_all_rounds_under_way_is_refused)
{
	struct rnl_pool *pool = pool_of(2);
	struct record record = { 0 };
	struct full_barrier full;
	struct rnl_job notice;
	struct ring rings[2];

	fill_rounds(pool, &full);
	chain_of(rings, 2, &record);
	must(rnl_job_set_after(&rings[0].job, &full.barrier));
	ck_assert_int_eq(rnl_submit(pool, &rings[0].job), -EAGAIN);
	must(rnl_job_init(&notice, NULL));
	ck_assert_int_eq(rnl_barrier_notify(&full.barrier, &notice), -EAGAIN);
	gate_open(&full.plug);
	must(rnl_submit_wait(pool, &rings[0].job, RNL_FOREVER));
	ck_assert_int_eq(result_of(&rings[1].job), 0);
	rnl_pool_destroy(pool);
}

TEST(a_submit_that_waits_for_a_round_ends_when_the_pool_is_closed)
{
	struct rnl_pool *pool = pool_of(2);
	struct submitting submitting;
	struct full_barrier full;
	struct rnl_job job;
	struct call call;

	fill_rounds(pool, &full);
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_after(&job, &full.barrier));
	submitting = (struct submitting){ pool, &job, RNL_FOREVER, 0, false };
	call_start(&call, submit_waiting, &submitting);
	ck_waits(call.tid);
	must(rnl_pool_close(pool));
	ck_assert_int_eq(call_end(&call), -ESHUTDOWN);
	gate_open(&full.plug);
	rnl_pool_destroy(pool);
}

/* ---- refusals --------------------------------------------------------------- */

static struct heard heard;

static struct rnl_pool *hearing_pool(unsigned nr_workers, uint32_t max_queued)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	hear(&heard, &attr);
	rnl_set_log(hear_line, &heard);
	attr.max_queued = max_queued;
	return pool_with(&attr, nr_workers);
}

#define ck_invalid(call, what) \
	do { \
		heard.bytes = heard.text[0] = 0; \
		ck_assert_int_eq(call, -EINVAL); \
		ck_assert_msg(has_heard(&heard, what), "%s", heard.text); \
	} while (0)

TEST(a_circle_is_refused_and_no_job_of_it_is_accepted, .loops = 2)
{
	struct rnl_pool *pool = hearing_pool(2, 0);
	struct record record = { 0 };
	struct ring rings[LENGTH];
	struct rnl_job zero = { 0 };

	chain_of(rings, LENGTH, &record);
	ck_invalid(rnl_job_set_then(&rings[LENGTH - 1].job, &zero), "was not initialised");
	ck_invalid(rnl_job_set_then(&rings[0].job, &rings[0].job), "after itself");
	must(rnl_job_set_then(&rings[LENGTH - 1].job, &rings[_i ? 2 : 0].job));
	ck_invalid(rnl_submit(pool, &rings[0].job), "circle");
	ck_invalid(submit_at(pool, &rings[0].job, 0), "circle");
	ck_assert_uint_eq(figures_of(pool).accepted, 0);
	/* A notice cannot have a next job. */
	must(rnl_job_set_then(&rings[LENGTH - 1].job, NULL));
	for (int when = RNL_SPACE; when <= RNL_EMPTY; when++)
		ck_invalid(submit_when(pool, &rings[0].job, (enum rnl_when)when),
			   "has a job behind it");
	/* No job has become busy, and the chain can be submitted again. */
	must(rnl_job_set_more(&rings[0].job, NULL));
	must(rnl_submit(pool, &rings[0].job));
	ck_assert_int_eq(result_of(&rings[LENGTH - 1].job), 0);
	rnl_pool_destroy(pool);
	rnl_set_log(NULL, NULL);
}

TEST(a_chain_that_cannot_be_accepted_whole_is_refused_whole)
{
	struct rnl_pool *pool = hearing_pool(1, 3), *other = pool_of(1);
	struct rnl_barrier barrier, elsewhere;
	struct gate plug = GATE_INIT;
	struct record record = { 0 };
	struct ring rings[LENGTH], others[2];
	struct rnl_job busy, counted;

	job_of(&counted, noop_fn, NULL);
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_init(&elsewhere, other));
	hold_workers(pool, &plug, &busy, 1);
	/* More later jobs than max_queued: of one chain alone, or of two chains together. */
	chain_of(rings, LENGTH, &record);
	ck_invalid(rnl_submit(pool, &rings[0].job), "max_queued");
	ck_assert_int_eq(rnl_submit_wait(pool, &rings[0].job, MS), -EINVAL);
	chain_of(rings, 4, &record);
	chain_of(others, 2, &record);
	must(rnl_submit(pool, &rings[0].job));
	ck_assert_int_eq(rnl_submit(pool, &others[0].job), -EAGAIN);
	ck_assert_int_eq(rnl_submit_wait(pool, &others[0].job, MS), -ETIMEDOUT);
	ck_assert_int_eq(submit_by_key(pool, &others[0].job, 3), -EAGAIN);
	must(set_order(&others[0].job, NULL));
	ck_assert_int_eq(submit_at(pool, &others[0].job, rnl_clock()), -EAGAIN);
	must(set_time(&others[0].job, 0));
	/* A chain whose first job would be deferred. */
	must(rnl_barrier_add(&barrier, &counted));
	must(rnl_submit(pool, &counted));
	must(rnl_job_set_after(&others[0].job, &barrier));
	ck_assert_int_eq(rnl_submit(pool, &others[0].job), -EAGAIN);
	ck_assert_uint_eq(figures_of(pool).queued, 5);
	gate_open(&plug);
	ck_assert_int_eq(result_of(&rings[3].job), 0);
	ck_assert_int_eq(result_of(&counted), 0);
	plug = (struct gate)GATE_INIT;
	hold_workers(pool, &plug, &busy, 1);
	chain_of(rings, 3, &record);
	/* A later job comes after a barrier, is in a barrier of another pool, or is not done. */
	must(rnl_job_set_after(&rings[2].job, &barrier));
	ck_invalid(rnl_submit(pool, &rings[0].job), "only the first job of a chain");
	must(rnl_job_set_after(&rings[2].job, NULL));
	must(rnl_barrier_add(&elsewhere, &rings[2].job));
	ck_assert_int_eq(rnl_submit(pool, &rings[0].job), -EINVAL);
	chain_of(rings, 3, &record);
	must(rnl_submit(pool, &rings[2].job));
	ck_assert_int_eq(rnl_job_set_then(&busy, &rings[0].job), -EBUSY);
	ck_assert_int_eq(rnl_job_set_then(&rings[0].job, &busy), -EBUSY);
	ck_assert_int_eq(rnl_submit(pool, &rings[0].job), -EBUSY);
	ck_assert_int_eq(rnl_job_wait(&rings[1].job, 0), -EINVAL);
	ck_assert_uint_eq(figures_of(pool).accepted, 8);
	gate_open(&plug);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	must(rnl_pool_close(pool));
	chain_of(rings, 3, &record);
	ck_assert_int_eq(rnl_submit(pool, &rings[0].job), -ESHUTDOWN);
	ck_assert_uint_eq(figures_of(pool).accepted, 8);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
	rnl_set_log(NULL, NULL);
}

TEST(chains_wait_for_space_as_jobs_do)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 4);
	struct ring rings[30][3];
	struct record record = { 0 };

	for (int i = 0; i < 30; i++) {
		chain_of(rings[i], 3, &record);
		must(rnl_submit_wait(pool, &rings[i][0].job, RNL_FOREVER));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, 90);
	rnl_pool_destroy(pool);
}

/* Notices of barriers and later jobs of chains share one limit. */
TEST(a_chain_that_waits_for_space_is_woken_when_a_notice_is_done)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 2);
	struct gate plug = GATE_INIT;
	struct rnl_job busy, notices[2];
	struct record record = { 0 };
	struct submitting submitting;
	struct rnl_barrier barrier;
	struct ring rings[2];
	struct call call;

	hold_barrier(pool, &barrier, &plug, &busy);
	for (int i = 0; i < 2; i++) {
		must(rnl_job_init(&notices[i], NULL));
		must(rnl_barrier_notify(&barrier, &notices[i]));
	}
	chain_of(rings, 2, &record);
	submitting = (struct submitting){ pool, &rings[0].job, RNL_FOREVER, 0, false };
	call_start(&call, submit_waiting, &submitting);
	ck_waits(call.tid);
	gate_open(&plug);
	must(call_end(&call));
	ck_assert_int_eq(result_of(&rings[1].job), 0);
	rnl_pool_destroy(pool);
}

static int store_fn(struct rnl_job *job)
{
	return launch_store(NULL, job->user, 1);
}

/* Job C and the chain A, B: C and B have one queue, A another one.  Who reaps B finds A. */
TEST(a_job_of_a_chain_is_on_its_queue_before_the_next_one)
{
	struct rnl_cq *heads = cq_of(), *others = cq_of();
	struct rnl_job a, b, c, *reaped;
	struct rnl_pool *pool;
	int word;

	skip_unless_host();
	pool = pool_of(1);
	for (int round = 0; round < 100; round++) {
		unsigned nr = 0;

		cq_job(&a, store_fn, &word, heads);
		cq_job(&b, store_fn, &word, others);
		cq_job(&c, store_fn, &word, others);
		must(rnl_job_set_then(&a, &b));
		must(rnl_submit(pool, &c));
		must(rnl_submit(pool, &a));
		while (nr < 2) {
			if (rnl_cq_reap(others, &reaped, 1, 0) != 1)
				continue;
			nr++;
			if (reaped == &b)
				ck_assert_int_eq(rnl_cq_reap(heads, &reaped, 1, 0), 1);
		}
	}
	rnl_cq_destroy(heads);
	rnl_cq_destroy(others);
	rnl_pool_destroy(pool);
}
