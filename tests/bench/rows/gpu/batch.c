/* SPDX-License-Identifier: MIT */
/*
 * The row batch: requests of 4 KB through a batcher, with 128 or 512 of each producer in flight.
 *
 * DESIGN
 *	A producer reaps its requests from its own completion queue. It writes two words of each
 *	request and checks two, like with J: only the transport is measured. By hand, threads have
 *	slabs of adjacent requests, three under way, and write and check the same words. A slab is
 *	copied in, runs a kernel, and is copied out, or the kernel accesses page-locked memory. The
 *	ceiling is a copy of the same bytes, both ways at the same time.
 *	With several GPUs: a batcher of a pool with all GPUs, one of a pool with one GPU, and one for
 *	each of as many pools, with the same number of producers and workers per GPU; by hand slabs,
 *	and the copies, on each GPU in one process.
 */
#include "gpu/work.h"

#include <errno.h>
#include <stdlib.h>

#include <runnel/batch.h>

#define BYTES (GPU_WORDS * sizeof(uint32_t))
#define IN_FLIGHT_MAX 512	/* requests of a producer */
#define WORKERS 4
#define REAP 64

struct request {
	struct rnl_request request;
	uint32_t seq;
};

struct producer {
	pthread_t thread;
	const atomic_bool *stop;
	struct rnl_batcher *batcher;
	struct rnl_cq *cq;
	uint64_t done;
	unsigned in_flight;
	struct request *requests;
};

/* A pool, and its batcher. */
struct batcher {
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;
};

/* ---- the work ------------------------------------------------------------ */

static int run_batch(const struct rnl_batch *batch)
{
	return gpu_issue_rounds(batch->in, batch->out, (uint64_t)batch->nr * GPU_WORDS, 1,
				(cudaStream_t)rnl_stream()) == cudaSuccess ? 0 : -1;
}

static void fill(struct request *r)
{
	uint32_t *words = r->request.in;

	r->seq++;
	words[0] = r->seq + bench_wrong_result;
	words[GPU_WORDS - 1] = ~r->seq;
}

static void look_at(const struct request *r)
{
	const uint32_t *words = r->request.out;

	bench_rnl(r->request.job.result, "a request");
	bench_must(words[0] == gpu_word(GPU_ROUND, r->seq, 0) &&
		   words[GPU_WORDS - 1] == gpu_word(GPU_ROUND, ~r->seq, 0),
		   "what the kernel was to make");
}

/* Sends a request.  Returns false if there is no space. */
static bool try_send(struct rnl_batcher *batcher, struct request *r)
{
	const int ret = rnl_batcher_reserve(batcher, &r->request, BYTES, 0);

	if (ret == -EAGAIN)
		return false;
	bench_rnl(ret, "rnl_batcher_reserve");
	fill(r);
	bench_rnl(rnl_request_commit(&r->request), "rnl_request_commit");
	return true;
}

static void take_back(struct request *r)
{
	look_at(r);
	bench_rnl(rnl_request_release(&r->request), "rnl_request_release");
}

/* ---- producers ----------------------------------------------------------- */

/* Keeps requests in flight.  While there is no space, takes back requests that are done. */
static void *produce(void *arg)
{
	struct producer *p = arg;
	struct request *idle[IN_FLIGHT_MAX];
	struct rnl_job *jobs[REAP];
	unsigned nr_idle = 0;
	bool stop = false;

	while (nr_idle < p->in_flight) {
		idle[nr_idle] = &p->requests[nr_idle];
		nr_idle++;
	}
	do {
		while (nr_idle && !stop && try_send(p->batcher, idle[nr_idle - 1]))
			nr_idle--;
		const int nr = rnl_cq_reap(p->cq, jobs, REAP,
					   nr_idle < p->in_flight ? RNL_FOREVER : 0);

		bench_must(nr >= 0 || nr_idle == p->in_flight, "rnl_cq_reap");
		for (int i = 0; i < nr; i++) {
			idle[nr_idle] = rnl_container_of(jobs[i], struct request, request.job);
			take_back(idle[nr_idle++]);
			p->done++;
		}
		/* relaxed: publishes no data */
		stop = atomic_load_explicit(p->stop, memory_order_relaxed);
	} while (!stop || nr_idle < p->in_flight);
	return NULL;
}

static void begin(struct producer *p)
{
	p->requests = bench_alloc(p->in_flight * sizeof(*p->requests));
	bench_rnl(rnl_cq_create(&p->cq), "rnl_cq_create");
	for (unsigned i = 0; i < p->in_flight; i++) {
		bench_rnl(rnl_job_init(&p->requests[i].request.job, NULL), "rnl_job_init");
		bench_rnl(rnl_job_set_cq(&p->requests[i].request.job, p->cq), "rnl_job_set_cq");
	}
	bench_must(!pthread_create(&p->thread, NULL, produce, p), "pthread_create");
}

/* Returns thousands of requests per second, by @nr producers of each batcher. */
static double rate(const struct batcher *batchers, unsigned nr_batchers, unsigned nr,
		   unsigned in_flight, unsigned ms)
{
	const unsigned nr_all = nr_batchers * nr;
	struct producer *all = bench_alloc(nr_all * sizeof(*all));
	const uint64_t start = bench_now();
	atomic_bool stop = false;
	uint64_t done = 0;

	for (unsigned i = 0; i < nr_all; i++) {
		all[i].stop = &stop;
		all[i].batcher = batchers[i / nr].batcher;
		all[i].in_flight = in_flight;
		begin(&all[i]);
	}
	bench_sleep_ms(ms);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < nr_all; i++) {
		pthread_join(all[i].thread, NULL);
		rnl_cq_destroy(all[i].cq);
		done += all[i].done;
		free(all[i].requests);
	}
	free(all);
	return (double)done * 1e6 / (double)(bench_now() - start);
}

/* @under_way: requests of all producers, a GPU; a batch may have an eighth of them, as batch.h says. */
static void begin_batcher(struct batcher *b, const struct bench_run *run, unsigned first,
			  unsigned nr_gpus, unsigned under_way)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;

	b->pool = gpu_pool(gpu_names(run->opt, first, nr_gpus), run->kind, nr_gpus * WORKERS, NULL);
	attr.fn = run_batch;
	attr.in_bytes = attr.out_bytes = BYTES;
	if (under_way / 8 > 256)
		attr.max_batch = under_way / 8;
	bench_rnl(rnl_batcher_create(&b->batcher, b->pool, &attr), "rnl_batcher_create");
}

static void end_batcher(struct batcher *b)
{
	rnl_batcher_destroy(b->batcher);
	rnl_pool_destroy(b->pool);
}

/* Returns thousands of requests per second whose bytes are copied both ways. */
static double copies_rate(struct gpu_copies *copies, unsigned nr_gpus)
{
	return 1e6 * gpu_copies_rate(copies, nr_gpus) / (2 * BYTES);
}

/* ---- the row ------------------------------------------------------------- */

/* The order of the table. */
enum { BATCHER_4, BATCHER_8, SLABS, REACHED = SLABS + 3, COPIES };

static const unsigned slabs[] = { 64, 256, 1024 };
#define REACHED_SLAB 256

struct bench {
	const struct bench_options *opt;
	struct batcher by[2];		/* for 4 and for 8 producers */
	unsigned in_flight;
	struct gpu_team *team;
	struct gpu_copies copies;
};

static double rate_of(struct bench *b, unsigned way)
{
	const unsigned ms = b->opt->run_ms;

	if (way <= BATCHER_8)
		return way == BATCHER_4 ? rate(&b->by[0], 1, 4, b->in_flight, ms) :
					  rate(&b->by[1], 1, 8, b->in_flight, ms);
	if (way == COPIES)
		return copies_rate(&b->copies, 1);
	return 1e-3 * gpu_slabs_rate(&b->team, 1, way == REACHED ? REACHED_SLAB : slabs[way - SLABS],
				     way == REACHED, ms);
}

static void measure(void *arg, unsigned way, double *values)
{
	values[0] = values[2] = rate_of(arg, way);
	values[1] = values[3] = values[0] * 1e-6 * BYTES;
}

static void *begin_row(struct bench_run *run, unsigned in_flight)
{
	struct bench *b = bench_alloc(sizeof(*b));
	double values[BENCH_VALUES];

	b->opt = run->opt;
	b->in_flight = in_flight;
	begin_batcher(&b->by[0], run, 0, 1, 4 * in_flight);
	begin_batcher(&b->by[1], run, 0, 1, 8 * in_flight);
	b->team = gpu_slabs_start(run->opt->info.ordinal);
	gpu_copies_start(&b->copies, run->opt, 1);
	for (unsigned way = 0; way < COPIES; way++)
		measure(b, way, values);
	return b;
}

static void *begin_128(struct bench_run *run)
{
	return begin_row(run, 128);
}

static void *begin_512(struct bench_run *run)
{
	return begin_row(run, 512);
}

static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	(void)lines;
	end_batcher(&b->by[0]);
	end_batcher(&b->by[1]);
}

const struct bench_work bench_batch = { begin_128, measure, end_row, NULL };
const struct bench_work bench_batch_512 = { begin_512, measure, end_row, NULL };

/* ---- with several GPUs ---------------------------------------------------- */

#define PRODUCERS 8		/* of a GPU */

/* The order of the table. */
enum {
	ALL_SLABS_256, ALL_SLABS_1024, ALL_COPIES, ALL_128, ALL_512, EACH_512, ONE_512, ONE_SLABS_1024,
	GPU_WAYS
};

struct benches {
	const struct bench_options *opt;
	unsigned nr_gpus;
	struct batcher all, each[BENCH_GPUS_MAX]; /* each: a pool of its own */
	struct gpu_team *teams[BENCH_GPUS_MAX];
	struct gpu_copies copies;
};

static double gpus_rate(struct benches *b, unsigned way)
{
	const unsigned nr = b->nr_gpus, ms = b->opt->run_ms;

	switch (way) {
	case ALL_SLABS_256:
		return 1e-3 * gpu_slabs_rate(b->teams, nr, 256, false, ms);
	case ALL_SLABS_1024:
		return 1e-3 * gpu_slabs_rate(b->teams, nr, 1024, false, ms);
	case ONE_SLABS_1024:
		return 1e-3 * gpu_slabs_rate(b->teams, 1, 1024, false, ms);
	case ALL_COPIES:
		return copies_rate(&b->copies, nr);
	case EACH_512:
		return rate(b->each, nr, PRODUCERS, 512, ms);
	case ONE_512:
		return rate(b->each, 1, PRODUCERS, 512, ms);
	default:
		return rate(&b->all, 1, nr * PRODUCERS, way == ALL_128 ? 128 : 512, ms);
	}
}

static void measure_gpus(void *arg, unsigned way, double *values)
{
	values[0] = gpus_rate(arg, way);
}

static void *begin_gpus(struct bench_run *run)
{
	struct benches *b = bench_alloc(sizeof(*b));
	double unused;

	b->opt = run->opt;
	b->nr_gpus = run->nr_gpus;
	begin_batcher(&b->all, run, 0, b->nr_gpus, PRODUCERS * 128);
	for (unsigned i = b->nr_gpus; i--;) {
		begin_batcher(&b->each[i], run, i, 1, PRODUCERS * 512);
		gpu_enter(run->opt->gpus[i]);
		b->teams[i] = gpu_slabs_start(run->opt->gpus[i]);
	}
	gpu_copies_start(&b->copies, run->opt, b->nr_gpus);
	for (unsigned way = 0; way < GPU_WAYS; way++)
		measure_gpus(b, way, &unused);
	return b;
}

static void end_gpus(void *arg, struct bench_line **lines)
{
	struct benches *b = arg;

	end_batcher(&b->all);
	for (unsigned i = 0; i < b->nr_gpus; i++)
		end_batcher(&b->each[i]);
	gpu_scales(lines[0], b->nr_gpus, "one GPU", BENCH_HAND, "slabs of 1024, one GPU");
	lines[0]->goal_value = fmin(bench_line_goal(lines[0]),
				    0.925 * b->nr_gpus * gpu_other(lines[0], "one GPU"));
	lines[0]->goal = BENCH_ABSOLUTE;
}

const struct bench_work bench_devices_batch = { begin_gpus, measure_gpus, end_gpus, NULL };
