/* SPDX-License-Identifier: MIT */
/* Pools: created, resized, destroyed, read; and a process's first calls. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <runnel/class.h>
#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/stats.h>
#include <runnel/unit.h>

#include "await.h"
#include "countdown.h"

static struct rnl_pool *const untouched = (struct rnl_pool *)&(char){ 0 };

/* ---- a process ------------------------------------------------------------------ */

static bool was_alone;

static void before_setup(struct rnl_pool *pool)
{
	struct stat tasks;

	(void)pool;
	unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
	/* A sanitizer may have its own thread. */
	expect(!stat("/proc/self/task", &tasks));
	was_alone = tasks.st_nlink == 3;
}

static int setup(struct rnl_pool **pool)
{
	int ret = rnl_setup();

	(void)pool;
	return ret == -EBUSY && !was_alone ? 0 : ret;
}

static int say(struct rnl_pool **pool)
{
	(void)pool;
	return rnl_version() && rnl_strerror(-EIO) && rnl_strerror(EAGAIN) ? 0 : -EPROTO;
}

static void hear(void *arg, enum rnl_log_level level, const char *msg)
{
	*(bool *)arg = level == RNL_LOG_ERROR && strstr(msg, "poolp");
}

static int set_log(struct rnl_pool **pool)
{
	bool heard = false;

	(void)pool;
	rnl_set_log(hear, &heard);
	expect(rnl_pool_create(NULL, NULL) == -EINVAL && heard);
	rnl_set_log(NULL, NULL);
	expect(rnl_pool_create(NULL, NULL) == -EINVAL);	/* this log line is wanted */
	return 0;
}

static int no_error(void)
{
	return 0;
}

static int add_unit(struct rnl_pool **pool)
{
	struct rnl__cuda_unit unit = {
		.size = sizeof(unit), .last_error = no_error, .runtime = &unit,
	};
	int ret;

	(void)pool;
	ret = rnl__cuda_unit_add(&unit);
	rnl__cuda_unit_remove(&unit);
	return ret;
}

static int describe(struct rnl_pool **pool)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	(void)pool;
	return rnl_device_describe(NULL, test_device(), 0, &info);
}

/* ---- creation ------------------------------------------------------------------- */

static _Atomic int nr_started;

static int on_start(void *arg, unsigned worker, void **datap)
{
	(void)arg;
	(void)worker;
	(void)datap;
	nr_started++;
	return 0;
}

static void on_stop(void *arg, unsigned worker, void *data)
{
	(void)arg;
	(void)worker;
	(void)data;
	nr_started--;
}

static int create_with(struct rnl_pool **pool, struct rnl_pool_attr *attr)
{
	int ret;

	attr->device = test_device();
	*pool = untouched;
	ret = rnl_pool_create(pool, attr);
	expect((*pool == untouched) == (ret != 0));
	if (ret)
		*pool = NULL;
	return ret;
}

static int create(struct rnl_pool **pool)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.nr_workers = 2;
	attr.max_in_flight = 4;
	return create_with(pool, &attr);
}

static int create_default(struct rnl_pool **pool)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.nr_workers = 1;
	attr.nr_class_workers = 1;
	return create_with(pool, &attr);
}

/* Uses all attributes that need memory, threads or calls of the device. */
static int create_all(struct rnl_pool **pool)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	uint16_t cpus[CPU_SETSIZE];
	cpu_set_t set;
	int ret;

	expect(!sched_getaffinity(0, sizeof(set), &set));
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[attr.nr_cpus++] = (uint16_t)cpu;
	}
	attr.cpus = cpus;
	attr.nr_workers = 2;
	attr.nr_class_workers = 1;
	attr.max_in_flight = 2;
	attr.stream = RNL_STREAM_PRIVATE;
	attr.guard = RNL_GUARD_REPORT;
	watched_twice();
	attr.pinned_preload = 64 << 20;	/* large enough to be registered */
	attr.on_start = on_start;
	attr.on_stop = on_stop;
	ret = create_with(pool, &attr);
	expect(nr_started == (ret ? 0 : 2));
	return ret;
}

/* ---- resizes -------------------------------------------------------------------- */

static int grow(struct rnl_pool **pool)
{
	return rnl_pool_resize(*pool, 3);
}

static int shrink(struct rnl_pool **pool)
{
	return rnl_pool_resize(*pool, 1);
}

static void expect_workers(struct rnl_pool *pool, unsigned nr)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	expect(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	expect_msg(stats.nr_workers == nr, "%u workers, not %u", stats.nr_workers, nr);
}

static void after_grow(struct rnl_pool *pool, int ret)
{
	expect_workers(pool, ret ? 1 : 3);
	/* Without a failing call, it succeeds. */
	if (fault_lasts())
		return;
	expect(!rnl_pool_resize(pool, 4));
	expect_workers(pool, 4);
}

static void after_shrink(struct rnl_pool *pool, int ret)
{
	expect_workers(pool, ret ? 3 : 1);
}

/* ---- ends ----------------------------------------------------------------------- */

static void submit_some(struct rnl_pool *pool)
{
	for (unsigned i = 0; i < 4; i++) {
		struct watched *w = watched_next(i % 2 ? BY_CALLBACK : BY_WAIT);

		expect_accepted(watched_submitted(w, rnl_submit(pool, &w->job)));
	}
}

/* The jobs are part of the operation. */
static int close_and_drain(struct rnl_pool **pool)
{
	int ret;

	submit_some(*pool);
	ret = rnl_pool_close(*pool);
	return ret ? ret : rnl_pool_drain(*pool, RNL_FOREVER);
}

static int destroy(struct rnl_pool **pool)
{
	submit_some(*pool);
	rnl_pool_destroy(*pool);
	*pool = NULL;
	return 0;
}

/* ---- SMs of their own ------------------------------------------------------------ */

static int create_kept(struct rnl_pool **pool)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.nr_workers = 1;
	attr.nr_class_workers = 1;
	attr.max_in_flight = 2;
	attr.stream = RNL_STREAM_PRIVATE;
	attr.kept_sms = strcmp(test_device(), "host") ? 8 : 0;
	return create_with(pool, &attr);
}

/* A whole life: what a failing destruction of a stream leaves is not destroyed under it. */
static int live_kept(struct rnl_pool **pool)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct rnl_class *cls;
	struct watched *w;
	int ret = create_kept(pool);

	if (ret)
		return ret;
	attr.nr_workers = 1;
	attr.flags = strcmp(test_device(), "host") ? RNL_CLASS_KEPT_SMS : 0;
	ret = rnl_class_create(&cls, *pool, &attr);
	if (!ret) {
		w = watched_next(BY_CALLBACK);
		expect(!rnl_job_set_class(&w->job, cls));
		expect_accepted(watched_submitted(w, rnl_submit(*pool, &w->job)));
		ret = rnl_pool_resize(*pool, 2);
	}
	submit_some(*pool);
	rnl_pool_destroy(*pool);
	*pool = NULL;
	return ret;
}

/* ---- queries -------------------------------------------------------------------- */

static int look(struct rnl_pool **pool)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_unfinished unfinished;
	int ret = rnl_device_describe(*pool, NULL, 0, &info);

	expect(!rnl_pool_read_stats(*pool, RNL_ALL_WORKERS, &stats));
	expect(!rnl_pool_read_stats(*pool, 0, &stats));
	health.unfinished = &unfinished;
	health.max_unfinished = 1;
	expect(!rnl_pool_health(*pool, &health) && !health.nr_unfinished);
	return ret;
}

static int write_text(struct rnl_pool **pool)
{
	static char text[30000];
	int ret = rnl_pool_stats_text(*pool, "one", text, sizeof(text));

	expect(ret < 0 || (size_t)ret == strlen(text));
	expect(ret < 0 || (ret > 1000 && ret < (int)sizeof(text)));
	return ret;
}

#define CREATE(says, ...) \
	{ .name = says, .bare = true, .errnos = { -ENOMEM, -EAGAIN, -EIO, -ENODEV }, \
	  .instead = { -ENODEV }, __VA_ARGS__ }
#define RESIZE_ERRNOS { -ENOMEM, -EAGAIN, -EIO }

const struct operation pool_operations[] = {
	{ .name = "rnl_setup", .first = true, .bare = true, .before = before_setup, .run = setup,
	  .errnos = { -ENOMEM } },
	{ .name = "rnl_version, rnl_strerror", .first = true, .bare = true, .run = say },
	{ .name = "rnl_set_log", .first = true, .bare = true, .run = set_log },
	{ .name = "rnl__cuda_unit_add, rnl__cuda_unit_remove", .first = true, .bare = true,
	  .run = add_unit },
	CREATE("rnl_device_describe, the first", .first = true, .run = describe),
	CREATE("rnl_device_describe, again", .run = describe),
	CREATE("rnl_pool_create, the first", .first = true, .run = create),
	CREATE("rnl_pool_create", .run = create),
	CREATE("rnl_pool_create, all attributes", .run = create_all),
	CREATE("rnl_pool_create, depth of default", .run = create_default),
	{ .name = "rnl_pool_resize, to more", .run = grow, .after = after_grow,
	  .errnos = RESIZE_ERRNOS },
	{ .name = "rnl_pool_resize, to fewer", .attr = { .nr_workers = 3 }, .run = shrink,
	  .after = after_shrink, .errnos = RESIZE_ERRNOS },
	{ .name = "rnl_pool_close, rnl_pool_drain", .closes = true, .run = close_and_drain },
	{ .name = "rnl_pool_destroy", .run = destroy },
	CREATE("rnl_pool_create, kept SMs", .run = create_kept),
	CREATE("rnl_pool_create, rnl_class_create, rnl_pool_resize, rnl_pool_destroy, kept SMs",
	       .run = live_kept),
	{ .name = "rnl_device_describe, rnl_pool_read_stats, rnl_pool_health", .run = look },
	{ .name = "rnl_pool_stats_text", .run = write_text, .errnos = { -ENOMEM } },
	{ 0 }
};
