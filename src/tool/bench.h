/* SPDX-License-Identifier: MIT */
/* runnel bench: what is measured, in bench_runs.c, and printed, in bench.c. */
#ifndef TOOL_BENCH_H
#define TOOL_BENCH_H

#include <stdbool.h>

#include <runnel.h>
#include <runnel/device.h>

#include "facts.h"

#define BENCH_RUNS 5

struct bench_machine {
	const char *device;		/* as rnl_device_describe() takes it */
	struct rnl_device_info info;	/* of the device */
	unsigned run_ms;
};

/* Of several runs: the median, the lowest, the highest. */
struct bench_spread {
	double median, low, high;
};

struct bench_times {
	struct bench_spread p50_us;	/* of each run */
	double p99_us;			/* of all runs together */
};

/* Empty jobs per second. */
struct bench_spread bench_empty(const struct bench_machine *m, struct rnl_pool *pool);

/* One job after the other, from its submit until its waiter has returned. */
struct bench_times bench_one(const struct bench_machine *m, struct rnl_pool *pool, bool kernel);

/* J per second. */
struct bench_spread bench_j(const struct bench_machine *m, struct rnl_pool *pool, unsigned workers);

#endif /* TOOL_BENCH_H */
