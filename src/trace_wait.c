/* SPDX-License-Identifier: MIT */
/* Who waited, noted for a trace's arrows; the wait itself is over by then. */
#include "config.h"

#include <stdlib.h>

#include "clock.h"
#include "pool.h"
#include "trace.h"

#define JOINS_MAX 100000u

uint64_t rnl__trace_wait_begin(struct rnl_pool *pool)
{
	return rnl__pool_traced(pool) ? rnl__now() : 0;
}

static bool make_room(struct rnl__trace_arrows *a)
{
	size_t room = a->room_joins ? 2 * a->room_joins : 64;
	struct rnl__trace_join *joins;

	if (a->nr_joins < a->room_joins)
		return true;
	joins = room < JOINS_MAX ? realloc(a->joins, room * sizeof(*joins)) : NULL;
	if (!joins)
		return false;
	a->joins = joins;
	a->room_joins = room;
	return true;
}

void rnl__trace_after(struct rnl_pool *pool, const struct rnl__trace_join *join)
{
	struct rnl__trace_arrows *a;

	pthread_mutex_lock(&pool->joining);
	a = pool->joins ? &pool->joins->arrows : NULL;
	/* One that began before the trace is none of it. */
	if (a && join->begin >= pool->joins->start) {
		if (make_room(a))
			a->joins[a->nr_joins++] = *join;
		else
			a->lost++;
	}
	pthread_mutex_unlock(&pool->joining);
}

void rnl__trace_wait_end(struct rnl_pool *pool, uint64_t begin, const void *what)
{
	if (begin)
		rnl__trace_after(pool, &(struct rnl__trace_join){
			.begin = begin, .end = rnl__now(), .what = what, .tid = rnl__self_tid(),
		});
}
