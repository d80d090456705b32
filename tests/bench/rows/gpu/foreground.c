/* SPDX-License-Identifier: MIT */
/*
 * The rows foreground: what a class of higher priority waits for, while another one always has work.
 *
 * DESIGN
 *	The foreground is kernels of 50 us that fill the SMs which may be kept for it. They come
 *	whether or not earlier ones are done, in exponential gaps, a fifth of the rate at which they
 *	can run alone. A kernel's time is from when it should come, until its end is seen: by hand by
 *	the thread that issues the kernels and queries the oldest one's event meanwhile, with
 *	runnel by the job's callback. Each measurement is first without the flood, then with it.
 */
#include "gpu/flood.h"

#define WORKERS 4
#define IN_FLIGHT 2
#define RUN_MS_PART 10		/* multiplies --run-ms, unless quick */
#define EACH_NS 50000
#define GAP_NS (5 * EACH_NS)	/* the mean */
#define EVENTS 256		/* kernels under way, by hand */
#define BLOCKS_ELSE 16		/* of a kernel, if the GPU keeps no SMs */
#define DUE_NS 1000000		/* the first kernel comes after so long */

enum side { BY_PRIORITY, NO_CLASSES, CLASSES, OWN_WORKER, SHORT_SIDES, BY_GREEN = SHORT_SIDES, KEPT };

static const struct gpu_flood_of short_blocks = { 1, { 4 }, { 50000 } },
				 long_blocks = { 1, { 4 }, { 500000 } };

struct request {
	struct rnl_job job;
	uint64_t due, done;
};

struct bench {
	struct gpu_flood f;		/* the first, and in it the pool: gpu_row_end() */
	struct rnl_pool *usual, *keeps;
	cudaStream_t urgent, kept;	/* by hand */
	cudaEvent_t ends[EVENTS];
	unsigned fg_blocks, group, first;
	uint64_t random;
	unsigned nr;			/* kernels of a measurement */
	atomic_uint nr_done;		/* by callbacks */
	struct request *requests;
	double *us;
};

static cudaError_t issue(const struct bench *b, cudaStream_t stream)
{
	return gpu_issue_spin(b->fg_blocks, 1024, EACH_NS, NULL, stream);
}

static void draw_requests(struct bench *b)
{
	double at = (double)bench_now() + DUE_NS;

	for (unsigned i = 0; i < b->nr; i++) {
		b->random = b->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		at -= GAP_NS * log(((double)(b->random >> 33) + 1) / (UINT64_C(1) << 31));
		b->requests[i].due = (uint64_t)at;
	}
}

/* ---- by hand ------------------------------------------------------------- */

/* Looks whether the oldest kernel has ended.  Returns the number of those that have. */
static unsigned look(struct bench *b, unsigned ended, unsigned issued)
{
	cudaError_t code;

	if (ended == issued)
		return ended;
	code = cudaEventQuery(b->ends[ended % EVENTS]);
	if (code == cudaErrorNotReady) {
		bench_relax();
		return ended;
	}
	gpu_ok(code, "cudaEventQuery");
	b->requests[ended].done = bench_now();
	return ended + 1;
}

static void send_by_hand(struct bench *b, cudaStream_t stream)
{
	unsigned ended = 0;

	for (unsigned i = 0; i < b->nr; i++) {
		while (bench_now() < b->requests[i].due || i - ended == EVENTS)
			ended = look(b, ended, i);
		gpu_ok(issue(b, stream), "a kernel");
		gpu_ok(cudaEventRecord(b->ends[i % EVENTS], stream), "cudaEventRecord");
	}
	while (ended < b->nr)
		ended = look(b, ended, b->nr);
}

/* ---- by a pool ----------------------------------------------------------- */

static int run_request(struct rnl_job *job)
{
	return issue(job->user, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void request_done(struct rnl_job *job)
{
	struct bench *b = job->user;

	bench_rnl(job->result, "a kernel");
	rnl_container_of(job, struct request, job)->done = bench_now();
	atomic_fetch_add(&b->nr_done, 1);
}

/* @class: NULL: none. */
static void send_by_pool(struct bench *b, struct rnl_class *class)
{
	atomic_store(&b->nr_done, 0);
	for (unsigned i = 0; i < b->nr; i++) {
		struct request *r = &b->requests[i];

		bench_rnl(gpu_job_init(&r->job, run_request), "rnl_job_init");
		r->job.user = b;
		bench_rnl(rnl_job_set_class(&r->job, class), "rnl_job_set_class");
		bench_rnl(rnl_job_set_on_done(&r->job, request_done), "rnl_job_set_on_done");
	}
	for (unsigned i = 0; i < b->nr; i++) {
		while (bench_now() < b->requests[i].due)
			bench_relax();
		bench_rnl(rnl_submit_wait(b->f.pool, &b->requests[i].job, RNL_FOREVER), "rnl_submit_wait");
	}
	while (atomic_load(&b->nr_done) < b->nr)
		bench_sleep_ms(1);
}

/* ---- the rows ------------------------------------------------------------ */

/* Sends all requests.  @stream: by hand, or NULL. */
static void send_all(struct bench *b, cudaStream_t stream, struct rnl_class *class)
{
	draw_requests(b);
	if (stream)
		send_by_hand(b, stream);
	else
		send_by_pool(b, class);
	for (unsigned i = 0; i < b->nr; i++)
		b->us[i] = (double)(b->requests[i].done - b->requests[i].due) * 1e-3;
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const enum side side = b->first + way;
	const bool keeps = side >= SHORT_SIDES;
	cudaStream_t const stream = side == BY_PRIORITY ? b->urgent : side == BY_GREEN ? b->kept : NULL;
	const unsigned all_blocks = b->f.blocks;
	struct rnl_class_attr low = RNL_CLASS_ATTR_INIT, high = RNL_CLASS_ATTR_INIT;
	struct rnl_class *class = NULL;

	low.priority = 3;
	high.priority = -4;
	high.nr_workers = side == OWN_WORKER || side == KEPT;
	high.spin_us = high.nr_workers ? 2000 : 0;	/* longer than most gaps */
	high.flags = side == KEPT ? RNL_CLASS_KEPT_SMS : 0;
	b->f.green = side == BY_GREEN;
	b->f.blocks -= keeps ? 2 * b->group : 0;	/* the flood fills the other SMs */
	b->f.pool = side == KEPT ? b->keeps : b->usual;
	if (!stream && side != NO_CLASSES)
		class = gpu_flood_class(&b->f, &high);
	send_all(b, stream, class);
	values[0] = bench_percentile(b->us, b->nr, 99);
	gpu_flood_begin(&b->f, keeps ? &long_blocks : &short_blocks, stream,
			side == NO_CLASSES ? NULL : &low);
	send_all(b, stream, class);
	gpu_flood_end(&b->f);
	rnl_class_destroy(class);
	values[1] = bench_percentile(b->us, b->nr, 50);
	values[2] = bench_percentile(b->us, b->nr, 99);
	values[3] = values[2] / values[0];
	b->f.blocks = all_blocks;
	b->f.green = false;
	b->f.pool = b->usual;
}

static void *begin(struct bench_run *run)
{
	const bool keeps = run->row->work == &bench_foreground_kept;
	const unsigned group = run->opt->info.sm_group;
	struct bench *b;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	if (keeps && !group)
		return NULL;
	b = bench_alloc(sizeof(*b));
	gpu_flood_open(&b->f, run, RUN_MS_PART);
	b->random = 1;
	b->first = keeps ? SHORT_SIDES : 0;
	b->group = group;
	b->fg_blocks = group ? 2 * group : BLOCKS_ELSE;
	b->nr = (unsigned)(b->f.run_ms * UINT64_C(1000000) / GAP_NS) + 1;
	b->requests = bench_alloc(b->nr * sizeof(*b->requests));
	b->us = bench_alloc(b->nr * sizeof(*b->us));
	b->urgent = gpu_stream(RNL_STREAM_PRIVATE, true);
	for (unsigned i = 0; i < EVENTS; i++)
		b->ends[i] = gpu_event(cudaEventDisableTiming);
	attr.max_in_flight = IN_FLIGHT;
	attr.nr_class_workers = 1;
	b->f.pool = b->usual = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, WORKERS, &attr);
	if (!keeps)
		return b;
	attr.kept_sms = group;
	b->keeps = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, WORKERS, &attr);
	gpu_green_streams(run->opt->info.ordinal, group, &b->kept, b->f.rest, GPU_FLOOD_CLASSES);
	return b;
}

static void end(void *arg, struct bench_line **lines)
{
	rnl_pool_destroy(((struct bench *)arg)->keeps);
	gpu_row_end(arg, lines);
}

const struct bench_work bench_foreground = { begin, measure, end, NULL };
const struct bench_work bench_foreground_kept = { begin, measure, end, NULL };
