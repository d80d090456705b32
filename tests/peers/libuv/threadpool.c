/* SPDX-License-Identifier: MIT */
/*
 * libuv's src/threadpool.c on a pool of runnel: for libuv's own test suite (see run).
 *
 * DESIGN
 *	A uv__work is too small for a job, so each has one in memory of its own while it is under
 *	way: wq leads there, under the loop's wq_mutex, unless `work` is NULL or uv__cancelled.
 *	A submit goes straight to a queue of the pool, and waits for space where libuv's has no
 *	limit; a job's callback gives the work to its loop, a cancelled one, too.
 *	libuv's works start in the order of their submits, which its tests rely on: those of
 *	uv_cancel() want the first ones to occupy all threads.  runnel's jobs have an order by key
 *	alone.  So each work has the key of a worker, of the least loaded one, and in turn if they
 *	are equal.  Unlike with libuv, a work that is behind another one stays there when other
 *	workers fall idle.  Slow I/O takes half of the workers, as there.
 *	(libuv allows 1024 threads, runnel 64 workers.)
 */
#include <errno.h>
#include <pthread.h>
#include <runnel.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uv-common.h"

#if UV_VERSION_HEX < 0x012e00		/* 1.46 */
#define uv__queue_insert_tail QUEUE_INSERT_TAIL
#define uv__queue_move QUEUE_MOVE
#define uv__queue_empty QUEUE_EMPTY
#define uv__queue_head QUEUE_HEAD
#define uv__queue_remove QUEUE_REMOVE
#else
typedef struct uv__queue QUEUE;
#endif

struct work_job {
	struct rnl_job job;
	struct uv__work *w;
	unsigned worker;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rnl_pool *pool;
static unsigned nr_workers;
static atomic_uint turn, loads[RNL_WORKERS_MAX];

static int name_worker(void *arg, unsigned worker, void **datap)
{
	(void)arg, (void)worker, (void)datap;
	return -pthread_setname_np(pthread_self(), "libuv-worker");
}

/* A child makes a pool when it first has work.  What its parent had under way is not done there. */
static void in_child(void)
{
	const pthread_once_t fresh = PTHREAD_ONCE_INIT;

	once = fresh;
	pool = NULL;
	memset(loads, 0, sizeof(loads));
}

static void create_pool(void)
{
	static int forks;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	const char *size = getenv("UV_THREADPOOL_SIZE");
	int nr = size ? atoi(size) : 4;
	int ret = forks++ ? 0 : -pthread_atfork(NULL, NULL, in_child);

	nr_workers = nr < 0 || nr > RNL_WORKERS_MAX ? RNL_WORKERS_MAX : nr ? nr : 1;
	attr.nr_workers = nr_workers;
	attr.device = "host";
	attr.on_start = name_worker;
	ret = ret ? ret : rnl_pool_create(&pool, &attr);
	if (ret) {
		fprintf(stderr, "no pool: %s\n", rnl_strerror(ret));
		abort();			/* as libuv does without its threads */
	}
}

/* What is queued is done first, as by libuv's threads. */
void uv__threadpool_cleanup(void)
{
	rnl_pool_destroy(pool);
	pool = NULL;
}

static void uv__cancelled(struct uv__work *w)
{
	(void)w;
	abort();
}

/* The loop may free w, and itself, once the mutex is free. */
static void give_back(struct uv__work *w, void (*work)(struct uv__work *w))
{
	uv_loop_t *loop = w->loop;

	uv_mutex_lock(&loop->wq_mutex);
	w->work = work;
	uv__queue_insert_tail(&loop->wq, &w->wq);
	uv_async_send(&loop->wq_async);
	uv_mutex_unlock(&loop->wq_mutex);
}

static int run(struct rnl_job *job)
{
	struct uv__work *w = rnl_container_of(job, struct work_job, job)->w;

	w->work(w);
	return 0;
}

static void told(struct rnl_job *job)
{
	struct work_job *wj = rnl_container_of(job, struct work_job, job);

	atomic_fetch_sub(&loads[wj->worker], 1);
	give_back(wj->w, job->result == -ECANCELED ? uv__cancelled : NULL);
	uv__free(wj);
}

static int submit(struct work_job *wj, unsigned nr)
{
	unsigned first = atomic_fetch_add(&turn, 1), i, worker;
	int ret;

	rnl_job_init(&wj->job, run);
	rnl_job_set_on_done(&wj->job, told);
	wj->worker = first % nr;
	for (i = 1; i < nr; i++) {
		worker = (first + i) % nr;
		if (atomic_load(&loads[worker]) < atomic_load(&loads[wj->worker]))
			wj->worker = worker;
	}
	worker = wj->worker;
	atomic_fetch_add(&loads[worker], 1);
	rnl_job_set_key(&wj->job, RNL_KEY_WORKER(worker));
	ret = rnl_submit_wait(pool, &wj->job, RNL_FOREVER);
	if (ret)
		atomic_fetch_sub(&loads[worker], 1);
	return ret;
}

void uv__work_submit(uv_loop_t *loop, struct uv__work *w, enum uv__work_kind kind,
		     void (*work)(struct uv__work *w), void (*done)(struct uv__work *w, int status))
{
	struct work_job *wj = uv__malloc(sizeof(*wj));

	pthread_once(&once, create_pool);
	w->loop = loop;
	w->work = work;
	w->done = done;
	if (wj) {
		wj->w = w;
		*(void **)&w->wq = wj;
		if (!submit(wj, kind == UV__WORK_SLOW_IO ? (nr_workers + 1) / 2 : nr_workers))
			return;
	}
	/* No memory, or a worker has work for a queue that is full: there is no error to return. */
	uv__free(wj);
	work(w);
	give_back(w, NULL);
}

void uv__work_done(uv_async_t *handle)
{
	uv_loop_t *loop = container_of(handle, uv_loop_t, wq_async);
	QUEUE wq, *q;
	int nr = 0;

	uv_mutex_lock(&loop->wq_mutex);
	uv__queue_move(&loop->wq, &wq);
	uv_mutex_unlock(&loop->wq_mutex);
	for (; !uv__queue_empty(&wq); nr++) {
		struct uv__work *w;
		int status;

		q = uv__queue_head(&wq);
		w = container_of(q, struct uv__work, wq);
		status = w->work == uv__cancelled ? UV_ECANCELED : 0;
		uv__queue_remove(q);
		w->work = NULL;
		w->done(w, status);
	}
#if UV_VERSION_HEX >= 0x012d00	/* 1.45: the loop has counted this call as one event */
	if (nr > 1) {
		uv__metrics_inc_events(loop, nr - 1);
		if (!uv__get_internal_fields(loop)->current_timeout)
			uv__metrics_inc_events_waiting(loop, nr - 1);
	}
#endif
}

static void queue_work(struct uv__work *w)
{
	uv_work_t *req = container_of(w, uv_work_t, work_req);

	req->work_cb(req);
}

static void queue_done(struct uv__work *w, int status)
{
	uv_work_t *req = container_of(w, uv_work_t, work_req);

	req->loop->active_reqs.count--;		/* uv__req_unregister(), which differs by version */
	if (req->after_work_cb)
		req->after_work_cb(req, status);
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb work_cb,
		  uv_after_work_cb after_work_cb)
{
	if (!work_cb)
		return UV_EINVAL;
	uv__req_init(loop, req, UV_WORK);
	req->loop = loop;
	req->work_cb = work_cb;
	req->after_work_cb = after_work_cb;
	uv__work_submit(loop, &req->work_req, UV__WORK_CPU, queue_work, queue_done);
	return 0;
}

int uv_cancel(uv_req_t *req)
{
	struct uv__work *w = req->type == UV_FS ? &((uv_fs_t *)req)->work_req :
			     req->type == UV_GETADDRINFO ? &((uv_getaddrinfo_t *)req)->work_req :
			     req->type == UV_GETNAMEINFO ? &((uv_getnameinfo_t *)req)->work_req :
			     req->type == UV_RANDOM ? &((uv_random_t *)req)->work_req :
			     req->type == UV_WORK ? &((uv_work_t *)req)->work_req : NULL;
	int ret = UV_EBUSY;

	if (!w)
		return UV_EINVAL;
	/* The job is there until its work is given back. */
	uv_mutex_lock(&w->loop->wq_mutex);
	if (w->work == uv__cancelled ||
	    (w->work && !rnl_job_cancel(&(*(struct work_job **)&w->wq)->job)))
		ret = 0;
	uv_mutex_unlock(&w->loop->wq_mutex);
	return ret;
}
