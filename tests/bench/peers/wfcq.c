/* SPDX-License-Identifier: MIT */
/*
 * A bare hand-off: liburcu's cds_wfcq and a futex, which runnel is built on.
 *
 * DESIGN
 *	The ceiling: each worker has a queue and a word to sleep on; producers use the workers in
 *	turn. There is no completion, no bound and no stealing, so it is not a usable pool; the
 *	difference to runnel is the price of these. Only the workers' end shows that the jobs have
 *	run. A worker spins as long as runnel's before it sleeps.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <urcu/wfcqueue.h>

#include "peers/peer.h"

#define SPIN_NS 20000

struct wfcq_job {
	struct peer_job job;
	struct cds_wfcq_node node;
} PEER_ALIGN;

struct wfcq_worker {
	struct cds_wfcq_tail tail PEER_ALIGN;
	struct __cds_wfcq_head head PEER_ALIGN;
	uint32_t asleep PEER_ALIGN;
	uint32_t closed;
	uint64_t spin_ns;
	pthread_t thread;
} PEER_ALIGN;

struct wfcq_pool {
	struct wfcq_worker *workers;
	unsigned nr_workers;
	struct wfcq_turn {
		unsigned next;
	} PEER_ALIGN *turns;	/* next worker of each producer */
};

/* The queue only orders the node, so this orders the job; ThreadSanitizer knows no fences. */
static void took(struct wfcq_job *job)
{
	peer_taken_over(job);
#ifndef BENCH_TSAN
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

static void wake(struct wfcq_worker *w)
{
	/* seq_cst, also below: the sleeper checks the queue after it has set its word */
	if (__atomic_load_n(&w->asleep, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&w->asleep, 0, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &w->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool idle(struct wfcq_worker *w)
{
	return cds_wfcq_empty((cds_wfcq_head_ptr_t){ ._h = &w->head }, &w->tail) &&
	       !__atomic_load_n(&w->closed, __ATOMIC_SEQ_CST);
}

static bool spin(struct wfcq_worker *w)
{
	const uint64_t until = bench_now() + w->spin_ns;

	do {
		for (int i = 0; i < 16; i++) {
			if (!idle(w))
				return true;
			caa_cpu_relax();
		}
	} while (bench_now() < until);
	return false;
}

static void *serve(void *arg)
{
	struct wfcq_worker *w = arg;

	for (;;) {
		/* Read first, so no job is queued after the last look at the queue. */
		const bool closed = __atomic_load_n(&w->closed, __ATOMIC_SEQ_CST);
		struct cds_wfcq_node *node = __cds_wfcq_dequeue_nonblocking(&w->head, &w->tail);

		if (node == CDS_WFCQ_WOULDBLOCK)
			continue;
		if (node) {
			struct wfcq_job *job = caa_container_of(node, struct wfcq_job, node);

			took(job);
			peer_run(&job->job);
			continue;
		}
		if (closed)
			return NULL;
		if (spin(w))
			continue;
		__atomic_store_n(&w->asleep, 1, __ATOMIC_SEQ_CST);
		while (idle(w) && __atomic_load_n(&w->asleep, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, &w->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
		__atomic_store_n(&w->asleep, 0, __ATOMIC_RELAXED);
	}
}

static void *wfcq_open(const struct peer_setup *setup)
{
	struct wfcq_pool *pool = bench_alloc(sizeof(*pool));
	const bool spare = sysconf(_SC_NPROCESSORS_ONLN) > (long)setup->workers;

	pool->turns = bench_alloc(setup->producers * sizeof(*pool->turns));
	pool->nr_workers = setup->workers;
	pool->workers = bench_alloc(setup->workers * sizeof(*pool->workers));
	for (unsigned i = 0; i < setup->workers; i++) {
		struct wfcq_worker *w = &pool->workers[i];

		__cds_wfcq_init(&w->head, &w->tail);
		w->spin_ns = spare ? SPIN_NS : SPIN_NS / 10;
		bench_must(!pthread_create(&w->thread, NULL, serve, w), "pthread_create");
	}
	return pool;
}

static void wfcq_submit(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct wfcq_pool *pool = arg;
	unsigned *next = &pool->turns[producer].next;
	struct wfcq_job *job = jobs;

	for (size_t i = 0; i < nr; i++) {
		struct wfcq_worker *w = &pool->workers[*next];

		*next = *next + 1 < pool->nr_workers ? *next + 1 : 0;
		cds_wfcq_node_init(&job[i].node);
		peer_handed_over(&job[i]);
		cds_wfcq_enqueue((cds_wfcq_head_ptr_t){ ._h = &w->head }, &w->tail, &job[i].node);
		wake(w);
	}
}

static void wfcq_close(void *arg)
{
	struct wfcq_pool *pool = arg;

	for (unsigned i = 0; i < pool->nr_workers; i++) {
		__atomic_store_n(&pool->workers[i].closed, 1, __ATOMIC_SEQ_CST);
		wake(&pool->workers[i]);
	}
	for (unsigned i = 0; i < pool->nr_workers; i++)
		pthread_join(pool->workers[i].thread, NULL);
	free(pool->workers);
	free(pool->turns);
	free(pool);
}

const struct bench_peer peer_wfcq = {
	.job_bytes = sizeof(struct wfcq_job),
	.open = wfcq_open,
	.submit = wfcq_submit,
	.close = wfcq_close,
};
