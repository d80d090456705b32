/* SPDX-License-Identifier: MIT */
/*
 * How peers that have no wait of their own tell a producer that its jobs are done:
 * a counter, and a condition variable that the last job signals.
 */
#ifndef RATES_LATCH_H
#define RATES_LATCH_H

#include <pthread.h>
#include <stdint.h>

#include "rates_peer.h"

struct rates_latch {
	uint64_t left;			/* jobs */
	pthread_mutex_t lock;
	pthread_cond_t none_left;
} RATES_JOB_ALIGN;

static inline void rates_latch_init(struct rates_latch *latch)
{
	latch->left = 0;
	pthread_mutex_init(&latch->lock, NULL);
	pthread_cond_init(&latch->none_left, NULL);
}

static inline void rates_latch_fini(struct rates_latch *latch)
{
	pthread_cond_destroy(&latch->none_left);
	pthread_mutex_destroy(&latch->lock);
}

/* Before these jobs are handed over. */
static inline void rates_latch_add(struct rates_latch *latch, uint64_t nr)
{
	/* relaxed: handing them over orders it */
	__atomic_fetch_add(&latch->left, nr, __ATOMIC_RELAXED);
}

static inline void rates_latch_done(struct rates_latch *latch)
{
	/* acq_rel: what the jobs did, for the waiter, however many were last */
	if (__atomic_sub_fetch(&latch->left, 1, __ATOMIC_ACQ_REL))
		return;
	/* With the lock once held, the waiter sleeps or will look again. */
	pthread_mutex_lock(&latch->lock);
	pthread_mutex_unlock(&latch->lock);
	pthread_cond_signal(&latch->none_left);
}

static inline void rates_latch_wait(struct rates_latch *latch)
{
	/* acquire: what the jobs did */
	if (!__atomic_load_n(&latch->left, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&latch->lock);
	/* acquire: as above */
	while (__atomic_load_n(&latch->left, __ATOMIC_ACQUIRE))
		pthread_cond_wait(&latch->none_left, &latch->lock);
	pthread_mutex_unlock(&latch->lock);
}

#endif
