/* SPDX-License-Identifier: MIT */
/* Traces, and calls that read one. */
#include <string.h>
#include <unistd.h>

#include <runnel/trace.h>

#include "await.h"
#include "countdown.h"

static char path[64];
static bool runs;

static void name_file(struct rnl_pool *pool)
{
	(void)pool;
	snprintf(path, sizeof(path), "/tmp/unit_countdown.%d.json", (int)getpid());
}

/* Begins a trace with the smallest buffers, to leave memory of the double. */
static int begin(struct rnl_pool *pool)
{
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	int ret;

	attr.timing = RNL_TRACE_EVERY;
	attr.buffer_bytes = 64 << 10;
	attr.file_max = 1 << 20;
	ret = rnl_trace_start(pool, path, &attr);
	runs = !ret;
	return ret;
}

static void submit_some(struct rnl_pool *pool)
{
	struct rnl_barrier barrier;

	expect(!rnl_barrier_init(&barrier, pool));
	for (unsigned i = 0; i < 2; i++) {
		struct watched *w = watched_next(BY_CALLBACK);

		expect(!rnl_barrier_add(&barrier, &w->job));
		expect_accepted(watched_submitted(w, rnl_submit(pool, &w->job)));
	}
	/* The trace has an arrow to the waiter. */
	expect(!rnl_barrier_wait(&barrier, RNL_FOREVER));
	expect(!rnl_pool_drain(pool, RNL_FOREVER));
}

static int stop(struct rnl_pool *pool)
{
	runs = false;
	return rnl_trace_stop(pool);
}

/* Traces from start to end.  Errors in between are reported by the stop, or by no call. */
static int whole(struct rnl_pool **pool)
{
	int ret = begin(*pool);

	submit_some(*pool);
	return ret ? ret : stop(*pool);
}

/* Checks that the file is complete, unless even its end could not be written. */
static void check_file(void)
{
	static char text[1 << 20];
	FILE *file = fopen(path, "r");
	size_t bytes;

	expect(file);
	bytes = fread(text, 1, sizeof(text), file);
	fclose(file);
	if (fault() == -ENOSPC)
		return;
	expect(bytes > 3 && text[0] == '[' && !memcmp(text + bytes - 3, "\n]\n", 3));
}

static void after_whole(struct rnl_pool *pool, int ret)
{
	if (!ret)
		check_file();
	expect(rnl_trace_stop(pool) == -EALREADY);
	/* The next trace is complete. */
	if (!fault_lasts()) {
		expect(!begin(pool));
		submit_some(pool);
		expect(!stop(pool));
	}
	unlink(path);
}

static void before_stop(struct rnl_pool *pool)
{
	name_file(pool);
	expect(!begin(pool));
	submit_some(pool);
}

static int only_stop(struct rnl_pool **pool)
{
	return stop(*pool);
}

static void after_stop(struct rnl_pool *pool, int ret)
{
	(void)ret;
	expect(rnl_trace_stop(pool) == -EALREADY);
	unlink(path);
}

#define DISK_ERRNOS -EMFILE, -ENOSPC

const struct operation trace_operations[] = {
	{ .name = "rnl_trace_start, jobs, rnl_trace_stop", .attr = TWO_SMALL_WORKERS,
	  .before = name_file, .run = whole, .after = after_whole,
	  .errnos = { -ENOMEM, -EAGAIN, -EIO, DISK_ERRNOS } },
	{ .name = "rnl_trace_stop", .attr = TWO_SMALL_WORKERS, .before = before_stop,
	  .run = only_stop, .after = after_stop, .errnos = { DISK_ERRNOS } },
	{ 0 }
};
