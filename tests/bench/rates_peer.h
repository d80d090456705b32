/* SPDX-License-Identifier: MIT */
/*
 * What make bench compares: somebody's pool of threads, behind six calls.
 *
 * DESIGN
 *	Each peer is a file of its own, peer_*.  A job of it is a struct that
 *	begins with a rates_job and holds what the peer wants for each job, so
 *	that nothing is allocated where the peer does not insist; it begins on a
 *	cache line, as a request would.  All peers run the same function,
 *	rates_run(), and get as many jobs in one call as a producer has, so
 *	that the calls below cost nothing that is measured.
 *	For C and C++: with builtins where C has <stdatomic.h>.
 */
#ifndef RATES_PEER_H
#define RATES_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "bench.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RATES_JOB_ALIGN __attribute__((aligned(64)))

enum rates_kind {
	RATES_EMPTY = 0,
	RATES_STAMP = 1,		/* tells when it was started */
	RATES_WORK = 2			/* of rates_work_rounds */
};

struct rates_job {
	uint32_t runs;			/* how often it ran */
	uint32_t kind;
	uint64_t started;		/* RATES_STAMP: when, and not 0 */
};

struct rates_setup {
	unsigned workers, producers;
	size_t join;			/* a producer waits for so many jobs at once */
};

/* What a producer does, on a thread of its own. */
typedef void rates_body(void *arg, unsigned producer);

struct rates_peer {
	const char *name;		/* as --only= has it */
	const char *label;		/* in the table */
	const char *missing;		/* not built: why; else NULL */
	const char *note;		/* what to know of its figures, or NULL */
	size_t job_bytes;
	/* Makes the threads, as far as the peer lets one. */
	void *(*open)(const struct rates_setup *setup);
	/* Before jobs are submitted for the first time.  NULL: nothing to do. */
	void (*prepare)(void *pool, unsigned producer, void *jobs, size_t nr);
	/* Runs the body of each producer.  NULL: on plain threads. */
	void (*produce)(void *pool, unsigned nr, rates_body *body, void *arg);
	void (*submit)(void *pool, unsigned producer, void *jobs, size_t nr);
	/* For the jobs that the producer submitted, which are these.  NULL: it cannot. */
	void (*wait)(void *pool, unsigned producer, void *jobs, size_t nr);
	/* Ends the threads.  Without a wait, after all jobs have run. */
	void (*close)(void *pool);
};

extern const struct rates_peer rates_glib, rates_mutex, rates_openmp, rates_runnel,
	rates_runnel_many, rates_tbb, rates_uv, rates_wfcq;

/* Runs the bodies on plain threads of their own. */
void rates_produce(unsigned nr, rates_body *body, void *arg);

/* ThreadSanitizer does not see what libraries do that it was not compiled into. */
#ifdef BENCH_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define rates_handed_over(p) __tsan_release(p)
#define rates_taken_over(p) __tsan_acquire(p)
#else
#define rates_handed_over(p) ((void)(p))
#define rates_taken_over(p) ((void)(p))
#endif

extern uint64_t rates_work_rounds;	/* that take RATES_WORK_NS */

static inline void rates_work(uint64_t rounds)
{
	for (uint64_t i = 0, x = 1; i < rounds; i++) {
		x = x * 6364136223846793005u + 1;
		__asm__ volatile("" : "+r"(x));
	}
}

/* The function of all jobs. */
static inline void rates_run(struct rates_job *job)
{
	if (!job->kind) {
		job->runs++;
	} else if (job->kind == RATES_WORK) {
		rates_work(rates_work_rounds);
		job->runs++;
	} else {
		uint64_t now = bench_now();

		job->runs++;
		/* release: the last touch of a job that nobody waits for otherwise */
		__atomic_store_n(&job->started, now, __ATOMIC_RELEASE);
	}
}

#ifdef __cplusplus
}
#endif
#endif
