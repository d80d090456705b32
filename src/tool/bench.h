/* SPDX-License-Identifier: MIT */
/* runnel bench: bench_runs.c measures, bench.c prints. */
#ifndef TOOL_BENCH_H
#define TOOL_BENCH_H

#include <stdbool.h>

#include <runnel.h>
#include <runnel/device.h>

#include "facts.h"

#define BENCH_RUNS 5

struct bench_machine {
	const char *device;		/* name, in the form of rnl_device_describe() */
	struct rnl_device_info info;	/* description of that device */
	unsigned run_ms;
};

/* The median, the lowest and the highest value of several runs. */
struct bench_spread {
	double median, low, high;
};

struct bench_times {
	struct bench_spread p50_us;	/* spread of the runs' medians */
	double p99_us;			/* 99th percentile of all runs together */
};

/* Returns how many empty jobs are done per second. */
struct bench_spread bench_empty(const struct bench_machine *m, struct rnl_pool *pool);

/* Returns the times of single jobs, from a job's submit until the wait for the job returns. */
struct bench_times bench_one(const struct bench_machine *m, struct rnl_pool *pool, bool kernel);

/* Returns how many jobs J (see bench.c) are done per second. */
struct bench_spread bench_j(const struct bench_machine *m, struct rnl_pool *pool, unsigned workers);

#endif /* TOOL_BENCH_H */
