/* SPDX-License-Identifier: MIT */
/*
 * runnel's pool, fed by producers: J is a job of CUDA calls on its worker's stream.
 *
 * DESIGN
 *	A producer has a ring of requests, enough for the pool to be busy.  It learns
 *	that they are done one by one: it waits for the oldest, or reaps them from
 *	a completion queue of its own, as a server does.
 */
#include "gpu_work.h"

#include <errno.h>

#include "bench.h"

#define REAP 64

int gpu_run_j(struct rnl_job *job)
{
	const struct gpu_request *r = rnl_container_of(job, struct gpu_request, job);

	return gpu_issue_j(&r->slot, (cudaStream_t)rnl_stream()) == cudaSuccess ? 0 : -EIO;
}

/* The same without CUDA. */
static int run_copies(struct rnl_job *job)
{
	const struct gpu_slot *slot = &rnl_container_of(job, struct gpu_request, job)->slot;
	const struct rnl_dim grid = { GPU_WORDS / GPU_WORK_THREADS, 1, 1 };
	const struct rnl_dim block = { GPU_WORK_THREADS, 1, 1 };
	const struct gpu_work_args args = { slot->dev };
	const size_t bytes = GPU_WORDS * sizeof(uint32_t);
	int ret = rnl_copy(slot->dev, slot->in, bytes);

	if (!ret)
		ret = rnl_launch(&gpu_work, grid, block, &args);
	return ret ? ret : rnl_copy(slot->out, slot->dev, bytes);
}

static void submit(struct gpu_producer *p, struct gpu_request *request)
{
	gpu_rnl(rnl_submit(p->feed->arg, &request->job), "rnl_submit");
}

static void wait(struct gpu_producer *p, struct gpu_request *request)
{
	(void)p;
	gpu_rnl(rnl_job_wait(&request->job, RNL_FOREVER), "rnl_job_wait");
	gpu_rnl(rnl_job_result(&request->job), "J");
}

static void submit_many(struct rnl_pool *pool, struct rnl_job **jobs, unsigned nr)
{
	while (nr) {
		const int taken = rnl_submit_many(pool, jobs, nr);

		gpu_rnl(taken, "rnl_submit_many");
		jobs += taken;
		nr -= (unsigned)taken;
	}
}

static void reap_and_submit(struct gpu_producer *p, bool many)
{
	struct rnl_job *jobs[REAP];
	unsigned under_way = p->nr;

	for (unsigned i = 0; i < p->nr; i++) {
		gpu_prepare(&p->requests[i].slot);
		submit(p, &p->requests[i]);
	}
	while (under_way) {
		const int nr = rnl_cq_wait(p->cq, jobs, REAP, RNL_FOREVER);
		const bool stop = gpu_feed_stops(p->feed);

		gpu_rnl(nr, "rnl_cq_wait");
		for (int i = 0; i < nr; i++) {
			struct gpu_request *r = rnl_container_of(jobs[i], struct gpu_request, job);

			gpu_rnl(rnl_job_result(jobs[i]), "J");
			gpu_check(&r->slot);
			p->done++;
			if (stop)
				continue;
			gpu_prepare(&r->slot);
			if (!many)
				submit(p, r);
		}
		if (stop)
			under_way -= (unsigned)nr;
		else if (many)
			submit_many(p->feed->arg, jobs, (unsigned)nr);
	}
}

static void produce_wait(struct gpu_producer *p)
{
	for (unsigned i = 0; i < p->nr; i++)
		gpu_rnl(gpu_job_init(&p->requests[i].job, gpu_run_j), "rnl_job_init");
	gpu_produce_ring(p);
}

static void produce_queued(struct gpu_producer *p, int (*fn)(struct rnl_job *job), bool many)
{
	gpu_rnl(rnl_cq_create(&p->cq), "rnl_cq_create");
	for (unsigned i = 0; i < p->nr; i++) {
		gpu_rnl(gpu_job_init(&p->requests[i].job, fn), "rnl_job_init");
		gpu_rnl(rnl_job_cq(&p->requests[i].job, p->cq), "rnl_job_cq");
	}
	reap_and_submit(p, many);
	rnl_cq_destroy(p->cq);
}

static void produce_cq(struct gpu_producer *p)
{
	produce_queued(p, gpu_run_j, false);
}

static void produce_cq_many(struct gpu_producer *p)
{
	produce_queued(p, gpu_run_j, true);
}

static void produce_cq_copy(struct gpu_producer *p)
{
	produce_queued(p, run_copies, false);
}

double gpu_pool_rate(struct rnl_pool *pool, struct gpu_request *requests, unsigned nr_requests,
		     enum gpu_done done, unsigned nr_producers, unsigned ms)
{
	static gpu_produce_fn *const produce[] = {
		[GPU_WAIT] = produce_wait, [GPU_CQ] = produce_cq,
		[GPU_CQ_MANY] = produce_cq_many, [GPU_CQ_COPY] = produce_cq_copy
	};
	struct gpu_feed feed = {
		.produce = produce[done], .arg = pool, .requests = requests,
		.nr_requests = nr_requests, .submit = submit, .wait = wait
	};

	return gpu_feed(&feed, nr_producers, ms);
}
