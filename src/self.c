/* SPDX-License-Identifier: MIT */
/* The calling thread's own state, and how a forked child is told from its parent. */
#include "config.h"

#include <pthread.h>

#include "self.h"

_Thread_local struct rnl__self rnl__self;

/* Written only in a fresh child, while it has one thread. */
unsigned rnl__generation;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int start_result;

static void in_child(void)
{
	rnl__generation++;
	/* Forked inside a job: this thread is no worker any more. */
	rnl__self.worker = NULL;
	rnl__self.job = NULL;
	rnl__self.guard = NULL;
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
