/* SPDX-License-Identifier: MIT */
/* The calling thread's state, and the number that distinguishes a forked child from its parent. */
#include "config.h"

#include <pthread.h>

#include "sys/counter.h"
#include "sys/thread_state.h"

_Thread_local struct rnl__thread_state rnl__thread;

/*
 * Written only in a new child, while it has one thread.  The start value is a number that is rare
 * in random memory.  In a test build it is the last number before the wrap, which the `or` does not
 * change.
 */
unsigned rnl__generation = (unsigned)RNL__START(32, 1) | 0x72756e6eu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int start_result;

static void in_child(void)
{
	rnl__generation++;
	/* After a fork inside a job, this thread is no longer a worker. */
	rnl__thread.worker = NULL;
	rnl__thread.job = NULL;
	rnl__thread.guard = NULL;
}

static void start(void)
{
	start_result = -pthread_atfork(NULL, NULL, in_child);
}

int rnl__generation_start(void)
{
	pthread_once(&once, start);
	return start_result;
}
