/* SPDX-License-Identifier: MIT */
/* Gates hold jobs and kernels at a known place, so a test proves an order without a sleep. */
#ifndef GATE_H
#define GATE_H

#include "await.h"

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned came;		/* number of threads that have reached the gate */
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

/* Returns the number of threads that have reached the gate. */
static inline unsigned gate_nr(struct gate *gate)
{
	unsigned came;

	pthread_mutex_lock(&gate->lock);
	came = gate->came;
	pthread_mutex_unlock(&gate->lock);
	return came;
}

/* Waits until @nr threads have reached the gate.  Returns false if they do not in time. */
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

/* For call_start(): waits at the gate. */
static inline int call_gate(void *gate)
{
	gate_wait(gate);
	return 0;
}

#endif /* GATE_H */
