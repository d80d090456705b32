/* SPDX-License-Identifier: MIT */
/* Declarations that the scenes of races.c share. */
#ifndef RACES_H
#define RACES_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <runnel.h>
#include <runnel/hold.h>
#include <runnel/more.h>

enum { WORKERS = 4, JOBS = 64, ROUNDS = 8, NUMBERS = 256, BATCH = 16 };

extern struct rnl_pool *pool;

/* Scenes, which run one after the other. */
void waits(void);
void many(void);
void queues(void);
void callbacks(void);
void barriers(void);
void notifies(void);
void joins(void);
void cancelled_after(void);
void keyed(void);
void chains(void);
void orders(void);
void holds(void);
void delayed(void);
void unrun(void);
void notice(void);
void memory(void);
void streams(void);
void maps(void);
void batchers(void);
void lives(void);

static inline void check(int right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "%s: not right\n", what);
	exit(EXIT_FAILURE);
}

static inline void must(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, rnl_strerror(ret));
	exit(EXIT_FAILURE);
}

/*
 * Pauses in loops that wait for a relaxed counter, and where a scene should mostly take one path.
 * No check relies on it. A gate would order the accesses that the scenes test.
 */
static inline void nap(void)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	nanosleep(&ms, NULL);
}

/* ---- a request, like a user's ---------------------------------------- */

struct request {
	struct rnl_job job;
	struct rnl_job_more more;
	struct rnl_hold hold;
	unsigned in, out, notified;
	unsigned *shared;		/* the job adds to it without a lock; or NULL */
};

static inline int work(struct rnl_job *job)
{
	struct request *r = rnl_container_of(job, struct request, job);

	r->out = r->in + 1;
	if (r->shared)
		++*r->shared;
	return 0;
}

static inline struct request *request_new(unsigned in, int (*fn)(struct rnl_job *job))
{
	struct request *r = malloc(sizeof(*r));

	check(r != NULL, "malloc");
	memset(r, 0, sizeof(*r));
	r->in = in;
	must(rnl_job_init(&r->job, fn), "rnl_job_init");
	return r;
}

static inline void request_end(struct request *r, const char *what)
{
	check(r->out == r->in + 1, what);
	r->out = 0;
	free(r);
}

/* Number of jobs in block(), and the flag that they wait for. */
extern atomic_uint blocked, goes_on;

static inline int block(struct rnl_job *job)
{
	(void)job;
	/* relaxed, both: must not order anything */
	atomic_fetch_add_explicit(&blocked, 1, memory_order_relaxed);
	while (!atomic_load_explicit(&goes_on, memory_order_relaxed))
		nap();
	return 0;
}

#endif
