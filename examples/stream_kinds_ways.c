/* SPDX-License-Identifier: MIT */
/*
 * The ways of stream_kinds: threads that launch kernels on a kind of stream, or have a
 * pool do it.
 *
 * DESIGN
 * The threads are the same for all ways and runs, and each makes its streams once, kind
 * by kind: so those of one kind have hardware queues of their own, though there may be
 * fewer of these than streams in all.  A thread launches a kernel without waiting for the
 * one before; but the threads do so in step, so that what comes before the one legacy
 * call, and what behind it, is the same each time.  After an error they go on meeting
 * each other, and do nothing else.
 */
#include "guard.h"
#include "stream_kinds.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NAP_NS 50000

struct crew {
	const struct kinds_options *opt;
	struct rnl_pool *pool;
	struct kinds_way *ways;
	unsigned nr_ways;
	pthread_barrier_t meeting;
	_Atomic int ret;		/* the first error */
};

struct member {
	pthread_t thread;
	struct crew *crew;
	unsigned number;
	struct kinds_streams streams;
};

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "stream_kinds: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
}

/* ---- the kernel's host function ------------------------------------------ */

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* It naps: kernels shall be at the same time where there are fewer CPUs, too. */
void kinds_on_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	const struct kinds_args *args = arg;
	const struct timespec nap = { .tv_nsec = NAP_NS };
	const uint64_t begin = now();

	(void)grid;
	(void)block;
	while (now() - begin < args->ns)
		nanosleep(&nap, NULL);
	args->span->begin = begin;
	args->span->end = now();
}

/* ---- a kernel ------------------------------------------------------------ */

static struct kinds_args args_of(const struct kinds_options *opt, struct kinds_span *spans,
				 unsigned thread, unsigned kernel)
{
	return (struct kinds_args){ &spans[thread * opt->kernels + kernel], opt->ms * 1000000ull };
}

static int launch(const struct kinds_options *opt, struct kinds_span *spans, unsigned thread,
		  unsigned kernel)
{
	const struct kinds_args args = args_of(opt, spans, thread, kernel);
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&kinds_kernel, one, one, &args);
}

/* ---- threads ------------------------------------------------------------- */

/* All threads come here as often.  Return: whether none has met an error. */
static bool meet(struct crew *crew)
{
	pthread_barrier_wait(&crew->meeting);
	return !atomic_load(&crew->ret);
}

static void keep(struct crew *crew, int ret)
{
	int none = 0;

	if (ret)
		atomic_compare_exchange_strong(&crew->ret, &none, ret);
}

/* One kernel of each thread; the legacy call is before the others' of its round. */
static void round_by_cuda(struct member *me, const struct kinds_way *way, struct kinds_span *spans,
			  unsigned kernel)
{
	struct crew *crew = me->crew;
	const struct kinds_args args = args_of(crew->opt, spans, me->number, kernel);
	const bool legacy = way->one_legacy && !me->number && kernel == 1;

	if (meet(crew) && legacy)
		keep(crew, kinds_stream_launch(&me->streams, KINDS_LEGACY, &args));
	if (meet(crew) && !legacy)
		keep(crew, kinds_stream_launch(&me->streams, way->stream, &args));
}

static void run_by_cuda(struct member *me, const struct kinds_way *way, struct kinds_span *spans)
{
	for (unsigned kernel = 0; kernel < me->crew->opt->kernels; kernel++)
		round_by_cuda(me, way, spans, kernel);
	/* To wait for the legacy stream is a legacy call, too. */
	if (meet(me->crew) && way->one_legacy && !me->number)
		keep(me->crew, kinds_stream_wait(&me->streams, KINDS_LEGACY));
	keep(me->crew, kinds_stream_wait(&me->streams, way->stream));
}

static void run_by_threads(struct member *me, const struct kinds_way *way, struct kinds_span *spans)
{
	const struct kinds_options *opt = me->crew->opt;
	const bool one = way->by == KINDS_BY_ONE;
	const unsigned end = one ? opt->threads : me->number + 1;
	int ret = 0;

	if (one && me->number)
		return;
	for (unsigned kernel = 0; kernel < opt->kernels; kernel++)
		for (unsigned t = me->number; t < end && !ret; t++)
			ret = launch(opt, spans, t, kernel);
	keep(me->crew, ret ? ret : rnl_stream_wait(RNL_FOREVER));
}

static void *be_member(void *arg)
{
	struct member *me = arg;
	struct crew *crew = me->crew;
	const bool cuda = crew->opt->info.cuda;

	for (int kind = 0; cuda && kind < KINDS_NR_STREAMS; kind++)
		if (meet(crew))
			keep(crew, kinds_stream_open(&me->streams, kind, crew->opt->info.ordinal));
	if (!cuda)
		keep(crew, rnl_thread_attach(crew->pool));
	for (unsigned i = 0; i < crew->nr_ways; i++) {
		const struct kinds_way *way = &crew->ways[i];

		if (way->by == KINDS_BY_POOL)
			continue;
		for (unsigned run = 0; run <= crew->opt->repeat; run++) {
			struct kinds_span *spans = kinds_spans(way, crew->opt, run);

			if (!meet(crew))	/* the run before is over */
				continue;
			if (way->by == KINDS_BY_CUDA)
				run_by_cuda(me, way, spans);
			else
				run_by_threads(me, way, spans);
		}
	}
	if (cuda)
		kinds_stream_close(&me->streams);
	else
		rnl_thread_detach();
	return NULL;
}

static void run_threads(struct crew *crew)
{
	static struct member members[KINDS_THREADS_MAX];
	const unsigned nr = crew->opt->threads;

	must(-pthread_barrier_init(&crew->meeting, NULL, nr), "a barrier");
	for (unsigned i = 0; i < nr; i++) {
		members[i].crew = crew;
		members[i].number = i;
		must(-pthread_create(&members[i].thread, NULL, be_member, &members[i]), "a thread");
	}
	for (unsigned i = 0; i < nr; i++)
		pthread_join(members[i].thread, NULL);
	pthread_barrier_destroy(&crew->meeting);
	must(atomic_load(&crew->ret), "kernels of threads");
}

/* ---- the pool ------------------------------------------------------------ */

struct item {
	struct rnl_job job;
	const struct kinds_options *opt;
	struct kinds_span *spans;
	unsigned number;
};

static int do_item(struct rnl_job *job)
{
	const struct item *item = rnl_container_of(job, struct item, job);
	int ret = 0;

	for (unsigned kernel = 0; kernel < item->opt->kernels && !ret; kernel++)
		ret = launch(item->opt, item->spans, item->number, kernel);
	return ret;
}

static void run_by_pool(const struct kinds_options *opt, struct rnl_pool *pool,
			struct kinds_span *spans)
{
	static struct item items[KINDS_THREADS_MAX];
	struct rnl_job *jobs[KINDS_THREADS_MAX];
	struct rnl_barrier done;

	must(rnl_barrier_init(&done, pool), "a barrier");
	for (unsigned i = 0; i < opt->threads; i++) {
		struct item *item = &items[i];

		*item = (struct item){ .opt = opt, .spans = spans, .number = i };
		jobs[i] = &item->job;
		must(rnl_job_init(jobs[i], do_item), "a job");
		must(rnl_barrier_add(&done, jobs[i]), "a job");
	}
	for (unsigned i = 0; i < opt->threads; i++)
		must(rnl_submit(pool, jobs[i]), "submitting a job");
	must(rnl_barrier_wait(&done, RNL_FOREVER), "waiting for the jobs");
	must(rnl_barrier_result(&done), "the jobs");
}

static void log_error(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (guard_shows(level))
		fprintf(stderr, "stream_kinds: %s\n", msg);
}

static void run_pool(const struct kinds_options *opt, struct kinds_way *way)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	attr.device = opt->device;
	attr.nr_workers = opt->threads;
	attr.guard = guard_wanted();
	attr.log = log_error;
	must(rnl_pool_create(&pool, &attr), "creating the workers");
	for (unsigned run = 0; run <= opt->repeat; run++)
		run_by_pool(opt, pool, kinds_spans(way, opt, run));
	rnl_pool_destroy(pool);
}

void kinds_run(const struct kinds_options *opt, struct rnl_pool *pool, struct kinds_way *ways,
	       unsigned nr)
{
	struct crew crew = { .opt = opt, .pool = pool, .ways = ways, .nr_ways = nr };

	run_threads(&crew);
	for (unsigned i = 0; i < nr; i++)
		if (ways[i].by == KINDS_BY_POOL)
			run_pool(opt, &ways[i]);
}
