/* SPDX-License-Identifier: MIT */
/*
 * allocator: compares three ways to get device memory for each request.
 *
 * DESIGN
 * The program is a server's loop: it keeps SLOTS requests in flight, reaps finished ones from a
 * completion queue, checks their replies, and submits the slot's next request.  The ways differ
 * only in the job's function.  The random sizes are the same in all ways.  Each turn runs all ways,
 * so a disturbance of the machine affects all of them.  Turn 0 warms up: after it the workers have
 * enough scratch memory, and rnl_scratch() should not call the device's allocator any more.
 */
#include "config.h"

#include "allocator.h"
#include "common/options.h"
#include "common/program.h"
#include "common/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#define SLOTS 64		/* requests in flight */
#define BYTES_MAX (1 << 30)
#define REPEAT_MAX 1000

static struct {
	/* Options. */
	const char *device;
	unsigned workers, repeat;
	uint64_t requests, seed;
	size_t min, max;		/* bytes of device memory per request */

	struct rnl_device_info info;
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct allocator_request slots[SLOTS];
	uint64_t device_calls;		/* by the allocator during rnl_scratch()'s timed runs */
} bench = {
	.device = "auto",
	.workers = 4,
	.repeat = 5,
	.requests = 4000,
	.seed = 1,
	.min = 4 << 10,
	.max = 4 << 20,
	.info = RNL_DEVICE_INFO_INIT,
};

static const char doc[] =
	"Runs requests that each get device memory of a random size, fill it, and copy 4 KB of it "
	"back: with cudaMalloc(), with cudaMallocAsync(), and with rnl_scratch(); on the host "
	"device with malloc() and rnl_scratch().  Checks every reply, and prints the cost of a "
	"request in each way.";

static void parse_options(int argc, char **argv)
{
	const struct program_option table[] = {
		{ "requests", 0, "N", "requests in each run; 4000",
		  OPTION_NUMBER(&bench.requests, 1, 1000000000) },
		{ "workers", 0, "N", "threads, each with a stream; 4",
		  OPTION_NUMBER(&bench.workers, 1, PROGRAM_WORKERS_MAX) },
		{ "min", 0, "SIZE", "smallest device memory of a request, in bytes; 4K",
		  OPTION_SIZE(&bench.min, 1, BYTES_MAX) },
		{ "max", 0, "SIZE", "largest; 4M", OPTION_SIZE(&bench.max, 1, BYTES_MAX) },
		{ "seed", 0, "N", "random seed; 1", OPTION_NUMBER(&bench.seed, 0, UINT64_MAX) },
		OPTION_DEVICE(&bench.device),
		{ "repeat", 0, "N", "timed runs; the median is printed; 5",
		  OPTION_NUMBER(&bench.repeat, 1, REPEAT_MAX) },
		{ .name = NULL }
	};

	program_options(argc, argv, doc, table, NULL);
	if (bench.min > bench.max)
		program_misuse("--min=%zu is more than --max=%zu", bench.min, bench.max);
	program_device(bench.device, &bench.info);
}

/* ---- the ways ------------------------------------------------------------ */

/* Fills the memory and copies its last bytes back. */
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

/* On the host device this is malloc(); finish() frees the memory. */
static int with_host_malloc(struct rnl_job *job)
{
	struct allocator_request *r = allocator_request_of(job);
	const int ret = rnl_memory_get(bench.pool, 0, r->bytes, &r->mem, 0);

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
	int (*init)(struct rnl_job *job);	/* NULL: not available */
	double us[REPEAT_MAX];			/* per request, for each run */
	double median;
} ways[NR_WAYS] = {
	[MALLOC] = { .name = "cudaMalloc, cudaFree" },
	[ASYNC] = { .name = "cudaMallocAsync, cudaFreeAsync" },
	[SCRATCH] = { .name = "rnl_scratch", .init = init_scratch },
};

/* ---- the loop ------------------------------------------------------------ */

/* Returns the size of request @i: splitmix64 of the seed. */
static size_t size_of(uint64_t i)
{
	const uint64_t choices = bench.max - bench.min + 1;
	uint64_t x = bench.seed + (i + 1) * 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return bench.min + (x ^ x >> 31) % choices;
}

static void start(struct allocator_request *r, uint64_t i)
{
	r->bytes = size_of(i);
	r->reply_bytes = r->bytes < ALLOCATOR_REPLY ? r->bytes : ALLOCATOR_REPLY;
	r->value++;		/* differs from the last reply */
	program_must(rnl_submit(bench.pool, &r->job), "submitting a request");
}

/* Ends the program if the request failed or its reply is wrong. */
static void finish(struct allocator_request *r, const char *name)
{
	const int result = r->job.result;

	rnl_memory_put(bench.pool, r->mem);
	r->mem = NULL;
	if (result < 0)
		program_die("%s: a request for %zu bytes: %s (CUDA's error %d)", name, r->bytes,
			    rnl_strerror(result), r->job.device_error);
	if (r->reply[0] != r->value || memcmp(r->reply, r->reply + 1, r->reply_bytes - 1))
		program_die("%s: the reply to a request is wrong", name);
}

/* Returns microseconds per request. */
static double run(const struct way *way)
{
	const uint64_t nr = bench.requests;
	uint64_t started = 0, finished = 0;
	uint64_t begin;

	for (int i = 0; i < SLOTS; i++) {
		program_must(way->init(&bench.slots[i].job), way->name);
		program_must(rnl_job_set_cq(&bench.slots[i].job, bench.cq), way->name);
	}
	begin = program_now_ns();
	while (started < nr && started < SLOTS) {
		start(&bench.slots[started], started);
		started++;
	}
	while (finished < nr) {
		struct rnl_job *jobs[SLOTS];
		const int reaped = rnl_cq_reap(bench.cq, jobs, SLOTS, RNL_FOREVER);

		program_must(reaped, "waiting for requests");
		for (int i = 0; i < reaped; i++) {
			finish(allocator_request_of(jobs[i]), way->name);
			if (started < nr)
				start(allocator_request_of(jobs[i]), started++);
		}
		finished += (uint64_t)reaped;
	}
	return (double)(program_now_ns() - begin) / 1e3 / (double)nr;
}

static uint64_t device_calls(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	program_must(rnl_pool_read_stats(bench.pool, RNL_ALL_WORKERS, &stats),
		     "the pool's figures");
	return stats.device_calls;
}

static void run_all(void)
{
	progress_begin("measuring", (uint64_t)(bench.repeat + 1) * NR_WAYS, 1, "runs");
	for (unsigned turn = 0; turn <= bench.repeat; turn++) {
		for (unsigned i = 0; i < NR_WAYS; i++) {
			const uint64_t before = device_calls();

			if (ways[i].init)	/* turn 1 overwrites turn 0 */
				ways[i].us[turn ? turn - 1 : 0] = run(&ways[i]);
			if (turn && i == SCRATCH)
				bench.device_calls += device_calls() - before;
			progress_show((uint64_t)turn * NR_WAYS + i + 1);
		}
	}
	for (int i = 0; i < NR_WAYS; i++)
		ways[i].median = program_median(ways[i].us, bench.repeat);
}

static void begin(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	void *replies = NULL;

	attr.nr_workers = bench.workers;
	attr.device = bench.device;
	attr.scratch_keep = bench.max + 256;	/* no job needs more */
	bench.pool = program_pool(&attr);
	program_must(rnl_cq_create(&bench.cq), "a completion queue");
	program_must(rnl_memory_get(bench.pool, RNL_PINNED, SLOTS * ALLOCATOR_REPLY, &replies, 0),
		     "pinned memory");
	for (int i = 0; i < SLOTS; i++)
		bench.slots[i].reply = (unsigned char *)replies + i * ALLOCATOR_REPLY;
	if (!bench.info.cuda) {
		ways[MALLOC] = (struct way){ .name = "malloc, free", .init = init_host_malloc };
	} else if (allocator_cuda) {
		ways[MALLOC].init = allocator_cuda->init_malloc;
		ways[ASYNC].init = allocator_cuda->init_async;
		program_must(allocator_cuda->keep_async(bench.info.ordinal),
			     "cudaMallocAsync's memory");
	}
}

static void end(void)
{
	rnl_memory_put(bench.pool, bench.slots[0].reply);
	rnl_cq_destroy(bench.cq);
	rnl_pool_destroy(bench.pool);
}

static void print(void)
{
	const double scratch = ways[SCRATCH].median;

	printf("device:    %s, %u workers\n", program_device_name(&bench.info), bench.workers);
	printf("requests:  %" PRIu64 ", %zu to %zu bytes each (--seed=%" PRIu64 "), %d in flight\n",
	       bench.requests, bench.min, bench.max, bench.seed, SLOTS);
	printf("times:     medians of %u runs, every reply checked\n\n", bench.repeat);
	printf("%-30s %12s %12s %22s\n", "memory by", "us/request", "requests/s",
	       "rnl_scratch saves, us");
	for (int i = 0; i < NR_WAYS; i++) {
		const double us = ways[i].median;

		if (!ways[i].init)
			printf("%-30s %12s %12s %22s\n", ways[i].name, "-", "-", "-");
		else if (i == SCRATCH)
			printf("%-30s %12.2f %12.0f\n", ways[i].name, us, 1e6 / us);
		else
			printf("%-30s %12.2f %12.0f %12.2f (%5.1f %%)\n", ways[i].name, us,
			       1e6 / us, us - scratch, 100 * (us - scratch) / us);
	}
	printf("\ndevice calls during rnl_scratch's runs: %" PRIu64 "%s\n", bench.device_calls,
	       bench.device_calls ? ", should be 0" : ", as it should be");
}

int main(int argc, char **argv)
{
	program_begin();
	parse_options(argc, argv);
	begin();
	run_all();
	print();
	end();
	return bench.device_calls ? EXIT_FAILURE : EXIT_SUCCESS;
}
