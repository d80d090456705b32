/* SPDX-License-Identifier: MIT */
/* runnel top: the figures of a running pool; top_read.c parses them, top.c shows them. */
#ifndef TOOL_TOP_H
#define TOOL_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/class.h>

#define TOP_TIMER RNL_WORKERS_MAX
#define TOP_TIMES 3
#define TOP_BUCKETS 640	/* the library has 608; a text has those with counts */
#define TOP_CLASSES (RNL_CLASSES_MAX + 1)

/* The figures of a worker, or of the timer thread. */
struct top_worker {
	bool there;
	char device[24];
	uint64_t done, failed, stolen, queued, in_flight, held;
};

/* A histogram of times: [i]: below[i] of all jobs took at most s[i] seconds. */
struct top_times {
	unsigned nr;
	double s[TOP_BUCKETS];
	uint64_t below[TOP_BUCKETS], all;
};

/* The figures of a class; the jobs without a class, [0], have `run` and `device_s` only. */
struct top_class {
	bool there;
	char name[32];
	uint64_t run, refused, expired, late, queued, started;
	double device_s;
	struct top_times queued_for;
};

struct top_figures {
	uint64_t ns;			/* time of the read */
	char pool[64];			/* the pool's name, safe for a terminal */
	uint64_t health, workers, unfinished, locked, used;
	struct top_worker of[RNL_WORKERS_MAX + 1];
	struct top_class classes[TOP_CLASSES];
	struct top_times times[TOP_TIMES]; /* in the queue, in the function, on the device */
};

/* Parses the text of rnl_pool_stats_text().  Returns false if it is malformed or truncated. */
bool top_parse(struct top_figures *f, const char *text);

#endif /* TOOL_TOP_H */
