/* SPDX-License-Identifier: MIT */
/*
 * The row `promises`: events that must be on time, however busy the workers are.
 *
 * DESIGN
 *	Notified: a job copies 4 KB, and functions of 5 ms are queued after it. Measured: the delay
 *	from the end of the job's function to the job's callback.
 *	Ended: all workers run functions that last until a queued job's callback, or 60 s. Measured:
 *	the delay from this job's cancel or deadline to its callback.
 *	Started: the workers are idle. Measured: how late a delayed job's function starts. By hand:
 *	a thread sleeps until each start time.
 */
#include "bench.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <runnel/memory.h>

#define WORKERS 2
#define BYTES 4096
#define SLOW_MS 5
#define NR_SLOW 8
#define SOON_MS 25		/* time until a cancel or a deadline */
#define MOST_MS 60000		/* limit of functions that keep workers busy */
#define SAMPLES 10		/* samples per run of the slow ways */
#define DELAYED 200
#define AHEAD_NS 1500000	/* from a delayed job's submit to its start time */

enum { TOLD, CANCELLED, LATE, DELAYED_START, SLEEPS };	/* the ways */

struct event {
	struct rnl_job job;
	atomic_ullong at;	/* time of its callback or its function */
};

struct bench {
	struct rnl_pool *pool, *one;	/* with WORKERS, and with one worker */
	void *host, *device;
	unsigned nr, nr_delayed;
	double *late;			/* ns */
};

static void note(struct rnl_job *job)
{
	rnl_container_of(job, struct event, job)->at = bench_now();
}

static int started(struct rnl_job *job)
{
	note(job);
	return 0;
}

static int nothing(struct rnl_job *job)
{
	(void)job;
	return 0;
}

static int sleep_fn(struct rnl_job *job)
{
	bench_sleep_ms((unsigned)(uintptr_t)job->user);
	return 0;
}

static void submit_sleeps(struct rnl_pool *pool, struct rnl_job *jobs, unsigned nr, unsigned ms)
{
	for (unsigned i = 0; i < nr; i++) {
		bench_rnl(rnl_job_init(&jobs[i], sleep_fn), "rnl_job_init");
		jobs[i].user = (void *)(uintptr_t)ms;
		bench_rnl(rnl_submit(pool, &jobs[i]), "rnl_submit");
	}
}

static struct event *event_of(struct event *e, int (*fn)(struct rnl_job *job))
{
	bench_rnl(rnl_job_init(&e->job, fn), "rnl_job_init");
	bench_rnl(rnl_job_set_on_done(&e->job, note), "rnl_job_set_on_done");
	atomic_init(&e->at, 0);
	return e;
}

/* ---- notified ---------------------------------------------------------------- */

struct copying {
	struct event event;
	struct bench *bench;
	uint64_t issued;
};

static int copy_fn(struct rnl_job *job)
{
	struct copying *c = rnl_container_of(job, struct copying, event.job);
	int ret = rnl_copy(c->bench->device, c->bench->host, BYTES);

	c->issued = bench_now();
	return ret;
}

static double notified_late(struct bench *b)
{
	struct copying copying = { .bench = b };
	struct rnl_job first, slow[NR_SLOW];

	submit_sleeps(b->one, &first, 1, 1);	/* the other jobs are queued after this one */
	event_of(&copying.event, copy_fn);
	bench_rnl(rnl_submit(b->one, &copying.event.job), "rnl_submit");
	submit_sleeps(b->one, slow, NR_SLOW, SLOW_MS);
	bench_rnl(rnl_pool_drain(b->one, RNL_FOREVER), "rnl_pool_drain");
	bench_rnl(copying.event.job.result, "a copy");
	return (double)(copying.event.at - copying.issued);
}

/* ---- ended --------------------------------------------------------------- */

static atomic_uint begun;	/* running functions that keep the workers busy */
static struct event ended;	/* its callback ends the functions */

static int busy_fn(struct rnl_job *job)
{
	(void)job;
	begun++;
	for (unsigned ms = 0; !ended.at && ms < MOST_MS; ms++)
		bench_sleep_ms(1);
	return 0;
}

static double ended_late(struct bench *b, bool cancel, bool keyed)
{
	const int64_t timeout_ns = SOON_MS * 1000000;
	struct rnl_job busy[WORKERS];
	struct event *e = event_of(&ended, nothing);
	uint64_t due;

	begun = 0;
	for (unsigned i = 0; i < WORKERS; i++) {
		bench_rnl(rnl_job_init(&busy[i], busy_fn), "rnl_job_init");
		bench_rnl(rnl_submit(b->pool, &busy[i]), "rnl_submit");
	}
	while (begun < WORKERS)
		bench_sleep_ms(1);
	if (!cancel)
		bench_rnl(rnl_job_set_deadline(&e->job, timeout_ns), "rnl_job_set_deadline");
	due = bench_now() + (uint64_t)timeout_ns;
	bench_rnl(keyed ? submit_by_key(b->pool, &e->job, 1) : rnl_submit(b->pool, &e->job),
		  "a submit");
	if (cancel) {
		bench_sleep_ms(SOON_MS);
		due = bench_now();
		bench_rnl(rnl_job_cancel(&e->job), "rnl_job_cancel");
	}
	bench_rnl(rnl_pool_drain(b->pool, RNL_FOREVER), "rnl_pool_drain");
	bench_must(e->job.result == (cancel ? -ECANCELED : -ETIMEDOUT), "its result");
	return (double)e->at - (double)due;
}

/* ---- started ------------------------------------------------------------- */

static double started_late(struct bench *b)
{
	struct event e;
	int64_t at;

	bench_rnl(rnl_job_init(&e.job, started), "rnl_job_init");
	at = rnl_clock() + AHEAD_NS;
	bench_rnl(submit_at(b->pool, &e.job, at), "rnl_submit");
	bench_rnl(rnl_job_wait(&e.job, RNL_FOREVER), "rnl_job_wait");
	bench_must((int64_t)e.at >= at, "a job that does not start early");
	return (double)e.at - (double)at;
}

static double slept_late(void)
{
	const uint64_t at = bench_now() + AHEAD_NS;
	const struct timespec until = {
		.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)
	};

	bench_must(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0, "a sleep");
	return (double)(bench_now() - at);
}

/* ---- the row ------------------------------------------------------------- */

static double most_ms(struct bench *b)
{
	return bench_percentile(b->late, b->nr, 99) * 1e-6;
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	switch (way) {
	case TOLD:
		for (unsigned i = 0; i < b->nr; i++)
			b->late[i] = notified_late(b);
		values[0] = most_ms(b);
		break;
	case CANCELLED:
	case LATE:
		for (unsigned keyed = 0; keyed < 2; keyed++) {
			for (unsigned i = 0; i < b->nr; i++)
				b->late[i] = ended_late(b, way == CANCELLED, keyed);
			values[keyed] = most_ms(b);
		}
		break;
	case DELAYED_START:
	case SLEEPS:
		for (unsigned i = 0; i < b->nr_delayed; i++)
			b->late[i] = way == SLEEPS ? slept_late() : started_late(b);
		values[0] = bench_percentile(b->late, b->nr_delayed, 99) * 1e-3;
		break;
	}
}

static struct rnl_pool *make_pool(const struct bench_run *run, unsigned nr_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	attr.device = run->opt->device;
	attr.nr_workers = nr_workers;
	bench_rnl(rnl_pool_create(&pool, &attr), "rnl_pool_create");
	return pool;
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->nr = run->opt->quick ? 2 : SAMPLES;
	b->nr_delayed = run->opt->quick ? 10 : DELAYED;
	b->late = bench_alloc(DELAYED * sizeof(*b->late));
	b->pool = make_pool(run, WORKERS);
	b->one = make_pool(run, 1);
	bench_rnl(rnl_memory_get(b->one, RNL_PINNED, BYTES, &b->host, 0), "rnl_memory_get");
	bench_rnl(rnl_memory_get(b->one, 0, BYTES, &b->device, 0), "rnl_memory_get");
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	(void)lines;
	rnl_memory_put(b->one, b->device);
	rnl_memory_put(b->one, b->host);
	rnl_pool_destroy(b->one);
	rnl_pool_destroy(b->pool);
	free(b->late);
}

const struct bench_work bench_promises = { begin_row, measure, end_row, NULL };
