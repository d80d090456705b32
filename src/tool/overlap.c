/* SPDX-License-Identifier: MIT */
/* Computes which work was on a device at the same time; overlap.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "overlap.h"

#define NR_KINDS (OVERLAP_OUT + 1)
#define WORDS (RNL_WORKERS_MAX / 64)

/* The begin or the end of a span. */
struct edge {
	uint64_t at;
	uint32_t worker;
	uint16_t kind;
	int16_t step;		/* 1: begins, -1: ends */
};

struct overlap_work {
	/* The spans and jobs that are on the device between two edges. */
	unsigned spans[NR_KINDS], jobs[RNL_WORKERS_MAX];
	unsigned nr_busy;
	uint64_t busy[WORDS];	/* bit mask of the workers that have jobs */

	uint64_t begin[RNL_WORKERS_MAX], end[RNL_WORKERS_MAX]; /* of each worker's jobs */
	uint64_t together[OVERLAP_PAIRS]; /* [i]: bit mask of workers whose jobs overlapped i's */
	struct edge edges[];
};

/* ---- edges --------------------------------------------------------------- */

/* Sorts edges by time.  At equal times ends precede begins, so spans that touch do not overlap. */
static int by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->step - y->step;
}

static void add_job(struct overlap_work *work, const struct overlap_span *span,
		    struct overlap_figures *o)
{
	const unsigned i = span->worker;

	if (!o->worker_jobs[i] || span->begin_ns < work->begin[i])
		work->begin[i] = span->begin_ns;
	if (span->end_ns > work->end[i])
		work->end[i] = span->end_ns;
	if (i < OVERLAP_PAIRS)
		o->workers |= 1ull << i;
	o->worker_jobs[i]++;
	o->nr_jobs++;
	o->sum_ns += span->end_ns - span->begin_ns;
}

/* Makes the edges of all spans that are not empty.  Returns the number of edges. */
static size_t make_edges(struct overlap_work *work, const struct overlap_span *spans,
			 size_t nr, struct overlap_figures *o)
{
	struct edge *to = work->edges;

	for (size_t i = 0; i < nr; i++) {
		const struct overlap_span *s = &spans[i];

		if (s->end_ns < s->begin_ns || s->worker >= RNL_WORKERS_MAX || s->kind >= NR_KINDS)
			continue;
		if (s->kind == OVERLAP_JOB)
			add_job(work, s, o);
		if (s->end_ns == s->begin_ns)
			continue;
		*to++ = (struct edge){ s->begin_ns, s->worker, (uint16_t)s->kind, 1 };
		*to++ = (struct edge){ s->end_ns, s->worker, (uint16_t)s->kind, -1 };
	}
	return (size_t)(to - work->edges);
}

static void pass_edge(struct overlap_work *work, const struct edge *e)
{
	work->spans[e->kind] += (unsigned)e->step;
	if (e->kind != OVERLAP_JOB)
		return;
	work->nr_busy -= work->jobs[e->worker] != 0;
	work->jobs[e->worker] += (unsigned)e->step;
	work->nr_busy += work->jobs[e->worker] != 0;
	if (work->jobs[e->worker])
		work->busy[e->worker / 64] |= 1ull << e->worker % 64;
	else
		work->busy[e->worker / 64] &= ~(1ull << e->worker % 64);
}

/* ---- pieces -------------------------------------------------------------- */

static void add_gap(struct overlap_figures *o, uint64_t begin, uint64_t end)
{
	struct overlap_gap gap = { begin, end };

	for (int i = 0; i < OVERLAP_GAPS; i++) {
		struct overlap_gap here = o->gaps[i];

		if (gap.end_ns - gap.begin_ns <= here.end_ns - here.begin_ns)
			continue;
		o->gaps[i] = gap;
		gap = here;
	}
}

static void add_piece(struct overlap_work *work, uint64_t ns, struct overlap_figures *o)
{
	const unsigned depth = work->nr_busy;
	const bool in = work->spans[OVERLAP_IN], out = work->spans[OVERLAP_OUT];
	const bool kernel = work->spans[OVERLAP_KERNEL];

	o->at_once_ns[depth < OVERLAP_DEPTH ? depth : OVERLAP_DEPTH] += ns;
	o->busy_ns += depth ? ns : 0;
	o->in_ns += in ? ns : 0;
	o->kernel_ns += kernel ? ns : 0;
	o->out_ns += out ? ns : 0;
	o->copies_ns += in && out ? ns : 0;
	o->in_kernel_ns += in && kernel ? ns : 0;
	o->out_kernel_ns += out && kernel ? ns : 0;
	o->all_ns += in && out && kernel ? ns : 0;
	for (unsigned word = 0; word < WORDS; word++) {
		for (uint64_t left = work->busy[word]; left; left &= left - 1) {
			const unsigned i = word * 64 + (unsigned)__builtin_ctzll(left);

			o->worker_ns[i] += ns;
			if (i < OVERLAP_PAIRS)
				work->together[i] |= work->busy[0];
		}
	}
}

static void add_pieces(struct overlap_work *work, size_t nr, struct overlap_figures *o)
{
	uint64_t idle_since = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct edge *e = &work->edges[i];
		const bool was_busy = work->nr_busy;

		if (i && e->at > e[-1].at)
			add_piece(work, e->at - e[-1].at, o);
		pass_edge(work, e);
		if (was_busy && !work->nr_busy)
			idle_since = e->at;
		else if (!was_busy && work->nr_busy && idle_since && e->at > idle_since)
			add_gap(o, idle_since, e->at);
	}
}

/* ---- pairs of workers ---------------------------------------------------- */

/*
 * Returns true if two workers never had jobs on the device at once, although the periods from
 * their first to their last jobs overlap, and each had several jobs.
 */
static bool apart(const struct overlap_work *work, const struct overlap_figures *o, unsigned i,
		  unsigned j)
{
	const uint64_t begin = work->begin[i] > work->begin[j] ? work->begin[i] : work->begin[j];
	const uint64_t end = work->end[i] < work->end[j] ? work->end[i] : work->end[j];

	return o->worker_jobs[i] > 1 && o->worker_jobs[j] > 1 &&
	       !(work->together[i] >> j & 1) && begin < end;
}

static void find_pairs_apart(const struct overlap_work *work, struct overlap_figures *o)
{
	for (unsigned i = 0; i < OVERLAP_PAIRS; i++) {
		for (unsigned j = 0; j < i; j++) {
			if (!apart(work, o, i, j))
				continue;
			o->apart[i] |= 1ull << j;
			o->apart[j] |= 1ull << i;
		}
	}
}

/* ---- all of it ----------------------------------------------------------- */

int overlap_find(const struct overlap_span *spans, size_t nr, struct overlap_figures *o)
{
	struct overlap_work *work;
	size_t nr_edges;

	memset(o, 0, sizeof(*o));
	if (nr > (SIZE_MAX - sizeof(*work)) / 2 / sizeof(work->edges[0]))
		return -ENOMEM;
	work = malloc(sizeof(*work) + 2 * nr * sizeof(work->edges[0]));
	if (!work)
		return -ENOMEM;
	memset(work, 0, sizeof(*work));
	nr_edges = make_edges(work, spans, nr, o);
	qsort(work->edges, nr_edges, sizeof(struct edge), by_time);
	add_pieces(work, nr_edges, o);
	find_pairs_apart(work, o);
	if (nr_edges)
		o->elapsed_ns = work->edges[nr_edges - 1].at - work->edges[0].at;
	free(work);
	return 0;
}
