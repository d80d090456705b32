/* SPDX-License-Identifier: MIT */
/*
 * Ends the process if it makes no progress.
 *
 * DESIGN
 * A rank that dies, or never starts, leaves other ranks waiting in MPI or NCCL: in a call or in a
 * kernel on the device.  So before each wait the main thread names the event that it expects, and a
 * watch thread checks the time.  Each process has a watch thread and ends on its own, without a
 * message from others.  The process exits without MPI_Abort() and ncclCommAbort(), which may hang
 * too.  The system ends the process's kernels, and mpirun ends the remaining ranks.
 */
#include "config.h"

#include "buckets.h"
#include "common/program.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 20000000

static struct watch {
	pthread_mutex_t lock;
	char what[TEXT], name[32];
	uint64_t since;			/* 0: nothing is expected */
	unsigned seconds;
	const char *option;		/* the option that sets `seconds` */
	const struct transport *transport;	/* NULL: not started yet */
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The signal handler's message, formatted in advance. */
static char told[TEXT];

static void look_at_transport(void)
{
	char text[TEXT];

	if (watch.transport && watch.transport->failed && watch.transport->failed(text))
		program_die("%s%s has failed: %s (waiting for %s)", watch.name, watch.transport->name,
			    text, watch.what);
}

static void look(void)
{
	look_at_transport();
	if (watch.since && program_now_ns() - watch.since > watch.seconds * UINT64_C(1000000000))
		program_die("%snothing has moved for %u s, waiting for %s: another rank has died, "
			    "hangs, or never came (--%s=SECONDS)", watch.name, watch.seconds,
			    watch.what, watch.option);
}

static void *watch_thread(void *arg)
{
	const struct timespec pause = { 0, LOOK_NS };

	for (;;) {
		pthread_mutex_lock(&watch.lock);
		look();
		pthread_mutex_unlock(&watch.lock);
		nanosleep(&pause, NULL);
	}
	return arg;
}

/* mpirun sends SIGTERM to the other ranks when one has died. */
static void on_term(int signal)
{
	const ssize_t written = write(STDERR_FILENO, told, strlen(told));

	(void)signal;
	(void)written;
	_exit(EXIT_FAILURE);
}

void watch_begin(void)
{
	sigset_t all, before;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	ret = pthread_create(&thread, NULL, watch_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	program_must(-ret, "the thread that watches");
	pthread_detach(thread);
}

void watch_limit(const char *option, unsigned seconds)
{
	pthread_mutex_lock(&watch.lock);
	watch.option = option;
	watch.seconds = seconds;
	pthread_mutex_unlock(&watch.lock);
}

void watch_rank(unsigned rank)
{
	const struct sigaction term = { .sa_handler = on_term };

	pthread_mutex_lock(&watch.lock);
	snprintf(watch.name, sizeof(watch.name), "rank %u: ", rank);
	pthread_mutex_unlock(&watch.lock);
	snprintf(told, sizeof(told), "buckets: rank %u: ended by SIGTERM: another rank has failed, "
		 "or someone stops mpirun\n", rank);
	sigaction(SIGTERM, &term, NULL);
}

void watch_transport(const struct transport *transport)
{
	pthread_mutex_lock(&watch.lock);
	watch.transport = transport;
	pthread_mutex_unlock(&watch.lock);
}

void watch_expect(const char *what, ...)
{
	va_list args;

	pthread_mutex_lock(&watch.lock);
	va_start(args, what);
	vsnprintf(watch.what, sizeof(watch.what), what, args);
	va_end(args);
	watch.since = program_now_ns();
	pthread_mutex_unlock(&watch.lock);
}

void watch_rest(void)
{
	pthread_mutex_lock(&watch.lock);
	/* The transport may have failed since the watch thread last checked it. */
	look_at_transport();
	watch.since = 0;
	pthread_mutex_unlock(&watch.lock);
}
