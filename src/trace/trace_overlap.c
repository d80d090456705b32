/* SPDX-License-Identifier: MIT */
/* What was on the device at the same time, by the trace that runs. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/abi.h"
#include "sys/thread.h"
#include "pool/pool.h"
#include "trace/trace.h"

#define OVERLAP "rnl_trace_overlap()"

/* Copies the spans that are kept, so that the figures are found without a lock. */
static int copy_spans(struct rnl__trace *t, struct rnl_overlap_span **spans, size_t *nr,
		      uint64_t *nr_untimed)
{
	pthread_mutex_lock(&t->lock);
	rnl__trace_count(t);
	*nr = t->nr_spans < RNL__TRACE_SPANS ? (size_t)t->nr_spans : RNL__TRACE_SPANS;
	*nr_untimed = t->nr_flown - t->nr_timed;
	*spans = malloc((*nr + 1) * sizeof(**spans));
	if (*spans)
		memcpy(*spans, t->spans, *nr * sizeof(**spans));
	pthread_mutex_unlock(&t->lock);
	return *spans ? 0 : -ENOMEM;
}

int rnl_trace_overlap(struct rnl_pool *pool, struct rnl_overlap *overlap)
{
	RNL__UNCANCELLED();
	struct rnl_overlap out = RNL_OVERLAP_INIT;
	struct rnl_overlap_span *spans = NULL;
	int ret = rnl__pool_given(pool, OVERLAP);
	uint64_t nr_untimed = 0;
	size_t nr = 0;

	if (!ret)
		ret = rnl__check_given(&pool->log, OVERLAP, "overlap", overlap, RNL__FIRST_OVERLAP);
	if (!ret && rnl__pool_worker(pool))
		ret = rnl__pool_waits_for_itself(pool, OVERLAP);
	if (ret)
		return ret;
	pthread_mutex_lock(&pool->tracing);
	ret = pool->trace ? copy_spans(pool->trace, &spans, &nr, &nr_untimed) : -EALREADY;
	pthread_mutex_unlock(&pool->tracing);
	if (!ret)
		ret = rnl_overlap_find(spans, nr, &out);
	free(spans);
	out.nr_untimed = nr_untimed;
	if (!ret)
		rnl__copy_out(overlap, &out, sizeof(out));
	return ret;
}
