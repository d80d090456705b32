/* SPDX-License-Identifier: MIT */
/*
 * libuv's uv_queue_work(): the process's only pool, and a loop for each producer.
 *
 * DESIGN
 *	Only a loop's own thread may call uv_queue_work(), so producers share the pool's threads but
 *	not a loop. A job is done when its after-work callback has run, in uv_run() on the
 *	producer's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "peers/peer.h"

struct uv_job {
	struct peer_job job;
	uv_work_t work;
} PEER_ALIGN;

struct uv_producer {
	uv_loop_t loop;
	uint64_t submitted, done;
} PEER_ALIGN;

struct uv_pool {
	struct uv_producer *producers;
	unsigned nr_producers;
};

static void run(uv_work_t *work)
{
	struct uv_job *job = work->data;

	peer_run(&job->job);
}

static void after(uv_work_t *work, int status)
{
	struct uv_producer *producer = work->loop->data;

	bench_must(!status, "uv_queue_work: the work");
	producer->done++;
}

static void *uv_open(const struct peer_setup *setup)
{
	struct uv_pool *pool = bench_alloc(sizeof(*pool));
	char threads[16];

	/* Read when the first work is queued. */
	snprintf(threads, sizeof(threads), "%u", setup->workers);
	setenv("UV_THREADPOOL_SIZE", threads, 1);
	pool->nr_producers = setup->producers;
	pool->producers = bench_alloc(setup->producers * sizeof(*pool->producers));
	for (unsigned i = 0; i < setup->producers; i++) {
		bench_must(!uv_loop_init(&pool->producers[i].loop), "uv_loop_init");
		pool->producers[i].loop.data = &pool->producers[i];
	}
	return pool;
}

static void uv_prepare(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct uv_job *job = jobs;

	(void)arg;
	(void)producer;
	for (size_t i = 0; i < nr; i++)
		job[i].work.data = &job[i];
}

static void uv_submit(void *arg, unsigned p, void *jobs, size_t nr)
{
	struct uv_producer *producer = &((struct uv_pool *)arg)->producers[p];
	struct uv_job *job = jobs;

	producer->submitted += nr;
	for (size_t i = 0; i < nr; i++)
		bench_must(!uv_queue_work(&producer->loop, &job[i].work, run, after),
			   "uv_queue_work");
}

static void uv_wait(void *arg, unsigned p, void *jobs, size_t nr)
{
	struct uv_producer *producer = &((struct uv_pool *)arg)->producers[p];

	(void)jobs;
	(void)nr;
	bench_must(!uv_run(&producer->loop, UV_RUN_DEFAULT) &&
		   producer->done == producer->submitted, "uv_run");
}

/* The pool's threads end with the process. */
static void uv_shut(void *arg)
{
	struct uv_pool *pool = arg;

	for (unsigned i = 0; i < pool->nr_producers; i++)
		bench_must(!uv_loop_close(&pool->producers[i].loop), "uv_loop_close");
	free(pool->producers);
	free(pool);
}

const struct bench_peer peer_uv = {
	.job_bytes = sizeof(struct uv_job),
	.open = uv_open,
	.prepare = uv_prepare,
	.submit = uv_submit,
	.wait = uv_wait,
	.close = uv_shut,
};
