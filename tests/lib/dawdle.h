/* SPDX-License-Identifier: MIT */
/*
 * Delays the threads that use a completion queue's descriptor at the worst places.
 *
 * The library is linked with the functions below: read() and write() may pause before and after the
 * real call, ppoll() before it.  So a reader is delayed between emptying and arming the descriptor,
 * and between arming it and sleeping.  A worker is delayed between its push and its write, and
 * before it leaves the queue.
 */
#ifndef DAWDLE_H
#define DAWDLE_H

#include <poll.h>
#include <sched.h>
#include <signal.h>

#include "await.h"
#include "seed.h"

#define INTERPOSED __attribute__((visibility("default")))

static uint64_t seed;			/* shared by all threads */
static _Atomic int watched = -1;	/* the descriptor */
static _Atomic unsigned nr_reads, nr_writes, nr_polls, nr_threads;
static _Atomic uint64_t nr_events;	/* counted by jobs; a test waits for it */
static _Atomic unsigned nr_destroyed;	/* destroyed queues */

static void dawdle(void)
{
	static _Thread_local uint64_t random;
	uint64_t events = nr_events;
	double until;

	if (!random)
		random = draws_of(seed, 100 + nr_threads++);
	switch (draw(&random, 32)) {
	case 0:
		usleep(draw(&random, 50));
		break;
	case 1:
	case 2:
	case 3:		/* until a job ends, or 30 us: a yield may take long */
		until = seconds_now() + 30e-6;
		for (int i = 0; i < 50 && nr_events == events && seconds_now() < until; i++)
			sched_yield();
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		sched_yield();
		break;
	default:
		break;
	}
}

INTERPOSED ssize_t read(int fd, void *buf, size_t bytes)
{
	bool ours = fd == watched;
	ssize_t ret;

	if (ours)
		dawdle();
	ret = syscall(SYS_read, fd, buf, bytes);
	if (ours) {
		nr_reads++;
		dawdle();
	}
	return ret;
}

INTERPOSED ssize_t write(int fd, const void *buf, size_t bytes)
{
	bool ours = fd == watched;
	unsigned destroyed = nr_destroyed;
	ssize_t ret;

	if (ours)
		dawdle();
	ret = syscall(SYS_write, fd, buf, bytes);
	if (ours) {
		nr_writes++;
		dawdle();
		if (nr_destroyed != destroyed)
			ck_abort_msg("a queue was destroyed before the last write to it");
	}
	return ret;
}

INTERPOSED int ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *timeout,
		     const sigset_t *mask)
{
	struct timespec left = timeout ? *timeout : (struct timespec){ 0 };

	/* The library is the only caller of ppoll() in these tests. */
	nr_polls++;
	dawdle();
	return (int)syscall(SYS_ppoll, fds, nr, timeout ? &left : NULL, mask, 8);
}

#endif /* DAWDLE_H */
