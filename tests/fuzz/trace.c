/* SPDX-License-Identifier: MIT */
/*
 * Spans of a trace: compares overlap_find() with an oracle that checks each moment.
 *
 * DESIGN
 * Four bytes are a span: its begin, its length, its worker, its kind. Spans are few and short, so
 * the oracle finds the active spans at each of some hundred moments.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <runnel.h>
#include <runnel/trace.h>

#include "src/tool/overlap.h"
#include "tests/fuzz/fuzz.h"

#define SPANS_MAX 64
#define MOMENTS 512
#define WORKERS 8		/* plus one that does not exist */
#define KINDS 5			/* one of them does not exist */

static bool counts(const struct overlap_span *s)
{
	return s->worker < RNL_WORKERS_MAX && s->kind <= OVERLAP_OUT && s->end_ns >= s->begin_ns;
}

/* Adds the spans that are active from @at to @at + 1. */
static void add_moment(const struct overlap_span *spans, unsigned nr, unsigned at,
		       struct overlap_figures *o)
{
	uint64_t workers = 0;
	unsigned kinds = 0, depth;

	for (unsigned i = 0; i < nr; i++) {
		const struct overlap_span *s = &spans[i];

		if (!counts(s) || at < s->begin_ns || at >= s->end_ns)
			continue;
		kinds |= 1u << s->kind;
		if (s->kind == OVERLAP_JOB)
			workers |= 1ull << s->worker;
	}
	depth = (unsigned)__builtin_popcountll(workers);
	o->at_once_ns[depth]++;
	o->busy_ns += depth > 0;
	o->in_ns += kinds >> OVERLAP_IN & 1;
	o->kernel_ns += kinds >> OVERLAP_KERNEL & 1;
	o->out_ns += kinds >> OVERLAP_OUT & 1;
	o->copies_ns += (kinds >> OVERLAP_IN & kinds >> OVERLAP_OUT) & 1;
	o->in_kernel_ns += (kinds >> OVERLAP_IN & kinds >> OVERLAP_KERNEL) & 1;
	o->out_kernel_ns += (kinds >> OVERLAP_OUT & kinds >> OVERLAP_KERNEL) & 1;
	o->all_ns += (kinds >> 1 & 7) == 7;
	for (unsigned w = 0; w < WORKERS; w++)
		o->worker_ns[w] += workers >> w & 1;
}

static void look(const struct overlap_span *spans, unsigned nr, struct overlap_figures *o)
{
	uint64_t begin = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < nr; i++) {
		const struct overlap_span *s = &spans[i];

		if (!counts(s))
			continue;
		if (s->kind == OVERLAP_JOB) {
			o->nr_jobs++;
			o->sum_ns += s->end_ns - s->begin_ns;
			o->worker_jobs[s->worker]++;
			o->workers |= 1ull << s->worker;
		}
		if (s->end_ns == s->begin_ns)
			continue;
		begin = s->begin_ns < begin ? s->begin_ns : begin;
		end = s->end_ns > end ? s->end_ns : end;
	}
	for (uint64_t at = begin; at < end; at++)
		add_moment(spans, nr, (unsigned)at, o);
	o->elapsed_ns = end > begin ? end - begin : 0;
}

/* Checks the gaps: nothing runs in them, longest first, none longer than all empty time. */
static void check_gaps(const struct overlap_figures *found)
{
	for (unsigned i = 0; i < OVERLAP_GAPS; i++) {
		const struct overlap_gap *gap = &found->gaps[i];
		const uint64_t ns = gap->end_ns - gap->begin_ns;

		must(gap->end_ns >= gap->begin_ns && ns <= found->at_once_ns[0]);
		must(!i || ns <= found->gaps[i - 1].end_ns - found->gaps[i - 1].begin_ns);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const unsigned nr = bytes / 4 < SPANS_MAX ? (unsigned)(bytes / 4) : SPANS_MAX;
	struct overlap_span *spans = calloc(nr ? nr : 1, sizeof(*spans));
	struct overlap_figures found, seen = { 0 };

	must(spans != NULL);
	for (unsigned i = 0; i < nr; i++, data += 4) {
		spans[i].begin_ns = data[0];
		/* A length of 200 or more is a span that ends before it begins. */
		spans[i].end_ns = data[1] < 200 ? data[0] + data[1] : (uint64_t)data[0] / 2;
		spans[i].worker = data[2] % (WORKERS + 1);
		if (spans[i].worker == WORKERS)
			spans[i].worker = RNL_WORKERS_MAX;
		spans[i].kind = data[3] % KINDS;
	}
	must(!overlap_find(spans, nr, &found));
	look(spans, nr, &seen);
	must(found.nr_jobs == seen.nr_jobs && found.sum_ns == seen.sum_ns);
	must(found.busy_ns == seen.busy_ns && found.elapsed_ns == seen.elapsed_ns);
	must(found.in_ns == seen.in_ns && found.kernel_ns == seen.kernel_ns);
	must(found.out_ns == seen.out_ns && found.copies_ns == seen.copies_ns);
	must(found.in_kernel_ns == seen.in_kernel_ns && found.out_kernel_ns == seen.out_kernel_ns);
	must(found.all_ns == seen.all_ns && found.workers == seen.workers);
	must(!memcmp(found.at_once_ns, seen.at_once_ns, sizeof(seen.at_once_ns)));
	must(!memcmp(found.worker_ns, seen.worker_ns, sizeof(seen.worker_ns)));
	must(!memcmp(found.worker_jobs, seen.worker_jobs, sizeof(seen.worker_jobs)));
	check_gaps(&found);
	free(spans);
	return 0;
}
