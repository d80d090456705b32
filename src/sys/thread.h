/* SPDX-License-Identifier: MIT */
#ifndef RNL_THREAD_H
#define RNL_THREAD_H

#include <pthread.h>

#include "sys/thread_state.h"

/*
 * Starts a thread of the library: like pthread_create(), but with all signals blocked, except
 * SIGPROF and those of faults (SIGSEGV, ...), which reach the application's handlers.
 * Returns 0, -EAGAIN or -ENOMEM (a limit is reached), or -ENOTSUP (the system refuses threads).
 */
int rnl__thread_create(pthread_t *thread, void *(*main_fn)(void *), void *arg);

/* Names the calling thread POOL-SUFFIX, with the characters of @pool that fit, at most 12 bytes. */
void rnl__thread_name(const char *pool, const char *suffix);

/* Returns the calling thread's number: 0, 1, ..., in the order of the first calls. */
unsigned rnl__thread_number(void);

/*
 * Disables cancellation of the thread to the end of the block: a pthread_cancel() takes effect
 * later.  A library function needs this if it may run on a caller's thread, and calls CUDA or a
 * function that POSIX lists as a cancellation point.
 */
#define RNL__UNCANCELLED() \
	__attribute__((cleanup(rnl__thread_cancellable), unused)) \
	int cancel_state_ = rnl__thread_uncancelled()

/* Returns the thread's earlier state, or -1 in a worker, which can never be cancelled. */
static inline int rnl__thread_uncancelled(void)
{
	int before = -1;

	if (!rnl__thread.worker)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void rnl__thread_cancellable(const int *before)
{
	if (*before >= 0)
		pthread_setcancelstate(*before, NULL);
}

#endif
