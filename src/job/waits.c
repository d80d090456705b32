/* SPDX-License-Identifier: MIT */
/* Waits that have ended, which a trace draws as arrows; waits.h has the design. */
#include "config.h"

#include <stdlib.h>

#include "job/waits.h"
#include "pool/pool.h"
#include "sys/clock.h"

#define WAITS_MAX 100000u

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
	size_t space = waits->space ? 2 * waits->space : 64;
	struct rnl__wait *list;

	if (waits->nr < waits->space)
		return true;
	list = space < WAITS_MAX ? realloc(waits->list, space * sizeof(*list)) : NULL;
	if (!list)
		return false;
	waits->list = list;
	waits->space = space;
	return true;
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
