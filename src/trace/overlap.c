/* SPDX-License-Identifier: MIT */
/* What was on a device at the same time; overlap.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sys/abi.h"
#include "sys/log.h"
#include "trace/overlap.h"

#define NR_KINDS (RNL_OVERLAP_OUT + 1)

/* The begin or the end of a span. */
struct edge {
	uint64_t at;
	uint32_t worker;
	uint16_t kind;
	int16_t step;		/* 1: begins, -1: ends */
};

struct rnl__overlap_work {
	/* What goes on between two edges. */
	unsigned spans[NR_KINDS], jobs[RNL_WORKERS_MAX];
	uint64_t busy;		/* bits: workers that have jobs */

	uint64_t begin[RNL_WORKERS_MAX], end[RNL_WORKERS_MAX]; /* of each worker's jobs */
	uint64_t together[RNL_WORKERS_MAX]; /* bits: workers that had jobs beside that one's */
	struct edge edges[];
};

struct rnl__overlap_work *rnl__overlap_work(size_t nr)
{
	struct rnl__overlap_work *work;

	if (nr > (SIZE_MAX - sizeof(*work)) / 2 / sizeof(work->edges[0]))
		return NULL;
	return malloc(sizeof(*work) + 2 * nr * sizeof(work->edges[0]));
}

/* ---- edges --------------------------------------------------------------- */

/* At one time ends come before begins: spans that only touch do not overlap. */
static int by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->step - y->step;
}

static void add_job(struct rnl__overlap_work *work, const struct rnl_overlap_span *span,
		    struct rnl_overlap *o)
{
	const unsigned i = span->worker;

	if (!(o->workers >> i & 1) || span->begin_ns < work->begin[i])
		work->begin[i] = span->begin_ns;
	if (span->end_ns > work->end[i])
		work->end[i] = span->end_ns;
	o->workers |= 1ull << i;
	o->worker_jobs[i]++;
	o->nr_jobs++;
	o->sum_ns += span->end_ns - span->begin_ns;
}

/* Makes the edges of all spans that are not empty.  Returns how many edges there are. */
static size_t make_edges(struct rnl__overlap_work *work, const struct rnl_overlap_span *spans,
			 size_t nr, struct rnl_overlap *o)
{
	struct edge *to = work->edges;

	for (size_t i = 0; i < nr; i++) {
		const struct rnl_overlap_span *s = &spans[i];

		if (s->end_ns < s->begin_ns || s->worker >= RNL_WORKERS_MAX || s->kind >= NR_KINDS)
			continue;
		if (s->kind == RNL_OVERLAP_JOB)
			add_job(work, s, o);
		if (s->end_ns == s->begin_ns)
			continue;
		*to++ = (struct edge){ s->begin_ns, s->worker, (uint16_t)s->kind, 1 };
		*to++ = (struct edge){ s->end_ns, s->worker, (uint16_t)s->kind, -1 };
	}
	return (size_t)(to - work->edges);
}

static void pass_edge(struct rnl__overlap_work *work, const struct edge *e)
{
	work->spans[e->kind] += (unsigned)e->step;
	if (e->kind != RNL_OVERLAP_JOB)
		return;
	work->jobs[e->worker] += (unsigned)e->step;
	if (work->jobs[e->worker])
		work->busy |= 1ull << e->worker;
	else
		work->busy &= ~(1ull << e->worker);
}

/* ---- pieces -------------------------------------------------------------- */

static void add_gap(struct rnl_overlap *o, uint64_t begin, uint64_t end)
{
	struct rnl_overlap_gap gap = { begin, end };

	for (int i = 0; i < RNL_OVERLAP_GAPS; i++) {
		struct rnl_overlap_gap here = o->gaps[i];

		if (gap.end_ns - gap.begin_ns <= here.end_ns - here.begin_ns)
			continue;
		o->gaps[i] = gap;
		gap = here;
	}
}

static void add_piece(struct rnl__overlap_work *work, uint64_t ns, struct rnl_overlap *o)
{
	const unsigned depth = (unsigned)__builtin_popcountll(work->busy);
	const bool in = work->spans[RNL_OVERLAP_IN], out = work->spans[RNL_OVERLAP_OUT];
	const bool kernel = work->spans[RNL_OVERLAP_KERNEL];

	o->at_once_ns[depth < RNL_OVERLAP_DEPTH ? depth : RNL_OVERLAP_DEPTH] += ns;
	o->busy_ns += work->busy ? ns : 0;
	o->in_ns += in ? ns : 0;
	o->kernel_ns += kernel ? ns : 0;
	o->out_ns += out ? ns : 0;
	o->copies_ns += in && out ? ns : 0;
	o->in_kernel_ns += in && kernel ? ns : 0;
	o->out_kernel_ns += out && kernel ? ns : 0;
	o->all_ns += in && out && kernel ? ns : 0;
	for (uint64_t left = work->busy; left; left &= left - 1) {
		const unsigned i = (unsigned)__builtin_ctzll(left);

		o->worker_ns[i] += ns;
		work->together[i] |= work->busy;
	}
}

static void add_pieces(struct rnl__overlap_work *work, size_t nr, struct rnl_overlap *o)
{
	uint64_t idle_since = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct edge *e = &work->edges[i];
		const bool was_busy = work->busy;

		if (i && e->at > e[-1].at)
			add_piece(work, e->at - e[-1].at, o);
		pass_edge(work, e);
		if (was_busy && !work->busy)
			idle_since = e->at;
		else if (!was_busy && work->busy && idle_since && e->at > idle_since)
			add_gap(o, idle_since, e->at);
	}
}

/* ---- pairs of workers ---------------------------------------------------- */

/*
 * Whether two workers had jobs on the device during the same stretch of time, several each,
 * and never at once.  A worker that ended before the other began says nothing.
 */
static bool apart(const struct rnl__overlap_work *work, const struct rnl_overlap *o, unsigned i,
		  unsigned j)
{
	const uint64_t begin = work->begin[i] > work->begin[j] ? work->begin[i] : work->begin[j];
	const uint64_t end = work->end[i] < work->end[j] ? work->end[i] : work->end[j];

	return o->worker_jobs[i] > 1 && o->worker_jobs[j] > 1 &&
	       !(work->together[i] >> j & 1) && begin < end;
}

static void find_pairs_apart(const struct rnl__overlap_work *work, struct rnl_overlap *o)
{
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		for (unsigned j = 0; j < i; j++) {
			if (!apart(work, o, i, j))
				continue;
			o->apart[i] |= 1ull << j;
			o->apart[j] |= 1ull << i;
			o->nr_apart++;
		}
	}
}

/* ---- all of it ----------------------------------------------------------- */

void rnl__overlap_find(const struct rnl_overlap_span *spans, size_t nr,
		       struct rnl__overlap_work *work, struct rnl_overlap *o)
{
	size_t nr_edges;

	memset(work, 0, sizeof(*work));
	*o = (struct rnl_overlap)RNL_OVERLAP_INIT;
	nr_edges = make_edges(work, spans, nr, o);
	qsort(work->edges, nr_edges, sizeof(struct edge), by_time);
	add_pieces(work, nr_edges, o);
	find_pairs_apart(work, o);
	if (nr_edges)
		o->elapsed_ns = work->edges[nr_edges - 1].at - work->edges[0].at;
	o->nr_workers = (uint32_t)__builtin_popcountll(o->workers);
	o->longest_gap_ns = o->gaps[0].end_ns - o->gaps[0].begin_ns;
	if (o->busy_ns)
		o->speedup_percent = (uint32_t)((double)o->sum_ns / (double)o->busy_ns * 100 + 0.5);
}

int rnl_overlap_find(const struct rnl_overlap_span *spans, size_t nr, struct rnl_overlap *overlap)
{
	struct rnl__overlap_work *work;
	struct rnl_overlap o;
	int ret = rnl__check_given(NULL, "rnl_overlap_find()", "overlap", overlap,
				   RNL__FIRST_OVERLAP);

	if (ret)
		return ret;
	if (nr && !spans)
		return rnl__invalid(NULL, "rnl_overlap_find(): spans is NULL, and nr is %zu", nr);
	work = rnl__overlap_work(nr);
	if (!work)
		return -ENOMEM;
	rnl__overlap_find(spans, nr, work, &o);
	free(work);
	rnl__copy_out(overlap, &o, sizeof(o));
	return 0;
}
