/* SPDX-License-Identifier: MIT */
/*
 * runnel's pool, fed by producers: J is a job of CUDA calls on its worker's stream.
 *
 * DESIGN
 *	A producer has a ring of requests, enough to keep the pool busy. It completes them one by
 *	one: it waits for the oldest request, or reaps requests from its own completion queue, like
 *	a server.
 */
#include "gpu/work.h"

#include <errno.h>

#include <runnel/kernel.h>
#include <runnel/replay.h>

#define REAP 64

/* Returns the request's slot, with memory of the worker's device. */
static struct gpu_slot slot_of(struct rnl_job *job)
{
	const struct gpu_request *r = rnl_container_of(job, struct gpu_request, job);
	struct gpu_slot slot = r->slot;

	if (r->devs)
		slot.dev = (uint32_t *)r->devs[rnl_worker().device] +
			   (slot.dev - (uint32_t *)r->devs[0]);
	return slot;
}

int gpu_run_j(struct rnl_job *job)
{
	const struct gpu_slot slot = slot_of(job);

	return gpu_issue_j(&slot, (cudaStream_t)rnl_stream()) == cudaSuccess ? 0 : -EIO;
}

int gpu_run_reach(struct rnl_job *job)
{
	const struct gpu_slot slot = slot_of(job);

	return gpu_issue_reach(&slot, (cudaStream_t)rnl_stream()) == cudaSuccess ? 0 : -EIO;
}

/* J without calls of CUDA. */
static int run_copies(struct rnl_job *job)
{
	const struct gpu_slot slot = slot_of(job);
	const struct rnl_dim grid = { slot.nr_words / GPU_WORK_THREADS, 1, 1 };
	const struct rnl_dim block = { GPU_WORK_THREADS, 1, 1 };
	const struct gpu_work_args args = { slot.dev };
	const size_t bytes = slot.nr_words * sizeof(uint32_t);
	int ret = rnl_copy(slot.dev, slot.in, bytes);

	if (!ret)
		ret = rnl_launch(gpu_works[slot.kernel], grid, block, &args);
	return ret ? ret : rnl_copy(slot.out, slot.dev, bytes);
}

unsigned gpu_nr_kernels = 1;
const struct gpu_request *gpu_worker_requests;

static int run_kernels(struct rnl_job *job, const struct gpu_slot *slot)
{
	const struct rnl_dim grid = { slot->nr_words / GPU_WORK_THREADS, 1, 1 };
	const struct rnl_dim block = { GPU_WORK_THREADS, 1, 1 };
	const struct gpu_work_args args = { slot->dev };
	const size_t bytes = slot->nr_words * sizeof(uint32_t);
	const bool copies = gpu_nr_kernels == 1;
	int ret = copies ? rnl_copy(slot->dev, slot->in, bytes) : 0;

	(void)job;
	for (unsigned i = 0; i < gpu_nr_kernels && !ret; i++)
		ret = rnl_launch(gpu_works[0], grid, block, &args);
	return ret || !copies ? ret : rnl_copy(slot->out, slot->dev, bytes);
}

static int run_own(struct rnl_job *job)
{
	return run_kernels(job, &rnl_container_of(job, struct gpu_request, job)->slot);
}

/* A function for each number of kernels, because a record belongs to a function. */
#define RECORDED(nr) \
	static int run_##nr(struct rnl_job *job) \
	{ \
		return run_kernels(job, &gpu_worker_requests[rnl_worker().index].slot); \
	}
RECORDED(1)
RECORDED(10)
RECORDED(30)
RECORDED(100)

static int (*recorded(void))(struct rnl_job *job)
{
	switch (gpu_nr_kernels) {
	case 1:
		return run_1;
	case 10:
		return run_10;
	case 30:
		return run_30;
	default:
		return run_100;
	}
}

static int (*function_of(enum gpu_done done))(struct rnl_job *job)
{
	switch (done) {
	case GPU_CQ_RECORD:
		return recorded();
	case GPU_CQ_REPLAY:
		return run_own;
	case GPU_CQ_REACH:
		return gpu_run_reach;
	case GPU_CQ_COPY:
	case GPU_CQ_GATHER:
		return run_copies;
	default:
		return gpu_run_j;
	}
}

/* A producer's requests are of one pool. */
static struct rnl_pool *pool_of(const struct gpu_producer *p)
{
	return p->requests->pool ? p->requests->pool : p->feed->arg;
}

static void submit(struct gpu_producer *p, struct gpu_request *request)
{
	bench_rnl(rnl_submit(pool_of(p), &request->job), "rnl_submit");
}

static void wait(struct gpu_producer *p, struct gpu_request *request)
{
	(void)p;
	bench_rnl(rnl_job_wait(&request->job, RNL_FOREVER), "rnl_job_wait");
	bench_rnl(request->job.result, "J");
}

static void submit_many(struct rnl_pool *pool, struct rnl_job **jobs, unsigned nr)
{
	while (nr) {
		const int taken = rnl_submit_many(pool, jobs, nr);

		bench_rnl(taken, "rnl_submit_many");
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
		const int nr = rnl_cq_reap(p->cq, jobs, REAP, RNL_FOREVER);
		const bool stop = gpu_feed_stops(p->feed);

		bench_rnl(nr, "rnl_cq_reap");
		for (int i = 0; i < nr; i++) {
			struct gpu_request *r = rnl_container_of(jobs[i], struct gpu_request, job);

			bench_rnl(jobs[i]->result, "J");
			if (gpu_looks(p->feed->done))
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
			submit_many(pool_of(p), jobs, (unsigned)nr);
	}
}

static void produce(struct gpu_producer *p)
{
	const enum gpu_done done = p->feed->done;

	if (done != GPU_WAIT)
		bench_rnl(rnl_cq_create(&p->cq), "rnl_cq_create");
	for (unsigned i = 0; i < p->nr; i++) {
		struct rnl_job *job = &p->requests[i].job;

		bench_rnl(gpu_job_init(job, function_of(done)), "rnl_job_init");
		bench_rnl(rnl_job_set_device(job, (int)p->requests[i].place - 1), "rnl_job_set_device");
		bench_rnl(rnl_job_set_flags(job, (done == GPU_CQ_GATHER || done == GPU_CQ_REPLAY ?
						  RNL_GATHER : 0) | (done >= GPU_CQ_RECORD ? RNL_REPLAY : 0)),
			  "rnl_job_set_flags");
		if (p->cq)
			bench_rnl(rnl_job_set_cq(job, p->cq), "rnl_job_set_cq");
	}
	if (done == GPU_WAIT)
		gpu_produce_ring(p);
	else
		reap_and_submit(p, done == GPU_CQ_MANY);
	rnl_cq_destroy(p->cq);
}

double gpu_pool_rate(struct rnl_pool *pool, struct gpu_request *requests, unsigned nr_requests,
		     enum gpu_done done, unsigned nr_producers, unsigned ms)
{
	struct gpu_feed feed = {
		.produce = produce, .arg = pool, .requests = requests, .nr_requests = nr_requests,
		.submit = submit, .wait = wait, .done = done
	};

	return gpu_feed(&feed, nr_producers, ms);
}
