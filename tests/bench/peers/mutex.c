/* SPDX-License-Identifier: MIT */
/*
 * A simple hand-written pool: a list, one mutex, one condition variable.
 *
 * DESIGN
 *	Like in textbooks, without their mistakes: jobs are linked through their own fields, the
 *	condition is signalled after the unlock, and only if a worker sleeps.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "peers/peer.h"

struct mutex_job {
	struct peer_job job;
	struct mutex_job *next;
	struct peer_latch *latch;
} PEER_ALIGN;

struct mutex_pool {
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct mutex_job *first, **end;
	unsigned nr_asleep, nr_workers;
	bool closed;
	pthread_t *workers;
	struct peer_latch *latches;	/* one for each producer */
};

static void *serve(void *arg)
{
	struct mutex_pool *pool = arg;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		struct mutex_job *job = pool->first;

		if (job) {
			pool->first = job->next;
			if (!pool->first)
				pool->end = &pool->first;
			pthread_mutex_unlock(&pool->lock);
			peer_run(&job->job);
			peer_latch_done(job->latch);
			pthread_mutex_lock(&pool->lock);
		} else if (pool->closed) {
			break;
		} else {
			pool->nr_asleep++;
			pthread_cond_wait(&pool->some, &pool->lock);
			pool->nr_asleep--;
		}
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static void *mutex_open(const struct peer_setup *setup)
{
	struct mutex_pool *pool = bench_alloc(sizeof(*pool));

	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->some, NULL);
	pool->end = &pool->first;
	pool->latches = peer_latches(setup->producers);
	pool->nr_workers = setup->workers;
	pool->workers = bench_alloc(setup->workers * sizeof(*pool->workers));
	for (unsigned i = 0; i < setup->workers; i++)
		bench_must(!pthread_create(&pool->workers[i], NULL, serve, pool), "pthread_create");
	return pool;
}

static void mutex_prepare(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct mutex_pool *pool = arg;
	struct mutex_job *job = jobs;

	for (size_t i = 0; i < nr; i++)
		job[i].latch = &pool->latches[producer];
}

static void mutex_submit(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct mutex_pool *pool = arg;
	struct mutex_job *job = jobs;

	peer_latch_add(&pool->latches[producer], nr);
	for (size_t i = 0; i < nr; i++) {
		bool wake;

		job[i].next = NULL;
		pthread_mutex_lock(&pool->lock);
		*pool->end = &job[i];
		pool->end = &job[i].next;
		wake = pool->nr_asleep;
		pthread_mutex_unlock(&pool->lock);
		if (wake)
			pthread_cond_signal(&pool->some);
	}
}

static void mutex_wait(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct mutex_pool *pool = arg;

	(void)jobs;
	(void)nr;
	peer_latch_wait(&pool->latches[producer]);
}

static void mutex_close(void *arg)
{
	struct mutex_pool *pool = arg;

	pthread_mutex_lock(&pool->lock);
	pool->closed = true;
	pthread_mutex_unlock(&pool->lock);
	pthread_cond_broadcast(&pool->some);
	for (unsigned i = 0; i < pool->nr_workers; i++)
		pthread_join(pool->workers[i], NULL);
	pthread_cond_destroy(&pool->some);
	pthread_mutex_destroy(&pool->lock);
	free(pool->latches);
	free(pool->workers);
	free(pool);
}

const struct bench_peer peer_mutex = {
	.job_bytes = sizeof(struct mutex_job),
	.open = mutex_open,
	.prepare = mutex_prepare,
	.submit = mutex_submit,
	.wait = mutex_wait,
	.close = mutex_close,
};
