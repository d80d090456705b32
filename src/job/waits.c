/* SPDX-License-Identifier: MIT */
/* Waits that have ended, which a trace draws as arrows; waits.h has the design. */
#include "config.h"

#include <stdlib.h>

#include "job/waits.h"
#include "pool/pool.h"
#include "sys/array.h"
#include "sys/clock.h"

#define WAITS_MAX 65536u

void rnl__waits_note_in(struct rnl_pool *pool, struct rnl__waits *waits)
{
	pthread_mutex_lock(&pool->waiting);
	pool->waits = waits;
	pthread_mutex_unlock(&pool->waiting);
}

uint64_t rnl__waits_begin(struct rnl_pool *pool)
{
	return rnl__pool_traced(pool) ? rnl__now() : 0;
}

static bool make_space(struct rnl__waits *waits)
{
	struct rnl__wait *list = NULL;

	if (waits->nr < WAITS_MAX)
		list = rnl__array_extend(waits->list, waits->nr, &waits->space, sizeof(*list));
	if (list)
		waits->list = list;
	return list;
}

void rnl__waits_add(struct rnl_pool *pool, const struct rnl__wait *wait)
{
	struct rnl__waits *waits;

	pthread_mutex_lock(&pool->waiting);
	waits = pool->waits;
	if (waits && wait->begin >= waits->start) {
		if (make_space(waits))
			waits->list[waits->nr++] = *wait;
		else
			waits->lost++;
	}
	pthread_mutex_unlock(&pool->waiting);
}

void rnl__waits_end(struct rnl_pool *pool, uint64_t begin, const void *what)
{
	if (begin)
		rnl__waits_add(pool, &(struct rnl__wait){
			.begin = begin, .end = rnl__now(), .what = what, .tid = rnl__thread_tid(),
		});
}
