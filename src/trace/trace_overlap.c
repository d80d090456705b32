/* SPDX-License-Identifier: MIT */
/* What was on the device at the same time, by the trace that runs. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/abi.h"
#include "pool/pool.h"
#include "trace/trace.h"

/* Copies the spans that are kept, so that the figures are found without the lock. */
static int copy_spans(struct rnl__trace *t, struct rnl_overlap_span **spans, size_t *nr,
		      uint64_t *nr_untimed)
{
	pthread_mutex_lock(&t->lock);
	while (rnl__trace_drain(t))
		;
	*nr = t->nr_spans < RNL__TRACE_SPANS ? (size_t)t->nr_spans : RNL__TRACE_SPANS;
	*nr_untimed = t->nr_flown - t->nr_timed;
	*spans = malloc((*nr + 1) * sizeof(**spans));
	if (*spans)
		memcpy(*spans, t->spans, *nr * sizeof(**spans));
	pthread_mutex_unlock(&t->lock);
	return *spans ? 0 : -ENOMEM;
}

static int find(struct rnl__trace *t, struct rnl_overlap *out)
{
	struct rnl_overlap_span *spans;
	uint64_t nr_untimed;
	size_t nr;
	int ret = copy_spans(t, &spans, &nr, &nr_untimed);

	if (ret)
		return ret;
	ret = rnl_overlap_find(spans, nr, out);
	out->nr_untimed = nr_untimed;
	free(spans);
	return ret;
}

int rnl_trace_overlap(struct rnl_pool *pool, struct rnl_overlap *overlap)
{
	struct rnl_overlap out = RNL_OVERLAP_INIT;
	int ret = rnl__pool_check(pool);

	if (!ret)
		ret = rnl__check_out(overlap, RNL__FIRST_OVERLAP);
	if (!ret && rnl__pool_worker(pool))
		ret = -EBUSY;
	if (ret)
		return ret;
	pthread_mutex_lock(&pool->tracing);
	ret = pool->trace ? find(pool->trace, &out) : -EALREADY;
	pthread_mutex_unlock(&pool->tracing);
	if (!ret)
		rnl__copy_out(overlap, &out, sizeof(out));
	return ret;
}
