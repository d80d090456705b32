/* SPDX-License-Identifier: MIT */
/* A worker's thread; serve.h has the design. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pool/attach.h"
#include "pool/guard.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "stream/stream.h"
#include "sys/clock.h"
#include "sys/cpus.h"
#include "sys/latch.h"
#include "sys/thread.h"
#include "sys/thread_state.h"
#include "sys/tsan.h"
#include "watch/nvtx.h"
#include "worker/command.h"
#include "worker/group.h"
#include "worker/idle.h"
#include "worker/loop.h"
#include "worker/replay.h"
#include "worker/serve.h"
#include "worker/share.h"

static int set_affinity(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned i;
	int ret;

	if (!pool->nr_cpus)
		return 0;
	i = w->index % pool->nr_cpus;
	ret = rnl__cpus_keep_on(pool->cpus[i]);
	if (ret == -EINVAL)
		return rnl__invalid(&pool->log, "worker %u: cpus[%u] is %u, where the process may not "
				    "run", w->index, i, pool->cpus[i]);
	return ret ? rnl__system_refused(&pool->log, "the attribute cpus", "sched_setaffinity", ret) : 0;
}

/* Prepares a thread that has not served.  Reuses resources of an earlier thread of the worker. */
static int set_up(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	char index[12];
	int ret;

	snprintf(index, sizeof(index), "%u", w->index);
	rnl__thread_name(pool->name, index);
	/* By default a short sleep may end 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	ret = set_affinity(w);
	if (!ret)
		ret = rnl__attach_to(pool, w->device, &w->own.stream, "a worker's stream");
	if (ret)
		return ret;
	rnl__thread.worker = w;
	/* The stream is new: it has joined no other stream. */
	rnl__worker_forget_joins(w);
	rnl__thread.stream->gather = &w->gather;
	if (!w->ranges)
		w->ranges = rnl__nvtx_create();
	if (!w->timing)
		w->timing = calloc(1, sizeof(*w->timing));
	if (!w->timing)
		return -ENOMEM;
	rnl__scratch_init(&w->scratch, w->device, pool->scratch_keep);
	if (!w->gather.noted)
		ret = rnl__gather_init(&w->gather, rnl__group_failed, rnl__group_left_out);
	if (!ret && !w->inflight.marks) {
		rnl__staging_init(&w->staging, w->device, pool->pinned, pool->staging_max);
		ret = rnl__inflight_init(&w->inflight, w->device, pool->max_in_flight,
					 pool->enough_ns);
	}
	if (ret)
		rnl__inflight_fini(&w->inflight);
	if (!ret)
		ret = rnl__inflight_begin(&w->inflight);
	if (!ret)
		/* [worker.M2] release: what other threads read of it; pairs with [worker.M1] */
		atomic_store_explicit(&w->made, true, memory_order_release);
	return ret;
}

static int call_on_start(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	int ret;

	if (!pool->on_start)
		return 0;
	if (pool->guard)
		rnl__guard_enter(w);
	ret = pool->on_start(pool->hook_arg, w->index, &w->data);
	rnl__unit_forgive(w);
	if (pool->guard)
		rnl__guard_leave(w);
	return ret;
}

static void call_on_stop(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;

	if (!pool->on_stop)
		return;
	if (pool->guard)
		rnl__guard_enter(w);
	pool->on_stop(pool->hook_arg, w->index, w->data);
	if (pool->guard)
		rnl__guard_leave(w);
}

/* Serves until a command ends it.  Returns 0, or the error if the worker could not begin. */
static int serve(struct rnl__worker *w)
{
	int ret;

	rnl__tsan_acquire(&w->commands);
	ret = call_on_start(w);
	if (ret)
		rnl__pool_log(w->pool, RNL_LOG_ERROR, "worker %u: on_start returned %d%s", w->index,
			      ret, ret > 0 ? "; it must return 0 or a negative errno" : "");
	if (ret > 0)
		ret = -EINVAL;
	w->serves = !ret;
	rnl__share_attend(w, false);
	rnl__command_done(w, RNL__SERVE, ret);
	if (ret)
		return ret;
	rnl__loop(w);
	rnl__tsan_acquire(&w->commands);
	rnl__pool_wake_counts(w->pool);
	w->serves = false;
	call_on_stop(w);
	w->data = NULL;
	if (rnl__commands(w) & RNL__LEAVE)
		rnl__command_done(w, RNL__LEAVE, 0);
	return 0;
}

/* Sleeps until there is a command; the worker is away. */
static void await_command(struct rnl__worker *w)
{
	rnl__park_prepare(&w->park, false);
	if (rnl__commands(w))
		(void)rnl__park_leave(&w->park);
	else
		(void)rnl__park_sleep(&w->park, RNL__NEVER);
	if (rnl__commands(w) & RNL__TRACE)
		rnl__command_obey(w);
}

/*
 * Ends the thread.  Once `present` is dropped, the pool may be gone.  If the device has failed,
 * the thread stays and does nothing: at a thread's end CUDA destroys the thread's stream, and may
 * never return (seen on an H200 with driver 580: a destructor waits for another thread of CUDA).
 */
static void serve_end_thread(struct rnl__worker *w)
{
	bool stays = rnl__device_failed(w->device);

	w->stays = stays;
	(void)rnl__latch_drop(&w->present, 1);
	while (stays)
		pause();
}

void *rnl__serve_main(void *arg)
{
	struct rnl__worker *w = arg;
	int ret;

	/* A job that cancels its own thread would end the worker. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	ret = set_up(w);

	if (ret)
		rnl__command_done(w, RNL__SERVE, ret);
	else
		rnl__command_track(w);
	while (!ret && !(rnl__commands(w) & RNL__END)) {
		if (rnl__commands(w) & RNL__SERVE)
			(void)serve(w);
		else
			await_command(w);
	}
	w->track = NULL;
	rnl__replays_fini(w);
	rnl__scratch_fini(&w->scratch);
	rnl__stream_detach();
	serve_end_thread(w);
	return NULL;
}
