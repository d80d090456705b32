/* SPDX-License-Identifier: MIT */
/*
 * The runs: the jobs that compute, the jobs that reduce, and the barriers between them.
 *
 * DESIGN
 * A device has two workers.  One computes: its jobs share a key, so buckets are computed in order.
 * The other one is of the class of all-reduces: its stream has the highest priority, so the device
 * prefers blocks of an all-reduce to those of a kernel that fills the device.  It is the device's
 * *reducer*.
 *
 * An all-reduce starts after its own barrier, which counts two jobs: the computing of its bucket,
 * and the previous all-reduce.  So its stream waits for the event of its own bucket, and not for
 * later buckets.  A reducer's all-reduces start in bucket order, on all ranks.  If an all-reduce
 * fails, the later ones are cancelled.
 *
 * In a naive run the first barrier counts all computing jobs.  This is the only difference.
 *
 * The host times a run, from the moment when all processes are ready to the end of the last job.
 * Runs for the picture have two more kernels per job, to write device times; they are not measured.
 */
#include "config.h"

#include "buckets.h"
#include "common/clock.h"
#include "common/program.h"

#include <stdio.h>
#include <stdlib.h>

#include <runnel/class.h>
#include <runnel/kernel.h>

const char *const way_names[NR_WAYS] = {
	"computing", "reducing", "naive", "overlapped", "by hand"
};

struct compute {
	struct rnl_job job;
	struct buckets *b;
	unsigned device, bucket;
	struct span *span;		/* NULL: the run is not drawn */
};

static struct rnl_class *all_reduces;
static struct compute *computes;	/* device by device */
static struct reduce *reduces;
static unsigned nr_buckets, nr_reducers;

static struct compute *compute_of(unsigned device, unsigned bucket)
{
	return &computes[device * nr_buckets + bucket];
}

struct reduce *reduce_of(unsigned device, unsigned bucket)
{
	return &reduces[device * nr_buckets + bucket];
}

/* ---- the jobs ------------------------------------------------------------- */

static int stamp(struct span *span, bool end)
{
	return !span ? 0 : clock_write(end ? &span->end : &span->begin);
}

/* A job function. */
static int compute(struct rnl_job *job)
{
	const struct compute *c = rnl_container_of(job, struct compute, job);
	const struct compute_args args = compute_args_of(c->b, c->device, c->bucket);
	const struct rnl_dim block = { COMPUTE_THREADS, 1, 1 };
	int ret = stamp(c->span, false);

	ret = ret ? ret : rnl_launch(&compute_kernel, compute_grid_of(c->b), block, &args);
	return ret ? ret : stamp(c->span, true);
}

/* A job function. */
static int reduce(struct rnl_job *job)
{
	struct reduce *r = rnl_container_of(job, struct reduce, job);
	int ret = stamp(r->span, false);

	ret = ret ? ret : r->b->transport->reduce(r->b, r);
	/* If the job is held, the thread that releases its hold writes the end. */
	return ret || r->b->transport->progress ? ret : stamp(r->span, true);
}

static void job_begin(struct rnl_job *job, int (*fn)(struct rnl_job *job), unsigned device)
{
	program_must(rnl_job_init(job, fn), "a job");
	program_must(rnl_job_set_device(job, (int)device), "a job's device");
}

void runs_begin(struct buckets *b)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	const unsigned nr = b->set.nr_devices * b->set.nr;

	nr_buckets = b->set.nr;
	nr_reducers = b->transport->one_reducer ? 1 : b->set.nr_devices;
	attr.name = "all-reduces";
	attr.nr_workers = b->set.nr_devices;
	attr.max_queued = nr_buckets;
	program_must(rnl_class_create(&all_reduces, b->pool, &attr), "a class");
	computes = calloc(nr, sizeof(*computes));
	reduces = calloc(nr, sizeof(*reduces));
	if (!computes || !reduces)
		program_die("out of memory");
	for (unsigned d = 0; d < b->set.nr_devices; d++)
		for (unsigned i = 0; i < nr_buckets; i++) {
			struct compute *c = compute_of(d, i);

			c->b = b;
			c->device = d;
			c->bucket = i;
			job_begin(&c->job, compute, d);
		}
	for (unsigned l = 0; l < nr_reducers; l++)
		for (unsigned i = 0; i < nr_buckets; i++) {
			struct reduce *r = reduce_of(l, i);
			struct rnl_barrier *before = &r->before;

			r->b = b;
			r->device = l;
			r->bucket = i;
			job_begin(&r->job, reduce, l);
			program_must(rnl_job_set_class(&r->job, all_reduces), "a job of a class");
			program_must(rnl_barrier_init(&r->before, b->pool), "a barrier");
			program_must(rnl_job_set_after(&r->job, before), "a job after");
			if (i)
				program_must(rnl_barrier_add(before, &reduce_of(l, i - 1)->job),
					     "a barrier's job");
		}
}

void runs_end(void)
{
	free(reduces);
	free(computes);
}

/* ---- a run ----------------------------------------------------------------- */

static void submit_compute(struct buckets *b, enum way way, unsigned device, unsigned bucket)
{
	struct compute *c = compute_of(device, bucket);
	struct reduce *r = reduce_of(nr_reducers == 1 ? 0 : device, way == OVERLAPPED ? bucket : 0);

	/* Set these for each run: the previous run may have used another way. */
	program_must(rnl_barrier_add(&r->before, &c->job), "a barrier's job");
	program_must(rnl_job_set_key(&c->job, RNL_KEY_WORKER(0)), "the computing's key");
	program_must(rnl_submit_wait(b->pool, &c->job, RNL_FOREVER), "submitting the computing");
}

static void submit_reduces(struct buckets *b, unsigned bucket)
{
	for (unsigned l = 0; l < nr_reducers; l++)
		program_must(rnl_submit_wait(b->pool, &reduce_of(l, bucket)->job, RNL_FOREVER),
			     "submitting an all-reduce");
}

static void submit(struct buckets *b, enum way way)
{
	for (unsigned i = 0; i < nr_buckets && way != REDUCING; i++) {
		for (unsigned d = 0; d < b->set.nr_devices; d++)
			submit_compute(b, way, d, i);
		if (way == OVERLAPPED)
			submit_reduces(b, i);
	}
	for (unsigned i = 0; i < nr_buckets && (way == NAIVE || way == REDUCING); i++)
		submit_reduces(b, i);
}

static void await(struct rnl_job *job, const struct buckets *b, enum way way, unsigned device,
		  unsigned bucket, const char *what)
{
	char text[TEXT], why[TEXT];
	int ret;

	watch_expect("%s of bucket %u, %s", what, bucket, way_names[way]);
	program_must(rnl_job_wait(job, RNL_FOREVER), "waiting for a job");
	ret = job->result;
	if (ret >= 0)
		return;
	snprintf(text, sizeof(text), "rank %u, %s of bucket %u, %s", rank_of(b, device), what, bucket,
		 way_names[way]);
	if (b->transport->failed && b->transport->failed(why))
		program_die("%s: %s", text, why);
	program_must(ret, text);
}

static void await_computes(const struct buckets *b, enum way way)
{
	for (unsigned i = 0; i < nr_buckets; i++)
		for (unsigned d = 0; d < b->set.nr_devices; d++)
			await(&compute_of(d, i)->job, b, way, d, i, "the computing");
}

static void await_reduces(const struct buckets *b, enum way way)
{
	for (unsigned i = 0; i < nr_buckets; i++)
		for (unsigned l = 0; l < nr_reducers; l++)
			await(&reduce_of(l, i)->job, b, way, l, i, "the all-reduce");
}

/* Waits for the computing first, to report the error that cancelled the other jobs. */
static void await_all(struct buckets *b, enum way way)
{
	const bool moves = way != COMPUTING && b->transport->progress;

	if (way == OVERLAPPED && moves)
		b->transport->progress(b);
	if (way != REDUCING)
		await_computes(b, way);
	if (way != OVERLAPPED && moves)
		b->transport->progress(b);
	if (way != COMPUTING)
		await_reduces(b, way);
}

static void draw_or_not(const struct buckets *b, const struct spans *spans)
{
	for (unsigned d = 0; d < b->set.nr_devices; d++)
		for (unsigned i = 0; i < nr_buckets; i++) {
			compute_of(d, i)->span = spans ? &spans->computes[d][i] : NULL;
			reduce_of(d, i)->span = spans ? &spans->reduces[d][i] : NULL;
		}
}

double runs_go(struct buckets *b, enum way way, const struct spans *spans)
{
	uint64_t begin, end;

	draw_or_not(b, spans);
	b->nr_runs++;
	watch_expect("all ranks to reach the run %s", way_names[way]);
	processes_meet();
	begin = program_now_ns();
	submit(b, way);
	await_all(b, way);
	end = program_now_ns();
	watch_rest();
	if (way == NAIVE || way == OVERLAPPED)
		values_check(b, way_names[way]);
	return (double)(end - begin) / 1e6;
}
