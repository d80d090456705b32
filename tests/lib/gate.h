/* SPDX-License-Identifier: MIT */
/* Gates: a test holds jobs and kernels where it wants them, so no sleep proves an order. */
#ifndef GATE_H
#define GATE_H

#include "await.h"

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned came;		/* threads that have ever come to it */
	bool is_open;
};
#define GATE_INIT { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false }

static inline void gate_open(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->is_open = true;
	pthread_cond_broadcast(&gate->moved);
	pthread_mutex_unlock(&gate->lock);
}

static inline void gate_wait(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->came++;
	pthread_cond_broadcast(&gate->moved);
	while (!gate->is_open)
		pthread_cond_wait(&gate->moved, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}

/* How many threads have come. */
static inline unsigned gate_nr(struct gate *gate)
{
	unsigned came;

	pthread_mutex_lock(&gate->lock);
	came = gate->came;
	pthread_mutex_unlock(&gate->lock);
	return came;
}

/* Waits until @nr threads have come to the gate; false if they never do. */
static inline bool gate_came(struct gate *gate, unsigned nr)
{
	struct timespec until;
	bool came;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)PATIENCE_S;
	pthread_mutex_lock(&gate->lock);
	while (gate->came < nr &&
	       !pthread_cond_timedwait(&gate->moved, &gate->lock, &until))
		;
	came = gate->came >= nr;
	pthread_mutex_unlock(&gate->lock);
	return came;
}
#define gate_await(gate, nr) ck_assert_msg(gate_came(gate, nr), "too few came to " #gate)

#endif /* GATE_H */
