/* SPDX-License-Identifier: MIT */
/*
 * The row batch: requests of 4 KB through a batcher, and a single request compared with a plain
 * job.
 *
 * DESIGN
 *	A producer has 128 requests in flight and reaps them from its own completion queue. It
 *	writes two words of each request and checks two, like with J: only the transport is
 *	measured. For comparison, hand-written threads do J one by one. The ceiling is hand-written
 *	threads that copy, run and copy back 64 adjacent requests together.
 *	With several GPUs: a batcher of a pool with one GPU and 8 producers, and a batcher of a pool
 *	with all GPUs and the same number of producers and workers per GPU. The ceiling is a copy of
 *	the same bytes by hand.
 */
#include "gpu/work.h"

#include <errno.h>
#include <stdlib.h>

#include <runnel/batch.h>

#define BYTES (GPU_WORDS * sizeof(uint32_t))
#define UNDER_WAY 128		/* requests of a producer */
#define WORKERS 4
#define TEAM 8			/* hand-written threads that do J one by one */
#define SLAB_TEAM 4		/* hand-written threads that do slabs */
#define SLAB 64			/* requests in a slab */
#define REAP 64

struct bench;

struct request {
	struct rnl_request request;
	uint32_t seq;
};

struct producer {
	pthread_t thread;
	struct bench *bench;
	struct rnl_cq *cq;
	uint64_t done;
	struct request *requests;
};

struct bench {
	const struct bench_options *opt;
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;
	struct gpu_team *team, *slabs;
	struct gpu_request *plain;
	struct request lone;
	double lone_p50;
	atomic_bool stop;
};

static const unsigned producers[] = { 4, 8 };
#define SIZES (sizeof(producers) / sizeof(producers[0]))

/* ---- the work ------------------------------------------------------------ */

static int run_batch(const struct rnl_batch *batch)
{
	return gpu_issue_rounds(batch->in, batch->out, (uint64_t)batch->nr * GPU_WORDS, 1,
				(cudaStream_t)rnl_stream()) == cudaSuccess ? 0 : -1;
}

/* Issues SLAB times J together, for a slot and the next slots, whose memory is adjacent. */
static cudaError_t issue_slab(const struct gpu_slot *slot, cudaStream_t stream)
{
	const size_t bytes = SLAB * BYTES;
	cudaError_t code = cudaMemcpyAsync(slot->dev, slot->in, bytes, cudaMemcpyHostToDevice,
					   stream);

	if (code == cudaSuccess)
		code = gpu_issue_rounds(slot->dev, slot->dev, SLAB * GPU_WORDS, 1, stream);
	if (code != cudaSuccess)
		return code;
	return cudaMemcpyAsync(slot->in, slot->dev, bytes, cudaMemcpyDeviceToHost, stream);
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
	bench_must(words[0] == r->seq * GPU_A + GPU_C &&
		   words[GPU_WORDS - 1] == ~r->seq * GPU_A + GPU_C, "what the kernel was to make");
}

/* Sends a request.  Returns false if there is no space. */
static bool try_send(struct bench *b, struct request *r)
{
	const int ret = rnl_batcher_reserve(b->batcher, &r->request, BYTES, 0);

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

/* ---- many ---------------------------------------------------------------- */

/* Keeps requests in flight.  While there is no space, takes back requests that are done. */
static void *produce(void *arg)
{
	struct producer *p = arg;
	struct request *idle[UNDER_WAY];
	struct rnl_job *jobs[REAP];
	unsigned nr_idle = 0;
	bool stop = false;

	while (nr_idle < UNDER_WAY) {
		idle[nr_idle] = &p->requests[nr_idle];
		nr_idle++;
	}
	do {
		while (nr_idle && !stop && try_send(p->bench, idle[nr_idle - 1]))
			nr_idle--;
		const int nr = rnl_cq_reap(p->cq, jobs, REAP, nr_idle < UNDER_WAY ? RNL_FOREVER : 0);

		bench_must(nr >= 0 || nr_idle == UNDER_WAY, "rnl_cq_reap");
		for (int i = 0; i < nr; i++) {
			idle[nr_idle] = rnl_container_of(jobs[i], struct request, request.job);
			take_back(idle[nr_idle++]);
			p->done++;
		}
		/* relaxed: publishes no data */
		stop = atomic_load_explicit(&p->bench->stop, memory_order_relaxed);
	} while (!stop || nr_idle < UNDER_WAY);
	return NULL;
}

static void begin(struct producer *p, struct bench *b)
{
	p->bench = b;
	p->requests = bench_alloc(UNDER_WAY * sizeof(*p->requests));
	bench_rnl(rnl_cq_create(&p->cq), "rnl_cq_create");
	for (unsigned i = 0; i < UNDER_WAY; i++) {
		bench_rnl(rnl_job_init(&p->requests[i].request.job, NULL), "rnl_job_init");
		bench_rnl(rnl_job_set_cq(&p->requests[i].request.job, p->cq), "rnl_job_set_cq");
	}
	bench_must(!pthread_create(&p->thread, NULL, produce, p), "pthread_create");
}

/* Returns thousands of requests per second. */
static double rate(struct bench *b, unsigned nr)
{
	struct producer *all = bench_alloc(nr * sizeof(*all));
	const uint64_t start = bench_now();
	uint64_t done = 0;

	atomic_store(&b->stop, false);
	for (unsigned i = 0; i < nr; i++)
		begin(&all[i], b);
	bench_sleep_ms(b->opt->run_ms);
	atomic_store(&b->stop, true);
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(all[i].thread, NULL);
		rnl_cq_destroy(all[i].cq);
		done += all[i].done;
		free(all[i].requests);
	}
	free(all);
	return (double)done * 1e6 / (double)(bench_now() - start);
}

/* ---- one ----------------------------------------------------------------- */

static double plain_us(struct bench *b)
{
	uint64_t start = bench_now();

	gpu_prepare(&b->plain->slot);
	bench_rnl(rnl_submit(b->pool, &b->plain->job), "rnl_submit");
	bench_rnl(rnl_job_wait(&b->plain->job, RNL_FOREVER), "rnl_job_wait");
	start = bench_now() - start;
	bench_rnl(b->plain->job.result, "J");
	gpu_check(&b->plain->slot);
	return (double)start * 1e-3;
}

static double request_us(struct bench *b, struct request *r)
{
	uint64_t start = bench_now();

	bench_must(try_send(b, r), "space for one");
	bench_rnl(rnl_job_wait(&r->request.job, RNL_FOREVER), "rnl_job_wait");
	start = bench_now() - start;
	take_back(r);
	return (double)start * 1e-3;
}

/* Alternates plain jobs and requests.  Returns the requests' p50; sets the plain jobs'. */
static double lone(struct bench *b, double *plain_p50)
{
	const unsigned nr = b->opt->samples;
	double *plain = bench_alloc(nr * sizeof(*plain)), *us = bench_alloc(nr * sizeof(*us)), p50;

	for (unsigned i = 0; i < nr; i++) {
		plain[i] = plain_us(b);
		us[i] = request_us(b, &b->lone);
	}
	*plain_p50 = bench_percentile(plain, nr, 50);
	p50 = bench_percentile(us, nr, 50);
	free(plain);
	free(us);
	return p50;
}

/* ---- the row ------------------------------------------------------------- */

enum { BATCHES, ONE_BY_ONE, SLABS, SIDES, PLAIN = 2 * SIDES, LONE };

static void measure(void *arg, unsigned way, double *values)
{
	static const struct gpu_hand_variant one_by_one = { GPU_EVENT, 8, 64 };
	static const struct gpu_hand_variant one_slab = { GPU_EVENT, 1, 16 };
	struct bench *b = arg;

	if (way == PLAIN)
		b->lone_p50 = lone(b, values);
	else if (way == LONE)
		values[0] = b->lone_p50;
	else if (way % SIDES == BATCHES)
		values[0] = rate(b, producers[way / SIDES]);
	else if (way % SIDES == ONE_BY_ONE)
		values[0] = 1e-3 * gpu_team_rate(b->team, &one_by_one, b->opt->run_ms);
	else
		values[0] = 1e-3 * SLAB * gpu_team_rate(b->slabs, &one_slab, b->opt->run_ms);
}

static void begin_batcher(struct bench *b, const struct bench_run *run, unsigned nr_gpus)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;

	b->opt = run->opt;
	b->pool = gpu_pool(gpu_names(run->opt, nr_gpus), run->kind, nr_gpus * WORKERS, NULL);
	attr.fn = run_batch;
	attr.in_bytes = attr.out_bytes = BYTES;
	bench_rnl(rnl_batcher_create(&b->batcher, b->pool, &attr), "rnl_batcher_create");
}

static void *begin_row(struct bench_run *run)
{
	const int ordinal = run->opt->info.ordinal;
	struct bench *b = bench_alloc(sizeof(*b));

	begin_batcher(b, run, 1);
	b->plain = gpu_requests(1);
	bench_rnl(gpu_job_init(&b->plain->job, gpu_run_j), "rnl_job_init");
	bench_rnl(rnl_job_init(&b->lone.request.job, NULL), "rnl_job_init");
	b->team = gpu_team_start(ordinal, run->kind, TEAM, gpu_issue_j, true);
	b->slabs = gpu_team_start(ordinal, run->kind, SLAB_TEAM, issue_slab, false);
	for (unsigned i = 0; i < SIZES; i++)
		(void)rate(b, producers[i]);
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	(void)lines;
	rnl_batcher_destroy(b->batcher);
	rnl_pool_destroy(b->pool);
}

const struct bench_work bench_batch = { begin_row, measure, end_row, NULL };

/* ---- with several GPUs ---------------------------------------------------- */

#define COPY_BYTES ((size_t)8 << 20)
#define COPY_CHUNKS 12		/* of a GPU */
#define COPY_ROUNDS 8

struct benches {
	struct bench by[2];		/* one GPU, all */
	struct gpu_copies copies;
	unsigned nr_gpus;
};

/* Ways: a batcher on one GPU, on all GPUs; only copies on one GPU, on all GPUs. */
static void measure_gpus(void *arg, unsigned way, double *values)
{
	struct benches *b = arg;
	const unsigned nr_gpus = way % 2 ? b->nr_gpus : 1;

	values[0] = way > 1 ? 1e6 * gpu_copies_rate(&b->copies, nr_gpus) / (2 * BYTES) :
		    rate(&b->by[way], nr_gpus * producers[SIZES - 1]);
}

static void *begin_gpus(struct bench_run *run)
{
	struct benches *b = bench_alloc(sizeof(*b));
	double unused;

	b->nr_gpus = run->nr_gpus;
	for (unsigned way = 0; way < 2; way++) {
		begin_batcher(&b->by[way], run, way ? b->nr_gpus : 1);
		measure_gpus(b, way, &unused);
	}
	b->copies = (struct gpu_copies){
		.bytes = COPY_BYTES, .nr_chunks = b->nr_gpus * COPY_CHUNKS,
		.nr = run->opt->quick ? COPY_CHUNKS : COPY_ROUNDS * COPY_CHUNKS,
	};
	b->copies.in = gpu_pinned(COPY_BYTES * b->copies.nr_chunks);
	b->copies.out = gpu_pinned(COPY_BYTES * b->copies.nr_chunks);
	gpu_copies_start(&b->copies, run->opt->gpus, b->nr_gpus);
	return b;
}

static void end_gpus(void *arg, struct bench_line **lines)
{
	struct benches *b = arg;

	for (unsigned way = 0; way < 2; way++)
		end_row(&b->by[way], lines);
	gpu_scales(lines[0], b->nr_gpus, (double)NAN);
}

const struct bench_work bench_devices_batch = { begin_gpus, measure_gpus, end_gpus, NULL };
