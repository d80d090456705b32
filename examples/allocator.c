/* SPDX-License-Identifier: MIT */
/*
 * allocator: what device memory for each request costs, got in three ways.
 *
 * DESIGN
 * A server's loop: it keeps SLOTS requests under way, reaps what is finished from
 * a completion queue, checks the reply, and submits the slot's next request.  The
 * ways differ in the function of the job alone.  The sizes are random, the same
 * for all ways.  Ways take turns, run by run: whatever else the machine does meets
 * all of them.  A first turn warms up: then the workers have scratch enough, and
 * from there on no job of rnl_scratch() is to call the device's allocator.
 */
#include "allocator.h"
#include "guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS 64		/* requests under way */

static struct {
	struct allocator_options opt;
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct allocator_request slots[SLOTS];
	uint64_t device_calls;	/* that there were during rnl_scratch()'s timed runs */
} bench;

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "allocator: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
}

static void log_error(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (guard_shows(level))
		fprintf(stderr, "allocator: %s\n", msg);
}

/* ---- the ways ------------------------------------------------------------ */

/* Sets the memory, and copies the last of it back. */
static int use(const struct allocator_request *r, void *mem)
{
	const char *last = (const char *)mem + r->bytes - r->reply_bytes;
	const int ret = rnl_fill(mem, r->value, r->bytes);

	return ret ? ret : rnl_copy(r->reply, last, r->reply_bytes);
}

static int with_scratch(struct rnl_job *job)
{
	const struct allocator_request *r = allocator_request_of(job);
	void *mem;
	const int ret = rnl_scratch(r->bytes, &mem);

	return ret ? ret : use(r, mem);
}

/* On the host device this is malloc(); who reaps the request frees the memory. */
static int with_host_malloc(struct rnl_job *job)
{
	struct allocator_request *r = allocator_request_of(job);
	const int ret = rnl_device_alloc(bench.pool, r->bytes, &r->mem);

	return ret ? ret : use(r, r->mem);
}

static int init_scratch(struct rnl_job *job)
{
	return rnl_job_init(job, with_scratch);
}

static int init_host_malloc(struct rnl_job *job)
{
	return rnl_job_init(job, with_host_malloc);
}

enum { MALLOC, ASYNC, SCRATCH, NR_WAYS };

static struct way {
	const char *name;
	int (*init)(struct rnl_job *job);	/* NULL: there is no such way here */
	double *us;				/* of each run; in the end sorted */
} ways[NR_WAYS] = {
	[MALLOC] = { "cudaMalloc, cudaFree", allocator_init_malloc, NULL },
	[ASYNC] = { "cudaMallocAsync, cudaFreeAsync", allocator_init_async, NULL },
	[SCRATCH] = { "rnl_scratch", init_scratch, NULL },
};

/* ---- the loop ------------------------------------------------------------ */

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* Of request @i: splitmix64 of the seed. */
static size_t size_of(uint64_t i)
{
	const uint64_t choices = bench.opt.max - bench.opt.min + 1;
	uint64_t x = bench.opt.seed + (i + 1) * 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return bench.opt.min + (x ^ x >> 31) % choices;
}

static void start(struct allocator_request *r, uint64_t i)
{
	r->bytes = size_of(i);
	r->reply_bytes = r->bytes < ALLOCATOR_REPLY ? r->bytes : ALLOCATOR_REPLY;
	r->value++;		/* not what is in the reply */
	must(rnl_submit(bench.pool, &r->job), "submitting a request");
}

/* Ends the program if the request failed, or its reply is not all `value`. */
static void finish(struct allocator_request *r, const char *name)
{
	const int result = rnl_job_result(&r->job);

	rnl_device_free(bench.pool, r->mem);
	r->mem = NULL;
	if (result < 0) {
		const int code = rnl_job_device_error(&r->job);

		fprintf(stderr, "allocator: %s: a request for %zu bytes: %s", name, r->bytes,
			rnl_strerror(result));
		if (code)
			fprintf(stderr, " (CUDA's error %d)", code);
		fputc('\n', stderr);
		exit(EXIT_FAILURE);
	}
	if (r->reply[0] != r->value || memcmp(r->reply, r->reply + 1, r->reply_bytes - 1)) {
		fprintf(stderr, "allocator: %s: the reply to a request is wrong\n", name);
		exit(EXIT_FAILURE);
	}
}

/* Return: microseconds for each request. */
static double run(const struct way *way)
{
	const uint64_t nr = bench.opt.requests;
	uint64_t started = 0, finished = 0;
	double begin;

	for (int i = 0; i < SLOTS; i++) {
		must(way->init(&bench.slots[i].job), way->name);
		must(rnl_job_cq(&bench.slots[i].job, bench.cq), way->name);
	}
	begin = now_us();
	while (started < nr && started < SLOTS) {
		start(&bench.slots[started], started);
		started++;
	}
	while (finished < nr) {
		struct rnl_job *jobs[SLOTS];
		const int reaped = rnl_cq_wait(bench.cq, jobs, SLOTS, RNL_FOREVER);

		must(reaped, "waiting for requests");
		for (int i = 0; i < reaped; i++) {
			finish(allocator_request_of(jobs[i]), way->name);
			if (started < nr)
				start(allocator_request_of(jobs[i]), started++);
		}
		finished += (uint64_t)reaped;
	}
	return (now_us() - begin) / (double)nr;
}

static uint64_t device_calls(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	must(rnl_pool_stats(bench.pool, &stats), "the pool's figures");
	return stats.device_calls;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run_all(void)
{
	const unsigned repeat = bench.opt.repeat;

	for (int i = 0; i < NR_WAYS; i++) {
		ways[i].us = calloc(repeat, sizeof(*ways[i].us));
		must(ways[i].us ? 0 : -ENOMEM, "the times");
		if (ways[i].init)
			run(&ways[i]);
	}
	for (unsigned r = 0; r < repeat; r++) {
		for (int i = 0; i < NR_WAYS; i++) {
			const uint64_t before = device_calls();

			if (ways[i].init)
				ways[i].us[r] = run(&ways[i]);
			if (i == SCRATCH)
				bench.device_calls += device_calls() - before;
		}
	}
	for (int i = 0; i < NR_WAYS; i++)
		qsort(ways[i].us, repeat, sizeof(*ways[i].us), compare);
}

/* ---- begin, end ---------------------------------------------------------- */

static void begin(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	void *replies = NULL;
	int ret;

	attr.nr_workers = bench.opt.workers;
	attr.device = bench.opt.device;
	attr.scratch_keep = bench.opt.max + 256;	/* no job needs more */
	attr.guard = guard_wanted();
	attr.log = log_error;
	must(rnl_pool_create(&bench.pool, &attr), "creating the workers");
	must(rnl_cq_create(&bench.cq), "a completion queue");
	must(rnl_pinned_get(bench.pool, SLOTS * ALLOCATOR_REPLY, &replies), "pinned memory");
	for (int i = 0; i < SLOTS; i++)
		bench.slots[i].reply = (unsigned char *)replies + i * ALLOCATOR_REPLY;
	if (!bench.opt.info.cuda) {
		ways[MALLOC] = (struct way){ "malloc, free", init_host_malloc, NULL };
		ways[ASYNC].init = NULL;
		return;
	}
	ret = allocator_keep_async(bench.opt.info.ordinal);
	if (ret == -ENOTSUP)		/* this program was built without nvcc */
		ways[MALLOC].init = ways[ASYNC].init = NULL;
	else
		must(ret, "cudaMallocAsync's memory");
}

static void end(void)
{
	for (int i = 0; i < NR_WAYS; i++)
		free(ways[i].us);
	rnl_pinned_put(bench.pool, bench.slots[0].reply);
	rnl_cq_destroy(bench.cq);
	rnl_pool_destroy(bench.pool);
}

static void print(void)
{
	const struct allocator_options *opt = &bench.opt;
	const double scratch = ways[SCRATCH].us[opt->repeat / 2];

	printf("device:    %s, %u workers\n", opt->info.cuda ? opt->info.name : "host (no GPU)",
	       opt->workers);
	printf("requests:  %" PRIu64 ", %zu to %zu bytes each (--seed=%" PRIu64 "), %d under way\n",
	       opt->requests, opt->min, opt->max, opt->seed, SLOTS);
	printf("times:     medians of %u runs, every reply checked\n\n", opt->repeat);
	printf("%-30s %12s %12s %22s\n", "memory by", "us/request", "requests/s",
	       "rnl_scratch saves, us");
	for (int i = 0; i < NR_WAYS; i++) {
		const double us = ways[i].us[opt->repeat / 2];

		if (!ways[i].init)
			printf("%-30s %12s %12s %22s\n", ways[i].name, "-", "-", "-");
		else if (i == SCRATCH)
			printf("%-30s %12.2f %12.0f\n", ways[i].name, us, 1e6 / us);
		else
			printf("%-30s %12.2f %12.0f %12.2f (%5.1f %%)\n", ways[i].name, us,
			       1e6 / us, us - scratch, 100 * (us - scratch) / us);
	}
	printf("\ndevice calls during rnl_scratch's runs: %" PRIu64 "%s\n", bench.device_calls,
	       bench.device_calls ? ", and there should be none" : ", as it should be");
}

int main(int argc, char **argv)
{
	rnl_setup();	/* without it there may be fewer streams at once, no more */
	allocator_options_parse(&bench.opt, argc, argv);
	begin();
	run_all();
	print();
	end();
	if (fflush(stdout) || ferror(stdout)) {
		fputs("allocator: not all of this could be written to standard output\n", stderr);
		return EXIT_FAILURE;
	}
	return bench.device_calls ? EXIT_FAILURE : EXIT_SUCCESS;
}
