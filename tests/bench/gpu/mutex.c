/* SPDX-License-Identifier: MIT */
/*
 * A typical pool of programs: a list, a mutex, a condition variable, a stream for each thread, and
 * a sync of the stream for each job.
 *
 * DESIGN
 *	Without a textbook's mistakes: requests are linked through their own fields, and conditions
 *	are signalled after the unlock, and only if a thread sleeps. Each producer sleeps on its own
 *	condition.
 */
#include "gpu/work.h"

struct gpu_mutex {
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct gpu_request *first, **end;
	unsigned nr_asleep;
	int ordinal;
	enum rnl_stream_kind kind;
	pthread_barrier_t ready;
};

static struct gpu_request *take(struct gpu_mutex *pool)
{
	struct gpu_request *request;

	pthread_mutex_lock(&pool->lock);
	while (!(request = pool->first)) {
		pool->nr_asleep++;
		pthread_cond_wait(&pool->some, &pool->lock);
		pool->nr_asleep--;
	}
	pool->first = request->next;
	if (!pool->first)
		pool->end = &pool->first;
	pthread_mutex_unlock(&pool->lock);
	return request;
}

static void *serve(void *arg)
{
	struct gpu_mutex *pool = arg;
	cudaStream_t stream;

	gpu_enter(pool->ordinal);
	stream = gpu_stream(pool->kind, false);
	pthread_barrier_wait(&pool->ready);
	for (;;) {
		struct gpu_request *request = take(pool);
		struct gpu_producer *p = request->producer;

		gpu_ok(gpu_issue_j(&request->slot, stream), "J of a mutex pool");
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		pthread_mutex_lock(&p->lock);
		request->done = true;
		/* With the lock held: after the unlock, the producer may have ended. */
		pthread_cond_signal(&p->some_done);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

struct gpu_mutex *gpu_mutex_start(int ordinal, enum rnl_stream_kind kind, unsigned nr_threads)
{
	struct gpu_mutex *pool = bench_alloc(sizeof(*pool));
	pthread_t thread;

	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->some, NULL);
	pthread_barrier_init(&pool->ready, NULL, nr_threads + 1);
	pool->end = &pool->first;
	pool->ordinal = ordinal;
	pool->kind = kind;
	for (unsigned i = 0; i < nr_threads; i++)
		bench_must(!pthread_create(&thread, NULL, serve, pool), "pthread_create");
	pthread_barrier_wait(&pool->ready);
	return pool;
}

static void hand_over(struct gpu_mutex *pool, struct gpu_producer *p, struct gpu_request *request)
{
	bool wake;

	request->producer = p;
	request->done = false;
	request->next = NULL;
	pthread_mutex_lock(&pool->lock);
	*pool->end = request;
	pool->end = &request->next;
	wake = pool->nr_asleep;
	pthread_mutex_unlock(&pool->lock);
	if (wake)
		pthread_cond_signal(&pool->some);
}

static void wait(struct gpu_producer *p, struct gpu_request *request)
{
	pthread_mutex_lock(&p->lock);
	while (!request->done)
		pthread_cond_wait(&p->some_done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void submit(struct gpu_producer *p, struct gpu_request *request)
{
	hand_over(p->feed->arg, p, request);
}

double gpu_mutex_rate(struct gpu_mutex *pool, struct gpu_request *requests, unsigned nr_requests,
		      unsigned nr_producers, unsigned ms)
{
	struct gpu_feed feed = {
		.produce = gpu_produce_ring, .arg = pool, .requests = requests,
		.nr_requests = nr_requests, .submit = submit, .wait = wait
	};

	return gpu_feed(&feed, nr_producers, ms);
}

void gpu_mutex_producer(struct gpu_producer *producer)
{
	*producer = (struct gpu_producer){ .nr = 1 };
	pthread_mutex_init(&producer->lock, NULL);
	pthread_cond_init(&producer->some_done, NULL);
}

void gpu_mutex_one(struct gpu_mutex *pool, struct gpu_producer *producer,
		   struct gpu_request *request)
{
	hand_over(pool, producer, request);
	wait(producer, request);
}
