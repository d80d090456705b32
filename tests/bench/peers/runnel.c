/* SPDX-License-Identifier: MIT */
/*
 * runnel on its host device: rnl_submit(), and rnl_submit_many() in rows of 64.
 *
 * DESIGN
 *	A pool with its default bound; a producer that finds it full waits for
 *	space with rnl_submit_wait(). A producer waits for one job with rnl_job_wait(), and for
 *	several with a barrier, like in the README.
 */
#include <errno.h>
#include <stdlib.h>

#include <runnel.h>

#include "peers/peer.h"

#define CHAIN 64

struct runnel_job {
	struct peer_job job;
	struct rnl_job rnl;
} PEER_ALIGN;

struct runnel_pool {
	struct rnl_pool *pool;
	struct runnel_producer {
		struct rnl_barrier barrier;
	} PEER_ALIGN *producers;
	size_t join;
};

static int run(struct rnl_job *job)
{
	peer_run(&rnl_container_of(job, struct runnel_job, rnl)->job);
	return 0;
}

static void *runnel_open(const struct peer_setup *setup)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct runnel_pool *pool = bench_alloc(sizeof(*pool));

	attr.device = "host";
	attr.nr_workers = setup->workers;
	bench_must(!rnl_pool_create(&pool->pool, &attr), "rnl_pool_create");
	pool->producers = bench_alloc(setup->producers * sizeof(*pool->producers));
	for (unsigned i = 0; i < setup->producers; i++)
		bench_must(!rnl_barrier_init(&pool->producers[i].barrier, pool->pool),
			   "rnl_barrier_init");
	pool->join = setup->join;
	return pool;
}

static void runnel_prepare(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct runnel_pool *pool = arg;
	struct runnel_job *job = jobs;

	for (size_t i = 0; i < nr; i++) {
		bench_must(!rnl_job_init(&job[i].rnl, run), "rnl_job_init");
		if (pool->join > 1)
			bench_must(!rnl_barrier_add(&pool->producers[producer].barrier,
						    &job[i].rnl),
				   "rnl_barrier_add");
	}
}

static void submit(struct rnl_pool *pool, struct rnl_job *job)
{
	int ret = rnl_submit(pool, job);

	if (ret == -EAGAIN)
		ret = rnl_submit_wait(pool, job, RNL_FOREVER);
	bench_must(!ret, "rnl_submit");
}

static void runnel_submit(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct runnel_pool *pool = arg;
	struct runnel_job *job = jobs;

	(void)producer;
	for (size_t i = 0; i < nr; i++)
		submit(pool->pool, &job[i].rnl);
}

static void runnel_submit_many(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct runnel_pool *pool = arg;
	struct runnel_job *job = jobs;

	(void)producer;
	while (nr) {
		struct rnl_job *chain[CHAIN];
		const unsigned want = nr < CHAIN ? (unsigned)nr : CHAIN;
		int ret;

		for (unsigned i = 0; i < want; i++)
			chain[i] = &job[i].rnl;
		ret = rnl_submit_many(pool->pool, chain, want);
		if (ret == -EAGAIN) {
			submit(pool->pool, chain[0]);
			ret = 1;
		}
		bench_must(ret > 0, "rnl_submit_many");
		job += ret;
		nr -= (size_t)ret;
	}
}

static void runnel_wait(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct runnel_pool *pool = arg;
	struct runnel_job *job = jobs;

	if (pool->join > 1) {
		struct rnl_barrier *barrier = &pool->producers[producer].barrier;

		bench_must(!rnl_barrier_wait(barrier, RNL_FOREVER) && !barrier->result,
			   "rnl_barrier_wait");
		return;
	}
	for (size_t i = 0; i < nr; i++)
		bench_must(!rnl_job_wait(&job[i].rnl, RNL_FOREVER), "rnl_job_wait");
}

static void runnel_close(void *arg)
{
	struct runnel_pool *pool = arg;

	rnl_pool_destroy(pool->pool);
	free(pool->producers);
	free(pool);
}

const struct bench_peer peer_runnel = {
	.job_bytes = sizeof(struct runnel_job),
	.open = runnel_open,
	.prepare = runnel_prepare,
	.submit = runnel_submit,
	.wait = runnel_wait,
	.close = runnel_close,
};

const struct bench_peer peer_runnel_many = {
	.job_bytes = sizeof(struct runnel_job),
	.open = runnel_open,
	.prepare = runnel_prepare,
	.submit = runnel_submit_many,
	.wait = runnel_wait,
	.close = runnel_close,
};
