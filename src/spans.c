/* SPDX-License-Identifier: MIT */
/* How much time several spans cover together. */
#include "config.h"

#include <stdlib.h>

#include "spans.h"

static int by_begin(const void *a, const void *b)
{
	const struct rnl__span *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

uint64_t rnl__spans_cover(struct rnl__span *spans, size_t nr)
{
	int64_t seen = INT64_MIN;	/* all before it is counted */
	uint64_t sum = 0;

	qsort(spans, nr, sizeof(*spans), by_begin);
	for (size_t i = 0; i < nr; i++) {
		const int64_t begin = spans[i].begin > seen ? spans[i].begin : seen;

		if (spans[i].end <= begin)
			continue;
		sum += (uint64_t)spans[i].end - (uint64_t)begin;
		seen = spans[i].end;
	}
	return sum;
}
