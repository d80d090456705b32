/* SPDX-License-Identifier: MIT */
/*
 * The rows classes: classes' shares of the GPU, and what a class of priority -4 waits for a flood.
 *
 * DESIGN
 *	A flood is some classes that always have jobs queued: gpu/flood.h.
 *	A sample of the tail is a kernel of one block, a millisecond after the last one's end: by
 *	hand issued and synced, else a job of priority -4, from its submit until the waiter has
 *	returned. Its class has a worker of its own, perhaps with one group of SMs that are kept for
 *	it, or it shares the flood's workers: then it waits for the jobs that the flood's class has
 *	under way, of which that class may have only one.
 */
#include "gpu/flood.h"

#include <string.h>

#define WORKERS 4
#define IN_FLIGHT 2		/* of a worker: the pool has at most 8 jobs on the device */
#define RUN_MS_PART 10		/* multiplies --run-ms, unless quick */
#define ASKED 75		/* A's part, of two classes 3:1 */
#define SAMPLE_NS 10000
#define FIGURES_MAX 24		/* lines, and ways, at most */

enum { SHARE_SIDES = 2, TAIL_SIDES = 6 };

static const struct flood {
	const char *name;
	unsigned first, nr_lines;	/* quantities in the table */
	struct gpu_flood_of of;
} shares[] = {
	{ "; A 0.5 ms, B 0.5 ms", 0, 4, { 2, { 3, 1 }, { 500000, 500000 } } },
	{ "; A 0.05 ms, B 0.5 ms", 0, 4, { 2, { 3, 1 }, { 50000, 500000 } } },
	{ "; A 2 ms, B 0.05 ms", 0, 4, { 2, { 3, 1 }, { 2000000, 50000 } } },
	{ "", 4, 1, { 3, { 4, 2, 1 }, { 500000, 500000, 500000 } } },
	{ "", 5, 1, { GPU_FLOOD_CLASSES, { 1, 1, 1 }, { 200000, 200000, 200000 } } },
}, tails[] = {
	{ "; blocks of 0.05 ms", 0, 3, { 1, { 4 }, { 50000 } } },
	{ "; blocks of 0.5 ms", 0, 3, { 1, { 4 }, { 500000 } } },
	{ "; blocks of 5 ms", 0, 3, { 1, { 4 }, { 5000000 } } },
	{ "; blocks that never end", 0, 3, { 1, { 4 }, { GPU_FLOOD_ENDLESS } } },
};

struct bench {
	struct gpu_flood f;		/* the first, and in it the pool: gpu_row_end() */
	struct rnl_pool *usual, *keeps;	/* the row's pools; `keeps` keeps SMs; NULL: it cannot */
	cudaStream_t kept;		/* by hand, in a green context */
	cudaStream_t urgent;		/* of the highest priority */
	unsigned group;
	double *us;			/* samples */
};

/* ---- shares -------------------------------------------------------------- */

/* Returns how many percent the worst of three classes is off its share; of more, Jain's index. */
static double compare(const struct bench *b)
{
	const struct gpu_flood_of *of = b->f.of;
	const unsigned weights = of->weights[0] + of->weights[1] + of->weights[2];
	const double sum = b->f.sum;
	double off = 0, squares = 1;

	for (unsigned i = 0; i < of->nr; i++) {
		const double its = b->f.sums[i];

		off = fmax(off, fabs(its / sum * weights / of->weights[i % GPU_FLOOD_KINDS] - 1));
		squares += its * its;
	}
	return of->nr == GPU_FLOOD_KINDS ? 100 * off : sum * sum / (of->nr * squares);
}

static void measure_shares(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;

	gpu_flood_begin(&b->f, &shares[way / SHARE_SIDES].of, way % SHARE_SIDES == 0, &attr);
	bench_sleep_ms(b->f.run_ms);
	gpu_flood_end(&b->f);
	if (b->f.of->nr > 2) {
		values[0] = compare(b);
		return;
	}
	values[0] = 100 * b->f.sums[0] / b->f.sum;
	values[2] = 0;
	for (unsigned s = 0; s < b->f.nr_seconds; s++) {
		const uint64_t *used = b->f.used[s];
		const double part = 100 * (double)used[0] / (double)(used[0] + used[1] + 1);

		if (fabs(part - ASKED) < values[2])
			continue;
		values[1] = part;
		values[2] = fabs(part - ASKED);
	}
	values[3] = gpu_flood_busy(&b->f);
}

/* ---- the tail ------------------------------------------------------------ */

static int run_sample(struct rnl_job *job)
{
	(void)job;
	return gpu_issue_spin(1, 1, SAMPLE_NS, NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

/* Returns the time of a kernel on a stream, or if that is NULL, of the job. */
static double sample(struct bench *b, cudaStream_t stream, struct rnl_job *job)
{
	const uint64_t start = bench_now();

	if (stream) {
		gpu_ok(gpu_issue_spin(1, 1, SAMPLE_NS, NULL, stream), "a kernel");
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	} else {
		bench_rnl(rnl_submit(b->f.pool, job), "rnl_submit");
		bench_rnl(rnl_job_wait(job, RNL_FOREVER), "rnl_job_wait");
		bench_rnl(job->result, "a kernel");
	}
	return (double)(bench_now() - start) * 1e-3;
}

static void measure_tail(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const struct gpu_flood_of *of = &tails[way / TAIL_SIDES].of;
	const unsigned side = way % TAIL_SIDES;
	const bool by_hand = side < 3;
	const unsigned all_blocks = b->f.blocks;
	cudaStream_t const streams[] = { b->f.stream, b->urgent, b->kept };
	struct rnl_class_attr low = RNL_CLASS_ATTR_INIT, high = RNL_CLASS_ATTR_INIT;
	struct rnl_job job;
	struct rnl_class *class;
	uint64_t end;
	size_t nr = 0;

	low.priority = 3;
	high.priority = -4;
	if (side == 5)
		low.max_device_ns = 1;	/* one job may start in any case */
	else
		high.nr_workers = 1;
	if (side == 3 || side == 4)
		high.spin_us = 2000;	/* a sample begins 1 ms after the last one */
	if (side == 4)
		high.flags = RNL_CLASS_KEPT_SMS;
	b->f.green = side == 2;
	if (side == 2 || side == 4)	/* the flood fills the other SMs */
		b->f.blocks -= 2 * b->group;
	b->f.pool = side == 4 ? b->keeps : b->usual;
	class = gpu_flood_class(&b->f, &high);
	bench_rnl(gpu_job_init(&job, run_sample), "rnl_job_init");
	bench_rnl(rnl_job_set_class(&job, class), "rnl_job_set_class");
	/* CUDA loads a kernel at its first launch, which an endless one would keep out. */
	(void)sample(b, by_hand ? streams[side] : NULL, &job);
	gpu_flood_begin(&b->f, of, by_hand, &low);
	end = bench_now() + (uint64_t)b->f.run_ms * 1000000;
	do {
		bench_sleep_ms(1);
		b->us[nr++] = sample(b, by_hand ? streams[side] : NULL, &job);
	} while (bench_now() < end);
	gpu_flood_end(&b->f);
	rnl_class_destroy(class);
	values[0] = bench_percentile(b->us, nr, 50);
	values[1] = bench_percentile(b->us, nr, 99);
	values[2] = gpu_flood_busy(&b->f) * b->f.blocks / all_blocks;
	b->f.blocks = all_blocks;
	b->f.pool = b->usual;
	b->f.green = false;
}

/* ---- the rows ------------------------------------------------------------ */

static struct bench *begin(const struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	gpu_flood_open(&b->f, run, RUN_MS_PART);
	b->us = bench_alloc((b->f.run_ms + 2) * sizeof(*b->us));
	b->urgent = gpu_stream(RNL_STREAM_PRIVATE, true);
	attr.max_in_flight = IN_FLIGHT;
	attr.nr_class_workers = 1;
	b->f.pool = b->usual = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, WORKERS, &attr);
	if (run->row->work != &bench_classes_tail || !run->opt->info.sm_group)
		return b;
	attr.kept_sms = b->group = run->opt->info.sm_group;
	b->keeps = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, WORKERS, &attr);
	gpu_green_streams(run->opt->info.ordinal, attr.kept_sms, &b->kept, b->f.rest, GPU_FLOOD_CLASSES);
	return b;
}

static bool is_endless(const struct flood *f)
{
	return f->of.ns[0] == GPU_FLOOD_ENDLESS;
}

/* Measures floods by the row's ways: each flood has its own lines. */
static void run_row(struct bench_run *run)
{
	const bool tail = run->row->work == &bench_classes_tail;
	const struct flood *f = tail ? tails : shares;
	const struct flood *end = f + (tail ? sizeof(tails) : sizeof(shares)) / sizeof(*f);
	struct bench *b = begin(run);
	struct bench_line *lines[FIGURES_MAX];
	struct bench_way ways[FIGURES_MAX] = { { .which = 0 } };
	unsigned nr_lines = 0, nr_ways = 0, nr_floods = 0;

	/* Only beside kept SMs a sample ends before an endless flood, which is the last one. */
	for (; f < end && (b->keeps || !is_endless(f)); nr_lines += f++->nr_lines, nr_floods++) {
		for (unsigned i = 0; i < f->nr_lines; i++)
			lines[nr_lines + i] = bench_line(run, f->first + i, "%s", f->name);
		for (const struct bench_side_of *side = run->row->ways; side->name; side++) {
			struct bench_way *way = &ways[nr_ways];
			const bool keeps = strstr(side->name, "kept SMs");

			if (tail && ((keeps && !b->keeps) || (!keeps && is_endless(f))))
				continue;
			way->measure = tail ? measure_tail : measure_shares;
			way->which = nr_floods * (tail ? TAIL_SIDES : SHARE_SIDES) +
				     (unsigned)(side - run->row->ways);
			nr_ways++;
			for (unsigned i = 0; i < f->nr_lines; i++)
				way->figures[i] = bench_figure(lines[nr_lines + i], side->side,
							       side->name);
		}
	}
	bench_turns(run, ways, nr_ways, b);
	rnl_pool_destroy(b->keeps);
	gpu_row_end(b, NULL);
	for (unsigned i = 0; i < nr_lines; i++)
		bench_line_tell(run, lines[i]);
}

const struct bench_work bench_classes = { .run = run_row };
const struct bench_work bench_classes_tail = { .run = run_row };
