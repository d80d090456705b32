/* SPDX-License-Identifier: MIT */
/*
 * The line batch: requests of 4 KB through a batcher, and a lone one beside a plain job.
 *
 * DESIGN
 *	A producer has 128 requests under way and gets them back by a completion queue
 *	of its own.  It writes two words of each and looks at two, as with J: what is
 *	measured is the way.  Beside it hand-written threads that do J one by one,
 *	and, as a ceiling, threads that copy, run and copy back 64 requests which
 *	somebody has laid side by side for them.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <errno.h>
#include <stdlib.h>

#define BYTES (GPU_WORDS * sizeof(uint32_t))
#define UNDER_WAY 128		/* requests of a producer */
#define WORKERS 4
#define TEAM 8			/* hand-written threads that do J one by one */
#define SLAB_TEAM 4		/* and slabs */
#define SLAB 64			/* requests in one */
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
	const struct gpu_options *opt;
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;
	struct gpu_team *team, *slabs;
	struct gpu_request *plain;
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

/* J's memory, but of many at once: a slot's is that of its neighbours, too. */
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
	words[0] = r->seq + gpu_wrong;
	words[GPU_WORDS - 1] = ~r->seq;
}

static void look_at(const struct request *r)
{
	const uint32_t *words = r->request.out;

	gpu_rnl(rnl_job_result(&r->request.job), "a request");
	bench_must(words[0] == r->seq * GPU_A + GPU_C &&
		   words[GPU_WORDS - 1] == ~r->seq * GPU_A + GPU_C, "what the kernel was to make");
}

static void send(struct bench *b, struct request *r)
{
	int ret = rnl_batcher_reserve(b->batcher, &r->request, BYTES);

	if (ret == -EAGAIN)
		ret = rnl_batcher_reserve_wait(b->batcher, &r->request, BYTES, RNL_FOREVER);
	gpu_rnl(ret, "rnl_batcher_reserve");
	fill(r);
	gpu_rnl(rnl_request_commit(&r->request), "rnl_request_commit");
}

static void take_back(struct request *r)
{
	look_at(r);
	gpu_rnl(rnl_request_release(&r->request), "rnl_request_release");
}

/* ---- many ---------------------------------------------------------------- */

static void *produce(void *arg)
{
	struct producer *p = arg;
	struct rnl_job *jobs[REAP];
	unsigned left = UNDER_WAY;

	for (unsigned i = 0; i < UNDER_WAY; i++)
		send(p->bench, &p->requests[i]);
	while (left) {
		const int nr = rnl_cq_wait(p->cq, jobs, REAP, RNL_FOREVER);
		/* relaxed: it hands nothing over */
		const bool stop = atomic_load_explicit(&p->bench->stop, memory_order_relaxed);

		gpu_rnl(nr, "rnl_cq_wait");
		for (int i = 0; i < nr; i++) {
			struct request *r = rnl_container_of(jobs[i], struct request, request.job);

			take_back(r);
			p->done++;
			if (stop)
				left--;
			else
				send(p->bench, r);
		}
	}
	return NULL;
}

static void begin(struct producer *p, struct bench *b)
{
	p->bench = b;
	p->requests = bench_alloc(UNDER_WAY * sizeof(*p->requests));
	gpu_rnl(rnl_cq_create(&p->cq), "rnl_cq_create");
	for (unsigned i = 0; i < UNDER_WAY; i++) {
		gpu_rnl(rnl_request_init(&p->requests[i].request), "rnl_request_init");
		gpu_rnl(rnl_job_cq(&p->requests[i].request.job, p->cq), "rnl_job_cq");
	}
	bench_must(!pthread_create(&p->thread, NULL, produce, p), "pthread_create");
}

/* Return: thousands of requests a second. */
static double rate(struct bench *b, unsigned nr)
{
	struct producer *all = bench_alloc(nr * sizeof(*all));
	const uint64_t start = bench_now();
	uint64_t done = 0;

	atomic_store(&b->stop, false);
	for (unsigned i = 0; i < nr; i++)
		begin(&all[i], b);
	gpu_sleep_ms(b->opt->run_ms);
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

static void rates(const struct gpu_run *run, struct bench *b)
{
	static const struct gpu_hand_variant one_by_one = { GPU_EVENT, 8, 64 };
	static const struct gpu_hand_variant one_slab = { GPU_EVENT, 1, 16 };
	struct gpu_row *rows[SIZES];
	struct gpu_figure *figures[SIZES], *hands[SIZES], *slabs[SIZES];

	for (unsigned i = 0; i < SIZES; i++) {
		rows[i] = gpu_row_new("batch", "k/s", true, GPU_ABSOLUTE, 3000,
				      "requests of 4 KB, %u producers", producers[i]);
		hands[i] = gpu_row_figure(rows[i], GPU_HAND, "one by one, event/8 d64");
		slabs[i] = gpu_row_figure(rows[i], GPU_CEILING, "slabs of 64");
		figures[i] = gpu_row_figure(rows[i], GPU_RUNNEL, "rnl_batcher");
		(void)rate(b, producers[i]);
	}
	for (unsigned turn = 0; turn < run->opt->runs; turn++) {
		for (unsigned i = 0; i < SIZES; i++) {
			gpu_figure_add(figures[i], rate(b, producers[i]));
			gpu_figure_add(hands[i], 1e-3 * gpu_team_rate(b->team, &one_by_one,
								      run->opt->run_ms));
			gpu_figure_add(slabs[i], 1e-3 * SLAB *
					gpu_team_rate(b->slabs, &one_slab, run->opt->run_ms));
		}
	}
	for (unsigned i = 0; i < SIZES; i++)
		gpu_row_tell(run, rows[i]);
}

/* ---- one ----------------------------------------------------------------- */

static double plain_us(struct bench *b)
{
	uint64_t start = bench_now();

	gpu_prepare(&b->plain->slot);
	gpu_rnl(rnl_submit(b->pool, &b->plain->job), "rnl_submit");
	gpu_rnl(rnl_job_wait(&b->plain->job, RNL_FOREVER), "rnl_job_wait");
	start = bench_now() - start;
	gpu_rnl(rnl_job_result(&b->plain->job), "J");
	gpu_check(&b->plain->slot);
	return (double)start * 1e-3;
}

static double request_us(struct bench *b, struct request *r)
{
	uint64_t start = bench_now();

	send(b, r);
	gpu_rnl(rnl_job_wait(&r->request.job, RNL_FOREVER), "rnl_job_wait");
	start = bench_now() - start;
	take_back(r);
	return (double)start * 1e-3;
}

/* By turns, request by request. */
static void lone(const struct gpu_run *run, struct bench *b)
{
	const unsigned nr = run->opt->samples;
	double *plain = bench_alloc(nr * sizeof(*plain)), *us = bench_alloc(nr * sizeof(*us));
	struct gpu_row *row = gpu_row_new("batch", "us", false, GPU_HAND_PLUS, 3,
					  "a lone request, p50, beside a plain job");
	struct gpu_figure *by_job = gpu_row_figure(row, GPU_HAND, "a plain job of runnel's");
	struct gpu_figure *by_batch = gpu_row_figure(row, GPU_RUNNEL, "rnl_batcher");
	struct request r = { .seq = 0 };

	gpu_rnl(rnl_request_init(&r.request), "rnl_request_init");
	for (unsigned turn = 0; turn < run->opt->runs; turn++) {
		for (unsigned i = 0; i < nr; i++) {
			plain[i] = plain_us(b);
			us[i] = request_us(b, &r);
		}
		gpu_figure_add(by_job, bench_percentile(plain, nr, 50));
		gpu_figure_add(by_batch, bench_percentile(us, nr, 50));
	}
	gpu_row_tell(run, row);
	free(plain);
	free(us);
}

static void line(const struct gpu_run *run)
{
	const enum rnl_stream_kind kind = RNL_STREAM_PER_THREAD;
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct bench b = { .opt = run->opt };

	gpu_setup();
	gpu_begin(run->opt->ordinal);
	b.pool = gpu_pool(run->opt->device, kind, WORKERS, NULL);
	attr.fn = run_batch;
	attr.in_bytes = attr.out_bytes = BYTES;
	gpu_rnl(rnl_batcher_create(&b.batcher, b.pool, &attr), "rnl_batcher_create");
	b.plain = gpu_requests(1);
	gpu_rnl(gpu_job_init(&b.plain->job, gpu_run_j), "rnl_job_init");
	b.team = gpu_team_start(run->opt->ordinal, kind, TEAM, gpu_issue_j, true);
	b.slabs = gpu_team_start(run->opt->ordinal, kind, SLAB_TEAM, issue_slab, false);
	rates(run, &b);
	lone(run, &b);
	rnl_batcher_destroy(b.batcher);
	rnl_pool_destroy(b.pool);
}

const struct gpu_line gpu_batch = { .name = "batch", .patience_s = 60, .measure = line };
