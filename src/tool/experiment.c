/* SPDX-License-Identifier: MIT */
/* Code that the experiments of check and bench share; experiment.h has the design. */
#include "experiment.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#include "tool.h"

static uint32_t guard;		/* attribute guard of all pools: enum rnl_guard */

void tool_must(int ret, const char *what)
{
	if (ret < 0)
		exit(tool_trouble("%s: %s", what, rnl_strerror(ret)));
}

int tool_guard(void)
{
	const char *text = getenv("RUNNEL_GUARD");

	if (text && strcmp(text, "") && strcmp(text, "0") && strcmp(text, "1") && strcmp(text, "2"))
		return tool_trouble("RUNNEL_GUARD is '%s': set it to 1 to report misuse in job "
				    "functions, to 2 to make such jobs fail, or unset it", text);
	guard = !text ? RNL_GUARD_OFF : *text == '1' ? RNL_GUARD_REPORT :
		*text == '2' ? RNL_GUARD_STRICT : RNL_GUARD_OFF;
	return 0;
}

static void show_log(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (level == RNL_LOG_ERROR || (level == RNL_LOG_WARNING && guard))
		(void)tool_trouble("%s", msg);
}

struct rnl_pool *tool_pool(struct rnl_pool_attr attr)
{
	struct rnl_pool *pool = NULL;

	attr.size = sizeof(attr);
	attr.guard = guard;
	attr.log = show_log;
	tool_must(rnl_pool_create(&pool, &attr), "creating the workers");
	return pool;
}

void tool_submit(struct rnl_pool *pool, struct rnl_job *job)
{
	tool_must(rnl_submit(pool, job), "submitting a job");
}

void tool_wait(struct rnl_job *job, const char *what)
{
	tool_must(rnl_job_wait(job, TOOL_WAIT_NS), what);
	tool_must(job->result, what);
}

unsigned tool_nr_devices(struct rnl_pool *pool)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	tool_must(rnl_device_describe(pool, NULL, 0, &info), "the pool's device");
	return info.nr_devices;
}

void *tool_pinned(struct rnl_pool *pool, size_t bytes)
{
	void *mem = NULL;

	tool_must(rnl_memory_get(pool, RNL_PINNED, bytes, &mem, 0), "page-locked memory");
	return memset(mem, 0, bytes);
}

void *tool_device_memory(struct rnl_pool *pool, unsigned device, size_t bytes)
{
	void *mem = NULL;

	tool_must(rnl_memory_get(pool, device, bytes, &mem, 0), "the device's memory");
	return mem;
}

struct rnl_pool_stats tool_stats(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	tool_must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats), "the pool's counters");
	return stats;
}

uint64_t tool_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void tool_sort(double *values, unsigned nr)
{
	qsort(values, nr, sizeof(*values), by_value);
}
