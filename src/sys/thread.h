/* SPDX-License-Identifier: MIT */
#ifndef RNL_THREAD_H
#define RNL_THREAD_H

#include <pthread.h>

#include "sys/thread_state.h"

/*
 * Starts a thread of the library: pthread_create(), with the signals blocked that are sent to the
 * process. What a thread does wrong itself (SIGSEGV, ...) still reaches the application's handler.
 * Return: 0; -EAGAIN, -ENOMEM a limit is reached; -ENOTSUP the system refuses threads.
 */
int rnl__thread_create(pthread_t *thread, void *(*main_fn)(void *), void *arg);

/* Calls the calling thread POOL-SUFFIX, with the characters of @pool that fit, 12 bytes at most. */
void rnl__thread_name(const char *pool, const char *suffix);

/* Return: the calling thread's own number: 0, 1, ..., as threads first ask. */
unsigned rnl__thread_number(void);

/*
 * From here to the end of the block, the thread cannot be cancelled: pthread_cancel() has its
 * effect later.  It stands in each function of the library that may be called on a caller's thread
 * and makes a call that POSIX lists as a cancellation point, or any call of CUDA.
 */
#define RNL__UNCANCELLED() \
	__attribute__((cleanup(rnl__thread_cancellable), unused)) \
	int cancel_state_ = rnl__thread_uncancelled()

/* Return: the thread's state before; -1: a worker, which can never be cancelled. */
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
