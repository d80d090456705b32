/* SPDX-License-Identifier: MIT */
/* Work on the implicit stream: each call separately, in a job, and by an attached thread. */
#include <string.h>

#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/thread.h>

#include "await.h"
#include "countdown.h"
#include "skip.h"

enum { BYTES = 3 << 20 };	/* more than one piece of staging */

static char *device, *pinned;
static char from[BYTES], to[BYTES];
static int word;

/* ---- the calls ----------------------------------------------------------------- */

static int copy_pinned(void)
{
	int ret = rnl_copy(device, pinned, 4096);

	return ret ? ret : rnl_copy(pinned, device, 4096);
}

static int copy_pageable(void)
{
	int ret = rnl_copy(device, from, BYTES);

	return ret ? ret : rnl_copy(to, device, BYTES);
}

static int copy_2d(void)
{
	int ret = rnl_copy_2d(device, 128, pinned, 64, 64, 16);

	if (!ret)
		ret = rnl_copy_2d(device, 128, from, 64, 64, 16);
	return ret ? ret : rnl_copy_2d(to, 64, device, 128, 64, 16);
}

static int fill(void)
{
	return rnl_fill(device, 5, 4096);
}

static int launch(void)
{
	return launch_word(&word, 17);
}

/* Allocates more than the worker keeps from the previous job. */
static int scratch(void)
{
	void *mem[3] = { NULL, NULL, NULL };
	int ret = 0;

	for (unsigned i = 0; i < COUNT(mem) && !ret; i++) {
		ret = rnl_scratch((size_t)100000 << i, &mem[i]);
		expect(!ret == (mem[i] != NULL));
		if (!ret)
			ret = rnl_fill(mem[i], 1, (size_t)100000 << i);
	}
	return ret;
}

/* ---- in a job --------------------------------------------------------------------- */

static void make(struct rnl_pool *pool)
{
	void *mem[2];

	expect(!rnl_memory_get(pool, 0, BYTES, &mem[0], 0));
	expect(!rnl_memory_get(pool, RNL_PINNED, 4096, &mem[1], 0));
	device = mem[0];
	pinned = mem[1];
	memset(pinned, 9, 4096);
	memset(from, 9, BYTES);
}

static void end(struct rnl_pool *pool, int ret)
{
	(void)ret;
	rnl_memory_put(pool, device);
	rnl_memory_put(pool, pinned);
}

static int (*the_call)(void);
static _Atomic int returned;

static int call_fn(struct rnl_job *job)
{
	rnl_container_of(job, struct watched, job)->ran++;
	returned = the_call();
	return returned;
}

/* Returns the call's error, or else the job's. */
static int in_job(struct rnl_pool *pool, int (*call)(void))
{
	struct watched *w = watched_with(BY_CALLBACK, call_fn);

	the_call = call;
	expect_accepted(watched_submitted(w, rnl_submit(pool, &w->job)));
	expect(!rnl_pool_drain(pool, RNL_FOREVER));
	if (!w->accepted)
		return 0;
	expect(!returned || w->job.result == returned);
	return w->job.result;
}

#define IN_JOB(call) static int job_##call(struct rnl_pool **pool) { return in_job(*pool, call); }

IN_JOB(copy_pinned)
IN_JOB(copy_pageable)
IN_JOB(copy_2d)
IN_JOB(fill)
IN_JOB(launch)
IN_JOB(scratch)

static bool is_all_nine(const char *mem, size_t bytes)
{
	size_t i = 0;

	while (i < bytes && mem[i] == 9)
		i++;
	return i == bytes;
}

/* A successful job has done its work, whichever call failed. */
static void after_copy(struct rnl_pool *pool, int ret)
{
	if (!ret && !fault_lasts())
		expect(is_all_nine(to, BYTES));
	end(pool, ret);
}

static void after_launch(struct rnl_pool *pool, int ret)
{
	if (!ret && !fault_lasts())
		expect(word == 17);
	end(pool, ret);
}

/* ---- jobs that are replayed ---------------------------------------------------------- */

static int args(void)
{
	void *mem = NULL;
	int ret = rnl_job_args(64, &mem);

	expect(!ret == (mem != NULL));
	return ret ? ret : rnl_copy(pinned, mem, 64);
}

static int replayed_fn(struct rnl_job *job)
{
	(void)job;
	return args();
}

/* Replays one by one.  Each successful job has its own arguments, whichever call failed. */
static int replay(struct rnl_pool **pool)
{
	static struct rnl_job job;
	static char user[64];
	int ret = 0;

	for (int i = 0; i < 6 && !ret; i++) {
		expect(!rnl_job_init(&job, replayed_fn) && !rnl_job_set_flags(&job, RNL_REPLAY));
		memset(user, i, sizeof(user));
		job.user = user;
		ret = rnl_submit(*pool, &job);
		if (ret)
			break;
		expect(!rnl_job_wait(&job, RNL_FOREVER));
		ret = job.result;
		expect(ret || fault_lasts() || !memcmp(pinned, user, sizeof(user)));
	}
	expect(!rnl_pool_drain(*pool, RNL_FOREVER));
	return ret;
}

/* ---- by an attached thread ----------------------------------------------------------- */

static void make_and_attach(struct rnl_pool *pool)
{
	make(pool);
	expect(!rnl_thread_attach(pool));
}

static void detach_and_end(struct rnl_pool *pool, int ret)
{
	rnl_thread_attach(NULL);
	end(pool, ret);
}

static int attached(struct rnl_pool **pool)
{
	int (*const calls[])(void) = { copy_pinned, copy_pageable, copy_2d, fill, launch };
	int ret = 0;

	(void)pool;
	for (unsigned i = 0; i < COUNT(calls) && !ret; i++)
		ret = calls[i]();
	if (!ret)
		ret = rnl_stream_wait(patience_ns());
	if (!ret)
		ret = rnl_stream_wait(RNL_FOREVER);
	if (!ret)
		expect(word == 17 && is_all_nine(to + 4096, BYTES - 4096));
	return ret;
}

static int attach(struct rnl_pool **pool)
{
	int ret = rnl_thread_attach(*pool);

	expect(!ret || rnl_fill(device, 1, 1) == -ENODEV);
	return ret;
}

/* Detaches with work on the stream. */
static int detach(struct rnl_pool **pool)
{
	(void)pool;
	expect(fill() <= 0);
	rnl_thread_attach(NULL);
	expect(rnl_fill(device, 1, 1) == -ENODEV);
	return 0;
}

/* The wait may be the failed call, so another call waits for the stream. */
static void wait_and_end(struct rnl_pool *pool, int ret)
{
	if (!rnl_thread_attach(pool))
		rnl_thread_attach(NULL);
	end(pool, ret);
}

static int look(struct rnl_pool **pool)
{
	(void)pool;
	expect(rnl_worker().index == -1 && !rnl_worker().data);
	expect(!rnl_stream() == on_host());
	return 0;
}

#define WORK_ERRNOS { -EIO, -ENOMEM }
#define ATTACH_ERRNOS { -ENOMEM, -EAGAIN, -EIO }
#define WORK(says, runs, ends) \
	{ .name = says, .before = make, .run = runs, .after = ends, .errnos = WORK_ERRNOS }

const struct operation work_operations[] = {
	WORK("rnl_copy", job_copy_pinned, end),
	WORK("rnl_copy, pageable", job_copy_pageable, after_copy),
	WORK("rnl_copy_2d", job_copy_2d, end),
	WORK("rnl_fill", job_fill, end),
	WORK("rnl_launch", job_launch, after_launch),
	WORK("rnl_scratch", job_scratch, end),
	WORK("rnl_job_set_flags, replay; rnl_job_args", replay, end),
	{ .name = "rnl_copy, ..., rnl_stream_wait, attached",
	  .functions = "rnl_copy_2d rnl_fill rnl_launch", .before = make_and_attach,
	  .run = attached, .after = detach_and_end, .errnos = WORK_ERRNOS },
	{ .name = "rnl_thread_attach", .before = make, .run = attach, .after = detach_and_end,
	  .errnos = ATTACH_ERRNOS },
	{ .name = "rnl_thread_attach, the first", .first = true, .before = make, .run = attach,
	  .after = detach_and_end, .errnos = ATTACH_ERRNOS },
	{ .name = "rnl_thread_attach, of NULL", .before = make_and_attach, .run = detach,
	  .after = wait_and_end },
	{ .name = "rnl_stream, rnl_worker", .before = make_and_attach, .run = look,
	  .after = detach_and_end },
	{ 0 }
};
