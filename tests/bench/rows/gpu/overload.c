/* SPDX-License-Identifier: MIT */
/*
 * The row overload: a class that admits, with twice as much work as the GPU can do, and deadlines.
 *
 * DESIGN
 *	tests/lib/arrivals.h has the jobs, and two models that know each job's time. A job is a
 *	kernel that spins for its time. Either it fills the GPU, for a pool of one worker and a model
 *	of one; or it is one thread, for four of each. A job is in time if its callback runs by its
 *	deadline. Goodput is the time of the jobs that are in time, compared with the better model
 *	for the same arrivals.
 */
#include <errno.h>

#include <runnel/class.h>

#include "arrivals.h"
#include "gpu/work.h"

#define MEAN_NS 3984500		/* of the functions */
#define RUN_MS_PART 15		/* multiplies --run-ms */
#define QUICK_PART 5
#define LEARN 4			/* jobs of each function, first */
#define SLEEP_NS 300000		/* until an arrival: a shorter time is spun */
#define SIGMA 1.5
#define SIDES 4

struct request {
	struct rnl_job job;
	uint64_t done;
	bool accepted;
};

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	struct rnl_pool *pools[SIDES];	/* 1 worker, or 4, with one or two jobs each on the GPU */
	unsigned blocks, threads;	/* of a kernel */
	unsigned all_blocks, run_ms;
	uint64_t seeds[SIDES];
	struct arrival arrivals[ARRIVALS_MOST];
	struct request requests[ARRIVALS_MOST];
};

static int issue(struct rnl_job *job, unsigned fn)
{
	const struct bench *b = job->user;

	return gpu_issue_spin(b->blocks, b->threads, arrival_us[fn] * UINT64_C(1000), NULL,
			      (cudaStream_t)rnl_stream()) ? -1 : 0;
}

/* Estimates are by function. */
#define FN(i) static int fn_##i(struct rnl_job *job) { return issue(job, i); }
FN(0) FN(1) FN(2) FN(3) FN(4) FN(5) FN(6) FN(7)

static int (*const fns[ARRIVAL_FNS])(struct rnl_job *) = { fn_0, fn_1, fn_2, fn_3,
							    fn_4, fn_5, fn_6, fn_7 };

static void request_done(struct rnl_job *job)
{
	rnl_container_of(job, struct request, job)->done = bench_now();
}

static void prepare(struct bench *b, struct request *r, struct rnl_class *class, unsigned fn)
{
	bench_rnl(gpu_job_init(&r->job, fns[fn]), "rnl_job_init");
	r->job.user = b;
	bench_rnl(rnl_job_set_class(&r->job, class), "rnl_job_set_class");
	bench_rnl(rnl_job_set_on_done(&r->job, request_done), "rnl_job_set_on_done");
}

static void learn(struct bench *b, struct rnl_class *class)
{
	for (unsigned i = 0; i < LEARN * ARRIVAL_FNS; i++) {
		prepare(b, &b->requests[i], class, i % ARRIVAL_FNS);
		bench_rnl(rnl_submit(b->pool, &b->requests[i].job), "rnl_submit");
	}
	bench_rnl(rnl_pool_drain(b->pool, RNL_FOREVER), "rnl_pool_drain");
}

/* Returns the time at which the arrivals begin. */
static uint64_t submit_all(struct bench *b, struct rnl_class *class, unsigned nr)
{
	uint64_t begin;

	for (unsigned i = 0; i < nr; i++)
		prepare(b, &b->requests[i], class, b->arrivals[i].fn);
	begin = bench_now();
	for (unsigned i = 0; i < nr; i++) {
		struct request *r = &b->requests[i];
		const uint64_t at = begin + b->arrivals[i].at, by = begin + b->arrivals[i].deadline;
		uint64_t now;
		int ret;

		while ((now = bench_now()) < at) {
			if (at - now > SLEEP_NS)
				bench_sleep_ms(1);
			else
				bench_relax();
		}
		bench_rnl(rnl_job_set_deadline(&r->job, now < by ? (int64_t)(by - now) : 1),
			  "rnl_job_set_deadline");
		ret = rnl_submit(b->pool, &r->job);
		r->accepted = !ret;
		bench_rnl(ret == -ETIME ? 0 : ret, "rnl_submit");
	}
	bench_rnl(rnl_pool_drain(b->pool, RNL_FOREVER), "rnl_pool_drain");
	return begin;
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const unsigned nr_workers = way < 2 ? 1 : ARRIVAL_WORKERS;
	const uint64_t most = 2 * nr_workers * b->run_ms * UINT64_C(1000000) / MEAN_NS;
	const unsigned nr = most < ARRIVALS_MOST ? (unsigned)most : ARRIVALS_MOST;
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct rnl_class *class;
	uint64_t begin, good_ns = 0, edf, sjf;
	unsigned accepted = 0, in_time = 0;

	b->pool = b->pools[way];
	b->blocks = nr_workers == 1 ? b->all_blocks : 1;
	b->threads = nr_workers == 1 ? 1024 : 1;
	attr.order = RNL_CLASS_DEADLINE;
	attr.flags = RNL_CLASS_ADMIT;
	bench_rnl(rnl_class_create(&class, b->pool, &attr), "rnl_class_create");
	draw_arrivals(b->arrivals, nr, draws_of(b->seeds[way]++, nr_workers), SIGMA, nr_workers);
	learn(b, class);
	begin = submit_all(b, class, nr);
	for (unsigned i = 0; i < nr; i++) {
		const struct request *r = &b->requests[i];

		accepted += r->accepted;
		if (!r->accepted || r->job.result || r->done > begin + b->arrivals[i].deadline)
			continue;
		in_time++;
		good_ns += b->arrivals[i].ns;
	}
	edf = model_good_ns(b->arrivals, nr, BY_DEADLINE, nr_workers);
	sjf = model_good_ns(b->arrivals, nr, SHORTEST_FIRST, nr_workers);
	values[0] = 100.0 * accepted / nr;
	values[1] = accepted ? 100.0 * in_time / accepted : 0;
	values[2] = 100 * (double)good_ns / (double)(edf > sjf ? edf : sjf);
	rnl_class_destroy(class);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->all_blocks = 2 * run->opt->info.nr_multiprocessors;
	b->run_ms = (run->opt->quick ? QUICK_PART : RUN_MS_PART) * run->opt->run_ms;
	for (unsigned i = 0; i < SIDES; i++) {
		struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

		attr.max_in_flight = 1 + i % 2;
		b->pools[i] = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, i < 2 ? 1 : ARRIVAL_WORKERS,
				       &attr);
	}
	b->pool = b->pools[0];
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	for (unsigned i = 1; i < SIDES; i++)
		rnl_pool_destroy(b->pools[i]);
	b->pool = b->pools[0];
	gpu_row_end(b, lines);
}

const struct bench_work bench_overload = { begin_row, measure, end_row, NULL };
