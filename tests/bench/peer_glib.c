/* SPDX-License-Identifier: MIT */
/*
 * GLib's GThreadPool, exclusive: its threads are its own, and there from the start.
 *
 * DESIGN
 *	A job is what is pushed; GLib allocates the list node that carries it.
 *	It has no wait, so a counter and a condition variable tell the producer.
 */
#include <glib.h>
#include <stdlib.h>

#include "rates_latch.h"
#include "rates_peer.h"

struct glib_job {
	struct rates_job job;
	struct rates_latch *latch;
} RATES_JOB_ALIGN;

struct glib_pool {
	GThreadPool *pool;
	struct rates_latch *latches;	/* one for each producer */
	unsigned nr_latches;
};

static void run(gpointer data, gpointer user_data)
{
	struct glib_job *job = data;

	rates_taken_over(job);
	rates_run(&job->job);
	rates_latch_done(job->latch);
	rates_handed_over(user_data);	/* the latch, to the close */
}

static void *glib_open(const struct rates_setup *setup)
{
	struct glib_pool *pool = bench_alloc(sizeof(*pool));

	pool->nr_latches = setup->producers;
	pool->latches = bench_alloc(setup->producers * sizeof(*pool->latches));
	for (unsigned i = 0; i < setup->producers; i++)
		rates_latch_init(&pool->latches[i]);
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

	rates_latch_add(&pool->latches[producer], nr);
	for (size_t i = 0; i < nr; i++) {
		rates_handed_over(&job[i]);
		g_thread_pool_push(pool->pool, &job[i], NULL);
	}
}

static void glib_wait(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct glib_pool *pool = arg;

	(void)jobs;
	(void)nr;
	rates_latch_wait(&pool->latches[producer]);
}

static void glib_close(void *arg)
{
	struct glib_pool *pool = arg;

	g_thread_pool_free(pool->pool, FALSE, TRUE);
	rates_taken_over(pool);
	for (unsigned i = 0; i < pool->nr_latches; i++)
		rates_latch_fini(&pool->latches[i]);
	free(pool->latches);
	free(pool);
}

const struct rates_peer rates_glib = {
	.name = "glib",
	.label = "GLib GThreadPool",
	.job_bytes = sizeof(struct glib_job),
	.open = glib_open,
	.prepare = glib_prepare,
	.submit = glib_submit,
	.wait = glib_wait,
	.close = glib_close,
};
