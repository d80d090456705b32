/* SPDX-License-Identifier: MIT */
/*
 * Starts the library's threads: workers, a trace's writer, the host device's streams.
 *
 * DESIGN
 *	Signals sent to the process are the application's, and its own threads take them.
 *	A synchronous signal (POSIX.1-2017, 2.4.1) is raised by an instruction of the thread itself.
 *	If it is blocked, the kernel ends the process without calling the handler.  So these signals
 *	stay unblocked: a crash handler or a sanitizer sees a fault in a job.  SIGPROF stays
 *	unblocked, too, so that a profiler samples the workers.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "sys/text.h"
#include "sys/thread.h"

#define NAME_BYTES 16		/* Linux's limit, with the NUL */
#define POOL_BYTES 12

static const int unblocked[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF };

int rnl__thread_create(pthread_t *thread, void *(*main_fn)(void *), void *arg)
{
	sigset_t blocked, before;
	int ret;

	sigfillset(&blocked);
	for (unsigned i = 0; i < sizeof(unblocked) / sizeof(unblocked[0]); i++)
		sigdelset(&blocked, unblocked[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	ret = pthread_create(thread, NULL, main_fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* pthread_create() also returns the kernel's other errors, such as a seccomp filter's. */
	return !ret || ret == EAGAIN || ret == ENOMEM ? -ret : -ENOTSUP;
}

void rnl__thread_name(const char *pool, const char *suffix)
{
	const size_t space = NAME_BYTES - 2 - strlen(suffix);
	char name[NAME_BYTES], shown[POOL_BYTES + 1];

	rnl__text_copy(shown, 1 + (space < POOL_BYTES ? space : POOL_BYTES), pool);
	snprintf(name, sizeof(name), "%s-%s", shown, suffix);
	prctl(PR_SET_NAME, name, 0UL, 0UL, 0UL);
}

unsigned rnl__thread_number(void)
{
	static _Atomic unsigned next;
	static _Thread_local unsigned number __attribute__((tls_model("initial-exec")));

	if (!number)
		/* relaxed: any unique number will do */
		number = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) + 1;
	return number - 1;
}
