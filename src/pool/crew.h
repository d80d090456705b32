/* SPDX-License-Identifier: MIT */
/*
 * A crew: the workers that a job may go to.
 *
 * DESIGN
 *	An urgent job has the urgent workers, if there are any; any other job has the staff.  In a pool
 *	of several devices worker i has device i % n, so any n workers in a row have all of them: a
 *	placed job has every n-th worker, those of its device.
 *	A key has a device, and there a worker.
 *	All of it is inlined: each submit goes through it.
 */
#ifndef RNL_CREW_H
#define RNL_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "pool/park.h"
#include "pool/pool.h"
#include "stream/job_flags.h"

struct rnl__crew {
	struct rnl__lot *lot;
	unsigned first, nr;
	unsigned step;			/* from one of them to the next */
	const uint64_t *among;		/* a bit of each, and of others on their devices */
	bool mixed;			/* they have several devices */
};

/* All urgent workers, or the staff. */
static inline struct rnl__crew rnl__crew_all(struct rnl_pool *pool, struct rnl__staff staff,
					     bool urgent)
{
	const bool mixed = pool->devices.nr > 1;

	if (urgent && pool->nr_urgent)
		return (struct rnl__crew){ &pool->urgent_lot, 0, pool->nr_urgent, 1,
					   RNL__ANY_WORKER, mixed };
	return (struct rnl__crew){ &pool->lot, pool->nr_urgent, staff.nr, 1, RNL__ANY_WORKER, mixed };
}

/* Those of a mixed crew that have one device. */
static inline struct rnl__crew rnl__crew_on(const struct rnl_pool *pool, struct rnl__crew crew,
					    unsigned device)
{
	const unsigned nr = pool->devices.nr, skip = (device + nr - crew.first % nr) % nr;

	return (struct rnl__crew){
		.lot = crew.lot, .first = crew.first + skip, .nr = (crew.nr - skip + nr - 1) / nr,
		.step = nr, .among = pool->of_device[device],
	};
}

/* Those of a job. */
static inline struct rnl__crew rnl__crew_of(struct rnl_pool *pool, struct rnl__staff staff,
					    const struct rnl_job *job)
{
	const bool urgent = job->flags & RNL__JOB_URGENT && !(job->flags & RNL__JOB_KEYED);
	struct rnl__crew crew = rnl__crew_all(pool, staff, urgent);

	if (crew.mixed && job->flags & RNL__JOB_PLACED)
		return rnl__crew_on(pool, crew, rnl__job_device(job));
	return crew;
}

/* The worker at a place of the crew. */
static inline unsigned rnl__crew_worker(const struct rnl__crew *crew, unsigned place)
{
	return crew->first + place * crew->step;
}

/* A hash whose bits all depend on all of the key's (MurmurHash3's finalizer). */
static inline uint64_t rnl__crew_bits(uint64_t key)
{
	key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
	key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53u;
	return key ^ key >> 33;
}

/*
 * The device of a key, by rendezvous hashing (Thaler, Ravishankar 1998): so it is the same in pools
 * that have the device, and a key changes its device only if that goes, or a new one wins it.
 */
static inline unsigned rnl__crew_key_device(const struct rnl_pool *pool, uint64_t key)
{
	uint64_t highest = 0;
	unsigned best = 0;

	for (unsigned i = 0; i < pool->devices.nr; i++) {
		const uint64_t ordinal = (uint64_t)pool->devices.list[i]->info.ordinal;
		const uint64_t weight = rnl__crew_bits(key ^ rnl__crew_bits(ordinal + 1));

		if (weight >= highest) {
			highest = weight;
			best = i;
		}
	}
	return best;
}

/* The worker of a key. */
static inline unsigned rnl__crew_keyed(const struct rnl_pool *pool, struct rnl__crew crew,
				       uint64_t key)
{
	/* RNL_KEY_WORKER() */
	if (UINT64_MAX - key < RNL_WORKERS_MAX)
		return rnl__crew_worker(&crew, (unsigned)(UINT64_MAX - key) % crew.nr);
	if (crew.mixed)
		crew = rnl__crew_on(pool, crew, rnl__crew_key_device(pool, key));
	/* Fibonacci hashing (Knuth, TAOCP 6.4): neighbouring keys spread. */
	return rnl__crew_worker(&crew, (unsigned)((key * 0x9e3779b97f4a7c15u) >> 32) % crew.nr);
}

#endif
