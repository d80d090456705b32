/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads that make bench compares, as six functions.
 *
 * DESIGN
 *	A peer's job is a struct that begins with a peer_job and has the peer's data for the job, so
 *	memory is only allocated if the peer itself does it. It begins on a cache line, like a
 *	request would. All peers run the same function, peer_run(), and get all of a producer's jobs
 *	in one call, so the cost of the calls below does not matter.
 *	For C and C++: with builtins where C has <stdatomic.h>.
 */
#ifndef PEER_H
#define PEER_H

#include <pthread.h>

#include "bench.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PEER_ALIGN __attribute__((aligned(64)))
#define PEER_WORK_NS 2000		/* CPU time of a working job */

enum peer_kind {
	PEER_EMPTY = 0,
	PEER_STAMP = 1,			/* stores its start time */
	PEER_WORK = 2			/* works for peer_work_rounds */
};

struct peer_job {
	uint32_t runs;			/* number of runs */
	uint32_t kind;
	uint64_t started;		/* PEER_STAMP: the start time, not 0 */
};

struct peer_setup {
	unsigned workers, producers;
	size_t join;			/* jobs that a producer waits for together */
};

/* The body of a producer, on its own thread. */
typedef void peer_body(void *arg, unsigned producer);

struct bench_peer {
	size_t job_bytes;
	/* Makes the threads, as far as the peer allows it. */
	void *(*open)(const struct peer_setup *setup);
	/* Called before jobs are submitted for the first time, or NULL. */
	void (*prepare)(void *pool, unsigned producer, void *jobs, size_t nr);
	/* Runs the body of each producer.  NULL: on plain threads. */
	void (*produce)(void *pool, unsigned nr, peer_body *body, void *arg);
	void (*submit)(void *pool, unsigned producer, void *jobs, size_t nr);
	/* Waits for these jobs, which are all jobs of the producer.  NULL: the peer has no wait. */
	void (*wait)(void *pool, unsigned producer, void *jobs, size_t nr);
	/* Ends the threads.  If there is no wait, first waits for all jobs. */
	void (*close)(void *pool);
};

/* The address of a peer that is not linked is NULL. */
extern const struct bench_peer peer_glib __attribute__((weak)), peer_mutex __attribute__((weak)),
	peer_openmp __attribute__((weak)), peer_runnel __attribute__((weak)),
	peer_runnel_many __attribute__((weak)), peer_tbb __attribute__((weak)),
	peer_uv __attribute__((weak)), peer_wfcq __attribute__((weak));

/* Runs each body on its own plain thread. */
void peer_produce(unsigned nr, peer_body *body, void *arg);

/* ThreadSanitizer does not see the synchronisation of libraries that were built without it. */
#ifdef BENCH_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define peer_handed_over(p) __tsan_release(p)
#define peer_taken_over(p) __tsan_acquire(p)
#else
#define peer_handed_over(p) ((void)(p))
#define peer_taken_over(p) ((void)(p))
#endif

/* ---- a job --------------------------------------------------------------- */

extern uint64_t peer_work_rounds;	/* rounds that take PEER_WORK_NS */

static inline void peer_work(uint64_t rounds)
{
	for (uint64_t i = 0, x = 1; i < rounds; i++) {
		x = x * 6364136223846793005u + 1;
		__asm__ volatile("" : "+r"(x));
	}
}

/* The function of all jobs. */
static inline void peer_run(struct peer_job *job)
{
	if (!job->kind) {
		job->runs++;
	} else if (job->kind == PEER_WORK) {
		peer_work(peer_work_rounds);
		job->runs++;
	} else {
		uint64_t now = bench_now();

		job->runs++;
		/* release: the last access to a job if a peer has no wait */
		__atomic_store_n(&job->started, now, __ATOMIC_RELEASE);
	}
}

/* ---- a wait for peers without one: the last job signals a condition ------- */

struct peer_latch {
	uint64_t left;			/* jobs */
	pthread_mutex_t lock;
	pthread_cond_t none_left;
} PEER_ALIGN;

static inline struct peer_latch *peer_latches(unsigned nr)
{
	struct peer_latch *latches = (struct peer_latch *)bench_alloc(nr * sizeof(*latches));

	for (unsigned i = 0; i < nr; i++) {
		pthread_mutex_init(&latches[i].lock, NULL);
		pthread_cond_init(&latches[i].none_left, NULL);
	}
	return latches;
}

/* Called before these jobs are submitted. */
static inline void peer_latch_add(struct peer_latch *latch, uint64_t nr)
{
	/* relaxed: the submit orders it */
	__atomic_fetch_add(&latch->left, nr, __ATOMIC_RELAXED);
}

static inline void peer_latch_done(struct peer_latch *latch)
{
	/* acq_rel: passes the effects of all jobs to the waiter */
	if (__atomic_sub_fetch(&latch->left, 1, __ATOMIC_ACQ_REL))
		return;
	/* After the lock was held once, the waiter sleeps or will check again. */
	pthread_mutex_lock(&latch->lock);
	pthread_mutex_unlock(&latch->lock);
	pthread_cond_signal(&latch->none_left);
}

static inline void peer_latch_wait(struct peer_latch *latch)
{
	/* acquire: the effects of the jobs */
	if (!__atomic_load_n(&latch->left, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&latch->lock);
	/* acquire: as above */
	while (__atomic_load_n(&latch->left, __ATOMIC_ACQUIRE))
		pthread_cond_wait(&latch->none_left, &latch->lock);
	pthread_mutex_unlock(&latch->lock);
}

#ifdef __cplusplus
}
#endif
#endif
