/* SPDX-License-Identifier: MIT */
/* Workers: initialization, commands, returned jobs, joins, and space in their queues. */
#include "config.h"

#include <string.h>

#include "pool/pool.h"
#include "pool/worker.h"
#include "sys/fence.h"
#include "sys/tsan.h"

void rnl__worker_init(struct rnl__worker *w, struct rnl_pool *pool, unsigned index)
{
	w->pool = pool;
	w->index = index;
	w->device_index = index % pool->devices.nr;
	w->device = pool->devices.list[w->device_index];
	w->in_staff = index >= pool->nr_class_workers;
	w->own.stream = (struct rnl__stream_wish){ pool->stream, RNL__LEVEL_LOWEST,
						   pool->sms[w->device_index], false };
	rnl__eventcount_init(&w->space);
	rnl__queue_init(&w->queue, pool->devices.nr > 1);
}

void rnl__worker_command(struct rnl__worker *w, uint32_t commands)
{
	rnl__tsan_release(&w->commands);
	/* [worker.O2] release: the preparations for the command; pairs with [worker.O1] */
	atomic_fetch_or_explicit(&w->commands, commands, memory_order_release);
	/*
	 * [worker.O3] full barrier: the command is there before the look for sleepers;
	 * pairs with [park.S1]
	 */
	rnl__full_barrier();
	(void)rnl__park_wake(&w->park);
}

void rnl__worker_forget_joins(struct rnl__worker *w)
{
	memset(w->joined, 0, sizeof(w->joined));
	w->joined[w->index % RNL__JOINED] = UINT64_MAX - UINT64_MAX % RNL_WORKERS_MAX + w->index;
}

void rnl__worker_return(struct rnl__worker *w, struct rnl_job *job)
{
	(void)rnl__inbox_put(&w->returned, job, &job->link);
	/*
	 * [worker.B3] full barrier: the job is there before the look whether its worker sleeps;
	 * pairs with [park.S1], [eventcount.L2]
	 */
	rnl__mb_after_rmw();
	if (w->index == RNL__TIMER)
		rnl__eventcount_wake(&w->pool->timer.eventcount);
	else
		(void)rnl__park_wake(&w->park);
}

void rnl__worker_wake_space(struct rnl__worker *w)
{
	if (!rnl__queue_has_space(&w->queue))
		return;
	rnl__eventcount_wake_one(&w->pool->space);
	rnl__eventcount_wake_one(&w->space);
	rnl__waitq_wake(w->pool);
}
