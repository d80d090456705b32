/* SPDX-License-Identifier: MIT */
/* What a pool's workers and its callers do with what they share. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "abi.h"
#include "fence.h"
#include "pool.h"

void rnl__pool_log(struct rnl_pool *pool, enum rnl_log_level level, const char *format, ...)
{
	char line[640];
	va_list ap;

	if (!pool->log)
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	pool->log(pool->log_arg, level, line);
}

void rnl__pool_hold(struct rnl_pool *pool)
{
	(void)rnl__queue_move_in(&pool->held);
}

void rnl__pool_unhold(struct rnl_pool *pool)
{
	rnl__queue_move_out(&pool->held);
	/* [pool.H1] full barrier: let go of before the look who drains; pairs with [bell.L2] */
	rnl__mb_after_rmw();
	rnl__bell_ring(&pool->settled);
}

void rnl__pool_ring_rooms(struct rnl_pool *pool)
{
	rnl__bell_ring(&pool->room[0]);
	rnl__bell_ring(&pool->room[1]);
	rnl__bell_ring(&pool->room_put_off);
	rnl__bell_ring(&pool->room_batch);
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		rnl__bell_ring(&pool->workers[i].room);
}

int rnl_pool_device(struct rnl_pool *pool, struct rnl_device_info *info)
{
	int ret = rnl__pool_check(pool);

	if (!ret)
		ret = rnl__check_out(info, RNL__FIRST_DEVICE_INFO);
	if (!ret)
		rnl__copy_out(info, &pool->device->info, sizeof(*info));
	return ret;
}

uint64_t rnl__pool_queued(struct rnl_pool *pool)
{
	unsigned nr = rnl__pool_nr_workers(pool);
	uint64_t queued = 0;

	for (unsigned i = 0; i < nr; i++)
		queued += rnl__queue_length(&pool->workers[i].queue);
	return queued;
}

/* ---- to its workers ------------------------------------------------------ */

void rnl__pool_order(struct rnl__worker *w, uint32_t what)
{
	/* [worker.O2] release: what was made ready for the order; pairs with [worker.O1] */
	atomic_fetch_or_explicit(&w->orders, what, memory_order_release);
	/* [worker.O3] full barrier: the order is given before we look who sleeps; pairs with [park.S1] */
	rnl__full_barrier();
	(void)rnl__park_wake(&w->park);
}

void rnl__pool_made_room(struct rnl__worker *w)
{
	struct rnl__bell *room = &w->pool->room[w->urgent], *put_off = &w->pool->room_put_off;

	if (!rnl__bell_heard(room) && !rnl__bell_heard(&w->room) && !rnl__bell_heard(put_off))
		return;
	if (!rnl__queue_roomy(&w->queue))
		return;
	rnl__bell_ring_once(room);
	rnl__bell_ring_once(&w->room);
	rnl__bell_ring_once(put_off);
}
