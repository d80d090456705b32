/* SPDX-License-Identifier: MIT */
/* Parts of the JSON that benches write; without jansson there is none. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include "bench.h"

#include <jansson.h>
#include <stdio.h>

/* The machine; load: its average, at the start.  NULL if it does not tell. */
json_t *bench_json_machine(double load);

/* The version of the library that runs. */
json_t *bench_json_runnel(void);

/* The median, the extremes and all of them, in the order of their runs. */
json_t *bench_json_values(const double *values, size_t nr);

/* Frees it.  Return: whether it could be written. */
bool bench_json_write(json_t *all, FILE *out);

#endif
