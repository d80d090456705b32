/* SPDX-License-Identifier: MIT */
/* runnel top: the figures of a running pool; top_read.c reads them, top.c shows them. */
#ifndef TOOL_TOP_H
#define TOOL_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#define TOP_TIMER RNL_WORKERS_MAX
#define TOP_TIMES 3
#define TOP_BUCKETS 32

/* Of a worker, or of the timer thread. */
struct top_worker {
	bool there;
	char device[24];
	uint64_t done, failed, stolen, queued, in_flight, held;
};

/* How many took how long at the most; counts are those of all shorter ones, too. */
struct top_times {
	unsigned nr;
	double s[TOP_BUCKETS];
	uint64_t below[TOP_BUCKETS], all;
};

struct top_figures {
	uint64_t ns;			/* when they were read */
	char pool[64];			/* its name, fit for a terminal */
	uint64_t health, workers, unfinished, locked, used;
	struct top_worker of[RNL_WORKERS_MAX + 1];
	struct top_times times[TOP_TIMES]; /* in the queue, in the function, on the device */
};

/* Reads the text of rnl_pool_stats_text().  Return: false if it is none, or is cut off. */
bool top_parse(struct top_figures *f, const char *text);

#endif /* TOOL_TOP_H */
