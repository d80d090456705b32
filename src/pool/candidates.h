/* SPDX-License-Identifier: MIT */
/*
 * Candidates: the workers that a job may go to.
 *
 * DESIGN
 *	Jobs go to the staff; a class's own workers take only from their class.  In a pool of n devices, worker i has device i % n, so any n consecutive
 *	workers have all devices.  A placed job goes to a worker of its device: every n-th is one.
 *	A key maps to a device, and there to a worker.
 *	Everything is inlined, because each submit passes through it.
 */
#ifndef RNL_CANDIDATES_H
#define RNL_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "pool/park.h"
#include "pool/pool.h"
#include "stream/job_flags.h"

struct rnl__candidates {
	unsigned first, nr;
	unsigned step;			/* from one candidate to the next */
	const uint64_t *among;		/* bits of all workers on the device, or RNL__ANY_WORKER */
	bool mixed;			/* the candidates have several devices */
};

/* Returns the staff. */
static inline struct rnl__candidates rnl__candidates_all(struct rnl_pool *pool,
							 struct rnl__staff staff)
{
	return (struct rnl__candidates){ pool->nr_class_workers, staff.nr, 1,
					 RNL__ANY_WORKER, pool->devices.nr > 1 };
}

/* Returns the mixed candidates that have this device. */
static inline struct rnl__candidates rnl__candidates_on(const struct rnl_pool *pool,
							struct rnl__candidates from,
							unsigned device)
{
	const unsigned nr = pool->devices.nr, skip = (device + nr - from.first % nr) % nr;

	return (struct rnl__candidates){
		.first = from.first + skip,
		.nr = (from.nr - skip + nr - 1) / nr, .step = nr, .among = pool->of_device[device],
	};
}

/* Returns the candidates of a job. */
static inline struct rnl__candidates rnl__candidates_of(struct rnl_pool *pool,
							struct rnl__staff staff,
							const struct rnl_job *job)
{
	struct rnl__candidates from = rnl__candidates_all(pool, staff);

	if (from.mixed && job->flags & RNL__JOB_PLACED)
		return rnl__candidates_on(pool, from, rnl__job_device(job));
	return from;
}

/* Returns the number of the worker that is the @place-th candidate, counted from 0. */
static inline unsigned rnl__candidates_worker(const struct rnl__candidates *from, unsigned place)
{
	return from->first + place * from->step;
}

/* Returns a hash; each bit depends on all bits of the key (MurmurHash3's finalizer). */
static inline uint64_t rnl__candidates_bits(uint64_t key)
{
	key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
	key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53u;
	return key ^ key >> 33;
}

/*
 * Returns the device of a key, by rendezvous hashing (Thaler, Ravishankar 1998).  Pools of the same
 * devices agree.  Between other pools, keys move only from a missing device or to an added one.
 */
static inline unsigned rnl__candidates_key_device(const struct rnl_pool *pool, uint64_t key)
{
	uint64_t highest = 0;
	unsigned best = 0;

	for (unsigned i = 0; i < pool->devices.nr; i++) {
		const uint64_t ordinal = (uint64_t)pool->devices.list[i]->info.ordinal;
		const uint64_t weight = rnl__candidates_bits(key ^ rnl__candidates_bits(ordinal + 1));

		if (weight >= highest) {
			highest = weight;
			best = i;
		}
	}
	return best;
}

/* Returns the worker of a key. */
static inline unsigned rnl__candidates_keyed(const struct rnl_pool *pool,
					     struct rnl__candidates from, uint64_t key)
{
	/* RNL_KEY_WORKER() */
	if (UINT64_MAX - key < RNL_WORKERS_MAX)
		return rnl__candidates_worker(&from, (unsigned)(UINT64_MAX - key) % from.nr);
	if (from.mixed)
		from = rnl__candidates_on(pool, from, rnl__candidates_key_device(pool, key));
	/* Fibonacci hashing (Knuth, TAOCP 6.4) spreads neighbouring keys. */
	return rnl__candidates_worker(&from, (unsigned)((key * 0x9e3779b97f4a7c15u) >> 32) % from.nr);
}

#endif
