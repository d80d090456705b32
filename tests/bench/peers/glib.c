/* SPDX-License-Identifier: MIT */
/*
 * GLib's GThreadPool, exclusive: it has its own threads from the start.
 *
 * DESIGN
 *	A job is pushed as it is; GLib allocates its list node. GLib has no wait, so a counter and a
 *	condition variable notify the producer.
 */
#include <glib.h>
#include <stdlib.h>

#include "peers/peer.h"

struct glib_job {
	struct peer_job job;
	struct peer_latch *latch;
} PEER_ALIGN;

struct glib_pool {
	GThreadPool *pool;
	struct peer_latch *latches;	/* one for each producer */
};

static void run(gpointer data, gpointer user_data)
{
	struct glib_job *job = data;

	peer_taken_over(job);
	peer_run(&job->job);
	peer_latch_done(job->latch);
	peer_handed_over(user_data);	/* orders the latch before the close */
}

static void *glib_open(const struct peer_setup *setup)
{
	struct glib_pool *pool = bench_alloc(sizeof(*pool));

	pool->latches = peer_latches(setup->producers);
	pool->pool = g_thread_pool_new(run, pool, (gint)setup->workers, TRUE, NULL);
	bench_must(pool->pool && g_thread_pool_get_num_threads(pool->pool) == setup->workers,
		   "g_thread_pool_new");
	return pool;
}

static void glib_prepare(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct glib_pool *pool = arg;
	struct glib_job *job = jobs;

	for (size_t i = 0; i < nr; i++)
		job[i].latch = &pool->latches[producer];
}

static void glib_submit(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct glib_pool *pool = arg;
	struct glib_job *job = jobs;

	peer_latch_add(&pool->latches[producer], nr);
	for (size_t i = 0; i < nr; i++) {
		peer_handed_over(&job[i]);
		g_thread_pool_push(pool->pool, &job[i], NULL);
	}
}

static void glib_wait(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct glib_pool *pool = arg;

	(void)jobs;
	(void)nr;
	peer_latch_wait(&pool->latches[producer]);
}

static void glib_close(void *arg)
{
	struct glib_pool *pool = arg;

	g_thread_pool_free(pool->pool, FALSE, TRUE);
	peer_taken_over(pool);
	free(pool->latches);
	free(pool);
}

const struct bench_peer peer_glib = {
	.job_bytes = sizeof(struct glib_job),
	.open = glib_open,
	.prepare = glib_prepare,
	.submit = glib_submit,
	.wait = glib_wait,
	.close = glib_close,
};
