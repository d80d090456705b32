/* SPDX-License-Identifier: MIT */
/* Traces: start, stop, and the writer; trace.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <runnel/trace.h>

#include "sys/abi.h"
#include "sys/clock.h"
#include "sys/futex.h"
#include "sys/sizes.h"
#include "sys/thread.h"
#include "pool/pool.h"
#include "worker/staff.h"
#include "trace/trace.h"
#include "trace/trace_arrows.h"
#include "trace/trace_json.h"

#define START "rnl_trace_start()"
#define BUFFER_DEFAULT (4u << 20)
#define BUFFER_MIN (64u << 10)
#define BUFFER_MAX (1u << 30)
#define FILE_DEFAULT (256ull << 20)
#define FILE_MIN (64u << 10)
#define PERIOD_NS 10000000u	/* period of the writer */
#define DRAIN_MAX 1024u		/* records of a track that are written in a row */

enum { GOES_ON = 0, ENDS = 1, HANDS_OVER = 2 };

/* ---- the writer ---------------------------------------------------------- */

/* Writes the tracks' records.  Returns true if there were many. */
static bool trace_drain(struct rnl__trace *t)
{
	bool much = false;

	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		struct rnl__track *track = rnl__tracks_at(&t->tracks, i);
		const struct rnl__track_record *records;
		uint64_t seen = 0, nr;

		if (track)
			records = rnl__track_peek(track, &seen);
		if (!seen)
			continue;
		nr = rnl__smaller(seen, DRAIN_MAX);
		if (!(t->named[i / 64] >> i % 64 & 1))
			rnl__trace_name_track(t, track);
		t->named[i / 64] |= 1ull << i % 64;
		for (uint64_t n = 0; n < nr; n++) {
			if (records[n].kind == RNL__TRACK_AFTER)
				rnl__trace_note_after(t, track, records[n].after.barrier,
						      records[n].after.picked);
			else if (rnl__trace_record(t, track, &records[n]))
				rnl__trace_note(t, track, &records[n]);
		}
		rnl__track_skip(track, nr);
		/* At the ring's end, more records may follow at its begin. */
		much = much || nr < seen || nr >= track->nr_records / 8 ||
		       !(rnl__own_read(&track->tail) % track->nr_records);
	}
	return much;
}

static uint32_t stops(struct rnl__trace *t)
{
	/* [trace.S2] acquire: all of the workers' records; pairs with [trace.S1] */
	return atomic_load_explicit(&t->stops, memory_order_acquire);
}

static void write_end(struct rnl__trace *t)
{
	while (trace_drain(t))
		;
	rnl__waits_note_in(t->pool, NULL);
	rnl__trace_end_arrows(t);
	rnl__trace_footer(t);
	rnl__trace_flush(&t->file);
}

static void *writer_main(void *arg)
{
	struct rnl__trace *t = arg;
	bool much;

	rnl__thread_name(t->pool->name, "trace");
	/* The traced work goes first.  On Linux this call changes only the calling thread. */
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5);
	while (!stops(t)) {
		much = trace_drain(t);
		if (much)
			continue;
		rnl__trace_flush(&t->file);
		(void)rnl__futex_wait(&t->stops, GOES_ON, rnl__now() + PERIOD_NS);
	}
	if (stops(t) == ENDS)
		write_end(t);
	return NULL;
}

static void trace_stop_writer(struct rnl__trace *t, uint32_t how)
{
	/* [trace.S1] release: the workers record nothing any more; pairs with [trace.S2] */
	atomic_store_explicit(&t->stops, how, memory_order_release);
	(void)rnl__futex_wake(&t->stops, 1);
	pthread_join(t->writer, NULL);
}

/* Writes the rest with the priority of the caller of rnl_trace_stop(), which waits for it. */
static void *ender_main(void *arg)
{
	struct rnl__trace *t = arg;

	rnl__thread_name(t->pool->name, "trace");
	trace_stop_writer(t, HANDS_OVER);
	write_end(t);
	return NULL;
}

static void stop_writer(struct rnl__trace *t)
{
	pthread_t ender;

	if (rnl__thread_create(&ender, ender_main, t))
		trace_stop_writer(t, ENDS);
	else
		pthread_join(ender, NULL);
}

/* ---- memory -------------------------------------------------------------- */

static uint64_t records_in(uint64_t buffer_bytes)
{
	uint64_t nr = 1;

	while (2 * nr * sizeof(struct rnl__track_record) <= buffer_bytes)
		nr *= 2;
	return nr;
}

static void trace_destroy(struct rnl__trace *t)
{
	rnl__tracks_free(&t->tracks);
	free(t);
}

static int create(struct rnl_pool *pool, const struct rnl_trace_attr *attr,
		  struct rnl__trace **tracep)
{
	struct rnl__trace *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->pool = pool;
	t->timing = t->tracks.timing = attr->timing;
	t->tracks.limit = pool->max_in_flight;
	t->tracks.nr_records = records_in(attr->buffer_bytes);
	*tracep = t;
	return 0;
}

/* ---- start and stop ------------------------------------------------------ */

/* Stops the workers' recording, then the writer; writes the remaining records. */
static int trace_end(struct rnl_pool *pool)
{
	struct rnl__trace *t = pool->trace;
	int ret;

	pool->trace = NULL;
	rnl__staff_set_tracks(pool, NULL);
	stop_writer(t);
	ret = rnl__trace_close(&t->file);
	if (ret)
		rnl__pool_log(pool, RNL_LOG_WARNING, "the trace is not complete: %s",
			      rnl_strerror(ret));
	trace_destroy(t);
	return ret;
}

static int trace_end_running(struct rnl_pool *pool)
{
	int ret;

	pthread_mutex_lock(&pool->tracing);
	ret = pool->trace ? trace_end(pool) : -EALREADY;
	pthread_mutex_unlock(&pool->tracing);
	return ret;
}

/* Called when a pool is destroyed. */
static void trace_end_if_any(struct rnl_pool *pool)
{
	(void)trace_end_running(pool);
}

static int trace_start(struct rnl_pool *pool, const char *path, const struct rnl_trace_attr *attr)
{
	struct rnl__trace *t;
	int ret;

	if (pool->trace)
		return -EALREADY;
	ret = create(pool, attr, &t);
	if (ret)
		return ret;
	ret = rnl__trace_open(&t->file, path, attr->file_max);
	if (ret) {
		trace_destroy(t);
		if (ret == -EINVAL)
			return rnl__invalid(&pool->log, START ": %s is no regular file", path);
		return ret;
	}
	t->file.reserved = RNL__TRACE_FOOTER_MAX;
	t->pid = getpid();
	t->start = rnl__now();
	/* Written first: the file has its header even if nothing follows. */
	rnl__trace_header(t);
	rnl__trace_flush(&t->file);
	ret = t->file.error;
	if (!ret)
		ret = rnl__pool_no_thread(pool, START, rnl__thread_create(&t->writer, writer_main, t));
	if (ret) {
		(void)rnl__trace_close(&t->file);
		trace_destroy(t);
		return ret;
	}
	pool->trace = t;
	pool->end_trace = trace_end_if_any;
	t->arrows.waits.start = t->start;
	rnl__waits_note_in(pool, &t->arrows.waits);
	rnl__staff_set_tracks(pool, &t->tracks);
	/* relaxed: the commands' latch has published it */
	ret = atomic_load_explicit(&t->tracks.error, memory_order_relaxed);
	if (ret)
		(void)trace_end(pool);
	return ret;
}

static int trace_check_attr(struct rnl_pool *pool, struct rnl_trace_attr *attr)
{
	const struct rnl__range ranges[] = {
		{ "timing", attr->timing, 0, RNL_TRACE_HOST },
		{ "buffer_bytes", attr->buffer_bytes, attr->buffer_bytes ? BUFFER_MIN : 0,
		  BUFFER_MAX },
		{ "file_max", attr->file_max, attr->file_max ? FILE_MIN : 0, UINT64_MAX },
	};

	if (!attr->buffer_bytes)
		attr->buffer_bytes = BUFFER_DEFAULT;
	if (!attr->file_max)
		attr->file_max = FILE_DEFAULT;
	return rnl__check_ranges(&pool->log, START, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

int rnl_trace_start(struct rnl_pool *pool, const char *path, const struct rnl_trace_attr *user)
{
	RNL__UNCANCELLED();
	struct rnl_trace_attr attr;
	int ret = rnl__pool_given(pool, START);

	if (ret)
		return ret;
	if (!path)
		return rnl__invalid(&pool->log, START ": path is NULL");
	ret = rnl__copy_in(&attr, sizeof(attr), user, RNL__FIRST_TRACE_ATTR);
	if (ret)
		return rnl__bad_struct(&pool->log, START, "the attributes", user, ret);
	ret = trace_check_attr(pool, &attr);
	if (!ret && rnl__pool_failed(pool))
		ret = -EIO;
	if (!ret && rnl__pool_worker(pool))
		ret = rnl__pool_waits_for_itself(pool, START);
	if (ret)
		return ret;
	pthread_mutex_lock(&pool->tracing);
	ret = trace_start(pool, path, &attr);
	pthread_mutex_unlock(&pool->tracing);
	return ret;
}

int rnl_trace_stop(struct rnl_pool *pool)
{
	RNL__UNCANCELLED();
	int ret = rnl__pool_given(pool, "rnl_trace_stop()");

	if (ret)
		return ret;
	return rnl__pool_worker(pool) ? rnl__pool_waits_for_itself(pool, "rnl_trace_stop()") :
					trace_end_running(pool);
}
