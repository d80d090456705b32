/* SPDX-License-Identifier: MIT */
/* Pools over two devices, and jobs and memory placed on one of them. */
#include <string.h>

#include <runnel/class.h>
#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "asks.h"
#include "await.h"
#include "countdown.h"

enum { BYTES = 100000 };

static void *mem[2];

/* ---- pools ---------------------------------------------------------------------- */

static int create(struct rnl_pool **pool)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int ret;

	attr.device = two_devices();
	attr.nr_workers = 2;
	attr.nr_class_workers = 2;
	attr.max_in_flight = 2;
	attr.guard = RNL_GUARD_REPORT;
	watched_twice();
	ret = rnl_pool_create(pool, &attr);
	if (ret)
		*pool = NULL;
	return ret;
}

/* If the second device keeps nothing, the first one must not either. */
static int create_kept(struct rnl_pool **pool)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int ret;

	attr.device = two_devices();
	attr.nr_workers = 2;
	attr.nr_class_workers = 2;
	attr.max_in_flight = 2;
	attr.stream = RNL_STREAM_PRIVATE;
	attr.kept_sms = strcmp(test_device(), "host") ? 8 : 0;
	ret = rnl_pool_create(pool, &attr);
	if (ret)
		*pool = NULL;
	return ret;
}

static int grow(struct rnl_pool **pool)
{
	return rnl_pool_resize(*pool, 4);
}

static void after_grow(struct rnl_pool *pool, int ret)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	expect(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats) && stats.nr_workers == (ret ? 2 : 4));
	if (!fault_lasts())
		expect(!rnl_pool_resize(pool, 3) && !rnl_pool_resize(pool, 2));
	/* Each device needs a worker. */
	expect(rnl_pool_resize(pool, 1) == -EINVAL);
}

static int look(struct rnl_pool **pool)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	int nr = (int)nr_devices_of(*pool), ret = 0;

	for (int i = 0; i < nr && !ret; i++)
		ret = rnl_device_describe(*pool, NULL, (unsigned)i, &info);
	expect(nr == 2 || !test_fake());
	expect(rnl_worker().device == -1);
	return ret;
}

/* ---- jobs ------------------------------------------------------------------------ */

static _Atomic int nr_misplaced;	/* counted by callbacks of several workers */

static void done(struct rnl_job *job)
{
	struct watched *w = rnl_container_of(job, struct watched, job);

	/* The timer thread may complete a job that did not run. */
	nr_misplaced += w->ran && rnl_worker().device != (int)(intptr_t)job->user;
	w->ended++;
}

static struct watched *placed(unsigned device)
{
	struct watched *w = watched_next(BY_CALLBACK);

	expect(!rnl_job_set_device(&w->job, (int)device));
	expect(!rnl_job_set_on_done(&w->job, done));
	w->job.user = (void *)(uintptr_t)device;
	return w;
}

static struct rnl_class *cls;

static void class_of_both(struct rnl_pool *pool)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;

	attr.nr_workers = 2;
	expect(!rnl_class_create(&cls, pool, &attr));
}

/* Submits an unkeyed and a keyed job, and one of a class with workers of its own, for each device. */
static int submit(struct rnl_pool **pool)
{
	const unsigned nr = nr_devices_of(*pool);

	for (unsigned i = 0; i < 6; i++) {
		struct watched *w = placed(i % nr);
		int ret;

		if (i / 2 == 2)
			expect(!rnl_job_set_class(&w->job, cls));
		if (i / 2 == 1)
			ret = submit_by_key(*pool, &w->job, i);
		else
			ret = rnl_submit(*pool, &w->job);
		expect_accepted(watched_submitted(w, ret));
	}
	expect(!rnl_pool_drain(*pool, RNL_FOREVER));
	return 0;
}

static void after_submit(struct rnl_pool *pool, int ret)
{
	(void)pool;
	(void)ret;
	expect_msg(!nr_misplaced, "%d jobs ran on another device", nr_misplaced);
}

/* Submits a job on one device after jobs on both; a stream joins all of them. */
static int meet(struct rnl_pool **pool)
{
	const unsigned nr = nr_devices_of(*pool);
	struct rnl_barrier barrier, tail;
	int ret;

	expect(!rnl_barrier_init(&barrier, *pool) && !rnl_barrier_init(&tail, *pool));
	for (unsigned i = 0; i < 4; i++) {
		struct watched *w = placed(i % nr);

		if (i >= 2)
			expect(!rnl_job_set_after(&w->job, &barrier));
		expect(!rnl_barrier_add(i < 2 ? &barrier : &tail, &w->job));
		w->late = i >= 2;
		expect_accepted(watched_submitted(w, rnl_submit(*pool, &w->job)));
	}
	ret = rnl_barrier_join(&tail);
	if (!ret)
		ret = rnl_stream_wait(RNL_FOREVER);
	expect(!rnl_barrier_wait(&tail, RNL_FOREVER) && !rnl_barrier_wait(&barrier, RNL_FOREVER));
	rnl_thread_attach(NULL);
	return ret;
}

/* ---- memory ----------------------------------------------------------------------- */

static int alloc(struct rnl_pool **pool)
{
	const unsigned nr = nr_devices_of(*pool);
	int ret = 0;

	for (unsigned i = 0; i < 2 && !ret; i++)
		ret = rnl_memory_get(*pool, i % nr, BYTES, &mem[i], 0);
	return ret;
}

static void free_both(struct rnl_pool *pool, int ret)
{
	(void)ret;
	for (unsigned i = 0; i < 2; i++)
		rnl_memory_put(pool, mem[i]);
}

static void take_both(struct rnl_pool *pool)
{
	expect(!alloc(&pool));
}

static int free_now(struct rnl_pool **pool)
{
	free_both(*pool, 0);
	return 0;
}

static char from[BYTES], to[BYTES];

static int copy(struct rnl_job *job)
{
	int ret = rnl_copy(mem[0], from, BYTES);

	((struct watched *)job)->ran++;
	if (!ret)
		ret = rnl_copy(mem[1], mem[0], BYTES);
	return ret ? ret : rnl_copy(to, mem[1], BYTES);
}

/* Copies from one device to the other, by a job on each. */
static int copy_between(struct rnl_pool **pool)
{
	const unsigned nr = nr_devices_of(*pool);

	for (unsigned i = 0; i < 2; i++) {
		struct watched *w = watched_with(BY_WAIT, copy);
		int ret;

		memset(from, 5 + (int)i, BYTES);
		expect(!rnl_job_set_device(&w->job, (int)(i % nr)));
		expect_accepted(ret = watched_submitted(w, rnl_submit(*pool, &w->job)));
		if (ret)
			continue;
		expect(!rnl_job_wait(&w->job, RNL_FOREVER));
		expect(w->job.result || !memcmp(from, to, BYTES));
	}
	return 0;
}

#define PLACE(says, ...) { .name = says, .several = true, __VA_ARGS__ }

const struct operation place_operations[] = {
	PLACE("rnl_pool_create, over devices", .bare = true, .run = create,
	      .errnos = { -ENOMEM, -EAGAIN, -EIO, -ENODEV }, .instead = { -ENODEV }),
	PLACE("rnl_pool_create, kept SMs over devices", .bare = true, .run = create_kept,
	      .errnos = { -ENOMEM, -EAGAIN, -EIO, -ENODEV }, .instead = { -ENODEV }),
	PLACE("rnl_pool_resize, over devices", .run = grow, .after = after_grow,
	      .errnos = { -ENOMEM, -EAGAIN, -EIO }),
	PLACE("rnl_device_describe, rnl_worker", .run = look),
	PLACE("rnl_job_set_device, rnl_worker", .attr = { .nr_class_workers = 2 },
	      .before = class_of_both, .run = submit, .after = after_submit),
	PLACE("rnl_job_set_after, rnl_barrier_join, over devices", .run = meet,
	      .after = after_submit, .errnos = { -EIO, -EAGAIN, -ENOMEM }),
	PLACE("rnl_memory_get, over devices", .run = alloc, .after = free_both,
	      .errnos = { -ENOMEM, -EIO }),
	PLACE("rnl_memory_put, over devices", .before = take_both, .run = free_now),
	PLACE("rnl_copy, between devices", .before = take_both, .run = copy_between,
	      .after = free_both),
	{ 0 }
};
