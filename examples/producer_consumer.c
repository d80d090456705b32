/* SPDX-License-Identifier: MIT */
/*
 * The smallest complete program: two producers, four workers that square numbers, and one
 * barrier.  To run it on a GPU, add a CUDA kernel, as in gwc/device.cu, and set device to "auto".
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <runnel.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>

enum { PRODUCERS = 2, WORKERS = 4, REQUESTS = 1000, NUMBERS = 256 };

struct request {
	struct rnl_job job;		/* a job is a member of its request */
	uint32_t numbers[NUMBERS];
};

static struct rnl_pool *pool;
static struct rnl_barrier all_done;
static struct request *requests;	/* REQUESTS for each producer */

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "producer_consumer: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
}

struct square_args {
	uint32_t *numbers;
};

static void square_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	uint32_t *numbers = ((const struct square_args *)args)->numbers;

	for (uint32_t i = 0; i < grid.x * block.x; i++)
		numbers[i] *= numbers[i];
}
RNL_HOST_KERNEL(square, square_on_host, struct square_args);

/* Runs on a worker: issues work to the worker's stream, and does not wait for it. */
static int square_request(struct rnl_job *job)
{
	struct request *r = rnl_container_of(job, struct request, job);
	struct rnl_dim grid = { 1, 1, 1 }, block = { NUMBERS, 1, 1 };
	struct square_args args;
	void *mem = NULL;
	int ret = rnl_scratch(sizeof(r->numbers), &mem);	/* this job's own device memory */

	args.numbers = (uint32_t *)mem;
	if (!ret)
		ret = rnl_copy(mem, r->numbers, sizeof(r->numbers));
	if (!ret)
		ret = rnl_launch(&square, grid, block, &args);
	/* The return value becomes the job's result. */
	return ret ? ret : rnl_copy(r->numbers, mem, sizeof(r->numbers));
}

static void *produce(void *first)
{
	for (struct request *r = (struct request *)first, *end = r + REQUESTS; r < end; r++) {
		for (uint32_t i = 0; i < NUMBERS; i++)
			r->numbers[i] = i + (uint32_t)(r - requests);
		must(rnl_job_init(&r->job, square_request), "rnl_job_init");
		must(rnl_barrier_add(&all_done, &r->job), "rnl_barrier_add");
		must(rnl_submit(pool, &r->job), "rnl_submit");
	}
	return NULL;
}

int main(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	pthread_t producers[PRODUCERS];
	void *pinned = NULL;
	unsigned wrong = 0;

	attr.nr_workers = WORKERS;
	attr.device = "host";
	must(rnl_pool_create(&pool, &attr), "rnl_pool_create");
	must(rnl_barrier_init(&all_done, pool), "rnl_barrier_init");
	must(rnl_memory_get(pool, RNL_PINNED, PRODUCERS * REQUESTS * sizeof(*requests), &pinned, 0),
	     "pinned");
	requests = (struct request *)pinned;
	for (int i = 0; i < PRODUCERS; i++)
		must(-pthread_create(&producers[i], NULL, produce, requests + i * REQUESTS), "thread");
	for (int i = 0; i < PRODUCERS; i++)
		must(-pthread_join(producers[i], NULL), "join");
	must(rnl_barrier_wait(&all_done, RNL_FOREVER), "rnl_barrier_wait");
	must(all_done.result, "a job");
	for (uint32_t r = 0; r < PRODUCERS * REQUESTS; r++)
		for (uint32_t i = 0; i < NUMBERS; i++)
			wrong += requests[r].numbers[i] != (i + r) * (i + r);
	printf("%d requests of %d numbers each, %u wrong\n", PRODUCERS * REQUESTS, NUMBERS, wrong);
	must(fflush(stdout) ? -errno : 0, "standard output");
	rnl_memory_put(pool, pinned);
	rnl_pool_destroy(pool);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
