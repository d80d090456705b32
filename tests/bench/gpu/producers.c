/* SPDX-License-Identifier: MIT */
/* Producers: threads that submit requests to a pool, and check their outputs. */
#include "gpu/work.h"

struct gpu_request *gpu_requests(unsigned nr)
{
	struct gpu_request *requests = bench_alloc(nr * sizeof(*requests));

	gpu_slots(&requests->slot, nr, sizeof(*requests));
	return requests;
}

void gpu_produce_ring(struct gpu_producer *p)
{
	struct gpu_feed *feed = p->feed;
	uint64_t submitted = 0;

	for (bool last = false; !last || p->done < submitted;) {
		if (last || submitted == p->done + p->nr) {
			struct gpu_request *oldest = &p->requests[p->done % p->nr];

			feed->wait(p, oldest);
			gpu_check(&oldest->slot);
			p->done++;
			continue;
		}
		gpu_prepare(&p->requests[submitted % p->nr].slot);
		feed->submit(p, &p->requests[submitted % p->nr]);
		submitted++;
		last = gpu_feed_stops(feed);
	}
}

static void *produce(void *arg)
{
	struct gpu_producer *p = arg;

	pthread_barrier_wait(&p->feed->start);
	p->began = bench_now();
	p->feed->produce(p);
	p->ended = bench_now();
	return NULL;
}

double gpu_feed(struct gpu_feed *feed, unsigned nr_producers, unsigned ms)
{
	struct gpu_producer producers[GPU_DEPTH_MAX];
	const unsigned share = feed->nr_requests / nr_producers;
	uint64_t began = UINT64_MAX, ended = 0, done = 0;

	pthread_barrier_init(&feed->start, NULL, nr_producers + 1);
	atomic_store(&feed->stop, false);
	for (unsigned i = 0; i < nr_producers; i++) {
		struct gpu_producer *p = &producers[i];

		*p = (struct gpu_producer){
			.feed = feed, .requests = feed->requests + i * share, .nr = share
		};
		pthread_mutex_init(&p->lock, NULL);
		pthread_cond_init(&p->some_done, NULL);
		bench_must(!pthread_create(&p->thread, NULL, produce, p), "pthread_create");
	}
	pthread_barrier_wait(&feed->start);
	bench_sleep_ms(ms);
	atomic_store(&feed->stop, true);
	for (unsigned i = 0; i < nr_producers; i++) {
		struct gpu_producer *p = &producers[i];

		pthread_join(p->thread, NULL);
		began = p->began < began ? p->began : began;
		ended = p->ended > ended ? p->ended : ended;
		done += p->done;
		pthread_mutex_destroy(&p->lock);
		pthread_cond_destroy(&p->some_done);
	}
	pthread_barrier_destroy(&feed->start);
	for (unsigned i = 0; i < feed->nr_requests && gpu_looks(feed->done); i++)
		gpu_check_all(&feed->requests[i].slot);
	return (double)done * 1e9 / (double)(ended - began);
}
