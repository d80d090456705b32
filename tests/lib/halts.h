/* SPDX-License-Identifier: MIT */
/*
 * Halts: threads stop for a while anywhere in the library, as if they were preempted.
 *
 * A signal's handler sleeps.  Workers block this signal, so only callers are halted.  A thread
 * calls halts_come() before halts_begin(), and is joined after halts_end().  ThreadSanitizer delays
 * signals until the next system call, so halts have less effect there.
 */
#ifndef HALTS_H
#define HALTS_H

#include <signal.h>

#include "await.h"
#include "seed.h"

#define HALTS_THREADS 8

static struct {
	pthread_mutex_t lock;
	pthread_t threads[HALTS_THREADS];
	unsigned nr;
	_Atomic bool over;
	uint64_t random;
	pthread_t thread;
	void (*hook)(void);		/* called by a halted thread; may be NULL */
} halts = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline void halt(int signo)
{
	static _Atomic unsigned nr;
	struct timespec ts = { .tv_nsec = 1000l << nr++ % 12 };	/* 1 us to 2 ms */
	int saved = errno;

	(void)signo;
	if (halts.hook)
		halts.hook();
	nanosleep(&ts, NULL);
	errno = saved;
}

static inline void halts_init(void)
{
	struct sigaction action = { .sa_handler = halt, .sa_flags = SA_RESTART };

	sigemptyset(&action.sa_mask);
	must(sigaction(SIGUSR1, &action, NULL));
}

/* Halts a thread after a loop of @turns rounds, probably inside its next call. */
static inline void halts_one(pthread_t thread, unsigned turns)
{
	for (unsigned volatile i = 0; i < turns; i++)
		;
	/* A simulated machine stops threads itself. */
	if (!sim_begin)
		pthread_kill(thread, SIGUSR1);
}

/* Adds the calling thread to the threads that are halted from time to time. */
static inline void halts_come(void)
{
	pthread_mutex_lock(&halts.lock);
	halts.threads[halts.nr++] = pthread_self();
	pthread_mutex_unlock(&halts.lock);
}

static inline unsigned halts_nr(void)
{
	unsigned nr;

	pthread_mutex_lock(&halts.lock);
	nr = halts.nr;
	pthread_mutex_unlock(&halts.lock);
	return nr;
}

static inline void *halt_all(void *arg)
{
	unsigned nr = halts_nr();

	(void)arg;
	while (!halts.over) {
		halts_one(halts.threads[draw(&halts.random, nr)], 0);
		usleep(draw(&halts.random, 200));
	}
	return NULL;
}

/* Begins when @nr threads have called halts_come(). */
static inline void halts_begin(unsigned nr, uint64_t seed)
{
	halts_init();
	ck_eventually(halts_nr() == nr);
	halts.over = false;
	halts.random = draws_of(seed, 2000);
	must(pthread_create(&halts.thread, NULL, halt_all, NULL));
}

static inline void halts_end(void)
{
	halts.over = true;
	must(pthread_join(halts.thread, NULL));
	halts.nr = 0;
}

#endif /* HALTS_H */
