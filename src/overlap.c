/* SPDX-License-Identifier: MIT */
/* What ran at the same time; overlap.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "overlap.h"

struct edge {
	uint64_t at;
	uint32_t worker;
	uint16_t kind;
	int16_t step;		/* 1: begins, -1: ends */
};

/* What is going on between two edges. */
struct state {
	unsigned kinds[RNL__NR_OVERLAPS];
	unsigned jobs[RNL_WORKERS_MAX];
	uint64_t busy;		/* bits: workers that have jobs */
};

/* At one time ends come before begins: what only touches does not overlap. */
static int by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->step - y->step;
}

static void add_gap(struct rnl__overlap *o, uint64_t begin, uint64_t end)
{
	struct rnl__overlap_gap gap = { begin, end };

	for (int i = 0; i < RNL__OVERLAP_GAPS; i++) {
		struct rnl__overlap_gap here = o->gaps[i];

		if (gap.end - gap.begin <= here.end - here.begin)
			continue;
		o->gaps[i] = gap;
		gap = here;
	}
}

static void add_workers(struct rnl__overlap *o, uint64_t busy, uint64_t ns)
{
	for (uint64_t left = busy; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctzll(left);

		o->worker_ns[i] += ns;
		for (uint64_t others = left & (left - 1); others; others &= others - 1)
			o->together_ns[i][__builtin_ctzll(others)] += ns;
	}
}

static void add_piece(struct rnl__overlap *o, const struct state *s, uint64_t ns)
{
	unsigned depth = (unsigned)__builtin_popcountll(s->busy);
	bool in = s->kinds[RNL__OVERLAP_IN], out = s->kinds[RNL__OVERLAP_OUT];
	bool kernel = s->kinds[RNL__OVERLAP_KERNEL];

	o->at_once_ns[depth < RNL_OVERLAP_DEPTH ? depth : RNL_OVERLAP_DEPTH] += ns;
	for (int kind = 0; kind < RNL__NR_OVERLAPS; kind++)
		o->kind_ns[kind] += s->kinds[kind] ? ns : 0;
	o->copies_ns += in && out ? ns : 0;
	o->in_kernel_ns += in && kernel ? ns : 0;
	o->out_kernel_ns += out && kernel ? ns : 0;
	o->all_ns += in && out && kernel ? ns : 0;
	add_workers(o, s->busy, ns);
}

static void step(struct state *s, const struct edge *e)
{
	s->kinds[e->kind] += (unsigned)e->step;
	if (e->kind != RNL__OVERLAP_JOB)
		return;
	s->jobs[e->worker] += (unsigned)e->step;
	if (s->jobs[e->worker])
		s->busy |= 1ull << e->worker;
	else
		s->busy &= ~(1ull << e->worker);
}

static void add_job(struct rnl__overlap *o, const struct rnl__overlap_span *span)
{
	unsigned w = span->worker;

	if (!(o->workers >> w & 1) || span->begin < o->worker_begin[w])
		o->worker_begin[w] = span->begin;
	if (span->end > o->worker_end[w])
		o->worker_end[w] = span->end;
	o->workers |= 1ull << w;
	o->worker_jobs[w]++;
	o->nr_jobs++;
	o->sum_ns += span->end - span->begin;
}

/* The edges of spans that are some; how many. */
static size_t cut(const struct rnl__overlap_span *spans, size_t nr, struct edge *edges,
		  struct rnl__overlap *o)
{
	size_t n = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct rnl__overlap_span *s = &spans[i];

		if (s->end < s->begin || s->worker >= RNL_WORKERS_MAX ||
		    s->kind >= RNL__NR_OVERLAPS)
			continue;
		if (s->kind == RNL__OVERLAP_JOB)
			add_job(o, s);
		if (s->end == s->begin)
			continue;
		edges[n++] = (struct edge){ s->begin, s->worker, (uint16_t)s->kind, 1 };
		edges[n++] = (struct edge){ s->end, s->worker, (uint16_t)s->kind, -1 };
	}
	return n;
}

int rnl__overlap_find(const struct rnl__overlap_span *spans, size_t nr, struct rnl__overlap *o)
{
	struct state state = { 0 };
	uint64_t idle_since = 0;
	struct edge *edges;
	size_t nr_edges;

	memset(o, 0, sizeof(*o));
	if (!nr)
		return 0;
	edges = malloc(2 * nr * sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	nr_edges = cut(spans, nr, edges, o);
	qsort(edges, nr_edges, sizeof(*edges), by_time);
	for (size_t i = 0; i < nr_edges; i++) {
		const struct edge *e = &edges[i];
		const bool was_busy = state.busy;

		if (i && e->at > edges[i - 1].at)
			add_piece(o, &state, e->at - edges[i - 1].at);
		step(&state, e);
		if (was_busy && !state.busy)
			idle_since = e->at;
		else if (!was_busy && state.busy && idle_since && e->at > idle_since)
			add_gap(o, idle_since, e->at);
	}
	if (nr_edges) {
		o->begin = edges[0].at;
		o->end = edges[nr_edges - 1].at;
	}
	free(edges);
	return 0;
}

int rnl__overlap_apart(const struct rnl__overlap *o, unsigned i, unsigned j)
{
	uint64_t begin, end;

	if (!(o->workers >> i & 1) || !(o->workers >> j & 1) || i == j)
		return 0;
	if (o->together_ns[i < j ? i : j][i < j ? j : i])
		return 0;
	begin = o->worker_begin[i] > o->worker_begin[j] ? o->worker_begin[i] : o->worker_begin[j];
	end = o->worker_end[i] < o->worker_end[j] ? o->worker_end[i] : o->worker_end[j];
	/* A worker that was through before the other came says nothing. */
	return begin < end && o->worker_jobs[i] > 1 && o->worker_jobs[j] > 1;
}
