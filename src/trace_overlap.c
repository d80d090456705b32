/* SPDX-License-Identifier: MIT */
/* What a running trace knows of what ran at the same time. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "pool.h"
#include "trace.h"

static unsigned nr_apart(const struct rnl__overlap *o)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		for (unsigned j = i + 1; j < RNL_WORKERS_MAX; j++)
			nr += (unsigned)rnl__overlap_apart(o, i, j);
	}
	return nr;
}

static void tell(const struct rnl__overlap *o, struct rnl_overlap *out)
{
	const uint64_t busy = o->kind_ns[RNL__OVERLAP_JOB];

	out->nr_workers = (uint32_t)__builtin_popcountll(o->workers);
	out->nr_jobs = o->nr_jobs;
	out->elapsed_ns = o->end - o->begin;
	out->busy_ns = busy;
	out->sum_ns = o->sum_ns;
	out->in_ns = o->kind_ns[RNL__OVERLAP_IN];
	out->kernel_ns = o->kind_ns[RNL__OVERLAP_KERNEL];
	out->out_ns = o->kind_ns[RNL__OVERLAP_OUT];
	out->copies_ns = o->copies_ns;
	out->all_ns = o->all_ns;
	out->longest_gap_ns = o->gaps[0].end - o->gaps[0].begin;
	out->speedup_percent = busy ? (uint32_t)((double)o->sum_ns / (double)busy * 100 + 0.5) : 0;
	out->nr_apart = nr_apart(o);
	memcpy(out->at_once_ns, o->at_once_ns, sizeof(out->at_once_ns));
}

/* The spans that are kept, for figures to be found without the lock. */
static int copy_spans(struct rnl__trace *t, struct rnl__overlap_span **spans, size_t *nr,
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
	struct rnl__overlap *o = malloc(sizeof(*o));
	struct rnl__overlap_span *spans = NULL;
	size_t nr;
	int ret = o ? copy_spans(t, &spans, &nr, &out->nr_untimed) : -ENOMEM;

	if (!ret)
		ret = rnl__overlap_find(spans, nr, o);
	if (!ret)
		tell(o, out);
	free(spans);
	free(o);
	return ret;
}

int rnl_trace_overlap(struct rnl_pool *pool, struct rnl_overlap *overlap)
{
	struct rnl_overlap out = { .size = sizeof(out) };
	int ret = rnl__pool_check(pool);

	if (!ret)
		ret = rnl__check_out(overlap, RNL__FIRST_OVERLAP);
	if (!ret && rnl__pool_worker(pool))
		ret = -EBUSY;
	if (ret)
		return ret;
	pthread_mutex_lock(&pool->tracing);
	ret = pool->joins ? find(pool->joins, &out) : -EALREADY;
	pthread_mutex_unlock(&pool->tracing);
	if (!ret)
		rnl__copy_out(overlap, &out, sizeof(out));
	return ret;
}
