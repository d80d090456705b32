/* SPDX-License-Identifier: MIT */
/*
 * The row lone: one request at a time through a batcher, compared with one thread that issues the
 * same work by hand.
 *
 * DESIGN
 *	The kernel reads each word once, and writes it once. By hand the words are copied, or the
 *	kernel accesses pinned memory directly; the thread polls a word that the stream writes. The
 *	direct access is the ceiling, because a batcher passes the work to a worker. A time begins
 *	before the input is written, and ends when the thread knows that the output is complete.
 */
#include "gpu/work.h"

#include <stdlib.h>

#include <runnel/batch.h>

#define WARM_UPS 50
#define WORKERS 4

enum { COPIES, REACHED, BATCHER_COPIES, BATCHER, HOWS };	/* in the order of the table */

static const size_t sizes[] = { 4096, 65536 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST 65536u

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned nr;			/* samples */
	double *us;
	uint32_t seq;			/* of the request */
	/* By hand. */
	cudaStream_t stream;
	uint32_t *in, *out, *dev;
	uint32_t *flag, written;
	/* Through a batcher. */
	struct rnl_batcher *batchers[HOWS][SIZES];
	struct rnl_request request;
};

static int run_batch(const struct rnl_batch *batch)
{
	return gpu_issue_rounds(batch->in, batch->out, batch->in_bytes / sizeof(uint32_t), 1,
				(cudaStream_t)rnl_stream()) == cudaSuccess ? 0 : -1;
}

/* ---- one request --------------------------------------------------------- */

static void fill(struct bench *b, uint32_t *in, size_t bytes)
{
	b->seq++;
	in[0] = b->seq + bench_wrong_result;
	in[bytes / sizeof(*in) - 1] = ~b->seq;
}

static void look_at(const struct bench *b, const uint32_t *out, size_t bytes)
{
	bench_must(out[0] == b->seq * GPU_A + GPU_C &&
		   out[bytes / sizeof(*out) - 1] == ~b->seq * GPU_A + GPU_C,
		   "what the kernel was to make");
}

static void issue(const struct bench *b, bool copies, size_t bytes)
{
	const uint64_t nr = bytes / sizeof(uint32_t);

	if (!copies) {
		gpu_ok(gpu_issue_rounds(b->in, b->out, nr, 1, b->stream), "a kernel");
		return;
	}
	gpu_ok(cudaMemcpyAsync(b->dev, b->in, bytes, cudaMemcpyHostToDevice, b->stream), "a copy");
	gpu_ok(gpu_issue_rounds(b->dev, b->dev, nr, 1, b->stream), "a kernel");
	gpu_ok(cudaMemcpyAsync(b->out, b->dev, bytes, cudaMemcpyDeviceToHost, b->stream), "a copy");
}

static uint64_t by_hand(struct bench *b, bool copies, size_t bytes)
{
	uint64_t start = bench_now();

	fill(b, b->in, bytes);
	issue(b, copies, bytes);
	gpu_stream_write(b->stream, b->flag, ++b->written);
	/* acquire: the stream's work before it wrote the word */
	while (__atomic_load_n(b->flag, __ATOMIC_ACQUIRE) != b->written)
		bench_relax();
	start = bench_now() - start;
	look_at(b, b->out, bytes);
	return start;
}

static uint64_t by_batcher(struct bench *b, struct rnl_batcher *batcher, size_t bytes)
{
	uint64_t start = bench_now();

	bench_rnl(rnl_batcher_reserve(batcher, &b->request, bytes, 0), "rnl_batcher_reserve");
	fill(b, b->request.in, bytes);
	bench_rnl(rnl_request_commit(&b->request), "rnl_request_commit");
	bench_rnl(rnl_job_wait(&b->request.job, RNL_FOREVER), "rnl_job_wait");
	start = bench_now() - start;
	bench_rnl(b->request.job.result, "a request");
	look_at(b, b->request.out, bytes);
	bench_rnl(rnl_request_release(&b->request), "rnl_request_release");
	return start;
}

/* ---- the row ------------------------------------------------------------- */

static double sample_us(struct bench *b, unsigned how, unsigned size)
{
	struct rnl_batcher *batcher = b->batchers[how][size];
	const size_t bytes = sizes[size];

	return 1e-3 * (double)(batcher ? by_batcher(b, batcher, bytes) :
					 by_hand(b, how == COPIES, bytes));
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const unsigned how = way % HOWS, size = way / HOWS;

	for (int i = 0; i < WARM_UPS; i++)
		(void)sample_us(b, how, size);
	for (unsigned i = 0; i < b->nr; i++)
		b->us[i] = sample_us(b, how, size);
	values[0] = bench_percentile(b->us, b->nr, 50);
	values[1] = bench_percentile(b->us, b->nr, 99);
}

static struct rnl_batcher *batcher_of(struct rnl_pool *pool, uint32_t flags, size_t bytes)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *batcher;

	attr.flags = flags;
	attr.fn = run_batch;
	attr.in_bytes = attr.out_bytes = bytes;
	bench_rnl(rnl_batcher_create(&batcher, pool, &attr), "rnl_batcher_create");
	return batcher;
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->nr = run->opt->samples + 1;
	b->us = bench_alloc(b->nr * sizeof(*b->us));
	b->stream = gpu_stream(run->kind, false);
	b->in = gpu_pinned(LARGEST);
	b->out = gpu_pinned(LARGEST);
	b->dev = gpu_memory(LARGEST);
	b->flag = gpu_pinned(128);
	b->pool = gpu_pool(run->opt->device, run->kind, WORKERS, NULL);
	for (unsigned i = 0; i < SIZES; i++) {
		b->batchers[BATCHER_COPIES][i] = batcher_of(b->pool, RNL_BATCHER_ALWAYS_COPY,
							    sizes[i]);
		b->batchers[BATCHER][i] = batcher_of(b->pool, 0, sizes[i]);
	}
	bench_rnl(rnl_job_init(&b->request.job, NULL), "rnl_job_init");
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	for (unsigned i = 0; i < SIZES; i++) {
		rnl_batcher_destroy(b->batchers[BATCHER_COPIES][i]);
		rnl_batcher_destroy(b->batchers[BATCHER][i]);
	}
	free(b->us);
	gpu_row_end(arg, lines);
}

const struct bench_work bench_lone = { begin_row, measure, end_row, NULL };
