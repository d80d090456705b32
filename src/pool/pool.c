/* SPDX-License-Identifier: MIT */
/* What a pool's workers and callers share: its operations, its queues together, its log. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "pool/pool.h"
#include "sys/fence.h"

void rnl__pool_operation_begin(struct rnl_pool *pool)
{
	(void)rnl__tally_enter_always(&pool->operations);
}

void rnl__pool_operation_end(struct rnl_pool *pool)
{
	rnl__tally_leave(&pool->operations);
	/*
	 * [pool.H1] full barrier: the end is counted before the look for drains;
	 * pairs with [bell.L2]
	 */
	rnl__mb_after_rmw();
	rnl__bell_ring(&pool->drained);
}

void rnl__pool_ring_spaces(struct rnl_pool *pool)
{
	rnl__bell_ring(&pool->space[0]);
	rnl__bell_ring(&pool->space[1]);
	rnl__bell_ring(&pool->space_deferred);
	rnl__bell_ring(&pool->space_batch);
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		rnl__bell_ring(&pool->workers[i].space);
}

uint64_t rnl__pool_queued(struct rnl_pool *pool)
{
	unsigned nr = rnl__pool_nr_workers(pool);
	uint64_t queued = 0;

	for (unsigned i = 0; i < nr; i++)
		queued += rnl__queue_length(&pool->workers[i].queue);
	return queued;
}

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
