/* SPDX-License-Identifier: MIT */
#ifndef RNL_TIMER_THREAD_H
#define RNL_TIMER_THREAD_H

#include <runnel.h>

/* Starts the timer thread.  Returns 0, or the error of pthread_create(). */
int rnl__timer_start(struct rnl_pool *pool);

/* Ends the timer thread, if it was started. */
void rnl__timer_end(struct rnl_pool *pool);

#endif
