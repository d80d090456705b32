/* SPDX-License-Identifier: MIT */
#ifndef RNL_THREAD_H
#define RNL_THREAD_H

#include <pthread.h>

/*
 * Starts a thread of the library: pthread_create(), with the signals blocked that are sent to the
 * process. What a thread does wrong itself (SIGSEGV, ...) still reaches the application's handler.
 * Return: 0, or the negative error of pthread_create().
 */
int rnl__thread_create(pthread_t *thread, void *(*main_fn)(void *), void *arg);

#endif
