/* SPDX-License-Identifier: MIT */
/* Raised lanes of a worker's queue, what a barrier knows of its rounds, and slots of keyed jobs. */
#include "pool/inherit.h"
#include "stream/job_flags.h"
#include "suite.h"

static struct rnl_pool pool;
static struct rnl__worker worker, thief;
static struct rnl_job jobs[64];

static void worker_of(bool places)
{
	worker.pool = thief.pool = &pool;
	rnl__queue_init(&worker.queue, places);
	rnl__queue_init(&thief.queue, places);
	rnl__queue_bound(&worker.queue, COUNT(jobs));
	rnl__queue_open_lane(&worker.queue, 0);
	rnl__queue_serve(&worker.queue);
}

static void put(struct rnl_job *job, uint32_t flags)
{
	ck_assert_int_eq(rnl__queue_reserve(&worker.queue, 1), 1);
	job->flags = flags;
	rnl__queue_put(&worker.queue, job);
}

static void take(struct rnl_job *job)
{
	ck_assert_ptr_eq(rnl__queue_take(&worker.queue, 0), job);
}

#define ck_tier(tier) ck_assert_uint_eq(rnl__inherit_tier_at(&worker, &worker), tier)

TEST(a_lane_is_raised_up_to_the_jobs_that_it_has_and_not_for_later_ones)
{
	worker_of(false);
	put(&jobs[0], RNL__JOB_KEYED);
	put(&jobs[1], RNL__JOB_KEYED);
	ck_tier(RNL__TIER_OWN);
	rnl__inherit_raise_lane(&worker.queue, rnl__inherit_lane(&worker.queue, &jobs[1]), 2);
	put(&jobs[2], RNL__JOB_KEYED);
	/* A thief takes no keyed job. */
	ck_assert_uint_eq(rnl__inherit_tier_at(&thief, &worker), RNL__TIER_OWN);
	ck_tier(2);
	take(&jobs[0]);
	ck_tier(2);
	take(&jobs[1]);
	ck_tier(RNL__TIER_OWN);
	take(&jobs[2]);
	ck_tier(RNL__TIER_OWN);
}

TEST(jobs_of_another_lane_do_not_use_up_a_raise)
{
	worker_of(false);
	put(&jobs[0], RNL__JOB_KEYED);
	put(&jobs[1], RNL__JOB_KEYED);
	rnl__inherit_raise_lane(&worker.queue, 0, 1);
	rnl__inherit_raise_lane(&worker.queue, 0, 3);
	for (unsigned i = 2; i < 6; i++)
		put(&jobs[i], 0);
	take(&jobs[0]);
	for (unsigned i = 2; i < 6; i++)
		ck_assert_ptr_eq(rnl__queue_steal(&worker.queue, false), &jobs[i]);
	ck_tier(1);
	take(&jobs[1]);
	ck_tier(RNL__TIER_OWN);
}

TEST(a_thief_sees_a_raise_of_the_lanes_that_it_takes_from, .loops = 2)
{
	worker_of(true);
	put(&jobs[0], _i ? RNL__JOB_PLACED : 0);
	rnl__inherit_raise_lane(&worker.queue, rnl__inherit_lane(&worker.queue, &jobs[0]), 0);
	ck_tier(0);
	ck_assert_uint_eq(rnl__inherit_tier_at(&thief, &worker), 0);
	/* It is on another device. */
	thief.device = (struct rnl__device *)&pool;
	ck_assert_uint_eq(rnl__inherit_tier_at(&thief, &worker), _i ? RNL__TIER_OWN : 0);
	thief.device = NULL;
}

TEST(a_cancel_of_a_job_that_is_not_queued_in_its_class_names_no_slot)
{
	rnl__job_set_class_slot(&jobs[0], 7);
	rnl__job_set_class_index(&jobs[0], 3);
	ck_assert_uint_eq(rnl__classes_slot(&jobs[0]), 3 << 16 | 7);
	rnl__job_set_class_index(&jobs[0], 3 | RNL__CLASS_NO_SLOT);
	ck_assert_uint_eq(rnl__classes_slot(&jobs[0]), 0);
}
