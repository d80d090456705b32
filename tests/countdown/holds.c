/* SPDX-License-Identifier: MIT */
/*
 * Holds: jobs that are done when the program releases them.
 *
 * DESIGN
 *	The slots of holds belong to the process.  A row of slots is made when no slot is free, and
 *	is never freed.  Each process has its first row before calls fail.  One operation takes more
 *	holds than a row has slots, so the process keeps a second row: its slots and its nodes.
 */
#include <sched.h>

#include <runnel/hold.h>

#include "countdown.h"

#define FEW 2u
#define MANY 1100u		/* more than a row of slots */

static struct rnl_hold holds[MANY];
static unsigned wanted;
static _Atomic unsigned nr_held;	/* by the function; valid when `called` is set */
static _Atomic bool called;

static int hold_fn(struct rnl_job *job)
{
	struct watched *w = rnl_container_of(job, struct watched, job);
	unsigned nr = 0;
	int ret = 0;

	w->ran++;
	while (nr < wanted && !ret) {
		ret = rnl_job_hold(job, &holds[nr]);
		nr += !ret;
	}
	nr_held = nr;
	if (!ret)
		ret = launch_word(&w->word, 31);
	called = true;
	return ret;
}

/* Releases the function's holds; each counts once.  A slot may already have another hold. */
static void release(struct rnl_job *job)
{
	int ret;

	while (!called && rnl_job_wait(job, 0))
		sched_yield();
	if (!called)
		return;
	expect(!nr_held || rnl_job_wait(job, 0));
	for (unsigned i = 0; i < nr_held; i++) {
		expect(!rnl_hold_release(&holds[i], 0));
		ret = rnl_hold_release(&holds[i], 0);
		expect(ret == -EALREADY || ret == -ESTALE);
	}
}

static int hold(struct rnl_pool *pool, unsigned nr)
{
	struct watched *w = watched_with(BY_CALLBACK, hold_fn);

	wanted = nr;
	called = false;
	expect_accepted(watched_submitted(w, rnl_submit(pool, &w->job)));
	if (!w->accepted)
		return 0;
	release(&w->job);
	expect(!rnl_pool_drain(pool, RNL_FOREVER));
	return w->job.result;
}

static int hold_few(struct rnl_pool **pool)
{
	return hold(*pool, FEW);
}

static int hold_many(struct rnl_pool **pool)
{
	return hold(*pool, MANY);
}

static int once_fn(struct rnl_job *job)
{
	struct rnl_hold one;
	int ret = rnl_job_hold(job, &one);

	return ret ? ret : rnl_hold_release(&one, 0);
}

void hold_once(struct rnl_pool *pool)
{
	struct rnl_job job;

	expect(!rnl_job_init(&job, once_fn) && !rnl_submit(pool, &job));
	expect(!rnl_job_wait(&job, RNL_FOREVER) && !job.result);
}

/* Releases a hold that is over, in a process with or without a pool. */
static int release_late(struct rnl_pool **pool)
{
	static const struct rnl_hold none;

	(void)hold(*pool, FEW);
	(void)hold(*pool, FEW);
	expect(rnl_hold_release(&none, 0) == -EINVAL);
	return 0;
}

const struct operation hold_operations[] = {
	{ .name = "rnl_job_hold, rnl_hold_release", .run = hold_few, .errnos = { -ENOMEM, -EIO } },
	{ .name = "rnl_job_hold, more than there are slots", .keeps = 2, .run = hold_many,
	  .errnos = { -ENOMEM, -EIO } },
	{ .name = "rnl_hold_release, again and again", .run = release_late },
	{ 0 }
};
