/* SPDX-License-Identifier: MIT */
/*
 * uv_queue_work() on a pool of runnel: a loop's work runs on workers that have a GPU stream each.
 *
 *	cc libuv.c $(pkg-config --cflags --libs runnel libuv) && ./a.out [DEVICE]
 *
 * Copy all above "an example". A struct work contains a uv_work_t, so callbacks stay as they are, and
 * uv_run() returns when no work is under way. The differences: work_queue() returns UV_EAGAIN if the
 * pool is full; works start in no order; after_work_cb is called when the device has finished what
 * work_cb issued, with status 0, UV_ECANCELED, UV_EIO, or another error of copies and kernels.
 */
#include <stdio.h>

#include <runnel.h>
#include <runnel/memory.h>
#include <uv.h>

struct work_loop {			/* one for each loop, zeroed; loops may share a pool */
	uv_poll_t poll;
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	unsigned nr_under_way;
};

struct work {				/* valid until after_work_cb is called */
	uv_work_t req;			/* req.data is the program's */
	struct rnl_job job;
};

static int work_run(struct rnl_job *job)
{
	uv_work_t *req = &rnl_container_of(job, struct work, job)->req;

	req->work_cb(req);
	return 0;
}

static void work_reap(uv_poll_t *poll, int status, int events)
{
	struct work_loop *on = rnl_container_of(poll, struct work_loop, poll);
	struct rnl_job *jobs[64];
	int nr = rnl_cq_reap(on->cq, jobs, 64, 0);	/* if there are more, libuv calls again */

	(void)status, (void)events;
	for (int i = 0; i < nr; i++) {
		uv_work_t *req = &rnl_container_of(jobs[i], struct work, job)->req;

		if (!--on->nr_under_way)
			uv_unref((uv_handle_t *)poll);
		if (req->after_work_cb)
			req->after_work_cb(req, jobs[i]->result);
	}
}

static int work_loop_begin(struct work_loop *on, uv_loop_t *loop, struct rnl_pool *pool)
{
	int ret = rnl_cq_create(&on->cq);

	if (ret)
		return ret;
	on->pool = pool;
	ret = uv_poll_init(loop, &on->poll, rnl_cq_fd(on->cq));
	if (ret) {
		rnl_cq_destroy(on->cq);
		return ret;
	}
	uv_unref((uv_handle_t *)&on->poll);
	return uv_poll_start(&on->poll, UV_READABLE, work_reap);
}

static void work_loop_closed(uv_handle_t *poll)
{
	rnl_cq_destroy(rnl_container_of(poll, struct work_loop, poll)->cq);
}

/* No work may be under way. The next uv_run() frees the queue. */
static void work_loop_end(struct work_loop *on)
{
	uv_close((uv_handle_t *)&on->poll, work_loop_closed);
}

static int work_queue(struct work_loop *on, struct work *w, uv_work_cb work, uv_after_work_cb after_work)
{
	int ret = work ? rnl_job_init(&w->job, work_run) : UV_EINVAL;

	if (ret)
		return ret;
	w->req.type = UV_WORK;
	w->req.loop = on->poll.loop;
	w->req.work_cb = work;
	w->req.after_work_cb = after_work;
	rnl_job_set_cq(&w->job, on->cq);
	ret = rnl_submit(on->pool, &w->job);
	if (!ret && !on->nr_under_way++)
		uv_ref((uv_handle_t *)&on->poll);
	return ret;
}

/* Like uv_cancel(): 0, and the status will be UV_ECANCELED; or UV_EBUSY, and work_cb is called. */
static int work_cancel(struct work *w)
{
	return rnl_job_cancel(&w->job) ? UV_EBUSY : 0;
}

/* ---- an example: numbers go to the device and back; every seventh work is cancelled ---- */

static struct work_loop example;
static struct item { struct work work; int in, out; } items[64];
static int nr_queued, nr_right, nr_cancels, nr_cancelled;

static void copy_twice(uv_work_t *req)
{
	struct item *item = rnl_container_of(req, struct item, work.req);
	void *mem;

	if (!rnl_scratch(sizeof(int), &mem) && !rnl_copy(mem, &item->in, sizeof(int)))
		rnl_copy(&item->out, mem, sizeof(int));		/* if it fails, so does the work */
}

static void queue_again(uv_work_t *req, int status)
{
	struct item *item = rnl_container_of(req, struct item, work.req);

	nr_right += !status && item->out == item->in;
	nr_cancelled += status == UV_ECANCELED;
	item->in = nr_queued;
	if (nr_queued < 5000 && !work_queue(&example, &item->work, copy_twice, queue_again))
		nr_cancels += nr_queued++ % 7 == 0 && !work_cancel(&item->work);
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	uv_loop_t loop;

	attr.device = argc > 1 ? argv[1] : "host";
	if (rnl_pool_create(&pool, &attr) || uv_loop_init(&loop) || work_loop_begin(&example, &loop, pool))
		return 2;
	for (int i = 0; i < 64; i++)
		queue_again(&items[i].work.req, UV_EAGAIN);
	uv_run(&loop, UV_RUN_DEFAULT);
	work_loop_end(&example);
	uv_run(&loop, UV_RUN_DEFAULT);
	rnl_pool_destroy(pool);
	printf("%d right, %d cancelled\n", nr_right, nr_cancelled);
	return nr_right + nr_cancelled != 5000 || nr_cancelled != nr_cancels || uv_loop_close(&loop);
}
