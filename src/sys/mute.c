/* SPDX-License-Identifier: MIT */
/* Writes without signals; mute.h says why. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "sys/mute.h"

void rnl__mute_begin(struct rnl__mute *mute)
{
	sigset_t raised;

	sigemptyset(&raised);
	sigaddset(&raised, SIGPIPE);
	sigaddset(&raised, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &raised, &mute->mask);
	sigpending(&mute->pending);
}

void rnl__mute_end(const struct rnl__mute *mute, int error)
{
	const int raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
	const struct timespec now = { 0 };
	const int saved = errno;
	sigset_t set;

	/* A signal that was pending before is the application's. */
	if (raised && !sigismember(&mute->pending, raised)) {
		sigemptyset(&set);
		sigaddset(&set, raised);
		(void)sigtimedwait(&set, NULL, &now);
	}
	pthread_sigmask(SIG_SETMASK, &mute->mask, NULL);
	errno = saved;
}
