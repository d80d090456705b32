/* SPDX-License-Identifier: MIT */
/*
 * stream_kinds's ways: threads that launch kernels on a kind of stream, or jobs of a pool.
 *
 * DESIGN
 * On CUDA all ways without a pool use the same threads, and each thread creates its streams once,
 * kind by kind.  So the streams of one kind have separate hardware queues, even if there are fewer
 * queues than streams in total.  A thread launches kernels without waiting for earlier ones, but in
 * lockstep with the other threads: each run launches the same kernels before the legacy call, and
 * the same kernels after it.  After an error the threads meet at the barrier, but launch nothing.
 */
#include "config.h"

#include "common/program.h"
#include "common/progress.h"
#include "stream_kinds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <runnel/kernel.h>

#define NAP_NS 50000

static uint64_t nr_done;		/* runs; counted by thread 0, later by the main thread */

struct crew {
	const struct kinds_options *opt;
	const struct kinds_way *ways;
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

/* ---- the kernel's host function ------------------------------------------ */

/* Sleeps, so that more kernels than CPUs can run concurrently. */
void kinds_on_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	const struct kinds_args *args = arg;
	const struct timespec nap = { .tv_nsec = NAP_NS };
	const uint64_t begin = program_now_ns();

	(void)grid;
	(void)block;
	while (program_now_ns() - begin < args->ns)
		nanosleep(&nap, NULL);
	args->span->begin = begin;
	args->span->end = program_now_ns();
}

static struct kinds_args args_of(const struct kinds_options *opt, struct kinds_span *spans,
				 unsigned thread, unsigned kernel)
{
	return (struct kinds_args){ &spans[thread * opt->kernels + kernel], opt->ms * 1000000ull };
}

/* ---- threads ------------------------------------------------------------- */

/* Waits for all threads.  Returns false if one of them had an error. */
static bool meet(struct crew *crew)
{
	pthread_barrier_wait(&crew->meeting);
	return !atomic_load(&crew->ret);
}

/* Keeps the first error. */
static void keep(struct crew *crew, int ret)
{
	int none = 0;

	if (ret)
		atomic_compare_exchange_strong(&crew->ret, &none, ret);
}

/* Launches one kernel per thread; the legacy call is the first of its round. */
static void round_by_cuda(struct member *me, const struct kinds_way *way, struct kinds_span *spans,
			  unsigned kernel)
{
	struct crew *crew = me->crew;
	const struct kinds_args args = args_of(crew->opt, spans, me->number, kernel);
	const bool legacy = way->one_legacy && !me->number && kernel == 1;

	if (meet(crew) && legacy)
		keep(crew, kinds_cuda->launch(&me->streams, KINDS_LEGACY, &args));
	if (meet(crew) && !legacy)
		keep(crew, kinds_cuda->launch(&me->streams, way->stream, &args));
}

static void run_by_cuda(struct member *me, const struct kinds_way *way, struct kinds_span *spans)
{
	for (unsigned kernel = 0; kernel < me->crew->opt->kernels; kernel++)
		round_by_cuda(me, way, spans, kernel);
	/* Waiting for the legacy stream is a legacy call, too. */
	if (meet(me->crew) && way->one_legacy && !me->number)
		keep(me->crew, kinds_cuda->wait(&me->streams, KINDS_LEGACY));
	keep(me->crew, kinds_cuda->wait(&me->streams, way->stream));
}

static void *be_member(void *arg)
{
	struct member *me = arg;
	struct crew *crew = me->crew;

	for (int kind = 0; kind < KINDS_NR_STREAMS; kind++)
		if (meet(crew))
			keep(crew, kinds_cuda->open(&me->streams, kind, crew->opt->info.ordinal));
	for (unsigned i = 0; i < crew->nr_ways; i++)
		for (unsigned run = 0; run <= crew->opt->repeat && !crew->ways[i].pool; run++)
			if (meet(crew)) {	/* the previous run is over */
				run_by_cuda(me, &crew->ways[i],
					    kinds_spans(&crew->ways[i], crew->opt, run));
				if (!me->number)
					progress_show(++nr_done);
			}
	kinds_cuda->close(&me->streams);
	return NULL;
}

static void run_threads(struct crew *crew)
{
	static struct member members[KINDS_THREADS_MAX];
	const unsigned nr = crew->opt->threads;

	program_must(-pthread_barrier_init(&crew->meeting, NULL, nr), "a barrier");
	for (unsigned i = 0; i < nr; i++) {
		members[i].crew = crew;
		members[i].number = i;
		program_must(-pthread_create(&members[i].thread, NULL, be_member, &members[i]),
			     "a thread");
	}
	for (unsigned i = 0; i < nr; i++)
		pthread_join(members[i].thread, NULL);
	pthread_barrier_destroy(&crew->meeting);
	program_must(atomic_load(&crew->ret), "kernels of threads");
}

/* ---- threads that call no device ------------------------------------------- */

struct plain {
	pthread_t thread;
	const struct kinds_options *opt;
	struct kinds_span *spans;
	unsigned number;
};

static void *be_plain(void *arg)
{
	const struct plain *me = arg;
	const struct rnl_dim one = { 1, 1, 1 };

	for (unsigned kernel = 0; kernel < me->opt->kernels; kernel++) {
		const struct kinds_args args = args_of(me->opt, me->spans, me->number, kernel);

		kinds_on_host(one, one, &args);
	}
	return NULL;
}

static void run_plain(const struct kinds_options *opt, struct kinds_span *spans)
{
	static struct plain threads[KINDS_THREADS_MAX];

	for (unsigned i = 0; i < opt->threads; i++) {
		threads[i] = (struct plain){ .opt = opt, .spans = spans, .number = i };
		program_must(-pthread_create(&threads[i].thread, NULL, be_plain, &threads[i]),
			     "a thread");
	}
	for (unsigned i = 0; i < opt->threads; i++)
		pthread_join(threads[i].thread, NULL);
}

/* ---- the pool ------------------------------------------------------------ */

struct request {
	struct rnl_job job;
	const struct kinds_options *opt;
	struct kinds_span *spans;
	unsigned number;
};

static int run_request(struct rnl_job *job)
{
	const struct request *r = rnl_container_of(job, struct request, job);
	const struct rnl_dim one = { 1, 1, 1 };
	int ret = 0;

	for (unsigned kernel = 0; kernel < r->opt->kernels && !ret; kernel++) {
		const struct kinds_args args = args_of(r->opt, r->spans, r->number, kernel);

		ret = rnl_launch(&kinds_kernel, one, one, &args);
	}
	return ret;
}

static void run_by_pool(const struct kinds_options *opt, struct rnl_pool *pool,
			struct kinds_span *spans)
{
	static struct request requests[KINDS_THREADS_MAX];
	struct rnl_barrier done;

	program_must(rnl_barrier_init(&done, pool), "a barrier");
	for (unsigned i = 0; i < opt->threads; i++) {
		requests[i] = (struct request){ .opt = opt, .spans = spans, .number = i };
		program_must(rnl_job_init(&requests[i].job, run_request), "a job");
		program_must(rnl_barrier_add(&done, &requests[i].job), "a job");
	}
	/* With a worker for each job, keys give each its own; otherwise a worker could take two. */
	for (unsigned i = 0; i < opt->threads; i++) {
		program_must(rnl_job_set_key(&requests[i].job, RNL_KEY_WORKER(i)), "a job's key");
		program_must(rnl_submit(pool, &requests[i].job), "submitting a job");
	}
	program_must(rnl_barrier_wait(&done, RNL_FOREVER), "waiting for the jobs");
	program_must(done.result, "the jobs");
}

static void run_pool(const struct kinds_options *opt, const struct kinds_way *way)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	attr.device = opt->device;
	attr.nr_workers = way->one_worker ? 1 : opt->threads;
	pool = program_pool(&attr);
	for (unsigned run = 0; run <= opt->repeat; run++) {
		run_by_pool(opt, pool, kinds_spans(way, opt, run));
		progress_show(++nr_done);
	}
	rnl_pool_destroy(pool);
}

void kinds_run(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr)
{
	struct crew crew = { .opt = opt, .ways = ways, .nr_ways = nr };

	progress_begin("measuring", (uint64_t)(opt->repeat + 1) * nr, 1, "runs");
	if (opt->info.cuda)
		run_threads(&crew);
	for (unsigned i = 0; i < nr; i++) {
		if (ways[i].pool)
			run_pool(opt, &ways[i]);
		for (unsigned run = 0; ways[i].plain && run <= opt->repeat; run++) {
			run_plain(opt, kinds_spans(&ways[i], opt, run));
			progress_show(++nr_done);
		}
	}
}
