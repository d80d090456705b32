/* SPDX-License-Identifier: MIT */
/* Medians and the like, of figures that were measured several times. */
#include "bench.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct bench_summary bench_summary(double *values, size_t nr)
{
	struct bench_summary sum;

	qsort(values, nr, sizeof(*values), by_value);
	sum.median = nr % 2 ? values[nr / 2] : (values[nr / 2 - 1] + values[nr / 2]) / 2;
	sum.min = values[0];
	sum.max = values[nr - 1];
	return sum;
}

double bench_percentile(double *values, size_t nr, unsigned percent)
{
	qsort(values, nr, sizeof(*values), by_value);
	return values[nr * percent / 100];
}
